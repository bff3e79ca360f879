/* The kernels of probe.h. kernels_v*.c include this file, each for its instruction set.

   A store whose address depends on data delays look-ups that miss the caches (7 ns a row). So every loop here stores in
   order, and a second loop compacts. Gathers are intrinsics, because the compiler does not generate them. */
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "mix.h"
#include "probe.h"

#if defined(__AVX512F__)
static inline __mmask8 flags_mask(const uint8_t *flags) {
    __m128i bytes = _mm_loadl_epi64((const __m128i *) flags);
    return (__mmask8) _mm_test_epi8_mask(bytes, bytes);
}

static inline void store_flags(uint8_t *flags, __mmask8 mask) {
    _mm_storel_epi64((__m128i *) flags, _mm_maskz_set1_epi8(mask, 1));
}
#endif

static void codes(const uint64_t *keys, int64_t n, uint64_t minimum, uint64_t range, uint64_t *out, uint8_t *flags) {
    int64_t i = 0;
#if defined(__AVX512F__)
    const __m512i least = _mm512_set1_epi64((long long) minimum), most = _mm512_set1_epi64((long long) range);
    for (; i + 8 <= n; i += 8) {
        __m512i code = _mm512_sub_epi64(_mm512_loadu_si512(keys + i), least);
        __mmask8 inside = _mm512_cmple_epu64_mask(code, most);
        _mm512_storeu_si512(out + i, _mm512_maskz_mov_epi64(inside, code));
        store_flags(flags + i, inside);
    }
#elif defined(__AVX2__)
    /* There is no comparison of unsigned words, but one of signed words: both sides are moved by half of all words. */
    const __m256i least = _mm256_set1_epi64x((long long) minimum), half = _mm256_set1_epi64x(INT64_MIN);
    const __m256i most = _mm256_xor_si256(_mm256_set1_epi64x((long long) range), half);
    for (; i + 4 <= n; i += 4) {
        __m256i code = _mm256_sub_epi64(_mm256_loadu_si256((const __m256i *) (keys + i)), least);
        __m256i outside = _mm256_cmpgt_epi64(_mm256_xor_si256(code, half), most);
        uint32_t inside = (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(outside)) ^ 15;
        inside = inside * 0x00204081u & 0x01010101u;    /* bit k to byte k */
        _mm256_storeu_si256((__m256i *) (out + i), _mm256_andnot_si256(outside, code));
        memcpy(flags + i, &inside, 4);
    }
#endif
    for (; i < n; i++) {
        uint64_t code = keys[i] - minimum;
        flags[i] = code <= range;
        out[i] = code <= range ? code : 0;
    }
}

static void rank_test(const QcRankWord *words, const uint64_t *codes, int64_t n, uint8_t *flags) {
    int64_t i = 0;
#if defined(__AVX512F__)
    const __m512i low = _mm512_set1_epi64(63), one = _mm512_set1_epi64(1);
    for (; i + 8 <= n; i += 8) {
        __m512i code = _mm512_loadu_si512(codes + i);
        __mmask8 wanted = flags_mask(flags + i);
        __m512i at = _mm512_slli_epi64(_mm512_srli_epi64(code, 6), 1);
        __m512i bits = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), wanted, at, words, 8);
        store_flags(flags + i, _mm512_test_epi64_mask(_mm512_srlv_epi64(bits, _mm512_and_si512(code, low)), one));
    }
#endif
    for (; i < n; i++) flags[i] &= (uint8_t) (words[codes[i] >> 6].bits >> (codes[i] & 63));
}

static inline uint32_t ones(uint64_t bits) {
#if defined(__POPCNT__)
    return (uint32_t) __builtin_popcountll(bits);
#else
    /* The builtin would be a library call that looks eight bytes up in a table. */
    bits -= (bits >> 1) & 0x5555555555555555ULL;
    bits = (bits & 0x3333333333333333ULL) + ((bits >> 2) & 0x3333333333333333ULL);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0FULL;
    return (uint32_t) ((bits * 0x0101010101010101ULL) >> 56);
#endif
}

static void ranks(const QcRankWord *words, const uint64_t *codes, const uint32_t *at, int64_t n, uint32_t *out) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t code = codes[at[i]];
        const QcRankWord *word = &words[code >> 6];
        out[i] = word->rank + ones(word->bits & (((uint64_t) 1 << (code & 63)) - 1));
    }
}

static int64_t rank_fill(QcRankWord *words, int64_t n_words, uint32_t rank) {
    for (int64_t i = 0; i < n_words; i++) {
        words[i].rank = rank;
        rank += ones(words[i].bits);
    }
    return rank;
}

static void home_slots(const uint64_t *keys, int64_t n, uint64_t mask, uint32_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (uint32_t) (qc_mix(keys[i]) & mask);
}

