"""128-bit integers; native/wide.h documents each."""

from libc.stdint cimport int64_t, uint8_t


cdef extern from "native/wide.h" nogil:
    # Cython only needs to know that it is an integer; the C compiler knows its size.
    ctypedef long long int128 "QcWide"
    ctypedef unsigned long long uint128 "QcWideUnsigned"

    int128 wide_power_of_ten(int digits)
    int wide_apply(int op, int128 a, int128 b, int128 limit, int128* out)
    int wide_arithmetic(
        int op, const int128* a, int64_t step_a, const int128* b, int64_t step_b, int128 limit, int128* out, int64_t n,
    )
    int wide_product(
        const int64_t* a, int64_t step_a, const int64_t* b, int64_t step_b, int128 limit, int128* out, int64_t n,
    )
    void wide_compare(
        int op, const int128* a, int64_t step_a, const int128* b, int64_t step_b, uint8_t* out, int64_t n,
    )
    int128 wide_divide_rounded(int128 value, int128 divisor)
    double wide_to_double(int128 value)
    int128 wide_from_double(double value)
    int wide_to_text(int128 value, int scale, char* text)
