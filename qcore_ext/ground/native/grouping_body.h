/* The kernels of grouping.h. kernels_v*.c include this file, each for its instruction set. Each defines GROUPING_MASKED:
   up to this number of groups, sums in registers are fastest.

   With few groups, an addition to a group's sum waits for the store of the row before, often to the same sum. Up to
   GROUPING_MASKED groups, the sums of all groups stay in registers, and a comparison tells the rows of each. Above that,
   four copies of the sums take every fourth row each. */
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <string.h>

#include "grouping.h"
#include "mix.h"
#include "prefetch.h"
#include "simd.h"

static void hash_one(const uint64_t *low, const uint32_t *nulls, int64_t n, uint64_t *hashes) {
    for (int64_t i = 0; i < n; i++) hashes[i] = qc_mix(low[i] + nulls[i]);
}

static void hash_two(const uint64_t *low, const uint64_t *high, const uint32_t *nulls, int64_t n, uint64_t *hashes) {
    for (int64_t i = 0; i < n; i++)
        hashes[i] = qc_mix(((high[i] * 0x9e3779b97f4a7c15ULL) ^ (high[i] >> 29)) + low[i] + nulls[i]);
}

/* --- keys of words in the first slots of their hashes --- */

#if defined(__AVX512VL__)
/* The groups of eight rows' slots, and which of the slots have one. */
static inline __mmask8 eight_slots(const uint32_t *slots, int64_t mask, const uint64_t *hashes, __m256i *groups) {
    __m512i at = _mm512_and_si512(_mm512_loadu_si512(hashes), _mm512_set1_epi64(mask));
    __m256i slot = _mm512_i64gather_epi32(at, slots, 4);
    *groups = _mm256_sub_epi32(slot, _mm256_set1_epi32(1));
    return _mm256_test_epi32_mask(slot, slot);
}

/* Those of the rows `some` whose nulls are those of their group. */
static inline __mmask8 eight_nulls(const uint32_t *masks, __m512i at, __mmask8 some, const uint32_t *nulls) {
    __m256i absent = _mm256_loadu_si256((const __m256i *) nulls);
    if (!masks) return _mm256_mask_testn_epi32_mask(some, absent, absent);
    return _mm256_mask_cmpeq_epi32_mask(some, absent,
                                        _mm512_mask_i64gather_epi32(absent, some, at, masks, 4));
}

/* Append the rows of eight that are in `rows` to a list of `count`. The list has space for all rows so far. */
static inline int64_t list_eight(int64_t first, __mmask8 rows, uint32_t *list, int64_t count) {
    __m256i numbers = _mm256_add_epi32(_mm256_set1_epi32((int) first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    _mm256_storeu_si256((__m256i *) (list + count), _mm256_maskz_compress_epi32(rows, numbers));
    return count + __builtin_popcount(rows);
}
#endif

/* find_one and find_two, after the keys were hashed. Inlined, so that the compiler knows how many words a key has. */
static inline int64_t find_keys(int two, const uint32_t *slots, int64_t mask, const uint64_t *words,
                                const uint32_t *masks, const uint64_t *low, const uint64_t *high, const uint32_t *nulls,
                                int64_t n, const uint64_t *hashes, uint32_t *groups, uint32_t *pending) {
    int64_t i = 0, count = 0;
#if defined(__AVX512VL__)
    /* Gathers by intrinsics, as the compiler does not find them. */
    for (; i + 8 <= n; i += 8) {
        __m256i group;
        __mmask8 same = eight_slots(slots, mask, hashes + i, &group);
        __m512i at = _mm512_cvtepu32_epi64(group), first = two ? _mm512_slli_epi64(at, 1) : at;
        same = eight_nulls(masks, at, same, nulls + i);
        __m512i word = _mm512_mask_i64gather_epi64(at, same, first, words, 8);
        same = _mm512_mask_cmpeq_epi64_mask(same, word, _mm512_loadu_si512(low + i));
        if (two) {
            word = _mm512_mask_i64gather_epi64(at, same, _mm512_or_si512(first, _mm512_set1_epi64(1)), words, 8);
            same = _mm512_mask_cmpeq_epi64_mask(same, word, _mm512_loadu_si512(high + i));
        }
        _mm256_storeu_si256((__m256i *) (groups + i), group);
        count = list_eight(i, (__mmask8) ~same, pending, count);
    }
#endif
    for (; i < n; i++) {
        uint32_t slot = slots[hashes[i] & (uint64_t) mask];
        size_t group = slot - 1;
        const uint64_t *word = slot ? words + (two ? 2 * group : group) : NULL;
        groups[i] = slot - 1;
        pending[count] = (uint32_t) i;
        count += !(word && word[0] == low[i] && (!two || word[1] == high[i])
                   && (masks ? masks[group] : 0) == nulls[i]);
    }
    return count;
}

static int64_t find_one(const uint32_t *slots, int64_t mask, const uint64_t *words, const uint32_t *masks,
                        const uint64_t *low, const uint32_t *nulls, int64_t n, uint64_t *hashes, uint32_t *groups,
                        uint32_t *pending) {
    hash_one(low, nulls, n, hashes);
    return find_keys(0, slots, mask, words, masks, low, NULL, nulls, n, hashes, groups, pending);
}

static int64_t find_two(const uint32_t *slots, int64_t mask, const uint64_t *words, const uint32_t *masks,
                        const uint64_t *low, const uint64_t *high, const uint32_t *nulls, int64_t n, uint64_t *hashes,
                        uint32_t *groups, uint32_t *pending) {
    hash_two(low, high, nulls, n, hashes);
    return find_keys(1, slots, mask, words, masks, low, high, nulls, n, hashes, groups, pending);
}

static uint32_t add_letters(const uint32_t *views, int64_t n, uint32_t low, uint32_t span, uint32_t stride,
                            uint32_t *codes) {
    uint32_t outside = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t distance = views[4 * i] + views[4 * i + 1] - low;
        outside |= (views[4 * i] >> 1) | (distance >= span);
        codes[i] += (distance + 1) * stride;
    }
    return outside;
}

/* --- texts --- */

static inline uint64_t word_at(const char *text) {
    uint64_t word;
    memcpy(&word, text, 8);
    return word;
}

/* The last n <= 8 bytes before `end`, with at least 8 bytes before it. */
static inline uint64_t last_bytes(const char *end, uint32_t n) {
    return n == 0 ? 0 : word_at(end - 8) >> 8 * (8 - n);
}

static inline QcTextKey text_key(const char *view, int valid) {
    QcTextKey key = {{0, 0, 0, (uint64_t) QC_TEXT_NULL << 56}};
    uint32_t length;
    const char *text, *end;
    if (!valid) return key;
    memcpy(&length, view, 4);
    key.words[3] = (uint64_t) (length > QC_TEXT_MAX ? QC_TEXT_LONGER : length) << 56;
    if (length > QC_TEXT_MAX) return key;
    if (length <= VIEW_INLINE) {
        /* The bytes behind a short text are zero in its view. */
        key.words[0] = word_at(view + 4);
        key.words[1] = word_at(view + 8) >> 32;
        return key;
    }
    memcpy(&text, view + 8, 8);
    end = text + length;
    key.words[0] = word_at(text);
    key.words[1] = length < 16 ? last_bytes(end, length - 8) : word_at(text + 8);
    if (length >= 24) {
        key.words[2] = word_at(text + 16);
        key.words[3] |= last_bytes(end, length - 24);
    } else if (length > 16) {
        key.words[2] = last_bytes(end, length - 16);
    }
    return key;
}

static const uint64_t text_masks[4] = {0x8ebc6af09c88c6e3, 0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x589965cc75374cc3};
static const uint64_t text_factors[4] = {0xd6e8feb86659fd93, 0x9e3779b97f4a7c15, 0x9ae16a3b2f90404f, 0xc2b2ae3d27d4eb4f};

/* The sum of four words, each mixed by a factor of its own: the first shift brings the upper bytes to bits that the factor
   spreads. Unlike a folded product, this is computed for eight texts at a time. */
static inline uint64_t text_print(const QcTextKey *key) {
    uint64_t print = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t word = key->words[k] ^ text_masks[k];
        word = (word ^ word >> 32) * text_factors[k];
        print += word ^ word >> 32;
    }
    return print;
}

