/* Kernels that group rows and sum by group; dispatch.h chooses their instruction set. */
#ifndef QCORE_GROUPING_H
#define QCORE_GROUPING_H
#include <stdint.h>

typedef struct {
    /* Hashes of keys of one or two words, and of which of their columns are null. */
    void (*hash_one)(const uint64_t *low, const uint32_t *nulls, int64_t n, uint64_t *hashes);
    void (*hash_two)(const uint64_t *low, const uint64_t *high, const uint32_t *nulls, int64_t n, uint64_t *hashes);
    /* codes[i] += (number of row i - low + 1) * stride. The number of the empty string is 0, that of a string of one
       byte is the byte + 1. A view has four words: its length, its first four bytes, and two that are not read here.
       Returns non-zero if a string is longer than one byte or its number is not in low..low + span - 1. */
    uint32_t (*add_letters)(const uint32_t *views, int64_t n, uint32_t low, uint32_t span, uint32_t stride,
                            uint32_t *codes);
    /* Sums of values, and numbers of rows, by group; groups[i] < n_groups <= GROUPING_FEW. No sum overflows. */
    void (*sum_few)(const int64_t *values, const uint32_t *groups, int64_t n, int64_t n_groups, int64_t *sums);
    void (*count_few)(const uint32_t *groups, int64_t n, int64_t n_groups, int64_t *counts);
} GroupingKernels;

enum { GROUPING_FEW = 64 };
#endif
