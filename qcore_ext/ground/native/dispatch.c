/* Chooses the instruction set of all kernels; see dispatch.h. */
#include "dispatch.h"

extern const QcKernels qc_kernels_v2;

#if defined(__x86_64__)
extern const QcKernels qc_kernels_v3;
extern const QcKernels qc_kernels_v4;

#define HAS(feature) __builtin_cpu_supports(feature)

const QcKernels *qc_kernels(int level) {
    __builtin_cpu_init();
    switch (level) {
    case 4:
        return HAS("avx512f") && HAS("avx512bw") && HAS("avx512dq") && HAS("avx512vl") && HAS("avx512cd")
            ? &qc_kernels_v4 : 0;
    case 3:
        return HAS("avx2") && HAS("bmi") && HAS("bmi2") && HAS("fma") && HAS("popcnt") ? &qc_kernels_v3 : 0;
    case 2:
        return &qc_kernels_v2;
    }
    return 0;
}
#else
const QcKernels *qc_kernels(int level) { return level == 2 ? &qc_kernels_v2 : 0; }
#endif

const QcKernels *qc_best_kernels(void) {
    for (int level = 4; level > 2; level--)
        if (qc_kernels(level)) return qc_kernels(level);
    return &qc_kernels_v2;
}
