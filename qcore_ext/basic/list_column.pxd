"""Where the elements of each row of a list column lie.

Lists are not loaded like other columns: kernels see them through the Arrow array that holds them, whatever its layout:
lists of either offset width, list views, lists of fixed size, maps (lists of their entries).
"""

from libc.stdint cimport int64_t

from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.arrow_abi cimport ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount


cdef enum ListLayout:
    LIST_NONE = 0               # not a list
    LIST_OFFSETS = 1
    LIST_LARGE_OFFSETS = 2
    LIST_VIEW = 3
    LIST_LARGE_VIEW = 4
    LIST_FIXED = 5


ctypedef struct ListColumn:
    # Of one batch. `column` is borrowed, `elements` is owned.
    const Column* column
    const Column* flat          # the column, or its base
    const void* offsets
    const void* sizes
    int64_t first               # of the array: where its row 0 lies in offsets
    int64_t width               # LIST_FIXED: elements a list
    int layout                  # ListLayout
    Column* elements


cdef int list_layout(const char* format) noexcept nogil
# `layout` is the Arrow schema of the column, `element_type` the type of its elements.
cdef int list_open(
    ListColumn* lists, Column* column, const ArrowSchema* layout, const DataType* element_type, MemoryAccount* account,
) except -1 nogil
cdef void list_close(ListColumn* lists) noexcept nogil
# Elements start[0] to start[0] + length of row i, counted in `elements`; a null list has none. -1: the array
# names elements that it has not.
cdef int64_t list_at(const ListColumn* lists, int64_t i, int64_t* start) noexcept nogil
