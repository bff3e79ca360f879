"""Kernels of dates, timestamps and intervals."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.compute.calendar cimport (
    Civil, Interval, add_months, civil_of, days_in_month, days_of, floor_divide, units_per_second,
)
from qcore_ext.compute.kernel cimport (
    ERROR_ARGUMENT, ERROR_OVERFLOW, STEP_STRICT, EvaluatorFrame, Register, Step, arg, frame_fail, result, store_integer,
)
from qcore_ext.data.schema cimport PHYS_I32, TYPE_DATE32, TYPE_INTERVAL
from qcore_ext.ground.wide cimport int128

cdef enum Part:
    YEAR
    QUARTER
    MONTH
    WEEK
    DAY
    DAY_OF_WEEK
    DAY_OF_YEAR
    ISO_DAY_OF_WEEK
    ISO_YEAR
    DECADE
    CENTURY
    MILLENNIUM
    HOUR
    MINUTE
    SECOND
    MILLISECOND
    MICROSECOND
    NANOSECOND
    EPOCH

cdef int64_t DAY_SECONDS = 86400
cdef int64_t DAY_NANOS = 86400 * 1000000000LL


cdef inline int64_t ticks_at(const Register* register, int64_t row) noexcept nogil:
    if register.phys == PHYS_I32:
        return (<const int32_t*> register.values)[row]
    return (<const int64_t*> register.values)[row]


# --- parts ---

cdef int64_t iso_week(int64_t days) noexcept nogil:
    """The number of the week in its ISO year, which is the year of the week's Thursday."""
    cdef int64_t weekday = (days + 3) - floor_divide(days + 3, 7) * 7       # Monday is 0
    cdef int64_t thursday = days - weekday + 3
    return (thursday - days_of(civil_of(thursday).year, 1, 1)) / 7 + 1


cdef int64_t period_of(int64_t year, int64_t length) noexcept nogil:
    """The century or millennium. The first one begins with year 1. The one before it is -1, because there is no 0."""
    return (year - 1) / length + 1 if year > 0 else year / length - 1


cdef int64_t date_part(int64_t part, int64_t days) noexcept nogil:
    cdef Civil civil
    if part == DAY_OF_WEEK:
        return days + 4 - floor_divide(days + 4, 7) * 7                     # Sunday is 0
    if part == ISO_DAY_OF_WEEK:
        return days + 3 - floor_divide(days + 3, 7) * 7 + 1                 # Monday is 1
    if part == WEEK:
        return iso_week(days)
    if part == ISO_YEAR:
        return civil_of(days - (days + 3 - floor_divide(days + 3, 7) * 7) + 3).year
    civil = civil_of(days)
    if part == DECADE:
        return floor_divide(civil.year, 10)
    if part == CENTURY or part == MILLENNIUM:
        return period_of(civil.year, 100 if part == CENTURY else 1000)
    if part == YEAR:
        return civil.year
    if part == MONTH:
        return civil.month
    if part == DAY:
        return civil.day
    if part == QUARTER:
        return (civil.month + 2) / 3
    return days - days_of(civil.year, 1, 1) + 1


cdef inline int64_t time_part(int64_t part, int64_t ticks, int64_t per_second) noexcept nogil:
    """A part of the ticks since midnight. Parts of a second include the minute's seconds, as in SQL."""
    cdef int64_t seconds = ticks / per_second
    cdef int64_t per_part
    if part == HOUR:
        return seconds / 3600
    if part == MINUTE:
        return seconds / 60 % 60
    if part == SECOND:
        return seconds % 60
    per_part = 1000 if part == MILLISECOND else 1000000 if part == MICROSECOND else 1000000000
    ticks = ticks % (60 * per_second)
    return ticks * (per_part / per_second) if per_part >= per_second else ticks / (per_second / per_part)


cdef int64_t interval_part(int64_t part, const Interval* interval) noexcept nogil:
    if part == YEAR:
        return interval.months / 12
    if part == DECADE or part == CENTURY or part == MILLENNIUM:
        return interval.months / (120 if part == DECADE else 1200 if part == CENTURY else 12000)
    if part == QUARTER:
        return interval.months % 12 / 3 + 1
    if part == MONTH:
        return interval.months % 12
    if part == DAY:
        return interval.days
    return time_part(part, interval.nanoseconds, 1000000000)


