"""Checks of an Arrow type from outside, made before its pointers are followed."""

from qcore_ext.ground.arrow_abi cimport ArrowSchema

cdef enum:
    LEVELS_MAX = 64         # deeper nesting is an error: functions that walk types are recursive

# What is wrong with a type, or NULL.
cdef const char* layout_fault(const ArrowSchema* layout) noexcept nogil
