"""Navigation functions: the value of another row of the window. lag, lead, first_value, last_value, nth_value."""

from libc.stdint cimport uint8_t, uint32_t

from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows
from qcore_ext.window.partition_rows cimport Numbers, PartitionRows

cdef enum:
    LAG = 10
    LEAD = 11
    FIRST_VALUE = 12
    LAST_VALUE = 13
    NTH_VALUE = 14

# LAG and LEAD: set indices[i] to the row that is its number of rows before or after position i in its partition, or to
# NO_ROW. A row without a number has NO_ROW.
cdef int find_rows_beside(
    const PartitionRows* window, int kind, const Numbers* numbers, uint32_t* indices, const MemoryAccount* account,
) except -1 nogil
# The other functions: the first, the last or the number-th row of the frame, or NO_ROW.
cdef int find_rows_of_frames(
    const FrameRows* frames, int kind, const Numbers* numbers, uint32_t* indices, const MemoryAccount* account,
) except -1 nogil
# The same among the rows whose value is not null. LAG and LEAD do not read `frames`, and a number of 0 is the row
# itself.
cdef int find_rows_with_values(
    const PartitionRows* window, const FrameRows* frames, int kind, const Numbers* numbers, const uint8_t* validity,
    uint32_t* indices, MemoryAccount* account,
) except -1 nogil
