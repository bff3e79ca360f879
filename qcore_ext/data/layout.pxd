"""Export of a batch as an Arrow struct array."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.arrow_abi cimport ArrowArray
from qcore_ext.ground.memory cimport MemoryAccount

# Fill *out with an array of the selected rows: strings in the Variant of their field, booleans as bits, decimals as 16
# bytes. A column that is laid out so already is not copied, if it is the application's memory or nothing else
# references it: the array keeps its buffers alive, which are not charged any more. Raises ExecutionError if a plain
# string column has more than 2 GiB. The bytes of copies are reserved in `account` (may be NULL) while they are made;
# raises MemoryLimitError, and then makes nothing.
# looks: raise Cancelled if the account's query is stopped. Not for a reader: an answered query counts as stopped.
cdef int array_from_batch(Batch* batch, MemoryAccount* account, bint looks, ArrowArray* out) except -1 nogil
# The selected rows as a batch that array_from_batch need not copy, except its nested columns: a new reference to the
# batch if it is one. The copies are charged to `account`, whose query may be stopped meanwhile (Cancelled).
cdef Batch* batch_laid_out(Batch* batch, MemoryAccount* account) except NULL nogil
