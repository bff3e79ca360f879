"""Slot values: the columns of a join table's rows in the slots of its index, instead of the numbers of the rows.

If no key occurs twice and all columns but the keys fit 8 bytes, a slot has room for them. A probe then reads one cache
line a row, and not another one for the row's columns: 20M probe rows with 1M keys take 0.7 of the time. The columns
stand next to each other in a slot's value, the first one in its lowest bits. The table does not keep them elsewhere.
"""

from libc.stdint cimport int64_t, uint64_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.join.table cimport JoinLookup, JoinTable

# Whether the table's columns fit slots, and a sample of its keys has none twice. Sets table.value_shifts if they fit.
# The table's coder must be complete. The lookup is scratch, opened for the keys.
cdef bint slot_values_suit(
    JoinTable* table, Column** keys, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil
# The slot values of n <= VECTOR_ROWS rows from `start` on.
cdef int slot_values_pack(
    const JoinTable* table, int64_t start, int64_t n,
    uint64_t* out,
) except -1 nogil
# The values of a column of `width` bytes, less than 8, whose first bit in slot values is `shift`.
cdef void slot_values_unpack(
    const uint64_t* values, int64_t n, int shift, int width,
    void* out,
) noexcept nogil
# Release the columns that are in the slots.
cdef void slot_values_drop_columns(JoinTable* table) noexcept nogil
