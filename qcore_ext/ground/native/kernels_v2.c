/* The kernels of dispatch.h for every processor: the compiler's baseline. */
#include "dispatch.h"
#define GROUPING_MASKED 2
#include "simd_body.h"
#include "probe_body.h"
#include "grouping_body.h"
#include "sorting_body.h"

extern const QcKernels qc_kernels_v2;
const QcKernels qc_kernels_v2 = {"baseline", &simd_kernels, &probe_kernels, &grouping_kernels, &sorting_kernels};
