"""Kernels that convert text to values, and values to text.

A date is YYYY-MM-DD, a timestamp YYYY-MM-DD HH:MM:SS[.fraction], and a boolean true or false. The parser also accepts a
T between date and time, and ignores spaces around a value.
"""

from libc.float cimport DBL_MIN, FLT_MIN
from libc.math cimport fabs, isinf, isnan, rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtod, strtof, strtol
from libc.string cimport memcmp, memcpy, memmove, memset, strchr, strlen

from qcore_ext.compute.calendar cimport (
    Civil, civil_of, days_in_month, days_of, floor_divide, rounded_ticks, units_per_second,
)
from qcore_ext.compute.kernel cimport (
    EvaluatorFrame, Kernel, Register, Step, arg, frame_arena, frame_refuse, integer_at, result, store_integer,
)
from qcore_ext.data.column cimport VIEW_INLINE_BYTES, StringView, view_data
from qcore_ext.data.schema cimport (
    PHYS_F64, PHYS_I32, TYPE_BINARY, TYPE_BOOL, TYPE_DATE32, TYPE_DECIMAL, TYPE_FLOAT32, TYPE_FLOAT64, TYPE_INT8,
    TYPE_TIME32, TYPE_TIME64, TYPE_TIMESTAMP, TYPE_UUID, UUID_BYTES, DataType,
)
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport arena_take
from qcore_ext.ground.wide cimport int128, wide_apply, wide_from_double, wide_power_of_ten, wide_to_double, wide_to_text


# The TimeUnit of a microsecond.
cdef enum:
    MICROSECONDS = 2

cdef (const char*)[6] TRUTHS
cdef const char* HEX_DIGITS = b"0123456789abcdef"
TRUTHS[:] = [b"true", b"false", b"t", b"f", b"1", b"0"]

ctypedef struct Reader:
    # The rest of a text that is not parsed yet.
    const char* at
    const char* end


cdef Reader trim_spaces(const StringView* view) noexcept nogil:
    cdef Reader reader
    reader.at = view_data(view)
    reader.end = reader.at + view.length
    while reader.at < reader.end and reader.at[0] in b" \t\n\r":
        reader.at += 1
    while reader.end > reader.at and (reader.end - 1)[0] in b" \t\n\r":
        reader.end -= 1
    return reader


cdef int put_text(StringView* view, const char* text, int length, EvaluatorFrame* frame) except -1 nogil:
    """Set a zeroed view to a copy of the text."""
    cdef char* copy
    view.length = <uint32_t> length
    if length <= VIEW_INLINE_BYTES:
        memcpy(view.prefix, text, length)
    else:
        copy = <char*> arena_take(frame_arena(frame), length)
        memcpy(copy, text, length)
        memcpy(view.prefix, text, 4)
        view.pointer = copy
    return 0


cdef bint read_double(Reader reader, double* out) noexcept nogil:
    cdef char[64] text
    cdef char* stop
    cdef int64_t length = reader.end - reader.at
    if length <= 0 or length > 63:
        return False
    memcpy(text, reader.at, length)
    text[length] = 0
    if strchr(text, c"x") != NULL or strchr(text, c"X") != NULL:
        return False                # C has hexadecimal floats, SQL does not
    out[0] = strtod(text, &stop)
    return stop == text + length


