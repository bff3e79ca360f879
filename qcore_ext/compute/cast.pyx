"""Kernels that convert values from one type to another.

Frequent conversions have their own loops: decimals to another scale, integers and decimals to float64, small integers
to int64. Other conversions go row by row through 128 bits.
"""

from libc.math cimport rint, round
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from qcore_ext.compute.calendar cimport Interval, floor_divide, rounded_ticks, units_per_second
from qcore_ext.compute.cast_text cimport from_text_kernel, to_text_kernel
from qcore_ext.compute.kernel cimport (
    STEP_STRICT, EvaluatorFrame, Register, Step, arg, frame_refuse, integer_at, measure, result, store_integer,
)
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_U8, PHYS_U16, PHYS_U32,
    PHYS_U64,
    PHYS_VIEW, TYPE_BOOL, TYPE_DATE32, TYPE_DECIMAL, TYPE_DURATION, TYPE_FLOAT32, TYPE_FLOAT64, TYPE_INT8,
    TYPE_INT64, TYPE_INTERVAL, TYPE_STRING, TYPE_TIME32, TYPE_TIME64, TYPE_TIMESTAMP, TYPE_UUID, DataType,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.simd cimport SIMD_MULTIPLY, SIMD_VS
from qcore_ext.ground.wide cimport (
    int128, wide_divide_rounded, wide_from_double, wide_power_of_ten, wide_to_double,
)
from qcore_ext.ground.words cimport SmallInteger

cdef uint64_t I64_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t DAY_SECONDS = 86400


# --- to integers, booleans and decimals ---

