"""Window frames: the rows of a partition that a call reads for a row.

The values of a partition ascend; values in descending order are negated. Therefore the bounds of RANGE with a distance
are found by a position that moves along the partition. Adding months does not keep the order of dates, because months
have different lengths; there each row's bound is found by binary search. A row whose key is null or NaN has no distance
to other rows. Its frame ends at its peers.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from qcore_ext.compute.calendar cimport add_months, units_per_second
from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport (
    PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_U16, PHYS_U32, PHYS_U64,
    TYPE_DATE32, DataType,
)
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_unref, bytes_copy,
)
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.ground.wide cimport int128
from qcore_ext.window.partition_rows cimport PartitionRows, number_of_row

cdef int64_t DAY_NANOS = 86400000000000

ctypedef fused Measure:
    int128
    double


cdef int frames_find(
    const PartitionRows* rows, const Frame* frame, const Vector* key, const DataType* type, bint descending,
    uint32_t* lo,
    uint32_t* hi, MemoryAccount* account,
) except -1 nogil:
    cdef int64_t start = 0
    cdef int64_t i
    find_bound(rows, frame, False, key, type, descending, lo, account)
    find_bound(rows, frame, True, key, type, descending, hi, account)
    while start < rows.n:
        account_check(account)
        for i in range(start, min(rows.n, start + CHECK_ROWS)):
            if hi[i] < lo[i]:
                hi[i] = lo[i]
            qc_check(rows.part_begin[i] <= lo[i] and hi[i] <= rows.part_end[i], b"a frame is within its partition")
        start += CHECK_ROWS
    return 0


cdef int find_bound(
    const PartitionRows* rows, const Frame* frame, bint is_end, const Vector* key, const DataType* type,
    bint descending,
    uint32_t* out, MemoryAccount* account,
) except -1 nogil:
    cdef const FrameBound* bound = &frame.end if is_end else &frame.start
    cdef int64_t distance = bound.whole
    cdef const uint32_t* known = NULL
    cdef int64_t start = 0
    cdef int64_t i
    if frame.to_last if is_end else frame.from_first:
        known = rows.part_end if is_end else rows.part_begin
    elif bound.of_rows.of_column and frame.mode == FRAME_ROWS:
        return find_rows(rows, bound, is_end, out, account)
    elif bound.of_rows.of_column:
        return find_groups(rows, bound, is_end, out, account)
    elif frame.mode == FRAME_ROWS:
        while start < rows.n:
            account_check(account)
            for i in range(start, min(rows.n, start + CHECK_ROWS)):
                out[i] = <uint32_t> min(
                    max(i + distance + is_end, <int64_t> rows.part_begin[i]), <int64_t> rows.part_end[i]
                )
            start += CHECK_ROWS
        return 0
    elif distance == 0 and bound.real == 0 and not bound.by_calendar:
        known = rows.peer_end if is_end else rows.peer_begin
    elif frame.mode == FRAME_GROUPS:
        return find_groups(rows, bound, is_end, out, account)
    else:
        return find_range(rows, key, type, descending, bound, is_end, out, account)
    return bytes_copy(out, known, rows.n * <int64_t> sizeof(uint32_t), account)


cdef inline int distance_of_row(const FrameBound* bound, uint32_t row, int64_t* out) except -1 nogil:
    """The distance of a row in a frame of rows or groups; negative: preceding."""
    if not bound.of_rows.of_column:
        out[0] = bound.whole
        return 0
    if not number_of_row(&bound.of_rows, row, out):
        return raise_execution(b"the distance of a frame is null")
    if out[0] < 0:
        return raise_execution(b"the distance of a frame is negative")
    out[0] *= bound.sign
    return 0


cdef int find_rows(
    const PartitionRows* rows, const FrameBound* bound, bint is_end, uint32_t* out, MemoryAccount* account,
) except -1 nogil:
    cdef int64_t distance = 0
    cdef int64_t i
    for i in range(rows.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        distance_of_row(bound, rows.perm[i], &distance)
        out[i] = <uint32_t> min(max(i + distance + is_end, <int64_t> rows.part_begin[i]), <int64_t> rows.part_end[i])
    return 0


cdef int find_groups(
    const PartitionRows* rows, const FrameBound* bound, bint is_end, uint32_t* out, MemoryAccount* account,
) except -1 nogil:
    cdef Buffer* buffer = buffer_new(account, rows.n * sizeof(uint32_t))
    cdef uint32_t* bounds = <uint32_t*> buffer.data
    cdef int64_t distance = 0
    cdef int64_t i, wanted
    try:
        for i in range(rows.n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            qc_check(rows.group[i] < rows.n, b"a group's number is below the number of rows")
            bounds[rows.group[i]] = rows.peer_end[i] if is_end else rows.peer_begin[i]
        for i in range(rows.n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            distance_of_row(bound, rows.perm[i], &distance)
            wanted = <int64_t> rows.group[i] + distance
            if wanted < rows.group[rows.part_begin[i]]:
                out[i] = rows.part_begin[i]
            elif wanted > rows.group[rows.part_end[i] - 1]:
                out[i] = rows.part_end[i]
            else:
                out[i] = bounds[wanted]
    finally:
        buffer_unref(buffer)
    return 0


cdef int find_range(
    const PartitionRows* rows, const Vector* key, const DataType* type, bint descending, const FrameBound* bound,
    bint is_end, uint32_t* out, MemoryAccount* account,
) except -1 nogil:
    cdef Buffer* buffer
    cdef bint is_float = key != NULL and (key.phys == PHYS_F32 or key.phys == PHYS_F64)
    cdef double* doubles
    cdef int128* wholes
    cdef double real
    cdef int64_t i
    if key == NULL:
        return raise_execution(b"a RANGE frame with a distance needs exactly one key to order by: a number or a time")
    if bound.by_calendar:
        return find_calendar(rows, key, type, descending, bound, is_end, out, account)
    buffer = buffer_new(account, rows.n * sizeof(int128))
    try:
        doubles = <double*> buffer.data
        wholes = <int128*> buffer.data
        for i in range(rows.n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            if is_float:
                real = real_at(key, rows.perm[i])
                doubles[i] = -real if descending else real
            else:
                wholes[i] = -whole_at(key, rows.perm[i]) if descending else whole_at(key, rows.perm[i])
        if is_float:
            move_along[double](rows, key, doubles, bound.real, is_end, out, account)
        else:
            move_along[int128](rows, key, wholes, <int128> bound.whole, is_end, out, account)
    finally:
        buffer_unref(buffer)
    return 0


cdef int move_along(
    const PartitionRows* rows, const Vector* key, const Measure* values, Measure distance, bint is_end, uint32_t* out,
    const MemoryAccount* account,
) except -1 nogil:
    """Find each row's bound among the rows of its partition that have a value."""
    cdef int64_t start = 0
    cdef int64_t end, first, last, i, at
    while start < rows.n:
        end = rows.part_end[start]
        first = start
        last = end
        while first < last and not has_value(key, rows.perm[first], values[first] == values[first]):
            first += 1
            if first % CHECK_ROWS == 0:
                account_check(account)
        while last > first and not has_value(key, rows.perm[last - 1], values[last - 1] == values[last - 1]):
            last -= 1
            if last % CHECK_ROWS == 0:
                account_check(account)
        at = first
        for i in range(start, end):
            if i % CHECK_ROWS == 0:
                account_check(account)
            if i < first or i >= last:
                out[i] = rows.peer_end[i] if is_end else rows.peer_begin[i]
                continue
            if is_end:
                while at < last and values[at] <= values[i] + distance:
                    at += 1
            else:
                while at < last and values[at] < values[i] + distance:
                    at += 1
            out[i] = <uint32_t> at
        start = end
    return 0


