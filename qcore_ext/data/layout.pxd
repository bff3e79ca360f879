"""Export of a batch as an Arrow struct array."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.arrow_abi cimport ArrowArray
from qcore_ext.ground.memory cimport MemoryAccount

# Fill *out with an array that owns copies of the selected rows: strings in the Variant of their field, booleans as
# bits, decimals as 16 bytes. Raises ExecutionError if a plain string column has more than 2 GiB. The array's bytes are
# reserved in `account` (may be NULL) while it is made; raises MemoryLimitError, and then makes nothing.
# looks: raise Cancelled if the account's query is stopped. Not for a reader: an answered query counts as stopped.
cdef int array_from_batch(Batch* batch, MemoryAccount* account, bint looks, ArrowArray* out) except -1 nogil
