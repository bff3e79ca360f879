"""Memory: reference-counted owners, pooled buffers, arenas, and the accounts that are charged for them."""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset
from posix.stdlib cimport posix_memalign

from qcore_ext.ground.atomic cimport qc_add, qc_cas, qc_fetch_add, qc_load, qc_store, qc_swap
from qcore_ext.ground.fault cimport FAULT_RESERVE, FAULT_STOP, FAULT_STRUCT, fault_here, fault_pass
from qcore_ext.ground.status cimport raise_memory_limit

from qcore_ext.ground.status import Cancelled, MemoryLimitError

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef __GLIBC__
    #include <malloc.h>
    #define qc_malloc_trim() malloc_trim(0)
    #else
    #define qc_malloc_trim() 0
    #endif
    #include <sys/mman.h>
    #ifdef MADV_FREE
    #define qc_offer_pages(block, size) madvise(block, size, MADV_FREE)
    #else
    #define qc_offer_pages(block, size) 0
    #endif
    """
    int qc_malloc_trim() nogil
    int qc_offer_pages(void* block, size_t size) nogil

cdef extern from "native/clz.h" nogil:
    int qc_log2_ceil(uint64_t value)

cdef extern from "native/page_blocks.h" nogil:
    void* qc_pages_new(size_t size)
    void qc_pages_free(void* block, size_t size)
    void* qc_pages_lengthen(void* block, size_t size, size_t longer)

cdef enum:
    CLASS_MIN = 12              # 4 KiB; for smaller blocks malloc's own free lists are as good
    CLASS_MAX = 40
    # 1 MiB; from here on a buffer that grows may take a larger idle block, or lengthen its own.
    CLASS_GROWN_MIN = 20
    CLASSES_ABOVE = 4           # at most so many size classes larger: 16 times the bytes
    ARENA_BLOCK_MIN = 65536
    ARENA_BLOCK_MAX = 4194304
    ALIGNMENT = 64
    N_IDLE_NODES = 16384
    NODE_BITS = 16              # bits in the head of a stack for the number of its first node
    NODE_MASK = 65535
    CHECK_BYTES = 4194304       # bytes written between two checks: 10 ms in fresh memory if page faults are slow
    CHECK_BYTES_MIN = 1048576   # shorter writes do not check

# Idle blocks and blocks in use are together at most this many bytes more than were in use at one time since the last
# memory_trim: a query that runs again gets the memory it had. Without these bytes its later blocks, of other sizes,
# took the place of its earlier ones: each sort of 20 million words got 180 MB of fresh pages, a quarter of its time,
# and with half of these bytes each join of 20 million rows with 10 million keys got 240 MB. Most memory of TPC-H at
# scale 10 did not change with them. A block is freed only if at least half of it is above the limit: a large block is
# not given up for a few kilobytes. Spare bytes of blocks in use count as idle. Fresh pages cost more than most kernels:
# the kernel's zeroing of them was 37 % of the processor time of TPC-H Q18 with a fixed limit of 256 MB.
cdef int64_t IDLE_BYTES = 1 << 29
cdef int64_t SPARE_BYTES = 1 << 28

cdef int64_t structs_live = 0
cdef int64_t buffers_live = 0
cdef int64_t bytes_reserved = 0
cdef int64_t idle_bytes = 0
cdef int64_t used_bytes = 0         # atomic; blocks that are not idle, from CLASS_MIN on
cdef int64_t spare_bytes = 0        # atomic; bytes of these blocks that are not yet part of their buffers
cdef int64_t used_bytes_peak = 0    # atomic; the most used_bytes without spare_bytes since the last memory_trim
# Bytes freed to malloc since the last memory_trim; malloc may keep them.
cdef int64_t given_back = 0


ctypedef struct IdleNode:
    void* block
    int64_t next                # atomic; number of a node, 0: none
    int64_t offered             # number of the node that memory_offer took before it, 0: none

# Idle blocks form one stack for each size class, linked through nodes that are never freed. The head of a stack holds
# the number of its first node and a count of its changes, so that a thread that was overtaken notices it.
cdef IdleNode idle_nodes[N_IDLE_NODES]
cdef int64_t idle_heads[CLASS_MAX + 1]      # atomic
cdef int64_t spare_nodes = 0                # atomic; head of the stack of nodes without a block
cdef int64_t n_nodes_used = 0               # atomic; nodes 1 to this number have been in use
memset(idle_heads, 0, sizeof(idle_heads))


cdef void stack_push(int64_t* head, int64_t number) noexcept nogil:
    cdef int64_t old
    while True:
        old = qc_load(head)
        qc_store(&idle_nodes[number].next, old & NODE_MASK)
        if qc_cas(head, old, (((old >> NODE_BITS) + 1) << NODE_BITS) | number):
            return


cdef int64_t stack_pop(int64_t* head) noexcept nogil:
    """Take the first node off the stack. Returns its number, or 0 if the stack is empty."""
    cdef int64_t old, number
    while True:
        old = qc_load(head)
        number = old & NODE_MASK
        if number == 0:
            return 0
        if qc_cas(head, old, (((old >> NODE_BITS) + 1) << NODE_BITS) | qc_load(&idle_nodes[number].next)):
            return number


cdef void* struct_new(int64_t size) except NULL nogil:
    cdef void* pointer
    if fault_here(FAULT_STRUCT):
        raise_memory_limit(b"injected fault: struct")
        return NULL
    pointer = calloc(1, size)
    if pointer == NULL:
        raise_memory_limit(b"the machine has no memory left")
        return NULL
    qc_add(&structs_live, 1)
    return pointer


cdef void struct_free(void* pointer) noexcept nogil:
    if pointer != NULL:
        qc_add(&structs_live, -1)
        free(pointer)


cdef void* idle_take(int size_class) noexcept nogil:
    """An idle block of the class, or NULL if there is none."""
    cdef int64_t number = stack_pop(&idle_heads[size_class])
    cdef void* block
    if number == 0:
        return NULL
    block = idle_nodes[number].block
    stack_push(&spare_nodes, number)
    qc_add(&idle_bytes, -((<int64_t> 1) << size_class))
    return block


cdef int64_t idle_bytes_max(int64_t used) noexcept nogil:
    """The bytes of idle blocks that are kept beside `used` bytes in use. Spare bytes count like idle ones."""
    return max(qc_load(&used_bytes_peak) - used, <int64_t> 0) + IDLE_BYTES - qc_load(&spare_bytes)


cdef void free_idle_above(int64_t bytes_max) noexcept nogil:
    """Free idle blocks, the smallest first, until they have `bytes_max` bytes or less than half a block more.

    A structure that doubles its buffers leaves blocks of each size behind, the small ones of no further use to it.
    """
    cdef int size_class
    cdef void* block
    for size_class in range(CLASS_MIN, CLASS_MAX + 1):
        while qc_load(&idle_bytes) - bytes_max >= ((<int64_t> 1) << size_class) // 2:
            block = idle_take(size_class)
            if block == NULL:
                break
            qc_add(&given_back, (<int64_t> 1) << size_class)
            block_free(block, size_class)


cdef void make_way(int64_t used) noexcept nogil:
    """Note a peak of `used` bytes in use, and free the idle blocks that are too many beside them."""
    note_peak(used - qc_load(&spare_bytes))
    if qc_load(&idle_bytes) > idle_bytes_max(used):
        free_idle_above(idle_bytes_max(used))


cdef void note_peak(int64_t used) noexcept nogil:
    cdef int64_t peak = qc_load(&used_bytes_peak)
    while used > peak and not qc_cas(&used_bytes_peak, peak, used):
        peak = qc_load(&used_bytes_peak)


cdef inline bint may_spare(int block_class) noexcept nogil:
    """Whether a buffer may take a block that is larger than it: spare bytes, unlike idle ones, cannot make way."""
    return qc_load(&spare_bytes) + ((<int64_t> 1) << block_class) <= SPARE_BYTES


cdef bint idle_has(int size_class, int largest) noexcept nogil:
    """Whether idle_take_upto would find a block now."""
    cdef int block_class
    for block_class in range(size_class, largest + 1):
        if block_class > size_class and not may_spare(block_class):
            return False
        if qc_load(&idle_heads[block_class]) & NODE_MASK != 0:
            return True
    return False


cdef void* idle_take_upto(int size_class, int largest, int* taken) noexcept nogil:
    """An idle block of a class from `size_class` to `largest`, the smallest, or NULL. Sets `taken` to its class."""
    cdef void* block
    cdef int block_class
    for block_class in range(size_class, largest + 1):
        if block_class > size_class and not may_spare(block_class):
            return NULL
        block = idle_take(block_class)
        if block != NULL:
            taken[0] = block_class
            return block
    return NULL


cdef bint block_new(void** block, int size_class) noexcept nogil:
    """Set `block` to a new block. Returns False, and it is NULL, if the system gives none."""
    block[0] = NULL
    if size_class >= CLASS_GROWN_MIN:
        block[0] = qc_pages_new((<size_t> 1) << size_class)
    elif posix_memalign(block, 4096 if size_class >= CLASS_MIN else ALIGNMENT, (<size_t> 1) << size_class) != 0:
        block[0] = NULL
    return block[0] != NULL


cdef void block_free(void* block, int size_class) noexcept nogil:
    if size_class >= CLASS_GROWN_MIN:
        qc_pages_free(block, (<size_t> 1) << size_class)
    else:
        free(block)


cdef void* pool_take(int size_class, int largest, int* taken) noexcept nogil:
    """A block of at least 2**size_class bytes, or NULL if the machine has no memory left.

    An idle block may be larger, up to the class `largest`. `taken` is set to the block's class.
    """
    cdef void* block = NULL
    cdef int64_t size = (<int64_t> 1) << size_class
    cdef int64_t used
    if size_class >= CLASS_MIN:
        block = idle_take_upto(size_class, largest, taken)
        if block != NULL:
            # Spare bytes first: another thread must not take them for bytes in use, whose peak stays.
            qc_add(&spare_bytes, ((<int64_t> 1) << taken[0]) - size)
            used = qc_add(&used_bytes, (<int64_t> 1) << taken[0])
            note_peak(used - qc_load(&spare_bytes))
            return block
        make_way(qc_add(&used_bytes, size))
    taken[0] = size_class
    if not block_new(&block, size_class):
        # A process whose address space is limited may have the bytes in idle blocks.
        free_idle_above(0)
        if not block_new(&block, size_class) and size_class >= CLASS_MIN:
            qc_add(&used_bytes, -size)
    return block


cdef void pool_give(void* block, int block_class, int64_t spare) noexcept nogil:
    """Take back a block, of which the last `spare` bytes were never part of its buffer."""
    cdef int64_t size = (<int64_t> 1) << block_class
    cdef int64_t number = 0
    cdef int64_t used
    used = qc_add(&used_bytes, -size)
    qc_add(&spare_bytes, -spare)        # last, as they are added first
    if qc_add(&idle_bytes, size) - idle_bytes_max(used) < size // 2:
        number = stack_pop(&spare_nodes)
        if number == 0 and qc_load(&n_nodes_used) < N_IDLE_NODES - 1:
            number = qc_fetch_add(&n_nodes_used, 1) + 1
            if number >= N_IDLE_NODES:
                number = 0
    if number == 0:
        qc_add(&idle_bytes, -size)
        qc_add(&given_back, size)
        block_free(block, block_class)
        return
    idle_nodes[number].block = block
    stack_push(&idle_heads[block_class], number)


cdef bint memory_offer(const int64_t* n_turns) noexcept nogil:
    cdef int size_class
    cdef int64_t number, offered
    for size_class in range(CLASS_MIN, CLASS_MAX + 1):
        offered = 0
        number = stack_pop(&idle_heads[size_class])
        while number != 0:
            qc_offer_pages(idle_nodes[number].block, <size_t> 1 << size_class)
            # Kept apart until all of the class are offered: a stack gives the block first that it got last.
            idle_nodes[number].offered = offered
            offered = number
            number = 0 if qc_load(n_turns) > 0 else stack_pop(&idle_heads[size_class])
        while offered != 0:
            number = offered
            offered = idle_nodes[number].offered
            stack_push(&idle_heads[size_class], number)
        if qc_load(n_turns) > 0:
            return False
    return True


cdef int64_t memory_trim() noexcept nogil:
    cdef int size_class
    cdef void* block
    cdef int64_t freed = 0
    for size_class in range(CLASS_MIN, CLASS_MAX + 1):
        block = idle_take(size_class)
        while block != NULL:
            block_free(block, size_class)
            freed += (<int64_t> 1) << size_class
            block = idle_take(size_class)
    qc_swap(&given_back, 0)
    qc_swap(&used_bytes_peak, qc_load(&used_bytes) - qc_load(&spare_bytes))
    qc_malloc_trim()
    return freed


cdef bint memory_is_worth_trimming() noexcept nogil:
    return qc_load(&idle_bytes) > 0 or qc_load(&given_back) > 0


def trim_pool():
    """Return every idle block to the system. Returns the bytes of the blocks."""
    cdef int64_t freed
    with nogil:
        freed = memory_trim()
    return freed


cdef void account_free(Owner* self) noexcept nogil:
    cdef MemoryAccount* account = <MemoryAccount*> self
    owner_unref(<Owner*> account.parent)
    owner_unref(<Owner*> account.outer)
    struct_free(account)


cdef MemoryAccount* account_new(MemoryAccount* parent, int64_t limit) except NULL nogil:
    cdef MemoryAccount* account = <MemoryAccount*> struct_new(sizeof(MemoryAccount))
    account.owner.references = 1
    account.owner.release = account_free
    account.parent = <MemoryAccount*> owner_ref(<Owner*> parent)
    account.limit = limit
    account.query = parent.query if parent != NULL and parent.query != NULL else account
    return account


cdef inline void account_give_back(MemoryAccount* account, int64_t n_bytes) noexcept nogil:
    if account.query != NULL:
        qc_add(&account.reserved, -n_bytes)
    else:
        # Sequentially consistent with pool_wait: either it sees these bytes, or this sees its token.
        qc_fetch_add(&account.reserved, -n_bytes)
        pool_released(account)


cdef MemoryAccount* account_try_reserve(MemoryAccount* account, int64_t n_bytes) noexcept nogil:
    """Reserve at the account and its parents. Returns NULL, or the account that is full; nothing is reserved then."""
    cdef MemoryAccount* at = account
    cdef MemoryAccount* undo
    cdef int64_t total, peak
    while at != NULL:
        total = qc_add(&at.reserved, n_bytes)
        if at.limit > 0 and total > at.limit:
            undo = account
            while True:
                account_give_back(undo, n_bytes)
                if undo == at:
                    break
                undo = undo.parent
            return at
        peak = qc_load(&at.peak)
        while total > peak and not qc_cas(&at.peak, peak, total):
            peak = qc_load(&at.peak)
        at = at.parent
    qc_add(&bytes_reserved, n_bytes)
    return NULL


cdef int account_reserve(MemoryAccount* account, int64_t n_bytes) except -1 nogil:
    cdef MemoryAccount* full
    if fault_here(FAULT_RESERVE):
        return raise_memory_limit(b"injected fault: reserve")
    full = account_try_reserve(account, n_bytes)
    if full != NULL:
        return raise_over_limit(n_bytes, account, full)
    return 0


cdef int raise_over_limit(int64_t n_bytes, MemoryAccount* account, MemoryAccount* full) except -1 nogil:
    cdef int64_t reserved = qc_load(&full.reserved)
    cdef int64_t limit = qc_load(&full.limit)
    cdef int64_t own = qc_load(&account.query.reserved)
    with gil:
        if full.query != NULL:
            raise MemoryLimitError(
                f"reserving {n_bytes} bytes on top of {reserved} goes past the memory limit of {limit}; "
                "raise memory_limit or give the query fewer threads"
            )
        error = MemoryLimitError(
            f"reserving {n_bytes} bytes on top of {reserved}, {own} of them this query's, goes past the limit of "
            f"{limit} for all queries together; raise session_memory_limit, give the query fewer threads, or free "
            "results that are held"
        )
        error.is_shared = True
        raise error


cdef bint outer_stopped(const MemoryAccount* query) noexcept nogil:
    cdef const MemoryAccount* at = query.outer
    while at != NULL:
        if qc_load(<int64_t*> &at.stopped) != 0:
            return True
        at = at.outer
    return False


cdef bint stop_injected(const MemoryAccount* account) noexcept nogil:
    if not fault_pass(FAULT_STOP):
        return False
    # Permanently: a loop that gives up is followed by a check that raises.
    qc_store(<int64_t*> &account.query.stopped, 1)
    return True


cdef void nobody_waits() noexcept nogil:
    """The give_way of a process without a scheduler."""


give_way = nobody_waits


cdef int raise_stopped() except -1 nogil:
    with gil:
        raise Cancelled("the query was stopped")


cdef int bytes_fill(void* to, int value, int64_t n_bytes, const MemoryAccount* account) except -1 nogil:
    cdef int64_t done = 0
    while done < n_bytes:
        if account != NULL and n_bytes > CHECK_BYTES_MIN:
            account_check(account)
        memset(<char*> to + done, value, min(n_bytes - done, <int64_t> CHECK_BYTES))
        done += CHECK_BYTES
    return 0


cdef int bytes_copy(void* to, const void* bytes, int64_t n_bytes, const MemoryAccount* account) except -1 nogil:
    cdef int64_t done = 0
    while done < n_bytes:
        if account != NULL and n_bytes > CHECK_BYTES_MIN:
            account_check(account)
        memcpy(<char*> to + done, <const char*> bytes + done, min(n_bytes - done, <int64_t> CHECK_BYTES))
        done += CHECK_BYTES
    return 0


cdef void account_release(MemoryAccount* account, int64_t n_bytes) noexcept nogil:
    while account != NULL:
        account_give_back(account, n_bytes)
        account = account.parent
    qc_add(&bytes_reserved, -n_bytes)


cdef void buffer_free(Owner* self) noexcept nogil:
    cdef Buffer* buffer = <Buffer*> self
    account_release(buffer.account, buffer.size)
    if buffer.block_class >= CLASS_MIN:
        pool_give(buffer.data, buffer.block_class, ((<int64_t> 1) << buffer.block_class) - buffer.size)
    else:
        block_free(buffer.data, buffer.block_class)
    owner_unref(<Owner*> buffer.account)
    qc_add(&buffers_live, -1)
    struct_free(buffer)


cdef Buffer* new_buffer(MemoryAccount* account, int64_t size, int classes_above) except NULL nogil:
    """A buffer in a block of up to `classes_above` size classes more than `size` needs."""
    cdef Buffer* buffer
    cdef MemoryAccount* full
    cdef int size_class
    if size < ALIGNMENT:
        size = ALIGNMENT
    size_class = qc_log2_ceil(<uint64_t> size)
    if size_class > CLASS_MAX:
        raise_memory_limit(b"a buffer of more than 1 TiB was requested")
        return NULL
    if fault_here(FAULT_RESERVE):
        raise_memory_limit(b"injected fault: reserve")
        return NULL
    size = (<int64_t> 1) << size_class
    buffer = <Buffer*> struct_new(sizeof(Buffer))
    full = account_try_reserve(account, size)
    if full != NULL:
        struct_free(buffer)
        raise_over_limit(size, account, full)
        return NULL
    buffer.data = <char*> pool_take(size_class, min(size_class + classes_above, <int> CLASS_MAX), &buffer.block_class)
    if buffer.data == NULL:
        account_release(account, size)
        struct_free(buffer)
        raise_memory_limit(b"the machine has no memory left")
        return NULL
    buffer.size = size
    buffer.owner.references = 1
    buffer.owner.release = buffer_free
    buffer.account = <MemoryAccount*> owner_ref(<Owner*> account)
    qc_add(&buffers_live, 1)
    return buffer


cdef Buffer* buffer_new(MemoryAccount* account, int64_t size) except NULL nogil:
    return new_buffer(account, size, 0)


cdef Buffer* buffer_of(Owner* owner) noexcept nogil:
    return <Buffer*> owner if owner != NULL and owner.release == buffer_free else NULL


cdef void buffer_let_go(Buffer* buffer) noexcept nogil:
    cdef MemoryAccount* account = buffer.account
    if account == NULL:
        return
    buffer.account = NULL
    qc_add(&bytes_reserved, buffer.size)        # of buffers without an account, too
    account_release(account, buffer.size)
    owner_unref(<Owner*> account)


cdef Buffer* buffer_new_zeroed(MemoryAccount* account, int64_t size) except NULL nogil:
    cdef Buffer* buffer = buffer_new(account, size)
    cdef bint done = False
    try:
        bytes_fill(buffer.data, 0, buffer.size, account)
        done = True
    finally:
        if not done:
            buffer_unref(buffer)
    return buffer


cdef int grow_in_block(Buffer* buffer, int64_t size) except -1 nogil:
    """Make spare bytes of the block part of the buffer, until it has `size`, a power of two."""
    cdef int64_t n_bytes = size - buffer.size
    account_reserve(buffer.account, n_bytes)
    buffer.size = size
    note_peak(qc_load(&used_bytes) - qc_add(&spare_bytes, -n_bytes))
    return 0


cdef bint lengthen_block(Buffer* buffer, int size_class) except -1 nogil:
    """Make the buffer's block one of the class. Returns False, and changes nothing, if the system cannot do that.

    Unlike a copy to another block, that writes no byte, and leaves no idle block of a size that nobody asks for again.
    """
    cdef int64_t size = (<int64_t> 1) << size_class
    cdef int64_t block_size = (<int64_t> 1) << buffer.block_class
    cdef void* block
    if buffer.block_class < CLASS_GROWN_MIN or size_class > CLASS_MAX:
        return False
    if fault_here(FAULT_RESERVE):
        raise_memory_limit(b"injected fault: reserve")
    account_reserve(buffer.account, size - buffer.size)
    block = qc_pages_lengthen(buffer.data, block_size, size)
    if block == NULL:
        account_release(buffer.account, size - buffer.size)
        return False
    qc_add(&spare_bytes, buffer.size - block_size)
    make_way(qc_add(&used_bytes, size - block_size))
    buffer.data = <char*> block
    buffer.block_class = size_class
    buffer.size = size
    return True


cdef int buffer_grow(Buffer** buffer, int64_t used, int64_t size) except -1 nogil:
    cdef Buffer* bigger
    cdef bint done = False
    cdef int size_class
    if size <= buffer[0].size:
        return 0
    size_class = qc_log2_ceil(<uint64_t> size)
    if size_class <= buffer[0].block_class:
        return grow_in_block(buffer[0], (<int64_t> 1) << size_class)
    # An idle block has pages already. Copying to it costs less than as many fresh pages.
    if not idle_has(size_class, min(size_class + CLASSES_ABOVE, <int> CLASS_MAX)):
        if lengthen_block(buffer[0], size_class):
            return 0
    bigger = new_buffer(buffer[0].account, size, CLASSES_ABOVE if size_class >= CLASS_GROWN_MIN else 0)
    try:
        bytes_copy(bigger.data, buffer[0].data, used, bigger.account)
        done = True
    finally:
        if not done:
            buffer_unref(bigger)
    buffer_unref(buffer[0])
    buffer[0] = bigger
    return 0


cdef void arena_free(Owner* self) noexcept nogil:
    cdef Arena* arena = <Arena*> self
    cdef int64_t i
    for i in range(arena.n_blocks):
        buffer_unref(arena.blocks[i])
    free(arena.blocks)
    owner_unref(<Owner*> arena.account)
    struct_free(arena)


cdef Arena* arena_new(MemoryAccount* account) except NULL nogil:
    cdef Arena* arena = <Arena*> struct_new(sizeof(Arena))
    arena.owner.references = 1
    arena.owner.release = arena_free
    arena.account = <MemoryAccount*> owner_ref(<Owner*> account)
    return arena


cdef void* arena_grow(Arena* arena, int64_t size) except NULL nogil:
    cdef Buffer* block
    cdef Buffer** blocks
    cdef int64_t block_size = ARENA_BLOCK_MIN
    account_check(arena.account)        # filling an arena may take long: each text may have megabytes
    if arena.n_blocks > 0:
        block_size = min(arena.blocks[arena.n_blocks - 1].size * 2, <int64_t> ARENA_BLOCK_MAX)
    if arena.n_blocks == arena.capacity_blocks:
        blocks = <Buffer**> realloc(arena.blocks, (arena.capacity_blocks * 2 + 8) * sizeof(Buffer*))
        if blocks == NULL:
            raise_memory_limit(b"the machine has no memory left")
            return NULL
        arena.blocks = blocks
        arena.capacity_blocks = arena.capacity_blocks * 2 + 8
    block = buffer_new(arena.account, max(block_size, size))
    arena.blocks[arena.n_blocks] = block
    arena.n_blocks += 1
    arena.cursor = block.data + size
    arena.end = block.data + block.size
    return block.data


cdef void owner_list_free(Owner* self) noexcept nogil:
    cdef OwnerList* owners = <OwnerList*> self
    cdef int64_t i
    for i in range(owners.n_items):
        owner_unref(owners.items[i])
    free(owners.items)
    struct_free(owners)


cdef OwnerList* owner_list_new() except NULL nogil:
    cdef OwnerList* owners = <OwnerList*> struct_new(sizeof(OwnerList))
    owners.owner.references = 1
    owners.owner.release = owner_list_free
    return owners


cdef int owner_list_add(OwnerList* self, Owner* item) except -1 nogil:
    cdef Owner** items
    if item == NULL or (self.n_items > 0 and self.items[self.n_items - 1] == item):
        return 0
    if self.n_items == self.capacity:
        items = <Owner**> realloc(self.items, (self.capacity * 2 + 8) * sizeof(Owner*))
        if items == NULL:
            return raise_memory_limit(b"the machine has no memory left")
        self.items = items
        self.capacity = self.capacity * 2 + 8
    self.items[self.n_items] = owner_ref(item)
    self.n_items += 1
    return 0


def live_counts():
    """What the engine holds now: {'structs', 'buffers', 'reserved_bytes', 'idle_bytes'}.

    All but idle_bytes are 0 when no query runs and no result is held. Every test asserts that.
    """
    return {
        "structs": qc_load(&structs_live),
        "buffers": qc_load(&buffers_live),
        "reserved_bytes": qc_load(&bytes_reserved),
        "idle_bytes": qc_load(&idle_bytes),
    }


cdef class Account:
    """The Python object that owns the MemoryAccount of a query or an operator."""

    def __cinit__(self, Account parent=None, int64_t limit=0):
        self.account = account_new(parent.account if parent is not None else NULL, limit)

    def __dealloc__(self):
        owner_unref(<Owner*> self.account)

    @property
    def reserved_bytes(self):
        """Bytes reserved now."""
        return qc_load(&self.account.reserved)

    def read_by(self, Account outer):
        """Record that the query of `outer` reads this one. When that query is stopped, this one is stopped too."""
        if self.account.query != self.account or self.account.outer != NULL:
            raise ValueError("only a query's own account is read by another, and by one")
        self.account.outer = <MemoryAccount*> owner_ref(<Owner*> outer.account.query)

    def stop(self):
        """Declare that the query's answer is no longer needed: its long calls raise Cancelled within milliseconds."""
        qc_swap(&self.account.query.stopped, 1)

    @property
    def peak_bytes(self):
        """The highest number of bytes reserved at one time."""
        return qc_load(&self.account.peak)


@cython.no_gc_clear
cdef class Reservation:
    """Bytes reserved by Python code. They are released by give_back(), or when this object is freed.

    Parameters
    ----------
    account : Account
        The account that is charged.
    """
    cdef Account account
    cdef readonly int64_t n_bytes

    def __cinit__(self, Account account):
        self.account = account

    def __dealloc__(self):
        if self.account is not None:
            account_release(self.account.account, self.n_bytes)

    def add(self, int64_t n_bytes):
        """Reserve more bytes. Raises MemoryLimitError, and then reserves nothing."""
        account_reserve(self.account.account, n_bytes)
        self.n_bytes += n_bytes

    def give_back(self, n_bytes=None):
        """Release some bytes; None: all."""
        cdef int64_t n = self.n_bytes if n_bytes is None else min(<int64_t> n_bytes, self.n_bytes)
        account_release(self.account.account, n)
        self.n_bytes -= n
