"""Source that reads the rows of a shared subplan of the same task."""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport Schema
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.stats cimport WAIT_FOR_PRODUCER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport BLOCKED, FINISHED, OUTPUT, Operator
from qcore_ext.flow.batch_queue cimport QUEUE_DONE, QUEUE_WAIT, QueueAnswer
from qcore_ext.flow.batch_spool cimport BatchSpool


cdef class SpoolRead(Operator):
    """Takes batches out of a spool.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    spool : BatchSpool
        This operator is one of a reader's drivers.
    reader : int
        Number of the reader in the spool.
    schema : Schema
        Of the batches.
    """
    cdef BatchSpool spool
    cdef int64_t reader
    cdef bint left

    def __init__(self, str node_id, Account query_memory, BatchSpool spool, int64_t reader, Schema schema):
        Operator.__init__(self, "SpoolRead", node_id, query_memory)
        self.spool = spool
        self.reader = reader
        self.set_output_schema(schema.schema)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef QueueAnswer answer = self.spool.next(self.reader, out, token)
        if answer == QUEUE_DONE:
            if out[0].schema != self.output_schema:
                self.set_output_schema(out[0].schema)       # writers need not agree on one
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
            self.spool.reader_gone(self.reader)
