"""Comparison of probe keys with build keys whose hashes are equal."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Column, Vector

# equal[j] &= row at[j] of the vector equals row rows[j] of the flat column. Nulls are not looked at; NaN equals NaN.
cdef void keys_compare(
    const Vector* vector, const Column* column, const uint32_t* at, const uint32_t* rows, int64_t n, uint8_t* equal,
) noexcept nogil
# One row of all vectors against one row of all columns.
cdef bint keys_equal(
    const Vector* vectors, Column** columns, const int32_t* key_columns, int32_t n_keys, uint32_t at, uint32_t row,
) noexcept nogil
