/* The decoders of QpKernels. kernels_all.h includes this file once for each instruction set, with QP(name) to name what
   it defines. */

static void QP(unpack_some)(const uint8_t *packed, int64_t first, int64_t n, int width, uint32_t *out) {
    const uint64_t mask = ((uint64_t) 1 << width) - 1;
    int64_t bit = first * width;
    for (int64_t i = 0; i < n; i++, bit += width) out[i] = (uint32_t) ((qp_load64(packed + (bit >> 3)) >> (bit & 7)) & mask);
}

#if defined(QP_AVX2)
/* How 8 values of a width are unpacked: a value and the bits before it in its first byte fit 32 bits, so that one shuffle
   and one shift suffice. It is made once for all runs of a call, because many runs are short. */
typedef struct {
    __m256i order, shift, mask;
    int second;         /* first byte of the values 4 to 7 */
} QP(Unpacking);

#define QP_WIDTH_MAX 25

static inline void QP(begin_unpacking)(QP(Unpacking) *how, int width) {
    uint8_t bytes[32];
    uint32_t shifts[8];
    how->second = width / 2;
    for (int i = 0; i < 8; i++) {
        int bit = i * width - (i < 4 ? 0 : 8 * how->second);
        for (int k = 0; k < 4; k++) bytes[4 * i + k] = (uint8_t) ((bit >> 3) + k);
        shifts[i] = (uint32_t) (bit & 7);
    }
    how->order = _mm256_loadu_si256((const __m256i *) bytes);
    how->shift = _mm256_loadu_si256((const __m256i *) shifts);
    how->mask = _mm256_set1_epi32((int) (((uint32_t) 1 << width) - 1));
}

/* n values, the first of which is the first of a group of 8. Writes whole groups. */
static inline void QP(unpack)(const QP(Unpacking) *how, const uint8_t *p, int64_t n, int width, uint32_t *out) {
    for (int64_t i = 0; i < n; i += 8, p += width) {
        __m256i both = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) p)),
            _mm_loadu_si128((const __m128i *) (p + how->second)), 1);
        __m256i words = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, how->order), how->shift);
        _mm256_storeu_si256((__m256i *) (out + i), _mm256_and_si256(words, how->mask));
    }
}
#endif

static int64_t QP(codes)(QpRuns *runs, int64_t n, uint32_t *out) {
    const int width = runs->width;
    int64_t done = 0;
#if defined(QP_AVX2)
    QP(Unpacking) how;
    QP(begin_unpacking)(&how, width <= QP_WIDTH_MAX ? width : 0);
#endif
    while (done < n) {
        if (runs->left == 0 && !qp_runs_next(runs)) break;
        int64_t m = n - done < runs->left ? n - done : runs->left;
        if (!runs->packed) {
            const uint32_t value = runs->value;
            for (int64_t i = 0; i < m; i++) out[done + i] = value;
        } else {
            const int64_t before = runs->taken & 7;
            if (before) {
                if (8 - before < m) m = 8 - before;
            } else if (m > 8) {
                m &= ~(int64_t) 7;
            }
#if defined(QP_AVX2)
            if (!before && m >= 8 && width <= QP_WIDTH_MAX)
                QP(unpack)(&how, runs->packed + runs->taken / 8 * width, m, width, out + done);
            else
#endif
            QP(unpack_some)(runs->packed, runs->taken, m, width, out + done);
            runs->taken += m;
        }
        runs->left -= m;
        done += m;
    }
    return done;
}

static int64_t QP(bits)(QpRuns *runs, int64_t n, uint8_t *bits, int64_t at) {
    int64_t ones = 0;
    while (n > 0) {
        if (runs->left == 0 && !qp_runs_next(runs)) return -1;
        int64_t m = n < runs->left ? n : runs->left;
        if (!runs->packed) {
            if (runs->value > 1) return -1;
            if (runs->value) {
                qp_set_bits(bits, at, m);
                ones += m;
            }
        } else {
            for (int64_t done = 0; done < m; ) {
                int64_t from = runs->taken + done, to = at + done, k = m - done < 56 ? m - done : 56;
                uint64_t word = (qp_load64(runs->packed + (from >> 3)) >> (from & 7)) & (((uint64_t) 1 << k) - 1);
                qp_store64(bits + (to >> 3), qp_load64(bits + (to >> 3)) | word << (to & 7));
                ones += __builtin_popcountll(word);
                done += k;
            }
        }
        runs->left -= m;
        runs->taken += m;
        at += m;
        n -= m;
    }
    return ones;
}

static uint32_t QP(greatest)(const uint32_t *codes, int64_t n) {
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) found = codes[i] > found ? codes[i] : found;
    return found;
}

#define QP_GATHER(name, type)                                                                                        \
    static void name(const void *values, const uint32_t *codes, int64_t n, void *out) {                              \
        const type *v = values; type *o = out;                                                                       \
        for (int64_t i = 0; i < n; i++) o[i] = v[codes[i]]; }

