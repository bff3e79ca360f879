/* The kernels of simd.h that move values by position. simd_body.h includes this file. */

/* Most selections of filters that keep nearly all rows are runs of rows that follow each other. */
enum { RUN_ROWS = 8 };

static inline int is_run(const uint32_t *rows) {
#if defined(__AVX2__)
    __m256i wanted = _mm256_add_epi32(_mm256_set1_epi32((int) rows[0]), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *) rows), wanted)) == -1;
#else
    uint32_t different = 0;
    for (int k = 1; k < RUN_ROWS; k++) different |= rows[k] ^ (rows[0] + (uint32_t) k);
    return different == 0;
#endif
}

/* How many of n rows from the first on follow each other, as a multiple of RUN_ROWS. */
static inline int64_t run_length(const uint32_t *rows, int64_t n) {
    int64_t length = 0;
    while (length + RUN_ROWS <= n && rows[length + RUN_ROWS - 1] == rows[0] + (uint32_t) length + RUN_ROWS - 1 &&
           rows[length] == rows[0] + (uint32_t) length && is_run(rows + length))
        length += RUN_ROWS;
    return length;
}

/* Rows between those that are gathered and those that are fetched, of which two in RUN_ROWS are: rows of equal keys lie
   next to each other in a table in the order of its groups. A join of 5M rows with four matches each took 0.88 of the
   time. */
enum { ROWS_AHEAD = 80 };

#define GATHER(name, width)                                                                                          \
    static void name(const void *pv, const uint32_t *rows, int64_t n, void *po) {                                    \
        const char *values = pv; char *out = po; int64_t i = 0;                                                      \
        for (; i + RUN_ROWS <= n; i += RUN_ROWS) {                                                                   \
            if (is_run(rows + i)) {                                                                                  \
                memcpy(out + width * i, values + width * (int64_t) rows[i], width * RUN_ROWS);                       \
                continue;                                                                                            \
            }                                                                                                        \
            if (i + ROWS_AHEAD + RUN_ROWS <= n) {                                                                    \
                __builtin_prefetch(values + width * (int64_t) rows[i + ROWS_AHEAD]);                                 \
                __builtin_prefetch(values + width * (int64_t) rows[i + ROWS_AHEAD + RUN_ROWS / 2]);                  \
            }                                                                                                        \
            for (int64_t k = i; k < i + RUN_ROWS; k++)                                                               \
                memcpy(out + width * k, values + width * (int64_t) rows[k], width);                                  \
        }                                                                                                            \
        for (; i < n; i++) memcpy(out + width * i, values + width * (int64_t) rows[i], width);                       \
    }

GATHER(gather_1, 1)
GATHER(gather_2, 2)
GATHER(gather_4, 4)
#if defined(__AVX512F__) && defined(__AVX512VL__)
/* Rows of a filter that most rows pass are near each other: eight of them are picked from four registers, instead of eight
   loads. No row after the last one is read. */
GATHER(gather_8_any, 8)

static void gather_8(const void *pv, const uint32_t *rows, int64_t n, void *po) {
    const uint64_t *values = pv;
    uint64_t *out = po;
    int64_t i = 0, apart = 0;
    for (; i + 8 <= n && apart * 64 <= i + 64; i += 8) {
        __m256i at = _mm256_loadu_si256((const __m256i *) (rows + i));
        const uint64_t *first = values + rows[i];
        __m256i beyond = _mm256_sub_epi32(at, _mm256_set1_epi32((int) rows[i]));
        if (_mm256_cmplt_epu32_mask(beyond, _mm256_set1_epi32(32)) != 0xFF || (uint64_t) rows[i] + 31 > rows[n - 1]) {
            for (int64_t k = i; k < i + 8; k++) out[k] = values[rows[k]];
            apart++;
            continue;
        }
        __builtin_prefetch(first + 256);
        __m512i places = _mm512_cvtepu32_epi64(beyond);
        __m512i low = _mm512_permutex2var_epi64(_mm512_loadu_si512(first), places, _mm512_loadu_si512(first + 8));
        __m512i high = _mm512_permutex2var_epi64(_mm512_loadu_si512(first + 16), places, _mm512_loadu_si512(first + 24));
        __mmask8 is_high = _mm512_test_epi64_mask(places, _mm512_set1_epi64(16));
        _mm512_storeu_si512(out + i, _mm512_mask_blend_epi64(is_high, low, high));
    }
    gather_8_any(values, rows + i, n - i, out + i);
}
#else
GATHER(gather_8, 8)
#endif
GATHER(gather_16, 16)

