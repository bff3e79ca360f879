/* Decoders of Parquet's encodings. kernels_body.h has those that exist for several instruction sets.

   Every decoder takes the end of its input and never follows a length past it. It may read up to QP_SLACK bytes behind
   that end, whose values it does not use, so that it can load whole words: all input lies in buffers with that many
   bytes to spare. Outputs have QP_SLACK bytes to spare, too. */
#ifndef QCORE_PARQUET_KERNELS_H
#define QCORE_PARQUET_KERNELS_H
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define QP_SLACK 64
/* Values decoded between two checks of codes; they stay in the first-level cache. */
#define QP_STEP 1024

static inline uint64_t qp_load64(const void *at) { uint64_t v; memcpy(&v, at, 8); return v; }
static inline uint32_t qp_load32(const void *at) { uint32_t v; memcpy(&v, at, 4); return v; }
static inline void qp_store64(void *at, uint64_t v) { memcpy(at, &v, 8); }

/* --- integers of variable length --- */

/* Read an unsigned integer of at most `bits` bits. Returns 0 if it is cut off or too long. */
static inline int qp_varint(const uint8_t **at, const uint8_t *end, int bits, uint64_t *out) {
    uint64_t value = 0;
    const uint8_t *p = *at;
    for (int shift = 0; shift < bits; shift += 7) {
        if (p >= end) return 0;
        uint8_t byte = *p++;
        value |= (uint64_t) (byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            if (bits < 64 && value >> bits) return 0;
            *at = p;
            *out = value;
            return 1;
        }
    }
    return 0;
}

static inline int qp_zigzag(const uint8_t **at, const uint8_t *end, int64_t *out) {
    uint64_t value;
    if (!qp_varint(at, end, 64, &value)) return 0;
    *out = (int64_t) (value >> 1) ^ -(int64_t) (value & 1);
    return 1;
}

/* --- runs: the hybrid of repeated values and bit-packed groups of 8 values --- */

typedef struct {
    const uint8_t *at;      /* head of the next run */
    const uint8_t *end;
    const uint8_t *packed;  /* the current run's bytes, if it is bit-packed; else NULL */
    int64_t left;           /* values of the current run that were not taken */
    int64_t taken;          /* values of the bit-packed run that were taken */
    uint32_t value;         /* the repeated value */
    int width;              /* bits of a value: 0 to 32 */
} QpRuns;

static inline void qp_runs_open(QpRuns *runs, const uint8_t *at, const uint8_t *end, int width) {
    memset(runs, 0, sizeof *runs);
    runs->at = at;
    runs->end = end;
    runs->width = width;
}

/* One run of n bit-packed values that has no head. The caller has checked that its bytes are there. */
static inline void qp_runs_packed(QpRuns *runs, const uint8_t *at, const uint8_t *end, int width, int64_t n) {
    qp_runs_open(runs, end, end, width);
    runs->packed = at;
    runs->left = n;
}

/* Read the next run's head. Returns 0 at the end of the input or if the run is longer than the input. */
static inline int qp_runs_next(QpRuns *runs) {
    uint64_t head;
    if (!qp_varint(&runs->at, runs->end, 32, &head)) return 0;
    int64_t left = runs->end - runs->at;
    if (head & 1) {
        int64_t n = (int64_t) (head >> 1) * 8, bytes = (int64_t) (head >> 1) * runs->width;
        if (bytes > left) {     /* some writers leave out the padding of the last group */
            if (bytes - left >= runs->width) return 0;
            bytes = left;
            n = left * 8 / runs->width;
        }
        runs->packed = runs->at;
        runs->taken = 0;
        runs->left = n;
        runs->at += bytes;
        return 1;
    }
    int bytes = (runs->width + 7) / 8;
    if (bytes > left) return 0;
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint32_t) runs->at[i] << (8 * i);
    runs->at += bytes;
    runs->packed = 0;
    runs->value = value;
    runs->left = (int64_t) (head >> 1);
    return 1;
}

/* Skip n values. Returns 0 if there are fewer. */
static inline int qp_runs_skip(QpRuns *runs, int64_t n) {
    while (n > 0) {
        if (runs->left == 0 && !qp_runs_next(runs)) return 0;
        int64_t m = n < runs->left ? n : runs->left;
        runs->left -= m;
        runs->taken += m;
        n -= m;
    }
    return 1;
}

