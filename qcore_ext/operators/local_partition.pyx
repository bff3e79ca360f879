"""Sink that hands rows to the drivers of another pipeline: by hash, in turn, or all to one. Floor E4. SPEC V2, H1.

Nothing is copied: a partition is the same columns under a selection. The indices of all partitions of a batch stand in
one buffer, sorted by partition with one counting sort, ascending within each.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.compute.row_hash cimport hash_vector
from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Vector, VectorScratch, column_load, column_ref
from qcore_ext.data.schema cimport CSchema, schema_index
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.stats cimport WAIT_FOR_CONSUMER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.operators.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.structures.batch_queue cimport QUEUE_CLOSED, QUEUE_DONE, QUEUE_WAIT, BatchQueue, QueueAnswer

from qcore_ext.ground.status import PlanError, SchemaChangeError

cdef enum PartitionKind:
    KIND_GATHER = 0
    KIND_ROUND_ROBIN = 1
    KIND_HASH = 2

cdef enum:
    PARTITIONS_MAX = 4096

KINDS = {"gather": KIND_GATHER, "round_robin": KIND_ROUND_ROBIN, "hash": KIND_HASH}


cdef void assign_partitions(
    const uint64_t* hashes,     # IN
    int64_t n,
    int64_t n_partitions,
    uint16_t* partitions,       # OUT
    int64_t* counts,            # IN/OUT
) noexcept nogil:
    cdef int64_t i
    # Bits 32 and up of the hash, scaled to the number of partitions without dividing.
    for i in range(n):
        partitions[i] = <uint16_t> (((hashes[i] >> 32) * <uint64_t> n_partitions) >> 32)
    for i in range(n):
        counts[partitions[i]] += 1


cdef void place_rows(
    const uint16_t* partitions,     # IN
    const uint32_t* selection,      # IN; NULL: row i is row i
    int64_t n,
    int64_t* places,                # IN/OUT; next place of each partition
    uint32_t* rows,                 # OUT
) noexcept nogil:
    cdef int64_t i, place
    if selection == NULL:
        for i in range(n):
            place = places[partitions[i]]
            places[partitions[i]] = place + 1
            rows[place] = <uint32_t> i
    else:
        for i in range(n):
            place = places[partitions[i]]
            places[partitions[i]] = place + 1
            rows[place] = selection[i]


cdef class LocalPartition(Operator):
    """Distributes rows over queues.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    queues : list of BatchQueue
        One a consumer; this operator is a producer of each.
    kind : str
        'gather' (one queue), 'round_robin' or 'hash'.
    key_names : list of str
        Columns to hash.
    """
    cdef list queue_objects
    cdef void** queues              # BatchQueue, borrowed from queue_objects
    cdef Batch** held               # one a queue; owned; not yet in it
    cdef int64_t* places
    cdef int64_t n_queues
    cdef int64_t n_held
    cdef int64_t next_queue         # round robin
    cdef int kind
    cdef list key_names
    cdef int32_t* keys              # key columns
    cdef int32_t n_keys
    cdef VectorScratch* scratch
    cdef bint finish_called
    cdef bint left

    def __init__(self, str node_id, Account query_memory, list queues, str kind="gather", list key_names=None):
        cdef int64_t i
        Operator.__init__(self, "LocalPartition", node_id, query_memory)
        self.key_names = [name.encode() for name in key_names or []]
        if kind not in KINDS:
            raise PlanError(f"a local partition is one of {', '.join(KINDS)}, not {kind!r}")
        self.kind = KINDS[kind]
        if not 1 <= len(queues) <= PARTITIONS_MAX or (self.kind == KIND_GATHER and len(queues) > 1):
            raise PlanError(f"a {kind} local partition cannot have {len(queues)} consumers")
        if self.kind == KIND_HASH and not self.key_names:
            raise PlanError("a hash local partition needs at least one key column")
        if len(queues) == 1:
            self.kind = KIND_GATHER
        self.queue_objects = [<BatchQueue?> queue for queue in queues]
        self.n_queues = <int64_t> len(queues)
        self.n_keys = <int32_t> len(self.key_names)
        self.queues = <void**> struct_new(self.n_queues * sizeof(void*))
        self.held = <Batch**> struct_new(self.n_queues * sizeof(Batch*))
        self.places = <int64_t*> struct_new((self.n_queues + 1) * sizeof(int64_t))
        self.keys = <int32_t*> struct_new((self.n_keys + 1) * sizeof(int32_t))
        for i in range(self.n_queues):
            self.queues[i] = <void*> self.queue_objects[i]

    def __dealloc__(self):
        self.drop_held()
        struct_free(self.queues)
        struct_free(self.held)
        struct_free(self.places)
        struct_free(self.keys)
        struct_free(self.scratch)

    cdef int open(self) except -1 nogil:
        if self.kind == KIND_HASH:
            self.scratch = <VectorScratch*> struct_new(sizeof(VectorScratch))
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        cdef int32_t i
        if self.kind == KIND_HASH:
            with gil:
                for i in range(self.n_keys):
                    self.keys[i] = schema_index(schema, <bytes> self.key_names[i])
                    if self.keys[i] < 0:
                        raise SchemaChangeError(f"key column {self.key_names[i].decode()!r} is missing from the input")
        return Operator.bind(self, schema)

    cdef bint needs_input(self) noexcept nogil:
        return self.n_held == 0 and not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if self.kind == KIND_HASH and batch.n_selected > 0:
            self.split(batch)
            batch_unref(batch)
        else:
            # In turn: get_output may still give it to another queue that has room. Without rows it tells the schema.
            self.held[self.next_queue] = batch
            self.n_held = 1
        return ACCEPTED

    cdef int split(self, Batch* batch) except -1 nogil:
        """Fill `held` with the partitions of a batch; on failure none is held."""
        cdef int64_t n = batch.n_selected
        cdef int64_t n_queues = self.n_queues
        cdef int64_t* places = self.places
        cdef int64_t i, start, total
        cdef uint32_t* rows
        cdef bint done = False
        cdef Buffer* row_buffer = NULL
        cdef Buffer* partitions = buffer_new(self.account, n * 2)
        try:
            row_buffer = buffer_new(self.account, n * 4)
            rows = <uint32_t*> row_buffer.data
            memset(places, 0, n_queues * sizeof(int64_t))
            self.hash_rows(batch, <uint16_t*> partitions.data)
            total = 0
            for i in range(n_queues):       # counts become first places
                start = total
                total += places[i]
                places[i] = start
            place_rows(<const uint16_t*> partitions.data, batch.selection, n, places, rows)
            start = 0
            for i in range(n_queues):       # places are ends now
                if places[i] > start:
                    self.held[i] = self.partition_of(batch, rows + start, places[i] - start, row_buffer)
                    self.n_held += 1
                start = places[i]
            done = True
        finally:
            buffer_unref(partitions)
            buffer_unref(row_buffer)
            if not done:
                self.drop_held()
        return 0

    cdef int hash_rows(self, Batch* batch, uint16_t* partitions) except -1 nogil:
        """Partition of every row that counts, and how many each has into `places`."""
        cdef uint64_t hashes[VECTOR_ROWS]
        cdef Vector vector
        cdef int64_t start, n
        cdef int32_t key
        cdef const uint32_t* rows = NULL
        start = 0
        while start < batch.n_selected:
            n = min(batch.n_selected - start, <int64_t> VECTOR_ROWS)
            if batch.selection != NULL:
                rows = batch.selection + start
            for key in range(self.n_keys):
                column_load(batch.columns[self.keys[key]], start, rows, n, self.scratch, &vector)
                hash_vector(&vector, n, key > 0, hashes)
            assign_partitions(hashes, n, self.n_queues, partitions + start, self.places)
            start += n
        return 0

    cdef Batch* partition_of(self, Batch* batch, const uint32_t* rows, int64_t n, Buffer* owner) except NULL nogil:
        cdef Batch* out = batch_new(batch.schema, batch.n_rows)
        cdef int32_t i
        for i in range(batch.n_columns):
            out.columns[i] = column_ref(batch.columns[i])
        batch_select(out, rows, n, <Owner*> owner)
        return out

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.n_held > 0:
            if self.kind == KIND_HASH:
                self.push_hashed(token)
            else:
                self.push_anywhere(token)
            if self.n_held > 0:
                self.blocked_reason = WAIT_FOR_CONSUMER
                return BLOCKED
        if self.finish_called or not self.wanted():
            return FINISHED
        return NEEDS_INPUT

    cdef QueueAnswer push(self, int64_t slot, int64_t to, WaitToken* token) except <QueueAnswer> -1 nogil:
        """Move held[slot] into a queue, if that has room."""
        cdef QueueAnswer answer = (<BatchQueue> self.queues[to]).push(self.held[slot], token)
        if answer == QUEUE_DONE:
            self.held[slot] = NULL
            self.n_held -= 1
        return answer

    cdef int push_hashed(self, WaitToken* token) except -1 nogil:
        """Each partition to its queue; one whose consumer is gone is dropped."""
        cdef int64_t i
        for i in range(self.n_queues):
            if self.held[i] != NULL and self.push(i, i, token) == QUEUE_CLOSED:
                batch_unref(self.held[i])
                self.held[i] = NULL
                self.n_held -= 1
        return 0

    cdef int push_anywhere(self, WaitToken* token) except -1 nogil:
        """The batch held goes to the first queue in turn that has a consumer and room."""
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

    cdef bint wanted(self) noexcept nogil:
        """Whether any queue has a consumer."""
        cdef int64_t i
        for i in range(self.n_queues):
            if (<BatchQueue> self.queues[i]).has_consumers():
                return True
        return False

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        self.leave()
        return 0

    cdef void leave(self) noexcept nogil:
        cdef int64_t i
        if not self.left:
            self.left = True
            for i in range(self.n_queues):
                (<BatchQueue> self.queues[i]).producer_done()

    cdef void drop_held(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.n_queues):
            batch_unref(self.held[i])
            self.held[i] = NULL
        self.n_held = 0

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        self.drop_held()
        self.leave()
        struct_free(self.scratch)
        self.scratch = NULL