/* Write a line of the cache without reading it from memory first. `to` is aligned to it. */
static inline void stream_line(char *to, const char *line) {
#if defined(__AVX512F__)
    _mm512_stream_si512((void *) to, _mm512_loadu_si512(line));
#elif defined(__AVX2__)
    for (int k = 0; k < 64; k += 32) _mm256_stream_si256((__m256i *) (to + k), _mm256_loadu_si256((const __m256i *) (line + k)));
#elif defined(__SSE2__)
    for (int k = 0; k < 64; k += 16) _mm_stream_si128((__m128i *) (to + k), _mm_loadu_si128((const __m128i *) (line + k)));
#else
    memcpy(to, line, 64);
#endif
}

/* After the last streamed line of a kernel: other threads see it before anything that this thread writes later. */
static inline void end_stream(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#define SCATTER_PARTS(name, width)                                                                                   \
    static void name(const void *values, const uint8_t *parts, int64_t n, uint32_t *counts, int64_t capacity,        \
                     char *lines, char *out) {                                                                       \
        LOOP {                                                                                                       \
            const uint32_t part = parts[i], at = counts[part]++;                                                     \
            char *line = lines + 64 * part;                                                                          \
            memcpy(line + width * (at % (64 / width)), (const char *) values + width * i, width);                    \
            if (at % (64 / width) == 64 / width - 1)                                                                 \
                stream_line(out + width * ((int64_t) part * capacity + at + 1) - 64, line); }                        \
        end_stream(); }

SCATTER_PARTS(scatter_parts_1, 1)
SCATTER_PARTS(scatter_parts_2, 2)
SCATTER_PARTS(scatter_parts_4, 4)
SCATTER_PARTS(scatter_parts_8, 8)
SCATTER_PARTS(scatter_parts_16, 16)

static void scatter_parts_pair(const void *values, const void *more, const uint8_t *parts, int64_t n, uint32_t *counts,
                               int64_t capacity, char *lines, char *more_lines, char *out, char *more_out) {
    LOOP {
        const uint32_t part = parts[i], at = counts[part]++;
        memcpy(lines + 64 * part + 8 * (at % 8), (const char *) values + 8 * i, 8);
        memcpy(more_lines + 64 * part + 8 * (at % 8), (const char *) more + 8 * i, 8);
        if (at % 8 == 7) {
            const int64_t position = 8 * ((int64_t) part * capacity + at + 1) - 64;
            stream_line(out + position, lines + 64 * part);
            stream_line(more_out + position, more_lines + 64 * part);
        }
    }
    end_stream();
}

/* The first line of a run was written by the vector before. The next one is fetched this many runs ahead. */
enum { RUNS_AHEAD = 16 };

#define SCATTER_RUNS(name, copy_run)                                                                                 \
    static void name(const void *pv, const uint32_t *rows, const uint32_t *ends, int64_t n_runs, char *const *out) { \
        const char *values = pv; uint32_t i = 0;                                                                     \
        for (int64_t r = 0; r < n_runs; r++) {                                                                       \
            char *to = out[r];                                                                                       \
            if (r + RUNS_AHEAD < n_runs) qc_prefetch_write(out[r + RUNS_AHEAD] + 64);                                \
            copy_run }                                                                                               \
        end_stream(); }
#define COPY_RUN(width) for (; i < ends[r]; i++, to += width) memcpy(to, values + width * (int64_t) rows[i], width);

/* Full lines of a long run are written past the caches; those at its ends, which other vectors fill too, are not. */
#if defined(__AVX512F__) && defined(__AVX512VL__)
enum { LONG_RUN = 16 };
#define COPY_SOME_8(count) do {                                                                                      \
        const __mmask8 some = (__mmask8) ((1u << (count)) - 1);                                                      \
        const __m256i at = _mm256_maskz_loadu_epi32(some, rows + i);                                                 \
        _mm512_mask_storeu_epi64(to, some,                                                                           \
            _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), some, at, values, 8));                               \
        i += (count), to += 8 * (count); } while (0)
