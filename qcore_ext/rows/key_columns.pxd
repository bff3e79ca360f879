"""Key columns kept row by group in growing arrays: the keys of a group table that do not pack into words."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount


ctypedef struct StoredColumn:
    DataType type
    int width
    Buffer* values              # owned; canonical
    Buffer* nulls               # owned; one byte a row, 1: null (its value is zero)


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
# Append rows[0..n) of the vectors, or all n rows when rows is NULL. Strings are copied.
cdef int key_columns_append(KeyColumns* keys, const Vector* vectors, const uint32_t* rows, int64_t n) except -1 nogil
# equal[i]: does row rows[i] of the vectors equal stored row stored[i]? Nulls equal nulls, NaN equals NaN.
cdef void key_columns_compare(
    const KeyColumns* keys, const Vector* vectors, const uint32_t* rows, const uint32_t* stored, int64_t n,
    uint8_t* equal,             # OUT
) noexcept nogil
# Rows start..start+n of one column; `validity` (room for n bits) is written and points into the result.
cdef void key_columns_vector(
    const KeyColumns* keys, int32_t column, int64_t start, int64_t n, uint8_t* validity, Vector* out,
) noexcept nogil
# A flat column of n stored rows from start; n at most what fits 32 bits.
cdef Column* key_columns_column(
    const KeyColumns* keys, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil
