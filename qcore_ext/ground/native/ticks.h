/* A counter cheap enough to read around every call: half the cost of clock_gettime on x86-64. */
#ifndef QCORE_TICKS_H
#define QCORE_TICKS_H
#include <stdint.h>

#if defined(__x86_64__) && defined(__SIZEOF_INT128__)
#include <cpuid.h>
#include <x86intrin.h>
static inline int64_t qc_ticks(void) { return (int64_t) __rdtsc(); }
/* Whether the counter's rate is independent of the processor's frequency and sleep states ("invariant TSC"). */
static inline int qc_ticks_steady(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1u << 8));
}
/* `scale`: nanoseconds a tick, times 2**32. The product has 128 bits and cannot overflow. */
static inline int64_t qc_ticks_nanos(int64_t ticks, int64_t scale) {
    return (int64_t) (((__int128) ticks * scale) >> 32);
}
#else
static inline int64_t qc_ticks(void) { return 0; }
static inline int qc_ticks_steady(void) { return 0; }
static inline int64_t qc_ticks_nanos(int64_t ticks, int64_t scale) { (void) scale; return ticks; }
#endif
#endif