#define COPY_RUN_8                                                                                                   \
    if (ends[r] - i >= LONG_RUN) {                                                                                   \
        const uint32_t before = (uint32_t) (-(uintptr_t) to % 64 / 8);                                               \
        COPY_SOME_8(before);                                                                                         \
        for (; i + 8 <= ends[r]; i += 8, to += 64)                                                                   \
            _mm512_stream_si512((void *) to,                                                                         \
                _mm512_i32gather_epi64(_mm256_loadu_si256((const __m256i *) (rows + i)), values, 8));                \
    }                                                                                                                \
    while (i < ends[r]) { const uint32_t count = ends[r] - i < 8 ? ends[r] - i : 8; COPY_SOME_8(count); }
#define STREAM_16(to, from) _mm_stream_si128((__m128i *) (to), _mm_loadu_si128((const __m128i *) (from)))
#define COPY_RUN_16                                                                                                  \
    if (ends[r] - i >= LONG_RUN) {                                                                                   \
        for (; (uintptr_t) to % 64; i++, to += 16) memcpy(to, values + 16 * (int64_t) rows[i], 16);                  \
        for (; i + 4 <= ends[r]; i += 4, to += 64)                                                                   \
            for (int k = 0; k < 4; k++) STREAM_16(to + 16 * k, values + 16 * (int64_t) rows[i + k]);                 \
    }                                                                                                                \
    COPY_RUN(16)
#else
#define COPY_RUN_8 COPY_RUN(8)
#define COPY_RUN_16 COPY_RUN(16)
#endif

SCATTER_RUNS(scatter_runs_1, COPY_RUN(1))
SCATTER_RUNS(scatter_runs_2, COPY_RUN(2))
SCATTER_RUNS(scatter_runs_4, COPY_RUN(4))
SCATTER_RUNS(scatter_runs_8, COPY_RUN_8)
SCATTER_RUNS(scatter_runs_16, COPY_RUN_16)

static uint64_t narrow_scattered(const int64_t *wide, const uint32_t *rows, int64_t n, int64_t *out) {
    uint64_t lost = 0;
    int64_t i = 0;
#if defined(__SSE2__)
    /* Two plain 16-byte loads beat gather instructions (0.75 against 2.6 ns a row in cache). */
    __m128i different = _mm_setzero_si128();
    for (; i + 2 <= n; i += 2) {
        __m128i a = _mm_loadu_si128((const __m128i *) (wide + 2 * (int64_t) rows[i]));
        __m128i b = _mm_loadu_si128((const __m128i *) (wide + 2 * (int64_t) rows[i + 1]));
        __m128i values = _mm_unpacklo_epi64(a, b), signs = _mm_unpackhi_epi64(a, b);
        __m128i wanted = _mm_shuffle_epi32(_mm_srai_epi32(values, 31), 0xF5);
        different = _mm_or_si128(different, _mm_xor_si128(signs, wanted));
        _mm_storeu_si128((__m128i *) (out + i), values);
    }
    lost = (uint64_t) _mm_cvtsi128_si64(_mm_or_si128(different, _mm_unpackhi_epi64(different, different)));
#endif
    for (; i < n; i++) {
        int64_t value = wide[2 * (int64_t) rows[i]];
        lost |= (uint64_t) (wide[2 * (int64_t) rows[i] + 1] ^ (value >> 63));
        out[i] = value;
    }
    return lost;
}

static uint64_t narrow_rows(const int64_t *wide, const uint32_t *rows, int64_t n, int64_t *out) {
    uint64_t lost = 0;
    int64_t i = 0;
    while (i + RUN_ROWS <= n) {
        int64_t run = run_length(rows + i, n - i);
        if (run > 0) {
            lost |= narrow(wide + 2 * (int64_t) rows[i], run, out + i);
            i += run;
        } else {
            lost |= narrow_scattered(wide, rows + i, RUN_ROWS, out + i);
            i += RUN_ROWS;
        }
    }
    return lost | narrow_scattered(wide, rows + i, n - i, out + i);
}

static void widen(const int64_t *values, int64_t n, int64_t *out) {
    LOOP { int64_t value = values[i]; out[2 * i] = value; out[2 * i + 1] = value >> 63; }
}
