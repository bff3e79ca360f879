/* The kernels of simd.h. kernels_v*.c include this file, each for its instruction set.

   Plain loops that the compiler vectorises; intrinsics only where it does not (compaction, compare to bytes). */
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "prefetch.h"
#include "simd.h"

#define LOOP for (int64_t i = 0; i < n; i++)

/* --- arithmetic --- */

/* Types narrower than 64 bits: the result is computed in a wider type and compared with the stored value. */
#define NARROW_OP(name, type, wide, op)                                                                              \
    static int name##_vv(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type *a = pa, *b = pb; type *o = po; unsigned bad = 0;                                                 \
        LOOP { wide r = (wide) a[i] op (wide) b[i]; o[i] = (type) r; bad |= (wide) (type) r != r; }                  \
        return bad != 0; }                                                                                           \
    static int name##_vs(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type *a = pa; const wide b = *(const type *) pb; type *o = po; unsigned bad = 0;                       \
        LOOP { wide r = (wide) a[i] op b; o[i] = (type) r; bad |= (wide) (type) r != r; }                            \
        return bad != 0; }                                                                                           \
    static int name##_sv(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const wide a = *(const type *) pa; const type *b = pb; type *o = po; unsigned bad = 0;                       \
        LOOP { wide r = a op (wide) b[i]; o[i] = (type) r; bad |= (wide) (type) r != r; }                            \
        return bad != 0; }

#define CHECKED_OP(name, type, builtin)                                                                              \
    static int name##_vv(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type *a = pa, *b = pb; type *o = po; int bad = 0;                                                      \
        LOOP { type r; bad |= builtin(a[i], b[i], &r); o[i] = r; }                                                   \
        return bad; }                                                                                                \
    static int name##_vs(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type *a = pa; const type b = *(const type *) pb; type *o = po; int bad = 0;                            \
        LOOP { type r; bad |= builtin(a[i], b, &r); o[i] = r; }                                                      \
        return bad; }                                                                                                \
    static int name##_sv(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type a = *(const type *) pa; const type *b = pb; type *o = po; int bad = 0;                            \
        LOOP { type r; bad |= builtin(a, b[i], &r); o[i] = r; }                                                      \
        return bad; }

/* Floats, and 64-bit integers (as unsigned: wrapping is defined) that cannot overflow. */
#define PLAIN_OP(name, type, op)                                                                                     \
    static int name##_vv(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type *a = pa, *b = pb; type *o = po; LOOP o[i] = a[i] op b[i]; return 0; }                             \
    static int name##_vs(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type *a = pa; const type b = *(const type *) pb; type *o = po; LOOP o[i] = a[i] op b; return 0; }      \
    static int name##_sv(const void *pa, const void *pb, void *po, int64_t n) {                                      \
        const type a = *(const type *) pa; const type *b = pb; type *o = po; LOOP o[i] = a op b[i]; return 0; }