cdef bint read_decimal(Reader reader, int scale, int128* out) noexcept nogil:
    """Read a decimal with `scale` digits after the point. Further digits are rounded half away from zero. At most 38
    digits.
    """
    cdef int128 limit = wide_power_of_ten(38) - 1
    cdef int128 value = 0
    cdef bint negative = False
    cdef bint any_digit = False
    cdef bint behind_point = False
    cdef int missing = scale
    cdef int rounding = -1
    cdef double approximate
    cdef Reader whole = reader
    if reader.at < reader.end and reader.at[0] in b"+-":
        negative = reader.at[0] == c"-"
        reader.at += 1
    while reader.at < reader.end:
        if reader.at[0] == c"." and not behind_point:
            behind_point = True
        elif c"0" <= reader.at[0] <= c"9":
            any_digit = True
            if behind_point and missing == 0:
                if rounding < 0:
                    rounding = reader.at[0] - c"0"
            else:
                if wide_apply(2, value, 10, limit, &value):
                    return False
                value += reader.at[0] - c"0"
                if behind_point:
                    missing -= 1
        elif reader.at[0] in b"eE" and any_digit:
            if not read_double(whole, &approximate):
                return False
            approximate *= wide_to_double(wide_power_of_ten(scale))
            if not (approximate > -1e38 and approximate < 1e38):
                return False
            out[0] = wide_from_double(rint(approximate))
            return True
        else:
            return False
        reader.at += 1
    if not any_digit or wide_apply(2, value, wide_power_of_ten(missing), limit, &value):
        return False
    if rounding >= 5:
        value += 1
    out[0] = -value if negative else value
    return True


cdef bint read_number(Reader* reader, int64_t digits_max, int64_t* out) noexcept nogil:
    """Read one or more digits."""
    cdef int64_t value = 0
    cdef int64_t n = 0
    while reader.at < reader.end and c"0" <= reader.at[0] <= c"9" and n < digits_max:
        value = value * 10 + (reader.at[0] - c"0")
        reader.at += 1
        n += 1
    out[0] = value
    return n > 0


cdef bint read_mark(Reader* reader, char mark) noexcept nogil:
    if reader.at < reader.end and reader.at[0] == mark:
        reader.at += 1
        return True
    return False


cdef bint read_date(Reader* reader, int64_t* days) noexcept nogil:
    cdef int64_t year, month, day
    cdef bint negative = read_mark(reader, c"-")
    if not (read_number(reader, 6, &year) and read_mark(reader, c"-") and read_number(reader, 2, &month)):
        return False
    if not (read_mark(reader, c"-") and read_number(reader, 2, &day)):
        return False
    if negative:
        year = -year
    if month < 1 or month > 12 or day < 1 or day > days_in_month(year, month):
        return False
    days[0] = days_of(year, month, day)
    return True


cdef bint read_time(Reader* reader, int64_t* nanoseconds) noexcept nogil:
    cdef int64_t hour, minute
    cdef int64_t second = 0
    cdef int64_t unit = 1000000000
    if not (read_number(reader, 2, &hour) and read_mark(reader, c":") and read_number(reader, 2, &minute)):
        return False
    if read_mark(reader, c":") and not read_number(reader, 2, &second):
        return False
    if hour > 23 or minute > 59 or second > 59:
        return False
    nanoseconds[0] = ((hour * 60 + minute) * 60 + second) * unit
    if read_mark(reader, c"."):
        while reader.at < reader.end and c"0" <= reader.at[0] <= c"9":
            unit /= 10
            nanoseconds[0] += (reader.at[0] - c"0") * unit
            reader.at += 1
    return True


cdef bint read_zone(Reader* reader, int64_t* seconds) noexcept nogil:
    """Read a time zone: Z, +HH, +HHMM, +HH:MM or nothing."""
    cdef int64_t sign, hours
    cdef int64_t minutes = 0
    seconds[0] = 0
    if reader.at == reader.end or read_mark(reader, c"Z"):
        return reader.at == reader.end
    sign = -1 if reader.at[0] == c"-" else 1
    if reader.at[0] not in b"+-":
        return False
    reader.at += 1
    if not read_number(reader, 2, &hours):
        return False
    read_mark(reader, c":")
    if reader.at < reader.end and not read_number(reader, 2, &minutes):
        return False
    seconds[0] = sign * (hours * 3600 + minutes * 60)
    return reader.at == reader.end


