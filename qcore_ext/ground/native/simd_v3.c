/* simd.h for x86-64-v3 processors. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,fma,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi,bmi2,fma,popcnt,lzcnt")
#endif
#define SIMD_TABLE qc_simd_v3
#define SIMD_ISA "x86-64-v3"
#include "simd_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing_to_compile;
#endif