#define NARROW_OPS(suffix, type, wide)                                                                               \
    NARROW_OP(add_##suffix, type, wide, +) NARROW_OP(sub_##suffix, type, wide, -) NARROW_OP(mul_##suffix, type, wide, *)
#define CHECKED_OPS(suffix, type)                                                                                    \
    CHECKED_OP(add_##suffix, type, __builtin_add_overflow) CHECKED_OP(sub_##suffix, type, __builtin_sub_overflow)    \
    CHECKED_OP(mul_##suffix, type, __builtin_mul_overflow)
#define PLAIN_OPS(suffix, type)                                                                                      \
    PLAIN_OP(add_##suffix, type, +) PLAIN_OP(sub_##suffix, type, -) PLAIN_OP(mul_##suffix, type, *)

NARROW_OPS(i8, int8_t, int32_t)
NARROW_OPS(i16, int16_t, int32_t)
NARROW_OPS(i32, int32_t, int64_t)
NARROW_OPS(u8, uint8_t, int32_t)
NARROW_OPS(u16, uint16_t, int64_t)
NARROW_OP(add_u32, uint32_t, int64_t, +)
NARROW_OP(sub_u32, uint32_t, int64_t, -)
NARROW_OP(mul_u32, uint32_t, uint64_t, *)
CHECKED_OPS(i64, int64_t)
CHECKED_OPS(u64, uint64_t)
PLAIN_OPS(f32, float)
PLAIN_OPS(f64, double)
PLAIN_OPS(raw, uint64_t)

/* --- comparison --- */

#define FOR_BYTES(expression) LOOP out[i] = (uint8_t) (expression)

#define COMPARE(name, type, expression)                                                                              \
    static void name##_vv(const void *pa, const void *pb, uint8_t *out, int64_t n) {                                 \
        const type *va = pa, *vb = pb;                                                                               \
        LOOP { const type a = va[i], b = vb[i]; out[i] = (uint8_t) (expression); } }                                 \
    static void name##_vs(const void *pa, const void *pb, uint8_t *out, int64_t n) {                                 \
        const type *va = pa; const type b = *(const type *) pb;                                                      \
        LOOP { const type a = va[i]; out[i] = (uint8_t) (expression); } }

#define COMPARES(suffix, type)                                                                                       \
    COMPARE(eq_##suffix, type, a == b) COMPARE(ne_##suffix, type, a != b) COMPARE(lt_##suffix, type, a < b)          \
    COMPARE(le_##suffix, type, a <= b) COMPARE(gt_##suffix, type, a > b) COMPARE(ge_##suffix, type, a >= b)

/* NaN is one value, above all others: the order that joins, groups and sorts use too. */
#define COMPARES_FLOAT(suffix, type)                                                                                 \
    COMPARE(eq_##suffix, type, (a == b) | ((a != a) & (b != b))) COMPARE(ne_##suffix, type, !((a == b) | ((a != a) & (b != b)))) \
    COMPARE(lt_##suffix, type, (a < b) | ((a == a) & (b != b))) COMPARE(le_##suffix, type, (a <= b) | (b != b))      \
    COMPARE(gt_##suffix, type, (b < a) | ((b == b) & (a != a))) COMPARE(ge_##suffix, type, (b <= a) | (a != a))

COMPARES(i8, int8_t)
COMPARES(i16, int16_t)
COMPARES(u8, uint8_t)
COMPARES(u16, uint16_t)
COMPARES(u32, uint32_t)
COMPARES(u64, uint64_t)
COMPARES_FLOAT(f32, float)
COMPARES_FLOAT(f64, double)

/* Integers of 32 and 64 bits: each comparison of two registers gives a bit for each lane, and sixteen bits become bytes.
   0.30 -> 0.08 ns a row for int32 with AVX-512. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
typedef __m512i Lanes;
#define BROADCAST_I32 _mm512_set1_epi32
#define BROADCAST_I64 _mm512_set1_epi64
#define COMPARE_I32 _mm512_cmp_epi32_mask
#define COMPARE_I64 _mm512_cmp_epi64_mask

static inline __m128i sixteen_bytes(uint32_t bits) { return _mm_maskz_mov_epi8((__mmask16) bits, _mm_set1_epi8(1)); }
#elif defined(__AVX2__)
typedef __m256i Lanes;
#define BROADCAST_I32 _mm256_set1_epi32
#define BROADCAST_I64 _mm256_set1_epi64x

/* The processor has two of the six comparisons. `op` is a constant, so that one of them is left in the code. */
#define COMPARE_LANES(name, equal, greater, bits_of, all)                                                            \
    static inline __attribute__((always_inline)) uint32_t name(Lanes a, Lanes b, const int op) {                     \
        Lanes holds = op == _MM_CMPINT_EQ || op == _MM_CMPINT_NE ? equal(a, b)                                       \
                      : op == _MM_CMPINT_LT || op == _MM_CMPINT_NLT ? greater(b, a) : greater(a, b);                 \
        return (uint32_t) bits_of(holds)                                                                             \
               ^ (op == _MM_CMPINT_NE || op == _MM_CMPINT_LE || op == _MM_CMPINT_NLT ? all : 0); }
#define BITS_I32(holds) _mm256_movemask_ps(_mm256_castsi256_ps(holds))
#define BITS_I64(holds) _mm256_movemask_pd(_mm256_castsi256_pd(holds))
COMPARE_LANES(COMPARE_I32, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, BITS_I32, 0xFF)
COMPARE_LANES(COMPARE_I64, _mm256_cmpeq_epi64, _mm256_cmpgt_epi64, BITS_I64, 0xF)

static inline __m128i sixteen_bytes(uint32_t bits) {
    const __m128i places = _mm_set_epi8(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i bit = _mm_set1_epi64x((long long) 0x8040201008040201ULL);
    __m128i spread = _mm_and_si128(_mm_shuffle_epi8(_mm_cvtsi32_si128((int) bits), places), bit);
    return _mm_min_epu8(spread, _mm_set1_epi8(1));
}
#endif

#if defined(__AVX2__)
#define COMPARE_WIDE(name, type, broadcast, compare, op, scalar_op)                                                  \
    static void name##_vv(const void *pa, const void *pb, uint8_t *out, int64_t n) {                                 \
        const type *a = pa, *b = pb; int64_t i = 0; const int lanes = sizeof(Lanes) / sizeof(type);                  \
        for (; i + 16 <= n; i += 16) {                                                                               \
            uint32_t bits = 0;                                                                                       \
            for (int k = 0; k < 16; k += lanes)                                                                      \
                bits |= (uint32_t) compare(qc_load_stream(a + i + k), qc_load_stream(b + i + k), op) << k;           \
            _mm_storeu_si128((__m128i *) (out + i), sixteen_bytes(bits)); }                                          \
        for (; i < n; i++) out[i] = a[i] scalar_op b[i]; }                                                           \
    static void name##_vs(const void *pa, const void *pb, uint8_t *out, int64_t n) {                                 \
        const type *a = pa; const type s = *(const type *) pb;                                                       \
        const Lanes b = broadcast(s); int64_t i = 0; const int lanes = sizeof(Lanes) / sizeof(type);                 \
        for (; i + 16 <= n; i += 16) {                                                                               \
            uint32_t bits = 0;                                                                                       \
            for (int k = 0; k < 16; k += lanes)                                                                      \
                bits |= (uint32_t) compare(qc_load_stream(a + i + k), b, op) << k;                                   \
            _mm_storeu_si128((__m128i *) (out + i), sixteen_bytes(bits)); }                                          \
        for (; i < n; i++) out[i] = a[i] scalar_op s; }

#define COMPARES_WIDE(suffix, type, broadcast, compare)                                                              \
    COMPARE_WIDE(eq_##suffix, type, broadcast, compare, _MM_CMPINT_EQ, ==)                                           \
    COMPARE_WIDE(ne_##suffix, type, broadcast, compare, _MM_CMPINT_NE, !=)                                           \
    COMPARE_WIDE(lt_##suffix, type, broadcast, compare, _MM_CMPINT_LT, <)                                            \
    COMPARE_WIDE(le_##suffix, type, broadcast, compare, _MM_CMPINT_LE, <=)                                           \
    COMPARE_WIDE(gt_##suffix, type, broadcast, compare, _MM_CMPINT_NLE, >)                                           \
    COMPARE_WIDE(ge_##suffix, type, broadcast, compare, _MM_CMPINT_NLT, >=)

COMPARES_WIDE(i32, int32_t, BROADCAST_I32, COMPARE_I32)
COMPARES_WIDE(i64, int64_t, BROADCAST_I64, COMPARE_I64)
#else
COMPARES(i32, int32_t)
COMPARES(i64, int64_t)
#endif

/* --- magnitudes and widths --- */

static uint64_t magnitude(const int64_t *values, int64_t n) {
    /* |v| as unsigned: v ^ sign is |v| or |v| - 1, one short for negative values, which the OR of signs makes good. An OR
       of all would give the next power of two and be as fast; the maximum keeps products of bounds tight. */
    int64_t high = 0, low = 0;
    LOOP { high = values[i] > high ? values[i] : high; low = values[i] < low ? values[i] : low; }
    uint64_t negative = 0 - (uint64_t) low;
    return negative > (uint64_t) high ? negative : (uint64_t) high;
}

static uint64_t narrow(const int64_t *wide, int64_t n, int64_t *out) {
    uint64_t lost = 0;
    int64_t i = 0;
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    const __m512i low = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), high = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
    __m512i different = _mm512_setzero_si512();
    for (; i + 8 <= n; i += 8) {
        __m512i a = qc_load_stream(wide + 2 * i), b = qc_load_stream(wide + 2 * i + 8);
        __m512i values = _mm512_permutex2var_epi64(a, low, b);
        __m512i signs = _mm512_permutex2var_epi64(a, high, b);
        different = _mm512_or_si512(different, _mm512_xor_si512(signs, _mm512_srai_epi64(values, 63)));
        _mm512_storeu_si512(out + i, values);
    }
    lost = (uint64_t) _mm512_reduce_or_epi64(different);
#elif defined(__AVX2__)
    __m256i different = _mm256_setzero_si256();
    for (; i + 4 <= n; i += 4) {
        __m256i a = qc_load_stream(wide + 2 * i), b = _mm256_loadu_si256((const __m256i *) (wide + 2 * i + 4));
        __m256i values = _mm256_unpacklo_epi64(a, b), signs = _mm256_unpackhi_epi64(a, b);
        different = _mm256_or_si256(
            different, _mm256_xor_si256(signs, _mm256_cmpgt_epi64(_mm256_setzero_si256(), values)));
        _mm256_storeu_si256((__m256i *) (out + i), _mm256_permute4x64_epi64(values, 0xD8));
    }
    lost = !_mm256_testz_si256(different, different);
#endif
    for (; i < n; i++) {
        int64_t value = wide[2 * i];
        lost |= (uint64_t) (wide[2 * i + 1] ^ (value >> 63));
        out[i] = value;
    }
    return lost;
}

#include "rows_body.h"

/* --- masks --- */

#if defined(__AVX2__)
/* lane_orders[m]: the lanes whose bit in m is set, then the others, one byte each. */
#define LANE_PLACE(m, i) \
    (((m) >> (i)) & 1 ? __builtin_popcount((m) & ((1u << (i)) - 1)) \
                      : __builtin_popcount(m) + __builtin_popcount(~(m) & ((1u << (i)) - 1)))
#define LANE(m, i) ((uint64_t) (i) << 8 * LANE_PLACE(m, i))
#define LANES(m) \
    (LANE(m, 0) | LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7))
#define LANES_4(m) LANES((m) + 0u), LANES((m) + 1u), LANES((m) + 2u), LANES((m) + 3u)
#define LANES_16(m) LANES_4(m), LANES_4((m) + 4u), LANES_4((m) + 8u), LANES_4((m) + 12u)
#define LANES_64(m) LANES_16(m), LANES_16((m) + 16u), LANES_16((m) + 32u), LANES_16((m) + 48u)
static const uint64_t lane_orders[256] = {LANES_64(0u), LANES_64(64u), LANES_64(128u), LANES_64(192u)};
#endif

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__)
static int64_t mask_rows(const uint8_t *mask, int64_t n, uint32_t base, uint32_t *out) {
    int64_t count = 0, i = 0;
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (; i + 16 <= n; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *) (mask + i));
        __mmask16 set = _mm_test_epi8_mask(bytes, bytes);
        /* In registers, then one plain store: compressing to memory is several times slower on some processors. */
        __m512i rows = _mm512_add_epi32(lanes, _mm512_set1_epi32((int) (base + i)));
        _mm512_storeu_si512(out + count, _mm512_maskz_compress_epi32(set, rows));
        count += __builtin_popcount(set);
    }
    for (; i < n; i++) { out[count] = base + (uint32_t) i; count += mask[i]; }
    return count;
}

static int64_t mask_filter(const uint8_t *mask, const uint32_t *rows, int64_t n, uint32_t *out) {
    int64_t count = 0, i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *) (mask + i));
        __mmask16 set = _mm_test_epi8_mask(bytes, bytes);
        _mm512_storeu_si512(out + count, _mm512_maskz_compress_epi32(set, _mm512_loadu_si512(rows + i)));
        count += __builtin_popcount(set);
    }
    for (; i < n; i++) { out[count] = rows[i]; count += mask[i]; }
    return count;
}
#elif defined(__AVX2__)
/* One bit for each of eight bytes that are 0 or 1. */
static inline unsigned eight_bits(const uint8_t *mask) {
    uint64_t word;
    memcpy(&word, mask, 8);
    return (unsigned) ((word * 0x0102040810204080ULL) >> 56);
}

static inline __m256i lane_order(unsigned set) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *) &lane_orders[set]));
}

