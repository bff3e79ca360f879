/* Assertions of a debug build (QCORE_DEBUG_BUILD=1): a violated assertion prints its claim, file and line
   and ends the process. A release build does not evaluate the condition. */
#ifndef QCORE_CHECK_H
#define QCORE_CHECK_H

#if QCORE_DEBUG
#include <stdio.h>
#include <stdlib.h>

static inline void qc_check_failed(const char *claim, const char *file, int line) {
    fprintf(stderr, "qcore: assertion failed: %s (%s:%d)\n", claim, file, line);
    fflush(stderr);
    abort();
}
#define qc_check(condition, claim) ((condition) ? (void)0 : qc_check_failed(claim, __FILE__, __LINE__))
/* Assertions about all values of an array. */
#define QC_CHECK_ASCENDING(name, type)                                                        \
    static inline void name(const type *values, long long n, long long limit, const char *claim) { \
        for (long long i = 0; i < n; i++)                                                      \
            qc_check((i == 0 || values[i - 1] < values[i]) && (long long)values[i] < limit, claim); \
    }
#define QC_CHECK_BELOW(name, type)                                                            \
    static inline void name(const type *values, long long n, long long limit, const char *claim) { \
        for (long long i = 0; i < n; i++)                                                      \
            qc_check((long long)values[i] < limit, claim);                                     \
    }
#define QC_CHECK_OFFSETS(name, type)                                                          \
    static inline void name(const type *offsets, long long n, const char *claim) {             \
        for (long long i = 0; i < n; i++)                                                      \
            qc_check(offsets[i] <= offsets[i + 1], claim);                                     \
    }
QC_CHECK_ASCENDING(qc_check_selection, unsigned int)
QC_CHECK_BELOW(qc_check_rows, unsigned int)
QC_CHECK_BELOW(qc_check_partitions, unsigned short)
QC_CHECK_OFFSETS(qc_check_offsets, int)
QC_CHECK_OFFSETS(qc_check_large_offsets, long)
static inline void qc_check_indices(const unsigned int *values, long long n, long long limit, const char *claim) {
    for (long long i = 0; i < n; i++)
        qc_check((long long)values[i] < limit || values[i] == 0xFFFFFFFFu, claim);
}
#else
#define qc_check(condition, claim) ((void)(claim))
#define qc_check_selection(values, n, limit, claim) ((void)(claim))
#define qc_check_rows(values, n, limit, claim) ((void)(claim))
#define qc_check_partitions(values, n, limit, claim) ((void)(claim))
#define qc_check_indices(values, n, limit, claim) ((void)(claim))
#define qc_check_offsets(offsets, n, claim) ((void)(claim))
#define qc_check_large_offsets(offsets, n, claim) ((void)(claim))
#endif
#endif
