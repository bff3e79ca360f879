"""Exact conversions of values between two types that widen into one type."""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memset

from qcore_ext.data.column cimport VECTOR_ROWS, Vector
from qcore_ext.data.schema cimport (
    PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_NONE, PHYS_U8, PHYS_U16, PHYS_U32,
    PHYS_U64, TYPE_DATE32, TYPE_DECIMAL, TYPE_DURATION, TYPE_FLOAT32, TYPE_FLOAT64, TYPE_INT8, TYPE_UINT64, DataType,
    phys_width,
)
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.wide cimport int128, wide_power_of_ten

cdef enum:
    DIGITS_MAX = 38

cdef int64_t DAY_NANOS = 86400000000000
cdef int64_t[4] UNIT_NANOS = [1000000000, 1000000, 1000, 1]
cdef double WHOLE_LIMIT = 9223372036854775808.0     # 2 ** 63


cdef int exact_kind(const DataType* type) noexcept nogil:
    if TYPE_INT8 <= type.id <= TYPE_UINT64 or type.id == TYPE_DECIMAL:
        return EXACT_NUMBER
    if type.id == TYPE_FLOAT32 or type.id == TYPE_FLOAT64:
        return EXACT_REAL
    return EXACT_TIME if TYPE_DATE32 <= type.id <= TYPE_DURATION else EXACT_NOTHING


cdef int64_t exact_tick(const DataType* type) noexcept nogil:
    return DAY_NANOS if type.id == TYPE_DATE32 else UNIT_NANOS[type.unit & 3]


cdef int128 exact_whole(const Vector* vector, int64_t i) noexcept nogil:
    cdef const void* values = vector.values
    if vector.phys == PHYS_I64:
        return (<const int64_t*> values)[i]
    if vector.phys == PHYS_I128:
        return (<const int128*> values)[i]
    if vector.phys == PHYS_I32:
        return (<const int32_t*> values)[i]
    if vector.phys == PHYS_I16:
        return (<const int16_t*> values)[i]
    if vector.phys == PHYS_I8:
        return (<const int8_t*> values)[i]
    if vector.phys == PHYS_U64:
        return <int128> (<const uint64_t*> values)[i]
    if vector.phys == PHYS_U32:
        return (<const uint32_t*> values)[i]
    if vector.phys == PHYS_U16:
        return (<const uint16_t*> values)[i]
    return (<const uint8_t*> values)[i] if vector.phys == PHYS_U8 else 0


cdef bint exact_rescale(int128 value, int from_scale, int to_scale, int128* out) noexcept nogil:
    cdef int digits = to_scale - from_scale
    cdef int128 factor, limit
    out[0] = value
    if digits == 0 or value == 0:
        return True
    if digits > DIGITS_MAX or digits < -DIGITS_MAX:
        return False
    if digits < 0:
        factor = wide_power_of_ten(-digits)
        out[0] = value / factor
        return out[0] * factor == value
    factor = wide_power_of_ten(digits)
    limit = (wide_power_of_ten(DIGITS_MAX) - 1) / factor
    if value > limit or value < -limit:
        return False
    out[0] = value * factor
    return True


cdef bint whole_in(const DataType* type, int128 value) noexcept nogil:
    """Whether a stored integer is a value of a type of integers, decimals or times."""
    cdef int bits = 8 * phys_width(type.phys)
    cdef int128 limit
    if type.id == TYPE_DECIMAL:
        limit = wide_power_of_ten(type.precision)
        return -limit < value < limit
    if PHYS_U8 <= type.phys <= PHYS_U64:
        return value >= 0 and (value >> bits) == 0
    return (value >> (bits - 1)) == 0 or (value >> (bits - 1)) == -1


cdef void store_whole(uint8_t phys, char* values, int64_t i, int128 value) noexcept nogil:
    cdef int width = phys_width(phys)
    if width == 16:
        (<int128*> values)[i] = value
    elif width == 8:
        (<int64_t*> values)[i] = <int64_t> value
    elif width == 4:
        (<int32_t*> values)[i] = <int32_t> value
    elif width == 2:
        (<int16_t*> values)[i] = <int16_t> value
    elif width == 1:
        (<int8_t*> values)[i] = <int8_t> value


cdef double real(const Vector* vector, int64_t i) noexcept nogil:
    return (<const double*> vector.values)[i] if vector.phys == PHYS_F64 else (<const float*> vector.values)[i]


cdef bint store_real(const DataType* type, char* values, int64_t i, double value) noexcept nogil:
    if type.phys == PHYS_F64:
        (<double*> values)[i] = value
        return True
    (<float*> values)[i] = <float> value
    return <double> (<float> value) == value or value != value


cdef bint real_as_whole(double value, int128* out) noexcept nogil:
    """Convert a whole float of up to 64 bits. Returns False for other values, including larger whole floats."""
    if not -WHOLE_LIMIT <= value < WHOLE_LIMIT:
        return False
    out[0] = <int64_t> value
    return <double> <int64_t> value == value


cdef bint whole_of(
    const Vector* vector, const DataType* given, const DataType* wanted, int64_t i,
    int128* out,                # OUT
) noexcept nogil:
    """Convert value i to the stored integer of a type of integers, decimals or times. Returns False if it is not exact.
    """
    cdef int128 value
    cdef int given_scale = given.scale if given.id == TYPE_DECIMAL else 0
    cdef int wanted_scale = wanted.scale if wanted.id == TYPE_DECIMAL else 0
    cdef int128 ticks
    if vector.phys == PHYS_F64 or vector.phys == PHYS_F32:
        if not real_as_whole(real(vector, i), &value):
            return False
        return exact_rescale(value, 0, wanted_scale, out) and whole_in(wanted, out[0])
    value = exact_whole(vector, i)
    if exact_kind(wanted) == EXACT_TIME:
        ticks = value * exact_tick(given)
        out[0] = ticks / exact_tick(wanted)
        return out[0] * exact_tick(wanted) == ticks and whole_in(wanted, out[0])
    return exact_rescale(value, given_scale, wanted_scale, out) and whole_in(wanted, out[0])


cdef bint as_real(
    const Vector* vector, const DataType* wanted, int64_t i, char* values,
) noexcept nogil:
    cdef int128 value
    cdef double nearest
    if vector.phys == PHYS_F64 or vector.phys == PHYS_F32:
        return store_real(wanted, values, i, real(vector, i))
    value = exact_whole(vector, i)
    nearest = <double> value
    return store_real(wanted, values, i, nearest) and <int128> nearest == value


cdef void exact_vector(
    const Vector* vector, const DataType* given, const DataType* wanted, int64_t n,
    char* values,                 # OUT
    uint8_t* fits,              # OUT
    Vector* out,
) noexcept nogil:
    cdef int kind = exact_kind(wanted)
    cdef int128 value
    cdef int64_t i
    qc_check(0 <= n <= VECTOR_ROWS, b"at most a vector of values is converted at a time")
    memset(values, 0, n * 16)
    memset(fits, 1, n)
    out.phys = wanted.phys
    out.values = values
    out.validity = vector.validity
    if vector.phys == PHYS_NONE or wanted.phys == PHYS_NONE:
        # Either all values are null, or null is the only value of the wanted type.
        for i in range(n):
            fits[i] = not is_valid(vector.validity, i)
        return
    for i in range(n):
        if not is_valid(vector.validity, i):
            continue
        if kind == EXACT_REAL:
            fits[i] = as_real(vector, wanted, i, values)
            continue
        fits[i] = whole_of(vector, given, wanted, i, &value)
        if fits[i]:
            store_whole(wanted.phys, values, i, value)
