"""Radix sort of words, and of entries by their prefixes. Both are stable."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from qcore_ext.ground.memory cimport MemoryAccount


ctypedef struct SortEntry:
    uint64_t prefix
    uint32_t row
    uint32_t unused

ctypedef fused SortItem:
    SortEntry
    uint64_t


# Sort n items in place. `other` has space for n. If the account's query is stopped they return early, in no order.
cdef void radix_sort_entries(SortEntry* items, SortEntry* other, int64_t n, const MemoryAccount* account) noexcept nogil
cdef void radix_sort_words(uint64_t* items, uint64_t* other, int64_t n, const MemoryAccount* account) noexcept nogil

# Whether the query is stopped. If it is not, other drivers may run now, as in account_check.
cdef bint is_stopped(const MemoryAccount* account) noexcept nogil
