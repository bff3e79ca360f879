/* grouping.h for every processor: the compiler's baseline. */
#define GROUPING_TABLE qc_grouping_v2
#define GROUPING_MASKED 2
#include "grouping_body.h"

#if defined(__x86_64__)
const GroupingKernels *qc_grouping_level(int level) {
    __builtin_cpu_init();
    if (level == 4)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") ? &qc_grouping_v4 : 0;
    if (level == 3)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")
            && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt") ? &qc_grouping_v3 : 0;
    return level == 2 ? &qc_grouping_v2 : 0;
}
#else
const GroupingKernels *qc_grouping_level(int level) { return level == 2 ? &qc_grouping_v2 : 0; }
#endif

const GroupingKernels *qc_grouping(void) {
    for (int level = 4; level > 2; level--)
        if (qc_grouping_level(level)) return qc_grouping_level(level);
    return &qc_grouping_v2;
}
