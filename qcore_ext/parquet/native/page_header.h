/* Page headers: Thrift structs in compact encoding. */
#ifndef QCORE_PARQUET_PAGE_HEADER_H
#define QCORE_PARQUET_PAGE_HEADER_H
#include "kernels.h"

enum { QP_DATA_PAGE = 0, QP_INDEX_PAGE = 1, QP_DICTIONARY_PAGE = 2, QP_DATA_PAGE_V2 = 3 };

typedef struct {
    int64_t type;
    int64_t n_bytes;                /* of the page as it is stored, behind the header */
    int64_t n_uncompressed;
    int64_t n_values;               /* rows of a flat column; values of a dictionary */
    int64_t encoding;
    int64_t level_encoding;         /* v1 */
    int64_t n_nulls;                /* v2; -1: unknown */
    int64_t definition_bytes;       /* v2 */
    int64_t repetition_bytes;       /* v2 */
    int64_t is_compressed;          /* v2 */
    int has_details;                /* the struct of the page's type was there */
} QpPage;

typedef struct { const uint8_t *at, *end; int short_of; int bad; } QpThrift;

static inline uint8_t qp_thrift_byte(QpThrift *t) {
    if (t->at >= t->end) { t->short_of = 1; return 0; }
    return *t->at++;
}

static inline uint64_t qp_thrift_varint(QpThrift *t) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        uint8_t byte = qp_thrift_byte(t);
        if (shift < 64) value |= (uint64_t) (byte & 0x7F) << shift;
        if (!(byte & 0x80)) return value;
    }
    t->bad = 1;
    return 0;
}

static inline int64_t qp_thrift_integer(QpThrift *t) {
    uint64_t value = qp_thrift_varint(t);
    return (int64_t) (value >> 1) ^ -(int64_t) (value & 1);
}

static void qp_thrift_skip(QpThrift *t, int type, int depth) {
    if (depth > 16) t->bad = 1;
    if (t->bad || t->short_of) return;
    switch (type) {
    case 1: case 2: return;                                     /* booleans of a struct are in the field's head */
    case 3: qp_thrift_byte(t); return;
    case 4: case 5: case 6: qp_thrift_varint(t); return;
    case 7:
        if (t->end - t->at < 8) t->short_of = 1; else t->at += 8;
        return;
    case 8: {
        uint64_t n = qp_thrift_varint(t);
        if (n > (uint64_t) (t->end - t->at)) t->short_of = 1; else t->at += n;
        return;
    }
    case 9: case 10: {
        uint8_t head = qp_thrift_byte(t);
        uint64_t n = head >> 4 == 15 ? qp_thrift_varint(t) : head >> 4;
        int inner = head & 15;
        if (n > (uint64_t) (t->end - t->at)) { t->short_of = 1; return; }
        for (uint64_t i = 0; i < n && !t->bad && !t->short_of; i++) {
            if (inner == 1 || inner == 2) qp_thrift_byte(t); else qp_thrift_skip(t, inner, depth + 1);
        }
        return;
    }
    case 12:
        for (;;) {
            uint8_t head = qp_thrift_byte(t);
            if (head == 0 || t->bad || t->short_of) return;
            if (!(head >> 4)) qp_thrift_varint(t);
            qp_thrift_skip(t, head & 15, depth + 1);
        }
    default: t->bad = 1;                                        /* no field of a page header is a map */
    }
}

/* Read the fields of the struct of the page's type. `slots` are where integer fields go, by number; NULL: skipped. */
static void qp_thrift_details(QpThrift *t, int64_t **slots, int n_slots, int flag, int64_t *flag_value) {
    int64_t id = 0;
    for (;;) {
        uint8_t head = qp_thrift_byte(t);
        if (head == 0 || t->bad || t->short_of) return;
        id = head >> 4 ? id + (head >> 4) : qp_thrift_integer(t);
        if (id < 0 || id > INT16_MAX) { t->bad = 1; return; }
        int type = head & 15;
        if (flag_value && id == flag && (type == 1 || type == 2)) *flag_value = type == 1;
        else if (id > 0 && id < n_slots && slots[id] && type >= 4 && type <= 6) *slots[id] = qp_thrift_integer(t);
        else qp_thrift_skip(t, type, 0);
    }
}

/* Read a page's header. Returns its length; 0: it is longer than the n bytes; -1: it is malformed. */
static int64_t qp_page_header(const uint8_t *bytes, int64_t n, QpPage *page) {
    QpThrift t = {bytes, bytes + n, 0, 0};
    int64_t id = 0, details = -1;
    memset(page, 0, sizeof *page);
    page->type = page->n_bytes = page->n_uncompressed = page->n_values = page->encoding = -1;
    page->n_nulls = -1;
    page->is_compressed = 1;
    for (;;) {
        uint8_t head = qp_thrift_byte(&t);
        if (t.short_of) return 0;
        if (t.bad) return -1;
        if (head == 0) break;
        id = head >> 4 ? id + (head >> 4) : qp_thrift_integer(&t);
        if (id < 0 || id > INT16_MAX) return t.short_of ? 0 : -1;
        int type = head & 15;
        if (id == 1 && type == 5) page->type = qp_thrift_integer(&t);
        else if (id == 2 && type == 5) page->n_uncompressed = qp_thrift_integer(&t);
        else if (id == 3 && type == 5) page->n_bytes = qp_thrift_integer(&t);
        else if (id == 5 && type == 12) {
            int64_t *slots[] = {0, &page->n_values, &page->encoding, &page->level_encoding};
            qp_thrift_details(&t, slots, 4, -1, 0);
            details = QP_DATA_PAGE;
        } else if (id == 7 && type == 12) {
            int64_t *slots[] = {0, &page->n_values, &page->encoding};
            qp_thrift_details(&t, slots, 3, -1, 0);
            details = QP_DICTIONARY_PAGE;
        } else if (id == 8 && type == 12) {
            int64_t *slots[] = {0, &page->n_values, &page->n_nulls, 0, &page->encoding, &page->definition_bytes,
                                &page->repetition_bytes};
            qp_thrift_details(&t, slots, 7, 7, &page->is_compressed);
            details = QP_DATA_PAGE_V2;
        } else qp_thrift_skip(&t, type, 0);
    }
    if (t.short_of) return 0;
    if (t.bad || page->n_bytes < 0 || page->n_uncompressed < 0 || page->n_bytes > INT32_MAX
        || page->n_uncompressed > INT32_MAX) return -1;
    page->has_details = details == page->type;
    if (page->has_details && (page->n_values < 0 || page->n_values > INT32_MAX || page->definition_bytes < 0
        || page->repetition_bytes < 0)) return -1;
    return t.at - bytes;
}
#endif