cdef int epoch_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The seconds since 1970, or the seconds of an interval with months of 30 days, as float64."""
    cdef Register* a = arg(step, frame, 0)
    cdef double* out = <double*> result(step, frame).own_values
    cdef const Interval* intervals = <const Interval*> a.values
    cdef double per_second = <double> step.p1
    cdef int64_t i
    for i in range(frame.n):
        if step.arg_types[0].id == TYPE_DATE32:
            out[i] = <double> ((<const int32_t*> a.values)[i] * DAY_SECONDS)
        elif step.arg_types[0].id == TYPE_INTERVAL:
            out[i] = <double> ((intervals[i].months * 30 + intervals[i].days) * DAY_SECONDS)
            out[i] += <double> intervals[i].nanoseconds / 1e9
        else:
            out[i] = <double> ticks_at(a, i) / per_second
    return 0


cdef int part_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef int64_t* out = <int64_t*> result(step, frame).own_values
    cdef int64_t part = step.p0
    cdef int64_t n = frame.n
    cdef int64_t i, ticks
    cdef int64_t per_second = step.p1
    cdef int64_t per_day = per_second * DAY_SECONDS
    if step.arg_types[0].id == TYPE_DATE32:
        for i in range(n):
            ticks = (<const int32_t*> a.values)[i]
            out[i] = date_part(part, ticks)
    elif step.arg_types[0].id == TYPE_INTERVAL:
        for i in range(n):
            out[i] = interval_part(part, (<const Interval*> a.values) + i)
    else:
        for i in range(n):
            ticks = ticks_at(a, i)
            if part < HOUR:
                out[i] = date_part(part, floor_divide(ticks, per_day))
            else:
                out[i] = time_part(part, ticks - floor_divide(ticks, per_day) * per_day, per_second)
    return 0


# --- truncation ---

cdef int64_t ticks_per_unit(int64_t unit, int64_t per_second) noexcept nogil:
    """The ticks of an hour or a shorter unit; 1 if the unit is shorter than a tick."""
    if unit == HOUR:
        return per_second * 3600
    if unit == MINUTE:
        return per_second * 60
    if unit == SECOND:
        return per_second
    return max(per_second / (1000 if unit == MILLISECOND else 1000000 if unit == MICROSECOND else 1000000000), 1)


cdef int64_t truncate_day(int64_t unit, int64_t days) noexcept nogil:
    """The first day of the unit that contains `days`."""
    cdef Civil civil
    if unit == WEEK:
        return days - ((days + 3) - floor_divide(days + 3, 7) * 7)          # the Monday
    if unit == DAY:
        return days
    civil = civil_of(days)
    if unit == DECADE:
        return days_of(floor_divide(civil.year, 10) * 10, 1, 1)
    if unit == CENTURY:
        return days_of(floor_divide(civil.year, 100) * 100, 1, 1)
    if unit == MILLENNIUM:
        return days_of(floor_divide(civil.year, 1000) * 1000, 1, 1)
    if unit == YEAR:
        return days_of(civil.year, 1, 1)
    if unit == QUARTER:
        return days_of(civil.year, (civil.month - 1) / 3 * 3 + 1, 1)
    return days_of(civil.year, civil.month, 1)


cdef int truncate_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int64_t per_second = step.p1
    cdef int64_t per_unit = ticks_per_unit(step.p0, per_second)
    cdef int64_t per_day = per_second * DAY_SECONDS
    cdef int64_t i, ticks
    for i in range(frame.n):
        ticks = ticks_at(a, i)
        if step.type.id == TYPE_DATE32:
            (<int32_t*> out.own_values)[i] = <int32_t> truncate_day(step.p0, ticks)
        elif step.p0 >= HOUR:
            (<int64_t*> out.own_values)[i] = floor_divide(ticks, per_unit) * per_unit
        else:
            (<int64_t*> out.own_values)[i] = truncate_day(step.p0, floor_divide(ticks, per_day)) * per_day
    return 0


cdef int bin_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Round down to a multiple of p0 ticks since p1."""
    cdef const int64_t* a = <const int64_t*> arg(step, frame, 0).values
    cdef int64_t* out = <int64_t*> result(step, frame).own_values
    cdef int64_t i
    for i in range(frame.n):
        out[i] = floor_divide(a[i] - step.p1, step.p0) * step.p0 + step.p1
    return 0


# --- dates from dates and numbers ---

cdef int make_date_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const int64_t* years = <const int64_t*> arg(step, frame, 0).values
    cdef const int64_t* months = <const int64_t*> arg(step, frame, 1).values
    cdef const int64_t* days = <const int64_t*> arg(step, frame, 2).values
    cdef int32_t* out = <int32_t*> result(step, frame).own_values
    cdef int64_t i
    for i in range(frame.n):
        out[i] = 0
        if (
            -5000000 <= years[i] <= 5000000 and 1 <= months[i] <= 12
            and 1 <= days[i] <= days_in_month(years[i], months[i])
        ):
            out[i] = <int32_t> days_of(years[i], months[i], days[i])
        else:
            frame_fail(frame, step, i, ERROR_ARGUMENT)
    return 0


