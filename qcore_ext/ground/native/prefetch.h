/* Prefetching of cache lines. */
#ifndef QCORE_PREFETCH_H
#define QCORE_PREFETCH_H

/* The line will be written. */
static inline void qc_prefetch_write(const void *address) { __builtin_prefetch(address, 1); }
#endif
