"""The sink of a join's build side. It collects rows, and its drivers build the table together."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport (
    CSchema, DataType, Schema, schema_copy_field, schema_equal, schema_index, schema_new,
)
from qcore_ext.ground.check cimport qc_check_selection
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.stats cimport WAIT_FOR_PEERS
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.join.bridge cimport JoinBridge
from qcore_ext.join.kind cimport keeps_null_keys
from qcore_ext.join.key_codes cimport rows_without_null
from qcore_ext.join.table cimport JoinLookup, join_lookup_close, join_lookup_open
from qcore_ext.rows.nested_rows cimport nested_part, schema_has_nested
from qcore_ext.rows.column_store cimport ColumnStore, column_store_append, column_store_keep_nested, column_store_new
from qcore_ext.rows.widened_rows cimport column_store_widen

from qcore_ext.ground.status import PlanError

cdef enum:
    HELPER_ROWS_MIN = 16384     # a driver with fewer rows does not wait to help with the build


cdef class HashBuild(Operator):
    """The build side of a hash join, or of a nested-loop join if there are no keys.

    Parameters
    ----------
    node_id : str
        The id of the plan node.
    query_memory : Account
        The query's account.
    bridge : JoinBridge
        The bridge that all drivers of this join share.
    key_names : list of str
        The key columns, in the order of the probe side's keys.
    payload_names : list of str
        The columns that the join's output or condition needs. Keys may occur again.

    Raises
    ------
    PlanError
        If the input has no column of one of the names.
    """
    cdef JoinBridge bridge
    cdef list key_names
    cdef list stored_names          # keys first; each column once
    cdef bint returns_keys          # the join's output or condition needs a key column
    cdef int32_t n_keys
    cdef int32_t n_stored
    cdef int32_t* key_columns       # owned; for each key its position among the stored columns
    cdef int32_t* input_columns     # owned; for each stored column its position in the input
    cdef CSchema* stored_schema     # owned
    cdef ColumnStore* store         # owned; NULL before the first batch and after delivery
    cdef Buffer* scratch            # owned; for one vector
    cdef Column** stored_columns    # owned array; borrowed columns of the current batch
    cdef Schema resolved            # the input schema that input_columns are positions in, or None
    cdef bint has_nested
    cdef bint null_key_seen
    cdef bint is_done
    cdef bint has_left              # the barrier of the build drivers is left
    cdef int64_t worker             # its number in the build, once it has delivered
    cdef JoinLookup lookup          # scratch for the build

    def __init__(self, str node_id, Account query_memory, JoinBridge bridge, key_names, payload_names):
        Operator.__init__(self, "HashBuild" if key_names else "NestedLoopBuild", node_id, query_memory)
        cdef int32_t i
        self.bridge = bridge
        bridge.join(&self.membership)
        self.key_names = list(key_names)
        self.stored_names = list(dict.fromkeys([*key_names, *payload_names]))
        self.returns_keys = not set(self.key_names).isdisjoint(payload_names)
        self.n_keys = len(self.key_names)
        self.n_stored = len(self.stored_names)
        self.key_columns = <int32_t*> struct_new(self.n_keys * sizeof(int32_t) + 1)
        self.input_columns = <int32_t*> struct_new(self.n_stored * sizeof(int32_t) + 1)
        self.stored_columns = <Column**> struct_new(self.n_stored * sizeof(Column*) + 1)
        for i in range(self.n_keys):
            self.key_columns[i] = self.stored_names.index(self.key_names[i])
        if bridge.declared_build_schema is not None:
            self.resolve(bridge.declared_build_schema)

    def __dealloc__(self):
        self.release()
        owner_unref(<Owner*> self.stored_schema)
        struct_free(self.key_columns)
        struct_free(self.input_columns)
        struct_free(self.stored_columns)

    cdef int resolve(self, Schema schema) except -1:
        """Find the columns to store in `schema`, and set the bridge's build schema."""
        cdef CSchema* stored
        cdef int32_t i, at
        stored = schema_new(self.n_stored)
        try:
            for i in range(self.n_stored):
                name = self.stored_names[i].encode()
                at = schema_index(schema.schema, name)
                if at < 0:
                    raise PlanError(
                        f"the build side of join {self.node_id} has no column {self.stored_names[i]!r}; "
                        f"it has {', '.join(schema.names)}"
                    )
                self.input_columns[i] = at
                schema_copy_field(stored, i, &schema.schema.fields[at], NULL)
            self.widen_store(stored)
            self.bridge.set_build_schema(stored, [self.key_columns[i] for i in range(self.n_keys)])
            owner_ref(<Owner*> stored)
            owner_unref(<Owner*> self.stored_schema)
            self.stored_schema = stored
            self.has_nested = schema_has_nested(stored)
            self.resolved = schema
        finally:
            owner_unref(<Owner*> stored)
        return 0

    cdef int widen_store(self, CSchema* stored) except -1 nogil:
        """Widen the rows kept so far to the types of the next batches."""
        cdef ColumnStore* wider
        if self.store == NULL:
            return 0
        wider = column_store_widen(self.store, self.stored_schema, stored, self.memory)
        owner_unref(<Owner*> self.store)
        self.store = wider
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        self.set_input_schema(schema)
        if self.resolved is not None and schema_equal(self.resolved.schema, schema):
            return 0        # as declared
        with gil:
            self.resolve(Schema.wrap(schema))
        return 0

    cdef bint needs_input(self) noexcept nogil:
        # Does not depend on the probe drivers. They may leave after get_output has returned NEEDS_INPUT; the next
        # get_output sees it.
        return not self.is_done

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef int32_t i
        self.prepare()
        for i in range(self.n_stored):
            self.stored_columns[i] = batch.columns[self.input_columns[i]]
        self.append(batch)
        if self.has_nested:
            self.keep_nested(batch)
        batch_unref(batch)
        return ACCEPTED

    cdef int keep_nested(self, Batch* batch) except -1 nogil:
        cdef Batch* part = nested_part(batch, self.stored_schema, self.input_columns)
        try:
            column_store_keep_nested(self.store, <Owner*> part)
        finally:
            batch_unref(part)
        return 0

    cdef int prepare(self) except -1 nogil:
        """Make the store and the scratch if they do not exist."""
        if self.scratch == NULL:
            self.scratch = buffer_new(
                self.account,
                (self.n_keys + 1) * sizeof(VectorScratch) + self.n_keys * sizeof(Vector)
                + (VECTOR_ROWS + 16) * (4 + 1)
            )
        if self.store == NULL:
            self.store = self.new_store()
        return 0

    cdef ColumnStore* new_store(self) except NULL nogil:
        cdef DataType* types = <DataType*> struct_new(self.n_stored * sizeof(DataType) + 1)
        cdef ColumnStore* store
        cdef int32_t i
        try:
            for i in range(self.n_stored):
                if self.stored_schema != NULL:
                    types[i] = self.stored_schema.fields[i].type
            store = column_store_new(self.account, types, self.n_stored)
        finally:
            struct_free(types)
        return store

    cdef int append(self, Batch* batch) except -1 nogil:
        cdef VectorScratch* scratch = <VectorScratch*> self.scratch.data
        cdef uint32_t* rows = <uint32_t*> (
            self.scratch.data + (self.n_keys + 1) * sizeof(VectorScratch) + self.n_keys * sizeof(Vector)
        )
        # Nested columns are kept as whole batches, so all rows of a batch must be kept.
        cdef bint drop_nulls = self.n_keys > 0 and not keeps_null_keys(self.bridge.kind) and not self.has_nested
        cdef const uint32_t* selected
        cdef int64_t n_selected = batch.n_selected
        cdef int64_t start = 0
        cdef int64_t n, kept
        while start < n_selected:
            n = min(<int64_t> VECTOR_ROWS, n_selected - start)
            selected = batch.selection + start if batch.selection != NULL else NULL
            kept = self.keyed_rows(selected, start, n, rows) if drop_nulls else n
            if kept == n:
                column_store_append(self.store, self.stored_columns, start, selected, n, scratch)
            elif kept > 0:
                qc_check_selection(rows, kept, batch.n_rows, b"the rows with keys ascend and are rows of the batch")
                column_store_append(self.store, self.stored_columns, 0, rows, kept, scratch)
            start += n
        return 0

    cdef int64_t keyed_rows(
        self, const uint32_t* selected, int64_t start, int64_t n,
        uint32_t* rows,             # OUT
    ) except -1 nogil:
        """Write the rows of a vector without a null key, which cannot match. Returns their number. If all n rows have
        keys `rows` is not written.
        """
        cdef VectorScratch* scratch = <VectorScratch*> self.scratch.data
        cdef Vector* keys = <Vector*> (scratch + self.n_keys + 1)
        cdef uint8_t* flags = <uint8_t*> (rows + VECTOR_ROWS + 16)
        cdef int32_t k
        cdef bint nullable = False
        cdef const Column* column
        for k in range(self.n_keys):
            column = self.stored_columns[self.key_columns[k]]
            nullable = nullable or column.validity != NULL or column.type.phys == 0 or (
                column.base != NULL and column.base.validity != NULL
            )
        if not nullable:
            return n
        for k in range(self.n_keys):
            column_load(self.stored_columns[self.key_columns[k]], start, selected, n, &scratch[k], &keys[k])
        if not rows_without_null(keys, self.n_keys, n, flags):
            return n
        if simd_kernels().mask_count(flags, n) == n:
            return n
        self.null_key_seen = True
        if selected != NULL:
            return simd_kernels().mask_filter(flags, selected, n, rows)
        return simd_kernels().mask_rows(flags, n, <uint32_t> start, rows)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef int poll
        if self.has_left or self.bridge.all_probers_left():
            return FINISHED
        if not self.is_done:
            return NEEDS_INPUT
        poll = self.bridge.poll_build(self.worker, &self.lookup, self.account, token)
        if poll == FINISHED:
            self.leave_build()
        elif poll == BLOCKED:
            self.blocked_reason = WAIT_FOR_PEERS
        return poll

    cdef int finish(self) except -1 nogil:
        cdef ColumnStore* store
        cdef int64_t n_rows
        self.is_done = True
        if self.bridge.all_probers_left():
            return 0                # all probe drivers have left, so no table is needed; close leaves the barrier
        self.prepare()
        store = self.store
        n_rows = store.n_rows
        self.store = NULL
        self.worker = self.bridge.deliver(
            store, self.stored_schema, self.null_key_seen, self.key_columns, self.n_keys, self.returns_keys, self.memory
        )
        self.release()
        if self.worker < 0 or (n_rows < HELPER_ROWS_MIN and self.worker < self.bridge.builders.n_members - 1):
            self.leave_build()
            return 0
        join_lookup_open(&self.lookup, self.n_keys, self.account)
        if self.bridge.is_small_build():
            while self.bridge.build_some(self.worker, &self.lookup, self.account):
                pass
        return 0

    cdef void abandon(self) noexcept nogil:
        self.is_done = True
        self.leave()
        self.release()

    cdef void close(self) noexcept nogil:
        self.leave()
        self.release()

    cdef void leave(self) noexcept nogil:
        if not self.has_left:
            self.has_left = True
            self.bridge.lose_build(&self.membership)

    cdef void leave_build(self) noexcept nogil:
        self.has_left = True
        self.bridge.leave_build(&self.membership)
        self.release()

    cdef void release(self) noexcept nogil:
        owner_unref(<Owner*> self.store)
        self.store = NULL
        buffer_unref(self.scratch)
        self.scratch = NULL
        join_lookup_close(&self.lookup)
