/* Kernels that sort words; dispatch.h chooses their instruction set. */
#ifndef QCORE_SORTING_H
#define QCORE_SORTING_H
#include <stdint.h>

typedef struct {
    /* Sort words in place; equal words are alike, so their order has no meaning. NULL below x86-64-v4: without an
       instruction that divides a register by a mask, the radix sort is faster. */
    void (*sort_words)(uint64_t *words, int64_t n);
} SortingKernels;
#endif
