"""The sorted rows of a window, and for each row the bounds of its partition and of its peers."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport CHECK_ROWS, MemoryAccount, account_check, buffer_new, buffer_unref
from qcore_ext.sort.order cimport SortKey, sort_compare
from qcore_ext.sort.radix cimport SortEntry
from qcore_ext.sort.run cimport SortRun

cdef enum:
    N_ARRAYS = 6


cdef int partition_rows_init(
    PartitionRows* self, const SortRun* run, const SortKey* parts, int32_t n_partition, MemoryAccount* account,
) except -1 nogil:
    cdef int64_t n = run.rows.n_rows
    cdef uint32_t* arrays
    self.buffer = buffer_new(account, N_ARRAYS * n * sizeof(uint32_t))
    arrays = <uint32_t*> self.buffer.data
    self.n = n
    self.perm = arrays
    self.part_begin = arrays + n
    self.part_end = arrays + 2 * n
    self.peer_begin = arrays + 3 * n
    self.peer_end = arrays + 4 * n
    self.group = arrays + 5 * n
    find_begins(self, run, parts, n_partition, account)
    find_ends(self.part_begin, n, self.part_end, account)
    find_ends(self.peer_begin, n, self.peer_end, account)
    check_bounds(self)
    return 0


cdef inline void check_bounds(const PartitionRows* self) noexcept nogil:
    """In a debug build: each row is within its peers, and these are within their partition."""
    cdef int64_t i
    qc_check_rows(self.perm, self.n, self.n, b"a sorted row is a row of the window")
    for i in range(self.n):
        qc_check(self.part_begin[i] <= self.peer_begin[i] <= i, b"a row's peers and partition begin at most at the row")
        qc_check(i < self.peer_end[i] <= self.part_end[i] <= self.n, b"a row's peers and partition end after the row")


cdef int find_begins(
    PartitionRows* self, const SortRun* run, const SortKey* parts, int32_t n_partition, const MemoryAccount* account,
) except -1 nogil:
    cdef const SortEntry* entries = <const SortEntry*> run.entries.data
    cdef uint32_t part = 0
    cdef uint32_t peer = 0
    cdef uint32_t group = 0
    cdef uint32_t a, b
    cdef int64_t i
    for i in range(self.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        b = entries[i].row
        if i > 0:
            a = entries[i - 1].row
            if sort_compare(parts, 0, n_partition, run.keys, a, run.keys, b) != 0:
                part = peer = <uint32_t> i
                group += 1
            elif sort_compare(parts, n_partition, run.n_keys, run.keys, a, run.keys, b) != 0:
                peer = <uint32_t> i
                group += 1
        self.perm[i] = b
        self.part_begin[i] = part
        self.peer_begin[i] = peer
        self.group[i] = group
    return 0


cdef int find_ends(const uint32_t* begins, int64_t n, uint32_t* ends, const MemoryAccount* account) except -1 nogil:
    cdef int64_t i = n - 1
    while i >= 0:
        if i % CHECK_ROWS == 0:
            account_check(account)
        ends[i] = <uint32_t> (i + 1) if i == n - 1 or begins[i + 1] != begins[i] else ends[i + 1]
        i -= 1
    return 0


cdef void partition_rows_free(PartitionRows* self) noexcept nogil:
    buffer_unref(self.buffer)
    self.buffer = NULL
    self.n = 0
