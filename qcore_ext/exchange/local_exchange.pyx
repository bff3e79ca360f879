"""Source that reads the batches of another pipeline of the same task."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport Schema
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.stats cimport WAIT_FOR_PRODUCER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport BLOCKED, FINISHED, OUTPUT, Operator
from qcore_ext.flow.batch_queue cimport QUEUE_DONE, QUEUE_WAIT, BatchQueue, QueueAnswer


cdef class LocalExchange(Operator):
    """Takes batches out of a queue.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    queue : BatchQueue
        This operator is one of its consumers.
    schema : Schema
        Of the batches, until one comes with another schema.
    """
    cdef BatchQueue queue
    cdef bint left

    def __init__(self, str node_id, Account query_memory, BatchQueue queue, Schema schema):
        Operator.__init__(self, "LocalExchange", node_id, query_memory)
        self.queue = queue
        queue.join(&self.membership)
        self.set_output_schema(schema.schema)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef QueueAnswer answer = self.queue.pop(out, token)
        if answer == QUEUE_DONE:
            if out[0].schema != self.output_schema:
                self.set_output_schema(out[0].schema)       # producers need not agree on one
            return OUTPUT
        if answer == QUEUE_WAIT:
            self.blocked_reason = WAIT_FOR_PRODUCER
            return BLOCKED
        return FINISHED

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        if not self.left:
            self.left = True
            self.queue.consumer_gone(&self.membership)
