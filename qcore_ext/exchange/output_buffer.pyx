"""A task's output pages by partition, kept until their consumers acknowledge them."""

from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport calloc, free, realloc

from qcore_ext.data.batch cimport Batch, batch_ref, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.ground.atomic cimport qc_add, qc_load
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.fault cimport FAULT_STRUCT, fault_here
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Owner, owner_unref, struct_free, struct_new
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.thread_token cimport ThreadToken, thread_token_new, thread_token_wait
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add,
)
from qcore_ext.flow.barrier cimport Membership, barrier_is_empty, barrier_join, barrier_leave
from qcore_ext.exchange.hash_partitioner cimport PARTITIONS_MAX

from qcore_ext.ground.status import ExecutionError, PlanError

cdef enum BufferKind:
    KIND_PARTITIONED = 0
    KIND_BROADCAST = 1
    KIND_ARBITRARY = 2

cdef enum FetchAnswer:
    FETCH_PAGES = 1
    FETCH_WAIT = 2              # the token was registered
    FETCH_BROKEN = 3            # a producer failed or was stopped
    FETCH_GONE = 4              # the consumer called drop
    FETCH_PAST = 5              # these pages were acknowledged
    FETCH_AHEAD = 6             # no such page exists yet

KINDS = {"partitioned": KIND_PARTITIONED, "broadcast": KIND_BROADCAST, "arbitrary": KIND_ARBITRARY}


cdef void free_pages(Page* dropped) noexcept nogil:
    """Free the pages. Call it without the lock, because freeing a large page takes long."""
    cdef Page* page
    while dropped != NULL:
        page = dropped
        dropped = page.next_dropped
        batch_unref(page.batch)
        struct_free(page)


cdef void let_go(OutputBuffer buffer, Page* page, Page** dropped) noexcept nogil:
    """Drop one partition's reference to the page."""
    page.n_holders -= 1
    if page.n_holders == 0:
        qc_add(&buffer.bytes_held, -page.n_bytes)
        page.next_dropped = dropped[0]
        dropped[0] = page


cdef const char* hold(PagePartition* of, Page* page) noexcept nogil:
    """Append the page to the pages of a partition. Returns the message to raise after unlocking, or NULL."""
    cdef Page** ring
    cdef int64_t i
    cdef int64_t capacity = of.capacity * 2 + 8
    if of.n_pages == of.capacity:
        ring = <Page**> realloc(of.ring, capacity * sizeof(Page*))
        if ring == NULL:
            return b"the machine has no memory left"
        # Pages at the start of the ring, after its wrap-around, move after the others.
        for i in range(of.head):
            ring[of.capacity + i] = ring[i]
        of.ring = ring
        of.capacity = capacity
    i = of.head + of.n_pages
    of.ring[i if i < of.capacity else i - of.capacity] = page
    of.n_pages += 1
    page.n_holders += 1
    return NULL


cdef const char* list_new(int64_t n, Batch*** made) noexcept nogil:
    """Allocate a list of `n` batches; free() frees it. Returns the message to raise after unlocking, or NULL."""
    if fault_here(FAULT_STRUCT):
        return b"injected fault: struct"
    made[0] = <Batch**> calloc(n, sizeof(Batch*))
    if made[0] == NULL:
        return b"the machine has no memory left"
    return NULL


cdef Page* page_at(const PagePartition* of, int64_t i) noexcept nogil:
    qc_check(i >= 0 and i < of.n_pages, b"a page is one of its partition")
    i += of.head
    return of.ring[i if i < of.capacity else i - of.capacity]


cdef void count_page(PagePartition* of, const Page* page) noexcept nogil:
    of.pages_total += 1
    of.rows_total += page.batch.n_selected
    of.bytes_total += page.n_bytes


