"""Holistic aggregates: lists, text and ranks. They keep the values of each group until the last row.

The rows (group, order keys, value) are kept in growing columns. After the last row one sort brings the values of each
group together, in their order.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.calls cimport CallCollection, CallInput
from qcore_ext.data.column cimport Column, StringView, Vector
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount
from qcore_ext.rows.key_columns cimport KeyColumns


cdef enum:
    TEXT_BYTES_MAX = 0x7FFFFFFF


ctypedef struct HolisticValues:
    # Zeroed, then initialised by holistic_init. Belongs to one operator.
    MemoryAccount* account      # borrowed
    const CallCollection* call  # borrowed
    const CallInput* input      # borrowed
    KeyColumns* rows            # owned; columns: group, order keys, value
    # Set by holistic_finish:
    Buffer* order               # owned; the rows (uint32) by group, and in order within a group
    Buffer* begins              # owned; int64, n_groups + 1: the position in `order` where each group begins
    Column* values              # owned; the values of all rows; NULL if there are none
    Buffer* numbers             # owned; for COLLECT_MODE: value_numbers of all rows; NULL before the first result


# `types` are the types of all loaded vectors.
cdef int holistic_init(
    HolisticValues* self, MemoryAccount* account, const CallCollection* call, const CallInput* input,
    const DataType* types,
) except -1 nogil
cdef void holistic_free(HolisticValues* self) noexcept nogil
cdef int holistic_clear(HolisticValues* self) except -1 nogil
# Append n <= VECTOR_ROWS rows of the loaded vectors. If groups is NULL all rows belong to group 0. If mask is NULL all
# rows take part.
cdef int holistic_append(
    HolisticValues* self, const Vector* loaded, const uint32_t* groups, int64_t n, const uint8_t* mask,
) except -1 nogil
# Sort the rows, after the last one was appended.
cdef int holistic_finish(HolisticValues* self, int64_t n_groups) except -1 nogil
# The results of n groups from start, as field `field` of `schema`.
cdef Column* holistic_column(
    HolisticValues* self, CSchema* schema, int field, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil

# Lists of values of a column. List i has the values of the rows rows[ends[i]..ends[i + 1]). `rows` has n_rows uint32.
# An empty list is null.
cdef Column* list_of_rows(
    Column* values, Buffer* rows, int64_t n_rows, const int32_t* ends, int64_t n, CSchema* schema, int field,
    MemoryAccount* account,
) except NULL nogil


# Write the strings of n rows, joined by the call's separator, to `out`, which must be zeroed. Raises ExecutionError
# above TEXT_BYTES_MAX bytes.
cdef int text_of_rows(
    const StringView* views, const uint32_t* rows, int64_t n, const CallCollection* call, Arena* arena,
    StringView* out, const MemoryAccount* account,
) except -1 nogil
cdef int raise_text_too_long() except -1 nogil


# The point between low and high at the given share of the distance.
cdef inline double point_between(double low, double high, double share) noexcept nogil:
    # The difference of equal infinities is NaN.
    return low if low == high or share <= 0 else low + (high - low) * share
