"""Memory: reference-counted owners, pooled buffers, arenas, and who pays for them.

Fresh memory costs more than the work done in it (256 MB written: malloc 163 ms, a reused pool 10 ms), so every buffer
comes from a process-wide pool of recycled blocks. Every byte an operator keeps is charged to a MemoryAccount: the
operator's own, whose parent is the query's.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_add, qc_drop, qc_load
from qcore_ext.ground.fault cimport faults_watched


ctypedef struct Owner:
    # Something that keeps memory alive. First member of every reference-counted struct, so that any of them can be
    # held through an Owner*. `release` frees the whole struct; it runs once, on whatever thread dropped the last ref.
    int64_t references
    void (*release)(Owner* self) noexcept nogil


cdef inline Owner* owner_ref(Owner* owner) noexcept nogil:
    """Take a reference; NULL passes through."""
    if owner != NULL:
        qc_add(&owner.references, 1)
    return owner


cdef inline void owner_unref(Owner* owner) noexcept nogil:
    """Drop a reference and free on the last; NULL is ignored."""
    if owner != NULL and qc_drop(&owner.references) == 0:
        owner.release(owner)


ctypedef struct MemoryAccount:
    Owner owner
    MemoryAccount* parent       # owned; of the query's: the pool's (ground/memory_pool), or NULL
    int64_t reserved            # bytes now
    int64_t peak                # highest `reserved`
    int64_t limit               # bytes; 0: none
    MemoryAccount* query        # borrowed; the query's, which this one keeps alive; NULL: this is a pool's
    int64_t stopped             # of the query's: other than 0 once nobody wants the query's answer any more
    MemoryAccount* outer        # owned; of the query's: of the query that reads this one, and stops it, or NULL

cdef MemoryAccount* account_new(MemoryAccount* parent, int64_t limit) except NULL nogil
# MemoryLimitError; nothing changed then
cdef int account_reserve(MemoryAccount* account, int64_t n_bytes) except -1 nogil
cdef void account_release(MemoryAccount* account, int64_t n_bytes) noexcept nogil
# Set from ground/memory_pool: bytes charged to a pool were given back.
cdef void (*pool_released)(MemoryAccount* pool) noexcept nogil
cdef int raise_stopped() except -1 nogil
# Set from execution/scheduler: where this thread has worked long at one turn and other drivers wait for a thread, it
# sees to it that they get one.
cdef void (*give_way)() noexcept nogil
# Whether a query that reads this one was stopped.
cdef bint outer_stopped(const MemoryAccount* query) noexcept nogil
# A pass of FAULT_STOP: whether a test stops the query at this look.
cdef bint stop_injected(const MemoryAccount* account) noexcept nogil

cdef enum:
    # Rows between two looks at account_stopped in a loop that may run long: a few milliseconds at 50 ns a row.
    CHECK_ROWS = 65536

cdef inline bint account_stopped(const MemoryAccount* account) noexcept nogil:
    """Whether the query this account belongs to was cancelled, failed or is answered; any loop may then give up."""
    return qc_load(<int64_t*> &account.query.stopped) != 0 or (
        account.query.outer != NULL and outer_stopped(account.query)
    ) or (qc_load(&faults_watched) != 0 and stop_injected(account))

cdef inline int account_check(const MemoryAccount* account) except -1 nogil:
    """Cancelled when account_stopped. Calls that may take longer than a batch does ask every few milliseconds.

    Other drivers may be served meanwhile by another thread, so no lock is held here.
    """
    if account_stopped(account):
        return raise_stopped()
    give_way()
    return 0

# memset and memcpy of any length: Cancelled when the query is stopped half-way, and the target holds anything then.
# account NULL: nobody's query.
cdef int bytes_fill(void* to, int value, int64_t n_bytes, const MemoryAccount* account) except -1 nogil
cdef int bytes_copy(void* to, const void* bytes, int64_t n_bytes, const MemoryAccount* account) except -1 nogil


ctypedef struct Buffer:
    Owner owner
    MemoryAccount* account      # owned
    char* data                  # 64-byte aligned; not zeroed
    int64_t size                # usable bytes, at least what was asked for; multiple of 64

cdef Buffer* buffer_new(MemoryAccount* account, int64_t size) except NULL nogil
# This and growing raise Cancelled when the query is stopped meanwhile.
cdef Buffer* buffer_new_zeroed(MemoryAccount* account, int64_t size) except NULL nogil
# Grow to at least `size`, keeping the first `used` bytes; *buffer may move (its one reference is consumed and
# replaced).
cdef int buffer_grow(Buffer** buffer, int64_t used, int64_t size) except -1 nogil

cdef inline void buffer_unref(Buffer* buffer) noexcept nogil:
    owner_unref(<Owner*> buffer)


ctypedef struct Arena:
    # Bump allocation for rows and string bytes that live as long as the structure that made them.
    # An Owner itself: output columns that point into it hold a reference.
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
    """`size` bytes, 8-byte aligned, valid until the arena's last reference goes."""
    cdef char* place = arena.cursor
    size = (size + 7) & ~7
    if size > arena.end - place:
        return arena_grow(arena, size)
    arena.cursor = place + size
    return place


ctypedef struct OwnerList:
    # Many owners held as one: a column whose strings come from several heaps.
    Owner owner
    Owner** items               # each owned
    int64_t n_items
    int64_t capacity

cdef OwnerList* owner_list_new() except NULL nogil
# takes a new reference to item; skips the last one added again
cdef int owner_list_add(OwnerList* self, Owner* item) except -1 nogil

# Plain structs (owners, columns, batches) come from malloc and are counted, so that tests can assert none is left.
cdef void* struct_new(int64_t size) except NULL nogil       # zeroed
cdef void struct_free(void* pointer) noexcept nogil


# Give idle blocks, and what malloc keeps, back to the system: some ten milliseconds for a gigabyte, and fresh memory
# afterwards costs more than the work done in it. For a process that has nothing to do. Returns the bytes of the blocks.
cdef int64_t memory_trim() noexcept nogil
# Whether something came back since the last time.
cdef bint memory_is_worth_trimming() noexcept nogil


cdef class Account:
    cdef MemoryAccount* account
