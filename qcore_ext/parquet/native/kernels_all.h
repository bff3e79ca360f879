/* The tables of QpKernels for each instruction set. */
#ifndef QCORE_PARQUET_KERNELS_ALL_H
#define QCORE_PARQUET_KERNELS_ALL_H
#include "kernels.h"

#define QP_TABLE(set)                                                                                                \
    {set, QP(codes), QP(bits), QP(greatest),                                                                         \
     {QP(gather8), QP(gather16), QP(gather32), QP(gather64), QP(gather128)},                                         \
     {QP(spread8), QP(spread16), QP(spread32), QP(spread64), QP(spread128)},                                      \
     QP(places)}

#define QP(name) name##_v2
#include "kernels_body.h"
static const QpKernels qp_kernels_v2 = QP_TABLE("baseline");
#undef QP

#if defined(__x86_64__)
#include "ground/native/avx2_on.h"
#define QP_AVX2
#define QP(name) name##_v3
#include "kernels_body.h"
static const QpKernels qp_kernels_v3 = QP_TABLE("x86-64-v3");
#undef QP
#undef QP_AVX2
#include "ground/native/avx2_off.h"
#endif

/* The decoders for the instruction set of ground/dispatch. AVX-512 is no faster than AVX2 here. */
static const QpKernels *qp_kernels_of(const char *instruction_set) {
#if defined(__x86_64__)
    if (strcmp(instruction_set, "baseline") != 0) return &qp_kernels_v3;
#endif
    return &qp_kernels_v2;
}
#endif
