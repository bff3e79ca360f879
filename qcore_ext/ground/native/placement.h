/* Keeps a woken thread off the processor of the thread that wakes it. */
#ifndef QCORE_PLACEMENT_H
#define QCORE_PLACEMENT_H
#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
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

/* The worker that works on each processor, as the number of its thread; 0: none. */
static int qc_seats[QC_PROCESSORS];
static pid_t qc_seats_of;       /* the process; a forked child has other threads */
/* How long another worker must be on the processor: moving a thread takes 50 microseconds or more. */
#define QC_SEAT_NANOS 300000

typedef struct {
    int thread;
    int processor;              /* on which the thread has a seat; -1: on none */
    long long shared_since;     /* when the thread found its seat taken; 0: it has one */
} QcSeat;

static inline void qc_seat_init(QcSeat *seat) {
    if (__atomic_exchange_n(&qc_seats_of, getpid(), __ATOMIC_RELAXED) != getpid()) memset(qc_seats, 0, sizeof qc_seats);
    seat->thread = (int) syscall(SYS_gettid);
    seat->processor = -1;
    seat->shared_since = 0;
}
static inline void qc_seat_leave(QcSeat *seat) {
    int me = seat->thread;
    if (seat->processor >= 0)
        __atomic_compare_exchange_n(&qc_seats[seat->processor], &me, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    seat->processor = -1;
}
/* Take the seat of the calling thread's processor. Returns 0 if another thread has it. */
static inline int qc_seat_take(QcSeat *seat, int here) {
    int none = 0;
    qc_seat_leave(seat);
    if (!__atomic_compare_exchange_n(&qc_seats[here], &none, seat->thread, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 0;
    seat->processor = here;
    seat->shared_since = 0;
    return 1;
}
/* If another worker works on the calling thread's processor, go to one where none does. Returns whether it went.
   Cheap if nothing changed. */
static inline int qc_seat_keep(QcSeat *seat) {
    unsigned long allowed[QC_PROCESSORS / (8 * sizeof(long))], others[QC_PROCESSORS / (8 * sizeof(long))];
    const int here = sched_getcpu();
    int is_free = 0;
    struct timespec now;
    if (here == seat->processor || here < 0 || here >= QC_PROCESSORS || qc_seat_take(seat, here)) return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long long nanos = now.tv_sec * 1000000000LL + now.tv_nsec;
    if (seat->shared_since == 0) seat->shared_since = nanos;
    if (nanos - seat->shared_since < QC_SEAT_NANOS) return 0;
    seat->shared_since = nanos;
    const long n_bytes = syscall(SYS_sched_getaffinity, 0, sizeof allowed, allowed);
    if (n_bytes <= 0) return 0;
    memset(others, 0, sizeof others);
    for (int i = 0; i < n_bytes * 8; i++) {
        const unsigned long bit = 1UL << (i % (8 * sizeof(long)));
        if (!(allowed[i / (8 * sizeof(long))] & bit) || __atomic_load_n(&qc_seats[i], __ATOMIC_RELAXED)) continue;
        others[i / (8 * sizeof(long))] |= bit;
        is_free = 1;
    }
    if (!is_free) return 0;
    syscall(SYS_sched_setaffinity, 0, n_bytes, others);
    const int there = sched_getcpu();
    if (there >= 0 && there < QC_PROCESSORS) qc_seat_take(seat, there);
    syscall(SYS_sched_setaffinity, 0, n_bytes, allowed);
    return there != here;
}
#else
typedef struct { int unused; } QcSeat;
static inline void qc_seat_init(QcSeat *seat) { seat->unused = 0; }
static inline void qc_seat_leave(QcSeat *seat) { (void) seat; }
static inline int qc_seat_keep(QcSeat *seat) { (void) seat; return 0; }
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
