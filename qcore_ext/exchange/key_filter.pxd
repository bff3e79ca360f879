"""Filters of keys, by their hashes as HashPartitioner computes them between tasks."""

from libc.stdint cimport int64_t, uint64_t

from qcore_ext.ground.memory cimport Account, Buffer


cdef class KeyHashes:
    """Belongs to one operator until it has ended."""
    cdef Account memory
    cdef Buffer* values         # owned; NULL before the first hash, and when there are too many
    cdef readonly int64_t n     # hashes in `values`
    cdef int64_t n_max
    cdef readonly bint is_over  # more than n_max were added

    cdef int add(self, const uint64_t* hashes, int64_t n) except -1 nogil


cdef class KeyFilter:
    """Immutable once it is filled: any number of operators may read it."""
    cdef object held            # the object that has the words
    cdef uint64_t* words
    cdef uint64_t n_words

    # may_have[i] = whether a key with the hash hashes[i] may be in the filter
    cdef void look_up(self, const uint64_t* hashes, int64_t n, bint* may_have) noexcept nogil
