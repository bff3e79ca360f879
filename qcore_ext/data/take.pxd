"""Moving values by position: gather reads from positions, scatter writes to positions.

Each function chooses its loop once by the width of a value: 1, 2, 4, 8 or 16 bytes. For width 0, that of the null type,
it moves nothing. Debug builds check every position against the number of values (`n_values`).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

# out[i] = values[rows[i]] for i in 0..n. NO_ROW is not allowed.
cdef void gather_width(
    const void* values,         # IN, n_values
    int64_t n_values,
    int width,                  # bytes of a value
    const uint32_t* rows,       # IN
    int64_t n,
    void* out,                  # OUT, n values
) noexcept nogil
# Bits rows[0..n) of `validity`, which has n_values bits, in `out` (VECTOR_BITMAP_BYTES); n <= VECTOR_ROWS.
cdef void gather_validity(
    const uint8_t* validity, int64_t n_values, const uint32_t* rows, int64_t n, uint8_t* out,
) noexcept nogil
# out[positions[i]] = values[i] for i in 0..n.
cdef void scatter_width(
    const void* values,         # IN
    int width,                  # bytes of a value
    const uint32_t* positions,  # IN
    int64_t n,
    void* out,                  # OUT, n_values
    int64_t n_values,
) noexcept nogil