/* Write the values of k ascending places, each counted from the next value on, and pass n values. Returns 0 if there are
   fewer. */
static inline int qp_runs_pick(QpRuns *runs, const uint32_t *places, int64_t k, int64_t n, uint32_t *out) {
    const uint64_t mask = ((uint64_t) 1 << runs->width) - 1;
    int64_t passed = 0;
    for (int64_t i = 0; i < k; ) {
        if (runs->left == 0 && !qp_runs_next(runs)) return 0;
        const int64_t end = passed + runs->left;
        int64_t m = runs->left;
        if ((int64_t) places[i] < end) {
            if (!runs->packed) {
                const uint32_t value = runs->value;
                while (i < k && (int64_t) places[i] < end) out[i++] = value;
            } else {
                const uint8_t *packed = runs->packed;
                const int64_t before = runs->taken - passed, width = runs->width;
                while (i < k && (int64_t) places[i] < end) {
                    const int64_t bit = (before + places[i]) * width;
                    out[i++] = (uint32_t) ((qp_load64(packed + (bit >> 3)) >> (bit & 7)) & mask);
                }
            }
            if (i == k) m = places[k - 1] + 1 - passed;
        }
        runs->left -= m;
        runs->taken += m;
        passed += m;
    }
    return qp_runs_skip(runs, n - passed);
}

/* Set the bits at..at+n of a bitmap. */
static inline void qp_set_bits(uint8_t *bits, int64_t at, int64_t n) {
    int64_t i = at, last = at + n;
    for (; i < last && (i & 7); i++) bits[i >> 3] |= (uint8_t) (1 << (i & 7));
    if (last - i >= 8) { memset(bits + (i >> 3), 0xFF, (size_t) ((last - i) >> 3)); i += (last - i) & ~(int64_t) 7; }
    for (; i < last; i++) bits[i >> 3] |= (uint8_t) (1 << (i & 7));
}

/* As `bits` of QpKernels, from the obsolete encoding of levels: from the most significant bit on, without runs. */
static inline int64_t qp_msb_bits(const uint8_t *from, int64_t first, int64_t n, uint8_t *bits, int64_t at) {
    int64_t ones = 0;
    for (int64_t i = 0; i < n; i++) {
        int bit = (from[(first + i) >> 3] >> (7 - ((first + i) & 7))) & 1;
        bits[(at + i) >> 3] |= (uint8_t) (bit << ((at + i) & 7));
        ones += bit;
    }
    return ones;
}

/* --- DELTA_BINARY_PACKED --- */

typedef struct {
    const uint8_t *at;      /* behind the current miniblock */
    const uint8_t *end;
    const uint8_t *widths;  /* of the current block's miniblocks */
    const uint8_t *mini;    /* bytes of the current miniblock */
    int64_t n_minis;        /* of a block */
    int64_t mini_values;
    int64_t left;           /* values that were not taken */
    int64_t mini_index;     /* miniblocks of the block that were begun */
    int64_t mini_taken;
    uint64_t last;
    uint64_t min_delta;
    int width;
    int first;              /* the first value was not taken */
} QpDelta;

/* Read the head. Returns the number of values, or -1. */
static inline int64_t qp_delta_open(QpDelta *delta, const uint8_t *at, const uint8_t *end) {
    uint64_t block, n_minis, count;
    int64_t first;
    memset(delta, 0, sizeof *delta);
    if (!qp_varint(&at, end, 32, &block) || !qp_varint(&at, end, 32, &n_minis) || !qp_varint(&at, end, 63, &count)
        || !qp_zigzag(&at, end, &first)) return -1;
    if (n_minis == 0 || n_minis > 65536 || block == 0 || block % n_minis || block / n_minis % 8) return -1;
    delta->at = at;
    delta->end = end;
    delta->n_minis = (int64_t) n_minis;
    delta->mini_values = (int64_t) (block / n_minis);
    delta->mini_taken = delta->mini_values;
    delta->mini_index = delta->n_minis;
    delta->left = (int64_t) count;
    delta->last = (uint64_t) first;
    delta->first = 1;
    return (int64_t) count;
}

