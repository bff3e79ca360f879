"""For tests: run one chain of operators over batches on the caller's thread, and scripted operators. Floor E6."""

import time

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from qcore_ext.data.batch cimport Batch, batch_ref, batch_unref
from qcore_ext.data.capsule cimport PyBatch, Stream
from qcore_ext.data.schema cimport Schema
from qcore_ext.execution.driver cimport DRIVER_BLOCKED, DRIVER_FINISHED, Driver, explain_failure
from qcore_ext.ground.atomic cimport qc_load, qc_store
from qcore_ext.ground.memory cimport Account, Owner, owner_ref, owner_unref, struct_free, struct_new
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.operators.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, Operator


cdef class BatchSource(Operator):
    """Source of given batches.

    Parameters
    ----------
    batches : list of PyBatch
    memory : Account
    schema : Schema, optional
        Of the output; left out: the first batch's.
    """
    cdef list batches
    cdef int64_t n_given
    cdef Batch** given

    def __init__(self, list batches, Account memory, Schema schema=None):
        cdef int64_t i
        Operator.__init__(self, "BatchSource", "source", memory)
        self.batches = batches
        if schema is not None:
            self.set_output_schema(schema.schema)
        self.given = <Batch**> struct_new((len(batches) + 1) * sizeof(Batch*))
        for i in range(len(batches)):
            self.given[i] = (<PyBatch> batches[i]).batch

    def __dealloc__(self):
        struct_free(self.given)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.given[self.n_given] == NULL:
            return FINISHED
        out[0] = batch_ref(self.given[self.n_given])
        self.n_given += 1
        return OUTPUT


cdef class Collector(Operator):
    """Sink that keeps every batch."""
    cdef Batch** kept
    cdef int64_t n_kept
    cdef bint finish_called

    def __init__(self, Account memory):
        Operator.__init__(self, "Collector", "sink", memory)

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.n_kept):
            batch_unref(self.kept[i])
        free(self.kept)

    def take(self):
        """The batches so far, as pyarrow.RecordBatch, and forget them."""
        import pyarrow

        cdef int64_t i
        taken = [pyarrow.record_batch(PyBatch.wrap(self.kept[i])) for i in range(self.n_kept)]
        for i in range(self.n_kept):
            batch_unref(self.kept[i])
        self.n_kept = 0
        return taken

    cdef bint needs_input(self) noexcept nogil:
        return not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef Batch** grown = <Batch**> realloc(self.kept, (self.n_kept + 1) * sizeof(Batch*))
        if grown == NULL:
            return raise_memory_limit(b"the machine has no memory left")
        self.kept = grown
        self.kept[self.n_kept] = batch
        self.n_kept += 1
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        return FINISHED if self.finish_called else NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0


ctypedef struct CallerToken:
    WaitToken base
    int64_t fired


cdef void caller_notify(WaitToken* token) noexcept nogil:
    qc_store(&(<CallerToken*> token).fired, 1)


cdef void caller_free(Owner* token) noexcept nogil:
    struct_free(token)


def import_batches(source):
    """PyBatch objects of record batches, tables, streams or lists of them."""
    cdef Stream stream
    cdef Batch* batch = NULL
    cdef int more
    if isinstance(source, (list, tuple)):
        return sum(map(import_batches, source), [])
    if hasattr(source, "__arrow_c_array__"):
        return [PyBatch.from_arrow(source)]
    stream = Stream(source)
    batches = []
    while True:
        with nogil:
            more = stream.next_batch(NULL, &batch)
        if not more:
            return batches
        batches.append(PyBatch.wrap(batch))
        batch_unref(batch)


def run_chain(list operators, batches=None, schema=None, double timeout=60.0, double slice_ms=0.0):
    """Run one chain on this thread, to its end.

    Parameters
    ----------
    operators : list of Operator
        First the one that gets the batches. They are closed afterwards.
    batches : list, table or record batch, optional
        Objects with __arrow_c_array__ or __arrow_c_stream__. None: the first operator is a source.
    schema : object with __arrow_c_schema__, optional
        What the source declares before its first batch; left out: nothing.
    timeout : float
        Seconds a blocked chain waits before TimeoutError.
    slice_ms : float
        Time slice; 0 is none.

    Returns
    -------
    list of pyarrow.RecordBatch
        What the last operator gave.
    """
    memory = Account()
    collector = Collector(memory)
    chain = operators + [collector]
    if batches is not None:
        chain.insert(0, BatchSource(import_batches(batches), memory, Schema(schema) if schema is not None else None))
    drive(Driver(chain), timeout, slice_ms)
    return collector.take()


cdef int drive(Driver driver, double timeout, double slice_ms) except -1:
    cdef CallerToken* token = <CallerToken*> struct_new(sizeof(CallerToken))
    cdef int64_t stop = 0
    cdef int64_t slice_nanos = <int64_t> (slice_ms * 1e6)
    cdef int answer = 0
    cdef double deadline
    token.base.owner.references = 1
    token.base.owner.release = caller_free
    token.base.notify = caller_notify
    driver.token = &token.base
    driver.stop = &stop
    try:
        while answer != DRIVER_FINISHED:
            qc_store(&token.fired, 0)
            with nogil:
                answer = driver.run(slice_nanos)
            deadline = time.monotonic() + timeout
            while answer == DRIVER_BLOCKED and not qc_load(&token.fired):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the chain is blocked at {driver.describe_current()}")
                time.sleep(0.0005)
    except Exception as error:
        raise explain_failure(error, *driver.describe_current())
    finally:
        driver.shut()
        driver.stop = NULL
        driver.token = NULL
        owner_unref(<Owner*> token)
    return 0