static int64_t mask_rows(const uint8_t *mask, int64_t n, uint32_t base, uint32_t *out) {
    int64_t count = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        unsigned set = eight_bits(mask + i);
        __m256i rows = _mm256_add_epi32(lane_order(set), _mm256_set1_epi32((int) (base + i)));
        _mm256_storeu_si256((__m256i *) (out + count), rows);
        count += __builtin_popcount(set);
    }
    for (; i < n; i++) { out[count] = base + (uint32_t) i; count += mask[i]; }
    return count;
}

static int64_t mask_filter(const uint8_t *mask, const uint32_t *rows, int64_t n, uint32_t *out) {
    int64_t count = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        unsigned set = eight_bits(mask + i);
        __m256i all = _mm256_loadu_si256((const __m256i *) (rows + i));
        _mm256_storeu_si256((__m256i *) (out + count), _mm256_permutevar8x32_epi32(all, lane_order(set)));
        count += __builtin_popcount(set);
    }
    for (; i < n; i++) { out[count] = rows[i]; count += mask[i]; }
    return count;
}
#else
static int64_t mask_rows(const uint8_t *mask, int64_t n, uint32_t base, uint32_t *out) {
    int64_t count = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, mask + i, 8);
        if (word == 0) continue;
        for (int k = 0; k < 8; k++) { out[count] = base + (uint32_t) (i + k); count += mask[i + k]; }
    }
    for (; i < n; i++) { out[count] = base + (uint32_t) i; count += mask[i]; }
    return count;
}