cdef int last_day_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The last day of the month."""
    cdef const int32_t* a = <const int32_t*> arg(step, frame, 0).values
    cdef int32_t* out = <int32_t*> result(step, frame).own_values
    cdef Civil civil
    cdef int64_t i
    for i in range(frame.n):
        civil = civil_of(a[i])
        out[i] = <int32_t> days_of(civil.year, civil.month, days_in_month(civil.year, civil.month))
    return 0


cdef int64_t units_before(int64_t unit, int64_t days, int64_t ticks, int64_t per_second) noexcept nogil:
    """The number of whole units between a fixed time and this one."""
    cdef Civil civil
    if unit == DAY or unit == WEEK:
        return days
    if unit >= HOUR:
        return floor_divide(ticks, ticks_per_unit(unit, per_second))
    civil = civil_of(days)
    if unit == QUARTER:
        return civil.year * 4 + (civil.month - 1) / 3
    if unit == MONTH:
        return civil.year * 12 + civil.month
    if unit == YEAR:
        return civil.year
    return floor_divide(civil.year, 10 if unit == DECADE else 100 if unit == CENTURY else 1000)


cdef int difference_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The number of starts of a unit between two dates or timestamps. For weeks the number of days divided by seven."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* b = arg(step, frame, 1)
    cdef Register* out = result(step, frame)
    cdef bint is_date = step.arg_types[0].id == TYPE_DATE32
    cdef int64_t per_second = 1 if is_date else step.p1
    cdef int64_t per_day = DAY_SECONDS * per_second
    cdef int64_t i, from_days, to_days, from_ticks, to_ticks
    cdef int128 units
    for i in range(frame.n):
        from_ticks = ticks_at(a, i)
        to_ticks = ticks_at(b, i)
        if is_date:
            from_days = from_ticks
            to_days = to_ticks
            from_ticks *= per_day
            to_ticks *= per_day
        else:
            from_days = floor_divide(from_ticks, per_day)
            to_days = floor_divide(to_ticks, per_day)
        units = units_before(step.p0, to_days, to_ticks, per_second)
        units -= units_before(step.p0, from_days, from_ticks, per_second)
        if step.p0 == WEEK:
            units /= 7
        if not store_integer(step.type.phys, out.own_values, i, units):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int shift_time_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Add an interval to a time of day, modulo a day. The interval's days and months have no effect."""
    cdef Register* a = arg(step, frame, 0)
    cdef const Interval* intervals = <const Interval*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef int64_t per_day = DAY_SECONDS * step.p1
    cdef int64_t i, moved
    for i in range(frame.n):
        moved = ticks_at(a, i) + step.p0 * (intervals[i].nanoseconds % DAY_NANOS / (1000000000 / step.p1))
        store_integer(step.type.phys, out.own_values, i, moved - floor_divide(moved, per_day) * per_day)
    return 0


# --- sums and differences ---

cdef int shift_days_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const int32_t* dates = <const int32_t*> arg(step, frame, 0).values
    cdef const int64_t* days = <const int64_t*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef int64_t i
    for i in range(frame.n):
        if not store_integer(PHYS_I32, out.own_values, i, <int128> dates[i] + <int128> step.p0 * days[i]):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef inline int shift_by(const Step* step, EvaluatorFrame* frame, bint is_instant) except -1 nogil:
    """Add an interval to a date or a timestamp: first the months, then the days, then the rest. For an instant the rest
    comes first if a part is negative.
    """
    cdef Register* a = arg(step, frame, 0)
    cdef const Interval* intervals = <const Interval*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef bint is_date = step.type.id == TYPE_DATE32
    cdef int64_t per_day = DAY_SECONDS * step.p1
    cdef int64_t per_tick = 1000000000 / step.p1
    cdef int64_t i, days, months, by_days, nanoseconds
    cdef int64_t rest = 0
    cdef int64_t sign = step.p0
    cdef int128 moved
    for i in range(frame.n):
        months = sign * intervals[i].months
        by_days = sign * intervals[i].days
        nanoseconds = sign * intervals[i].nanoseconds
        days = ticks_at(a, i)
        if not is_date:
            rest = days
            days = floor_divide(rest, per_day)
            rest -= days * per_day
        if is_instant and (months < 0 or by_days < 0 or nanoseconds < 0):
            # Both terms have up to 63 bits, so they are added in 128 bits.
            moved = <int128> rest + floor_divide(nanoseconds, per_tick)
            nanoseconds = 0
            rest = <int64_t> (moved % per_day)
            rest += per_day if rest < 0 else 0
            days += <int64_t> ((moved - rest) / per_day)
        # The calendar is defined for days of 32 bits only. A null row may have any value.
        if days < -2147483648LL or days > 2147483647LL:
            days = 0
        if months != 0:
            days = add_months(days, months)
        days += by_days
        if is_date:
            moved = days + floor_divide(nanoseconds, DAY_NANOS)
        else:
            moved = <int128> days * per_day + rest + floor_divide(nanoseconds, per_tick)
        if not store_integer(step.type.phys, out.own_values, i, moved):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int shift_interval_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    return shift_by(step, frame, False)


