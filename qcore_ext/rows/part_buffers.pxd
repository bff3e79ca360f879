"""Buffers for the rows of RADIX_PARTS parts: rows are scattered by hash, a column or two at a time.

The values of a part are collected in a line of the cache first. Full lines are written to the buffer of the part, past
the caches. Radix groups (aggregate/radix_groups) group the rows of a part when its buffer is full. An exchange
(exchange/part_pages) passes the buffers on.
"""

from libc.stdint cimport int64_t, int32_t, uint8_t, uint32_t, uint64_t

from qcore_ext.compute.row_hash cimport HASH_RADIX_SHIFT
from qcore_ext.data.column cimport VECTOR_ROWS, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

cdef enum:
    RADIX_PARTS = 256


cdef inline int64_t part_of_hash(uint64_t hash) noexcept nogil:
    """The part of a row, by the hash of its keys."""
    return (hash >> HASH_RADIX_SHIFT) & (RADIX_PARTS - 1)


ctypedef struct PartColumn:
    uint8_t phys
    int width                   # bytes a value
    Buffer* values              # owned; the rows of part p begin at p * rows_each; NULL before the first row
    Buffer* valid               # owned; one byte a row; NULL before the first null
    # A line for each part, with the values of its last rows that do not fill one. Parts of PartBuffers.lines.
    char* lines
    char* valid_lines


ctypedef struct PartBuffers:
    MemoryAccount* account      # borrowed
    int64_t rows_each           # capacity of the buffer of one part, in rows
    int32_t n_columns
    PartColumn* columns         # owned
    Buffer* lines               # owned
    uint32_t n_rows[RADIX_PARTS]    # number of buffered rows of each part
    uint32_t counts[RADIX_PARTS]    # n_rows after the vector, once a column is scattered
    uint8_t parts[VECTOR_ROWS]      # the part of each row of the vector
    uint8_t valid[VECTOR_ROWS]


# The largest number of rows, not above `rows_each`, for which the buffers of rows of `row_bytes` bytes take at most
# `bytes_max`. 0 if that is less than a few vectors a part.
cdef int64_t part_buffers_rows(int64_t rows_each, int64_t row_bytes, int64_t bytes_max) noexcept nogil
# Columns of the types, then one of hashes if `with_hashes`. Memory for rows is allocated when the first come.
cdef PartBuffers* part_buffers_new(
    MemoryAccount* account, const DataType* types, int32_t n_types, bint with_hashes, int64_t rows_each,
) except NULL nogil
cdef void part_buffers_free(PartBuffers* buffers) noexcept nogil       # NULL is ignored
# Write the part of each row of the next vector to buffers.parts. Returns whether a part may have no space for its rows.
cdef bint part_buffers_assign(PartBuffers* buffers, const uint64_t* hashes, int64_t n) noexcept nogil
# The number of the next vector's rows of each part.
cdef void part_buffers_count(const PartBuffers* buffers, int64_t n, uint32_t* counts) noexcept nogil
# Add the n rows of the next vector. Each part must have space for its rows. Views of long strings are copied as they
# are.
cdef int part_buffers_add(PartBuffers* buffers, const Vector* vectors, int64_t n) except -1 nogil
# Write the lines of a part to its buffers, before its rows are read.
cdef void part_buffers_complete(PartBuffers* buffers, int64_t part) noexcept nogil
# Drop the memory for rows. The parts have no rows afterwards.
cdef void part_buffers_drop(PartBuffers* buffers) noexcept nogil
