"""Arrow in and out by the C Data and C Stream interfaces (PyCapsule protocol). SPEC H2."""

from libc.stdint cimport int64_t

from qcore_ext.data.array_charge cimport ChargeTrail
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.data.row_check cimport RowCheck
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount, Owner


# Takes over `array` (a struct array, one child a column; its release is moved out, also on error). `layout` is the
# Arrow schema it came with, `schema` the engine's reading of it. Zero copy but for validity bitmaps that start inside a
# byte and dictionary indices that are not 32 bits wide. ExecutionError when lengths or buffer counts do not fit.
# payer: is charged for the array's buffers until the last column over them is gone; NULL: nobody, they are the
# application's. trail: of the stream the array comes from, or NULL. MemoryLimitError when the payer may not keep them.
cdef Batch* batch_import(
    ArrowArray* array, const ArrowSchema* layout, CSchema* schema, MemoryAccount* account, MemoryAccount* payer,
    ChargeTrail* trail,
) except NULL nogil
# The same of an object with __arrow_c_array__, which is checked unless `trusted`.
cdef Batch* batch_of_arrow(object source, MemoryAccount* payer, bint trusted) except NULL
# A FLAT or DICTIONARY column over an array inside another that `owner` keeps alive: the elements of lists.
cdef Column* column_import(
    const ArrowArray* array, const ArrowSchema* layout, const DataType* type, Owner* owner, MemoryAccount* account,
) except NULL nogil


cdef struct CheckList:
    # The row checks of the arrays that a column's batches are cut from.
    RowCheck** items            # owned, and each of them
    int64_t n_items
    int64_t at                  # the one that was found last


cdef class Stream:
    """An open ArrowArrayStream, read without the GIL by one thread at a time."""
    cdef ArrowArrayStream stream
    cdef readonly object schema_object      # data.schema.Schema
    cdef ArrowSchema layout
    cdef CSchema* schema                    # owned
    cdef int trust
    cdef ChargeTrail trail
    cdef bint is_charged                    # what comes is memory for the query alone, charged to who reads
    cdef CheckList* checks                  # one for each column, owned; NULL: no column has row checks
    cdef int hold_checks(self, row_checks) except -1
    cdef bint find_checks(self, const ArrowArray* array) noexcept nogil
    cdef void drop_checks(self) noexcept nogil
    # 1: *out is a batch, 0: the end. ExecutionError with the producer's message when it failed.
    cdef str last_error(self)
    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil
    cdef void close(self) noexcept nogil


cdef class PyBatch:
    """A batch on the Python side."""
    cdef Batch* batch                       # owned
    cdef MemoryAccount* payer               # owned; is charged while rows are laid out as Arrow; NULL: nobody
    cdef bint looks                         # laying out ends with Cancelled when the payer's query is stopped

    @staticmethod
    cdef PyBatch wrap(Batch* batch)         # takes a new reference

    # For a function that an operator calls: `payer` is its account, whose query may be stopped meanwhile.
    @staticmethod
    cdef PyBatch wrap_for(Batch* batch, MemoryAccount* payer)
