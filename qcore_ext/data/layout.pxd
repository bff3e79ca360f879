"""A batch laid out as an Arrow struct array, for the world outside."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.arrow_abi cimport ArrowArray

# Fills *out with an array that owns copies of the selected rows; strings in their field's Variant, booleans as bits,
# decimals as 16 bytes. ExecutionError when a plain string column has more than 2 GiB.
cdef int array_from_batch(Batch* batch, ArrowArray* out) except -1 nogil