static void text_keys(const void *views, const uint8_t *valid, int64_t n, QcTextKey *keys, uint64_t *prints) {
    for (int64_t i = 0; i < n; i++) {
        keys[i] = text_key((const char *) views + 16 * i, !valid || (valid[i >> 3] >> (i & 7) & 1));
        prints[i] = text_print(keys + i);
    }
}

static inline uint32_t number_at(const QcPositions *positions, uint64_t key) {
    uint64_t product = key * positions->factor;
    return positions->numbers[(product >> positions->position_shift & positions->position_mask)
                              ^ positions->shifts[product >> positions->bucket_shift]];
}

#if defined(__AVX512BW__)
/* The keys of eight rows, in pairs: each text by a masked load, without a branch on its length, which differs from row to
   row. Bit i of `valid` is that of row i. Returns the bits of the rows whose text is too long for a key. */
static inline __attribute__((always_inline)) unsigned eight_keys(const char *views, unsigned valid, __m512i *keys) {
    const __m512i even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), one = _mm512_set1_epi64(1);
    const __m512i inside = _mm512_set_epi64(116, 100, 84, 68, 52, 36, 20, 4);
    const char *texts[8];
    uint32_t bytes[8];
    __m512i first = _mm512_loadu_si512(views), second = _mm512_loadu_si512(views + 64);
    __m512i lengths = _mm512_permutex2var_epi64(first, even, second);
    __m512i at = _mm512_permutex2var_epi64(first, _mm512_add_epi64(even, one), second);
    lengths = _mm512_maskz_and_epi64((__mmask8) valid, lengths, _mm512_set1_epi64(0xFFFFFFFF));
    at = _mm512_mask_add_epi64(at, _mm512_cmple_epu64_mask(lengths, _mm512_set1_epi64(VIEW_INLINE)),
                               _mm512_set1_epi64((long long) (intptr_t) views), inside);
    __mmask8 longer = _mm512_cmpgt_epu64_mask(lengths, _mm512_set1_epi64(QC_TEXT_MAX));
    __m512i loaded = _mm512_maskz_sub_epi64((__mmask8) ~longer, _mm512_sllv_epi64(one, lengths), one);
    __m512i kinds = _mm512_mask_set1_epi64(lengths, longer, QC_TEXT_LONGER);
    kinds = _mm512_slli_epi64(_mm512_mask_set1_epi64(kinds, (__mmask8) ~valid, QC_TEXT_NULL), 56);
    _mm512_storeu_si512(texts, at);
    _mm256_storeu_si256((__m256i *) bytes, _mm512_cvtepi64_epi32(loaded));
    for (int pair = 0; pair < 4; pair++) {
        const __m512i rows = _mm512_set_epi64(2 * pair + 1, 0, 0, 0, 2 * pair, 0, 0, 0);
        __m256i a = _mm256_maskz_loadu_epi8(bytes[2 * pair], texts[2 * pair]);
        __m256i b = _mm256_maskz_loadu_epi8(bytes[2 * pair + 1], texts[2 * pair + 1]);
        __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
        keys[pair] = _mm512_or_si512(both, _mm512_maskz_permutexvar_epi64(0x88, rows, kinds));
    }
    return longer;
}

static inline __attribute__((always_inline)) __m512i mixed_words(__m512i keys) {
    const __m512i masks = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) text_masks));
    const __m512i factors = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) text_factors));
    __m512i words = _mm512_xor_si512(keys, masks);
    words = _mm512_mullo_epi64(_mm512_xor_si512(words, _mm512_srli_epi64(words, 32)), factors);
    return _mm512_xor_si512(words, _mm512_srli_epi64(words, 32));
}

