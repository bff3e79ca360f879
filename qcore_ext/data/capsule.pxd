"""Import and export of Arrow data by the C Data and C Stream interfaces (PyCapsule protocol)."""

from libc.stdint cimport int64_t

from qcore_ext.data.array_charge cimport ChargeTrail
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.data.row_check cimport RowCheck
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount, Owner


# Import `array`, a struct array with one child for each column. Its release is moved out, also if this raises. `layout`
# is the Arrow schema it came with, `schema` the engine's form of it. Nothing is copied except validity bitmaps that
# start inside a byte and dictionary indices that are not 32 bits wide. Raises ExecutionError if lengths or buffer
# counts do not fit the schema.
# payer: charged for the array's buffers until the last column over them is dropped. NULL: they belong to the
# application. trail: that of the array's stream, or NULL. Raises MemoryLimitError if the payer's limit is exceeded.
cdef Batch* batch_import(
    ArrowArray* array, const ArrowSchema* layout, CSchema* schema, MemoryAccount* account, MemoryAccount* payer,
    ChargeTrail* trail,
) except NULL nogil
# Import an object with __arrow_c_array__. It is checked unless `trusted`.
cdef Batch* batch_of_arrow(object source, MemoryAccount* payer, bint trusted) except NULL
# A FLAT or DICTIONARY column over an array inside another one that `owner` keeps alive: the elements of lists.
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
    cdef bint is_charged                    # batches are made for the query alone and charged to the account that reads
    cdef CheckList* checks                  # one for each column, owned; NULL: no column has row checks
    cdef int hold_checks(self, row_checks) except -1
    cdef bint find_checks(self, const ArrowArray* array) noexcept nogil
    cdef void drop_checks(self) noexcept nogil
    # 1: *out is a batch. 0: the end. Raises ExecutionError with the producer's message if the producer failed.
    cdef str last_error(self)
    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil
    cdef void close(self) noexcept nogil


cdef class PyBatch:
    """A batch as a Python object."""
    cdef Batch* batch                       # owned
    cdef MemoryAccount* payer               # owned; charged while rows are laid out as Arrow; or NULL
    cdef bint looks                         # laying out raises Cancelled when the payer's query is stopped

    @staticmethod
    cdef PyBatch wrap(Batch* batch)         # takes a new reference

    # For a function that an operator calls. `payer` is the operator's account; its query may be stopped meanwhile.
    @staticmethod
    cdef PyBatch wrap_for(Batch* batch, MemoryAccount* payer)
