"""What the rows of a batch take once they are laid out as Arrow, known before anything is laid out. SPEC V7.

A column over few values may have many rows: a constant list of 800 kB takes 800 kB in the engine, and 80 GB laid out
for 100,000 rows. Code that lays rows out asks here how much to reserve, and how many rows to take at once.
"""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.ground.arrow_abi cimport ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount

# Of the selected rows first..first+n.
cdef int64_t laid_out_bytes(const Batch* batch, int64_t first, int64_t n) noexcept nogil
# How many of the selected rows from `first` on take at most n_bytes; one at least, where there is one. Rows of numbers
# alone are bounded by their count, and fit.
cdef int64_t rows_that_fit(const Batch* batch, int64_t first, int64_t n_bytes) noexcept nogil
# Selected rows first..first+n as a batch over the same columns.
cdef Batch* rows_part(Batch* batch, int64_t first, int64_t n, MemoryAccount* account) except NULL nogil
# rows_that_fit, of one nested column, of the layout given.
cdef int64_t nested_rows_that_fit(
    const Batch* batch, const Column* column, const ArrowSchema* layout, int64_t first, int64_t n_bytes,
) noexcept nogil
