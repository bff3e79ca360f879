/* The kernels of grouping.h. kernels_v*.c include this file, each for its instruction set. Each defines GROUPING_MASKED:
   up to this number of groups, one pass over the vector for each group is fastest.

   With few groups, an addition to a group's sum waits for the store of the row before, often to the same sum. Up to
   GROUPING_MASKED groups, each group has one vectorised pass without stores. Above that, four copies of the sums take
   every fourth row each. */
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <string.h>

#include "grouping.h"
#include "mix.h"

static void hash_one(const uint64_t *low, const uint32_t *nulls, int64_t n, uint64_t *hashes) {
    for (int64_t i = 0; i < n; i++) hashes[i] = qc_mix(low[i] + nulls[i]);
}

static void hash_two(const uint64_t *low, const uint64_t *high, const uint32_t *nulls, int64_t n, uint64_t *hashes) {
    for (int64_t i = 0; i < n; i++)
        hashes[i] = qc_mix(((high[i] * 0x9e3779b97f4a7c15ULL) ^ (high[i] >> 29)) + low[i] + nulls[i]);
}

static int64_t find_one(const QcGroupSlot *slots, int64_t mask, const uint64_t *low, const uint32_t *nulls, int64_t n,
                        uint64_t *hashes, uint32_t *groups, uint8_t *hit) {
    int64_t i = 0, hits = 0;
    hash_one(low, nulls, n, hashes);
#if defined(__AVX512F__)
    /* Gathers by intrinsics, as the compiler does not find them. */
    const __m512i all = _mm512_set1_epi64(mask), first = _mm512_set1_epi64((long long) 0xFFFFFFFF);
    const __m256i one = _mm256_set1_epi32(1);
    for (; i + 8 <= n; i += 8) {
        __m512i at = _mm512_slli_epi64(_mm512_and_si512(_mm512_loadu_si512(hashes + i), all), 1);
        __m512i key = _mm512_i64gather_epi64(at, slots, 8);
        __m512i rest = _mm512_i64gather_epi64(at, (const char *) slots + 8, 8);
        __m256i absent = _mm256_loadu_si256((const __m256i *) (nulls + i));
        __mmask8 same = _mm512_cmpeq_epi64_mask(key, _mm512_loadu_si512(low + i));
        same &= _mm512_cmpeq_epi64_mask(_mm512_srli_epi64(rest, 32), _mm512_cvtepu32_epi64(absent));
        same &= _mm512_test_epi64_mask(rest, first);
        _mm256_storeu_si256((__m256i *) (groups + i), _mm256_sub_epi32(_mm512_cvtepi64_epi32(rest), one));
        _mm_storel_epi64((__m128i *) (hit + i), _mm_maskz_set1_epi8(same, 1));
        hits += __builtin_popcount(same);
    }
#endif
    for (; i < n; i++) {
        const QcGroupSlot *slot = &slots[(int64_t) hashes[i] & mask];
        groups[i] = slot->group - 1;
        hit[i] = (slot->low == low[i]) & (slot->nulls == nulls[i]) & (slot->group != 0);
        hits += hit[i];
    }
    return hits;
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
    for (int64_t i = 0; i < n; i++) seen |= (uint64_t) (values[i] ^ (values[i] >> 63));
    return seen;
}

