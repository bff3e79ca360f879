/* The kernels of simd.h, probe.h, grouping.h and sorting.h, compiled once for each instruction set and chosen at run time.

   A wheel must run on any processor, so the build has no -march. The difference is worth the effort: a masked
   multiply-sum takes 3.4 / 0.43 / 0.25 ns a row at v2 / v3 / v4. Each kernels_v*.c includes the bodies under its
   own target pragma and defines one table. Only dispatch.c reads which instructions the processor has. */
#ifndef QCORE_DISPATCH_H
#define QCORE_DISPATCH_H
#include "grouping.h"
#include "probe.h"
#include "simd.h"
#include "sorting.h"

typedef struct {
    const char *instruction_set;    /* "baseline", "x86-64-v3" or "x86-64-v4" */
    const SimdKernels *simd;
    const ProbeKernels *probe;
    const GroupingKernels *grouping;
    const SortingKernels *sorting;
} QcKernels;

/* The kernels of x86-64 level 2 (the compiler's baseline), 3 or 4; NULL if the processor does not support the level. */
const QcKernels *qc_kernels(int level);
/* The kernels of the highest level that the processor supports. */
const QcKernels *qc_best_kernels(void);
#endif
