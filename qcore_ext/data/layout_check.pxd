"""What an Arrow type from outside says of itself, checked before anything follows its pointers."""

from qcore_ext.ground.arrow_abi cimport ArrowSchema

cdef enum:
    LEVELS_MAX = 64         # deeper nesting is refused: what walks types calls itself

# What is wrong with a type, or NULL.
cdef const char* layout_fault(const ArrowSchema* layout) noexcept nogil