cdef class OutputBuffer:
    """Holds a task's output for its consumers.

    Parameters
    ----------
    kind : str
        'partitioned': a page is for the consumer of its partition; 'broadcast': every consumer gets every page;
        'arbitrary': a page is for the consumer that asks first.
    n_partitions : int
        Consumers: 1 to 4,096.
    n_producers : int
        Operators that put pages. Each calls producer_done once.
    bytes_max : int
        Producers wait while the buffer holds this many bytes.
    """

    def __cinit__(self):
        mutex_init(&self.mutex, LOCK_STRUCTURE)

    def __init__(self, str kind, int64_t n_partitions, int64_t n_producers, int64_t bytes_max=1 << 25):
        if kind not in KINDS:
            raise PlanError(f"output buffers are {', '.join(KINDS)}, not {kind!r}")
        if not 1 <= n_partitions <= PARTITIONS_MAX:
            raise PlanError(f"a task's output has 1 to {PARTITIONS_MAX} partitions, not {n_partitions}")
        if n_producers < 1 or bytes_max < 1:
            raise ValueError("an output buffer needs at least one producer and a limit of at least one byte")
        self.kind = KINDS[kind]
        self.n_partitions = n_partitions
        self.n_wanting = n_partitions
        self.barrier.n_members = n_producers
        self.bytes_max = bytes_max
        self.partitions = <PagePartition*> struct_new((n_partitions + 1) * sizeof(PagePartition))

    def __dealloc__(self):
        cdef Page* dropped = NULL
        cdef int64_t i
        if self.partitions != NULL:
            for i in range(self.n_partitions + 1):
                self.drop_pages(&self.partitions[i], self.partitions[i].n_pages, &dropped)
                wait_list_clear(&self.partitions[i].consumers)
                free(self.partitions[i].ring)
            struct_free(self.partitions)
        free_pages(dropped)
        wait_list_clear(&self.producers)
        mutex_destroy(&self.mutex)

    # --- producers ---

    cdef bint put(self, int64_t partition, Batch* batch, int64_t n_bytes) except -1 nogil:
        cdef Page* page = NULL
        cdef const char* failed
        cdef bint held
        try:
            page = <Page*> struct_new(sizeof(Page))
        finally:
            if page == NULL:
                batch_unref(batch)
        page.batch = batch
        page.n_bytes = n_bytes
        mutex_lock(&self.mutex)
        # Counted first: a holder that goes subtracts itself again.
        qc_add(&self.bytes_held, n_bytes)
        failed = self.put_locked(partition, page)
        held = page.n_holders > 0
        if not held:
            qc_add(&self.bytes_held, -n_bytes)
        mutex_unlock(&self.mutex)
        if not held:
            free_pages(page)
        if failed != NULL:
            raise_memory_limit(failed)
        if not held:
            return False
        if self.kind == KIND_PARTITIONED:
            self.wake_consumers(partition)
        else:
            self.wake_all()
        return True

    cdef const char* put_locked(self, int64_t partition, Page* page) noexcept nogil:
        cdef const char* failed = NULL
        cdef int64_t first = 0
        cdef int64_t end = self.n_partitions
        cdef int64_t i
        if self.kind == KIND_ARBITRARY:
            end = 0
            if self.n_wanting > 0:
                failed = hold(&self.partitions[self.n_partitions], page)
        if self.kind == KIND_PARTITIONED:
            first, end = partition, partition + 1
        for i in range(first, end):
            if not self.partitions[i].is_gone and failed == NULL:
                failed = hold(&self.partitions[i], page)
                if failed == NULL:
                    count_page(&self.partitions[i], page)
        return failed

    cdef bint is_full(self, WaitToken* token) except -1 nogil:
        cdef const char* failed = NULL
        cdef bint full
        if qc_load(&self.bytes_held) < self.bytes_max:
            return False
        mutex_lock(&self.mutex)
        full = self.bytes_held >= self.bytes_max and self.n_wanting > 0
        if full:
            failed = wait_list_try_add(&self.producers, token)
        mutex_unlock(&self.mutex)
        if failed != NULL:
            raise_memory_limit(failed)
        return full

    cdef bint has_consumers(self) noexcept nogil:
        return qc_load(&self.n_wanting) > 0

    cdef void join(self, Membership* member) noexcept nogil:
        barrier_join(member)

    cdef void producer_done(self, bint finished, Membership* member) noexcept nogil:
        cdef bint over
        mutex_lock(&self.mutex)
        barrier_leave(&self.barrier, member)
        if not finished and self.n_wanting > 0:
            self.is_broken = True
        over = barrier_is_empty(&self.barrier) or self.is_broken
        mutex_unlock(&self.mutex)
        if over:
            self.wake_all()

    # --- under the lock ---

    cdef void drop_pages(self, PagePartition* of, int64_t n, Page** dropped) noexcept nogil:
        """Drop the first n pages of the partition."""
        while n > 0:
            n -= 1
            let_go(self, of.ring[of.head], dropped)
            of.head = of.head + 1 if of.head + 1 < of.capacity else 0
            of.n_pages -= 1
            of.first += 1

    cdef bint is_over(self) noexcept nogil:
        """Whether no partition gets another page."""
        return barrier_is_empty(&self.barrier) and self.partitions[self.n_partitions].n_pages == 0

    cdef void take_producers(self, WaitList* taken) noexcept nogil:
        """Take the producers to wake if the buffer is no longer full."""
        if self.producers.n_tokens > 0 and (self.bytes_held < self.bytes_max or self.n_wanting == 0):
            wait_list_take(&self.producers, taken)

    cdef int acknowledge_to(self, PagePartition* of, int64_t sequence, Page** dropped) noexcept nogil:
        if sequence > of.first + of.n_pages:
            return FETCH_AHEAD
        if sequence > of.first:
            self.drop_pages(of, sequence - of.first, dropped)
        return FETCH_PAGES

    cdef int look(
        self, int64_t partition, int64_t sequence, int64_t bytes_wanted, WaitToken* token, Page** dropped,
        Batch*** batches, int64_t* n, bint* complete, const char** failed,
    ) noexcept nogil:
        """Look for the pages of a fetch. batches[0] becomes a list of n references."""
        cdef PagePartition* of = &self.partitions[partition]
        cdef PagePartition* shared = &self.partitions[self.n_partitions]
        cdef int64_t n_bytes = 0
        cdef int64_t i = 0
        if of.is_gone:
            return FETCH_GONE
        if self.is_broken:
            return FETCH_BROKEN
        if sequence < of.first:
            return FETCH_PAST
        if self.acknowledge_to(of, sequence, dropped) == FETCH_AHEAD:
            return FETCH_AHEAD
        if self.kind == KIND_ARBITRARY and of.n_pages == 0:
            # Moved to this consumer's partition: it may fetch the page again, and no other consumer gets it.
            while shared.n_pages > 0 and n_bytes < bytes_wanted:
                failed[0] = hold(of, page_at(shared, 0))
                if failed[0] != NULL:
                    return FETCH_PAGES
                n_bytes += page_at(shared, 0).n_bytes
                count_page(of, page_at(shared, 0))
                self.drop_pages(shared, 1, dropped)
        n_bytes = 0
        while i < of.n_pages and (i == 0 or n_bytes + page_at(of, i).n_bytes <= bytes_wanted):
            n_bytes += page_at(of, i).n_bytes
            i += 1
        complete[0] = i == of.n_pages and self.is_over()
        if i == 0:
            if not complete[0]:
                failed[0] = wait_list_try_add(&of.consumers, token)
                return FETCH_WAIT
            return FETCH_PAGES
        failed[0] = list_new(i, batches)
        if failed[0] != NULL:
            return FETCH_PAGES
        n[0] = i
        for i in range(n[0]):
            batches[0][i] = batch_ref(page_at(of, i).batch)
        return FETCH_PAGES

    # --- both sides ---

    cdef void wake_consumers(self, int64_t partition) noexcept nogil:
        cdef WaitList taken
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        if self.partitions[partition].consumers.n_tokens > 0:
            wait_list_take(&self.partitions[partition].consumers, &taken)
        mutex_unlock(&self.mutex)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)

    cdef void wake_all(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.n_partitions):
            self.wake_consumers(i)

    cdef int try_fetch(
        self, int64_t partition, int64_t sequence, int64_t bytes_wanted, WaitToken* token, Batch*** batches,
        int64_t* n, bint* complete,
    ) except -1 nogil:
        cdef WaitList taken
        cdef Page* dropped = NULL
        cdef const char* failed = NULL
        cdef int answer
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        answer = self.look(partition, sequence, bytes_wanted, token, &dropped, batches, n, complete, &failed)
        self.take_producers(&taken)
        mutex_unlock(&self.mutex)
        free_pages(dropped)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)
        if failed != NULL:
            raise_memory_limit(failed)
        return answer

    cdef void forget_token(self, int64_t partition, WaitToken* token) noexcept nogil:
        """Remove the token of a fetch that ended without its firing."""
        cdef WaitList* waiting = &self.partitions[partition].consumers
        cdef bint found = False
        cdef int64_t i
        mutex_lock(&self.mutex)
        for i in range(waiting.n_tokens):
            if waiting.tokens[i] == token:
                waiting.n_tokens -= 1
                waiting.tokens[i] = waiting.tokens[waiting.n_tokens]
                found = True
                break
        mutex_unlock(&self.mutex)
        if found:
            owner_unref(<Owner*> token)

    cdef void read_partition(self, int64_t partition, PagePartition* counters) noexcept nogil:
        """Copy the counters of a partition under the lock. The copied pointers must not be followed."""
        mutex_lock(&self.mutex)
        counters[0] = self.partitions[partition]
        mutex_unlock(&self.mutex)

    # --- consumers ---

    def fetch(self, int64_t partition, int64_t sequence, bytes_wanted=None, timeout=None):
        """Return the pages of a partition from number `sequence` on, and acknowledge the pages before it.

        Parameters
        ----------
        partition, sequence : int
        bytes_wanted : int, optional
            Stop after the page that reaches this many bytes. None: return all pages.
        timeout : float, optional
            Seconds to wait for the first page. None: wait until a page or the end comes.

        Returns
        -------
        (list, bool) or None
            Batches (objects with __arrow_c_array__), and whether they are the last ones. None: a producer failed or
            was stopped.
        """
        cdef ThreadToken* token
        cdef Batch** batches = NULL
        cdef int64_t n = 0
        cdef bint complete = False
        cdef int answer
        cdef int64_t i
        cdef int64_t wanted = INT64_MAX if bytes_wanted is None else bytes_wanted
        cdef int64_t nanos = -1
        cdef int64_t until = -1
        self.check_partition(partition)
        if timeout is not None:
            nanos = max(<int64_t> 0, <int64_t> (timeout * 1e9))
            until = wall_nanos() + nanos
        token = thread_token_new()
        try:
            while True:
                with nogil:
                    answer = self.try_fetch(partition, sequence, wanted, &token.token, &batches, &n, &complete)
                if answer != FETCH_WAIT:
                    break
                if until >= 0:
                    nanos = max(<int64_t> 0, until - wall_nanos())
                if not thread_token_wait(token, nanos, False):
                    break
        finally:
            with nogil:
                self.forget_token(partition, &token.token)
                owner_unref(<Owner*> token)
        if answer == FETCH_BROKEN:
            return None
        self.check_answer(answer, partition, sequence)
        pages = []
        try:
            for i in range(n):
                pages.append(PyBatch.wrap(batches[i]))
        finally:
            for i in range(n):
                batch_unref(batches[i])
            free(batches)
        return pages, bool(complete)

    def acknowledge(self, int64_t partition, int64_t sequence):
        """Declare that the pages before number `sequence` are no longer needed. It may be called again."""
        cdef WaitList taken
        cdef Page* dropped = NULL
        cdef int answer
        taken.n_tokens = 0
        self.check_partition(partition)
        with nogil:
            mutex_lock(&self.mutex)
            answer = self.acknowledge_to(&self.partitions[partition], sequence, &dropped)
            self.take_producers(&taken)
            mutex_unlock(&self.mutex)
            free_pages(dropped)
            if taken.n_tokens > 0:
                wait_list_fire(&taken)
        self.check_answer(answer, partition, sequence)

    def drop(self, int64_t partition):
        """Drop the pages of a partition whose consumer has ended. Without consumers the producers stop."""
        cdef WaitList taken
        cdef PagePartition* of
        cdef PagePartition* shared
        cdef Page* dropped = NULL
        taken.n_tokens = 0
        self.check_partition(partition)
        of = &self.partitions[partition]
        shared = &self.partitions[self.n_partitions]
        with nogil:
            mutex_lock(&self.mutex)
            if not of.is_gone:
                of.is_gone = True
                qc_add(&self.n_wanting, -1)
                self.drop_pages(of, of.n_pages, &dropped)
                if self.n_wanting == 0:
                    self.drop_pages(shared, shared.n_pages, &dropped)
            self.take_producers(&taken)
            mutex_unlock(&self.mutex)
            free_pages(dropped)
            if taken.n_tokens > 0:
                wait_list_fire(&taken)
            self.wake_consumers(partition)

    def check_partition(self, int64_t partition):
        """Raise PlanError for a partition that does not exist."""
        if not 0 <= partition < self.n_partitions:
            raise PlanError(f"there is no partition {partition}; they are numbered 0 to {self.n_partitions - 1}")

    def check_answer(self, int answer, int64_t partition, int64_t sequence):
        """Raise the error of a wrong fetch or acknowledgement."""
        cdef PagePartition of
        self.read_partition(partition, &of)
        if answer == FETCH_GONE:
            raise ExecutionError(f"the consumer of partition {partition} has dropped its pages")
        if answer == FETCH_PAST:
            raise ExecutionError(
                f"page {sequence} of partition {partition} was acknowledged and is gone; page {of.first} is the first "
                "left"
            )
        if answer == FETCH_AHEAD:
            raise ExecutionError(
                f"partition {partition} has no page {sequence} yet; fetch or acknowledge up to {of.first + of.n_pages}"
            )

    @property
    def n_bytes(self):
        """Bytes held now."""
        return qc_load(&self.bytes_held)

    def stats(self):
        """Counters of each partition: pages, rows, bytes, held and acknowledged pages, and whether it was dropped."""
        cdef PagePartition of
        cdef int64_t i
        counters = []
        for i in range(self.n_partitions):
            self.read_partition(i, &of)
            counters.append({
                "pages": of.pages_total, "rows": of.rows_total, "bytes": of.bytes_total, "held": of.n_pages,
                "acknowledged": of.first, "gone": bool(of.is_gone),
            })
        return counters