cdef int find_calendar(
    const PartitionRows* rows, const Vector* key, const DataType* type, bint descending, const FrameBound* bound,
    bint is_end, uint32_t* out, MemoryAccount* account,
) except -1 nogil:
    """Find the bounds for a distance of months, days and nanoseconds. All values are converted to nanoseconds."""
    cdef int128 unit = DAY_NANOS if type.id == TYPE_DATE32 else 1000000000 / units_per_second(type.unit)
    cdef int64_t start = 0
    cdef int64_t end, first, last, i
    cdef int128 wanted
    while start < rows.n:
        end = rows.part_end[start]
        first = start
        last = end
        while first < last and not is_valid(key.validity, rows.perm[first]):
            first += 1
            if first % CHECK_ROWS == 0:
                account_check(account)
        while last > first and not is_valid(key.validity, rows.perm[last - 1]):
            last -= 1
            if last % CHECK_ROWS == 0:
                account_check(account)
        for i in range(start, end):
            if i % CHECK_ROWS == 0:
                account_check(account)
            if i < first or i >= last:
                out[i] = rows.peer_end[i] if is_end else rows.peer_begin[i]
                continue
            # In a descending order a later row is earlier in time.
            wanted = add_interval(whole_at(key, rows.perm[i]) * unit, bound, -1 if descending else 1)
            out[i] = <uint32_t> search(rows, key, unit, descending, is_end, wanted, first, last)
        start = end
    return 0