cdef int shift_instant_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    return shift_by(step, frame, True)


cdef int days_between_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const int32_t* a = <const int32_t*> arg(step, frame, 0).values
    cdef const int32_t* b = <const int32_t*> arg(step, frame, 1).values
    cdef int64_t* out = <int64_t*> result(step, frame).own_values
    cdef int64_t i
    cdef int64_t n = frame.n
    for i in range(n):
        out[i] = <int64_t> a[i] - <int64_t> b[i]
    return 0


cdef int store_interval(
    const Step* step, EvaluatorFrame* frame, int64_t row, int128 months, int128 days, int128 nanoseconds,
) except -1 nogil:
    cdef Interval* out = (<Interval*> result(step, frame).own_values) + row
    out.months = <int32_t> months
    out.days = <int32_t> days
    out.nanoseconds = <int64_t> nanoseconds
    if months != out.months or days != out.days or nanoseconds != out.nanoseconds:
        frame_fail(frame, step, row, ERROR_OVERFLOW)
    return 0


cdef int interval_add_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const Interval* a = <const Interval*> arg(step, frame, 0).values
    cdef const Interval* b = <const Interval*> arg(step, frame, 1).values
    cdef int128 sign = step.p0
    cdef int64_t i
    for i in range(frame.n):
        store_interval(
            step, frame, i, a[i].months + sign * b[i].months, a[i].days + sign * b[i].days,
            a[i].nanoseconds + sign * b[i].nanoseconds,
        )
    return 0


cdef int interval_multiply_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const Interval* a = <const Interval*> arg(step, frame, 0).values
    cdef const int64_t* b = <const int64_t*> arg(step, frame, 1).values
    cdef int128 times
    cdef int64_t i
    for i in range(frame.n):
        times = b[i]
        store_interval(step, frame, i, times * a[i].months, times * a[i].days, times * a[i].nanoseconds)
    return 0


PARTS = {
    "year": YEAR, "quarter": QUARTER, "month": MONTH, "week": WEEK, "day": DAY, "day_of_week": DAY_OF_WEEK,
    "day_of_year": DAY_OF_YEAR, "iso_day_of_week": ISO_DAY_OF_WEEK, "iso_year": ISO_YEAR, "decade": DECADE,
    "century": CENTURY, "millennium": MILLENNIUM, "hour": HOUR, "minute": MINUTE, "second": SECOND,
    "millisecond": MILLISECOND, "microsecond": MICROSECOND, "nanosecond": NANOSECOND, "epoch": EPOCH,
}


cdef bint temporal_bind(Step* step, str name, dict options) except -1:
    step.flags = STEP_STRICT
    step.p0 = options.get("sign", 1)
    step.p1 = units_per_second(step.arg_types[0].unit) if step.n_args > 0 else 1
    if name == "part":
        step.p0 = PARTS[options["part"]]
        step.kernel = epoch_kernel if step.p0 == EPOCH else part_kernel
    elif name == "date_trunc":
        step.p0 = PARTS[options["unit"]]
        step.kernel = truncate_kernel
    elif name == "date_diff":
        step.p0 = PARTS[options["unit"]]
        step.kernel = difference_kernel
    elif name == "date_bin":
        step.p0 = options["stride"]
        step.p1 = options["origin"]
        step.kernel = bin_kernel
    elif name == "make_date":
        step.kernel = make_date_kernel
    elif name == "last_day":
        step.kernel = last_day_kernel
    elif name == "shift_time":
        step.kernel = shift_time_kernel
    elif name == "shift_days":
        step.kernel = shift_days_kernel
    elif name == "shift_interval":
        step.kernel = shift_interval_kernel
    elif name == "shift_instant":
        step.kernel = shift_instant_kernel
    elif name == "days_between":
        step.kernel = days_between_kernel
    elif name == "interval_add":
        step.kernel = interval_add_kernel
    elif name == "interval_multiply":
        step.kernel = interval_multiply_kernel
    else:
        return False
    return True
