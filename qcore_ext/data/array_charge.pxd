"""The memory that imported Arrow arrays take, and the account that is charged for them while they live.

Arrow data that exists only for a query is charged to it from its import until the last batch over its buffers is
dropped. The batches may be in an operator that keeps rows, in a queue or with a reader meanwhile. Slices of one array
arrive as several batches over the same buffers, and each batch keeps all the buffers alive. They have one charge, which
grows with every slice and is released with the last one. A dictionary that many batches share is charged once.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount, Owner, OwnerList


ctypedef struct ChargedNode:
    # The array that was imported last at one node of a schema's tree.
    const void* values          # borrowed, only compared; the second and the third buffer of the array
    const void* bytes
    int64_t end                 # number of rows whose buffers are charged
    Owner* charge               # owned


ctypedef struct ChargeTrail:
    # The arrays imported last from one stream, by one thread: the next array may use the same buffers.
    ChargedNode* nodes          # owned
    int64_t n_nodes


# Bytes of the buffers of rows start..start+n (counted from the array's own offset), without children and dictionary.
# The array is valid: its offsets lie within its buffers.
cdef int64_t array_bytes(const ArrowArray* array, const char* format, int64_t start, int64_t n) noexcept nogil
# The same with all children and dictionaries. A dictionary counts in full.
cdef int64_t tree_bytes(const ArrowArray* array, const ArrowSchema* layout, int64_t start, int64_t n) noexcept nogil
# Bytes that pyarrow's take makes of the rows: the same without dictionaries, which are shared. For list views and run
# ends the bytes of several rows include the whole child, so asking for one row at a time is more exact.
cdef int64_t taken_bytes(const ArrowArray* array, const ArrowSchema* layout, int64_t start, int64_t n) noexcept nogil

# Charge the array to the account, and an eighth more for its allocator. The owner of the array keeps the returned list.
# Raises MemoryLimitError, and then charges nothing. `trail` is that of the array's stream, or NULL.
cdef OwnerList* array_charge(
    const ArrowArray* array, const ArrowSchema* layout, MemoryAccount* account, ChargeTrail* trail,
) except NULL nogil
# Forget the arrays that were imported last. Charges of batches that live stay.
cdef void charge_trail_clear(ChargeTrail* trail) noexcept nogil
