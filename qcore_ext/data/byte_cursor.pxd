"""A cursor over bytes that may be damaged. After a fault it is at the end, and the bytes that it reads are zero."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef struct ByteCursor:
    const uint8_t* at
    const uint8_t* end
    const char* fault           # NULL until a fault is found
    const char* ends_early      # the fault if a byte is read after the end
    const char* is_too_long     # the fault if a number has more than 64 bits


cdef inline ByteCursor cursor_over(
    const uint8_t* data, int64_t n, const char* ends_early, const char* is_too_long,
) noexcept nogil:
    cdef ByteCursor cursor
    cursor.at = data
    cursor.end = data + n
    cursor.fault = NULL
    cursor.ends_early = ends_early
    cursor.is_too_long = is_too_long
    return cursor


# The first fault is kept.
cdef inline void fail(ByteCursor* cursor, const char* fault) noexcept nogil:
    if cursor.fault == NULL:
        cursor.fault = fault
    cursor.at = cursor.end


cdef inline uint8_t next_byte(ByteCursor* cursor) noexcept nogil:
    if cursor.at >= cursor.end:
        fail(cursor, cursor.ends_early)
        return 0
    cursor.at += 1
    return (cursor.at - 1)[0]


# A number in groups of seven bits, the lowest first.
cdef inline uint64_t next_varint(ByteCursor* cursor) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte = 0x80
    while byte & 0x80:
        if shift > 63:
            fail(cursor, cursor.is_too_long)
            return 0
        byte = next_byte(cursor)
        value |= (<uint64_t> (byte & 0x7F)) << shift
        shift += 7
    return value
