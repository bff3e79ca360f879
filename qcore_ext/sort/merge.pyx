"""The shared state of a sort's drivers. Each driver delivers its run, and the last one merges all runs."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.flow.barrier cimport Membership, barrier_join, barrier_leave
from qcore_ext.sort.order cimport SortKey, sort_compare
from qcore_ext.sort.run cimport SortEntry, SortRun, sort_run_free

cdef int64_t ROWS_MAX = 0xFFFFFFFE


cdef class SortState:
    """The state that the drivers of one OrderBy share.

    Parameters
    ----------
    n_drivers : int
        The number of OrderBy operators that share it.
    """

    def __cinit__(self, int64_t n_drivers):
        if n_drivers < 1:
            raise ValueError(f"a sort needs at least one driver, but n_drivers is {n_drivers}")
        mutex_init(&self.mutex, LOCK_STRUCTURE)
        self.n_drivers = n_drivers
        self.barrier.n_members = n_drivers
        self.runs = <SortRun**> struct_new(n_drivers * sizeof(SortRun*))

    def __dealloc__(self):
        self.clear()
        struct_free(self.runs)
        mutex_destroy(&self.mutex)

    cdef void join(self, Membership* member) noexcept nogil:
        barrier_join(member)

    cdef bint deliver(self, SortRun* run, Membership* member) noexcept nogil:
        cdef bint last
        mutex_lock(&self.mutex)
        if run != NULL:
            qc_check(self.n_runs < self.n_drivers, b"each driver delivers at most one run")
            self.runs[self.n_runs] = run
            self.n_runs += 1
        last = barrier_leave(&self.barrier, member) == 0
        mutex_unlock(&self.mutex)
        return last

    cdef void clear(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.n_runs):
            sort_run_free(self.runs[i])
        self.n_runs = 0


cdef Buffer* merge_runs(
    SortRun** runs, int64_t n_runs, const SortKey* parts, int32_t first_open, int32_t n_keys, MemoryAccount* account,
) except NULL nogil:
    cdef int64_t n_rows = 0
    cdef int64_t i
    for i in range(n_runs):
        n_rows += runs[i].rows.n_rows
    if n_rows > ROWS_MAX:
        raise_execution(b"a sort has more than 2**32 - 2 rows, which is the most that it can order")
        return NULL
    cdef Buffer* out = buffer_new(account, n_rows * sizeof(uint32_t))
    cdef int64_t* at = NULL
    cdef bint done = False
    try:
        at = <int64_t*> struct_new(2 * n_runs * sizeof(int64_t))
        merge_into(runs, n_runs, parts, first_open, n_keys, n_rows, at, at + n_runs, <uint32_t*> out.data, account)
        done = True
    finally:
        if not done:
            buffer_unref(out)
        struct_free(at)
    return out


cdef int merge_into(
    SortRun** runs, int64_t n_runs, const SortKey* parts, int32_t first_open, int32_t n_keys, int64_t n_rows,
    int64_t* heads, int64_t* bases, uint32_t* out, const MemoryAccount* account,
) except -1 nogil:
    """Repeatedly take the smallest of the runs' heads. There is one run a driver, too few for a heap to be faster."""
    cdef const SortEntry* entry
    cdef const SortEntry* best
    cdef int64_t base = 0
    cdef int64_t i, j, best_run
    cdef bint before
    for j in range(n_runs):
        bases[j] = base
        base += runs[j].rows.n_rows
    for i in range(n_rows):
        if i % CHECK_ROWS == 0:
            account_check(account)
        best = NULL
        best_run = 0
        for j in range(n_runs):
            qc_check(heads[j] <= runs[j].rows.n_rows, b"a run's head is at most its end")
            if heads[j] == runs[j].rows.n_rows:
                continue
            entry = (<const SortEntry*> runs[j].entries.data) + heads[j]
            before = best == NULL or entry.prefix < best.prefix
            if not before and entry.prefix == best.prefix and first_open < n_keys:
                before = sort_compare(
                    parts, first_open, n_keys, runs[j].keys, entry.row, runs[best_run].keys, best.row
                ) < 0
            if before:
                best = entry
                best_run = j
        qc_check(best != NULL, b"a run has rows left while rows are missing")
        qc_check(best.row < runs[best_run].rows.n_rows, b"an entry's row is a row of its run")
        out[i] = <uint32_t> (bases[best_run] + best.row)
        heads[best_run] += 1
    return 0
