"""The process that a thing belongs to, and whether that process is leaving."""

from libc.stdint cimport int64_t

# Differs between a process and the children forked from it: kept by what must not be used in a child.
cdef int64_t fork_number() noexcept nogil
# QcoreError where `made_in` is the number of another process.
cpdef int check_process(int64_t made_in) except -1
# Python's atexit functions have run: no thread can be started any more.
cpdef bint is_leaving() noexcept nogil
cpdef int check_not_leaving() except -1