/* Of four pairs of keys the fingerprints, in the order of the rows. */
static inline __attribute__((always_inline)) __m512i eight_prints(const __m512i *keys) {
    __m512i a = mixed_words(keys[0]), b = mixed_words(keys[1]), c = mixed_words(keys[2]), d = mixed_words(keys[3]);
    __m512i ab = _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    __m512i cd = _mm512_add_epi64(_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    __m512i sums = _mm512_add_epi64(_mm512_shuffle_i64x2(ab, cd, 0x88), _mm512_shuffle_i64x2(ab, cd, 0xDD));
    return _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 6, 4, 3, 1, 2, 0), sums);
}

static inline __attribute__((always_inline)) __m256i eight_numbers(const QcPositions *positions, __m512i prints) {
    __m512i products = _mm512_mullo_epi64(prints, _mm512_set1_epi64((long long) positions->factor));
    __m512i buckets = _mm512_srl_epi64(products, _mm_cvtsi32_si128(positions->bucket_shift));
    __m512i places = _mm512_srl_epi64(products, _mm_cvtsi32_si128(positions->position_shift));
    places = _mm512_and_si512(places, _mm512_set1_epi64((long long) positions->position_mask));
    /* Each shift is the upper half of a word that begins two bytes earlier, where the numbers end. */
    __m256i shifts = _mm256_srli_epi32(_mm512_i64gather_epi32(buckets, (const char *) positions->shifts - 2, 2), 16);
    return _mm512_i64gather_epi32(_mm512_xor_si512(places, _mm512_cvtepu32_epi64(shifts)), positions->numbers, 4);
}

/* Four bits a row, not all zero if its key is not that of its number. */
static inline __attribute__((always_inline)) uint32_t eight_differ(const QcTextKey *known, const __m512i *keys,
                                                                   const uint32_t *numbers) {
    uint32_t differs = 0;
    for (int pair = 0; pair < 4; pair++) {
        __m256i first = _mm256_loadu_si256((const __m256i *) (known + numbers[2 * pair]));
        __m256i second = _mm256_loadu_si256((const __m256i *) (known + numbers[2 * pair + 1]));
        __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
        differs |= (uint32_t) _mm512_cmpneq_epi64_mask(keys[pair], both) << 8 * pair;
    }
    return differs;
}

/* Look up the rows in eights, in blocks of 64, so that the steps of many rows are under way at the same time. Returns the
   first row that is not looked up. */
static int64_t find_eights(const QcPositions *positions, const QcTextKey *known, const char *views, const uint8_t *valid,
                           int64_t n, uint32_t *numbers, uint32_t *misses, int64_t *n_misses) {
    __m512i keys[32];
    int64_t i = 0, count = 0, whole = n & ~7;
    while (i < whole) {
        int64_t end = whole - i < 64 ? whole : i + 64, k;
        for (k = i; k < end; k += 8) eight_keys(views + 16 * k, valid ? valid[k >> 3] : 0xFF, keys + (k - i) / 2);
        for (k = i; k < end; k += 8)
            _mm256_storeu_si256((__m256i *) (numbers + k), eight_numbers(positions, eight_prints(keys + (k - i) / 2)));
        for (k = i; k < end; k += 8) {
            uint32_t differs = eight_differ(known, keys + (k - i) / 2, numbers + k);
            for (int row = 0; differs; row++, differs >>= 4) {
                misses[count] = (uint32_t) (k + row);
                count += (differs & 15) != 0;
            }
        }
        i = end;
    }
    *n_misses = count;
    return whole;
}

/* The same for hashes, before they are mixed for the last time. */
static int64_t hash_eights(const char *views, const uint8_t *valid, int64_t n, uint64_t *hashes, uint32_t *longer,
                           int64_t *n_longer) {
    int64_t i, count = 0, whole = n & ~7;
    for (i = 0; i < whole; i += 8) {
        __m512i keys[4];
        unsigned rows = eight_keys(views + 16 * i, valid ? valid[i >> 3] : 0xFF, keys);
        _mm512_storeu_si512(hashes + i, eight_prints(keys));
        for (; rows; rows &= rows - 1) longer[count++] = (uint32_t) (i + __builtin_ctz(rows));
    }
    *n_longer = count;
    return whole;
}
#elif defined(__AVX2__)
/* At distance 32 - n, what moves the last n - 16 bytes of a register to its start, and clears the others. */
static const uint8_t move_last[32] = {0,  1,  2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
                                      128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};

/* text_key in a register. Nearly all texts are short, or of 16 bytes and more: of these two loads have all bytes. */
static inline __m256i one_key(const char *view, int valid) {
    uint32_t length;
    const char *text;
    memcpy(&length, view, 4);
    if (valid && length >= 16 && length <= QC_TEXT_MAX) {
        memcpy(&text, view + 8, 8);
        __m128i rest = _mm_loadu_si128((const __m128i *) (text + length - 16));
        rest = _mm_shuffle_epi8(rest, _mm_loadu_si128((const __m128i *) (move_last + 32 - length)));
        return _mm256_set_m128i(_mm_insert_epi8(rest, (char) length, 15), _mm_loadu_si128((const __m128i *) text));
    }
    if (valid && length <= VIEW_INLINE)
        return _mm256_set_m128i(_mm_insert_epi8(_mm_setzero_si128(), (char) length, 15),
                                _mm_srli_si128(_mm_loadu_si128((const __m128i *) view), 4));
    QcTextKey key = text_key(view, valid);
    return _mm256_loadu_si256((const __m256i *) &key);
}

static inline int is_valid_row(const uint8_t *valid, int64_t i) { return !valid || (valid[i >> 3] >> (i & 7) & 1); }

