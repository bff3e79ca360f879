/* probe.h for x86-64-v3 processors. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,fma,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi,bmi2,fma,popcnt,lzcnt")
#endif
#define PROBE_TABLE qc_probe_v3
#include "probe_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing_to_compile;
#endif