cdef inline int64_t search(
    const PartitionRows* rows, const Vector* key, int128 unit, bint descending, bint is_end, int128 wanted,
    int64_t first,
    int64_t last,
) noexcept nogil:
    """The first position of first..last whose value is not before `wanted`, or, for an end, is after it."""
    cdef int64_t middle
    cdef int128 value
    while first < last:
        middle = first + ((last - first) >> 1)
        value = whole_at(key, rows.perm[middle]) * unit - wanted
        if descending:
            value = -value
        if value < 0 or (is_end and value == 0):
            first = middle + 1
        else:
            last = middle
    return first


cdef inline int128 add_interval(int128 nanos, const FrameBound* bound, int sign) noexcept nogil:
    cdef int128 day = nanos / DAY_NANOS
    cdef int128 rest
    if nanos < day * DAY_NANOS:
        day -= 1
    rest = nanos - day * DAY_NANOS
    # The calendar is defined for days of 32 bits only.
    if bound.months != 0 and -2147483648LL <= day <= 2147483647LL:
        day = add_months(<int64_t> day, sign * bound.months)
    return (day + sign * bound.days) * DAY_NANOS + rest + <int128> sign * bound.nanos


cdef inline bint has_value(const Vector* key, uint32_t row, bint is_number) noexcept nogil:
    return is_number and is_valid(key.validity, row)


cdef inline double real_at(const Vector* key, uint32_t row) noexcept nogil:
    if key.phys == PHYS_F64:
        return (<const double*> key.values)[row]
    return (<const float*> key.values)[row]


cdef inline int128 whole_at(const Vector* key, uint32_t row) noexcept nogil:
    cdef uint8_t phys = key.phys
    if phys == PHYS_I64:
        return <int128> (<const int64_t*> key.values)[row]
    if phys == PHYS_I32:
        return <int128> (<const int32_t*> key.values)[row]
    if phys == PHYS_I128:
        return (<const int128*> key.values)[row]
    if phys == PHYS_I16:
        return <int128> (<const int16_t*> key.values)[row]
    if phys == PHYS_I8:
        return <int128> (<const int8_t*> key.values)[row]
    if phys == PHYS_U64:
        return <int128> (<const uint64_t*> key.values)[row]
    if phys == PHYS_U32:
        return <int128> (<const uint32_t*> key.values)[row]
    if phys == PHYS_U16:
        return <int128> (<const uint16_t*> key.values)[row]
    return <int128> (<const uint8_t*> key.values)[row]
