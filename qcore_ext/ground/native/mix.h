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

static inline uint64_t qc_hash_bytes(const char *data, int64_t n_bytes) {
    uint64_t state = (uint64_t)n_bytes * 0x9e3779b97f4a7c15ULL, word;
    const char *end = data + n_bytes;
    if (n_bytes >= 8) {
        for (; n_bytes > 8; data += 8, n_bytes -= 8) {
            memcpy(&word, data, 8);
            state = qc_mix(state ^ word) + word;
        }
        memcpy(&word, end - 8, 8);      /* overlaps: a copy of unknown length would be a call */
        state = qc_mix(state ^ word) + word;
    } else if (n_bytes > 0) {
        word = 0;
        memcpy(&word, data, (size_t)n_bytes);
        state = qc_mix(state ^ word) + word;
    }
    return qc_mix(state);
}
#endif
