/* Kernels that look keys up in join tables; dispatch.h chooses their instruction set. */
#ifndef QCORE_PROBE_H
#define QCORE_PROBE_H
#include <stdint.h>

/* 64 codes of a set of small integers: which are in it, and how many are in all words before. */
typedef struct { uint64_t bits; uint32_t rank; uint32_t unused; } QcRankWord;
/* Rows of one key: a run within a list of rows. count 0: none. */
typedef struct { uint32_t start; uint32_t count; } QcGroup;
/* One slot of an open-addressing table. */
typedef struct { uint64_t key; QcGroup group; } QcSlot;

typedef struct {
    /* Distances from `minimum`; flags: 1 where the distance is at most `range`, else 0 and the code is 0. */
    void (*codes)(const uint64_t *keys, int64_t n, uint64_t minimum, uint64_t range, uint64_t *codes, uint8_t *flags);
    /* flags[i] &= codes[i] is in the set; the code of a flag that is 0 is not used. */
    void (*rank_test)(const QcRankWord *words, const uint64_t *codes, int64_t n, uint8_t *flags);
    /* Ranks of codes[at[i]], which are in the set. */
    void (*ranks)(const QcRankWord *words, const uint64_t *codes, const uint32_t *at, int64_t n, uint32_t *ranks);
    /* Set the ranks of all words; the number of bits. */
    int64_t (*rank_fill)(QcRankWord *words, int64_t n_words, uint32_t rank);
    /* mix(keys[i]) & mask; `mask` fits 32 bits. */
    void (*places)(const uint64_t *keys, int64_t n, uint64_t mask, uint32_t *places);
    /* Compare each key with the slot at its place. flags: wanted; then, found. pending: wanted, and another key is there.
       groups: the slot's. Returns how many are pending. */
    int64_t (*first_slots)(const QcSlot *slots, const uint64_t *keys, const uint32_t *places, int64_t n, uint8_t *flags,
                           uint8_t *pending, QcGroup *groups);
} ProbeKernels;
#endif
