"""The shared state of a sort's drivers. Each driver delivers its run, and the last one merges all runs."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.flow.barrier cimport Barrier, Membership
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.run cimport SortRun


cdef class SortState:
    """Shared by one task's drivers. A driver takes the lock only when it finishes."""
    cdef Mutex mutex
    cdef readonly int64_t n_drivers
    cdef Barrier barrier
    cdef int64_t n_runs
    cdef SortRun** runs             # owned; space for n_drivers
    cdef void join(self, Membership* member) noexcept nogil     # called by each operator before it runs
    # Deliver a driver's run and its ownership. The run is NULL if the driver had no rows or was abandoned. Returns True
    # for the last driver, which may then use the runs without the lock until it calls clear().
    cdef bint deliver(self, SortRun* run, Membership* member) noexcept nogil
    cdef void clear(self) noexcept nogil


# The positions (uint32) of all rows, in order. Positions count through the runs one after the other. The caller owns
# the buffer.
cdef Buffer* merge_runs(
    SortRun** runs, int64_t n_runs, const SortKey* parts, int32_t first_open, int32_t n_keys, MemoryAccount* account,
) except NULL nogil
