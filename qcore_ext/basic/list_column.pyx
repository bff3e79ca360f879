"""The elements of each row of a list column."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport atoi
from libc.string cimport memset, strcmp, strncmp

from qcore_ext.data.capsule cimport column_import
from qcore_ext.data.column cimport CONSTANT, DICTIONARY, Column, column_unref
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.ground.status cimport raise_execution


cdef int list_layout(const char* format) noexcept nogil:
    if strcmp(format, b"+l") == 0 or strcmp(format, b"+m") == 0:
        return LIST_OFFSETS
    if strcmp(format, b"+L") == 0:
        return LIST_LARGE_OFFSETS
    if strcmp(format, b"+vl") == 0:
        return LIST_VIEW
    if strcmp(format, b"+vL") == 0:
        return LIST_LARGE_VIEW
    if strncmp(format, b"+w:", 3) == 0:
        return LIST_FIXED
    return LIST_NONE


cdef int list_open(
    ListColumn* lists, Column* column, const ArrowSchema* layout, const DataType* element_type, MemoryAccount* account,
) except -1 nogil:
    cdef const ArrowArray* array
    cdef int n_buffers = 2
    memset(lists, 0, sizeof(ListColumn))
    lists.column = column
    lists.flat = column.base if column.encoding == DICTIONARY else column
    if lists.flat.values_owner == NULL:
        return 0                # all rows are null
    array = <const ArrowArray*> lists.flat.values
    lists.layout = list_layout(layout.format)
    if lists.layout == LIST_FIXED:
        lists.width = atoi(layout.format + 3)
        n_buffers = 1
    elif lists.layout == LIST_VIEW or lists.layout == LIST_LARGE_VIEW:
        n_buffers = 3
    if array.n_children != 1 or array.n_buffers < n_buffers:
        return raise_execution(b"an Arrow list array has fewer buffers than its type needs; its producer is broken")
    lists.first = array.offset + lists.flat.offset
    if n_buffers > 1:
        lists.offsets = array.buffers[1]
    if n_buffers > 2:
        lists.sizes = array.buffers[2]
    lists.elements = column_import(
        array.children[0], layout.children[0], element_type, lists.flat.values_owner, account
    )
    return 0


cdef void list_close(ListColumn* lists) noexcept nogil:
    column_unref(lists.elements)
    lists.elements = NULL


cdef int64_t list_at(const ListColumn* lists, int64_t i, int64_t* start) noexcept nogil:
    cdef const Column* column = lists.column
    cdef int64_t at = i
    cdef int64_t length
    if lists.elements == NULL:
        return 0
    qc_check(i >= 0 and i < column.n_rows, b"a list is a row of its column")
    if column.encoding == DICTIONARY:
        if not is_valid(column.validity, i):
            return 0
        at = column.indices[i]
        qc_check(at < column.base.n_rows, b"a dictionary's indices are rows of its base")
    if lists.flat.encoding == CONSTANT:
        at = 0
    if not is_valid(lists.flat.validity, at):
        return 0
    at += lists.first
    if lists.layout == LIST_OFFSETS:
        start[0] = (<const int32_t*> lists.offsets)[at]
        length = (<const int32_t*> lists.offsets)[at + 1] - start[0]
    elif lists.layout == LIST_LARGE_OFFSETS:
        start[0] = (<const int64_t*> lists.offsets)[at]
        length = (<const int64_t*> lists.offsets)[at + 1] - start[0]
    elif lists.layout == LIST_VIEW:
        start[0] = (<const int32_t*> lists.offsets)[at]
        length = (<const int32_t*> lists.sizes)[at]
    elif lists.layout == LIST_LARGE_VIEW:
        start[0] = (<const int64_t*> lists.offsets)[at]
        length = (<const int64_t*> lists.sizes)[at]
    else:
        start[0] = at * lists.width
        length = lists.width
    if length < 0 or start[0] < 0 or start[0] + length > lists.elements.n_rows:
        return -1
    return length
