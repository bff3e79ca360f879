/* Decompression of Snappy's raw format. The bound of a scan of snappy files: 2 GB/s here, 0.8 in libarrow.

   A processor waits most of the time, because the place of an element is known only when the one before is read. Two
   texts at a time share that wait: prices and keys of TPC-H 2.1 -> 3.4 GB/s, comments and dates 1.2 times. */
#ifndef QCORE_PARQUET_SNAPPY_H
#define QCORE_PARQUET_SNAPPY_H
#include "kernels.h"

/* Read the uncompressed length at the start of `in`. Returns -1 if it is not a valid length. */
static inline int64_t qp_snappy_length(const uint8_t *in, int64_t n) {
    uint64_t length;
    const uint8_t *at = in;
    return qp_varint(&at, in + n, 32, &length) ? (int64_t) length : -1;
}

static inline void qp_copy16(uint8_t *to, const uint8_t *from) {
    uint64_t low = qp_load64(from), high = qp_load64(from + 8);
    qp_store64(to, low);
    qp_store64(to + 8, high);
}

/* Repeat the `offset` bytes before `op` for `length` bytes. Writes up to 15 bytes more. */
static inline void qp_repeat(uint8_t *op, int64_t offset, int64_t length) {
    const uint8_t *from = op - offset;
    uint8_t *end = op + length;
    if (offset >= 16) {
        do { qp_copy16(op, from); op += 16; from += 16; } while (op < end);
        return;
    }
    /* After each step of 8 bytes the distance doubles, until a step does not read what it writes. */
    while (offset < 8 && op < end) {
        qp_store64(op, qp_load64(from));
        op += offset;
        offset *= 2;
    }
    for (; op < end; op += 8, from += 8) qp_store64(op, qp_load64(from));
}

/* The meaning of a tag: length in bits 0 to 7, QP_SLOW, the high bits of a copy's offset in bits 16 to 26. */
#define QP_SLOW 0x8000
#define QP_TAG(t)                                                                                                    \
    ((t) & 3) == 0 ? ((t) >> 2 < 60 ? ((t) >> 2) + 1 : QP_SLOW)                                                      \
    : ((t) & 3) == 1 ? 4 + (((t) >> 2) & 7) + ((t) >> 5 << 24)                                                       \
    : ((t) & 3) == 2 ? ((t) >> 2) + 1 : QP_SLOW
#define QP_TAGS4(t) QP_TAG(t), QP_TAG((t) + 1), QP_TAG((t) + 2), QP_TAG((t) + 3)
#define QP_TAGS16(t) QP_TAGS4(t), QP_TAGS4((t) + 4), QP_TAGS4((t) + 8), QP_TAGS4((t) + 12)
#define QP_TAGS64(t) QP_TAGS16(t), QP_TAGS16((t) + 16), QP_TAGS16((t) + 32), QP_TAGS16((t) + 48)
static const uint32_t qp_tags[256] = {QP_TAGS64(0), QP_TAGS64(64), QP_TAGS64(128), QP_TAGS64(192)};
static const uint32_t qp_offset_masks[4] = {0, 0xFF, 0xFFFF, 0};

/* A text that is being decompressed. in..in_end and out..out_end have QP_SLACK bytes to spare behind their ends. */
typedef struct {
    const uint8_t *ip;          /* the next element */
    const uint8_t *in_end;
    uint8_t *op;                /* where its bytes go */
    uint8_t *out;
    uint8_t *out_end;
} QpSnappy;

static inline int qp_snappy_begin(QpSnappy *text, const uint8_t *in, int64_t n, uint8_t *out, int64_t size) {
    uint64_t length;
    text->ip = in;
    text->in_end = in + n;
    text->op = text->out = out;
    text->out_end = out + size;
    return qp_varint(&text->ip, text->in_end, 32, &length) && (int64_t) length == size;
}

/* One element with all checks. The slack covers the 5 bytes of the longest head. Returns 0 if it is damaged. */
static __attribute__((noinline)) int qp_snappy_element(QpSnappy *text) {
    const uint8_t *ip = text->ip;
    uint8_t *op = text->op;
    const uint32_t tag = *ip++, word = qp_load32(ip);
    int64_t len = (tag >> 2) + 1, offset;
    if ((tag & 3) == 0) {
        if (len > 60) {
            int extra = (int) len - 60;
            len = (int64_t) (extra == 4 ? word : word & (((uint32_t) 1 << 8 * extra) - 1)) + 1;
            ip += extra;
        }
        if (len > text->in_end - ip || len > text->out_end - op) return 0;
        memcpy(op, ip, (size_t) len);
        text->ip = ip + len;
        text->op = op + len;
        return 1;
    }
    if ((tag & 3) == 1) {
        len = 4 + ((tag >> 2) & 7);
        offset = (tag >> 5) << 8 | (word & 0xFF);
        ip += 1;
    } else if ((tag & 3) == 2) {
        offset = word & 0xFFFF;
        ip += 2;
    } else {
        offset = word;
        ip += 4;
    }
    if ((uint64_t) (offset - 1) >= (uint64_t) (op - text->out) || len > text->out_end - op || ip > text->in_end) return 0;
    qp_repeat(op, offset, len);
    text->ip = ip;
    text->op = op + len;
    return 1;
}

