"""Where the drivers of a sort meet: each delivers its run, the last one merges them all."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.flow.barrier cimport Barrier, Membership
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.run cimport SortRun


cdef class SortState:
    """Shared by one task's drivers; locked only when one of them finishes."""
    cdef Mutex mutex
    cdef readonly int64_t n_drivers
    cdef Barrier barrier
    cdef int64_t n_runs
    cdef SortRun** runs             # owned; room for n_drivers
    cdef void join(self, Membership* member) noexcept nogil     # each operator, before it runs
    # A driver's run, taken over (NULL: it had no rows, or gives up). True: it was the last driver, and the runs are its
    # to use, without the lock, until clear().
    cdef bint deliver(self, SortRun* run, Membership* member) noexcept nogil
    cdef void clear(self) noexcept nogil


# uint32 positions of all rows in order, counted through the runs one after the other; the caller owns the buffer.
cdef Buffer* merge_runs(
    SortRun** runs, int64_t n_runs, const SortKey* parts, int32_t first_open, int32_t n_keys, MemoryAccount* account,
) except NULL nogil
