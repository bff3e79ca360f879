/* Prefetching of cache lines. */
#ifndef QCORE_PREFETCH_H
#define QCORE_PREFETCH_H
#include <stdint.h>

/* The line will be written. */
static inline void qc_prefetch_write(const void *address) { __builtin_prefetch(address, 1); }
/* Lines of n bytes that will be read; they may lie outside of any buffer. Without the empty statement GCC takes a function
   that only prefetches for one without effect, and leaves its calls out. */
static inline void qc_prefetch_range(const char *start, int64_t n) {
    for (int64_t i = 0; i < n; i += 64) __builtin_prefetch(start + i, 0);
    __asm__ volatile("");
}

/* Of a loop over memory: fetch the line that it reads in QC_STREAM_AHEAD bytes. The processor's own prefetch ends at each
   page of 4 KB. Where the values are in a cache already this costs one instruction a line. */
enum { QC_STREAM_AHEAD = 2048 };
static inline void qc_prefetch_stream(const void *address) { __builtin_prefetch((const char *) address + QC_STREAM_AHEAD); }
#if defined(__AVX512F__)
#include <immintrin.h>
static inline __m512i qc_load_stream(const void *line) { qc_prefetch_stream(line); return _mm512_loadu_si512(line); }
#elif defined(__AVX2__)
#include <immintrin.h>
static inline __m256i qc_load_stream(const void *at) { qc_prefetch_stream(at); return _mm256_loadu_si256((const __m256i *) at); }
#endif
#endif
