"""Lists, structs and maps: the engine carries them by row number, and pyarrow gathers them at export."""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount

# The selected rows of a nested column of `batch` as an Arrow array of the type that `layout` describes. Takes the GIL.
# The caller has reserved the bytes of the rows. `account`, which may be NULL, is charged for the pieces while they are
# joined. looks: raise Cancelled between two pieces if the account's query is stopped.
cdef int nested_export(
    Batch* batch, const Column* column, const ArrowSchema* layout, MemoryAccount* account, bint looks, ArrowArray* out,
) except -1 nogil
