"""Exact conversions of values between two types that widen into one type.

A key may have another type than the one that a table or an exchange was made for. A value of the other type
is equal to exactly one value of this type, or to none. The loops go row by row, because only schemas that have changed
need them.
"""

from libc.stdint cimport int64_t, uint8_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.wide cimport int128

cdef enum:
    EXACT_NOTHING = 0           # a type that does not widen into another
    EXACT_NUMBER = 1            # integers and decimals: an integer divided by a power of ten
    EXACT_REAL = 2              # floats
    EXACT_TIME = 3              # dates, times, timestamps and durations: nanoseconds

# The kind of a type's values.
cdef int exact_kind(const DataType* type) noexcept nogil
# Value i of a vector of integers, decimals or times, as the stored integer.
cdef int128 exact_whole(const Vector* vector, int64_t i) noexcept nogil
# The nanoseconds of one unit of a type of times. The unit of a date is a day.
cdef int64_t exact_tick(const DataType* type) noexcept nogil
# Convert the unscaled value of a decimal from one scale to another. Returns False if the result is not exact or has
# more than 38 digits.
cdef bint exact_rescale(int128 value, int from_scale, int to_scale, int128* out) noexcept nogil
# Convert n <= VECTOR_ROWS canonical values of type `given` to type `wanted`. `values` takes 16 bytes a value. fits[i]
# is 1 if the value is null or its conversion is exact, otherwise 0. The caller must refuse types that do not widen into
# one.
cdef void exact_vector(
    const Vector* vector, const DataType* given, const DataType* wanted, int64_t n,
    char* values,               # OUT
    uint8_t* fits,              # OUT
    Vector* out,
) noexcept nogil
