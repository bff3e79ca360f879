"""Sink that hands the result to whoever reads it, with back-pressure."""

from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.stats cimport WAIT_FOR_CONSUMER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.flow.batch_queue cimport QUEUE_CLOSED, QUEUE_WAIT, BatchQueue, QueueAnswer


cdef class ResultSink(Operator):
    """Puts batches into a queue that a QueueReader reads.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    queue : BatchQueue
        This operator is one of its producers.
    """
    cdef BatchQueue queue
    cdef Batch* held            # owned; not yet in the queue
    cdef bint finish_called
    cdef bint unwanted          # the reader is gone
    cdef bint left

    def __init__(self, str node_id, Account query_memory, BatchQueue queue):
        Operator.__init__(self, "ResultSink", node_id, query_memory)
        self.queue = queue
        queue.join(&self.membership)

    def __dealloc__(self):
        batch_unref(self.held)

    cdef bint needs_input(self) noexcept nogil:
        return self.held == NULL and not self.finish_called and not self.unwanted

    cdef int add_input(self, Batch* batch) except -1 nogil:
        self.held = batch
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef QueueAnswer answer
        if self.held != NULL:
            answer = self.queue.push(self.held, token)
            if answer == QUEUE_WAIT:
                self.blocked_reason = WAIT_FOR_CONSUMER
                return BLOCKED
            if answer == QUEUE_CLOSED:
                batch_unref(self.held)
            self.held = NULL
        self.unwanted = not self.queue.has_consumers()
        if self.finish_called or self.unwanted:
            return FINISHED
        return NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        self.leave()
        return 0

    cdef void leave(self) noexcept nogil:
        if not self.left:
            self.left = True
            self.queue.producer_done(&self.membership)

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        batch_unref(self.held)
        self.held = NULL
        self.leave()