static inline __m256i mixed_words(__m256i words) {
    const __m256i factors = _mm256_loadu_si256((const __m256i *) text_factors);
    words = _mm256_xor_si256(words, _mm256_loadu_si256((const __m256i *) text_masks));
    words = _mm256_xor_si256(words, _mm256_srli_epi64(words, 32));
    /* The product of 64 bits from three of 32. */
    __m256i upper = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(words, 32), factors),
                                     _mm256_mul_epu32(words, _mm256_srli_epi64(factors, 32)));
    words = _mm256_add_epi64(_mm256_mul_epu32(words, factors), _mm256_slli_epi64(upper, 32));
    return _mm256_xor_si256(words, _mm256_srli_epi64(words, 32));
}

/* The fingerprints of four keys. */
static inline __m256i four_prints(const __m256i *keys) {
    __m256i a = mixed_words(keys[0]), b = mixed_words(keys[1]), c = mixed_words(keys[2]), d = mixed_words(keys[3]);
    __m256i ab = _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    __m256i cd = _mm256_add_epi64(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    return _mm256_add_epi64(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
}

/* As above, with the numbers and the known keys of one row at a time. */
static int64_t find_eights(const QcPositions *positions, const QcTextKey *known, const char *views, const uint8_t *valid,
                           int64_t n, uint32_t *numbers, uint32_t *misses, int64_t *n_misses) {
    const QcPositions at = *positions;  /* a copy, which the stores to `numbers` cannot change */
    __m256i keys[64];
    uint64_t prints[64];
    int64_t i = 0, count = 0, whole = n & ~7;
    while (i < whole) {
        int64_t rows = whole - i < 64 ? whole - i : 64, k;
        for (k = 0; k < rows; k++) keys[k] = one_key(views + 16 * (i + k), is_valid_row(valid, i + k));
        for (k = 0; k < rows; k += 4) _mm256_storeu_si256((__m256i *) (prints + k), four_prints(keys + k));
        for (k = 0; k < rows; k++) numbers[i + k] = number_at(&at, prints[k]);
        for (k = 0; k < rows; k++) {
            __m256i key = _mm256_loadu_si256((const __m256i *) (known + numbers[i + k]));
            misses[count] = (uint32_t) (i + k);
            count += _mm256_movemask_epi8(_mm256_cmpeq_epi64(key, keys[k])) != -1;
        }
        i += rows;
    }
    *n_misses = count;
    return whole;
}

static int64_t hash_eights(const char *views, const uint8_t *valid, int64_t n, uint64_t *hashes, uint32_t *longer,
                           int64_t *n_longer) {
    int64_t i, count = 0, whole = n & ~7;
    for (i = 0; i < whole; i += 4) {
        __m256i keys[4];
        for (int k = 0; k < 4; k++) {
            keys[k] = one_key(views + 16 * (i + k), is_valid_row(valid, i + k));
            longer[count] = (uint32_t) (i + k);
            count += (uint8_t) _mm256_extract_epi8(keys[k], 31) == QC_TEXT_LONGER;
        }
        _mm256_storeu_si256((__m256i *) (hashes + i), four_prints(keys));
    }
    *n_longer = count;
    return whole;
}
#else
static int64_t find_eights(const QcPositions *positions, const QcTextKey *known, const char *views, const uint8_t *valid,
                           int64_t n, uint32_t *numbers, uint32_t *misses, int64_t *n_misses) {
    return *n_misses = 0;
}

static int64_t hash_eights(const char *views, const uint8_t *valid, int64_t n, uint64_t *hashes, uint32_t *longer,
                           int64_t *n_longer) {
    return *n_longer = 0;
}
#endif

static int64_t find_texts(const QcPositions *positions, const QcTextKey *keys, const void *views, const uint8_t *valid,
                          int64_t n, uint32_t *numbers, uint32_t *misses) {
    int64_t count, i = find_eights(positions, keys, views, valid, n, numbers, misses, &count);
    for (; i < n; i++) {
        QcTextKey key = text_key((const char *) views + 16 * i, !valid || (valid[i >> 3] >> (i & 7) & 1));
        numbers[i] = number_at(positions, text_print(&key));
        const uint64_t *known = keys[numbers[i]].words;
        misses[count] = (uint32_t) i;
        count += ((key.words[0] ^ known[0]) | (key.words[1] ^ known[1]) | (key.words[2] ^ known[2])
                  | (key.words[3] ^ known[3])) != 0;
    }
    return count;
}

static int64_t hash_texts(const void *views, const uint8_t *valid, int64_t n, uint64_t *hashes, uint32_t *longer) {
    int64_t count, i = hash_eights(views, valid, n, hashes, longer, &count);
    for (; i < n; i++) {
        QcTextKey key = text_key((const char *) views + 16 * i, !valid || (valid[i >> 3] >> (i & 7) & 1));
        hashes[i] = text_print(&key);
        longer[count] = (uint32_t) i;
        count += key.words[3] >> 56 == QC_TEXT_LONGER;
    }
    for (i = 0; i < n; i++) hashes[i] = qc_mix(hashes[i]);
    return count;
}

/* --- words --- */

#if defined(__AVX512BW__)
enum { FEW_WORDS = 16, FEW_POSITIONS = 32 };    /* of which two registers have all */

/* Look up the words in eights, with all of the hash in registers. Returns the first row that is not looked up. */
static int64_t find_few_words(const QcPositions *positions, const uint64_t *words, const uint64_t *keys, int64_t n,
                              uint32_t *numbers, uint64_t *missing) {
    const uint32_t n_positions = (uint32_t) positions->position_mask + 1;
    const uint32_t known = (1u << positions->n_keys) - 1;
    const __m512i factor = _mm512_set1_epi64((long long) positions->factor);
    const __m512i mask = _mm512_set1_epi64((long long) positions->position_mask);
    const __m128i bucket_shift = _mm_cvtsi32_si128(positions->bucket_shift);
    const __m128i position_shift = _mm_cvtsi32_si128(positions->position_shift);
    const __mmask8 in_low = (__mmask8) ((1u << (n_positions >> 2)) - 1);
    const __m512i shifts = _mm512_cvtepu16_epi64(_mm_maskz_loadu_epi16(in_low, positions->shifts));
    const __m512i low = _mm512_maskz_loadu_epi32(n_positions < 16 ? 0xFF : 0xFFFF, positions->numbers);
    const __m512i high = _mm512_maskz_loadu_epi32(n_positions > 16 ? 0xFFFF : 0, positions->numbers + 16);
    const __m512i first = _mm512_maskz_loadu_epi64((__mmask8) known, words);
    const __m512i second = _mm512_maskz_loadu_epi64((__mmask8) (known >> 8), words + 8);
    __m512i differs = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        qc_prefetch_stream(keys + i);
        __m512i key = _mm512_loadu_si512(keys + i), product = _mm512_mullo_epi64(key, factor);
        __m512i shift = _mm512_permutexvar_epi64(_mm512_srl_epi64(product, bucket_shift), shifts);
        __m512i place = _mm512_xor_si512(_mm512_and_si512(_mm512_srl_epi64(product, position_shift), mask), shift);
        __m512i number = _mm512_maskz_permutex2var_epi32(0x5555, low, place, high);
        __m512i word = _mm512_permutex2var_epi64(first, number, second);
        differs = _mm512_or_si512(differs, _mm512_xor_si512(word, key));
        _mm256_storeu_si256((__m256i *) (numbers + i), _mm512_cvtepi64_epi32(number));
    }
    *missing = _mm512_test_epi64_mask(differs, differs);
    return i;
}

/* From so many positions on, lookups miss the first-level cache. With 100K words three passes, each of lookups that do not
   depend on another, take 1.9 ns a word instead of 2.4. With 1K words they take 1.4 instead of 0.9. */
enum { FAR_POSITIONS = 65536 };

/* Look up the words in sixteens, each array in a pass. Returns the first row that is not looked up. */
static int64_t find_far_words(const QcPositions *positions, const uint64_t *words, const uint64_t *keys, int64_t n,
                              uint32_t *numbers, uint64_t *missing) {
    const __m512i factor = _mm512_set1_epi64((long long) positions->factor);
    const __m512i mask = _mm512_set1_epi64((long long) positions->position_mask);
    const __m128i bucket_shift = _mm_cvtsi32_si128(positions->bucket_shift);
    const __m128i position_shift = _mm_cvtsi32_si128(positions->position_shift);
    const int64_t end = n & ~15;
    __m512i differs = _mm512_setzero_si512();
    for (int64_t i = 0; i < end; i += 8) {
        qc_prefetch_stream(keys + i);
        __m512i product = _mm512_mullo_epi64(_mm512_loadu_si512(keys + i), factor);
        __m256i two = _mm512_i64gather_epi32(_mm512_srl_epi64(product, bucket_shift), positions->shifts, 2);
        __m512i shift = _mm512_cvtepu32_epi64(_mm256_and_si256(two, _mm256_set1_epi32(0xFFFF)));
        __m512i place = _mm512_xor_si512(_mm512_and_si512(_mm512_srl_epi64(product, position_shift), mask), shift);
        _mm256_storeu_si256((__m256i *) (numbers + i), _mm512_cvtepi64_epi32(place));
    }
    for (int64_t i = 0; i < end; i += 16) {
        __m512i place = _mm512_loadu_si512(numbers + i);
        _mm512_storeu_si512(numbers + i, _mm512_i32gather_epi32(place, positions->numbers, 4));
    }
    for (int64_t i = 0; i < end; i += 8) {
        __m256i number = _mm256_loadu_si256((const __m256i *) (numbers + i));
        __m512i word = _mm512_i32gather_epi64(number, words, 8);
        differs = _mm512_or_si512(differs, _mm512_xor_si512(word, _mm512_loadu_si512(keys + i)));
    }
    *missing = _mm512_test_epi64_mask(differs, differs);
    return end;
}
#endif

static uint64_t find_words(const QcPositions *positions, const uint64_t *words, const uint64_t *keys, int64_t n,
                           uint32_t *numbers) {
    const QcPositions at = *positions;  /* a copy, which the stores to `numbers` cannot change */
    uint64_t missing = 0;
    int64_t i = 0;
#if defined(__AVX512BW__)
    if (at.n_keys <= FEW_WORDS && at.position_mask < FEW_POSITIONS)
        i = find_few_words(positions, words, keys, n, numbers, &missing);
    else if (at.position_mask >= FAR_POSITIONS - 1)
        i = find_far_words(positions, words, keys, n, numbers, &missing);
#endif
    for (; i < n; i++) {
        if (i % 8 == 0) qc_prefetch_stream(keys + i);
        numbers[i] = number_at(&at, keys[i]);
        missing |= words[numbers[i]] ^ keys[i];
    }
    return missing;
}

/* --- sums and counts --- */

/* Vectors of eight words, of which compilers make the widest instructions that the target has. */
typedef uint64_t Words8 __attribute__((vector_size(64)));
typedef int64_t Signed8 __attribute__((vector_size(64)));
typedef double Doubles8 __attribute__((vector_size(64)));

/* Bits i to i + 7, as far as rows are below n. i is a multiple of eight. */
static inline uint8_t bits_of_eight(const uint8_t *bits, int64_t i, int64_t n) {
    uint8_t rows = n - i >= 8 ? 0xFF : (uint8_t) ((1u << (n - i)) - 1);
    return bits ? bits[i >> 3] & rows : rows;
}

/* Eight words from the i-th on. Those of rows that do not count, or are not below n, are zero and not read. */
static inline __attribute__((always_inline)) void load_eight(const void *values, const uint8_t *bits, int64_t i, int64_t n,
                                                             Words8 *out) {
    const uint64_t *at = (const uint64_t *) values + i;
    if (!bits && n - i >= 8) {
        memcpy(out, at, sizeof(*out));
        return;
    }
    uint8_t rows = bits_of_eight(bits, i, n);
#if defined(__AVX512F__)
    *out = (Words8) _mm512_maskz_loadu_epi64((__mmask8) rows, at);
#elif defined(__AVX2__)
    const __m256i lanes = _mm256_setr_epi64x(1, 2, 4, 8), all = _mm256_set1_epi64x(rows);
    const __m256i low = _mm256_cmpeq_epi64(_mm256_and_si256(all, lanes), lanes);
    const __m256i upper = _mm256_slli_epi64(lanes, 4), high = _mm256_cmpeq_epi64(_mm256_and_si256(all, upper), upper);
    __m256i *to = (__m256i *) out;
    _mm256_store_si256(to, _mm256_maskload_epi64((const long long *) at, low));
    _mm256_store_si256(to + 1, _mm256_maskload_epi64((const long long *) at + 4, high));
#else
    for (int k = 0; k < 8; k++) (*out)[k] = rows >> k & 1 ? at[k] : 0;
#endif
}

static inline __attribute__((always_inline)) void sum_halves(const int64_t *values, const uint8_t *bits, int64_t n,
                                                             int64_t *high, uint64_t *low) {
    Words8 a, b, wrapped = {0}, wrapped_too = {0};
    Signed8 upper = {0}, upper_too = {0};
    uint64_t sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        qc_prefetch_stream(values + i);
        qc_prefetch_stream(values + i + 8);
        load_eight(values, bits, i, n, &a);
        load_eight(values, bits, i + 8, n, &b);
        wrapped += a;
        wrapped_too += b;
        upper += (Signed8) a >> 32;
        upper_too += (Signed8) b >> 32;
    }
    for (; i < n; i += 8) {
        load_eight(values, bits, i, n, &a);
        wrapped += a;
        upper += (Signed8) a >> 32;
    }
    wrapped += wrapped_too;
    upper += upper_too;
    *high = 0;
    for (int k = 0; k < 8; k++) {
        sum += wrapped[k];
        *high += upper[k];
    }
    /* The lower halves add up to less than 2**63, so their sum is exact modulo 2**64. */
    *low = sum - ((uint64_t) *high << 32);
}

