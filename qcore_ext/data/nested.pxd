"""Lists, structs and maps: carried through by row number, gathered by pyarrow when they leave."""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount

# The selected rows of a nested column of `batch`, as an Arrow array of the type `layout` describes. Takes the GIL. The
# caller has reserved what they take; account pays for pieces that are put together, or is NULL. looks: Cancelled between
# two pieces when the account's query is stopped.
cdef int nested_export(
    Batch* batch, const Column* column, const ArrowSchema* layout, MemoryAccount* account, bint looks, ArrowArray* out,
) except -1 nogil
