/* 128-bit integers: the arithmetic of decimals of more than 18 digits, and checks that need a builtin. */
#ifndef QCORE_WIDE_H
#define QCORE_WIDE_H
#include <stdint.h>

/* Values in Arrow buffers may be aligned to 8 bytes only. */
typedef __int128 QcWide __attribute__((aligned(8)));
typedef unsigned __int128 QcWideUnsigned;

static inline QcWide wide_power_of_ten(int digits) {
    QcWide value = 1;
    while (digits-- > 0) value *= 10;
    return value;
}

/* Returns non-zero if the magnitude of a op b is above `limit`. *out is the wrapped result. op: 0 +, 1 -, 2 *. */
static inline int wide_apply(int op, QcWide a, QcWide b, QcWide limit, QcWide *out) {
    int bad = op == 0 ? __builtin_add_overflow(a, b, out)
            : op == 1 ? __builtin_sub_overflow(a, b, out) : __builtin_mul_overflow(a, b, out);
    return bad | (*out > limit) | (*out < -limit);
}

/* out[i] = a[i] op b[i]; a step of 0 repeats the first value. Returns non-zero when some row is out of `limit`. */
static inline int wide_arithmetic(int op, const QcWide *a, int64_t step_a, const QcWide *b, int64_t step_b, QcWide limit,
                                  QcWide *out, int64_t n) {
    int bad = 0;
    if (op == 0) for (int64_t i = 0; i < n; i++) bad |= wide_apply(0, a[i * step_a], b[i * step_b], limit, out + i);
    else if (op == 1) for (int64_t i = 0; i < n; i++) bad |= wide_apply(1, a[i * step_a], b[i * step_b], limit, out + i);
    else for (int64_t i = 0; i < n; i++) bad |= wide_apply(2, a[i * step_a], b[i * step_b], limit, out + i);
    return bad;
}

/* 64 by 64 to 128 bits: never overflows. */
static inline int wide_product(const int64_t *a, int64_t step_a, const int64_t *b, int64_t step_b, QcWide limit, QcWide *out,
                               int64_t n) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        QcWide r = (QcWide) a[i * step_a] * b[i * step_b];
        out[i] = r;
        bad |= (r > limit) | (r < -limit);
    }
    return bad;
}

static inline void wide_compare(int op, const QcWide *a, int64_t step_a, const QcWide *b, int64_t step_b, uint8_t *out,
                                int64_t n) {
#define WIDE_LOOP(symbol) for (int64_t i = 0; i < n; i++) out[i] = a[i * step_a] symbol b[i * step_b]; break
    switch (op) {
        case 0: WIDE_LOOP(==);
        case 1: WIDE_LOOP(!=);
        case 2: WIDE_LOOP(<);
        case 3: WIDE_LOOP(<=);
        case 4: WIDE_LOOP(>);
        default: WIDE_LOOP(>=);
    }
#undef WIDE_LOOP
}

/* Quotient rounded half away from zero; divisor > 0. */
static inline QcWide wide_divide_rounded(QcWide value, QcWide divisor) {
    QcWide quotient = value / divisor, rest = value % divisor;
    if (rest >= 0) return quotient + (rest >= divisor - rest);
    return quotient - (-rest >= divisor + rest);
}

static inline double wide_to_double(QcWide value) { return (double) value; }
/* Truncates; the caller has checked the range. */
static inline QcWide wide_from_double(double value) { return (QcWide) value; }

/* Decimal digits of value into text (41 bytes), NUL-terminated; returns the length. A point before the last
   `scale` digits when scale > 0. */
static inline int wide_to_text(QcWide value, int scale, char *text) {
    char digits[48];
    int n = 0, length = 0;
    QcWideUnsigned rest = value < 0 ? -(QcWideUnsigned) value : (QcWideUnsigned) value;
    while (rest > (QcWideUnsigned) UINT64_MAX) { digits[n++] = (char) ('0' + (int) (rest % 10)); rest /= 10; }
    uint64_t low = (uint64_t) rest;
    do { digits[n++] = (char) ('0' + (int) (low % 10)); low /= 10; } while (low);
    while (n <= scale) digits[n++] = '0';
    if (value < 0) text[length++] = '-';
    while (n > 0) {
        if (n == scale) text[length++] = '.';
        text[length++] = digits[--n];
    }
    text[length] = 0;
    return length;
}
#endif