static int64_t mask_filter(const uint8_t *mask, const uint32_t *rows, int64_t n, uint32_t *out) {
    int64_t count = 0;
    LOOP { out[count] = rows[i]; count += mask[i]; }
    return count;
}
#endif

static int64_t mask_count(const uint8_t *mask, int64_t n) {
    int64_t count = 0, i = 0;
#if defined(__AVX512BW__)
    __m512i sums = _mm512_setzero_si512();
    for (; i + 64 <= n; i += 64)
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_loadu_si512(mask + i), _mm512_setzero_si512()));
    count = _mm512_reduce_add_epi64(sums);
#elif defined(__SSE2__)
    __m128i sums = _mm_setzero_si128();
    for (; i + 16 <= n; i += 16)
        sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_loadu_si128((const __m128i *) (mask + i)), _mm_setzero_si128()));
    count = _mm_cvtsi128_si64(sums) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums));
#endif
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, mask + i, 8);
        count += (int64_t) ((word * 0x0101010101010101ULL) >> 56);
    }
    for (; i < n; i++) count += mask[i];
    return count;
}

static void bits_to_mask(const uint8_t *bits, int64_t n, uint8_t *mask) {
    int64_t i = 0;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    const __m512i one = _mm512_set1_epi8(1);
    for (; i + 64 <= n; i += 64) {
        uint64_t word;
        memcpy(&word, bits + (i >> 3), 8);
        _mm512_storeu_si512(mask + i, _mm512_maskz_mov_epi8((__mmask64) word, one));
    }
#endif
    for (; i + 8 <= n; i += 8) {
        /* Copy the byte to eight lanes, keep bit k in lane k, make it 0 or 1. */
        uint64_t lanes = (bits[i >> 3] * 0x0101010101010101ULL) & 0x8040201008040201ULL;
        lanes = ((lanes + 0x7F7F7F7F7F7F7F7FULL) | lanes) >> 7 & 0x0101010101010101ULL;
        memcpy(mask + i, &lanes, 8);
    }
    for (; i < n; i++) mask[i] = (bits[i >> 3] >> (i & 7)) & 1;
}

static void mask_to_bits(const uint8_t *mask, int64_t n, uint8_t *bits) {
    int64_t i = 0;
#if defined(__AVX2__)
    for (; i + 32 <= n; i += 32) {
        /* The bit of each byte to its top. */
        __m256i bytes = _mm256_slli_epi16(_mm256_loadu_si256((const __m256i *) (mask + i)), 7);
        int word = _mm256_movemask_epi8(bytes);
        memcpy(bits + (i >> 3), &word, 4);
    }
#endif
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, mask + i, 8);
        bits[i >> 3] = (uint8_t) ((word * 0x0102040810204080ULL) >> 56);
    }
    if (i < n) {
        uint8_t last = 0;
        for (int64_t k = i; k < n; k++) last |= (uint8_t) (mask[k] << (k - i));
        bits[i >> 3] = last;
    }
}

static void mask_and(const uint8_t *a, const uint8_t *b, uint8_t *out, int64_t n) { LOOP out[i] = a[i] & b[i]; }
static void mask_or(const uint8_t *a, const uint8_t *b, uint8_t *out, int64_t n) { LOOP out[i] = a[i] | b[i]; }

#define SELECT(name, type)                                                                                           \
    static void name(const uint8_t *mask, const void *pa, const void *pb, void *po, int64_t n) {                     \
        const type *a = pa, *b = pb; type *o = po;                                                                   \
        LOOP { const type from_a = a[i], from_b = b[i]; o[i] = mask[i] ? from_a : from_b; } }
/* Both are read for each row, as compilers do not vectorise a load that depends on the mask. */
SELECT(select_1, uint8_t)
SELECT(select_2, uint16_t)
SELECT(select_4, uint32_t)
SELECT(select_8, uint64_t)
typedef struct { uint64_t low, high; } Wide;
static void select_16(const uint8_t *mask, const void *pa, const void *pb, void *po, int64_t n) {
    const Wide *a = pa, *b = pb;
    Wide *o = po;
    LOOP { const Wide *from = mask[i] ? a + i : b + i; o[i] = *from; }
}

/* --- strings --- */

