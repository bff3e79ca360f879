/* Kernels that group rows and sum by group; dispatch.h chooses their instruction set. */
#ifndef QCORE_GROUPING_H
#define QCORE_GROUPING_H
#include <stdint.h>

/* A text of at most QC_TEXT_MAX bytes as four words: its bytes, zeros, and in the last byte its length. Another last byte
   stands for null, or for a longer text, which has no words. */
enum { QC_TEXT_MAX = 31, QC_TEXT_LONGER = 0xFE, QC_TEXT_NULL = 0xFF };
typedef struct { uint64_t words[4]; } QcTextKey;

/* A perfect hash of numbered keys: each has a position of its own. rows/perfect_hash makes it. */
typedef struct {
    uint32_t *numbers;              /* the number of each position's key; of an empty position, that of any key */
    uint16_t *shifts;               /* what moves the positions of a bucket's keys; they follow the numbers */
    uint64_t factor;
    uint64_t position_mask;
    int64_t n_keys;                 /* number of keys when it was made */
    int bucket_shift;               /* key * factor >> bucket_shift is the bucket */
    int position_shift;
} QcPositions;

typedef struct {
    /* Hashes of keys of one or two words, and of which of their columns are null. */
    void (*hash_one)(const uint64_t *low, const uint32_t *nulls, int64_t n, uint64_t *hashes);
    void (*hash_two)(const uint64_t *low, const uint64_t *high, const uint32_t *nulls, int64_t n, uint64_t *hashes);
    /* hash_one, and compare each key with that of the group in the slot `hash & mask`. A slot has a group plus one; 0 if
       it is empty. words[g] is the key of group g, and masks[g] its nulls (NULL: no group has any). groups[i] = the group
       with the key of row i. Lists the rows whose key is not that of the slot in `pending`, and returns how many. */
    int64_t (*find_one)(const uint32_t *slots, int64_t mask, const uint64_t *words, const uint32_t *masks,
                        const uint64_t *low, const uint32_t *nulls, int64_t n, uint64_t *hashes, uint32_t *groups,
                        uint32_t *pending);
    /* The same for keys of two words: words[2 * g] is the low one of group g, and words[2 * g + 1] the high one. */
    int64_t (*find_two)(const uint32_t *slots, int64_t mask, const uint64_t *words, const uint32_t *masks,
                        const uint64_t *low, const uint64_t *high, const uint32_t *nulls, int64_t n, uint64_t *hashes,
                        uint32_t *groups, uint32_t *pending);
    /* codes[i] += (number of row i - low + 1) * stride. The number of the empty string is 0, that of a string of one
       byte is the byte + 1. A view has four words: its length, its first four bytes, and two that are not read here.
       Returns non-zero if a string is longer than one byte or its number is not in low..low + span - 1. */
    uint32_t (*add_letters)(const uint32_t *views, int64_t n, uint32_t low, uint32_t span, uint32_t stride,
                            uint32_t *codes);
    /* Sums of values, and numbers of rows, by group; groups[i] < n_groups <= GROUPING_FEW. The result is below 2**52 if
       all magnitudes are; otherwise sums may have overflowed and must not be used. n <= 2**11. `bits`: a bitmap of the rows
       that count, NULL for all. Whole bytes of it are read, and other rows have a group too. */
    uint64_t (*sum_few)(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups,
                        int64_t *sums);
    /* The bits in which some value differs from its sign: no magnitude is above the result + 1. */
    uint64_t (*magnitude_bits)(const int64_t *values, int64_t n);
    void (*count_few)(const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups, int64_t *counts);
    /* The sum of all rows that count is high * 2**32 + low; n < 2**31. One pass, in which nothing overflows. */
    void (*sum_all)(const int64_t *values, const uint8_t *bits, int64_t n, int64_t *high, uint64_t *low);
    /* The order of the additions depends on n alone. */
    double (*sum_doubles)(const double *values, const uint8_t *bits, int64_t n);
    /* out[i] = values[i] where row i counts, else 0. */
    void (*mask_words)(const uint64_t *values, const uint8_t *bits, int64_t n, uint64_t *out);
    /* The keys of n string views, and their fingerprints. `valid`: a bitmap, NULL if no row is null. The views of null
       rows are not followed. A key of the kind QC_TEXT_LONGER equals no other. */
    void (*text_keys)(const void *views, const uint8_t *valid, int64_t n, QcTextKey *keys, uint64_t *prints);
    /* numbers[i] = the number of the text that has the position of row i; `keys` has the texts by number. Lists the rows
       that have another text in `misses`, and returns how many. n <= 2**11 */
    int64_t (*find_texts)(const QcPositions *positions, const QcTextKey *keys, const void *views, const uint8_t *valid,
                          int64_t n, uint32_t *numbers, uint32_t *misses);
    /* numbers[i] = the number of the word that has the position of keys[i]; `words` has the words by number. Returns
       non-zero if one of them is not keys[i]. */
    uint64_t (*find_words)(const QcPositions *positions, const uint64_t *words, const uint64_t *keys, int64_t n,
                           uint32_t *numbers);
    /* Hashes of n string views. Lists the rows whose text is longer than QC_TEXT_MAX bytes in `longer`, and returns how
       many: their hashes, and those of null rows, stand for nothing. n <= 2**11 */
    int64_t (*hash_texts)(const void *views, const uint8_t *valid, int64_t n, uint64_t *hashes, uint32_t *longer);
} GroupingKernels;

enum { GROUPING_FEW = 64 };
#endif
