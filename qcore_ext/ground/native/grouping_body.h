/* The kernels of grouping.h. kernels_v*.c include this file, each for its instruction set. Each defines GROUPING_MASKED:
   up to so many groups, one pass over the vector for each group is fastest.

   Rows of few groups wait for one another when each adds to its group's sum: it is read where the row before has just
   written it. Either every group has a pass of its own, vectorised and without stores, or four copies of the sums take
   one row in four each. */
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

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

static void sum_few(const int64_t *values, const uint32_t *groups, int64_t n, int64_t n_groups, int64_t *sums) {
    if (n_groups <= GROUPING_MASKED) {
        for (uint32_t group = 0; group < n_groups; group++) {
            int64_t sum = 0;
            for (int64_t i = 0; i < n; i++) sum += groups[i] == group ? values[i] : 0;
            sums[group] = sum;
        }
        return;
    }
    int64_t copies[4][GROUPING_FEW] = {{0}};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        copies[0][groups[i]] += values[i];
        copies[1][groups[i + 1]] += values[i + 1];
        copies[2][groups[i + 2]] += values[i + 2];
        copies[3][groups[i + 3]] += values[i + 3];
    }
    for (; i < n; i++) copies[0][groups[i]] += values[i];
    for (int64_t group = 0; group < n_groups; group++)
        sums[group] = copies[0][group] + copies[1][group] + copies[2][group] + copies[3][group];
}

static void count_few(const uint32_t *groups, int64_t n, int64_t n_groups, int64_t *counts) {
    if (n_groups <= GROUPING_MASKED) {
        for (uint32_t group = 0; group < n_groups; group++) {
            uint32_t count = 0;
            for (int64_t i = 0; i < n; i++) count += groups[i] == group;
            counts[group] = count;
        }
        return;
    }
    uint32_t copies[4][GROUPING_FEW] = {{0}};
    int64_t i = 0;
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
    .count_few = count_few,
};