static inline void view_scalar(const char *text, int64_t length, char *out) {
    uint32_t stored = (uint32_t) length;
    memset(out, 0, 16);
    memcpy(out, &stored, 4);
    memcpy(out + 4, text, (size_t) (length > VIEW_INLINE ? 4 : length));
    if (length > VIEW_INLINE) memcpy(out + 8, &text, 8);
}

#if defined(__SSE2__)
/* Which of the 16 bytes from text - 4 on belong into a view: by length up to 12, then that of any longer string. */
static const uint8_t view_masks[14][16] = {
    {0},
    {0, 0, 0, 0, 255},
    {0, 0, 0, 0, 255, 255},
    {0, 0, 0, 0, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255},
};

/* One load that begins 4 bytes early, one mask: no branch on the length, which differs from row to row. `text` has 4
   readable bytes before it and 12 behind. */
static inline void view_fast(const char *text, int64_t length, char *out) {
    int is_long = length > VIEW_INLINE;
    __m128i mask = _mm_loadu_si128((const __m128i *) view_masks[is_long ? VIEW_INLINE + 1 : length]);
    __m128i bytes = _mm_and_si128(_mm_loadu_si128((const __m128i *) (text - 4)), mask);
    __m128i rest = _mm_set_epi64x(is_long ? (long long) (intptr_t) text : 0, (long long) length);
    _mm_storeu_si128((__m128i *) out, _mm_or_si128(bytes, rest));
}
#else
static inline void view_fast(const char *text, int64_t length, char *out) { view_scalar(text, length, out); }
#endif

/* Of neighbouring rows only the first and the last few lie too near the ends of `data`; the rest needs no check. */
#define VIEWS(name, type)                                                                                            \
    static void name(const type *offsets, const char *data, int64_t last, const uint32_t *rows, int64_t n, void *po) { \
        char *out = po;                                                                                              \
        if (rows) {                                                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                                        \
                int64_t run = run_length(rows + i, n - i);                                                           \
                if (run > 0) {                                                                                       \
                    name(offsets + rows[i], data, last, NULL, run, out + 16 * i);                                    \
                    i += run - 1;                                                                                    \
                    continue;                                                                                        \
                }                                                                                                    \
                int64_t from = offsets[rows[i]], length = offsets[rows[i] + 1] - from;                               \
                if (from >= 4 && from + VIEW_INLINE <= last) view_fast(data + from, length, out + 16 * i);           \
                else view_scalar(data + from, length, out + 16 * i);                                                 \
            }                                                                                                        \
            return;                                                                                                  \
        }                                                                                                            \
        int64_t i = 0, end = n;                                                                                      \
        for (; i < n && offsets[i] < 4; i++) view_scalar(data + offsets[i], offsets[i + 1] - offsets[i], out + 16 * i); \
        while (end > i && offsets[end - 1] + VIEW_INLINE > last) {                                                   \
            end--;                                                                                                   \
            view_scalar(data + offsets[end], offsets[end + 1] - offsets[end], out + 16 * end);                       \
        }                                                                                                            \
        for (int64_t from = offsets[i]; i < end; i++) {                                                              \
            int64_t next = offsets[i + 1];                                                                           \
            qc_prefetch_stream(data + next);                                                                         \
            view_fast(data + from, next - from, out + 16 * i);                                                       \
            from = next;                                                                                             \
        } }
VIEWS(views, int32_t)
VIEWS(views_large, int64_t)

/* memmem builds a table at every call, which costs more than the search in short strings: here the first and the last byte
   of the needle are compared with many positions at once, and the rest only where both fit. */
static int64_t find_blocks(const char *text, int64_t n, const char *needle, int64_t m) {
    int64_t last = n - m, i = 0;
#if defined(__SSE2__)
    if (last >= 15) {
        const __m128i first = _mm_set1_epi8(needle[0]), final = _mm_set1_epi8(needle[m - 1]);
        for (;;) {
            __m128i a = _mm_loadu_si128((const __m128i *) (text + i));
            __m128i b = _mm_loadu_si128((const __m128i *) (text + i + m - 1));
            unsigned hits = (unsigned) _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, final)));
            for (; hits; hits &= hits - 1) {
                int64_t at = i + __builtin_ctz(hits);
                if (memcmp(text + at, needle, (size_t) m) == 0) return at;
            }
            if (i == last - 15) return -1;
            i = i + 16 <= last - 15 ? i + 16 : last - 15;      /* the last block overlaps the one before */
        }
    }
#endif
    for (; i <= last; i++)
        if (text[i] == needle[0] && memcmp(text + i, needle, (size_t) m) == 0) return i;
    return -1;
}

#if defined(__AVX512BW__)
/* Masked loads: most strings are one block, without a branch on their length. The needle is compared in a register, for a
   call in this function would spill all of them. */
static int64_t find_masked(const char *text, int64_t n, const char *needle, int64_t m) {
    if (m > 64) return find_blocks(text, n, needle, m);
    const __mmask64 inside = ~0ULL >> (64 - m);
    const __m512i whole = _mm512_maskz_loadu_epi8(inside, needle);
    const __m512i first = _mm512_set1_epi8(needle[0]), final = _mm512_set1_epi8(needle[m - 1]);
    for (int64_t i = 0, left = n - m + 1; left > 0; i += 64, left -= 64) {
        __mmask64 block = left >= 64 ? ~0ULL : (1ULL << left) - 1;
        uint64_t hits = _mm512_mask_cmpeq_epi8_mask(block, _mm512_maskz_loadu_epi8(block, text + i), first);
        hits = _mm512_mask_cmpeq_epi8_mask(hits, _mm512_maskz_loadu_epi8(block, text + i + m - 1), final);
        for (; hits; hits &= hits - 1) {
            int64_t at = i + __builtin_ctzll(hits);
            if (_mm512_mask_cmpneq_epi8_mask(inside, _mm512_maskz_loadu_epi8(inside, text + at), whole) == 0) return at;
        }
    }
    return -1;
}
#define FIND find_masked
#else
#define FIND find_blocks
#endif

