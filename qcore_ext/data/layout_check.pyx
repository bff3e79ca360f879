"""Checks of an Arrow type from outside. They are made before its pointers are followed."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport atoi
from libc.string cimport strlen, strncmp

from qcore_ext.data.text_check cimport is_utf8
from qcore_ext.ground.arrow_abi cimport ArrowSchema

cdef enum:
    FIELDS_MAX = 1000000        # of one struct


cdef const char* level_fault(const ArrowSchema* layout, int level) noexcept nogil:
    cdef const char* fault
    cdef int64_t i
    if level > LEVELS_MAX:
        return b"it is nested too deeply"
    if layout.format == NULL:
        return b"it has no format"
    if layout.n_children < 0 or layout.n_children > FIELDS_MAX or (layout.n_children > 0 and layout.children == NULL):
        return b"it has an impossible number of children"
    if layout.name != NULL and not is_utf8(<const uint8_t*> layout.name, strlen(layout.name)):
        return b"it has a name that is not UTF-8"
    if strncmp(layout.format, b"+w", 2) == 0 and (layout.format[2] != c":" or atoi(layout.format + 3) < 0):
        return b"its fixed-size lists have no length or a negative length"
    for i in range(layout.n_children):
        if layout.children[i] == NULL:
            return b"it has an impossible number of children"
        fault = level_fault(layout.children[i], level + 1)
        if fault != NULL:
            return fault
    if layout.dictionary != NULL:
        return level_fault(layout.dictionary, level + 1)
    return NULL


cdef const char* layout_fault(const ArrowSchema* layout) noexcept nogil:
    return level_fault(layout, 0)
