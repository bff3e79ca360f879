/* Kernels that look keys up in join tables; dispatch.h chooses their instruction set. */
#ifndef QCORE_PROBE_H
#define QCORE_PROBE_H
#include <stdint.h>

/* 64 codes of a set of small integers: a bit for each code, and the number of set bits in all words before. */
typedef struct { uint64_t bits; uint32_t rank; uint32_t unused; } QcRankWord;
/* Rows of one key: a run within a list of rows. count 0: none. */
typedef struct { uint32_t start; uint32_t count; } QcGroup;
/* One slot of an open-addressing table. */
typedef struct { uint64_t key; QcGroup group; } QcSlot;

typedef struct {
    /* codes: distances from `minimum`. Above `range` the code and the flag are 0, else the flag is 1. */
    void (*codes)(const uint64_t *keys, int64_t n, uint64_t minimum, uint64_t range, uint64_t *codes, uint8_t *flags);
    /* flags[i] &= codes[i] is in the set. Codes whose flag is 0 are not read. */
    void (*rank_test)(const QcRankWord *words, const uint64_t *codes, int64_t n, uint8_t *flags);
    /* Ranks of codes[at[i]], which are in the set. */
    void (*ranks)(const QcRankWord *words, const uint64_t *codes, const uint32_t *at, int64_t n, uint32_t *ranks);
    /* Set the ranks of all words. Returns the number of set bits. */
    int64_t (*rank_fill)(QcRankWord *words, int64_t n_words, uint32_t rank);
    /* mix(keys[i]) & mask; `mask` fits 32 bits. */
    void (*home_slots)(const uint64_t *keys, int64_t n, uint64_t mask, uint32_t *out);
    /* Compare each key with its home slot. flags: in: the key is looked up; out: the slot has it. pending: the key is
    looked
       up and the slot has another one. groups: the slot's. Returns the number of pending keys. */
    int64_t (*first_slots)(const QcSlot *slots, const uint64_t *keys, const uint32_t *home_slots, int64_t n, uint8_t
    *flags,
                           uint8_t *pending, QcGroup *groups);
} ProbeKernels;
#endif
