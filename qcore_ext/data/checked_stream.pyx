"""Arrow data from outside, checked before pyarrow or the engine follows its pointers."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.errno cimport EINVAL
from libc.stdint cimport int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from qcore_ext.data.array_check cimport batch_fault, explain_fault
from qcore_ext.data.layout_check cimport layout_fault
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema

from qcore_ext.ground.status import ExecutionError

cdef enum:
    MESSAGE_BYTES = 400


ctypedef struct Source:
    # The private_data of a checked stream.
    ArrowArrayStream stream
    ArrowSchema layout
    char message[MESSAGE_BYTES]     # the last fault found here; empty: none


cdef void source_free(Source* source) noexcept nogil:
    if source.layout.release != NULL:
        source.layout.release(&source.layout)
    if source.stream.release != NULL:
        source.stream.release(&source.stream)
    free(source)


cdef const char* foreign_fault(
    const ArrowArray* batch, const ArrowSchema* layout, bint text_only, const char** name,
) noexcept nogil:
    """batch_fault, and a check that each column is as long as the batch, which pyarrow does not verify."""
    cdef const char* fault = batch_fault(batch, layout, text_only, name)
    cdef int64_t i
    if fault != NULL:
        return fault
    for i in range(batch.n_children):
        if batch.children[i].length != batch.length:
            name[0] = layout.children[i].name
            return b"it has another number of rows than the batch"
    return NULL


cdef int check(const ArrowArray* batch, const ArrowSchema* layout, bint text_only) except -1 nogil:
    cdef const char* name = NULL
    cdef const char* fault = foreign_fault(batch, layout, text_only, &name)
    if fault != NULL:
        with gil:
            raise ExecutionError(explain_fault(fault, name))
    return 0


cdef int checked_schema(ArrowArrayStream* self, ArrowSchema* out) noexcept nogil:
    cdef Source* source = <Source*> self.private_data
    cdef const char* fault
    cdef int failed = source.stream.get_schema(&source.stream, out)
    if failed != 0:
        return failed
    fault = layout_fault(out)
    if fault != NULL:
        snprintf(source.message, MESSAGE_BYTES, "an Arrow type is malformed: %s; its producer is broken", fault)
        if out.release != NULL:
            out.release(out)
        return EINVAL
    return 0


cdef int checked_next(ArrowArrayStream* self, ArrowArray* out) noexcept nogil:
    cdef Source* source = <Source*> self.private_data
    cdef const char* fault
    cdef const char* name = NULL
    cdef int failed = source.stream.get_next(&source.stream, out)
    if failed != 0 or out.release == NULL:
        return failed
    fault = foreign_fault(out, &source.layout, False, &name)
    if fault == NULL:
        return 0
    if name == NULL:
        snprintf(source.message, MESSAGE_BYTES, "an Arrow batch is malformed: %s; its producer is broken", fault)
    else:
        snprintf(
            source.message, MESSAGE_BYTES,
            "column '%.200s' of an Arrow batch is malformed: %s; its producer is broken", name, fault,
        )
    out.release(out)
    return EINVAL


cdef const char* checked_error(ArrowArrayStream* self) noexcept nogil:
    cdef Source* source = <Source*> self.private_data
    if source.message[0] != 0:
        return source.message
    return source.stream.get_last_error(&source.stream)


cdef void checked_release(ArrowArrayStream* self) noexcept nogil:
    source_free(<Source*> self.private_data)
    self.release = NULL


cdef void release_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream* stream = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


cdef class CheckedStream:
    """A stream of another library. Each batch is checked before the reader sees it.

    The C interface states neither the sizes of buffers nor that of the array of pointers to them. Three faults can
    therefore not be found: a buffer that is shorter than its offsets, offsets far past the start of a missing buffer,
    and a count of view buffers above the number of pointers. Such data ends the process.

    Parameters
    ----------
    source : object with __arrow_c_stream__
    """
    cdef object source

    def __init__(self, source):
        self.source = source

    def __arrow_c_stream__(self, requested_schema=None):
        cdef ArrowArrayStream* given
        cdef ArrowArrayStream* made
        cdef Source* source
        capsule = self.source.__arrow_c_stream__(requested_schema)
        given = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, "arrow_array_stream")
        if given.release == NULL:
            raise ExecutionError("the Arrow stream was already read")
        source = <Source*> calloc(1, sizeof(Source))
        made = <ArrowArrayStream*> calloc(1, sizeof(ArrowArrayStream))
        if source == NULL or made == NULL:
            free(source)
            free(made)
            raise MemoryError()
        source.stream = given[0]
        given.release = NULL
        made.get_schema = checked_schema
        made.get_next = checked_next
        made.get_last_error = checked_error
        made.release = checked_release
        made.private_data = source
        checked = PyCapsule_New(made, "arrow_array_stream", release_stream_capsule)
        # Batches are checked against the schema that the stream has now. A reader may ask for it again.
        if checked_schema(made, &source.layout) != 0:
            memset(&source.layout, 0, sizeof(ArrowSchema))
            message = checked_error(made)
            why = message.decode("utf-8", "replace") if message != NULL else "no reason given"
            made.release(made)      # not while an error is raised: the producer's release may run Python code
            raise ExecutionError(f"the Arrow stream has no schema: {why}")
        return checked


def check_batch(batch, bint text_only=False):
    """Raise an ExecutionError that names the column if a record batch is malformed.

    Parameters
    ----------
    batch : object with __arrow_c_array__
        A pyarrow.RecordBatch must have passed its own `validate()`, which knows the sizes of buffers and is cheap.
    text_only : bool
        Check only text: pyarrow made the layout without reading the bytes.
    """
    cdef const ArrowSchema* layout
    cdef const ArrowArray* array
    cdef const char* fault
    schema_capsule, array_capsule = batch.__arrow_c_array__()
    layout = <const ArrowSchema*> PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    array = <const ArrowArray*> PyCapsule_GetPointer(array_capsule, "arrow_array")
    fault = layout_fault(layout)
    if fault != NULL:
        raise ExecutionError(f"an Arrow type is malformed: {fault.decode()}; its producer is broken")
    with nogil:
        check(array, layout, text_only)


cdef class CheckedBatch:
    """A record batch of another library, checked when it is exported.

    Parameters
    ----------
    source : object with __arrow_c_array__
    """
    cdef object source

    def __init__(self, source):
        self.source = source

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowSchema* layout
        capsules = self.source.__arrow_c_array__(requested_schema)
        layout = <ArrowSchema*> PyCapsule_GetPointer(capsules[0], "arrow_schema")
        fault = layout_fault(layout)
        if fault != NULL:
            raise ExecutionError(f"an Arrow type is malformed: {fault.decode()}; its producer is broken")
        check(<const ArrowArray*> PyCapsule_GetPointer(capsules[1], "arrow_array"), layout, False)
        return capsules
