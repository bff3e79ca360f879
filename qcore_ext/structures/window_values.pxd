"""Which row's value a window function of another row takes: LAG, LEAD, FIRST_VALUE and the like. Floor E3."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.structures.window_rows cimport WindowRows

cdef enum:
    NO_ROW = 0xFFFFFFFF         # as an index: a null row
    LAG = 10
    LEAD = 11
    FIRST_VALUE = 12
    LAST_VALUE = 13
    NTH_VALUE = 14

# One row number a row, in the window's order. `number`: the distance of LAG and LEAD, which of NTH_VALUE; lo and hi:
# the rows' frames, not read for LAG and LEAD.
cdef int value_rows(
    const WindowRows* rows, int kind, int64_t number, const uint32_t* lo, const uint32_t* hi, uint32_t* out,
    const MemoryAccount* account,
) except -1 nogil
# The same, passing over the rows whose bit in `validity` (by row number) is clear; LAG and LEAD read lo and hi too, as
# their partitions' bounds.
cdef int valid_value_rows(
    const WindowRows* rows, int kind, int64_t number, const uint32_t* lo, const uint32_t* hi, const uint8_t* validity,
    uint32_t* out, MemoryAccount* account,
) except -1 nogil
