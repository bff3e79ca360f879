"""Values of one type as values of another that the widening lattice puts beside it, where they are exact.

For keys whose type differs from what a table or an exchange was made for (SPEC D6): a value of the other type is either
one of this type's or equal to none of them. Row by row: only schemas that changed in mid-stream come here.
"""

from libc.stdint cimport int64_t, uint8_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.wide cimport int128

cdef enum:
    EXACT_NOTHING = 0           # not a type that widens into others: values are compared as they are
    EXACT_NUMBER = 1            # integers and decimals: an integer over a power of ten
    EXACT_REAL = 2
    EXACT_TIME = 3              # dates, times, timestamps, durations: nanoseconds

# What kind of values a type has.
cdef int exact_kind(const DataType* type) noexcept nogil
# Value i of a vector of integers, decimals or times, as it lies there.
cdef int128 exact_whole(const Vector* vector, int64_t i) noexcept nogil
# Nanoseconds of one unit of a type with a unit; of a date, of a day.
cdef int64_t exact_tick(const DataType* type) noexcept nogil
# The integer over 10 ** to_scale that is `value` over 10 ** from_scale; False when there is none of 38 digits.
cdef bint exact_rescaled(int128 value, int from_scale, int to_scale, int128* out) noexcept nogil
# n <= VECTOR_ROWS canonical values of type `given` as such of type `wanted`, in `room` (16 bytes a value): fits[i] is 1
# where a value is exact or null, else 0. Types that data.widening does not put together are the caller's to refuse.
cdef void exact_vector(
    const Vector* vector, const DataType* given, const DataType* wanted, int64_t n,
    char* room,                 # OUT
    uint8_t* fits,              # OUT
    Vector* out,
) noexcept nogil
