/* The kernels of dispatch.h for x86-64-v3 processors. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,fma,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi,bmi2,fma,popcnt,lzcnt")
#endif
#include "dispatch.h"
#define GROUPING_MASKED 8
#include "simd_body.h"
#include "probe_body.h"
#include "grouping_body.h"
#include "sorting_body.h"

extern const QcKernels qc_kernels_v3;
const QcKernels qc_kernels_v3 = {"x86-64-v3", &simd_kernels, &probe_kernels, &grouping_kernels, &sorting_kernels};
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing_to_compile;
#endif