cdef void spread_small(const SmallInteger* a, int64_t* out, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = a[i]


cdef bint small_to_int64(const Register* a, int64_t* out, int64_t n) noexcept nogil:
    """Convert integers of up to 32 bits. Returns False for other types."""
    cdef uint8_t phys = a.phys
    if phys == PHYS_I32:
        spread_small[int32_t](<const int32_t*> a.values, out, n)
    elif phys == PHYS_I16:
        spread_small[int16_t](<const int16_t*> a.values, out, n)
    elif phys == PHYS_I8:
        spread_small[int8_t](<const int8_t*> a.values, out, n)
    elif phys == PHYS_U32:
        spread_small[uint32_t](<const uint32_t*> a.values, out, n)
    elif phys == PHYS_U16:
        spread_small[uint16_t](<const uint16_t*> a.values, out, n)
    elif phys == PHYS_U8 or phys == PHYS_BOOL:
        spread_small[uint8_t](<const uint8_t*> a.values, out, n)
    else:
        return False
    return True


cdef uint64_t magnitude_of(uint8_t phys) noexcept nogil:
    """The largest magnitude of an integer type of up to 32 bits."""
    if phys == PHYS_I32 or phys == PHYS_U32:
        return (<uint64_t> 1 << 32) - 1
    return 65535 if phys == PHYS_I16 or phys == PHYS_U16 else 255


cdef int to_integer(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert integers, booleans and decimals. p0 is the number of digits to round off."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int128 unit, value
    cdef int64_t i
    if step.type.phys == PHYS_I64 and small_to_int64(a, <int64_t*> out.own_values, frame.n):
        out.bound = magnitude_of(a.phys)
        return 0
    unit = wide_power_of_ten(<int> step.p0)
    for i in range(frame.n):
        value = integer_at(a, i)
        if step.p0 > 0 and step.type.phys != PHYS_BOOL:
            value = wide_divide_rounded(value, unit)
        if not store_integer(step.type.phys, out.own_values, i, value):
            frame_refuse(frame, step, i)
    return 0


cdef inline double double_at(const Register* a, int64_t i) noexcept nogil:
    return (<const double*> a.values)[i] if a.phys == PHYS_F64 else (<const float*> a.values)[i]


cdef int float_to_integer(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Round half to even, as SQL engines do. NaN, infinite and too large values cannot be converted."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef double value
    cdef int64_t i
    for i in range(frame.n):
        value = double_at(a, i)
        if step.type.phys == PHYS_BOOL:
            (<uint8_t*> out.own_values)[i] = value != 0
        elif not (value > -1e19 and value < 2e19) or not store_integer(
            step.type.phys, out.own_values, i, wide_from_double(rint(value))
        ):
            store_integer(step.type.phys, out.own_values, i, 0)
            frame_refuse(frame, step, i)
    return 0


cdef int float_to_decimal(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef double unit = wide_to_double(wide_power_of_ten(step.type.scale))
    cdef double limit = wide_to_double(wide_power_of_ten(step.type.precision))
    cdef double value
    cdef int64_t i
    for i in range(frame.n):
        value = round(double_at(a, i) * unit)
        if not (value > -limit and value < limit):
            frame_refuse(frame, step, i)
            value = 0
        store_integer(step.type.phys, out.own_values, i, wide_from_double(value))
    return 0


cdef bint scale_narrow(const Step* step, EvaluatorFrame* frame, Register* a, int128 limit) noexcept nogil:
    """Scale up in 64 bits. Returns False if a value might not fit the type or 64 bits."""
    cdef Register* out = result(step, frame)
    cdef int64_t* values = <int64_t*> out.own_values
    cdef int64_t unit
    cdef uint64_t bound
    if step.p0 < 0 or step.p0 > 18:
        return False
    unit = <int64_t> wide_power_of_ten(<int> step.p0)
    if a.phys == PHYS_I64:
        if a.bound > I64_MAX / <uint64_t> unit or <int128> (a.bound * <uint64_t> unit) > limit:
            measure(a, frame.n)
        bound = a.bound
        if bound > I64_MAX / <uint64_t> unit:
            return False
    elif a.phys == PHYS_I128 or a.phys == PHYS_U64:
        return False
    else:
        bound = magnitude_of(a.phys)
        if bound > I64_MAX / <uint64_t> unit:
            return False
    if <int128> (bound * <uint64_t> unit) > limit:
        return False
    if a.phys == PHYS_I64:
        simd_kernels().unchecked[SIMD_MULTIPLY][SIMD_VS](a.values, &unit, values, frame.n)
    else:
        small_to_int64(a, values, frame.n)
        if unit > 1:
            simd_kernels().unchecked[SIMD_MULTIPLY][SIMD_VS](values, &unit, values, frame.n)
    out.phys = PHYS_I64
    out.bound = bound * <uint64_t> unit
    out.is_measured = a.is_measured
    return True


cdef int to_decimal(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert decimals and integers. p0 is the number of digits to append; if negative, -p0 digits are rounded off."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int128 limit = wide_power_of_ten(step.type.precision) - 1
    cdef int128 unit, most, value
    cdef int64_t i
    if scale_narrow(step, frame, a, limit):
        return 0
    unit = wide_power_of_ten(<int> (step.p0 if step.p0 >= 0 else -step.p0))
    most = limit / unit
    out.phys = step.type.phys
    for i in range(frame.n):
        value = integer_at(a, i)
        if step.p0 < 0:
            value = wide_divide_rounded(value, unit)
            if value > limit or value < -limit:
                value = 0
                frame_refuse(frame, step, i)
        elif value > most or value < -most:
            value = 0
            frame_refuse(frame, step, i)
        else:
            value = value * unit
        store_integer(step.type.phys, out.own_values, i, value)
    return 0


# --- to floats ---

cdef int to_float(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert integers, decimals of scale p0, and floats."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef double* values = <double*> out.own_values
    # Powers of ten up to 22 are exact float64s. The quotient of digits below 2**53 is therefore the nearest float64.
    cdef double unit = wide_to_double(wide_power_of_ten(<int> step.p0))
    cdef double value
    cdef int64_t i
    cdef int64_t n = frame.n
    if a.phys == PHYS_I64 and step.type.phys == PHYS_F64:
        if step.p0 == 0:
            for i in range(n):
                values[i] = <double> (<const int64_t*> a.values)[i]
        else:
            for i in range(n):
                values[i] = <double> (<const int64_t*> a.values)[i] / unit
        return 0
    if a.phys == PHYS_I32 and step.type.phys == PHYS_F64:
        for i in range(n):
            values[i] = <double> (<const int32_t*> a.values)[i]
        return 0
    for i in range(n):
        if a.phys == PHYS_F32 or a.phys == PHYS_F64:
            value = double_at(a, i)
        else:
            value = wide_to_double(integer_at(a, i)) / unit
        if step.type.phys == PHYS_F64:
            values[i] = value
        else:
            (<float*> out.own_values)[i] = <float> value
    return 0


# --- dates and times ---

cdef int scale_time(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert ticks to another unit: multiply by p0, or, if p0 is negative, divide by -p0 and round down."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int128 value
    cdef int64_t i
    for i in range(frame.n):
        value = integer_at(a, i)
        if step.p0 > 0:
            value = value * step.p0
        else:
            value = floor_divide(<int64_t> value, -step.p0)
        if not store_integer(step.type.phys, out.own_values, i, value):
            frame_refuse(frame, step, i)
    return 0


cdef int round_time(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Ticks of a timestamp to longer ones, of -p0 each, rounded; halves away from zero."""
    cdef Register* a = arg(step, frame, 0)
    cdef int64_t* out = <int64_t*> result(step, frame).own_values
    cdef int64_t i
    for i in range(frame.n):
        out[i] = rounded_ticks(<int64_t> integer_at(a, i), -step.p0)
    return 0


cdef int time_of_day(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The time of day of a timestamp. p0 is the number of ticks of a day; the units are those of the result."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int64_t given = units_per_second(step.arg_types[0].unit)
    cdef int64_t wanted = units_per_second(step.type.unit)
    cdef int64_t i, value
    for i in range(frame.n):
        value = (<const int64_t*> a.values)[i]
        value -= floor_divide(value, DAY_SECONDS * given) * DAY_SECONDS * given
        value = value * (wanted / given) if wanted >= given else value / (given / wanted)
        store_integer(step.type.phys, out.own_values, i, value)
    return 0


cdef int duration_to_interval(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const int64_t* ticks = <const int64_t*> arg(step, frame, 0).values
    cdef Interval* out = <Interval*> result(step, frame).own_values
    cdef int64_t per_day = DAY_SECONDS * units_per_second(step.arg_types[0].unit)
    cdef int64_t per_tick = 1000000000 / units_per_second(step.arg_types[0].unit)
    cdef int64_t i
    for i in range(frame.n):
        out[i].months = 0
        out[i].days = <int32_t> (ticks[i] / per_day)
        out[i].nanoseconds = ticks[i] % per_day * per_tick
        if out[i].days != ticks[i] / per_day:
            frame_refuse(frame, step, i)
    return 0


cdef int same_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Pass the values on unchanged."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    out.phys = a.phys
    out.values = a.values
    out.bound = a.bound
    out.is_measured = a.is_measured
    out.is_constant = a.is_constant
    return 0


cdef bint is_number(const DataType* type) noexcept nogil:
    return type.id == TYPE_BOOL or (TYPE_INT8 <= type.id <= TYPE_DECIMAL)


cdef bint is_float_type(const DataType* type) noexcept nogil:
    return type.id == TYPE_FLOAT32 or type.id == TYPE_FLOAT64


cdef bint bind_number(Step* step, const DataType* given, const DataType* wanted) noexcept nogil:
    if is_float_type(wanted):
        step.p0 = given.scale if given.id == TYPE_DECIMAL else 0
        step.kernel = to_float
    elif wanted.id == TYPE_DECIMAL and is_float_type(given):
        step.kernel = float_to_decimal
    elif wanted.id == TYPE_DECIMAL:
        step.p0 = wanted.scale - (given.scale if given.id == TYPE_DECIMAL else 0)
        step.kernel = to_decimal
    elif is_float_type(given):
        step.kernel = float_to_integer
    else:
        step.p0 = given.scale if given.id == TYPE_DECIMAL else 0
        step.kernel = to_integer
    return True


cdef bint bind_ticks(Step* step, int64_t given, int64_t wanted) noexcept nogil:
    """Bind a conversion between types with `given` and `wanted` ticks for the same time."""
    if given == wanted:
        step.kernel = same_kernel
    else:
        step.p0 = wanted / given if wanted > given else -(given / wanted)
        step.kernel = scale_time
    return True


cdef bint bind_time(Step* step, const DataType* given, const DataType* wanted) noexcept nogil:
    cdef int64_t given_ticks = units_per_second(given.unit)
    cdef int64_t wanted_ticks = units_per_second(wanted.unit)
    cdef bint given_time = given.id == TYPE_TIME32 or given.id == TYPE_TIME64
    cdef bint wanted_time = wanted.id == TYPE_TIME32 or wanted.id == TYPE_TIME64
    if given.id == TYPE_DATE32 and wanted.id == TYPE_TIMESTAMP:
        step.p0 = DAY_SECONDS * wanted_ticks
        step.kernel = scale_time
        return True
    if given.id == TYPE_TIMESTAMP and wanted.id == TYPE_DATE32:
        step.p0 = -DAY_SECONDS * given_ticks
        step.kernel = scale_time
        return True
    if given.id == TYPE_TIMESTAMP and wanted_time:
        step.kernel = time_of_day
        return True
    if given_time and wanted_time or (given.id == wanted.id and given.id in (TYPE_TIMESTAMP, TYPE_DURATION)):
        if given_ticks == wanted_ticks and given.phys == wanted.phys:
            step.kernel = same_kernel
            return True
        step.p0 = wanted_ticks / given_ticks if wanted_ticks >= given_ticks else -(given_ticks / wanted_ticks)
        step.kernel = round_time if given.id == TYPE_TIMESTAMP and step.p0 < 0 else scale_time
        return True
    if given.id == TYPE_DURATION and wanted.id == TYPE_INTERVAL:
        step.kernel = duration_to_interval
        return True
    # Ticks to an integer and back.
    if given.phys == PHYS_I64 and wanted.phys == PHYS_I64 and (given.id == TYPE_INT64 or wanted.id == TYPE_INT64):
        step.kernel = same_kernel
        return True
    return False


cdef bint cast_bind(Step* step, str name, dict options) except -1:
    cdef const DataType* given
    cdef const DataType* wanted = &step.type
    if name != "cast":
        return False
    given = step.arg_types
    step.flags = STEP_STRICT
    step.p1 = options.get("try", False)
    if wanted.id == TYPE_UUID:
        step.kernel = from_text_kernel(wanted)
        return given.phys == PHYS_VIEW
    if given.id == TYPE_UUID and wanted.id == TYPE_STRING:
        step.kernel = to_text_kernel(given)
        return True
    if given.phys == PHYS_VIEW and wanted.phys == PHYS_VIEW:
        step.kernel = same_kernel
        return True
    if given.phys == PHYS_VIEW:
        step.kernel = from_text_kernel(wanted)
        return step.kernel != NULL and given.id == TYPE_STRING
    if wanted.phys == PHYS_VIEW:
        step.kernel = to_text_kernel(given)
        return step.kernel != NULL and wanted.id == TYPE_STRING
    if is_number(given) and is_number(wanted):
        return bind_number(step, given, wanted)
    return bind_time(step, given, wanted)
