"""Rank bitmap: a set of small integers with their ranks, for dense join keys. It has one bit for each possible key."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new_zeroed
from qcore_ext.ground.dispatch cimport probe_kernels
from qcore_ext.ground.probe cimport RankWord


cdef Buffer* rank_words_new(MemoryAccount* account, uint64_t largest_code) except NULL nogil:
    return buffer_new_zeroed(account, <int64_t> (((largest_code >> 6) + 1) * sizeof(RankWord)))


cdef void rank_words_set(
    RankWord* words, uint64_t largest_code, const uint64_t* codes, const uint8_t* flags, int64_t n,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        qc_check(codes[i] <= largest_code, b"a code is within the range of codes")
        words[codes[i] >> 6].bits |= (<uint64_t> flags[i]) << (codes[i] & 63)


cdef void rank_marks_set(
    uint64_t* marks, uint64_t largest_code, const uint64_t* codes, const uint8_t* flags, int64_t n,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        qc_check(codes[i] <= largest_code, b"a code is within the range of codes")
        marks[codes[i] >> 6] |= (<uint64_t> flags[i]) << (codes[i] & 63)


cdef int rank_words_mark(
    RankWord* words, uint64_t largest_code, const uint64_t* marks, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t n_words = <int64_t> (largest_code >> 6) + 1
    cdef int64_t i
    for i in range(n_words):
        if i % CHECK_ROWS == 0:
            account_check(account)
        words[i].bits |= marks[i]
    return 0


cdef int64_t rank_words_finish(
    RankWord* words, uint64_t largest_code, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t n_words = <int64_t> (largest_code >> 6) + 1
    cdef int64_t rank = 0
    cdef int64_t start = 0
    while start < n_words:
        account_check(account)
        rank = probe_kernels().rank_fill(words + start, min(n_words - start, <int64_t> CHECK_ROWS), <uint32_t> rank)
        start += CHECK_ROWS
    return rank
