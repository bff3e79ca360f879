"""Memory: reference-counted owners, pooled buffers, arenas, and the accounts that are charged for them.

Fresh memory costs more than the work done in it (256 MB written: malloc 163 ms, a reused pool 10 ms). So every buffer
comes from a pool of recycled blocks, one for the process. Every byte that an operator keeps is charged to the
operator's MemoryAccount, whose parent is the account of the query.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_add, qc_drop, qc_load
from qcore_ext.ground.fault cimport faults_watched


ctypedef struct Owner:
    # An object that keeps memory alive. It is the first member of every reference-counted struct, so that each can be
    # held through an Owner*. `release` frees the whole struct. It runs once, on the thread that drops the last
    # reference.
    int64_t references
    void (*release)(Owner* self) noexcept nogil


cdef inline Owner* owner_ref(Owner* owner) noexcept nogil:
    """Take a reference. NULL is passed through."""
    if owner != NULL:
        qc_add(&owner.references, 1)
    return owner


cdef inline void owner_unref(Owner* owner) noexcept nogil:
    """Drop a reference; free the object if it was the last. NULL is ignored."""
    if owner != NULL and qc_drop(&owner.references) == 0:
        owner.release(owner)


ctypedef struct MemoryAccount:
    Owner owner
    MemoryAccount* parent       # owned; a query's account has the pool's (ground/memory_pool) or NULL
    int64_t reserved            # bytes now
    int64_t peak                # highest value of `reserved`
    int64_t limit               # bytes; 0: no limit
    MemoryAccount* query        # borrowed; the query's account, kept alive by this one; NULL in the account of a pool
    int64_t stopped             # in a query's account: not 0 once the query was stopped or its answer is complete
    MemoryAccount* outer        # owned; in a query's account: the account of the query that reads this one, or NULL

cdef MemoryAccount* account_new(MemoryAccount* parent, int64_t limit) except NULL nogil
# Raises MemoryLimitError, and then reserves nothing.
cdef int account_reserve(MemoryAccount* account, int64_t n_bytes) except -1 nogil
cdef void account_release(MemoryAccount* account, int64_t n_bytes) noexcept nogil
# Set by ground/memory_pool; called when bytes that were charged to a pool were released.
cdef void (*pool_released)(MemoryAccount* pool) noexcept nogil
cdef int raise_stopped() except -1 nogil
# Set by execution/scheduler; called by account_check. If this thread has worked long in one turn and other drivers
# wait for a thread, it starts a substitute thread for them.
cdef void (*give_way)() noexcept nogil
# Whether a query that reads this one was stopped.
cdef bint outer_stopped(const MemoryAccount* query) noexcept nogil
# A pass of FAULT_STOP. True: a test makes the query count as stopped from here on.
cdef bint stop_injected(const MemoryAccount* account) noexcept nogil

cdef enum:
    # Rows between two calls of account_check in a long loop: a few milliseconds at 50 ns a row.
    CHECK_ROWS = 65536

cdef inline bint account_stopped(const MemoryAccount* account) noexcept nogil:
    """Whether the query of this account was cancelled, failed or has its answer. A loop may then give up."""
    return qc_load(<int64_t*> &account.query.stopped) != 0 or (
        account.query.outer != NULL and outer_stopped(account.query)
    ) or (qc_load(&faults_watched) != 0 and stop_injected(account))

cdef inline int account_check(const MemoryAccount* account) except -1 nogil:
    """Raise Cancelled if account_stopped. A call that may take longer than a batch calls this every few milliseconds.

    Another thread may serve other drivers meanwhile, so the caller must hold no lock.
    """
    if account_stopped(account):
        return raise_stopped()
    give_way()
    return 0

# memset and memcpy of any length. They raise Cancelled if the query is stopped half-way; the target is undefined then.
# `account` may be NULL: then nothing stops them.
cdef int bytes_fill(void* to, int value, int64_t n_bytes, const MemoryAccount* account) except -1 nogil
cdef int bytes_copy(void* to, const void* bytes, int64_t n_bytes, const MemoryAccount* account) except -1 nogil


ctypedef struct Buffer:
    Owner owner
    MemoryAccount* account      # owned
    char* data                  # 64-byte aligned; not zeroed
    int64_t size                # usable bytes: at least the requested size, a multiple of 64
    int block_class             # the block has 2**block_class bytes: `size`, or more if the buffer may grow in it

cdef Buffer* buffer_new(MemoryAccount* account, int64_t size) except NULL nogil
# This and buffer_grow raise Cancelled if the query is stopped meanwhile.
cdef Buffer* buffer_new_zeroed(MemoryAccount* account, int64_t size) except NULL nogil
# Grow to at least `size` bytes and keep the first `used` bytes. The buffer may move: *buffer must be the only
# reference to it, and is replaced. It grows where it is if its block has the bytes: a buffer that moves prefers an idle
# block that is larger than it needs, so that a structure that doubles its buffers finds the blocks it left last time.
# If there is none, a block of 1 MiB or more is lengthened: the system moves its pages, and no byte is copied.
cdef int buffer_grow(Buffer** buffer, int64_t used, int64_t size) except -1 nogil

# `owner` as a Buffer, or NULL if it is none.
cdef Buffer* buffer_of(Owner* owner) noexcept nogil
# The buffer leaves the engine: it is no longer charged to its account. The caller has the only reference to it.
cdef void buffer_let_go(Buffer* buffer) noexcept nogil

cdef inline void buffer_unref(Buffer* buffer) noexcept nogil:
    owner_unref(<Owner*> buffer)


ctypedef struct Arena:
    # Bump allocation of rows and string bytes that live as long as the structure that made them.
    # It is an Owner itself: output columns that point into it hold a reference.
    Owner owner
    MemoryAccount* account      # owned
    Buffer** blocks
    int64_t n_blocks
    int64_t capacity_blocks
    char* cursor
    char* end

cdef Arena* arena_new(MemoryAccount* account) except NULL nogil
cdef void* arena_grow(Arena* arena, int64_t size) except NULL nogil     # slow path of arena_take

cdef inline void* arena_take(Arena* arena, int64_t size) except NULL nogil:
    """`size` bytes, 8-byte aligned. They are valid until the last reference to the arena is dropped."""
    cdef char* start = arena.cursor
    size = (size + 7) & ~7
    if size > arena.end - start:
        return arena_grow(arena, size)
    arena.cursor = start + size
    return start


ctypedef struct OwnerList:
    # Several owners held as one, for a column whose strings come from several heaps.
    Owner owner
    Owner** items               # each owned
    int64_t n_items
    int64_t capacity

cdef OwnerList* owner_list_new() except NULL nogil
# Takes a new reference to `item`, unless `item` is the one that was added last.
cdef int owner_list_add(OwnerList* self, Owner* item) except -1 nogil

# Plain structs (owners, columns, batches) come from malloc. They are counted, so tests can assert that none is left.
cdef void* struct_new(int64_t size) except NULL nogil       # zeroed
cdef void struct_free(void* pointer) noexcept nogil


# Let the system take the pages of idle blocks when it is short of memory; until then they need no page faults when they
# are used again. Stops early, and returns False, when `n_turns` is not 0 any more: a query begins and needs the blocks.
cdef bint memory_offer(const int64_t* n_turns) noexcept nogil
# Return idle blocks, and memory that malloc keeps, to the system. That takes tens of ms for a gigabyte, and fresh
# memory is expensive afterwards, so only a process without work calls it. Returns the bytes of the blocks.
cdef int64_t memory_trim() noexcept nogil
# Whether memory was freed since the last memory_trim.
cdef bint memory_is_worth_trimming() noexcept nogil


cdef class Account:
    cdef MemoryAccount* account
