"""Memory that several queries share, and the rule for which of them continue while it is short."""

cimport cython
from libc.stdint cimport int64_t

from qcore_ext.ground cimport memory
from qcore_ext.ground.atomic cimport (
    qc_cas_pointer, qc_fetch_add, qc_load, qc_load_pointer, qc_store, qc_swap,
)
from qcore_ext.ground.lock cimport LOCK_SCHEDULER, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Account, MemoryAccount, Owner, account_new, owner_unref, struct_free, struct_new
from qcore_ext.ground.process cimport fork_number
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add,
)

from qcore_ext.ground.status import MemoryLimitError

cdef extern from *:
    """
    static __thread void *qc_pool_of_turn;
    """
    void* qc_pool_of_turn


cdef void pool_free(Owner* owner) noexcept nogil:
    cdef CMemoryPool* pool = <CMemoryPool*> owner
    wait_list_clear(&pool.waiting)
    mutex_destroy(&pool.mutex)
    struct_free(pool)


cdef void pool_wake(CMemoryPool* pool, void* former) noexcept nogil:
    """Fire all waiting tokens. If the query `former` leads, it loses the lead."""
    cdef WaitList taken
    mutex_lock(&pool.mutex)
    qc_cas_pointer(&pool.leader, former, NULL)
    wait_list_take(&pool.waiting, &taken)
    qc_store(&pool.n_waiting, 0)
    mutex_unlock(&pool.mutex)
    wait_list_fire(&taken)


cdef bint pool_wait(CMemoryPool* pool, MemoryAccount* query, int64_t growth, WaitToken* token) except -1 nogil:
    cdef const char* failed = NULL
    cdef void* leader = qc_load_pointer(&pool.leader)
    if leader == query:
        return False
    # Nothing may be raised while the lock is held: raising needs the GIL, and its holder may wait for the lock.
    mutex_lock(&pool.mutex)
    qc_cas_pointer(&pool.leader, NULL, query)
    leader = pool.leader
    if leader != query:
        failed = wait_list_try_add(&pool.waiting, token)
        qc_swap(&pool.n_waiting, pool.waiting.n_tokens)
    mutex_unlock(&pool.mutex)
    if failed != NULL:
        raise_memory_limit(failed)
    # A thread that released memory meanwhile may have seen no token here.
    return leader != query and pool_is_short(pool, growth)


cdef PooledQuery* pool_take_entry(CMemoryPool* pool, MemoryAccount* query) noexcept nogil:
    """Take the entry of a query out of the list; NULL if it has none. The caller holds the mutex."""
    cdef PooledQuery** at = &pool.queries
    cdef PooledQuery* entry
    while at[0] != NULL and at[0].query != query:
        at = &at[0].next
    entry = at[0]
    if entry != NULL:
        at[0] = entry.next
    return entry


cdef void query_free(Owner* self) noexcept nogil:
    """Free the account of a query that began."""
    cdef CMemoryPool* pool = pool_of(<MemoryAccount*> self)
    cdef PooledQuery* entry
    if pool.process != fork_number():
        return              # another thread of the parent may have held the mutex; the child has the account for ever
    mutex_lock(&pool.mutex)
    entry = pool_take_entry(pool, <MemoryAccount*> self)
    mutex_unlock(&pool.mutex)
    entry.free_account(self)
    struct_free(entry)


cdef int pool_enter(CMemoryPool* pool, MemoryAccount* query) except -1 nogil:
    cdef PooledQuery* entry = <PooledQuery*> struct_new(sizeof(PooledQuery))
    entry.query = query
    entry.free_account = query.owner.release
    query.owner.release = query_free
    mutex_lock(&pool.mutex)
    entry.next = pool.queries
    pool.queries = entry
    mutex_unlock(&pool.mutex)
    return 0


cdef int64_t pool_held(CMemoryPool* pool) noexcept nogil:
    # Not what the pool has less what running queries have: they reserve and release between two reads.
    cdef int64_t held = 0
    cdef PooledQuery* entry
    mutex_lock(&pool.mutex)
    entry = pool.queries
    while entry != NULL:
        if entry.is_over:
            held += qc_load(&entry.query.reserved)
        entry = entry.next
    mutex_unlock(&pool.mutex)
    return held


cdef void pool_leave(CMemoryPool* pool, MemoryAccount* query) noexcept nogil:
    cdef PooledQuery* entry
    mutex_lock(&pool.mutex)
    entry = pool.queries
    while entry != NULL and entry.query != query:
        entry = entry.next
    if entry != NULL:
        entry.is_over = True
    mutex_unlock(&pool.mutex)
    # Tokens of the query's own drivers may be left in the list; they are fired with the others.
    pool_wake(pool, query)


