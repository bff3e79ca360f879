"""Export of a batch as an Arrow struct array."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.arrow_abi cimport ArrowArray
from qcore_ext.ground.memory cimport MemoryAccount

# Fills *out with an array that owns copies of the selected rows; strings in their field's Variant, booleans as bits,
# decimals as 16 bytes. ExecutionError when a plain string column has more than 2 GiB. What the array takes is reserved
# in `account` while it is made (NULL: nobody's): MemoryLimitError then, and nothing was made. looks: Cancelled when the
# account's query is stopped meanwhile; not for a reader, who has the rows of an answered query, stopped as well.
cdef int array_from_batch(Batch* batch, MemoryAccount* account, bint looks, ArrowArray* out) except -1 nogil
