/* What follows is compiled for the instructions of x86-64-v3, until avx2_off.h. No include guard: a file may do so twice. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,fma,popcnt,lzcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,fma,popcnt,lzcnt")
#endif
