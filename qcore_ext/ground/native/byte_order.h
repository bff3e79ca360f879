/* Byte order: strings compare like the big-endian numbers of their first bytes. */
#ifndef QCORE_BYTE_ORDER_H
#define QCORE_BYTE_ORDER_H
#include <stdint.h>

static inline uint64_t qc_swap_bytes(uint64_t value) { return __builtin_bswap64(value); }
#endif