static inline int qp_delta_mini(QpDelta *delta) {
    if (delta->mini_index == delta->n_minis) {
        int64_t least;
        if (!qp_zigzag(&delta->at, delta->end, &least) || delta->end - delta->at < delta->n_minis) return 0;
        delta->min_delta = (uint64_t) least;
        delta->widths = delta->at;
        delta->at += delta->n_minis;
        delta->mini_index = 0;
    }
    int width = delta->widths[delta->mini_index++];
    int64_t bytes = delta->mini_values / 8 * width, left = delta->end - delta->at;
    if (width > 64) return 0;
    if (bytes > left) {         /* the padding of the last miniblock may be missing */
        int64_t needed = delta->left < delta->mini_values ? delta->left : delta->mini_values;
        if (needed * width > left * 8) return 0;
        bytes = left;
    }
    delta->width = width;
    delta->mini = delta->at;
    delta->mini_taken = 0;
    delta->at += bytes;
    return 1;
}

/* Decode the next n values. Returns 0 if there are fewer. */
static int qp_delta_next(QpDelta *delta, int64_t n, int64_t *out) {
    if (n > delta->left) return 0;
    uint64_t last = delta->last;
    int64_t i = 0;
    if (delta->first && n > 0) {
        out[i++] = (int64_t) last;
        delta->first = 0;
        delta->left--;
    }
    while (i < n) {
        if (delta->mini_taken == delta->mini_values && !qp_delta_mini(delta)) return 0;
        int64_t m = delta->mini_values - delta->mini_taken;
        if (m > n - i) m = n - i;
        const uint64_t least = delta->min_delta;
        const int width = delta->width;
        if (width == 0) {
            for (int64_t k = 0; k < m; k++) out[i + k] = (int64_t) (last += least);
        } else if (width <= 56) {
            const uint64_t mask = ((uint64_t) 1 << width) - 1;
            int64_t bit = delta->mini_taken * width;
            for (int64_t k = 0; k < m; k++, bit += width)
                out[i + k] = (int64_t) (last += least + ((qp_load64(delta->mini + (bit >> 3)) >> (bit & 7)) & mask));
        } else {
            const uint64_t mask = width == 64 ? ~(uint64_t) 0 : ((uint64_t) 1 << width) - 1;
            int64_t bit = delta->mini_taken * width;
            for (int64_t k = 0; k < m; k++, bit += width) {
                const uint8_t *p = delta->mini + (bit >> 3);
                int phase = bit & 7;
                uint64_t word = qp_load64(p) >> phase;
                if (phase) word |= (uint64_t) p[8] << (64 - phase);
                out[i + k] = (int64_t) (last += least + (word & mask));
            }
        }
        delta->mini_taken += m;
        delta->left -= m;
        i += m;
    }
    delta->last = last;
    return 1;
}

/* The byte behind all values, or NULL if the input is too short. */
static inline const uint8_t *qp_delta_end(const QpDelta *delta) {
    int64_t scratch[QP_STEP];
    QpDelta rest = *delta;
    while (rest.left > 0)
        if (!qp_delta_next(&rest, rest.left < QP_STEP ? rest.left : QP_STEP, scratch)) return 0;
    return rest.at;
}

/* --- strings, as the engine's views (data/column.pxd) --- */

typedef struct { uint32_t length; char prefix[4]; const uint8_t *pointer; } QpView;

static inline void qp_view(QpView *out, const uint8_t *bytes, uint32_t length) {
    out->length = length;
    if (length <= 12) {
        /* (1 << 8 * length) - 1 in two steps, because a shift by the whole width is undefined. */
        uint32_t low = length < 8 ? length : 8, high = length - low;
        uint64_t a = low == 8 ? ~(uint64_t) 0 : ((uint64_t) 1 << 8 * low) - 1;
        uint64_t b = ((uint64_t) 1 << 8 * high) - 1;
        qp_store64(out->prefix, qp_load64(bytes) & a);
        uint32_t end = qp_load32(bytes + 8) & (uint32_t) b;
        memcpy((char *) out + 12, &end, 4);
    } else {
        memcpy(out->prefix, bytes, 4);
        out->pointer = bytes;
    }
}

