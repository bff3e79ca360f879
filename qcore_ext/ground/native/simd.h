/* Kernels over vectors of plain values; dispatch.h chooses their instruction set. */
#ifndef QCORE_SIMD_H
#define QCORE_SIMD_H
#include <stdint.h>

enum { VIEW_INLINE = 12 };      /* bytes of text that a string view holds itself */

/* Numbers of qcore_ext.data.schema.Physical. */
enum {
    SIMD_BOOL = 1, SIMD_I8, SIMD_I16, SIMD_I32, SIMD_I64, SIMD_U8, SIMD_U16, SIMD_U32, SIMD_U64, SIMD_F32, SIMD_F64,
    SIMD_N_PHYS
};
enum { SIMD_ADD, SIMD_SUBTRACT, SIMD_MULTIPLY, SIMD_N_ARITHMETIC };
enum { SIMD_EQUAL, SIMD_NOT_EQUAL, SIMD_LESS, SIMD_LESS_EQUAL, SIMD_GREATER, SIMD_GREATER_EQUAL, SIMD_N_COMPARE };
/* Operands that are one value for all rows: none, the second, the first. */
enum { SIMD_VV, SIMD_VS, SIMD_SV, SIMD_N_SHAPES };

/* Rows that one call of views_sound or strings_sound checks. Their scratch then fits the first-level cache. */
enum { SIMD_CHECK_ROWS = 512 };

/* Returns non-zero if a row overflows (floats never do). `out` may be `a` or `b`. */
typedef int (*SimdArithmetic)(const void *a, const void *b, void *out, int64_t n);
/* out: one byte a row, 0 or 1. Floats: NaN equals NaN and is greater than everything else. */
typedef void (*SimdCompare)(const void *a, const void *b, uint8_t *out, int64_t n);