/* --- checks of imported strings --- */

enum { VIEW_FAULTY = 1, VIEW_LONG = 2 };

#if defined(__AVX512BW__)
/* Flags of n string views: VIEW_FAULTY if a short one is not sound, VIEW_LONG if one is longer than 12 bytes. */
static unsigned views_seen(const void *views, int64_t n, int text) {
    /* Of each byte the number of text bytes up to it, so that it must be zero where that is above the length; the four
       bytes of the length itself never are. */
    const int each = text ? (int) 0x80808080 : 0;
    const __m512i place = _mm512_broadcast_i32x4(
        _mm_set_epi8(12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, -128, -128, -128, -128));
    const __m512i high = _mm512_broadcast_i32x4(_mm_set_epi32(each, each, each, 0));
    const __m512i shortest = _mm512_set1_epi32(VIEW_INLINE + 1);
    __m512i bad = _mm512_setzero_si512();
    uint32_t longer = 0;
    for (int64_t i = 0; i < n; i += 4) {
        const char *at = (const char *) views + 16 * i;
        __m512i x = i + 4 <= n ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi64((__mmask8) ((1u << 2 * (n - i)) - 1), at);
        __mmask16 is_long = _mm512_cmpge_epu32_mask(_mm512_shuffle_epi32(x, 0), shortest);
        __mmask64 behind = _mm512_cmpgt_epi8_mask(place, _mm512_shuffle_epi8(x, _mm512_setzero_si512()));
        __m512i wanted_zero = _mm512_mask_set1_epi8(high, behind, -1);
        bad = _mm512_or_si512(bad, _mm512_maskz_and_epi32((__mmask16) ~is_long, x, wanted_zero));
        longer |= is_long;
    }
    return (_mm512_test_epi32_mask(bad, bad) ? VIEW_FAULTY : 0) | (longer ? VIEW_LONG : 0);
}
#elif defined(__AVX2__)
static unsigned views_seen(const void *views, int64_t n, int text) {
    /* As above, two at a time. */
    const int each = text ? (int) 0x80808080 : 0;
    const __m256i place = _mm256_broadcastsi128_si256(
        _mm_set_epi8(12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, -128, -128, -128, -128));
    const __m256i high = _mm256_broadcastsi128_si256(_mm_set_epi32(each, each, each, 0));
    const __m256i shortest = _mm256_set1_epi32(VIEW_INLINE + 1);
    __m256i bad = _mm256_setzero_si256(), longer = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += 2) {
        const __m128i *at = (const __m128i *) views + i;
        __m256i x = i + 2 <= n ? _mm256_loadu_si256((const __m256i *) at) : _mm256_zextsi128_si256(_mm_loadu_si128(at));
        __m256i length = _mm256_shuffle_epi32(x, 0);
        __m256i is_long = _mm256_cmpeq_epi32(_mm256_max_epu32(length, shortest), length);
        __m256i behind = _mm256_cmpgt_epi8(place, _mm256_shuffle_epi8(x, _mm256_setzero_si256()));
        __m256i wanted_zero = _mm256_or_si256(behind, high);
        bad = _mm256_or_si256(bad, _mm256_andnot_si256(is_long, _mm256_and_si256(x, wanted_zero)));
        longer = _mm256_or_si256(longer, is_long);
    }
    return (_mm256_testz_si256(bad, bad) ? 0 : VIEW_FAULTY) | (_mm256_testz_si256(longer, longer) ? 0 : VIEW_LONG);
}
#else
static unsigned views_seen(const void *views, int64_t n, int text) {
    const uint64_t *words = views;
    uint64_t masks[VIEW_INLINE + 2][2], bad = 0;
    unsigned longer = 0;
    for (int length = 0; length < VIEW_INLINE + 2; length++)
        for (int byte = -4; byte < VIEW_INLINE; byte++) {
            uint8_t *mask = (uint8_t *) masks[length];
            mask[byte + 4] = byte < 0 || length > VIEW_INLINE ? 0 : byte >= length ? 0xFF : text ? 0x80 : 0;
        }
    LOOP {
        uint32_t length = (uint32_t) words[2 * i];
        longer |= length > VIEW_INLINE;
        length = length > VIEW_INLINE ? VIEW_INLINE + 1 : length;
        bad |= (words[2 * i] & masks[length][0]) | (words[2 * i + 1] & masks[length][1]);
    }
    return (bad ? VIEW_FAULTY : 0) | (longer ? VIEW_LONG : 0);
}
#endif

