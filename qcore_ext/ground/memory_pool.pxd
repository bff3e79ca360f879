"""Memory that several queries share, and the rule for which of them continue while it is short.

A reservation is made in the middle of a call and cannot wait. So drivers wait before the calls that make queries grow:
before a source reads a batch, and before `finish`. Below one eighth of the limit every query continues. Above it
one query holds the *lead* and continues; drivers of the other queries leave their threads. The queries without the lead
hold about an eighth of the limit (up to twice that if their tables were just doubled), and the lead has the rest.

`finish` may multiply what the query holds in one call: a sort adds two to three times the bytes of its rows. So memory
counts as short there if it would be short after that growth.

The lead passes on when its query ends, and when every driver of the pool's queries is blocked. In the second case the
leading query waits for something outside, perhaps for the reader of a query that waits for it.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport MemoryAccount, Owner
from qcore_ext.ground.wait_token cimport WaitList, WaitToken

cdef enum:
    OPEN_SHIFT = 3              # below this part of the limit, an eighth, every query continues
    GROWTH_AT_FINISH = 3        # times the bytes of a query by which one `finish` may increase them


ctypedef struct PooledQuery:
    # A query that began. It is in its pool's list until its account is freed, with the last of its bytes.
    PooledQuery* next
    MemoryAccount* query        # borrowed
    bint is_over
    void (*free_account)(Owner* self) noexcept nogil    # how the account is freed otherwise


ctypedef struct CMemoryPool:
    MemoryAccount account       # first: the parent of the accounts of its queries, which find the pool by it
    Mutex mutex
    WaitList waiting            # tokens of drivers that wait for the lead; the mutex guards it
    int64_t n_waiting           # atomic; number of those tokens
    PooledQuery* queries        # owned list; the mutex guards it
    int64_t process             # fork_number() of the process whose queries these are
    void* leader                # atomic; the leading query's MemoryAccount, only compared; NULL: the next one leads
    int64_t n_going             # atomic; drivers of its queries that are queued or running, and not asleep in a call


cdef inline CMemoryPool* pool_of(const MemoryAccount* account) noexcept nogil:
    """The pool that the account's query is charged to, or NULL."""
    return <CMemoryPool*> account.query.parent


cdef inline bint pool_is_short(CMemoryPool* pool, int64_t growth) noexcept nogil:
    """Whether only the leading query may continue if the next call reserves `growth` bytes."""
    cdef int64_t limit = qc_load(&pool.account.limit)
    return limit > 0 and qc_load(&pool.account.reserved) + growth > limit >> OPEN_SHIFT


# Called while the pool is short for `growth`. True: another query leads, and `token` is fired when that may have
# changed.
cdef bint pool_wait(CMemoryPool* pool, MemoryAccount* query, int64_t growth, WaitToken* token) except -1 nogil
# A query begins. Raises MemoryLimitError if the machine has no memory left.
cdef int pool_enter(CMemoryPool* pool, MemoryAccount* query) except -1 nogil
# Bytes of queries that are over: rows which were not read yet or are still referenced. Bytes that running queries
# reserve or release meanwhile do not count.
cdef int64_t pool_held(CMemoryPool* pool) noexcept nogil
# A query ends, whether or not it began. Its remaining bytes count until they are released.
cdef void pool_leave(CMemoryPool* pool, MemoryAccount* query) noexcept nogil
# `by` is 1 or -1: one driver more or less is queued or running. When none is left, the lead passes on.
cdef void pool_going(CMemoryPool* pool, int64_t by) noexcept nogil

# Called at the begin and the end of a turn: the driver on this thread has a query of `pool`. Returns the previous pool.
cdef CMemoryPool* pool_turn(CMemoryPool* pool) noexcept nogil
# The pool of the driver that runs on this thread, or NULL.
cdef CMemoryPool* pool_of_turn() noexcept nogil


cdef class MemoryPool:
    cdef CMemoryPool* pool      # owned
    cdef int64_t own_limit      # limit of queries and kept bytes together; the GIL guards it, and n_kept
    cdef int64_t n_kept

    cdef int begin(self, int64_t limit) except -1
    cdef CMemoryPool* here(self) except NULL
    cdef int share_out(self) except -1
