"""The process that an object belongs to, and whether that process is shutting down."""

from libc.stdint cimport int64_t

# A number that differs between a process and its forked children. Objects that a child must not use keep it.
cdef int64_t fork_number() noexcept nogil
# Raises QcoreError if `made_in` is the number of another process.
cpdef int check_process(int64_t made_in) except -1
# Whether Python's atexit functions have run. After that no thread can be started.
cpdef bint is_leaving() noexcept nogil
cpdef int check_not_leaving() except -1