/* Bytes or-ed together, so that one above 127 shows: first many side by side. Nothing outside of them is read. */
#if defined(__AVX512BW__)
typedef __m512i TextSeen;
static inline TextSeen nothing_seen(void) { return _mm512_setzero_si512(); }
static inline int seen_high(TextSeen seen) { return _mm512_movepi8_mask(seen) != 0; }
static inline TextSeen see_text(TextSeen seen, const uint8_t *text, int64_t n) {
    for (; n > 64; text += 64, n -= 64) seen = _mm512_or_si512(seen, _mm512_loadu_si512(text));
    return _mm512_or_si512(seen, _mm512_maskz_loadu_epi8(n > 0 ? ~0ULL >> (64 - n) : 0, text));
}
#else
static inline uint64_t see_words(const uint8_t *text, int64_t n) {
    uint64_t word, seen = 0;
    if (n < 8) {
        LOOP seen |= text[i];
        return seen;
    }
    for (int64_t i = 0; i < n - 8; i += 8) {
        memcpy(&word, text + i, 8);
        seen |= word;
    }
    memcpy(&word, text + n - 8, 8);     /* the last word overlaps the one before */
    return seen | word;
}
#if defined(__AVX2__)
typedef __m256i TextSeen;
static inline TextSeen nothing_seen(void) { return _mm256_setzero_si256(); }
static inline int seen_high(TextSeen seen) { return _mm256_movemask_epi8(seen) != 0; }
static inline TextSeen see_text(TextSeen seen, const uint8_t *text, int64_t n) {
    if (n < 32) return _mm256_or_si256(seen, _mm256_set1_epi64x((long long) see_words(text, n)));
    for (int64_t i = 0; i < n - 32; i += 32)
        seen = _mm256_or_si256(seen, _mm256_loadu_si256((const __m256i *) (text + i)));
    return _mm256_or_si256(seen, _mm256_loadu_si256((const __m256i *) (text + n - 32)));
}
#else
typedef uint64_t TextSeen;
static inline TextSeen nothing_seen(void) { return 0; }
static inline int seen_high(TextSeen seen) { return (seen & 0x8080808080808080ULL) != 0; }
static inline TextSeen see_text(TextSeen seen, const uint8_t *text, int64_t n) { return seen | see_words(text, n); }
#endif
#endif

typedef struct { uint32_t length, prefix, buffer, offset; } LongView;

/* Whether n >= 1 long views all point into the first 2 GiB of one buffer (NULL: a missing one), with the prefixes that it
   has there, and its bytes from the first to the last of them are ASCII. Most blocks of long views are so. Their text is
   read from end to end, without a branch for each view. */
static int views_in_order(const LongView *views, int64_t n, const uint8_t *base, int64_t size, uint32_t buffer, int text) {
    uint32_t first = UINT32_MAX, last = 0, bits = 0, differs = 0;
    uint64_t total = 0;
    LOOP {
        uint32_t from = views[i].offset, length = views[i].length, end = from + length;
        bits |= from | length;
        differs |= views[i].buffer ^ buffer;
        first = from < first ? from : first;
        last = end > last ? end : last;
        total += length;
    }
    /* Without a negative offset or length no end overflowed. */
    if (differs || bits > INT32_MAX || !base || last > (size < INT32_MAX ? size : INT32_MAX)) return 0;
    LOOP {
        uint32_t prefix;
        memcpy(&prefix, base + views[i].offset, 4);
        differs |= prefix ^ views[i].prefix;
    }
    if (differs || !text) return differs == 0;
    /* Text that no view points to would be read in vain. */
    if (last - first > 2 * total) return 0;
    return !seen_high(see_text(nothing_seen(), base + first, (int64_t) last - first));
}

static int views_sound(const void *views, const uint32_t *rows, int64_t n, const void *const *buffers, const int64_t *sizes,
                       int64_t n_buffers, int text) {
    LongView picked[SIMD_CHECK_ROWS];
    uint16_t longs[SIMD_CHECK_ROWS + 1];
    const LongView *all = views;
    if (rows) {
        LOOP picked[i] = all[rows[i]];
        all = picked;
    }
    unsigned flags = views_seen(all, n, text);
    if (flags != VIEW_LONG) return flags == 0;
    int64_t n_longs = 0;
    LOOP {
        longs[n_longs] = (uint16_t) i;
        n_longs += all[i].length > VIEW_INLINE;
    }
    if (n_longs == n) {
        const uint32_t one = all[0].buffer;
        const int is_there = one < n_buffers;
        if (views_in_order(all, n, is_there ? buffers[one] : 0, is_there ? sizes[one] : 0, one, text)) return 1;
    }
    /* Neighbours mostly point into the same buffer. Bytes past 2 GiB count as unsound here; the caller checks such views. */
    const uint8_t *base = 0;
    int64_t buffer = -1;
    uint32_t size = 0, differs = 0;
    TextSeen seen = nothing_seen();
    for (int64_t k = 0; k < n_longs; k++) {
        const LongView *view = &all[longs[k]];
        if (view->buffer != buffer) {
            buffer = view->buffer;
            if (buffer >= n_buffers || buffers[buffer] == 0 || sizes[buffer] < 0) return 0;
            base = buffers[buffer];
            size = (uint32_t) (sizes[buffer] < INT32_MAX ? sizes[buffer] : INT32_MAX);
        }
        /* Unsigned: a negative length or offset is above any size. */
        if (view->offset > size || view->length > size - view->offset) return 0;
        uint32_t prefix;
        memcpy(&prefix, base + view->offset, 4);
        differs |= prefix ^ view->prefix;
        if (text) seen = see_text(seen, base + view->offset, view->length);
    }
    return differs == 0 && !seen_high(seen);
}

#define STRINGS_SOUND(name, type)                                                                                    \
    static int name(const type *offsets, const uint32_t *rows, int64_t n, const uint8_t *data, int64_t limit, int text) { \
        int64_t from[SIMD_CHECK_ROWS], length[SIMD_CHECK_ROWS], bad = 0;                                             \
        LOOP {                                                                                                       \
            int64_t row = rows ? rows[i] : i;                                                                        \
            from[i] = offsets[row];                                                                                  \
            length[i] = (int64_t) ((uint64_t) offsets[row + 1] - (uint64_t) offsets[row]);                           \
            bad |= from[i] | (int64_t) offsets[row + 1] | length[i] | (int64_t) (INT32_MAX - (uint64_t) length[i]);  \
            bad |= (int64_t) ((uint64_t) limit - (uint64_t) offsets[row + 1]);                                       \
        }                                                                                                            \
        if (bad < 0) return 0;                                                                                       \
        TextSeen seen = nothing_seen();                                                                              \
        if (text) LOOP seen = see_text(seen, data + from[i], length[i]);                                             \
        return !seen_high(seen); }
