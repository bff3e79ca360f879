/* Loops of exchange/page_block: integers as differences to the smallest one, and texts as numbers of distinct values. */
#ifndef QCORE_EXCHANGE_BLOCK_KERNELS_H
#define QCORE_EXCHANGE_BLOCK_KERNELS_H
#include <stdint.h>
#include <string.h>

/* The first index is the logarithm of the bytes of a value, the second one that of the bytes of a difference. */
typedef struct {
    void (*range[2][4])(const void *values, int64_t n, int64_t *least, int64_t *most);   /* unsigned, signed */
    void (*pack[4][4])(const void *values, int64_t n, int64_t base, void *out);
    void (*unpack[4][4])(const void *values, int64_t n, int64_t base, void *out);
} QeKernels;

#define QE_TABLE                                                                                                     \
    {{{QE(range_u8), QE(range_u16), QE(range_u32), QE(range_u64)},                                                   \
      {QE(range_i8), QE(range_i16), QE(range_i32), QE(range_i64)}},                                                  \
     {{QE(pack_8_8)},                                                                                                \
      {QE(pack_16_8), QE(pack_16_16)},                                                                               \
      {QE(pack_32_8), QE(pack_32_16), QE(pack_32_32)},                                                               \
      {QE(pack_64_8), QE(pack_64_16), QE(pack_64_32), QE(pack_64_64)}},                                              \
     {{QE(unpack_8_8)},                                                                                              \
      {QE(unpack_16_8), QE(unpack_16_16)},                                                                           \
      {QE(unpack_32_8), QE(unpack_32_16), QE(unpack_32_32)},                                                         \
      {QE(unpack_64_8), QE(unpack_64_16), QE(unpack_64_32), QE(unpack_64_64)}}}

#define QE(name) qe_##name##_v2
#include "block_kernels_body.h"
static const QeKernels qe_kernels_v2 = QE_TABLE;
#undef QE

#if defined(__x86_64__)
#include "ground/native/avx2_on.h"
#define QE(name) qe_##name##_v3
#include "block_kernels_body.h"
static const QeKernels qe_kernels_v3 = QE_TABLE;
#undef QE
#include "ground/native/avx2_off.h"
#endif

/* The loops for the instruction set of ground/dispatch. */
static const QeKernels *qe_kernels_of(const char *instruction_set) {
#if defined(__x86_64__)
    if (strcmp(instruction_set, "baseline") != 0) return &qe_kernels_v3;
#endif
    return &qe_kernels_v2;
}

/* --- nulls --- */

#define QE_FILL(name, T)                                                                                             \
    static void qe_fill_##name(const T *values, const uint8_t *validity, int64_t n, T last, T *out) {                \
        for (int64_t i = 0; i < n; i++) {                                                                            \
            if (validity[i >> 3] >> (i & 7) & 1) last = values[i];                                                   \
            out[i] = last;                                                                                           \
        }                                                                                                            \
    }
QE_FILL(8, uint8_t)
QE_FILL(16, uint16_t)
QE_FILL(32, uint32_t)
QE_FILL(64, uint64_t)
#undef QE_FILL

/* Copy n values of 1, 2, 4 or 8 bytes, with the value of another row for each null. Returns 0 if all rows are null. */
static int qe_fill(const void *values, const uint8_t *validity, int64_t n, int width, void *out) {
    int64_t first = 0;
    while (first < n && !(validity[first >> 3] >> (first & 7) & 1)) first++;
    if (first == n) return 0;
    if (width == 1) qe_fill_8(values, validity, n, ((const uint8_t *)values)[first], out);
    else if (width == 2) qe_fill_16(values, validity, n, ((const uint16_t *)values)[first], out);
    else if (width == 4) qe_fill_32(values, validity, n, ((const uint32_t *)values)[first], out);
    else qe_fill_64(values, validity, n, ((const uint64_t *)values)[first], out);
    return 1;
}

/* --- texts: the views of data/column --- */

#define QE_VALUES_MAX 256
#define QE_SLOTS 1024       /* a power of two */
#define QE_INLINE 12

typedef struct {
    uint32_t length;
    char prefix[4];
    const char *pointer;
} QeView;

/* The distinct values met so far, and a hash table of their numbers. All zero at first. */
typedef struct {
    int64_t n;
    int64_t n_bytes;                    /* of all values */
    QeView values[QE_VALUES_MAX];
    uint16_t slots[QE_SLOTS];           /* 1 + the number of a value; 0: free */
} QeDictionary;

/* The number of a value that may be new; -1: there are too many. */
static inline int64_t qe_number(QeDictionary *d, const QeView *view) {
    uint64_t words[2], tail;
    memcpy(words, view, 16);
    if (view->length > QE_INLINE) memcpy(&tail, view->pointer + view->length - 8, 8);
    else tail = words[1];
    uint64_t at = ((words[0] ^ (tail * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u) >> 54;
    while (d->slots[at] != 0) {
        int64_t number = d->slots[at] - 1;
        uint64_t held[2];
        memcpy(held, &d->values[number], 16);
        if (held[0] == words[0]) {
            if (view->length <= QE_INLINE ? held[1] == words[1]
                    : memcmp(view->pointer, d->values[number].pointer, view->length) == 0) return number;
        }
        at = (at + 1) & (QE_SLOTS - 1);
    }
    if (d->n == QE_VALUES_MAX) return -1;
    d->values[d->n] = *view;
    d->n_bytes += view->length;
    d->n += 1;
    d->slots[at] = (uint16_t)d->n;
    return d->n - 1;
}

/* The numbers of n texts. `validity` may be NULL; a null row has the number 0. Returns 0 if there are too many. */
static int qe_numbers(QeDictionary *d, const QeView *views, const uint8_t *validity, int64_t n, uint8_t *numbers) {
    for (int64_t i = 0; i < n; i++) {
        int64_t number = 0;
        if (validity == NULL || (validity[i >> 3] >> (i & 7) & 1)) number = qe_number(d, &views[i]);
        if (number < 0) return 0;
        numbers[i] = (uint8_t)number;
    }
    return 1;
}

/* The bytes of a text. */
static inline const char *qe_text(const QeView *view) {
    return view->length <= QE_INLINE ? (const char *)view + 4 : view->pointer;
}

/* Write the bytes of n texts one after another, up to `end`. Bytes behind the last text may be overwritten before it.
   Returns the end of the text. */
static char *qe_write_texts(const QeView *views, const uint8_t *validity, int64_t n, char *out, const char *end) {
    for (int64_t i = 0; i < n; i++) {
        if (validity != NULL && !(validity[i >> 3] >> (i & 7) & 1)) continue;
        if (views[i].length <= QE_INLINE && end - out >= QE_INLINE) memcpy(out, (const char *)&views[i] + 4, QE_INLINE);
        else memcpy(out, qe_text(&views[i]), views[i].length);
        out += views[i].length;
    }
    return out;
}

/* The sum of 64-bit words, which is a page's checksum. `n_bytes` is a multiple of 8. */
static uint64_t qe_checksum(const char *bytes, int64_t n_bytes) {
    uint64_t sums[4] = {0, 0, 0, 0}, word;
    int64_t i = 0;
    for (; i + 32 <= n_bytes; i += 32)
        for (int j = 0; j < 4; j++) {
            memcpy(&word, bytes + i + 8 * j, 8);
            sums[j] += word;
        }
    for (; i < n_bytes; i += 8) {
        memcpy(&word, bytes + i, 8);
        sums[0] += word;
    }
    return sums[0] + sums[1] + sums[2] + sums[3];
}
#endif
