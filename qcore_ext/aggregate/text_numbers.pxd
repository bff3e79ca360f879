"""Text numbers: rows are grouped by the numbers of their texts instead of by the texts.

A key of several columns with a text that does not fit a word costs each row a hash, a comparison and, where rows are
partitioned, a copy of all its texts. Most such columns have few values. So each text column has a group table of its
own, where a lone text is found by one loop (rows/known_texts), and the number of the text is the key: 4 bytes, which
pack into a word, index an array and are partitioned as any integer. Texts come back when groups are returned, as index
vectors over the texts of the column. With 1M groups by two texts of 25 bytes, 1,000 values each, a row took 128 ns
before and takes 50 to 54 now.

The owner begins with numbers when the texts of the first rows do not fit a word, and gives them up for ever if a column
has nearly as many texts as there are groups: then to find its text costs as much as to find the group.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.aggregate.call_input cimport AggregateInput
from qcore_ext.aggregate.group_table cimport GroupTable


ctypedef struct TextNumbers:
    # Owned by one operator. Numbers never change while it lives.
    MemoryAccount* account      # borrowed
    int32_t n_keys
    DataType* types             # owned; of the owner's vectors, with numbers in the place of texts
    GroupTable** tables         # owned; the texts of each key column; NULL: the column is no text
    Column** texts              # owned; the texts of a column when groups were last returned, or NULL
    Buffer* numbers             # owned; VECTOR_ROWS numbers a key column
    Buffer* scratch             # owned; the tables share it
    int64_t n_returned          # groups that the owner had before those that it has now


# Whether keys of these types have texts to number: beside another key, and no text that is an argument of a call too.
# `inputs` may be NULL.
cdef bint text_numbers_suit(
    const DataType* types, int32_t n_keys, const AggregateInput* inputs, int32_t n_inputs,
) noexcept nogil
# The numbers of the texts of a table with stored keys. `types` are those of all vectors of the owner, the keys first.
# `out` is NULL if a column has too many texts for the groups (text_numbers_are_many).
cdef int text_numbers_of(
    const GroupTable* table, const DataType* types, int32_t n_vectors,
    TextNumbers** out,          # OUT, owned by the caller
) except -1 nogil
cdef void text_numbers_free(TextNumbers* numbers) noexcept nogil       # NULL is ignored
# Replace the vectors of texts by vectors of their numbers, which last until the next call. n <= VECTOR_ROWS.
cdef int text_numbers_put(TextNumbers* numbers, Vector* vectors, int64_t n) except -1 nogil
# Whether a column has so many texts that numbers cost more than they save. The owner has n_groups groups of n_rows rows
# now.
cdef bint text_numbers_are_many(const TextNumbers* numbers, int64_t n_groups, int64_t n_rows) noexcept nogil
# Replace key columns of numbers by columns of their texts.
cdef int text_numbers_columns(TextNumbers* numbers, Column** columns) except -1 nogil
