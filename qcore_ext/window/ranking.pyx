"""Ranking functions: numbers computed from a row's position in its partition, such as row_number and rank."""

from libc.stdint cimport int64_t, uint8_t

from qcore_ext.ground.bitmap cimport bit_clear
from qcore_ext.ground.memory cimport CHECK_ROWS, MemoryAccount, account_check
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.window.partition_rows cimport Numbers, PartitionRows, number_of_row


cdef int compute_numbers(
    const PartitionRows* rows, int kind, int64_t* out, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t i, at
    for i in range(rows.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        at = i - rows.part_begin[i]
        if kind == ROW_NUMBER:
            out[i] = at + 1
        elif kind == RANK:
            out[i] = <int64_t> rows.peer_begin[i] - rows.part_begin[i] + 1
        elif kind == DENSE_RANK:
            out[i] = <int64_t> rows.group[i] - rows.group[rows.part_begin[i]] + 1
        else:
            out[i] = <int64_t> rows.part_end[i] - rows.part_begin[i]
    return 0


cdef int compute_tiles(
    const PartitionRows* rows, const Numbers* tiles, int64_t* out, uint8_t* validity, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t n_tiles = 1
    cdef int64_t i
    for i in range(rows.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        if not number_of_row(tiles, rows.perm[i], &n_tiles):
            bit_clear(validity, i)
            out[i] = 0
            continue
        if n_tiles < 1:
            return raise_execution(b"the number of tiles of ntile must be positive")
        out[i] = tile(i - rows.part_begin[i], <int64_t> rows.part_end[i] - rows.part_begin[i], n_tiles)
    return 0


cdef int compute_fractions(
    const PartitionRows* rows, int kind, double* out, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t i, size
    for i in range(rows.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        size = <int64_t> rows.part_end[i] - rows.part_begin[i]
        if kind == CUME_DIST:
            out[i] = <double> (<int64_t> rows.peer_end[i] - rows.part_begin[i]) / size
        elif size > 1:
            out[i] = <double> (<int64_t> rows.peer_begin[i] - rows.part_begin[i]) / (size - 1)
        else:
            out[i] = 0.0
    return 0


cdef inline int64_t tile(int64_t at, int64_t size, int64_t n_tiles) noexcept nogil:
    """The number of the tile of row `at` of `size` rows, from 1 on. Larger tiles come first."""
    cdef int64_t small = size / n_tiles
    cdef int64_t n_large = size % n_tiles
    if at < n_large * (small + 1):
        return at / (small + 1) + 1
    return n_large + (at - n_large * (small + 1)) / max(small, <int64_t> 1) + 1