cdef bint read_timestamp(Reader reader, int unit, bint is_instant, int64_t* out) noexcept nogil:
    """Parse a date, optionally with a time and an offset from UTC. The offset is used for instants only."""
    cdef int64_t days, zone
    cdef int64_t nanoseconds = 0
    cdef int64_t ticks = units_per_second(unit)
    cdef int128 total
    if not read_date(&reader, &days):
        return False
    if reader.at < reader.end:
        if not (read_mark(&reader, c"T") or read_mark(&reader, c" ")) or not read_time(&reader, &nanoseconds):
            return False
        if not read_zone(&reader, &zone):
            return False
        if is_instant:
            nanoseconds -= zone * 1000000000
    total = <int128> days * 86400 * ticks + floor_divide(nanoseconds, 1000000000 / ticks)
    out[0] = <int64_t> total
    return total == <int128> out[0]


cdef bint read_ticks(Reader reader, const DataType* type, int64_t* out) noexcept nogil:
    """A timestamp in the unit of its type.

    Digits after the sixth are cut. Seconds and milliseconds are then rounded.
    """
    cdef bint is_instant = type.timezone[0] != 0
    cdef int64_t ticks = units_per_second(type.unit)
    if ticks < 1000000 and read_timestamp(reader, MICROSECONDS, is_instant, out):
        out[0] = rounded_ticks(out[0], 1000000 / ticks)
        return True
    return read_timestamp(reader, type.unit, is_instant, out)


cdef bint read_bool(Reader reader, uint8_t* out) noexcept nogil:
    cdef char[8] text
    cdef int64_t length = reader.end - reader.at
    cdef int64_t i
    if length < 1 or length > 5:
        return False
    memset(text, 0, 8)
    for i in range(length):
        text[i] = reader.at[i] | 32 if reader.at[i] >= c"A" else reader.at[i]
    for i in range(6):
        if strlen(TRUTHS[i]) == <size_t> length and memcmp(text, TRUTHS[i], length) == 0:
            out[0] = i % 2 == 0
            return True
    return False


