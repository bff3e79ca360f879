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
# row to its last. One row after the other, 256 parts at a time, each write missed the processor's first table of pages:
# two columns of 8 bytes took 16 ns a row with all steps, in runs 7.
cdef void scatter_runs(
    const void* values,         # IN, n_values
    int64_t n_values,
    int width,                  # bytes of a value
    const uint32_t* rows,       # IN
    const uint32_t* ends,       # IN, ascending
    int64_t n_runs,
    char** out,                 # IN, where each run is written
) noexcept nogil
