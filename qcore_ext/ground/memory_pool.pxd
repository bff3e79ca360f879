"""Memory that several queries share, and which of them may go on while it is short. SPEC V7.

A reservation is made in the middle of a call and cannot wait, so drivers wait before the calls that make queries grow:
before a source is asked for more, and before an operator is told that its input is over. Up to an eighth of the limit
all queries go on. Above, one *leads* and goes on; the others' drivers leave their threads. So what does not lead holds
about an eighth (twice that where tables were just doubling), and whoever leads has the rest to itself.

The lead passes on when the query ends, and also when every driver of the pool's queries is blocked: the one that leads
waits for something outside then, perhaps for the reader of a query that waits for it.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.ground.wait_token cimport WaitList, WaitToken

cdef enum:
    OPEN_SHIFT = 3              # up to this part of the limit, an eighth, all queries go on


ctypedef struct RunningQuery:
    RunningQuery* next
    MemoryAccount* query        # borrowed


ctypedef struct CMemoryPool:
    MemoryAccount account       # first: the parent of its queries' accounts, by which they find it
    Mutex mutex
    WaitList waiting            # drivers that leave the lead to others; the mutex guards it
    int64_t n_waiting           # atomic; tokens in it
    RunningQuery* running       # owned list; the mutex guards it
    void* leader                # atomic; the leading query's MemoryAccount, only compared; NULL: whoever comes next
    int64_t n_going             # atomic; its queries' drivers that are queued or running, and not asleep in a call


cdef inline CMemoryPool* pool_of(const MemoryAccount* account) noexcept nogil:
    """The pool that the account's query is charged to, or NULL."""
    return <CMemoryPool*> account.query.parent


cdef inline bint pool_is_short(CMemoryPool* pool) noexcept nogil:
    """Whether only the query that leads may go on."""
    cdef int64_t limit = qc_load(&pool.account.limit)
    return limit > 0 and qc_load(&pool.account.reserved) > limit >> OPEN_SHIFT


# Called while the pool is short. True: another query leads, and `token` fires when that may have changed.
cdef bint pool_wait(CMemoryPool* pool, MemoryAccount* query, WaitToken* token) except -1 nogil
# The query has begun; MemoryLimitError when the machine has no memory for the note.
cdef int pool_enter(CMemoryPool* pool, MemoryAccount* query) except -1 nogil
# Bytes that no running query has: rows of queries that are over, which nobody has read or which somebody still holds.
cdef int64_t pool_held(CMemoryPool* pool) noexcept nogil
# The query is over, whether it had begun or not. What is left of it counts until it is let go.
cdef void pool_leave(CMemoryPool* pool, MemoryAccount* query) noexcept nogil
# One driver more (1) or less (-1) is queued or running. When none is left, the lead passes on.
cdef void pool_going(CMemoryPool* pool, int64_t by) noexcept nogil

# Around a driver's turn: this thread's driver belongs to a query of `pool`. Returns what was so before.
cdef CMemoryPool* pool_turn(CMemoryPool* pool) noexcept nogil
# The pool of the driver whose turn it is on this thread; NULL for none.
cdef CMemoryPool* pool_of_turn() noexcept nogil


cdef class MemoryPool:
    cdef CMemoryPool* pool      # owned
    cdef int64_t process        # fork_number() of the process whose queries are in it
    cdef int64_t own_limit      # of the queries and of what is kept beside them; the GIL guards both
    cdef int64_t n_kept

    cdef int begin(self, int64_t limit) except -1
    cdef CMemoryPool* here(self) except NULL
    cdef int share_out(self) except -1
