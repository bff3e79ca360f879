"""Moving values by position: gather and scatter, with a loop for each width."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS
from qcore_ext.ground.bitmap cimport bit_clear, bit_get
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.prefetch cimport PREFETCH_ROWS, qc_prefetch_write
from qcore_ext.ground.words cimport Word, Word128


cdef inline bint is_width(int width) noexcept nogil:
    return width == 0 or width == 1 or width == 2 or width == 4 or width == 8 or width == 16


cdef void gather_width(
    const void* values, int64_t n_values, int width, const uint32_t* rows, int64_t n, void* out,
) noexcept nogil:
    qc_check(is_width(width), b"a value's width is that of a physical type")
    qc_check_rows(rows, n, n_values, b"a row to gather is one of the values")
    if width > 0:
        simd_kernels().gather[log2_of(width)](values, rows, n, out)


cdef inline int log2_of(int width) noexcept nogil:
    return 4 if width == 16 else width >> 1 if width < 8 else 3


cdef void gather_validity(
    const uint8_t* validity, int64_t n_values, const uint32_t* rows, int64_t n, uint8_t* out,
) noexcept nogil:
    cdef int64_t i
    qc_check(0 <= n <= VECTOR_ROWS, b"the validity of at most a vector of rows is gathered at a time")
    qc_check_rows(rows, n, n_values, b"a row to gather is one of the values")
    memset(out, 0xFF, VECTOR_BITMAP_BYTES)
    for i in range(n):
        if not bit_get(validity, rows[i]):
            bit_clear(out, i)


cdef void scatter(const Word* values, const uint32_t* positions, int64_t n, Word* out) noexcept nogil:
    cdef int64_t i
    cdef int64_t ahead = max(n - PREFETCH_ROWS, <int64_t> 0)
    # Rows of 256 partitions go to 256 open cache lines for each column, more than the first-level cache holds.
    for i in range(ahead):
        qc_prefetch_write(&out[positions[i + PREFETCH_ROWS]])
        out[positions[i]] = values[i]
    for i in range(ahead, n):
        out[positions[i]] = values[i]


cdef void scatter_width(
    const void* values, int width, const uint32_t* positions, int64_t n, void* out, int64_t n_values,
) noexcept nogil:
    qc_check(is_width(width), b"a value's width is that of a physical type")
    qc_check_rows(positions, n, n_values, b"a position to scatter to is one of the values")
    if width == 8:
        scatter[uint64_t](<const uint64_t*> values, positions, n, <uint64_t*> out)
    elif width == 4:
        scatter[uint32_t](<const uint32_t*> values, positions, n, <uint32_t*> out)
    elif width == 16:
        scatter[Word128](<const Word128*> values, positions, n, <Word128*> out)
    elif width == 2:
        scatter[uint16_t](<const uint16_t*> values, positions, n, <uint16_t*> out)
    elif width == 1:
        scatter[uint8_t](<const uint8_t*> values, positions, n, <uint8_t*> out)
