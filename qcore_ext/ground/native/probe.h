/* Kernels that look keys up in join tables; dispatch.h chooses their instruction set. */
#ifndef QCORE_PROBE_H
#define QCORE_PROBE_H
#include <stdint.h>

/* 64 codes of a set of small integers: a bit for each code, and the number of set bits in all words before. */
typedef struct { uint64_t bits; uint32_t rank; uint32_t unused; } QcRankWord;
/* Rows of one key: a run within a list of rows. count 0: none. */
typedef struct { uint32_t start; uint32_t count; } QcGroup;
/* One slot of an open-addressing table. The slots of a cache line are searched together: a key stands in the first free
   slot of the line of its home slot, or in one of the next lines if that line is full. A slot has either a group, and is
   free if the count is 0, or a value, and is free if the key is QC_FREE_KEY. */
typedef struct { uint64_t key; union { QcGroup group; uint64_t value; }; } QcSlot;
#define QC_FREE_KEY UINT64_MAX
#define QC_LINE_SLOTS 4
_Static_assert(QC_LINE_SLOTS * sizeof(QcSlot) == 64, "a line of slots is a cache line");

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
    /* flags[i] &= both bits of hashes[i] are set: in the word that the bits of `mask` but the lowest 5 choose, those that
       the lowest and the highest 5 bits of the hash number. */
    void (*filter_test)(const uint32_t *filter, uint32_t mask, const uint32_t *hashes, int64_t n, uint8_t *flags);
    /* Look each key up in the line of its home slot. flags: in: the key is looked up; out: a slot of the line has it.
       pending: the key is looked up, and all slots of the line have other keys. slot_numbers: in: the home slot; out:
       the slot with the key, or the last one of the line. groups: that slot's group or value. of_values: slots have
       values, and no key is QC_FREE_KEY. Returns the number of pending keys. */
    int64_t (*line_slots)(const QcSlot *slots, int of_values, const uint64_t *keys, uint32_t *slot_numbers, int64_t n,
                          uint8_t *flags, uint8_t *pending, QcGroup *groups);
} ProbeKernels;
#endif
