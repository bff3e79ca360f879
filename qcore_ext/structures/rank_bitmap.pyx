"""A set of small integers with their ranks: dense join keys, a bit a possible key. Floor E3."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount, buffer_new_zeroed


cdef inline uint32_t popcount(uint64_t bits) noexcept nogil:
    # Without -mpopcnt the compiler's builtin is a library call that looks up eight bytes in a table.
    bits = bits - ((bits >> 1) & 0x5555555555555555ULL)
    bits = (bits & 0x3333333333333333ULL) + ((bits >> 2) & 0x3333333333333333ULL)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0FULL
    return <uint32_t> ((bits * 0x0101010101010101ULL) >> 56)


cdef Buffer* rank_words_new(MemoryAccount* account, uint64_t largest_code) except NULL nogil:
    return buffer_new_zeroed(account, <int64_t> (((largest_code >> 6) + 1) * sizeof(RankWord)))


cdef void rank_words_set(RankWord* words, const uint64_t* codes, const uint8_t* flags, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        words[codes[i] >> 6].bits |= (<uint64_t> flags[i]) << (codes[i] & 63)


cdef int64_t rank_words_finish(RankWord* words, uint64_t largest_code) noexcept nogil:
    cdef int64_t n_words = <int64_t> (largest_code >> 6) + 1
    cdef int64_t i
    cdef uint32_t rank = 0
    for i in range(n_words):
        words[i].rank = rank
        rank += popcount(words[i].bits)
    return rank


cdef void rank_words_test(const RankWord* words, const uint64_t* codes, int64_t n, uint8_t* flags) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        flags[i] &= <uint8_t> (words[codes[i] >> 6].bits >> (codes[i] & 63))


cdef void rank_words_ranks(
    const RankWord* words, const uint64_t* codes, const uint32_t* at, int64_t n, uint32_t* ranks,
) noexcept nogil:
    cdef int64_t i
    cdef uint64_t code
    for i in range(n):
        code = codes[at[i]]
        ranks[i] = words[code >> 6].rank + popcount(words[code >> 6].bits & (((<uint64_t> 1) << (code & 63)) - 1))