/* n strings, each behind its length. Returns how many were whole; *at is behind them. */
static int64_t qp_views_plain(const uint8_t **at, const uint8_t *end, int64_t n, QpView *out) {
    const uint8_t *p = *at;
    int64_t i = 0;
    for (; i < n && end - p >= 4; i++) {
        uint32_t length = qp_load32(p);
        if (length > (uint64_t) (end - p - 4)) break;
        qp_view(&out[i], p + 4, length);
        p += 4 + (int64_t) length;
    }
    *at = p;
    return i;
}

static int64_t qp_plain_skip(const uint8_t **at, const uint8_t *end, int64_t n) {
    const uint8_t *p = *at;
    int64_t i = 0;
    for (; i < n && end - p >= 4; i++) {
        uint32_t length = qp_load32(p);
        if (length > (uint64_t) (end - p - 4)) break;
        p += 4 + (int64_t) length;
    }
    *at = p;
    return i;
}

/* The strings at k ascending places among the next n, each behind its length. Returns 0 if a string is cut off. */
static inline int qp_views_pick(
    const uint8_t **at, const uint8_t *end, const uint32_t *places, int64_t k, int64_t n, QpView *out
) {
    int64_t passed = 0;
    for (int64_t i = 0; i < k; i++) {
        const int64_t before = places[i] - passed;
        if (qp_plain_skip(at, end, before) < before || qp_views_plain(at, end, 1, out + i) < 1) return 0;
        passed = (int64_t) places[i] + 1;
    }
    return qp_plain_skip(at, end, n - passed) == n - passed;
}

/* n strings whose lengths are known, one behind the other. */
static int64_t qp_views_lengths(const int64_t *lengths, int64_t n, const uint8_t **at, const uint8_t *end, QpView *out) {
    const uint8_t *p = *at;
    int64_t i = 0;
    for (; i < n; i++) {
        if (lengths[i] < 0 || lengths[i] > end - p || lengths[i] > UINT32_MAX) break;
        qp_view(&out[i], p, (uint32_t) lengths[i]);
        p += lengths[i];
    }
    *at = p;
    return i;
}

/* --- values of a fixed width --- */

static inline int64_t qp_big_endian(const uint8_t *from, int width) {
    return (int64_t) __builtin_bswap64(qp_load64(from)) >> (64 - 8 * width);
}

/* The values at k places, one behind the other. */
static inline void qp_pick(const uint8_t *from, int64_t width, const uint32_t *places, int64_t k, uint8_t *out) {
    if (width == 8) for (int64_t i = 0; i < k; i++) memcpy(out + 8 * i, from + 8 * (int64_t) places[i], 8);
    else if (width == 4) for (int64_t i = 0; i < k; i++) memcpy(out + 4 * i, from + 4 * (int64_t) places[i], 4);
    else for (int64_t i = 0; i < k; i++) memcpy(out + width * i, from + width * places[i], (size_t) width);
}

/* Decimals of 1 to 8 bytes, big endian. */
static inline void qp_decimals(const uint8_t *from, int64_t n, int width, int64_t *out) {
    const int shift = 64 - 8 * width;
    for (int64_t i = 0; i < n; i++) out[i] = (int64_t) __builtin_bswap64(qp_load64(from + i * width)) >> shift;
}

/* Decimals of 1 to 16 bytes as 16 bytes: low word, high word. */
static inline void qp_decimals_wide(const uint8_t *from, int64_t n, int width, int64_t *out) {
    for (int64_t i = 0; i < n; i++, from += width) {
        if (width <= 8) {
            out[2 * i] = qp_big_endian(from, width);
            out[2 * i + 1] = out[2 * i] >> 63;
        } else {
            out[2 * i] = (int64_t) __builtin_bswap64(qp_load64(from + width - 8));
            out[2 * i + 1] = qp_big_endian(from, width - 8);
        }
    }
}

/* Decimals of 9 to 16 bytes whose values should fit 8. Returns 0 if one does not. */
static inline int qp_decimals_narrow(const uint8_t *from, int64_t n, int width, int64_t *out) {
    int64_t lost = 0;
    for (int64_t i = 0; i < n; i++, from += width) {
        out[i] = (int64_t) __builtin_bswap64(qp_load64(from + width - 8));
        lost |= (out[i] >> 63) ^ qp_big_endian(from, width - 8);
    }
    return lost == 0;
}

