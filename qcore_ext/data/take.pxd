"""Moving values by position: gather reads from positions, scatter writes runs of rows to positions.

Each function chooses its loop once by the width of a value: 1, 2, 4, 8 or 16 bytes. For width 0, that of the null type,
it moves nothing. Debug builds check every position against the number of values (`n_values`).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

# The position of a kernel for this width in a list of kernels.
cdef inline int log2_of(int width) noexcept nogil:
    return 4 if width == 16 else width >> 1 if width < 8 else 3

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
# The values of rows[ends[r - 1]..ends[r]) to out[r], for n_runs runs; ends[-1] is 0. Each run is written from its first
# row to its last, because a processor finds few pages at once for its writes. Two columns of 8 bytes to 256 runs took
# 10 to 12 ns a row with all steps if rows were written in their order, with later ones fetched ahead; in runs 7 to 10.
cdef void scatter_runs(
    const void* values,         # IN, n_values
    int64_t n_values,
    int width,                  # bytes of a value
    const uint32_t* rows,       # IN
    const uint32_t* ends,       # IN, ascending
    int64_t n_runs,
    char** out,                 # IN, where each run is written
) noexcept nogil
