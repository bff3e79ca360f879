/* The kernels of probe.h. kernels_v*.c include this file, each for its instruction set.

   A store whose address depends on data delays look-ups that miss the caches (7 ns a row). So every loop here stores in
   order, and a second loop compacts. Gathers are intrinsics, because the compiler does not generate them. */
#if defined(__AVX512F__)
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

static int64_t first_slots(const QcSlot *slots, const uint64_t *keys, const uint32_t *home_slots, int64_t n,
                           uint8_t *flags, uint8_t *pending, QcGroup *groups) {
    int64_t i = 0, n_pending = 0;
#if defined(__AVX512F__)
    for (; i + 8 <= n; i += 8) {
        __mmask8 wanted = flags_mask(flags + i), same, taken;
        __m512i at = _mm512_slli_epi64(_mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *) (home_slots + i))), 1);
        __m512i key = _mm512_i64gather_epi64(at, slots, 8);
        __m512i group = _mm512_i64gather_epi64(at, (const char *) slots + 8, 8);
        _mm512_storeu_si512(groups + i, group);
        same = _mm512_cmpeq_epi64_mask(key, _mm512_loadu_si512(keys + i));
        taken = wanted & _mm512_cmpge_epu64_mask(group, _mm512_set1_epi64((long long) 1 << 32));
        store_flags(flags + i, taken & same);
        store_flags(pending + i, taken & (__mmask8) ~same);
        n_pending += __builtin_popcount(taken & (__mmask8) ~same & 0xFF);
    }
#endif
    for (; i < n; i++) {
        const QcSlot *slot = &slots[home_slots[i]];
        uint8_t taken = slot->group.count != 0, same = slot->key == keys[i];
        groups[i] = slot->group;
        pending[i] = flags[i] & taken & (same ^ 1);
        n_pending += pending[i];
        flags[i] &= taken & same;
    }
    return n_pending;
}

static const ProbeKernels probe_kernels = {codes, rank_test, ranks, rank_fill, home_slots, first_slots};