#if defined(__AVX512F__)
/* Inlined for each number of groups, so that the sums of all groups stay in registers and each row is read once. */
static inline __attribute__((always_inline)) uint64_t sum_by_masks(
        const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, const int n_groups, int64_t *sums) {
    __m512i totals[GROUPING_MASKED], seen = _mm512_setzero_si512();
    for (int k = 0; k < n_groups; k++) totals[k] = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += 16) {
        uint32_t rows = bits_of_eight(bits, i, n);
        if (i + 8 < n) rows |= (uint32_t) bits_of_eight(bits, i + 8, n) << 8;
        __m512i of = _mm512_maskz_loadu_epi32((__mmask16) rows, groups + i);
        __m512i a = _mm512_maskz_loadu_epi64((__mmask8) rows, values + i);
        __m512i b = _mm512_maskz_loadu_epi64((__mmask8) (rows >> 8), values + i + 8);
        seen = _mm512_or_si512(seen, _mm512_xor_si512(a, _mm512_srai_epi64(a, 63)));
        seen = _mm512_or_si512(seen, _mm512_xor_si512(b, _mm512_srai_epi64(b, 63)));
        for (int k = 0; k < n_groups; k++) {
            __mmask16 in = _mm512_cmpeq_epi32_mask(of, _mm512_set1_epi32(k));
            totals[k] = _mm512_mask_add_epi64(totals[k], (__mmask8) in, totals[k], a);
            totals[k] = _mm512_mask_add_epi64(totals[k], (__mmask8) (in >> 8), totals[k], b);
        }
    }
    for (int k = 0; k < n_groups; k++) sums[k] = _mm512_reduce_add_epi64(totals[k]);
    return (uint64_t) _mm512_reduce_or_epi64(seen);
}

static uint64_t sum_masked(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups,
                           int64_t *sums) {
    if (n_groups <= 2) {
        int64_t both[2];
        uint64_t seen = sum_by_masks(values, groups, bits, n, 2, both);
        memcpy(sums, both, (size_t) n_groups * sizeof(int64_t));
        return seen;
    }
    if (n_groups == 3) return sum_by_masks(values, groups, bits, n, 3, sums);
    if (n_groups == 4) return sum_by_masks(values, groups, bits, n, 4, sums);
    if (n_groups == 5) return sum_by_masks(values, groups, bits, n, 5, sums);
    if (n_groups == 6) return sum_by_masks(values, groups, bits, n, 6, sums);
    if (n_groups == 7) return sum_by_masks(values, groups, bits, n, 7, sums);
    return sum_by_masks(values, groups, bits, n, 8, sums);
}
#else
static uint64_t sum_masked(const int64_t *values, const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups,
                           int64_t *sums) {
    uint64_t seen, masked[1 << 11];
    if (bits) {
        mask_words((const uint64_t *) values, bits, n, masked);
        values = (const int64_t *) masked;
    }
    seen = magnitude_bits(values, n);
    for (uint32_t group = 0; group < n_groups; group++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < n; i++) sum += groups[i] == group ? values[i] : 0;
        sums[group] = sum;
    }
    return seen;
}
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

static void count_few(const uint32_t *groups, const uint8_t *bits, int64_t n, int64_t n_groups, int64_t *counts) {
    uint32_t copies[4][GROUPING_FEW] = {{0}};
    int64_t i = 0;
#if defined(__AVX512F__)
    if (bits && n_groups <= GROUPING_MASKED) {
        for (int64_t group = 0; group < n_groups; group++) counts[group] = 0;
        for (; i < n; i += 16) {
            uint32_t rows = bits_of_eight(bits, i, n);
            if (i + 8 < n) rows |= (uint32_t) bits_of_eight(bits, i + 8, n) << 8;
            __m512i of = _mm512_maskz_loadu_epi32((__mmask16) rows, groups + i);
            for (int64_t group = 0; group < n_groups; group++)
                counts[group] += __builtin_popcount(_mm512_cmpeq_epi32_mask(of, _mm512_set1_epi32((int) group)) & rows);
        }
        return;
    }
#endif
    if (bits) {
        for (; i < n; i++) copies[i & 3][groups[i]] += bits[i >> 3] >> (i & 7) & 1;
    } else if (n_groups <= GROUPING_MASKED) {
        for (uint32_t group = 0; group < n_groups; group++) {
            uint32_t count = 0;
            for (i = 0; i < n; i++) count += groups[i] == group;
            counts[group] = count;
        }
        return;
    }
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
    .add_letters = add_letters,
    .sum_few = sum_few,
    .magnitude_bits = magnitude_bits,
    .count_few = count_few,
    .sum_all = sum_all,
    .sum_doubles = sum_doubles,
    .mask_words = mask_words,
};
