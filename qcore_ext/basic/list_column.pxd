"""The elements of each row of a list column.

Lists are not loaded like other columns. Kernels read the Arrow array that holds them, in any of its layouts: lists with
32-bit or 64-bit offsets, list views, lists of fixed size, and maps, which are lists of their entries.
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
    # The lists of one batch. `column` is borrowed, `elements` is owned.
    const Column* column
    const Column* flat          # the column, or its base if it is a dictionary
    const void* offsets
    const void* sizes
    int64_t first               # position of the array's row 0 in offsets
    int64_t width               # LIST_FIXED: number of elements of each list
    int layout                  # ListLayout
    Column* elements


cdef int list_layout(const char* format) noexcept nogil
# `layout` is the Arrow schema of the column, `element_type` the type of its elements.
cdef int list_open(
    ListColumn* lists, Column* column, const ArrowSchema* layout, const DataType* element_type, MemoryAccount* account,
) except -1 nogil
cdef void list_close(ListColumn* lists) noexcept nogil
# Returns the length of row i and sets start[0] to the position of its first element in `elements`. A null list has
# length 0. Returns -1 if the array names elements that do not exist.
cdef int64_t list_at(const ListColumn* lists, int64_t i, int64_t* start) noexcept nogil
