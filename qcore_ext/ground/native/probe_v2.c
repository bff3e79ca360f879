/* probe.h for every processor: the compiler's baseline. */
#define PROBE_TABLE qc_probe_v2
#include "probe_body.h"

#if defined(__x86_64__)
const ProbeKernels *qc_probe_level(int level) {
    __builtin_cpu_init();
    if (level == 4)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") ? &qc_probe_v4 : 0;
    if (level == 3)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")
            && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt") ? &qc_probe_v3 : 0;
    return level == 2 ? &qc_probe_v2 : 0;
}
#else
const ProbeKernels *qc_probe_level(int level) { return level == 2 ? &qc_probe_v2 : 0; }
#endif

const ProbeKernels *qc_probe(void) {
    for (int level = 4; level > 2; level--)
        if (qc_probe_level(level)) return qc_probe_level(level);
    return &qc_probe_v2;
}