/* Integers of 4 or 8 bytes in another width: sign-extended, or cut as a cast of C does. */
static inline void qp_widen32(const uint8_t *from, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t) qp_load32(from + 4 * i);
}
static inline void qp_cut16(const uint8_t *from, int64_t n, uint16_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (uint16_t) qp_load32(from + 4 * i);
}
static inline void qp_cut8(const uint8_t *from, int64_t n, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (uint8_t) qp_load32(from + 4 * i);
}
static inline void qp_cut64(const int64_t *from, int64_t n, int bytes, void *out) {
    if (bytes == 4) for (int64_t i = 0; i < n; i++) ((uint32_t *) out)[i] = (uint32_t) from[i];
    else if (bytes == 2) for (int64_t i = 0; i < n; i++) ((uint16_t *) out)[i] = (uint16_t) from[i];
    else for (int64_t i = 0; i < n; i++) ((uint8_t *) out)[i] = (uint8_t) from[i];
}

/* Values at..at+n of BYTE_STREAM_SPLIT: byte k of value i is at k * total + i. */
static inline void qp_streams_some(
    const uint8_t *from, int64_t total, int64_t at, int64_t start, int64_t n, int width, uint8_t *out
) {
    for (int k = 0; k < width; k++) {
        const uint8_t *stream = from + k * total + at;
        for (int64_t i = start; i < n; i++) out[i * width + k] = stream[i];
    }
}

#if defined(__SSE2__)
/* 16 values at a time: interleaving halves the number of streams and doubles the bytes of each. Returns how many. */
static inline __attribute__((always_inline)) int64_t qp_streams_wide(
    const uint8_t *from, int64_t total, int64_t at, int64_t n, const int width, uint8_t *out
) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i a[8], b[8];
        for (int k = 0; k < width; k++) a[k] = _mm_loadu_si128((const __m128i *) (from + k * total + at + i));
        for (int step = 1; step < width; step *= 2) {
            for (int k = 0; k < width / 2; k++) {
                b[2 * k] = _mm_unpacklo_epi8(a[k], a[k + width / 2]);
                b[2 * k + 1] = _mm_unpackhi_epi8(a[k], a[k + width / 2]);
            }
            for (int k = 0; k < width; k++) a[k] = b[k];
        }
        for (int k = 0; k < width; k++) _mm_storeu_si128((__m128i *) (out + i * width) + k, a[k]);
    }
    return i;
}
#endif

static inline void qp_streams(const uint8_t *from, int64_t total, int64_t at, int64_t n, int width, uint8_t *out) {
    int64_t done = 0;
#if defined(__SSE2__)
    if (width == 8) done = qp_streams_wide(from, total, at, n, 8, out);
    else if (width == 4) done = qp_streams_wide(from, total, at, n, 4, out);
#endif
    qp_streams_some(from, total, at, done, n, width, out);
}

/* --- the decoders of kernels_body.h --- */

typedef struct {
    const char *instruction_set;    /* as QcKernels in ground/native/dispatch.h */
    /* Decode n codes. Returns how many there were. `out` has QP_SLACK bytes to spare. */
    int64_t (*codes)(QpRuns *runs, int64_t n, uint32_t *out);
    /* Set the bits at..at+n of a bitmap, which are 0, to values of one bit. Returns the number of ones; -1 if there are
       fewer than n values or one is above 1. */
    int64_t (*bits)(QpRuns *runs, int64_t n, uint8_t *bits, int64_t at);
    uint32_t (*greatest)(const uint32_t *codes, int64_t n);
    /* out[i] = values[codes[i]], for values of 1, 2, 4, 8 and 16 bytes. */
    void (*gather[5])(const void *values, const uint32_t *codes, int64_t n, void *out);
    /* The first n_values of values[0..n) go to the rows whose bit first + i is set; other rows become 0. For values of
       1, 2, 4, 8 and 16 bytes. */
    void (*spread[5])(const uint8_t *bits, int64_t first, int64_t n, int64_t n_values, void *values);
    /* For k ascending rows, numbered from `base` on: `bits` says which rows have a value, and values are numbered in the
       order of their rows. Writes the numbers of the rows' values to `places`, and sets the bits first..first+k of
       `validity`, which are 0, for the rows that have one. Returns how many have one. */
    int64_t (*places)(const uint8_t *bits, const uint32_t *rows, uint32_t base, int64_t k, uint32_t *places,
                      uint8_t *validity, int64_t first);
} QpKernels;
#endif
