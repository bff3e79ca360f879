"""The probe side of a hash join."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Column, column_new_flat, column_unref
from qcore_ext.data.schema cimport (
    PHYS_BOOL, TYPE_BOOL, CSchema, DataType, Schema, schema_equal, schema_index, type_name,
)
from qcore_ext.data.widening cimport type_widen
from qcore_ext.ground.atomic cimport qc_load, qc_load_pointer, qc_store
from qcore_ext.ground.bitmap cimport bit_clear
from qcore_ext.ground.check cimport qc_check, qc_check_rows, qc_check_selection
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, account_check, buffer_new, buffer_new_zeroed, buffer_unref, owner_unref, struct_free,
    struct_new,
)
from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.stats cimport WAIT_FOR_JOIN_BUILD, WAIT_FOR_PEERS
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, Operator
from qcore_ext.join.bridge cimport BUILD_LOST, BUILD_PENDING, JoinBridge
from qcore_ext.join.kind cimport (
    JOIN_LEFT_SEMI, JOIN_RIGHT_SEMI, ends_on_empty_build, returns_build_rows, returns_pairs, is_mark, is_null_aware,
    keeps_probe,
)
from qcore_ext.join.output cimport JoinOutput, join_output, pair_columns
from qcore_ext.join.pairs cimport (
    PairCursor, Pairs, group_pairs, mark_group, mark_rows, pairs_drop, pairs_trim, rows_trim, spread_misses,
    unique_pairs, value_pairs,
)
from qcore_ext.join.table cimport (
    INDEX_CODES, INDEX_EVERY, INDEX_HASHES, INDEX_NONE, INDEX_RANKS, INDEX_VALUES, INDEX_WIDE_CODES, JoinLookup,
    JoinTable, join_lookup_close, join_lookup_convert, join_lookup_open, join_table_find, join_table_groups,
)

from qcore_ext.ground.status import PlanError, SchemaChangeError

cdef enum:
    # The most pairs of one output batch. It bounds the memory for rows with many matches. If all keys are
    # unique a batch has at most as many pairs as rows.
    PAIRS_MAX = 65536
    FILTER_TRIAL_ROWS = 65536


# How rows are looked up, and why so, by IndexKind.
INDEX_TEXTS = {
    INDEX_NONE: "no build row has a key",
    INDEX_RANKS: "ranks, as a bitmap over the range of keys is no larger than slots",
    INDEX_CODES: "slots of codes, as the keys together fit 64 bits and their range is wide",
    INDEX_WIDE_CODES: "slots of codes of up to 96 bits, as the keys together do not fit 64 bits",
    INDEX_VALUES: "slots of codes with the row's other columns, as no key occurs twice and these fit 8 bytes",
    INDEX_HASHES: "slots of hashes, as the keys do not fit a code",
    INDEX_EVERY: "every build row, as there are no keys",
}


cdef class HashProbe(Operator):
    """The probe side of a hash join. Without keys it is a nested-loop join: each build row is a candidate for each row.

    Parameters
    ----------
    node_id : str
        The id of the plan node.
    query_memory : Account
        The query's account.
    bridge : JoinBridge
        The bridge that all drivers of this join share. It has the kind of the join.
    key_names : list of str
        The key columns of the probe side, in the order of the build side's keys, and of equal types.
    output : list of (str, str, str)
        For each output column its side ('probe', 'build', or 'mark' for the flag of a mark join), its name in the
        input, and its name in the output. A build column must be one that HashBuild keeps.
    condition_compile : callable, optional
        Makes the Program of a conjunction that pairs must pass. Its argument is a Schema of the probe side's columns
        followed by the columns that the build side stores. The bridge must have has_condition.
    filtered : Schema, optional
        The operator is a filter below the join's probe side: it drops rows of this schema whose key no build row has,
        whatever the kind of the join, and does not change the table. `output` has columns of the side 'probe'. A driver
        that has dropped less than a quarter of FILTER_TRIAL_ROWS rows passes on all others.

    Raises
    ------
    PlanError
        If a column is missing, or the types of keys differ, or the condition contradicts the bridge or the kind.
    """
    cdef JoinBridge bridge
    cdef int kind
    cdef list key_names
    cdef list output
    cdef object condition_compile
    cdef Schema declared_probe      # of the input in the plan, or None
    cdef Evaluator condition        # None if there is no condition
    cdef JoinOutput columns         # None before the input schemas are known
    cdef JoinOutput pair_output     # columns of the condition's input
    cdef Schema resolved            # the input schema that the columns were resolved for, or None
    cdef int64_t n_build_schemas    # the bridge's n_build_schemas when the columns were resolved
    cdef int32_t n_keys
    cdef int32_t* key_columns       # owned; positions in the input
    cdef Column** keys              # owned array; borrowed columns of the current batch
    cdef DataType* key_types        # owned; the probe side's key types, then the table's
    cdef bint has_key_types         # key_types is set
    cdef bint lookup_has_types      # the lookup has the current key_types
    cdef JoinTable* table           # owned
    cdef JoinLookup lookup
    cdef Batch* batch               # owned; the current batch, or NULL
    cdef int64_t position           # the first selected row of the current vector
    cdef int64_t vector_rows        # number of rows of the current vector after its lookup; 0 if there is none
    cdef PairCursor cursor
    cdef Pairs pairs
    # For the statistics, atomic: the table's IndexKind or -1, and the probe rows that were looked up, whose keys the
    # table's filter was asked for first, whose keys were looked up by a perfect hash, and that have a match.
    cdef int64_t index
    cdef int64_t rows_looked_up
    cdef int64_t rows_filtered
    cdef int64_t rows_hashed
    cdef int64_t rows_matched
    cdef Buffer* row_matched        # owned; with a condition: one byte a row of the batch, 1 if a pair of it passed
    cdef bint is_filter
    cdef bint given_up              # a filter that drops too few rows
    cdef bint is_finishing
    cdef bint is_ended
    cdef bint has_left

    def __init__(
        self, str node_id, Account query_memory, JoinBridge bridge, key_names, output, condition_compile=None,
        Schema filtered=None,
    ):
        Operator.__init__(self, "HashProbe" if key_names else "NestedLoopJoin", node_id, query_memory)
        self.bridge = bridge
        bridge.join(&self.membership)
        self.is_filter = filtered is not None
        self.kind = <int> JOIN_LEFT_SEMI if self.is_filter else bridge.kind
        self.declared_probe = filtered if self.is_filter else bridge.declared_probe_schema
        self.key_names = list(key_names)
        self.n_keys = len(self.key_names)
        self.output = [tuple(column) for column in output]
        self.condition_compile = condition_compile
        if not self.is_filter and (condition_compile is not None) != bridge.has_condition:
            raise PlanError(
                f"join {node_id}: has_condition of the bridge and condition_compile of the probe contradict each other"
            )
        if is_null_aware(self.kind) and (self.n_keys != 1 or condition_compile is not None):
            raise PlanError(f"join {node_id} is null-aware (NOT IN), which takes one key and no further condition")
        self.index = -1
        memset(&self.lookup, 0, sizeof(JoinLookup))
        memset(&self.pairs, 0, sizeof(Pairs))
        self.key_columns = <int32_t*> struct_new(self.n_keys * sizeof(int32_t) + 1)
        self.keys = <Column**> struct_new(self.n_keys * sizeof(Column*) + 1)
        self.key_types = <DataType*> struct_new(2 * self.n_keys * sizeof(DataType) + 1)

    def __dealloc__(self):
        self.release()
        struct_free(self.key_columns)
        struct_free(self.keys)
        struct_free(self.key_types)

    def stats_snapshot(self):
        """Figures of any operator. Once the table is there 'join' has its 'index' with the reason for it, and
        the probe rows 'looked_up', 'filtered' (those whose key was first asked of a filter of bits), 'hashed' (whose
        key was looked up by a perfect hash, not in slots) and 'matched'. A filter has 'key_filter' instead, with the
        rows 'looked_up' and 'matched'.
        """
        counters = Operator.stats_snapshot(self)
        if self.is_filter:
            counters["key_filter"] = {
                "looked_up": qc_load(&self.rows_looked_up), "matched": qc_load(&self.rows_matched)
            }
        elif qc_load(&self.index) >= 0:
            counters["join"] = {
                "index": INDEX_TEXTS[qc_load(&self.index)],
                "looked_up": qc_load(&self.rows_looked_up),
                "filtered": qc_load(&self.rows_filtered),
                "hashed": qc_load(&self.rows_hashed),
                "matched": qc_load(&self.rows_matched),
            }
        return counters

    cdef int open(self) except -1 nogil:
        # Not in the constructor, because the condition's registers are charged to this operator.
        if qc_load_pointer(<void**> &self.bridge.build_schema) != NULL:
            with gil:
                if self.declared_probe is not None:
                    self.resolve(self.declared_probe)
        return 0

    cdef int resolve(self, Schema probe) except -1:
        """Resolve output columns, keys and condition for an input schema, or for None if it is not known."""
        cdef Schema build = Schema.wrap(self.bridge.build_schema) if self.bridge.build_schema != NULL else None
        self.resolved = None
        self.n_build_schemas = self.bridge.n_build_schemas
        self.lookup_has_types = False
        if probe is not None:
            self.resolve_keys(probe, build)
        self.columns = join_output(self.output, self.kind, probe, build, self.account)
        self.set_output_schema(self.columns.schema)
        if self.condition_compile is not None and probe is not None and build is not None:
            self.pair_output = join_output(pair_columns(probe, build), 0, probe, build, self.account)
            self.condition = Evaluator(self.condition_compile(Schema.wrap(self.pair_output.schema)), self.memory)
            self.condition.count_in(&self.stats)
        self.resolved = probe
        return 0

    cdef int resolve_keys(self, Schema probe, Schema build) except -1:
        cdef int32_t k, at
        cdef DataType* here
        cdef DataType* there
        cdef DataType both
        self.has_key_types = False
        for k in range(self.n_keys):
            at = schema_index(probe.schema, self.key_names[k].encode())
            if at < 0:
                raise PlanError(
                    f"the probe side of join {self.node_id} has no column {self.key_names[k]!r}; "
                    f"it has {', '.join(probe.names)}"
                )
            self.key_columns[k] = at
            if build is None:
                continue
            here = &self.key_types[k]
            there = &self.key_types[self.n_keys + k]
            here[0] = probe.schema.fields[at].type
            there[0] = build.schema.fields[self.bridge.key_columns[k]].type
            if here.phys == there.phys and here.scale == there.scale and here.unit == there.unit:
                there[0] = here[0]
                continue
            if not self.keys_changed(k, here, there) or not type_widen(here, there, &both):
                self.raise_keys_differ(k, here, there)
        self.has_key_types = build is not None
        return 0

    cdef bint keys_changed(self, int32_t k, const DataType* here, const DataType* there) except -1:
        """Whether one of the keys has another type than declared. Otherwise the plan is wrong."""
        cdef Schema declared
        build_names = Schema.wrap(self.bridge.build_schema).names
        for declared, given in (
            (self.declared_probe, (self.key_names[k], type_name(here))),
            (self.bridge.declared_build_schema, (build_names[self.bridge.key_columns[k]], type_name(there))),
        ):
            if declared is not None and given not in zip(declared.names, declared.types):
                return True
        return False

    cdef int raise_keys_differ(self, int32_t k, const DataType* here, const DataType* there) except -1:
        """Raise PlanError, or SchemaChangeError if one of the keys has another type than declared."""
        changed = self.keys_changed(k, here, there)
        build_names = Schema.wrap(self.bridge.build_schema).names
        raise (SchemaChangeError if changed else PlanError)(
            f"the keys of join {self.node_id} differ in type: {self.key_names[k]!r} is {type_name(here)} on "
            f"the probe side, {build_names[self.bridge.key_columns[k]]!r} is {type_name(there)} on the build side; "
            "cast one of them in a projection below the join"
        )

    cdef int bind(self, CSchema* schema) except -1 nogil:
        self.set_input_schema(schema)
        if self.is_resolved_for(schema):
            return 0
        with gil:
            self.resolve(Schema.wrap(schema))
        return 0

    cdef bint is_resolved_for(self, CSchema* schema) noexcept nogil:
        """Whether the columns were resolved for this input and the build side's schema of now, such as in `open`."""
        if self.resolved is None or self.n_build_schemas != self.bridge.n_build_schemas:
            return False
        return schema_equal(self.resolved.schema, schema)

    cdef bint needs_input(self) noexcept nogil:
        return self.table != NULL and self.batch == NULL and not self.is_finishing and not self.is_ended

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef int32_t k
        if self.lookup.buffer == NULL:
            join_lookup_open(&self.lookup, self.n_keys, self.account)
            self.lookup_has_types = False
        if not self.lookup_has_types:
            self.lookup_has_types = True
            if self.has_key_types:
                join_lookup_convert(&self.lookup, self.account, self.key_types, self.key_types + self.n_keys)
        if self.condition_compile is not None:
            self.row_matched = buffer_new_zeroed(self.account, batch.n_rows)
        for k in range(self.n_keys):
            self.keys[k] = batch.columns[self.key_columns[k]]
        self.position = 0
        self.vector_rows = 0
        self.batch = batch
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef int state
        if self.is_ended:
            return FINISHED
        if self.table == NULL:
            state = self.bridge.poll_table(token, &self.table)
            if state == BUILD_PENDING:
                self.blocked_reason = WAIT_FOR_JOIN_BUILD
                return BLOCKED
            if state != BUILD_LOST and self.n_build_schemas != self.bridge.n_build_schemas:
                self.resolve_again()
            if state != BUILD_LOST:
                qc_store(&self.index, self.table.index)
            if state == BUILD_LOST or self.has_no_output():
                self.end()
                return FINISHED
        if self.batch != NULL:
            if self.advance(out):
                return OUTPUT
            self.drop_batch()
        if not self.is_finishing:
            return NEEDS_INPUT
        if returns_build_rows(self.kind):
            return self.output_build_rows(out, token)
        self.end()
        return FINISHED

    cdef int resolve_again(self) except -1 nogil:
        """Resolve for a build side that is wider than declared. Without a probe batch nothing else does."""
        if self.declared_probe is not None:
            with gil:
                self.resolve(self.declared_probe)
        return 0

    cdef bint has_no_output(self) noexcept nogil:
        """Whether there is no output for any probe rows, so that the operators above need not run."""
        if self.table.n_rows == 0 and ends_on_empty_build(self.kind):
            return True
        return is_null_aware(self.kind) and not is_mark(self.kind) and self.bridge.null_key_seen

    cdef int finish(self) except -1 nogil:
        self.is_finishing = True
        return 0

    cdef void abandon(self) noexcept nogil:
        self.end()

    cdef void close(self) noexcept nogil:
        self.end()

    cdef void end(self) noexcept nogil:
        self.is_ended = True
        self.leave()
        self.release()

    cdef void leave(self) noexcept nogil:
        if not self.has_left:
            self.has_left = True
            self.bridge.leave_probe(&self.membership)

    cdef void drop_batch(self) noexcept nogil:
        batch_unref(self.batch)
        self.batch = NULL
        pairs_drop(&self.pairs)
        buffer_unref(self.row_matched)
        self.row_matched = NULL

    cdef void release(self) noexcept nogil:
        self.drop_batch()
        join_lookup_close(&self.lookup)
        owner_unref(<Owner*> self.table)
        self.table = NULL

    # One batch

    cdef bint advance(self, Batch** out) except -1 nogil:
        """Set *out to the next batch. Returns False if the current input batch has no more output."""
        if self.condition_compile is not None:
            return self.advance_with_condition(out)
        if returns_pairs(self.kind):
            if self.table.index == INDEX_VALUES:
                if self.find_values() == 0:
                    return False
            elif self.find_pairs(keeps_probe(self.kind)) == 0:
                return False
            if self.table.matched != NULL:
                mark_rows(self.table.matched, <const uint32_t*> self.pairs.build_rows.data, self.pairs.n)
            return self.output_pairs(out)
        if returns_build_rows(self.kind):
            self.mark_all_groups()
            return False
        if self.is_filter and self.gives_up():
            out[0] = self.columns.rows(self.batch, NULL, self.batch.n_selected, NULL)
            self.position = self.batch.n_selected
            return True
        return self.output_rows(out)

    cdef bint gives_up(self) noexcept nogil:
        """Whether all rows of the batch are passed on."""
        if self.position > 0 or self.batch.n_selected == 0:
            return False
        if self.rows_looked_up >= FILTER_TRIAL_ROWS and not self.given_up:
            self.given_up = self.rows_matched * 4 > self.rows_looked_up * 3
        return self.given_up

    cdef bint advance_with_condition(self, Batch** out) except -1 nogil:
        """Like advance, for a join with a condition. Only pairs that pass the condition are matches."""
        cdef bint any_left = True
        if self.row_matched == NULL:
            return False                # the rows without a match were returned
        while self.find_pairs(False) > 0:
            # There may be many pairs and none that passes.
            account_check(self.account)
            self.check_pairs()
            if self.pairs.n > 0:
                if self.table.matched != NULL:
                    mark_rows(self.table.matched, <const uint32_t*> self.pairs.build_rows.data, self.pairs.n)
                if returns_pairs(self.kind):
                    return self.output_pairs(out)
            self.pairs.n = 0
        if keeps_probe(self.kind):
            any_left = self.output_unmatched(out)
        elif returns_pairs(self.kind) or returns_build_rows(self.kind):
            any_left = False
        else:
            any_left = self.output_rows(out)
        buffer_unref(self.row_matched)
        self.row_matched = NULL
        return any_left

    cdef int64_t find_pairs(self, bint keep_misses) except -1 nogil:
        """Fill the buffers with pairs, from the cursor on. Returns their number, 0 if the batch has no more pairs."""
        cdef Pairs* pairs = &self.pairs
        cdef const uint32_t* rows
        cdef int64_t n_selected = self.batch.n_selected
        if pairs.probe_rows == NULL:
            pairs.capacity = n_selected if self.table.unique and n_selected > PAIRS_MAX else PAIRS_MAX
            if self.table.unique and n_selected < PAIRS_MAX:
                pairs.capacity = n_selected
            pairs.probe_rows = buffer_new(self.account, pairs.capacity * 4)
            pairs.build_rows = buffer_new(self.account, pairs.capacity * 4)
            pairs.n = 0
            pairs.some_missing = False
        while pairs.n < pairs.capacity:
            rows = self.batch.selection + self.position if self.batch.selection != NULL else NULL
            if self.vector_rows == 0:
                if self.position >= n_selected:
                    break
                self.look_up(rows, keep_misses)
            if self.table.unique and not keep_misses:
                unique_pairs(
                    self.table, &self.lookup, rows, self.position,
                    <uint32_t*> pairs.probe_rows.data + pairs.n, <uint32_t*> pairs.build_rows.data + pairs.n
                )
                pairs.n += self.lookup.n_hits
                self.cursor.hit = self.lookup.n_hits
            else:
                group_pairs(self.table, &self.lookup, rows, self.position, &self.cursor, pairs)
            qc_check(pairs.n <= pairs.capacity, b"the pairs are within their buffers")
            if self.cursor.hit == self.lookup.n_hits:
                self.position += self.vector_rows
                self.vector_rows = 0
        return pairs.n

    cdef int64_t find_values(self) except -1 nogil:
        """Like find_pairs, for an index of values. The pairs are those of the whole batch."""
        cdef Pairs* pairs = &self.pairs
        cdef const uint32_t* rows
        cdef int64_t n_selected = self.batch.n_selected
        cdef int64_t n
        if self.position >= n_selected:
            return 0
        pairs_drop(pairs)
        pairs.capacity = n_selected
        pairs.values = buffer_new(self.account, n_selected * sizeof(uint64_t))
        pairs.probe_rows = buffer_new(self.account, n_selected * sizeof(uint32_t))
        while self.position < n_selected:
            rows = self.batch.selection + self.position if self.batch.selection != NULL else NULL
            n = min(<int64_t> VECTOR_ROWS, n_selected - self.position)
            self.find(rows, n)
            value_pairs(&self.lookup, rows, self.position, n, pairs)
            qc_check(pairs.n <= pairs.capacity, b"the pairs are within their buffers")
            self.position += n
        return pairs.n

    cdef int find(self, const uint32_t* rows, int64_t n) except -1 nogil:
        """Find the keys of the n rows from the position on."""
        # The filter is given up for some rows if it lets too many pass.
        cdef bint filtered = self.table.filter != NULL and self.lookup.rows_unfiltered <= 0
        join_table_find(self.table, &self.lookup, self.keys, self.position, rows, n)
        counter_add(&self.rows_looked_up, n)
        counter_add(&self.rows_matched, self.lookup.n_hits)
        if filtered and self.lookup.rows_unfiltered <= 0:
            counter_add(&self.rows_filtered, n)
        if self.lookup.is_hashed:
            counter_add(&self.rows_hashed, n)
        return 0

    cdef int look_up(self, const uint32_t* rows, bint keep_misses) except -1 nogil:
        self.vector_rows = min(<int64_t> VECTOR_ROWS, self.batch.n_selected - self.position)
        self.find(rows, self.vector_rows)
        join_table_groups(self.table, &self.lookup, self.vector_rows)
        if keep_misses:
            spread_misses(self.table, &self.lookup, self.vector_rows)
        memset(&self.cursor, 0, sizeof(PairCursor))
        return 0

    cdef int check_pairs(self) except -1 nogil:
        """Keep the pairs that pass the condition, and mark their probe rows in row_matched."""
        cdef Pairs* pairs = &self.pairs
        cdef uint32_t* probe_rows = <uint32_t*> pairs.probe_rows.data
        cdef uint32_t* build_rows = <uint32_t*> pairs.build_rows.data
        cdef uint8_t* row_matched = <uint8_t*> self.row_matched.data
        cdef Buffer* passed = NULL
        cdef const uint32_t* at
        cdef int64_t n, i
        cdef Batch* candidates = self.pair_output.pairs(
            self.batch, pairs.probe_rows, self.table, pairs.build_rows, False, pairs.n
        )
        try:
            n = self.condition.select(candidates, &passed)
        finally:
            batch_unref(candidates)
        if passed != NULL:
            at = <const uint32_t*> passed.data
            qc_check_selection(at, n, pairs.n, b"the pairs that pass ascend")
            for i in range(n):
                probe_rows[i] = probe_rows[at[i]]
                build_rows[i] = build_rows[at[i]]
            buffer_unref(passed)
        pairs.n = n
        qc_check_rows(probe_rows, n, self.batch.n_rows, b"a pair's probe row is a row of the batch")
        for i in range(n):
            row_matched[probe_rows[i]] = 1
        return 0

    cdef bint output_pairs(self, Batch** out) except -1 nogil:
        cdef Pairs* pairs = &self.pairs
        # If keys are unique and there are as many pairs as rows, the pairs have all rows, in order, without an index.
        cdef bint whole = self.table.unique and pairs.n == self.batch.n_selected
        try:
            pairs_trim(pairs)
            if pairs.values != NULL:
                out[0] = self.columns.value_pairs(
                    self.batch, NULL if whole else pairs.probe_rows, self.table, pairs.values, pairs.n
                )
            else:
                out[0] = self.columns.pairs(
                    self.batch, NULL if whole else pairs.probe_rows, self.table, pairs.build_rows,
                    pairs.some_missing, pairs.n
                )
        finally:
            pairs_drop(pairs)
        return True

    cdef bint output_unmatched(self, Batch** out) except -1 nogil:
        """With a condition: output the probe rows without a pair that passed."""
        cdef Buffer* rows = NULL
        cdef int64_t n = self.select_matched(False, &rows)
        try:
            if n > 0:
                out[0] = self.columns.pairs(self.batch, rows, self.table, NULL, False, n)
        finally:
            buffer_unref(rows)
        return n > 0

    cdef int64_t select_matched(self, bint matched, Buffer** rows) except -1 nogil:
        """The batch's selected rows with (`matched`) or without a pair that passed. Returns their number."""
        cdef const uint8_t* flags = <const uint8_t*> self.row_matched.data
        cdef const uint32_t* selection = self.batch.selection
        cdef int64_t n_selected = self.batch.n_selected
        cdef int64_t n = 0
        cdef int64_t i
        cdef uint32_t row
        cdef uint32_t* out
        rows[0] = buffer_new(self.account, (n_selected + 1) * 4)
        out = <uint32_t*> rows[0].data
        for i in range(n_selected):
            row = selection[i] if selection != NULL else <uint32_t> i
            out[n] = row
            n += flags[row] == matched
        return n

    # Output of probe rows alone: semi, anti and mark joins

    cdef bint output_rows(self, Batch** out) except -1 nogil:
        cdef Buffer* rows = NULL
        cdef int64_t n
        if is_mark(self.kind):
            return self.output_marks(out)
        if self.position >= self.batch.n_selected and self.row_matched == NULL:
            return False
        if self.row_matched != NULL:
            n = self.select_matched(self.kind == JOIN_LEFT_SEMI, &rows)
        else:
            n = self.select_rows(&rows)
        try:
            if n > 0:
                rows_trim(&rows, n)
                out[0] = self.columns.rows(self.batch, rows if n < self.batch.n_selected else NULL, n, NULL)
        finally:
            buffer_unref(rows)
        return n > 0

    cdef int64_t select_rows(self, Buffer** rows) except -1 nogil:
        """The rows of the batch with a match, or without one for an anti join. Returns their number."""
        cdef int64_t n_selected = self.batch.n_selected
        cdef bint wanted = self.kind == JOIN_LEFT_SEMI
        # A null-aware anti join with an empty build side keeps null keys too.
        cdef bint drop_nulls = is_null_aware(self.kind) and self.table.n_rows > 0
        cdef const uint32_t* selected
        cdef uint32_t* chosen
        cdef uint8_t* flags
        cdef int64_t kept = 0
        cdef int64_t n, i
        rows[0] = buffer_new(self.account, (n_selected + 16) * 4)
        chosen = <uint32_t*> rows[0].data
        while self.position < n_selected:
            n = min(<int64_t> VECTOR_ROWS, n_selected - self.position)
            selected = self.batch.selection + self.position if self.batch.selection != NULL else NULL
            self.find(selected, n)
            flags = self.lookup.flags
            if not wanted:
                for i in range(n):
                    flags[i] ^= 1
                if drop_nulls and self.lookup.some_null:
                    simd_kernels().mask_and(flags, self.lookup.valid, flags, n)
            if selected != NULL:
                kept += simd_kernels().mask_filter(flags, selected, n, chosen + kept)
            else:
                kept += simd_kernels().mask_rows(flags, n, <uint32_t> self.position, chosen + kept)
            self.position += n
        qc_check_selection(chosen, kept, self.batch.n_rows, b"selected rows ascend and are rows of the batch")
        return kept

    cdef bint output_marks(self, Batch** out) except -1 nogil:
        """Output all rows with a column that says whether the row has a match."""
        cdef DataType truth
        cdef Buffer* values
        cdef uint8_t* validity
        cdef Column* marks
        if self.position >= self.batch.n_selected and self.row_matched == NULL:
            return False
        memset(&truth, 0, sizeof(DataType))
        truth.id = TYPE_BOOL
        truth.phys = PHYS_BOOL
        truth.nullable = 1
        marks = column_new_flat(
            &truth, self.batch.n_rows, is_null_aware(self.kind), self.account, &values, &validity
        )
        try:
            memset(values.data, 0, self.batch.n_rows)
            if self.row_matched != NULL:
                memcpy(values.data, self.row_matched.data, self.batch.n_rows)
            else:
                self.mark_probe_rows(<uint8_t*> values.data, validity)
            out[0] = self.columns.rows(self.batch, NULL, 0, marks)
        finally:
            column_unref(marks)
        return True

    cdef int mark_probe_rows(self, uint8_t* marks, uint8_t* validity) except -1 nogil:
        cdef int64_t n_selected = self.batch.n_selected
        cdef bint null_seen = self.bridge.null_key_seen
        cdef bint build_empty = self.table.n_rows == 0 and not null_seen
        cdef const uint32_t* selected
        cdef int64_t n, i, row
        while self.position < n_selected:
            n = min(<int64_t> VECTOR_ROWS, n_selected - self.position)
            selected = self.batch.selection + self.position if self.batch.selection != NULL else NULL
            self.find(selected, n)
            for i in range(n):
                row = selected[i] if selected != NULL else self.position + i
                marks[row] = self.lookup.flags[i]
                # x IN (…) is false over no rows. It is unknown if x is null, or if x has no match and a null is there.
                if validity != NULL and not build_empty and not self.lookup.flags[i] and (
                    null_seen or not self.lookup.valid[i]
                ):
                    bit_clear(validity, row)
            self.position += n
        return 0

    # Output of build rows alone: right, full, right semi and right anti joins

    cdef int mark_all_groups(self) except -1 nogil:
        cdef int64_t n_selected = self.batch.n_selected
        cdef const uint32_t* selected
        cdef int64_t i
        while self.position < n_selected:
            selected = self.batch.selection + self.position if self.batch.selection != NULL else NULL
            account_check(self.account)
            self.look_up(selected, False)
            for i in range(self.lookup.n_hits):
                mark_group(self.table, self.lookup.starts[i], 1 if self.table.unique else self.lookup.counts[i])
            self.position += self.vector_rows
        return 0

    cdef int output_build_rows(self, Batch** out, WaitToken* token) except -1 nogil:
        """Output build rows without a match, or with one for a right semi join. The probe drivers share them after all
        of them have left.
        """
        cdef uint8_t wanted = self.kind == JOIN_RIGHT_SEMI
        cdef const uint8_t* matched = self.table.matched
        cdef Buffer* rows
        cdef uint32_t* chosen
        cdef int64_t start, n, i
        cdef int64_t kept = 0
        self.leave()
        if not self.bridge.poll_all_left(token):
            self.blocked_reason = WAIT_FOR_PEERS
            return BLOCKED
        if self.columns is None:
            self.resolve_unbound()
        while True:
            account_check(self.account)
            n = self.bridge.claim_build_rows(self.table, PAIRS_MAX, &start)
            if n == 0:
                self.end()
                return FINISHED
            qc_check((start >= 0) & (start + n <= self.table.n_rows), b"claimed build rows are rows of the table")
            rows = buffer_new(self.account, (n + 1) * 4)
            chosen = <uint32_t*> rows.data
            try:
                kept = 0
                for i in range(start, start + n):
                    chosen[kept] = <uint32_t> i
                    kept += matched[i] == wanted
                if kept > 0:
                    out[0] = self.columns.pairs(NULL, NULL, self.table, rows, False, kept)
            finally:
                buffer_unref(rows)
            if kept > 0:
                return OUTPUT

    cdef int resolve_unbound(self) except -1 nogil:
        """Resolve for the declared probe schema, because there was no probe batch."""
        with gil:
            self.resolve(self.declared_probe)
        return 0
