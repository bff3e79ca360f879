"""Values of every group kept until the last row has come: for aggregates of lists, of text and of ranks.

Rows are (group, order keys, value) in growing columns; once all are there, one sort puts each group's values side by
side and in their order.
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
    # Zero-initialised, then collected_init. Belongs to one operator.
    MemoryAccount* account      # borrowed
    const CallCollection* call  # borrowed
    const CallInput* input      # borrowed
    KeyColumns* rows            # owned; group, keys, value
    Buffer* order               # owned; uint32 a row: rows by group, in their order; once finished
    Buffer* begins              # owned; int64 a group and one more: where its rows begin
    Column* values              # owned; the values of all rows, once finished; NULL without rows
    Buffer* numbers             # owned; of the most frequent value: value_numbers of all rows


# `types` of all that is loaded.
cdef int collected_init(
    HolisticValues* self, MemoryAccount* account, const CallCollection* call, const CallInput* input,
    const DataType* types,
) except -1 nogil
cdef void collected_free(HolisticValues* self) noexcept nogil
cdef int collected_clear(HolisticValues* self) except -1 nogil
# n <= VECTOR_ROWS rows of all loaded vectors; groups NULL: all are of group 0; mask NULL: every row takes part.
cdef int collected_append(
    HolisticValues* self, const Vector* loaded, const uint32_t* groups, int64_t n, const uint8_t* mask,
) except -1 nogil
# No more rows come: sort them.
cdef int collected_finish(HolisticValues* self, int64_t n_groups) except -1 nogil
# The results of n groups from start: field `field` of `schema`.
cdef Column* collected_column(
    HolisticValues* self, CSchema* schema, int field, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil

# Lists of the column's rows `rows` (uint32, n_rows): list i has those from ends[i] to ends[i + 1]; an empty one is
# null.
cdef Column* list_of_rows(
    Column* values, Buffer* rows, int64_t n_rows, const int32_t* ends, int64_t n, CSchema* schema, int field,
    MemoryAccount* account,
) except NULL nogil


# string_agg of n rows of a column of strings, into `out`, which is zeroed; ExecutionError past TEXT_BYTES_MAX.
cdef int text_of_rows(
    const StringView* views, const uint32_t* rows, int64_t n, const CallCollection* call, Arena* arena,
    StringView* out, const MemoryAccount* account,
) except -1 nogil
cdef int raise_text_too_long() except -1 nogil


cdef inline double point_between(double low, double high, double share) noexcept nogil:
    # Equal infinities have no difference.
    return low if low == high or share <= 0 else low + (high - low) * share
