"""Sink that calls a Python function with each batch."""

from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.flow.future_wait cimport FutureWait


def to_record_batch(batch):
    """Return a pyarrow.RecordBatch of an object with __arrow_c_array__."""
    import pyarrow

    return pyarrow.record_batch(batch)


cdef class CallbackSink(Operator):
    """Gives batches to a function, which may make the pipeline wait.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    callback : callable
        Called with each batch, on the thread of the driver. It may return None, or an object with `reason` (see
        flow.future_wait.reason_number) and `future`; then the next batch is given when the future is done.
    convert : callable, optional
        Makes the argument of the callback from an object with __arrow_c_array__. By default a pyarrow.RecordBatch.
    """
    cdef object callback
    cdef object convert
    cdef FutureWait waiting
    cdef bint is_waiting
    cdef bint finish_called

    def __init__(self, str node_id, Account query_memory, callback, convert=to_record_batch):
        Operator.__init__(self, "CallbackSink", node_id, query_memory)
        if not callable(callback):
            raise TypeError(f"a callback sink needs a function, not {callback!r}")
        self.callback = callback
        self.convert = convert
        self.waiting = FutureWait()

    cdef bint needs_input(self) noexcept nogil:
        return not self.is_waiting and not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        with gil:
            blocked = self.callback(self.convert(PyBatch.wrap_for(batch, self.memory.account)))
            if blocked is not None:
                self.waiting.begin(blocked)
                self.is_waiting = True
        batch_unref(batch)
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.is_waiting:
            with gil:
                self.is_waiting = not self.waiting.poll(token)
            if self.is_waiting:
                self.blocked_reason = self.waiting.reason
                return BLOCKED
        return FINISHED if self.finish_called else NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        with gil:
            self.callback = None
            self.convert = None
            self.waiting.forget()
