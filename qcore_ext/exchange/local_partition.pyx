"""Sink that passes rows to the drivers of another pipeline: by hash, round robin, or all to one.

No value is copied: each partition has the same columns with a selection. The row numbers of all partitions of a batch
are in one buffer, sorted by partition with one counting sort, and ascending within each partition.

For consumers that group many rows by part, rows are copied into pages of one part each (exchange/part_pages).
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.data.batch cimport WHOLE_GROUPS, Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, column_ref
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.check cimport qc_check, qc_check_selection
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.stats cimport WAIT_FOR_CONSUMER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.flow.batch_queue cimport QUEUE_CLOSED, QUEUE_DONE, QUEUE_WAIT, BatchQueue, QueueAnswer
from qcore_ext.exchange.hash_partitioner cimport (
    PARTITIONS_MAX, HashPartitioner, count_rows, counts_to_starts, place_rows,
)
from qcore_ext.exchange.part_pages cimport PartPages
from qcore_ext.rows.part_buffers cimport RADIX_PARTS, part_of_hash

from qcore_ext.ground.status import PlanError

cdef enum PartitionKind:
    KIND_GATHER = 0
    KIND_ROUND_ROBIN = 1
    KIND_HASH = 2

KINDS = {"gather": KIND_GATHER, "round_robin": KIND_ROUND_ROBIN, "hash": KIND_HASH}


cdef inline int64_t queue_of(int64_t part, int64_t n_queues) noexcept nogil:
    return part * n_queues // RADIX_PARTS


cdef class LocalPartition(Operator):
    """Distributes rows over queues.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    queues : list of BatchQueue
        One for each consumer. This operator is a producer of each.
    kind : str
        'gather' (one queue), 'round_robin' or 'hash'.
    key_names : list of str
        Columns to hash.
    schema : Schema, optional
        Schema on which all producers of these queues agree; by default the first schema bound. A key whose type
        does not widen raises SchemaChangeError.
    by_part : bool
        Every queue gets the rows of some radix parts (rows/part_buffers), of many rows in pages of one part. For kind
        'hash' and at most 256 queues. All producers of these queues agree on it.
    paged_rows_min : int
        The first pages are begun when more rows than this have come: those of few rows would be small.
    page_rows : int
        Rows of the longest page; at least 2,048. Less than a power of two, because the blocks of the pool are powers
        of two. For each page the consumer reads the slots and states of its part from memory. With 1M groups, pages
        of 8K rows need 1.3 times the time of pages of 16K rows, and pages of 32K rows as much as those. With 10M
        groups pages of 32K rows need 0.93 of the time.
    """
    cdef list queue_objects
    cdef void** queues              # BatchQueue, borrowed from queue_objects
    cdef Batch** held               # by queue; owned; not yet in the queue
    cdef int64_t* positions
    cdef int64_t n_queues
    cdef int64_t n_held
    cdef int64_t next_queue         # round robin
    cdef bint goes_anywhere         # the held batch is for any queue
    cdef int kind
    cdef HashPartitioner partitioner    # None unless kind is 'hash'
    cdef bint by_part
    cdef bint takes_pages               # rows may go into pages
    cdef int64_t paged_rows_min
    cdef int64_t page_rows
    cdef int64_t n_rows                 # rows that came before pages were begun
    cdef PartPages pages                # None unless by_part
    cdef bint has_pages                 # pages are begun
    cdef Batch* batch                   # owned; the rest of its rows waits until pages are in their queues
    cdef int64_t position               # number of its selected rows that are in pages
    cdef bint finish_called
    cdef bint left

    def __init__(
        self, str node_id, Account query_memory, list queues, str kind="gather", list key_names=None,
        Schema schema=None, bint by_part=False, int64_t paged_rows_min=131072, int64_t page_rows=16256,
    ):
        cdef int64_t i
        Operator.__init__(self, "LocalPartition", node_id, query_memory)
        if kind not in KINDS:
            raise PlanError(f"a local partition is one of {', '.join(KINDS)}, not {kind!r}")
        self.kind = KINDS[kind]
        if not 1 <= len(queues) <= PARTITIONS_MAX or (self.kind == KIND_GATHER and len(queues) > 1):
            raise PlanError(f"a {kind} local partition cannot have {len(queues)} consumers")
        if self.kind == KIND_HASH:
            self.partitioner = HashPartitioner(key_names or [], len(queues), schema=schema)
        if by_part and (self.kind != KIND_HASH or len(queues) > RADIX_PARTS):
            raise PlanError(f"a {kind} local partition into {len(queues)} queues cannot be by part")
        if page_rows < VECTOR_ROWS:
            raise PlanError(f"a page has at least {VECTOR_ROWS} rows, not {page_rows}")
        if len(queues) == 1:
            self.kind = KIND_GATHER
        self.by_part = by_part and self.kind == KIND_HASH
        self.takes_pages = self.by_part
        if self.by_part:
            self.pages = PartPages()
        self.paged_rows_min = paged_rows_min
        self.page_rows = page_rows
        self.queue_objects = [<BatchQueue?> queue for queue in queues]
        self.queues = <void**> struct_new(len(queues) * sizeof(void*))
        self.held = <Batch**> struct_new(len(queues) * sizeof(Batch*))
        self.positions = <int64_t*> struct_new((len(queues) + 1) * sizeof(int64_t))
        # Set after the arrays exist, because __dealloc__ visits this many entries.
        self.n_queues = <int64_t> len(queues)
        for i in range(self.n_queues):
            self.queues[i] = <void*> self.queue_objects[i]
            (<BatchQueue> self.queues[i]).join(&self.membership)

    def __dealloc__(self):
        self.drop_held()
        struct_free(self.queues)
        struct_free(self.held)
        struct_free(self.positions)

    cdef int open(self) except -1 nogil:
        if self.kind == KIND_HASH:
            self.partitioner.open()
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        if self.kind == KIND_HASH:
            self.partitioner.bind(schema)
        if self.takes_pages and not (self.input_schema == NULL and self.partitioner.hashes_as_given()):
            # The consumer partitions by the hashes of the wider keys.
            self.takes_pages = False
            if self.has_pages:
                self.pages.close_pages()
        return Operator.bind(self, schema)

    cdef bint needs_input(self) noexcept nogil:
        return self.n_held == 0 and self.batch == NULL and not self.has_page() and not self.finish_called

    cdef bint has_page(self) noexcept nogil:
        return self.has_pages and self.pages.first_page() != NULL

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if self.takes_pages and batch.n_selected > 0:
            self.choose_pages(batch.n_selected)
        if self.takes_pages and self.has_pages and batch.n_selected > 0:
            self.position = self.pages.add(batch, 0, self.partitioner)
            self.batch = batch
        elif self.kind == KIND_HASH and batch.n_selected > 0 and batch.part != WHOLE_GROUPS:
            self.goes_anywhere = False
            self.split(batch)
            batch_unref(batch)
        else:
            # A first choice: get_output may give it to another queue with free cells. A batch without rows carries its
            # schema. Any consumer may have whole groups.
            self.goes_anywhere = True
            self.held[self.next_queue] = batch
            self.n_held = 1
        return ACCEPTED

    cdef int choose_pages(self, int64_t n) except -1 nogil:
        """Begin pages once there were enough rows, or end them if most would be small."""
        if not self.has_pages:
            self.n_rows += n
            if self.n_rows > self.paged_rows_min:
                self.has_pages = self.pages.begin(self.account, self.input_schema, self.page_rows)
                self.takes_pages = self.has_pages
        elif self.pages.is_skewed:
            self.takes_pages = False
        return 0

    cdef int split(self, Batch* batch) except -1 nogil:
        """Fill `held` with the partitions of a batch. If that fails, `held` is empty."""
        cdef int64_t n = batch.n_selected
        cdef int64_t n_queues = self.n_queues
        cdef int64_t* positions = self.positions
        cdef int64_t i, start
        cdef uint32_t* rows
        cdef bint done = False
        cdef Buffer* row_buffer = NULL
        cdef Buffer* partitions = buffer_new(self.account, n * 2)
        try:
            row_buffer = buffer_new(self.account, n * 4)
            rows = <uint32_t*> row_buffer.data
            memset(positions, 0, n_queues * sizeof(int64_t))
            self.hash_rows(batch, <uint16_t*> partitions.data)
            counts_to_starts(positions, n_queues)
            place_rows(<const uint16_t*> partitions.data, n_queues, batch.selection, 0, n, positions, rows)
            start = 0
            for i in range(n_queues):       # positions are the ends of the partitions now
                if positions[i] > start:
                    self.held[i] = self.partition_of(batch, rows + start, positions[i] - start, row_buffer)
                    self.n_held += 1
                start = positions[i]
            qc_check(start == n, b"every row is in one partition")
            done = True
        finally:
            buffer_unref(partitions)
            buffer_unref(row_buffer)
            if not done:
                self.drop_held()
        return 0

    cdef int hash_rows(self, Batch* batch, uint16_t* partitions) except -1 nogil:
        """Compute the partition of every selected row, and the number of rows of each partition into `positions`."""
        cdef uint64_t hashes[VECTOR_ROWS]
        cdef int64_t i
        cdef int64_t start = 0
        cdef int64_t n
        while start < batch.n_selected:
            n = min(batch.n_selected - start, <int64_t> VECTOR_ROWS)
            if self.by_part:
                self.partitioner.hash(batch, start, n, hashes, self.account)
                for i in range(n):
                    partitions[start + i] = <uint16_t> queue_of(part_of_hash(hashes[i]), self.n_queues)
            else:
                self.partitioner.assign(batch, start, n, partitions + start, self.account)
            count_rows(partitions + start, n, self.n_queues, self.positions)
            start += n
        return 0

    cdef Batch* partition_of(self, Batch* batch, const uint32_t* rows, int64_t n, Buffer* owner) except NULL nogil:
        cdef Batch* out = batch_new(batch.schema, batch.n_rows)
        cdef int32_t i
        qc_check_selection(rows, n, batch.n_rows, b"a partition's rows ascend")
        for i in range(batch.n_columns):
            out.columns[i] = column_ref(batch.columns[i])
        batch_select(out, rows, n, <Owner*> owner)
        return out

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        # First, so that the consumer has pages of the narrower schema before it widens its groups.
        if self.has_pages and not self.pass_pages(token):
            self.blocked_reason = WAIT_FOR_CONSUMER
            return BLOCKED
        if self.n_held > 0:
            if self.goes_anywhere:
                self.push_anywhere(token)
            else:
                self.push_hashed(token)
            if self.n_held > 0:
                self.blocked_reason = WAIT_FOR_CONSUMER
                return BLOCKED
        if not self.has_consumer():
            return FINISHED
        if self.finish_called:
            self.leave()
            return FINISHED
        return NEEDS_INPUT

    cdef bint pass_pages(self, WaitToken* token) except -1 nogil:
        """Put the rows of the batch into pages, at the end of the input all rows, and full pages into their queues.

        Returns False if a queue is full.
        """
        while self.push_pages(token):
            if self.batch != NULL and self.position < self.batch.n_selected:
                self.position += self.pages.add(self.batch, self.position, self.partitioner)
            elif self.batch != NULL:
                batch_unref(self.batch)
                self.batch = NULL
            elif self.finish_called and self.pages.n_rows > 0:
                self.pages.close_pages()
            else:
                return True
        return False

    cdef bint push_pages(self, WaitToken* token) except -1 nogil:
        """Put all full pages into their queues. Returns False if one is full. A page without a consumer is dropped."""
        cdef Batch* page
        cdef QueueAnswer answer
        while self.has_page():
            page = self.pages.first_page()
            answer = (<BatchQueue> self.queues[queue_of(page.part, self.n_queues)]).push(page, token)
            if answer == QUEUE_WAIT:
                return False
            self.pages.page_taken()
            if answer == QUEUE_CLOSED:
                batch_unref(page)
        return True

    cdef QueueAnswer push(self, int64_t slot, int64_t to, WaitToken* token) except <QueueAnswer> -1 nogil:
        """Put held[slot] into a queue unless the queue is full."""
        cdef QueueAnswer answer = (<BatchQueue> self.queues[to]).push(self.held[slot], token)
        if answer == QUEUE_DONE:
            self.held[slot] = NULL
            self.n_held -= 1
        return answer

    cdef int push_hashed(self, WaitToken* token) except -1 nogil:
        """Put each partition into its queue. A partition whose consumer is gone is dropped."""
        cdef int64_t i
        for i in range(self.n_queues):
            if self.held[i] != NULL and self.push(i, i, token) == QUEUE_CLOSED:
                batch_unref(self.held[i])
                self.held[i] = NULL
                self.n_held -= 1
        return 0

    cdef int push_anywhere(self, WaitToken* token) except -1 nogil:
        """Put the batch into the first queue in turn that has a consumer and is not full."""
        cdef int64_t slot = self.next_queue
        cdef int64_t i, to
        cdef bint wanted = False
        cdef QueueAnswer answer
        for i in range(self.n_queues):
            to = (slot + i) % self.n_queues
            answer = self.push(slot, to, token)
            if answer == QUEUE_DONE:
                self.next_queue = (to + 1) % self.n_queues
                return 0
            wanted = wanted or answer == QUEUE_WAIT
        if not wanted:
            self.drop_held()
        return 0

    cdef bint has_consumer(self) noexcept nogil:
        """Whether any queue has a consumer."""
        cdef int64_t i
        for i in range(self.n_queues):
            if (<BatchQueue> self.queues[i]).has_consumers():
                return True
        return False

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        if not self.has_pages:
            self.leave()
        return 0

    cdef void leave(self) noexcept nogil:
        cdef int64_t i
        if not self.left:
            self.left = True
            for i in range(self.n_queues):
                (<BatchQueue> self.queues[i]).producer_done(&self.membership)

    cdef void drop_held(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.n_queues):
            batch_unref(self.held[i])
            self.held[i] = NULL
        self.n_held = 0
        batch_unref(self.batch)
        self.batch = NULL

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        self.drop_held()
        self.leave()
        if self.pages is not None:
            self.pages.release()
            self.has_pages = False
        if self.partitioner is not None:
            self.partitioner.close()
