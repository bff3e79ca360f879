/* Atomic operations on plain integers, for Cython: the compiler's builtins under readable names. */
#ifndef QCORE_ATOMIC_H
#define QCORE_ATOMIC_H
#include <stdint.h>

/* Counters: only the sum of the increments matters, not their order. */
static inline int64_t qc_add(int64_t *p, int64_t by) { return __atomic_add_fetch(p, by, __ATOMIC_RELAXED); }
/* Reference counts: the thread that frees an object sees everything done before each release. */
static inline int64_t qc_drop(int64_t *p) { return __atomic_sub_fetch(p, 1, __ATOMIC_ACQ_REL); }
static inline int64_t qc_load(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static inline void qc_store(int64_t *p, int64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
/* These and qc_load have one order that all threads see. One thread changes a resource and then looks for waiters;
another
   registers as a waiter and then checks the resource. At least one of them sees the other. It costs nothing on x86-64.
   */
static inline int64_t qc_fetch_add(int64_t *p, int64_t by) { return __atomic_fetch_add(p, by, __ATOMIC_SEQ_CST); }
static inline int64_t qc_swap(int64_t *p, int64_t v) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
static inline int qc_cas(int64_t *p, int64_t expected, int64_t desired) {
    return __atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline void *qc_load_pointer(void *const *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void *qc_swap_pointer(void **p, void *v) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
static inline int qc_cas_pointer(void **p, void *expected, void *desired) {
    return __atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
/* Flags that are set and never reset. Threads may set and read one at the same time, in any order. */
static inline uint8_t qc_flag_get(const uint8_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline void qc_flag_set(uint8_t *p) { __atomic_store_n(p, 1, __ATOMIC_RELAXED); }
#endif
