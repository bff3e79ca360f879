"""The memory that the rows of a batch take as Arrow, computed before they are laid out.

A column over few values may have many rows: a constant list of 800 kB takes 800 kB in the engine, and 80 GB as Arrow
for 100,000 rows. Code that lays rows out asks here how many bytes to reserve, and how many rows to lay out at once.
"""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.ground.arrow_abi cimport ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount

# Bytes of the selected rows first..first+n.
cdef int64_t laid_out_bytes(const Batch* batch, int64_t first, int64_t n) noexcept nogil
# The number of selected rows from `first` on that take at most n_bytes; at least 1 if a row is left. Rows of fixed
# width always fit, because a batch has few of them.
cdef int64_t rows_that_fit(const Batch* batch, int64_t first, int64_t n_bytes) noexcept nogil
# The selected rows first..first+n as a batch over the same columns.
cdef Batch* rows_part(Batch* batch, int64_t first, int64_t n, MemoryAccount* account) except NULL nogil
# rows_that_fit for one nested column of the type `layout`.
cdef int64_t nested_rows_that_fit(
    const Batch* batch, const Column* column, const ArrowSchema* layout, int64_t first, int64_t n_bytes,
) noexcept nogil