cdef int text_to_integer(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert text to integers and decimals."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef int scale = step.type.scale if step.type.id == TYPE_DECIMAL else 0
    cdef int128 limit = wide_power_of_ten(step.type.precision if step.type.id == TYPE_DECIMAL else 38) - 1
    cdef int128 value
    cdef int64_t i
    for i in range(frame.n):
        if not is_valid(out.validity, i):
            store_integer(step.type.phys, out.own_values, i, 0)
        elif not (
            read_decimal(trim_spaces(&views[i]), scale, &value) and value <= limit and value >= -limit
            and store_integer(step.type.phys, out.own_values, i, value)
        ):
            store_integer(step.type.phys, out.own_values, i, 0)
            frame_refuse(frame, step, i)
    return 0


cdef int text_to_float(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef double value
    cdef int64_t i
    for i in range(frame.n):
        value = 0
        if is_valid(out.validity, i) and not read_double(trim_spaces(&views[i]), &value):
            value = 0
            frame_refuse(frame, step, i)
        if step.type.phys == PHYS_F64:
            (<double*> out.own_values)[i] = value
        else:
            (<float*> out.own_values)[i] = <float> value
    return 0


cdef int text_to_time(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert text to booleans, dates, timestamps and times of day."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef Reader reader
    cdef int64_t i, value
    cdef uint8_t truth
    cdef bint good
    for i in range(frame.n):
        value = 0
        if is_valid(out.validity, i):
            reader = trim_spaces(&views[i])
            if step.type.id == TYPE_BOOL:
                truth = 0
                good = read_bool(reader, &truth)
                value = truth
            elif step.type.id == TYPE_DATE32:
                # A midnight after the date is ignored: '1995-01-01 00:00:00' is that day.
                good = read_timestamp(reader, 0, False, &value)
                value = floor_divide(value, 86400)
            elif step.type.id == TYPE_TIMESTAMP:
                good = read_ticks(reader, &step.type, &value)
            else:
                good = read_time(&reader, &value) and reader.at == reader.end
                value /= 1000000000 / units_per_second(step.type.unit)
            if not good:
                value = 0
                frame_refuse(frame, step, i)
        if step.type.id == TYPE_BOOL:
            (<uint8_t*> out.own_values)[i] = <uint8_t> value
        elif step.type.phys == PHYS_I32:
            (<int32_t*> out.own_values)[i] = <int32_t> value
        else:
            (<int64_t*> out.own_values)[i] = value
    return 0


cdef int hex_digit(char letter) noexcept nogil:
    """The value of a hexadecimal digit; -1: it is none."""
    if c"0" <= letter <= c"9":
        return letter - c"0"
    letter = letter | 32
    return letter - c"a" + 10 if c"a" <= letter <= c"f" else -1


cdef bint read_uuid(const StringView* view, char* out) noexcept nogil:
    """Read 32 hexadecimal digits, with hyphens anywhere between them, in braces or without, as DuckDB does."""
    cdef const char* text = view_data(view)
    cdef int64_t first = 0
    cdef int64_t last = view.length
    cdef int64_t i
    cdef int n = 0
    cdef int digit
    if last > 0 and text[0] == c"{":
        if text[last - 1] != c"}":
            return False
        first += 1
        last -= 1
    for i in range(first, last):
        if text[i] == c"-":
            continue
        digit = hex_digit(text[i])
        if digit < 0 or n == 2 * UUID_BYTES:
            return False
        out[n >> 1] = <char> (digit << 4 if n & 1 == 0 else out[n >> 1] | digit)
        n += 1
    return n == 2 * UUID_BYTES


cdef int text_to_uuid(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert text, and bytes that are a UUID's."""
    cdef const StringView* given = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef StringView* views = <StringView*> out.own_values
    cdef bint is_binary = step.arg_types[0].id == TYPE_BINARY
    cdef char[UUID_BYTES] value
    cdef int64_t i
    for i in range(frame.n):
        memset(&views[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        if is_binary and given[i].length == UUID_BYTES:
            views[i] = given[i]
        elif not is_binary and read_uuid(&given[i], value):
            put_text(&views[i], value, UUID_BYTES, frame)
        else:
            frame_refuse(frame, step, i)
    return 0


cdef Kernel from_text_kernel(const DataType* wanted) noexcept nogil:
    if TYPE_FLOAT32 == wanted.id or wanted.id == TYPE_FLOAT64:
        return text_to_float
    if TYPE_INT8 <= wanted.id <= TYPE_DECIMAL:
        return text_to_integer
    if wanted.id in (TYPE_BOOL, TYPE_DATE32, TYPE_TIMESTAMP, TYPE_TIME32, TYPE_TIME64):
        return text_to_time
    if wanted.id == TYPE_UUID:
        return text_to_uuid
    return NULL


# --- to text ---

cdef int write_fraction(int64_t ticks, int unit, char* out) noexcept nogil:
    """Write a point and the digits without trailing zeros, or nothing if all are zero. Returns the length."""
    cdef int digits = 3 * unit
    cdef int length
    if ticks == 0 or digits == 0:
        return 0
    length = snprintf(out, 16, b".%0*lld", digits, <long long> ticks)
    while out[length - 1] == c"0":
        length -= 1
    out[length] = 0
    return length


cdef int write_date(int64_t days, char* out) noexcept nogil:
    cdef Civil civil = civil_of(days)
    return snprintf(out, 32, b"%04lld-%02d-%02d", <long long> civil.year, civil.month, civil.day)


cdef int write_time(int64_t ticks, int unit, char* out) noexcept nogil:
    cdef int64_t per_second = units_per_second(unit)
    cdef int64_t seconds = ticks / per_second
    cdef int length = snprintf(
        out, 32, b"%02d:%02d:%02d", <int> (seconds / 3600), <int> (seconds / 60 % 60), <int> (seconds % 60)
    )
    return length + write_fraction(ticks % per_second, unit, out + length)


cdef int write_double(double value, bint single, char* out) noexcept nogil:
    """Write the shortest digits that are read as the same number. Below 0.0001 and from 1e16 on with an exponent.
    Returns the length.
    """
    cdef char[40] found
    cdef char* digits = found
    # All decimals with this number of digits are read and written unchanged, except denormal numbers. If a number has
    # fewer digits the others are zeros, which are cut below.
    cdef int n = (6 if fabs(value) > FLT_MIN else 1) if single else (15 if fabs(value) > DBL_MIN else 1)
    cdef int exponent, i
    cdef int length = 0
    if isnan(value):
        return snprintf(out, 8, b"nan")
    if isinf(value):
        return snprintf(out, 8, b"inf" if value > 0 else b"-inf")
    while True:
        snprintf(found, 40, b"%.*e", n - 1, value)
        if n == (9 if single else 17):
            break
        if (strtof(found, NULL) == <float> value) if single else (strtod(found, NULL) == value):
            break
        n += 1
    if digits[0] == c"-":
        out[0] = c"-"
        length = 1
        digits += 1
    # The digits without the point and without zeros at the end.
    exponent = <int> strtol(strchr(digits, c"e") + 1, NULL, 10)
    if n > 1:
        memmove(digits + 1, digits + 2, n - 1)
    while n > 1 and digits[n - 1] == c"0":
        n -= 1
    if exponent < -4 or exponent >= 16:
        out[length] = digits[0]
        length += 1
        if n > 1:
            length += snprintf(out + length, 20, b".%.*s", n - 1, digits + 1)
        return length + snprintf(out + length, 8, b"e%+03d", exponent)
    # Digit i stands for 10 ** (exponent - i). There is at least one digit on each side of the point.
    for i in range(min(exponent, 0), max(n, exponent + 2)):
        if i == exponent + 1:
            out[length] = c"."
            length += 1
        out[length] = digits[i] if 0 <= i < n else c"0"
        length += 1
    out[length] = 0
    return length


cdef int write_uuid(const StringView* view, char* out) noexcept nogil:
    cdef const char* value = view_data(view)
    cdef int length = 0
    cdef int i
    for i in range(UUID_BYTES):
        if i in (4, 6, 8, 10):
            out[length] = c"-"
            length += 1
        out[length] = HEX_DIGITS[(<uint8_t> value[i]) >> 4]
        out[length + 1] = HEX_DIGITS[value[i] & 15]
        length += 2
    return length


cdef int write_value(const Register* a, const DataType* type, int64_t i, char* text) noexcept nogil:
    """Write row i to `text`, which has 64 bytes. Returns the length."""
    cdef int64_t value, per_day
    cdef int length
    if type.id == TYPE_FLOAT64:
        return write_double((<const double*> a.values)[i], False, text)
    if type.id == TYPE_FLOAT32:
        return write_double((<const float*> a.values)[i], True, text)
    if type.id == TYPE_UUID:
        return write_uuid((<const StringView*> a.values) + i, text)
    if type.id == TYPE_BOOL:
        return snprintf(text, 8, b"true" if (<const uint8_t*> a.values)[i] else b"false")
    if type.id == TYPE_DATE32:
        return write_date((<const int32_t*> a.values)[i], text)
    if type.id == TYPE_TIME32 or type.id == TYPE_TIME64:
        return write_time(<int64_t> integer_at(a, i), type.unit, text)
    if type.id == TYPE_TIMESTAMP:
        per_day = 86400 * units_per_second(type.unit)
        value = (<const int64_t*> a.values)[i]
        length = write_date(floor_divide(value, per_day), text)
        text[length] = c" "
        length += 1
        length += write_time(value - floor_divide(value, per_day) * per_day, type.unit, text + length)
        if type.timezone[0]:
            length += snprintf(text + length, 8, b"+00")
        return length
    return wide_to_text(integer_at(a, i), type.scale if type.id == TYPE_DECIMAL else 0, text)


cdef int value_to_text(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef StringView* views = <StringView*> out.own_values
    cdef char[96] text
    cdef int64_t i
    cdef int length
    for i in range(frame.n):
        memset(&views[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        length = write_value(a, step.arg_types, i, text)
        put_text(&views[i], text, length, frame)
    return 0


cdef Kernel to_text_kernel(const DataType* given) noexcept nogil:
    if given.id == TYPE_BOOL or TYPE_INT8 <= given.id <= TYPE_TIMESTAMP or given.id == TYPE_UUID:
        return value_to_text
    return NULL
