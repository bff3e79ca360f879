"""Groups of keys with few possible values, looked up in an array: no hash, no comparison.

A shortcut in front of a group table. Each key column's values are counted from the least seen (a null is 0; a string
counts when it has at most one byte), and the columns' numbers are combined into one index of an array of groups. It
learns from what the table behind it answered, and gives up when the values spread over too wide a range.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

cdef enum:
    DIRECT_COLUMNS_MAX = 4


ctypedef struct DirectField:
    uint8_t phys
    bint seen                   # a value that is not null; then low, high are set
    int64_t low                 # values low..high have numbers 1..high - low + 1
    int64_t high
    uint32_t stride


ctypedef struct ArrayGroups:
    MemoryAccount* account      # borrowed
    bint enabled
    bint coded                  # `codes` are those of the vector last looked for
    int32_t n_columns
    DirectField fields[DIRECT_COLUMNS_MAX]
    int64_t n_codes
    int64_t n_rebuilds
    Buffer* groups              # owned; uint32 group by code; all ones: not known
    Buffer* codes               # owned; uint32 a row of the vector


cdef ArrayGroups* array_groups_new(MemoryAccount* account, const DataType* types, int32_t n_columns) except NULL nogil
cdef void array_groups_free(ArrayGroups* direct) noexcept nogil          # NULL is ignored
cdef void array_groups_clear(ArrayGroups* direct) noexcept nogil
# True when all n rows' groups were known; else `groups` holds rubbish.
cdef bint array_groups_find(ArrayGroups* direct, const Vector* keys, int64_t n, uint32_t* groups) noexcept nogil
# Remember the groups of the vector that was just looked for in vain.
cdef int array_groups_learn(
    ArrayGroups* direct, const Vector* keys, int64_t n, const uint32_t* groups,
) except -1 nogil