/* Whether the next element is far enough from both ends for QP_SNAPPY_STEP. It takes and makes at most 64 bytes. */
#define QP_SNAPPY_FAR(text, ip, op) ((text).in_end - (ip) > 64 && (text).out_end - (op) > 64)

/* One element of a text, whose `ip` and `op` are in the variables `at` and `to`. One path serves short literals and copies,
   which alternate in no order that a processor could predict: comments of TPC-H 1.25 -> 2.0 GB/s. */
#define QP_SNAPPY_STEP(text, at, to)                                                                                 \
    do {                                                                                                             \
        const uint32_t tag = *at, entry = qp_tags[tag], kind = tag & 3;                                              \
        const int64_t len = entry & 0xFF;                                                                            \
        const int64_t offset = (entry >> 16) + (qp_load32(at + 1) & qp_offset_masks[kind]);                          \
        const int literal = kind == 0;                                                                               \
        if (entry & QP_SLOW) {                                                                                       \
            (text).ip = at;                                                                                          \
            (text).op = to;                                                                                          \
            if (!qp_snappy_element(&(text))) goto damaged;                                                           \
            at = (text).ip;                                                                                          \
            to = (text).op;                                                                                          \
            break;                                                                                                   \
        }                                                                                                            \
        if (!literal && (uint64_t) (offset - 1) >= (uint64_t) (to - (text).out)) goto damaged;                       \
        const uint8_t *from = literal ? at + 1 : to - offset;                                                        \
        at += literal ? (tag >> 2) + 2 : 1 + kind;                                                                   \
        if (len <= 16 && (literal || offset >= len)) {                                                               \
            /* Of a copy the bytes behind the `offset` ones are not used, and may be written at the same time. */    \
            qp_copy16(to, from);                                                                                     \
        } else if (literal) {                                                                                        \
            qp_copy16(to, from); qp_copy16(to + 16, from + 16);                                                      \
            qp_copy16(to + 32, from + 32); qp_copy16(to + 48, from + 48);                                            \
        } else {                                                                                                     \
            qp_repeat(to, offset, len);                                                                              \
        }                                                                                                            \
        to += len;                                                                                                   \
    } while (0)

/* Decompress the rest of a text. Returns 0 if it is damaged. */
static int qp_snappy_finish(QpSnappy *text) {
    while (text->ip < text->in_end) {
        const uint8_t *ip = text->ip;
        uint8_t *op = text->op;
        while (QP_SNAPPY_FAR(*text, ip, op)) QP_SNAPPY_STEP(*text, ip, op);
        text->ip = ip;
        text->op = op;
        if (ip < text->in_end && !qp_snappy_element(text)) return 0;
    }
    return text->op == text->out_end;
damaged:
    return 0;
}

/* Decompress in[0..n) to exactly out[0..size). Both have QP_SLACK bytes to spare. Returns 0 if the input is damaged:
   nothing is read or written outside. */
static int qp_snappy(const uint8_t *in, int64_t n, uint8_t *out, int64_t size) {
    QpSnappy text;
    return qp_snappy_begin(&text, in, n, out, size) && qp_snappy_finish(&text);
}

/* The same for two texts. Returns 0 if one of them is damaged. */
static int qp_snappy_pair(
    const uint8_t *in_a, int64_t n_a, uint8_t *out_a, int64_t size_a,
    const uint8_t *in_b, int64_t n_b, uint8_t *out_b, int64_t size_b
) {
    QpSnappy a, b;
    if (!qp_snappy_begin(&a, in_a, n_a, out_a, size_a) || !qp_snappy_begin(&b, in_b, n_b, out_b, size_b)) return 0;
    const uint8_t *ip_a = a.ip, *ip_b = b.ip;
    uint8_t *op_a = a.op, *op_b = b.op;
    while (QP_SNAPPY_FAR(a, ip_a, op_a) && QP_SNAPPY_FAR(b, ip_b, op_b)) {
        QP_SNAPPY_STEP(a, ip_a, op_a);
        QP_SNAPPY_STEP(b, ip_b, op_b);
    }
    a.ip = ip_a; a.op = op_a;
    b.ip = ip_b; b.op = op_b;
    return qp_snappy_finish(&a) && qp_snappy_finish(&b);
damaged:
    return 0;
}
#endif
