/* Bit mixers of the engine's one hash function. */
#ifndef QCORE_MIX_H
#define QCORE_MIX_H
#include <stdint.h>
#include <string.h>

#define QC_NULL_HASH 0x9ae16a3b2f90404fULL

/* Two rounds of xor-shift and multiply: vectorises where a 128-bit folded multiply does not. */
static inline uint64_t qc_mix(uint64_t value) {
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93ULL;
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93ULL;
    value ^= value >> 32;
    return value;
}

static inline uint64_t qc_combine(uint64_t so_far, uint64_t value) {
    return qc_mix(so_far * 31 + value + 0x9e3779b97f4a7c15ULL);
}

/* The halves of a 128-bit product, and its factors: with a factor of 0 the other one is still in the result. */
static inline uint64_t qc_fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return a ^ b ^ (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The hash of at least 32 bytes; grouping.h has that of shorter texts. A folded product takes 16 bytes in half of the
   time in which qc_mix takes 8. The last words overlap earlier ones, because a copy of unknown length would be a call. */
static inline uint64_t qc_hash_bytes(const char *data, int64_t n_bytes) {
    uint64_t state = (uint64_t)n_bytes * 0x9e3779b97f4a7c15ULL, first, second;
    const char *end = data + n_bytes;
    for (; n_bytes > 16; data += 16, n_bytes -= 16) {
        memcpy(&first, data, 8);
        memcpy(&second, data + 8, 8);
        state = qc_fold(first ^ 0x8ebc6af09c88c6e3ULL, second ^ state);
    }
    memcpy(&first, end - 16, 8);
    memcpy(&second, end - 8, 8);
    state = qc_fold(first ^ state, second ^ 0xd6e8feb86659fd93ULL);
    return qc_fold(state ^ 0xa0761d6478bd642fULL, 0xe7037ed1a0b428dbULL);
}
#endif
