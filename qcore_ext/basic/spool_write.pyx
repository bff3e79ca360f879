"""Sink of a subplan that several parts of the plan read."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.flow.batch_spool cimport BatchSpool


cdef class SpoolWrite(Operator):
    """Puts batches into a spool; never blocks.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    spool : BatchSpool
        This operator is one of its producers.
    """
    cdef BatchSpool spool
    cdef bint finish_called
    cdef bint left

    def __init__(self, str node_id, Account query_memory, BatchSpool spool):
        Operator.__init__(self, "SpoolWrite", node_id, query_memory)
        self.spool = spool

    cdef bint needs_input(self) noexcept nogil:
        # Not whether readers are left: they may leave after get_output answered NEEDS_INPUT. The next get_output sees
        # it.
        return not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        self.spool.push(batch)
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.finish_called or not self.spool.has_readers():
            return FINISHED
        return NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        self.leave()
        return 0

    cdef void leave(self) noexcept nogil:
        if not self.left:
            self.left = True
            self.spool.producer_done()

    cdef void abandon(self) noexcept nogil:
        self.leave()

    cdef void close(self) noexcept nogil:
        self.leave()
