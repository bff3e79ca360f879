"""Moving values by position: gather and scatter, with a loop for each width."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memset

from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS
from qcore_ext.ground.bitmap cimport bitmap_bytes, qc_gather_bits
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.dispatch cimport simd_kernels


cdef inline bint is_width(int width) noexcept nogil:
    return width == 0 or width == 1 or width == 2 or width == 4 or width == 8 or width == 16


cdef void gather_width(
    const void* values, int64_t n_values, int width, const uint32_t* rows, int64_t n, void* out,
) noexcept nogil:
    qc_check(is_width(width), b"a value's width is that of a physical type")
    qc_check_rows(rows, n, n_values, b"a row to gather is one of the values")
    if width > 0:
        simd_kernels().gather[log2_of(width)](values, rows, n, out)


cdef void gather_validity(
    const uint8_t* validity, int64_t n_values, const uint32_t* rows, int64_t n, uint8_t* out,
) noexcept nogil:
    cdef int64_t n_bytes = bitmap_bytes(n)
    qc_check(0 <= n <= VECTOR_ROWS, b"the validity of at most a vector of rows is gathered at a time")
    qc_check_rows(rows, n, n_values, b"a row to gather is one of the values")
    qc_gather_bits(validity, rows, n, out)
    memset(out + n_bytes, 0xFF, VECTOR_BITMAP_BYTES - n_bytes)


cdef void scatter_runs(
    const void* values, int64_t n_values, int width, const uint32_t* rows, const uint32_t* ends, int64_t n_runs,
    char** out,
) noexcept nogil:
    qc_check(is_width(width), b"a value's width is that of a physical type")
    if n_runs > 0:
        qc_check_rows(rows, ends[n_runs - 1], n_values, b"a row to scatter is one of the values")
    if width > 0:
        simd_kernels().scatter_runs[log2_of(width)](values, rows, ends, n_runs, out)