static void sum_all(const int64_t *values, const uint8_t *bits, int64_t n, int64_t *high, uint64_t *low) {
    if (bits) sum_halves(values, bits, n, high, low);
    else sum_halves(values, 0, n, high, low);
}

static inline __attribute__((always_inline)) double sum_real(const double *values, const uint8_t *bits, int64_t n) {
    Words8 loaded;
    Doubles8 sums[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int k = 0; k < 4; k++) {
            qc_prefetch_stream(values + i + 8 * k);
            load_eight(values, bits, i + 8 * k, n, &loaded);
            sums[k] += (Doubles8) loaded;
        }
    for (; i < n; i += 8) {
        load_eight(values, bits, i, n, &loaded);
        sums[0] += (Doubles8) loaded;
    }
    Doubles8 a = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

static double sum_doubles(const double *values, const uint8_t *bits, int64_t n) {
    return bits ? sum_real(values, bits, n) : sum_real(values, 0, n);
}

static void mask_words(const uint64_t *values, const uint8_t *bits, int64_t n, uint64_t *out) {
    Words8 words;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        load_eight(values, bits, i, n, &words);
        memcpy(out + i, &words, sizeof(words));
    }
    for (; i < n; i++) out[i] = bits[i >> 3] >> (i & 7) & 1 ? values[i] : 0;
}

