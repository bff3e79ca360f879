"""Splits of one source node: added by the application while the task runs, taken first come, first served."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.wait_token cimport WaitSet, WaitToken


cdef enum SplitAnswer:
    SPLIT_TAKEN = 1
    SPLIT_WAIT = 2              # none now; the token was registered
    SPLIT_NONE = 3              # none now or later


cdef enum:
    SPLIT_CHUNKS = 48           # the first chunk holds 16 splits, each further one twice as many as the one before


ctypedef struct RowRange:
    # A split of StoredRows, which a driver reads without the GIL. It belongs to the queue.
    int64_t start
    int64_t length
    PyObject* split             # borrowed: the object that was added, for messages


cdef class SplitQueue:
    """Shared by the drivers of a source and the application.

    The application's side takes a lock. Drivers take splits without one, from slots that never move.
    """
    cdef readonly str node_id
    cdef Mutex mutex            # guards additions
    # Entries: owned splits, whose reference moves to the driver that takes them, or RowRanges with RANGE_TAG.
    cdef PyObject** chunks[SPLIT_CHUNKS]
    cdef int64_t n_added        # atomic, as are the counters below
    cdef int64_t n_taken
    cdef int64_t n_done
    cdef int64_t closed         # no_more was called
    cdef int64_t dropped        # no driver takes splits any more: further splits are ignored
    cdef WaitSet waiting
    cdef int64_t range_rows     # splits are taken as row ranges if they lie within that many rows; -1: they are not
    cdef list range_splits      # the objects of row ranges, kept alive

    # Gives a split, a new reference, or a row range, which stays the queue's; the other one is NULL.
    cdef SplitAnswer take(
        self, PyObject** split, RowRange** range_, WaitToken* token,
    ) except <SplitAnswer> -1 nogil
    cdef void done(self) noexcept nogil         # a split taken earlier was read to its end
    cdef PyObject* claim(self) noexcept nogil   # the next entry; NULL: none now
    cdef PyObject* entry_of(self, split) except NULL
    # The source's last driver is gone: drop the remaining splits and ignore later ones. Needs the GIL.
    cdef void drop(self) noexcept
