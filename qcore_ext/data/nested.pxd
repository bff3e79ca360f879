"""Lists, structs and maps: carried through by row number, gathered by pyarrow when they leave."""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema

# The selected rows of a nested column of `batch`, as an Arrow array of the type `layout` describes. Takes the GIL.
cdef int nested_export(Batch* batch, const Column* column, const ArrowSchema* layout, ArrowArray* out) except -1 nogil
