/* Keeps a woken thread off the processor of the thread that wakes it. */
#ifndef QCORE_PLACEMENT_H
#define QCORE_PLACEMENT_H
#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QC_PROCESSORS 1024
typedef struct {
    pid_t thread;           /* 0: unknown; the system then chooses the processor */
    unsigned long allowed[QC_PROCESSORS / (8 * sizeof(long))];
    long n_bytes;           /* of `allowed` that the kernel uses */
} QcPlace;

/* Remember the calling thread and the processors that it may use. */
static inline void qc_place_note(QcPlace *place) {
    place->n_bytes = syscall(SYS_sched_getaffinity, 0, sizeof place->allowed, place->allowed);
    place->thread = place->n_bytes > 0 ? (pid_t) syscall(SYS_gettid) : 0;
}
/* Forbid a sleeping thread the caller's processor. Without effect if it may use no other one. */
static inline void qc_place_apart(const QcPlace *place) {
    unsigned long others[QC_PROCESSORS / (8 * sizeof(long))];
    const int here = sched_getcpu();
    const long n = place->n_bytes / (long) sizeof(long);
    unsigned long any = 0;
    if (place->thread == 0 || here < 0 || here >= QC_PROCESSORS) return;
    for (long i = 0; i < n; i++) {
        others[i] = place->allowed[i];
        if (i == here / (long) (8 * sizeof(long))) others[i] &= ~(1UL << (here % (8 * sizeof(long))));
        any |= others[i];
    }
    if (any) syscall(SYS_sched_setaffinity, place->thread, place->n_bytes, others);
}
/* Allow the calling thread all processors again that it could use before it slept. */
static inline void qc_place_anywhere(const QcPlace *place) {
    if (place->thread) syscall(SYS_sched_setaffinity, 0, place->n_bytes, place->allowed);
}
#else
typedef struct { int unused; } QcPlace;
static inline void qc_place_note(QcPlace *place) { place->unused = 0; }
static inline void qc_place_apart(const QcPlace *place) { (void) place; }
static inline void qc_place_anywhere(const QcPlace *place) { (void) place; }
#endif

/* One step of a short busy wait. */
static inline void qc_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
#endif
