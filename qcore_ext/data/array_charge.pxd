"""What imported Arrow arrays take of memory, and which account pays for them while they live. SPEC V7.

Arrow data that exists only for a query is charged to it from its import until the last batch over its buffers is gone,
wherever the batches are meanwhile: in an operator that keeps rows, in a queue, with a reader. Slices of one array come
as many batches over the same buffers, and each keeps all of them alive: their charge is one, which grows with every
slice and is given back with the last. A dictionary that many batches share is charged once.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount, Owner, OwnerList


ctypedef struct ChargedNode:
    # The array last imported at one place of a schema's tree.
    const void* values          # borrowed, only compared; its second and third buffer
    const void* bytes
    int64_t end                 # rows of the buffers that are charged
    Owner* charge               # owned


ctypedef struct ChargeTrail:
    # What was imported last from one stream, by one thread: the next array may lie in the same buffers.
    ChargedNode* nodes          # owned
    int64_t n_nodes


# Bytes of the buffers of rows start..start+n (counted from the array's own offset), with all children and dictionaries.
# The array is sound: its offsets lie within its buffers.
cdef int64_t array_bytes(const ArrowArray* array, const char* format, int64_t start, int64_t n) noexcept nogil
# The same with the children and the dictionary. A dictionary counts whole.
cdef int64_t tree_bytes(const ArrowArray* array, const ArrowSchema* layout, int64_t start, int64_t n) noexcept nogil
# What pyarrow makes of the rows when it takes them: the same, without the dictionaries, which are shared. Of list views
# and run ends several rows count by the whole child, so that one row at a time is closer.
cdef int64_t taken_bytes(const ArrowArray* array, const ArrowSchema* layout, int64_t start, int64_t n) noexcept nogil

# Charge the array, and an eighth more for its allocator, to the account; who keeps the array alive keeps the list.
# MemoryLimitError, and nothing is charged. trail: of the array's stream, or NULL.
cdef OwnerList* array_charge(
    const ArrowArray* array, const ArrowSchema* layout, MemoryAccount* account, ChargeTrail* trail,
) except NULL nogil
# Forget the arrays imported before; what batches keep stays charged.
cdef void charge_trail_clear(ChargeTrail* trail) noexcept nogil
