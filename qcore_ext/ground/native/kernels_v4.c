/* The kernels of dispatch.h for x86-64-v4 processors. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,bmi,bmi2,fma,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,bmi,bmi2,fma,popcnt,lzcnt,prefer-vector-width=512")
#endif
#include "dispatch.h"
#define GROUPING_MASKED 16
#include "simd_body.h"
#include "probe_body.h"
#include "grouping_body.h"
#include "sorting_body.h"

extern const QcKernels qc_kernels_v4;
const QcKernels qc_kernels_v4 = {"x86-64-v4", &simd_kernels, &probe_kernels, &grouping_kernels, &sorting_kernels};
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing_to_compile;
#endif
