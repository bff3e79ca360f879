/* Large pages for memory that is read at random: they need fewer address look-ups. The system may ignore the advice. */
#ifndef QCORE_HUGE_PAGES_H
#define QCORE_HUGE_PAGES_H
#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define QC_HUGE_PAGE ((uintptr_t)1 << 21)

/* Call before the memory is first written. Does nothing for less than two huge pages. */
static inline void qc_advise_huge_pages(void *start, int64_t n_bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    uintptr_t first = ((uintptr_t)start + QC_HUGE_PAGE - 1) & ~(QC_HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)start + (uintptr_t)n_bytes) & ~(QC_HUGE_PAGE - 1);
    if (end > first + QC_HUGE_PAGE) madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)start;
    (void)n_bytes;
#endif
}
#endif
