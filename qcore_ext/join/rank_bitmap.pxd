"""Rank bitmap: a set of small integers with their ranks, for dense join keys. It has one bit for each possible key.

One 16-byte word covers 64 codes. It has their bits, and the number of bits that are set in the words before it. A miss
reads one word. A hit computes the rank of its key from the same word.

A possible key takes a quarter of a byte, a sixteenth of an array of row numbers. The 147,000 order keys of TPC-H Q3,
from a range of 6 million, take 1.5 MB and stay in the second-level cache.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.ground.probe cimport RankWord

# Words for the codes 0..largest_code, with all bits clear.
cdef Buffer* rank_words_new(MemoryAccount* account, uint64_t largest_code) except NULL nogil
# Add the flagged codes. No code, flagged or not, is above the largest.
cdef void rank_words_set(
    RankWord* words, uint64_t largest_code, const uint64_t* codes, const uint8_t* flags, int64_t n,
) noexcept nogil
# The same for a bitmap without ranks: one word for 64 codes.
cdef void rank_marks_set(
    uint64_t* marks, uint64_t largest_code, const uint64_t* codes, const uint8_t* flags, int64_t n,
) noexcept nogil
# Add all codes of such a bitmap.
cdef int rank_words_mark(
    RankWord* words, uint64_t largest_code, const uint64_t* marks, const MemoryAccount* account,
) except -1 nogil
# Compute the ranks. Returns the number of codes.
cdef int64_t rank_words_finish(
    RankWord* words, uint64_t largest_code, const MemoryAccount* account,
) except -1 nogil