cdef void pool_going(CMemoryPool* pool, int64_t by) noexcept nogil:
    if qc_fetch_add(&pool.n_going, by) + by == 0 and qc_load(&pool.n_waiting) > 0:
        pool_wake(pool, qc_load_pointer(&pool.leader))


cdef void pool_gave_back(MemoryAccount* account) noexcept nogil:
    cdef CMemoryPool* pool = <CMemoryPool*> account
    if qc_load(&pool.n_waiting) > 0 and not pool_is_short(pool, 0):
        pool_wake(pool, NULL)


memory.pool_released = pool_gave_back


cdef CMemoryPool* pool_turn(CMemoryPool* pool) noexcept nogil:
    global qc_pool_of_turn
    cdef CMemoryPool* before = <CMemoryPool*> qc_pool_of_turn
    qc_pool_of_turn = pool
    return before


cdef CMemoryPool* pool_of_turn() noexcept nogil:
    return <CMemoryPool*> qc_pool_of_turn


cdef class MemoryPool:
    """Memory that several queries share.

    Parameters
    ----------
    limit : int
        Bytes that all queries together may keep.
    """

    def __cinit__(self, int64_t limit):
        self.own_limit = limit
        self.begin(limit)

    def __dealloc__(self):
        if self.pool != NULL and self.pool.process == fork_number():
            owner_unref(<Owner*> self.pool)

    cdef int begin(self, int64_t limit) except -1:
        cdef CMemoryPool* pool = <CMemoryPool*> struct_new(sizeof(CMemoryPool))
        pool.account.owner.references = 1
        pool.account.owner.release = pool_free
        pool.account.limit = limit
        pool.process = fork_number()
        mutex_init(&pool.mutex, LOCK_SCHEDULER)
        self.pool = pool
        return 0

    cdef CMemoryPool* here(self) except NULL:
        """The pool of this process. A forked child gets a new one: queries of its parent never release memory here."""
        if self.pool.process != fork_number():
            self.begin(qc_load(&self.pool.account.limit))
        return self.pool

    def account(self, int64_t limit=0):
        """Return an Account for a query. It may keep `limit` bytes of the pool; 0: all."""
        cdef Account made = Account()
        owner_unref(<Owner*> made.account)
        made.account = NULL
        made.account = account_new(&self.here().account, limit)
        return made

    @property
    def limit(self):
        """Bytes that the queries and the kept bytes may take together. It may be changed at any time."""
        return self.own_limit

    @limit.setter
    def limit(self, int64_t limit):
        self.own_limit = limit
        self.share_out()

    def keep(self, int64_t n_bytes):
        """Reserve bytes for something that is no query, until the KeptMemory is freed. The queries share the rest.

        Raises MemoryLimitError if the rest is less than the queries keep now.
        """
        cdef KeptMemory kept = KeptMemory()
        cdef int64_t reserved = qc_load(&self.here().account.reserved)
        if reserved + self.n_kept + n_bytes > self.limit:
            raise MemoryLimitError(
                f"keeping {n_bytes} bytes beside {reserved} of running queries and {self.n_kept} of tables goes past "
                f"the limit of {self.limit} for all together; raise session_memory_limit or drop tables"
            )
        kept.pool = self
        kept.n_bytes = n_bytes
        self.n_kept += n_bytes
        self.share_out()
        return kept

    cdef int share_out(self) except -1:
        """Set the limit of the queries to what is not kept."""
        qc_swap(&self.here().account.limit, max(<int64_t> 1, self.own_limit - self.n_kept))
        pool_wake(self.here(), NULL)
        return 0

    @property
    def kept_bytes(self):
        """Bytes kept for something that is no query."""
        return self.n_kept

    @property
    def reserved_bytes(self):
        """Bytes reserved now."""
        return qc_load(&self.here().account.reserved)

    @property
    def held_bytes(self):
        """Reserved bytes that belong to no running query: rows of finished queries that are unread or referenced."""
        return pool_held(self.here())

    @property
    def peak_bytes(self):
        """The highest number of bytes reserved at one time."""
        return qc_load(&self.here().account.peak)

    @property
    def n_waiting(self):
        """Number of drivers that wait for memory now."""
        return qc_load(&self.here().n_waiting)

    @property
    def n_going(self):
        """Number of drivers that are queued, or run on a thread and do not sleep there."""
        return qc_load(&self.here().n_going)


@cython.no_gc_clear
cdef class KeptMemory:
    """Bytes of a pool that are kept for something that is no query, until this object is freed."""
    cdef MemoryPool pool
    cdef readonly int64_t n_bytes

    def __dealloc__(self):
        if self.pool is not None:
            self.pool.n_kept -= self.n_bytes
            self.pool.share_out()
