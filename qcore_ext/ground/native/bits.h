/* Bitmaps: bit i is counted from the least significant bit of byte i / 8. */
#ifndef QCORE_BITS_H
#define QCORE_BITS_H
#include <stdint.h>
#include <string.h>

/* The bits rows[0..n), in whole words of 64 bits. The bits behind the last row are ones. */
static inline void qc_gather_bits(const uint8_t *bits, const uint32_t *rows, int64_t n, uint8_t *out) {
    for (int64_t start = 0; start < n; start += 64) {
        const int64_t m = n - start < 64 ? n - start : 64;
        uint64_t word = m < 64 ? ~(uint64_t) 0 << m : 0;
        for (int64_t i = 0; i < m; i++) {
            const uint32_t row = rows[start + i];
            word |= (uint64_t) ((bits[row >> 3] >> (row & 7)) & 1) << i;
        }
        memcpy(out + (start >> 3), &word, 8);
    }
}

/* Clear those of the bits at..at+n of `out` for which the bits start..start+n of `bits` are 0. Reads no byte of `bits`
   that has none of them. */
static inline void qc_clear_missing(uint8_t *out, int64_t at, const uint8_t *bits, int64_t start, int64_t n) {
    while (n > 0) {
        const int into = at & 7, from = start & 7, k = n < 8 - into ? (int) n : 8 - into;
        unsigned some = bits[start >> 3] >> from;
        if (from + k > 8) some |= (unsigned) bits[(start >> 3) + 1] << (8 - from);
        out[at >> 3] &= (uint8_t) ~((~some & ((1u << k) - 1)) << into);
        at += k;
        start += k;
        n -= k;
    }
}
#endif
