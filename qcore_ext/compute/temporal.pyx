"""Kernels of dates, timestamps and intervals. Floor E2."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.compute.calendar cimport Civil, add_months, civil_of, days_of, floor_divide, units_per_second
from qcore_ext.compute.kernel cimport (
    ERROR_OVERFLOW, STEP_STRICT, Frame, Register, Step, arg, frame_fail, result, store_integer,
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
    HOUR
    MINUTE
    SECOND
    EPOCH

cdef int64_t DAY_SECONDS = 86400
cdef int64_t DAY_NANOS = 86400 * 1000000000LL


ctypedef struct Interval:
    # As Arrow lays out month_day_nano.
    int32_t months
    int32_t days
    int64_t nanoseconds


cdef inline int64_t ticks_at(const Register* register, int64_t row) noexcept nogil:
    if register.phys == PHYS_I32:
        return (<const int32_t*> register.values)[row]
    return (<const int64_t*> register.values)[row]


# --- parts ---

cdef int64_t iso_week(int64_t days) noexcept nogil:
    """Week of the ISO year: that of the week's Thursday."""
    cdef int64_t weekday = (days + 3) - floor_divide(days + 3, 7) * 7       # Monday 0
    cdef int64_t thursday = days - weekday + 3
    return (thursday - days_of(civil_of(thursday).year, 1, 1)) / 7 + 1


cdef int64_t date_part(int64_t part, int64_t days) noexcept nogil:
    cdef Civil civil
    if part == DAY_OF_WEEK:
        return days + 4 - floor_divide(days + 4, 7) * 7                     # Sunday 0
    if part == WEEK:
        return iso_week(days)
    civil = civil_of(days)
    if part == YEAR:
        return civil.year
    if part == MONTH:
        return civil.month
    if part == DAY:
        return civil.day
    if part == QUARTER:
        return (civil.month + 2) / 3
    return days - days_of(civil.year, 1, 1) + 1


cdef inline int64_t time_part(int64_t part, int64_t seconds) noexcept nogil:
    """Of seconds since midnight."""
    return seconds / 3600 if part == HOUR else seconds / 60 % 60 if part == MINUTE else seconds % 60


cdef int64_t interval_part(int64_t part, const Interval* interval) noexcept nogil:
    if part == YEAR:
        return interval.months / 12
    if part == QUARTER:
        return interval.months % 12 / 3 + 1
    if part == MONTH:
        return interval.months % 12
    if part == DAY:
        return interval.days
    if part == EPOCH:
        return (interval.months * 30 + interval.days) * DAY_SECONDS + interval.nanoseconds / 1000000000
    return time_part(part, interval.nanoseconds / 1000000000)


cdef int part_kernel(const Step* step, Frame* frame) except -1 nogil:
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
            out[i] = ticks * DAY_SECONDS if part == EPOCH else date_part(part, ticks)
    elif step.arg_types[0].id == TYPE_INTERVAL:
        for i in range(n):
            out[i] = interval_part(part, (<const Interval*> a.values) + i)
    else:
        for i in range(n):
            ticks = ticks_at(a, i)
            if part == EPOCH:
                out[i] = floor_divide(ticks, per_second)
            elif part < HOUR:
                out[i] = date_part(part, floor_divide(ticks, per_day))
            else:
                out[i] = time_part(part, (ticks - floor_divide(ticks, per_day) * per_day) / per_second)
    return 0


# --- truncation ---

cdef int64_t truncated_day(int64_t unit, int64_t days) noexcept nogil:
    """First day of the unit that `days` lies in."""
    cdef Civil civil
    if unit == WEEK:
        return days - ((days + 3) - floor_divide(days + 3, 7) * 7)          # back to Monday
    if unit >= DAY:
        return days
    civil = civil_of(days)
    if unit == YEAR:
        return days_of(civil.year, 1, 1)
    if unit == QUARTER:
        return days_of(civil.year, (civil.month - 1) / 3 * 3 + 1, 1)
    return days_of(civil.year, civil.month, 1)


