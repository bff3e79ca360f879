/* Assertions of a debug build (QCORE_DEBUG_BUILD=1): a violated one prints where it stands and ends the process. In a release
   build the condition is not evaluated, and the claim is only named, so that no compiler calls it unused. */
#ifndef QCORE_CHECK_H
#define QCORE_CHECK_H

#if QCORE_DEBUG
#include <stdio.h>
#include <stdlib.h>

static inline void qc_check_failed(const char *claim, const char *file, int line) {
    fprintf(stderr, "qcore: not so: %s (%s:%d)\n", claim, file, line);
    fflush(stderr);
    abort();
}
#define qc_check(condition, claim) ((condition) ? (void)0 : qc_check_failed(claim, __FILE__, __LINE__))
/* Claims about arrays; a loop over all of them, so for debug builds only. */
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
QC_CHECK_ASCENDING(qc_check_selection, unsigned int)
QC_CHECK_BELOW(qc_check_rows, unsigned int)
#else
#define qc_check(condition, claim) ((void)(claim))
#define qc_check_selection(values, n, limit, claim) ((void)(claim))
#define qc_check_rows(values, n, limit, claim) ((void)(claim))
#endif
#endif