static void filter_test(const uint32_t *filter, uint32_t mask, const uint32_t *hashes, int64_t n, uint8_t *flags) {
    int64_t i = 0;
#if defined(__AVX512F__)
    const __m512i low = _mm512_set1_epi32(31), chosen = _mm512_set1_epi32((int) mask);
    for (; i + 16 <= n; i += 16) {
        __m512i hash = _mm512_loadu_si512(hashes + i);
        __m512i words = _mm512_i32gather_epi32(_mm512_srli_epi32(_mm512_and_si512(hash, chosen), 5), filter, 4);
        __m512i both = _mm512_and_si512(_mm512_srlv_epi32(words, _mm512_and_si512(hash, low)),
                                        _mm512_srlv_epi32(words, _mm512_srli_epi32(hash, 27)));
        __mmask16 passed = _mm512_test_epi32_mask(both, _mm512_set1_epi32(1));
        __m128i bytes = _mm_and_si128(_mm_loadu_si128((const __m128i *) (flags + i)), _mm_movm_epi8(passed));
        _mm_storeu_si128((__m128i *) (flags + i), bytes);
    }
#endif
    for (; i < n; i++) {
        uint32_t word = filter[(hashes[i] & mask) >> 5];
        flags[i] &= (uint8_t) (word >> (hashes[i] & 31) & word >> (hashes[i] >> 27));
    }
}

/* Rows between the one whose line is searched and the one whose line is fetched. A row takes some 25 instructions, so
   that few rows wait for memory at a time without it: a join with a million keys takes 24 ns a row then, not 16. */
enum { LINES_AHEAD = 32 };

#if defined(__AVX2__) && !defined(__AVX512F__)
/* A bit for each of four words. */
static inline unsigned equal_words(__m256i a, __m256i b) {
    return (unsigned) _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b)));
}
#endif

/* The slot of a line that has the key, or -1. *full: every slot is taken. */
static inline int find_in_line(const QcSlot *line, int of_values, uint64_t key, int *full) {
#if defined(__AVX512F__)
    /* The even words of a line are keys, and the odd ones values, or groups, which are 0 in free slots. */
    __m512i words = _mm512_loadu_si512(line);
    unsigned found = _mm512_mask_cmpeq_epi64_mask(0x55, words, _mm512_set1_epi64((long long) key));
    if (of_values) {
        *full = !_mm512_mask_cmpeq_epi64_mask(0x55, words, _mm512_set1_epi64(-1));
    } else {
        unsigned taken = _mm512_mask_test_epi64_mask(0xAA, words, words);
        found &= taken >> 1;
        *full = taken == 0xAA;
    }
    return found ? __builtin_ctz(found) >> 1 : -1;
#elif defined(__AVX2__)
    const __m256i wanted = _mm256_set1_epi64x((long long) key), none = _mm256_set1_epi64x(of_values ? -1 : 0);
    __m256i low = _mm256_loadu_si256((const __m256i *) line), high = _mm256_loadu_si256((const __m256i *) (line + 2));
    unsigned found = equal_words(low, wanted) | equal_words(high, wanted) << 4;
    unsigned is_free = (equal_words(low, none) | equal_words(high, none) << 4) & (of_values ? 0x55 : 0xAA);
    found &= of_values ? 0x55 : ~is_free >> 1 & 0x55;
    *full = is_free == 0;
    return found ? __builtin_ctz(found) >> 1 : -1;
#else
    for (int i = 0; i < QC_LINE_SLOTS; i++) {
        *full = of_values ? line[i].key != QC_FREE_KEY : line[i].group.count != 0;
        if (!*full) return -1;
        if (line[i].key == key) return i;
    }
    return -1;
#endif
}

static inline int64_t search_lines(const QcSlot *slots, int of_values, const uint64_t *keys, uint32_t *slot_numbers,
                                   int64_t n, uint8_t *flags, uint8_t *pending, QcGroup *groups) {
    int64_t n_pending = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t line = slot_numbers[i] & ~(uint32_t) (QC_LINE_SLOTS - 1);
        if (i + LINES_AHEAD < n) __builtin_prefetch(slots + slot_numbers[i + LINES_AHEAD]);
        int full, at = find_in_line(slots + line, of_values, keys[i], &full);
        uint8_t is_pending = flags[i] & (at < 0) & full;
        if (is_pending) __builtin_prefetch(slots + line + QC_LINE_SLOTS);
        slot_numbers[i] = line + (at < 0 ? QC_LINE_SLOTS - 1 : at);
        groups[i] = slots[slot_numbers[i]].group;
        pending[i] = is_pending;
        n_pending += is_pending;
        flags[i] &= at >= 0;
    }
    return n_pending;
}

static int64_t line_slots(const QcSlot *slots, int of_values, const uint64_t *keys, uint32_t *slot_numbers, int64_t n,
                          uint8_t *flags, uint8_t *pending, QcGroup *groups) {
    /* The compiler makes a loop for each of the two. */
    if (of_values) return search_lines(slots, 1, keys, slot_numbers, n, flags, pending, groups);
    return search_lines(slots, 0, keys, slot_numbers, n, flags, pending, groups);
}

static const ProbeKernels probe_kernels = {codes, rank_test, ranks, rank_fill, home_slots, filter_test, line_slots};
