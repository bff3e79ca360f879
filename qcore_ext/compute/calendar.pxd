"""The proleptic Gregorian calendar: conversions between days since 1970-01-01 and year, month, day."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


ctypedef struct Civil:
    int64_t year
    int32_t month               # 1 to 12
    int32_t day                 # 1 to 31


ctypedef struct Interval:
    # The layout of Arrow's month_day_nano.
    int32_t months
    int32_t days
    int64_t nanoseconds


cdef inline int64_t floor_divide(int64_t a, int64_t b) noexcept nogil:
    """The quotient rounded down. b must be positive."""
    return (a if a >= 0 else a - (b - 1)) / b


cdef inline int64_t rounded_ticks(int64_t ticks, int64_t unit) noexcept nogil:
    """How many units of so many ticks, rounded; halves away from zero."""
    cdef int64_t rest = ticks % unit
    return ticks / unit + (1 if 2 * rest >= unit else -1 if -2 * rest >= unit else 0)


cdef inline Civil civil_of(int64_t days) noexcept nogil:
    """The date of a day within half a billion days of 1970. The result for other days is not defined."""
    # Years begin in March here, so that the leap day is the last day of its year. Adding 400-year cycles makes all
    # numbers positive, because 32-bit unsigned divisions by constants are multiplications (Neri and Schneider,
    # "Euclidean affine functions and their application to calendar algorithms", 2022). 64-bit signed divisions take
    # twice as long.
    cdef Civil out
    cdef uint32_t quarters = 4 * <uint32_t> (days + 719468 + 3670 * 146097) + 3
    cdef uint32_t century = quarters / 146097
    cdef uint32_t day_of_century = quarters % 146097 / 4
    cdef uint64_t product = <uint64_t> 2939745 * (4 * day_of_century + 3)
    cdef uint32_t year_of_century = <uint32_t> (product >> 32)
    cdef uint32_t day_of_year = <uint32_t> product / 2939745 / 4
    cdef uint32_t shifted = 2141 * day_of_year + 197913
    cdef uint32_t month = shifted >> 16
    cdef bint is_next_year = day_of_year >= 306
    out.year = <int64_t> (100 * century + year_of_century) - 3670 * 400 + is_next_year
    out.month = <int32_t> (month - 12 if is_next_year else month)
    out.day = <int32_t> ((shifted & 0xFFFF) / 2141 + 1)
    return out


cdef inline int64_t days_of(int64_t year, int64_t month, int64_t day) noexcept nogil:
    cdef int64_t shifted = year - 1 if month <= 2 else year
    cdef int64_t era = floor_divide(shifted, 400)
    cdef int64_t year_of_era = shifted - era * 400
    cdef int64_t day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) / 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468


cdef inline bint is_leap(int64_t year) noexcept nogil:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


cdef inline int64_t days_in_month(int64_t year, int64_t month) noexcept nogil:
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


cdef inline int64_t add_months(int64_t days, int64_t months) noexcept nogil:
    """The same day of another month, or the month's last day if it is shorter."""
    cdef Civil civil = civil_of(days)
    cdef int64_t month = civil.year * 12 + civil.month - 1 + months
    cdef int64_t year = floor_divide(month, 12)
    month = month - year * 12 + 1
    return days_of(year, month, min(<int64_t> civil.day, days_in_month(year, month)))


cdef inline int64_t units_per_second(int unit) noexcept nogil:
    """The number of a TimeUnit's units in a second."""
    return 1 if unit == 0 else 1000 if unit == 1 else 1000000 if unit == 2 else 1000000000
