/* Bit tricks that need a builtin. */
#ifndef QCORE_CLZ_H
#define QCORE_CLZ_H
#include <stdint.h>

/* Smallest k with 2**k >= value; value >= 1. */
static inline int qc_log2_ceil(uint64_t value) { return value <= 1 ? 0 : 64 - __builtin_clzll(value - 1); }
static inline int qc_count_trailing_zeros(uint64_t value) { return __builtin_ctzll(value); }
static inline int qc_popcount(uint64_t value) { return __builtin_popcountll(value); }
#endif
