"""Checks of an Arrow type from outside. They are made before its pointers are followed."""

from qcore_ext.ground.arrow_abi cimport ArrowSchema

cdef enum:
    LEVELS_MAX = 64         # deeper nesting is an error, because functions that walk types are recursive

# The fault of a type, or NULL.
cdef const char* layout_fault(const ArrowSchema* layout) noexcept nogil
