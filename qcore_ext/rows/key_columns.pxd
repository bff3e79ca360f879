"""Key columns: rows of keys in growing arrays, one array a column. Row g holds the keys of group g.

A group table uses them for keys that do not pack into words.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount


ctypedef struct StoredColumn:
    DataType type
    int width
    Buffer* values              # owned; canonical
    Buffer* nulls               # owned; one byte a row: 1 if the row is null (its value is then zero)


ctypedef struct KeyColumns:
    MemoryAccount* account      # borrowed
    int32_t n_columns
    StoredColumn* columns
    int64_t n_rows
    int64_t capacity
    Arena* arena                # owned; string bytes


cdef KeyColumns* key_columns_new(MemoryAccount* account, const DataType* types, int32_t n_columns) except NULL nogil
cdef void key_columns_free(KeyColumns* keys) noexcept nogil        # NULL is ignored
cdef int key_columns_reserve(KeyColumns* keys, int64_t n_rows) except -1 nogil
# Append rows[0..n) of the vectors, or rows 0..n if rows is NULL. Strings are copied.
cdef int key_columns_append(KeyColumns* keys, const Vector* vectors, const uint32_t* rows, int64_t n) except -1 nogil
# Set equal[i] to 1 if row rows[i] of the vectors equals row stored[i] of the keys, else to 0. n is at most VECTOR_ROWS.
# Null equals null, and NaN equals NaN.
cdef void key_columns_compare(
    const KeyColumns* keys, const Vector* vectors, const uint32_t* rows, const uint32_t* stored, int64_t n,
    uint8_t* equal,             # OUT
) noexcept nogil
# Rows start..start+n of one column as a vector. `validity` has space for n bits; the call fills it, and out.validity
# points to it if some row is null.
cdef void key_columns_vector(
    const KeyColumns* keys, int32_t column, int64_t start, int64_t n, uint8_t* validity, Vector* out,
) noexcept nogil
# Rows start..start+n of one column as a flat column. n is below 2**32.
cdef Column* key_columns_column(
    const KeyColumns* keys, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil
