"""Comparison of probe keys and build keys with equal hashes."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Column, Vector

# Clear equal[j] unless row at[j] of the vector equals row rows[j] of the flat column. Nulls are ignored. NaN equals
# NaN.
cdef void keys_compare(
    const Vector* vector, const Column* column, const uint32_t* at, const uint32_t* rows, int64_t n, uint8_t* equal,
) noexcept nogil
# Whether the row `at` of all vectors equals the row `row` of all key columns.
cdef bint keys_equal(
    const Vector* vectors, Column** columns, const int32_t* key_columns, int32_t n_keys, uint32_t at, uint32_t row,
) noexcept nogil
# Whether two rows of flat canonical key columns are equal.
cdef bint rows_equal(
    Column** columns, const int32_t* key_columns, int32_t n_keys, uint32_t row, uint32_t other,
) noexcept nogil