typedef struct { uint64_t low, high; } QP(Wide);

QP_GATHER(QP(gather8), uint8_t)
QP_GATHER(QP(gather16), uint16_t)
QP_GATHER(QP(gather32), uint32_t)
QP_GATHER(QP(gather64), uint64_t)
QP_GATHER(QP(gather128), QP(Wide))

/* From the last row back, so that each value is read before its slot is overwritten. */
#define QP_SPREAD(name, type)                                                                                        \
    static void name(const uint8_t *bits, int64_t first, int64_t n, int64_t n_values, void *values) {                \
        type *v = values; const type none = {0}; int64_t k = n_values;                                               \
        for (int64_t i = n - 1; i >= k; i--) {                                                                       \
            int64_t at = first + i, valid = (bits[at >> 3] >> (at & 7)) & 1;                                         \
            type value = v[k > 0 ? k - 1 : 0];                                                                       \
            v[i] = valid ? value : none;                                                                             \
            k -= valid; } }

QP_SPREAD(QP(spread8), uint8_t)
QP_SPREAD(QP(spread16), uint16_t)
QP_SPREAD(QP(spread128), QP(Wide))
#if defined(QP_AVX2)
/* 8 words of 32 bits at a time: a permutation made from the bits puts the next values into their rows. */
static inline __m256i QP(expand)(const void *from, uint32_t lanes) {
    const uint64_t bytes = _pdep_u64(lanes, 0x0101010101010101ULL) * 0xFF;
    const uint64_t order = _pdep_u64(0x0706050403020100ULL, bytes);
    const __m256i indices = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long) order));
    const __m256i mask = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long) bytes));
    const __m256i values = _mm256_loadu_si256((const __m256i *) from);
    return _mm256_and_si256(_mm256_permutevar8x32_epi32(values, indices), mask);
}

QP_SPREAD(QP(spread32_some), uint32_t)
QP_SPREAD(QP(spread64_some), uint64_t)

#define QP_SPREAD_BLOCKS(name, some, type, rows, lanes_of)                                                           \
    static void name(const uint8_t *bits, int64_t first, int64_t n, int64_t n_values, void *values) {                \
        type *v = values; int64_t k = n_values;                                                                      \
        int64_t i = n & ~(int64_t) (rows - 1);                                                                       \
        int64_t last = 0;                                                                                            \
        for (int64_t r = i; r < n; r++) last += (bits[(first + r) >> 3] >> ((first + r) & 7)) & 1;                   \
        /* The rows behind the last whole block, moved as a block of their own. */                                  \
        if (i < n) {                                                                                                 \
            k -= last;                                                                                               \
            memmove(v + i, v + k, (size_t) last * sizeof(type));                                                     \
            some(bits, first + i, n - i, last, v + i);                                                               \
        }                                                                                                            \
        while (i > k) {                                                                                              \
            i -= rows;                                                                                               \
            const int64_t at = first + i;                                                                            \
            uint16_t word; memcpy(&word, bits + (at >> 3), 2);                                                       \
            const uint32_t mask = (word >> (at & 7)) & ((1u << rows) - 1);                                           \
            k -= __builtin_popcount(mask);                                                                           \
            const __m256i block = QP(expand)(v + k, lanes_of(mask));                                                 \
            _mm256_storeu_si256((__m256i *) (v + i), block); } }

#define QP_LANES32(mask) (mask)
#define QP_LANES64(mask) ((uint32_t) _pdep_u32(mask, 0x55) * 3)
QP_SPREAD_BLOCKS(QP(spread32), QP(spread32_some), uint32_t, 8, QP_LANES32)
QP_SPREAD_BLOCKS(QP(spread64), QP(spread64_some), uint64_t, 4, QP_LANES64)
#undef QP_SPREAD_BLOCKS
#undef QP_LANES32
#undef QP_LANES64
#else
QP_SPREAD(QP(spread32), uint32_t)
QP_SPREAD(QP(spread64), uint64_t)
#endif

static int64_t QP(places)(
    const uint8_t *bits, const uint32_t *rows, uint32_t base, int64_t k, uint32_t *places, uint8_t *validity, int64_t first
) {
    int64_t found = 0, word_at = 0;
    uint32_t before = 0;
    uint64_t word = qp_load64(bits);
    for (int64_t i = 0; i < k; i++) {
        const int64_t row = rows[i] - base;
        for (; word_at < row >> 6; word = qp_load64(bits + 8 * ++word_at)) before += (uint32_t) __builtin_popcountll(word);
        const uint64_t below = word & (((uint64_t) 1 << (row & 63)) - 1);
        const int valid = (word >> (row & 63)) & 1;
        places[found] = before + (uint32_t) __builtin_popcountll(below);
        found += valid;
        validity[(first + i) >> 3] |= (uint8_t) (valid << ((first + i) & 7));
    }
    return found;
}

#undef QP_WIDTH_MAX
#undef QP_GATHER
#undef QP_SPREAD