static uint64_t magnitude_bits(const int64_t *values, int64_t n) {
    uint64_t seen = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        qc_prefetch_stream(values + i);
        for (int k = 0; k < 8; k++) seen |= (uint64_t) (values[i + k] ^ (values[i + k] >> 63));
    }
    for (; i < n; i++) seen |= (uint64_t) (values[i] ^ (values[i] >> 63));
    return seen;
}

#if defined(__AVX512BW__)
/* Numbers below 2**NARROW_BITS in magnitude are added as 32 bits: each of 16 lanes adds at most 128 of a vector's rows. */
enum { NARROW_BITS = 24, NARROW_GROUPS_MIN = 6, NARROW_PROBE = 32 };

/* Inlined for each number of groups, so that the sums of all groups stay in registers and each row is read once. The sums
   are undefined if `narrow` and the bits returned have more than NARROW_BITS. */
static inline __attribute__((always_inline)) uint64_t sum_by_masks(
        const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, const int n_groups, const int narrow,
        int64_t *sums) {
    __m512i totals[GROUPING_MASKED], seen = _mm512_setzero_si512();
    for (int k = 0; k < n_groups; k++) totals[k] = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += 16) {
        uint32_t rows = bits_of_eight(bits, i, n);
        if (i + 8 < n) rows |= (uint32_t) bits_of_eight(bits, i + 8, n) << 8;
        qc_prefetch_stream(values + i);
        qc_prefetch_stream(values + i + 8);
        __m512i of = _mm512_maskz_loadu_epi32((__mmask16) rows, groups + i);
        __m512i a = _mm512_maskz_loadu_epi64((__mmask8) rows, values + i);
        __m512i b = _mm512_maskz_loadu_epi64((__mmask8) (rows >> 8), values + i + 8);
        seen = _mm512_or_si512(seen, _mm512_xor_si512(a, _mm512_srai_epi64(a, 63)));
        seen = _mm512_or_si512(seen, _mm512_xor_si512(b, _mm512_srai_epi64(b, 63)));
        if (narrow) {
            __m512i both = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(a));
            both = _mm512_inserti64x4(both, _mm512_cvtepi64_epi32(b), 1);
            for (int k = 0; k < n_groups; k++) {
                __mmask16 in = _mm512_cmpeq_epi32_mask(of, _mm512_set1_epi32(k));
                totals[k] = _mm512_mask_add_epi32(totals[k], in, totals[k], both);
            }
            continue;
        }
        for (int k = 0; k < n_groups; k++) {
            __mmask16 in = _mm512_cmpeq_epi32_mask(of, _mm512_set1_epi32(k));
            totals[k] = _mm512_mask_add_epi64(totals[k], (__mmask8) in, totals[k], a);
            totals[k] = _mm512_mask_add_epi64(totals[k], (__mmask8) (in >> 8), totals[k], b);
        }
    }
    for (int k = 0; k < n_groups; k++) {
        if (narrow)
            totals[k] = _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(totals[k])),
                                         _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(totals[k], 1)));
        sums[k] = _mm512_reduce_add_epi64(totals[k]);
    }
    return (uint64_t) _mm512_reduce_or_epi64(seen);
}

