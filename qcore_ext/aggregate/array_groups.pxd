"""Array groups: the groups of keys with few possible values, looked up in an array without hashing or comparing.

They stand in front of a group table. Each value of a key column has a number: its distance from the smallest value
seen, plus one; a null has 0. A string has a number only if it has at most one byte. The numbers of a row's columns are
combined into one code, the index into an array of groups. The array is disabled when the values of a column span too
wide a range.

With several columns the array has at most 64K codes and is filled from the group table's answers. A lone integer key is
known from its code, so that the group table needs no slots: the array has all groups, and as many codes as its owner
allows.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

cdef enum:
    DIRECT_COLUMNS_MAX = 4


cdef enum ArrayAnswer:
    ARRAY_TOO_LARGE = 0         # there are more than codes_max codes: the array is disabled
    ARRAY_EMPTY = 1             # no code has a group: the caller fills the array
    ARRAY_KEPT = 2              # the codes that the array had before have their groups


ctypedef struct DirectField:
    uint8_t phys
    bint seen                   # a value that is not null was seen; then low and high are set
    int64_t low                 # values low..high have numbers 1..high - low + 1
    int64_t high
    uint32_t stride


ctypedef struct ArrayGroups:
    MemoryAccount* account      # borrowed
    bint enabled
    bint is_lone                # one column of integers: a code stands for one key
    bint coded                  # `codes` are those of the vector of the last array_groups_find
    int32_t n_columns
    DirectField fields[DIRECT_COLUMNS_MAX]
    int64_t n_codes
    int64_t n_rebuilds
    Buffer* groups              # owned; the group (uint32) of each code; all ones if it is not known
    Buffer* codes               # owned; the code (uint32) of each row of the vector


cdef ArrayGroups* array_groups_new(MemoryAccount* account, const DataType* types, int32_t n_columns) except NULL nogil
cdef void array_groups_free(ArrayGroups* direct) noexcept nogil          # NULL is ignored
cdef void array_groups_clear(ArrayGroups* direct) noexcept nogil
# For a lone key: make `groups` for the codes of the vector's values and of those seen before.
cdef ArrayAnswer array_groups_extend(
    ArrayGroups* direct, const Vector* keys, int64_t n, int64_t codes_max,
) except <ArrayAnswer> -1 nogil
# For a lone key: extend the range of values that array_groups_extend begins with.
cdef void array_groups_see(ArrayGroups* direct, const Vector* keys, int64_t n) noexcept nogil
# Compute the codes of the rows. Returns False if a value is outside the known ranges.
cdef bint array_groups_encode(ArrayGroups* direct, const Vector* keys, int64_t n) noexcept nogil
# Returns True if the groups of all n rows were known. Otherwise the contents of `groups` are undefined.
cdef bint array_groups_find(ArrayGroups* direct, const Vector* keys, int64_t n, uint32_t* groups) noexcept nogil
# The same for the rows of the bitmap `bits`. Other rows may have any key; their groups are numbers of groups.
cdef bint array_groups_find_some(
    ArrayGroups* direct, const Vector* keys, int64_t n, const uint8_t* bits, uint32_t* groups,
) noexcept nogil
# Store the groups of the vector for which array_groups_find has just returned False.
cdef int array_groups_learn(
    ArrayGroups* direct, const Vector* keys, int64_t n, const uint32_t* groups,
) except -1 nogil