cdef int truncate_kernel(const Step* step, Frame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int64_t per_second = step.p1
    cdef int64_t per_unit = per_second * (3600 if step.p0 == HOUR else 60 if step.p0 == MINUTE else 1)
    cdef int64_t per_day = per_second * DAY_SECONDS
    cdef int64_t i, ticks
    for i in range(frame.n):
        ticks = ticks_at(a, i)
        if step.type.id == TYPE_DATE32:
            (<int32_t*> out.own_values)[i] = <int32_t> truncated_day(step.p0, ticks)
        elif step.p0 >= HOUR:
            (<int64_t*> out.own_values)[i] = floor_divide(ticks, per_unit) * per_unit
        else:
            (<int64_t*> out.own_values)[i] = truncated_day(step.p0, floor_divide(ticks, per_day)) * per_day
    return 0


# --- sums and differences ---

cdef int shift_days_kernel(const Step* step, Frame* frame) except -1 nogil:
    cdef const int32_t* dates = <const int32_t*> arg(step, frame, 0).values
    cdef const int64_t* days = <const int64_t*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef int64_t i
    for i in range(frame.n):
        if not store_integer(PHYS_I32, out.own_values, i, <int128> dates[i] + <int128> step.p0 * days[i]):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int shift_interval_kernel(const Step* step, Frame* frame) except -1 nogil:
    """A date or a timestamp and an interval: months first, then days, then the rest."""
    cdef Register* a = arg(step, frame, 0)
    cdef const Interval* intervals = <const Interval*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef bint is_date = step.type.id == TYPE_DATE32
    cdef int64_t per_day = DAY_SECONDS * step.p1
    cdef int64_t per_tick = 1000000000 / step.p1
    cdef int64_t i, days
    cdef int64_t rest = 0
    cdef int64_t sign = step.p0
    cdef int128 moved
    for i in range(frame.n):
        days = ticks_at(a, i)
        if not is_date:
            rest = days
            days = floor_divide(rest, per_day)
            rest -= days * per_day
        # The calendar only knows what a date can hold; a null row may hold anything.
        if days < -2147483648LL or days > 2147483647LL:
            days = 0
        if intervals[i].months != 0:
            days = add_months(days, sign * intervals[i].months)
        days += sign * intervals[i].days
        if is_date:
            moved = days + floor_divide(sign * intervals[i].nanoseconds, DAY_NANOS)
        else:
            moved = <int128> days * per_day + rest + floor_divide(sign * intervals[i].nanoseconds, per_tick)
        if not store_integer(step.type.phys, out.own_values, i, moved):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int days_between_kernel(const Step* step, Frame* frame) except -1 nogil:
    cdef const int32_t* a = <const int32_t*> arg(step, frame, 0).values
    cdef const int32_t* b = <const int32_t*> arg(step, frame, 1).values
    cdef int64_t* out = <int64_t*> result(step, frame).own_values
    cdef int64_t i
    cdef int64_t n = frame.n
    for i in range(n):
        out[i] = <int64_t> a[i] - <int64_t> b[i]
    return 0


cdef int store_interval(
    const Step* step, Frame* frame, int64_t row, int128 months, int128 days, int128 nanoseconds,
) except -1 nogil:
    cdef Interval* out = (<Interval*> result(step, frame).own_values) + row
    out.months = <int32_t> months
    out.days = <int32_t> days
    out.nanoseconds = <int64_t> nanoseconds
    if months != out.months or days != out.days or nanoseconds != out.nanoseconds:
        frame_fail(frame, step, row, ERROR_OVERFLOW)
    return 0


cdef int interval_add_kernel(const Step* step, Frame* frame) except -1 nogil:
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


cdef int interval_multiply_kernel(const Step* step, Frame* frame) except -1 nogil:
    cdef const Interval* a = <const Interval*> arg(step, frame, 0).values
    cdef const int64_t* b = <const int64_t*> arg(step, frame, 1).values
    cdef int128 times
    cdef int64_t i
    for i in range(frame.n):
        times = b[i]
        store_interval(step, frame, i, times * a[i].months, times * a[i].days, times * a[i].nanoseconds)
    return 0


cdef bint temporal_bind(Step* step, str name, dict options) except -1:
    parts = {
        "year": YEAR, "quarter": QUARTER, "month": MONTH, "week": WEEK, "day": DAY, "day_of_week": DAY_OF_WEEK,
        "day_of_year": DAY_OF_YEAR, "hour": HOUR, "minute": MINUTE, "second": SECOND, "epoch": EPOCH,
    }
    step.flags = STEP_STRICT
    step.p0 = options.get("sign", 1)
    step.p1 = units_per_second(step.arg_types[0].unit) if step.n_args > 0 else 1
    if name == "part":
        step.p0 = parts[options["part"]]
        step.kernel = part_kernel
    elif name == "date_trunc":
        step.p0 = parts[options["unit"]]
        step.kernel = truncate_kernel
    elif name == "shift_days":
        step.kernel = shift_days_kernel
    elif name == "shift_interval":
        step.kernel = shift_interval_kernel
    elif name == "days_between":
        step.kernel = days_between_kernel
    elif name == "interval_add":
        step.kernel = interval_add_kernel
    elif name == "interval_multiply":
        step.kernel = interval_multiply_kernel
    else:
        return False
    return True