#define SUM_GROUPS(K, NARROW) case K: return sum_by_masks(values, groups, bits, n, K, NARROW, sums);

/* For 3 to GROUPING_MASKED groups. */
static uint64_t sum_wide_masked(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n,
                                int64_t n_groups, int64_t *sums) {
    switch (n_groups) {
        SUM_GROUPS(3, 0) SUM_GROUPS(4, 0) SUM_GROUPS(5, 0) SUM_GROUPS(6, 0) SUM_GROUPS(7, 0) SUM_GROUPS(8, 0)
        SUM_GROUPS(9, 0) SUM_GROUPS(10, 0) SUM_GROUPS(11, 0) SUM_GROUPS(12, 0) SUM_GROUPS(13, 0) SUM_GROUPS(14, 0)
        SUM_GROUPS(15, 0) default: return sum_by_masks(values, groups, bits, n, 16, 0, sums);
    }
}

/* For NARROW_GROUPS_MIN to GROUPING_MASKED groups. */
static uint64_t sum_narrow_masked(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n,
                                  int64_t n_groups, int64_t *sums) {
    switch (n_groups) {
        SUM_GROUPS(6, 1) SUM_GROUPS(7, 1) SUM_GROUPS(8, 1) SUM_GROUPS(9, 1) SUM_GROUPS(10, 1) SUM_GROUPS(11, 1)
        SUM_GROUPS(12, 1) SUM_GROUPS(13, 1) SUM_GROUPS(14, 1) SUM_GROUPS(15, 1)
        default: return sum_by_masks(values, groups, bits, n, 16, 1, sums);
    }
}

/* Whether the first values that count are below 2**NARROW_BITS, so that it is worth trying. */
static int first_are_narrow(const int64_t *values, const uint8_t *bits, int64_t n) {
    Words8 words, seen = {0};
    for (int64_t i = 0; i < NARROW_PROBE && i < n; i += 8) {
        load_eight(values, bits, i, n, &words);
        seen |= words ^ (Words8) ((Signed8) words >> 63);
    }
    for (int k = 1; k < 8; k++) seen[0] |= seen[k];
    return seen[0] >> NARROW_BITS == 0;
}

static uint64_t sum_masked(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups,
                           int64_t *sums) {
    if (n_groups <= 2) {
        int64_t both[2];
        uint64_t seen = sum_by_masks(values, groups, bits, n, 2, 0, both);
        memcpy(sums, both, (size_t) n_groups * sizeof(int64_t));
        return seen;
    }
    if (n_groups >= NARROW_GROUPS_MIN && first_are_narrow(values, bits, n)) {
        uint64_t seen = sum_narrow_masked(values, groups, bits, n, n_groups, sums);
        if (seen >> NARROW_BITS == 0) return seen;
    }
    return sum_wide_masked(values, groups, bits, n, n_groups, sums);
}
#undef SUM_GROUPS
#else
typedef uint64_t Words4 __attribute__((vector_size(32)));
typedef int64_t Signed4 __attribute__((vector_size(32)));
typedef uint32_t Numbers4 __attribute__((vector_size(16)));
enum { MASKED_SUMS = 8 };
_Static_assert(GROUPING_MASKED <= MASKED_SUMS, "sum_masked has a case for each number of groups");

/* Inlined for each number of groups, so that the sums of all groups stay in registers and each row is read once. */
static inline __attribute__((always_inline)) uint64_t sum_by_masks(
        const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, const int n_groups, int64_t *sums) {
    const Words4 lanes = {1, 2, 4, 8};
    Words4 totals[MASKED_SUMS], seen = {0};
    uint64_t last_seen = 0;
    int64_t i = 0;
    for (int k = 0; k < n_groups; k++) totals[k] = (Words4) {0};
    for (; i + 4 <= n; i += 4) {
        Words4 words;
        Numbers4 numbers;
        qc_prefetch_stream(values + i);
        memcpy(&words, values + i, sizeof(words));
        memcpy(&numbers, groups + i, sizeof(numbers));
        Signed4 of = __builtin_convertvector(numbers, Signed4);
        if (bits) words &= (Words4) (((uint64_t) (bits[i >> 3] >> (i & 4)) & lanes) == lanes);
        seen |= words ^ (Words4) ((Signed4) words >> 63);
        for (int k = 0; k < n_groups; k++) totals[k] += words & (Words4) (of == (int64_t) k);
    }
    for (int k = 0; k < n_groups; k++) sums[k] = (int64_t) (totals[k][0] + totals[k][1] + totals[k][2] + totals[k][3]);
    for (; i < n; i++) {
        if (bits && !(bits[i >> 3] >> (i & 7) & 1)) continue;
        sums[groups[i]] = (int64_t) ((uint64_t) sums[groups[i]] + (uint64_t) values[i]);
        last_seen |= (uint64_t) (values[i] ^ (values[i] >> 63));
    }
    return last_seen | seen[0] | seen[1] | seen[2] | seen[3];
}

#define SUM_GROUPS(K)                                                                                                \
    case K: return bits ? sum_by_masks(values, groups, bits, n, K, sums) : sum_by_masks(values, groups, 0, n, K, sums);

