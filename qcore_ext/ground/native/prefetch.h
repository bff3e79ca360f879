/* Fetching a cache line before it is needed. */
#ifndef QCORE_PREFETCH_H
#define QCORE_PREFETCH_H

/* The line will be written. */
static inline void qc_prefetch_write(const void *place) { __builtin_prefetch(place, 1); }
#endif