STRINGS_SOUND(strings_sound, int32_t)
STRINGS_SOUND(large_strings_sound, int64_t)

static uint8_t or_bytes(const uint8_t *data, int64_t n) {
    uint8_t seen = 0;
    LOOP seen |= data[i];
    return seen;
}

static int32_t or_steps(const int32_t *offsets, int64_t n) {
    uint32_t seen = (uint32_t) offsets[n];
    LOOP seen |= (uint32_t) offsets[i] | ((uint32_t) offsets[i + 1] - (uint32_t) offsets[i]);
    return (int32_t) seen;
}

static void range_u32(const uint32_t *values, int64_t n, uint32_t *least, uint32_t *most) {
    uint32_t low = values[0], high = values[0];
    LOOP {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    *least = low;
    *most = high;
}

static int views_long(const void *views, int64_t n) {
    const uint32_t *words = views;
    uint32_t longest = 0;
    int64_t i = 0;
#if defined(__AVX2__)
    /* The greatest of all words by place; those of the lengths are read in the end. */
    __m256i most = _mm256_setzero_si256();
    for (; i + 2 <= n; i += 2) most = _mm256_max_epu32(most, _mm256_loadu_si256((const __m256i *) (words + 4 * i)));
    longest = (uint32_t) _mm256_extract_epi32(most, 0);
    if ((uint32_t) _mm256_extract_epi32(most, 4) > longest) longest = (uint32_t) _mm256_extract_epi32(most, 4);
#endif
    for (; i < n; i++) longest = words[4 * i] > longest ? words[4 * i] : longest;
    return longest > VIEW_INLINE;
}

static void rows_to_bits(const uint32_t *rows, int64_t n, uint32_t base, uint8_t *bits, int64_t n_bytes) {
    int64_t i = 0;
    for (int64_t at = 0; at < 8 * n_bytes; at += 64) {
        uint64_t word = 0;
        uint32_t first = base + (uint32_t) at;
        if (i + 64 <= n && rows[i] == first && rows[i + 63] == first + 63) {
            word = ~0ULL;       /* rows ascend, so these are all */
            i += 64;
        } else {
            for (; i < n && rows[i] - first < 64; i++) word |= 1ULL << (rows[i] - first);
        }
        memcpy(bits + (at >> 3), &word, 8);
    }
}

/* --- the table --- */

#define SHAPES(f) {f##_vv, f##_vs, f##_sv}
#define ARITHMETIC(op) {                                                                                             \
    [SIMD_I8] = SHAPES(op##_i8), [SIMD_I16] = SHAPES(op##_i16), [SIMD_I32] = SHAPES(op##_i32),                       \
    [SIMD_I64] = SHAPES(op##_i64), [SIMD_U8] = SHAPES(op##_u8), [SIMD_U16] = SHAPES(op##_u16),                       \
    [SIMD_U32] = SHAPES(op##_u32), [SIMD_U64] = SHAPES(op##_u64), [SIMD_F32] = SHAPES(op##_f32),                     \
    [SIMD_F64] = SHAPES(op##_f64)}
#define PAIR(f) {f##_vv, f##_vs}
#define COMPARISON(op) {                                                                                             \
    [SIMD_BOOL] = PAIR(op##_u8), [SIMD_I8] = PAIR(op##_i8), [SIMD_I16] = PAIR(op##_i16), [SIMD_I32] = PAIR(op##_i32), \
    [SIMD_I64] = PAIR(op##_i64), [SIMD_U8] = PAIR(op##_u8), [SIMD_U16] = PAIR(op##_u16), [SIMD_U32] = PAIR(op##_u32), \
    [SIMD_U64] = PAIR(op##_u64), [SIMD_F32] = PAIR(op##_f32), [SIMD_F64] = PAIR(op##_f64)}

static const SimdKernels simd_kernels = {
    .arithmetic = {ARITHMETIC(add), ARITHMETIC(sub), ARITHMETIC(mul)},
    .unchecked = {SHAPES(add_raw), SHAPES(sub_raw), SHAPES(mul_raw)},
    .compare = {COMPARISON(eq), COMPARISON(ne), COMPARISON(lt), COMPARISON(le), COMPARISON(gt), COMPARISON(ge)},
    .magnitude = magnitude,
    .narrow = narrow,
    .narrow_rows = narrow_rows,
    .widen = widen,
    .mask_rows = mask_rows,
    .mask_filter = mask_filter,
    .mask_count = mask_count,
    .bits_to_mask = bits_to_mask,
    .mask_to_bits = mask_to_bits,
    .mask_and = mask_and,
    .mask_or = mask_or,
    .views = views,
    .views_large = views_large,
    .find = FIND,
    .views_sound = views_sound,
    .strings_sound = strings_sound,
    .large_strings_sound = large_strings_sound,
    .or_bytes = or_bytes,
    .or_steps = or_steps,
    .range = range_u32,
    .gather = {gather_1, gather_2, gather_4, gather_8, gather_16},
    .scatter_parts = {scatter_parts_1, scatter_parts_2, scatter_parts_4, scatter_parts_8, scatter_parts_16},
    .scatter_parts_pair = scatter_parts_pair,
    .scatter_runs = {scatter_runs_1, scatter_runs_2, scatter_runs_4, scatter_runs_8, scatter_runs_16},
    .views_long = views_long,
    .rows_to_bits = rows_to_bits,
    .select = {select_1, select_2, select_4, select_8, select_16},
};