static uint64_t sum_masked(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups,
                           int64_t *sums) {
    switch (n_groups) {
        SUM_GROUPS(1) SUM_GROUPS(2)
#if GROUPING_MASKED > 2
        SUM_GROUPS(3) SUM_GROUPS(4) SUM_GROUPS(5) SUM_GROUPS(6) SUM_GROUPS(7) SUM_GROUPS(8)
#endif
        default: return 0;      /* there is no group, and no row */
    }
}
#undef SUM_GROUPS
#endif

static uint64_t sum_few(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups,
                        int64_t *sums) {
    if (n_groups <= GROUPING_MASKED) return sum_masked(values, groups, bits, n, n_groups, sums);
    uint64_t seen, masked[1 << 11];
    uint64_t copies[4][GROUPING_FEW] = {{0}};
    int64_t i = 0;
    if (bits) {
        mask_words((const uint64_t *) values, bits, n, masked);
        values = (const int64_t *) masked;
    }
    seen = magnitude_bits(values, n);
    for (; i + 4 <= n; i += 4) {
        copies[0][groups[i]] += (uint64_t) values[i];
        copies[1][groups[i + 1]] += (uint64_t) values[i + 1];
        copies[2][groups[i + 2]] += (uint64_t) values[i + 2];
        copies[3][groups[i + 3]] += (uint64_t) values[i + 3];
    }
    for (; i < n; i++) copies[0][groups[i]] += (uint64_t) values[i];
    for (int64_t group = 0; group < n_groups; group++)
        sums[group] = (int64_t) (copies[0][group] + copies[1][group] + copies[2][group] + copies[3][group]);
    return seen;
}

#if defined(__AVX512BW__)
/* The groups of 64 rows in one register of bytes are compared with each group at once. */
static void count_masked(const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups, int64_t *counts) {
    for (int64_t group = 0; group < n_groups; group++) counts[group] = 0;
    for (int64_t i = 0; i < n; i += 64) {
        uint64_t rows = n - i >= 64 ? ~0ull : (1ull << (n - i)) - 1;
        uint64_t counted = rows;
        __m128i quarters[4];
        if (bits) {
            counted = 0;
            memcpy(&counted, bits + (i >> 3), n - i >= 64 ? 8 : (size_t) (n - i + 7) >> 3);
            counted &= rows;
        }
        for (int k = 0; k < 4; k++)
            quarters[k] = _mm512_cvtepi32_epi8(_mm512_maskz_loadu_epi32((__mmask16) (rows >> 16 * k), groups + i + 16 * k));
        __m512i of = _mm512_inserti32x4(_mm512_castsi128_si512(quarters[0]), quarters[1], 1);
        of = _mm512_inserti32x4(_mm512_inserti32x4(of, quarters[2], 2), quarters[3], 3);
        for (int64_t group = 0; group < n_groups; group++)
            counts[group] += __builtin_popcountll(
                _mm512_mask_cmpeq_epi8_mask((__mmask64) counted, of, _mm512_set1_epi8((char) group)));
    }
}
#elif defined(__AVX2__)
/* The groups of 32 rows in one register of bytes are compared with each group at once. */
static void count_masked(const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups, int64_t *counts) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    int64_t i = 0;
    for (int64_t group = 0; group < n_groups; group++) counts[group] = 0;
    for (; i + 32 <= n; i += 32) {
        uint32_t counted = ~0u;
        const __m256i *from = (const __m256i *) (groups + i);
        __m256i a = _mm256_packus_epi32(_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1));
        __m256i b = _mm256_packus_epi32(_mm256_loadu_si256(from + 2), _mm256_loadu_si256(from + 3));
        /* Packing goes by halves of registers, and the order puts their fours of rows back. */
        __m256i of = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order);
        if (bits) memcpy(&counted, bits + (i >> 3), 4);
        for (int64_t group = 0; group < n_groups; group++) {
            __m256i same = _mm256_cmpeq_epi8(of, _mm256_set1_epi8((char) group));
            counts[group] += __builtin_popcount((uint32_t) _mm256_movemask_epi8(same) & counted);
        }
    }
    for (; i < n; i++) counts[groups[i]] += !bits || (bits[i >> 3] >> (i & 7) & 1);
}
#else
static void count_masked(const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups, int64_t *counts) {
    for (uint32_t group = 0; group < n_groups; group++) {
        uint32_t count = 0;
        if (bits)
            for (int64_t i = 0; i < n; i++) count += (groups[i] == group) & bits[i >> 3] >> (i & 7);
        else
            for (int64_t i = 0; i < n; i++) count += groups[i] == group;
        counts[group] = count;
    }
}
#endif

static void count_few(const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups, int64_t *counts) {
    uint32_t copies[4][GROUPING_FEW] = {{0}};
    int64_t i = 0;
    if (n_groups <= GROUPING_MASKED) {
        count_masked(groups, bits, n, n_groups, counts);
        return;
    }
    if (bits)
        for (; i < n; i++) copies[i & 3][groups[i]] += bits[i >> 3] >> (i & 7) & 1;
    for (; i + 4 <= n; i += 4) {
        copies[0][groups[i]]++;
        copies[1][groups[i + 1]]++;
        copies[2][groups[i + 2]]++;
        copies[3][groups[i + 3]]++;
    }
    for (; i < n; i++) copies[0][groups[i]]++;
    for (int64_t group = 0; group < n_groups; group++)
        counts[group] = (int64_t) copies[0][group] + copies[1][group] + copies[2][group] + copies[3][group];
}

static const GroupingKernels grouping_kernels = {
    .hash_one = hash_one,
    .hash_two = hash_two,
    .find_one = find_one,
    .find_two = find_two,
    .add_letters = add_letters,
    .sum_few = sum_few,
    .magnitude_bits = magnitude_bits,
    .count_few = count_few,
    .sum_all = sum_all,
    .sum_doubles = sum_doubles,
    .mask_words = mask_words,
    .text_keys = text_keys,
    .find_texts = find_texts,
    .find_words = find_words,
    .hash_texts = hash_texts,
};
