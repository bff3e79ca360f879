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

/* The word of bits from the i-th on, i a multiple of 64, without those at n and behind it. */
static inline uint64_t qc_bits_word(const uint8_t *bits, int64_t i, int64_t n) {
    uint64_t word = 0;
    memcpy(&word, bits + (i >> 3), n - i >= 64 ? 8 : (size_t) (n - i + 7) >> 3);
    return n - i >= 64 ? word : word & (((uint64_t) 1 << (n - i)) - 1);
}

/* How many of n bits are set. */
static inline int64_t qc_count_bits(const uint8_t *bits, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += 64) count += __builtin_popcountll(qc_bits_word(bits, i, n));
    return count;
}

/* List the positions of those of n bits that are set; NULL: all of them are. Returns how many. */
static inline int64_t qc_set_rows(const uint8_t *bits, int64_t n, uint32_t *rows) {
    int64_t count = 0;
    if (!bits) {
        for (; count < n; count++) rows[count] = (uint32_t) count;
        return n;
    }
    for (int64_t i = 0; i < n; i += 64)
        for (uint64_t word = qc_bits_word(bits, i, n); word; word &= word - 1)
            rows[count++] = (uint32_t) (i + __builtin_ctzll(word));
    return count;
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