typedef struct {
    SimdArithmetic arithmetic[SIMD_N_ARITHMETIC][SIMD_N_PHYS][SIMD_N_SHAPES];
    /* int64 without overflow checks, for operands whose bounds are known. */
    SimdArithmetic unchecked[SIMD_N_ARITHMETIC][SIMD_N_SHAPES];
    /* Shapes VV and VS only; a caller swaps operands and operator for SV. */
    SimdCompare compare[SIMD_N_COMPARE][SIMD_N_PHYS][2];
    /* Largest magnitude; unsigned, so that it holds that of INT64_MIN. */
    uint64_t (*magnitude)(const int64_t *values, int64_t n);
    /* Low words of 128-bit integers. Returns non-zero if a value does not fit 64 bits. */
    uint64_t (*narrow)(const int64_t *wide, int64_t n, int64_t *out);
    void (*widen)(const int64_t *values, int64_t n, int64_t *out);
    /* Positions of set bytes, plus base. `out` has n + 16 elements. Returns their number. */
    int64_t (*mask_rows)(const uint8_t *mask, int64_t n, uint32_t base, uint32_t *out);
    /* rows[i] where mask[i]; `out` may be `rows` and has n + 16 elements. */
    int64_t (*mask_filter)(const uint8_t *mask, const uint32_t *rows, int64_t n, uint32_t *out);
    int64_t (*mask_count)(const uint8_t *mask, int64_t n);
    /* Bitmaps of n bits to bytes 0 or 1 and back; whole bytes of `bits` are written. */
    void (*bits_to_mask)(const uint8_t *bits, int64_t n, uint8_t *mask);
    void (*mask_to_bits)(const uint8_t *mask, int64_t n, uint8_t *bits);
    void (*mask_and)(const uint8_t *a, const uint8_t *b, uint8_t *out, int64_t n);
    void (*mask_or)(const uint8_t *a, const uint8_t *b, uint8_t *out, int64_t n);
    /* 16-byte string views (data/column.pxd) of rows[0..n), or of rows 0..n if `rows` is NULL, from offsets into
       `data`. Bytes 0..last of `data` may be read. */
    void (*views)(const int32_t *offsets, const char *data, int64_t last, const uint32_t *rows, int64_t n, void *out);
    void (*views_large)(const int64_t *offsets, const char *data, int64_t last, const uint32_t *rows, int64_t n, void *out);
    /* out[i] = mask[i] ? a[i] : b[i], by width 1, 2, 4, 8, 16 (index: log2). */
    void (*select[5])(const uint8_t *mask, const void *a, const void *b, void *out, int64_t n);
    /* narrow, of the rows rows[0..n). */
    uint64_t (*narrow_rows)(const int64_t *wide, const uint32_t *rows, int64_t n, int64_t *out);
    /* Position of the first occurrence of needle (m >= 1 bytes) in text (n bytes), or -1. */
    int64_t (*find)(const char *text, int64_t n, const char *needle, int64_t m);
    /* Whether n <= SIMD_CHECK_ROWS of Arrow's string views, views[rows[i]], or views[i] if `rows` is NULL, are all sound:
       short ones padded with zeros; longer ones inside one buffer, with the prefix that the buffer has there; and all in
       ASCII if they are text. Values of null rows are checked too. If 0, the caller checks the views one by one. */
    int (*views_sound)(const void *views, const uint32_t *rows, int64_t n, const void *const *buffers, const int64_t *sizes,
                       int64_t n_buffers, int text);
    /* The same of strings offsets[row] to offsets[row + 1] of the first `limit` bytes of `data`. */
    int (*strings_sound)(const int32_t *offsets, const uint32_t *rows, int64_t n, const uint8_t *data, int64_t limit, int text);
    int (*large_strings_sound)(const int64_t *offsets, const uint32_t *rows, int64_t n, const uint8_t *data, int64_t limit,
                               int text);
    /* All bytes or-ed together. */
    uint8_t (*or_bytes)(const uint8_t *data, int64_t n);
    /* All n + 1 offsets and the n differences between neighbours or-ed together: negative when any of them is. */
    int32_t (*or_steps)(const int32_t *offsets, int64_t n);
    /* The smallest and the largest of n >= 1 numbers. */
    void (*range)(const uint32_t *values, int64_t n, uint32_t *least, uint32_t *most);
    /* out[i] = values[rows[i]], by width 1, 2, 4, 8, 16 (index: log2). Rows that follow each other are copied together. */
    void (*gather[5])(const void *values, const uint32_t *rows, int64_t n, void *out);
    /* values[i] to its part: value `at` of part p is out[p * capacity + at], and counts[p] is the number of values so far.
       The values of a line of 64 bytes are first collected in lines[64 * p]. Full lines are written past the caches;
       the values of the last line of each part are only in `lines`. `out` and `capacity` values are whole lines. By width
       1, 2, 4, 8, 16 (index: log2). */
    void (*scatter_parts[5])(const void *values, const uint8_t *parts, int64_t n, uint32_t *counts, int64_t capacity,
                             char *lines, char *out);
    /* The same of two columns of width 8. */
    void (*scatter_parts_pair)(const void *values, const void *more, const uint8_t *parts, int64_t n, uint32_t *counts,
                               int64_t capacity, char *lines, char *more_lines, char *out, char *more_out);
    /* values[rows[i]] for i from ends[r - 1] (0 for r = 0) to ends[r] to out[r], for n_runs runs r, by width 1, 2, 4, 8, 16
       (index: log2). */
    void (*scatter_runs[5])(const void *values, const uint32_t *rows, const uint32_t *ends, int64_t n_runs, char *const *out);
    /* Whether one of n string views is longer than the 12 bytes that a view itself holds. */
    int (*views_long)(const void *views, int64_t n);
    /* Set bits rows[i] - base of a bitmap, for rows that ascend, and clear the others of n_bytes bytes, a multiple of 8. */
    void (*rows_to_bits)(const uint32_t *rows, int64_t n, uint32_t base, uint8_t *bits, int64_t n_bytes);
} SimdKernels;
#endif
