/* Decompression of Snappy's raw format. The bound of a scan of snappy files: 2 GB/s here, 0.8 in libarrow. */
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

/* Decompress in[0..n) to exactly out[0..size). Both have QP_SLACK bytes to spare. Returns 0 if the input is damaged:
   nothing is read or written outside. */
static int qp_snappy(const uint8_t *in, int64_t n, uint8_t *out, int64_t size) {
    const uint8_t *ip = in, *const in_end = in + n;
    uint8_t *op = out, *const out_end = out + size;
    uint64_t length;
    if (!qp_varint(&ip, in_end, 32, &length) || (int64_t) length != size) return 0;
    while (ip < in_end) {
        /* Far from both ends one path serves short literals and copies, which alternate in no order that a processor
           could predict: comments of TPC-H 1.25 -> 2.0 GB/s. An element takes and makes at most 64 bytes. */
        while (in_end - ip > 64 && out_end - op > 64) {
            const uint32_t tag = *ip, entry = qp_tags[tag], kind = tag & 3;
            const int64_t len = entry & 0xFF;
            const int64_t offset = (entry >> 16) + (qp_load32(ip + 1) & qp_offset_masks[kind]);
            const int literal = kind == 0;
            if (entry & QP_SLOW) break;
            if (!literal && (uint64_t) (offset - 1) >= (uint64_t) (op - out)) return 0;
            const uint8_t *from = literal ? ip + 1 : op - offset;
            ip += literal ? (tag >> 2) + 2 : 1 + kind;
            if (len <= 16 && (literal || offset >= len)) {
                /* Of a copy the bytes behind the `offset` ones are not used, and may be written at the same time. */
                qp_copy16(op, from);
            } else if (literal) {
                qp_copy16(op, from); qp_copy16(op + 16, from + 16);
                qp_copy16(op + 32, from + 32); qp_copy16(op + 48, from + 48);
            } else {
                qp_repeat(op, offset, len);
            }
            op += len;
        }
        if (ip >= in_end) break;
        /* One element with all checks. The slack covers the 5 bytes of the longest head. */
        const uint32_t tag = *ip++, word = qp_load32(ip);
        int64_t len = (tag >> 2) + 1, offset;
        if ((tag & 3) == 0) {
            if (len > 60) {
                int extra = (int) len - 60;
                len = (int64_t) (extra == 4 ? word : word & (((uint32_t) 1 << 8 * extra) - 1)) + 1;
                ip += extra;
            }
            if (len > in_end - ip || len > out_end - op) return 0;
            memcpy(op, ip, (size_t) len);
            ip += len;
            op += len;
            continue;
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
        if ((uint64_t) (offset - 1) >= (uint64_t) (op - out) || len > out_end - op || ip > in_end) return 0;
        qp_repeat(op, offset, len);
        op += len;
    }
    return op == out_end;
}
#endif
