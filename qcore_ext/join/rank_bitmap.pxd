"""A set of small integers with their ranks, for dense join keys: one bit for each possible key.

One 16-byte word covers 64 codes: the bits, and how many bits are set before it. A miss reads one word. A hit
also computes the rank of its key from that word. A quarter byte a possible key, a sixteenth of a plain array of row
numbers: the 147,000 order keys that TPC-H Q3 keeps out of a range of 6 million take 1.5 MB and stay in the second-level
cache.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.ground.probe cimport RankWord

cdef Buffer* rank_words_new(MemoryAccount* account, uint64_t largest_code) except NULL nogil       # all clear
# Add the flagged codes.
cdef void rank_words_set(RankWord* words, const uint64_t* codes, const uint8_t* flags, int64_t n) noexcept nogil
# Compute the ranks; returns the number of codes.
cdef int64_t rank_words_finish(
    RankWord* words, uint64_t largest_code, const MemoryAccount* account,
) except -1 nogil
