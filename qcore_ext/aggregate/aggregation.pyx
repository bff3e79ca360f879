"""Hash aggregation in a single step, or in a partial and a final step.

The operator loads a vector of rows, finds the group of each row, and runs one kernel for each aggregate over the
vector. Above radix_groups_min groups it changes to a radix-partitioned table. Long texts beside other keys are replaced
by their numbers first (aggregate.text_numbers).

The table of the partial step is bounded. When it is full the operator returns all groups as states and empties the
table. If few rows share their keys, it passes the next rows through as states without a table. The output of the
partial step has the keys, then the state columns (aggregate.calls).

If the rows come in the order of their only key, the partial step keeps no table either: each run of equal keys is a
group (aggregate.key_runs). The final step gives those groups results that no other driver has rows of.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.calls cimport AggregateCalls
from qcore_ext.aggregate.state cimport FEW_GROUPS
from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.compute.program cimport Program
from qcore_ext.data.batch cimport WHOLE_GROUPS, Batch, batch_new, batch_selected_below, batch_unref
from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, Vector, VectorScratch
from qcore_ext.data.load cimport column_load_narrow
from qcore_ext.data.schema cimport TYPE_NESTED, CSchema, DataType, Schema, type_equal
from qcore_ext.data.widening cimport raise_types_differ
from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    Account, Owner, account_check, buffer_new, buffer_unref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.aggregate.call_input cimport AggregateInput, aggregate_input_init, aggregate_inputs_free
from qcore_ext.aggregate.group_output cimport (
    OUTPUT_ROWS, PART_ROWS_MIN, group_results, group_states, output_for_types, parts_batch, result_of_no_rows,
    state_arguments,
)
from qcore_ext.aggregate.group_set cimport (
    GroupSet, group_set_add, group_set_clear, group_set_complete, group_set_free, group_set_new, group_set_takes_mask,
    group_set_merge_known, group_set_update,
)
from qcore_ext.aggregate.group_table cimport (
    group_table_find_some, group_table_is_array, group_table_recent_share,
)
from qcore_ext.aggregate.key_packing cimport KEY_COLUMNS_MAX, KEYS_STORED
from qcore_ext.aggregate.key_runs cimport (
    key_runs_add, key_runs_clear, key_runs_cut, key_runs_divide, key_runs_end_batch, key_runs_free, key_runs_new,
    key_runs_suit,
)
from qcore_ext.aggregate.radix_groups cimport (
    radix_groups_add, radix_groups_add_part, radix_groups_begin, radix_groups_complete, radix_groups_drop,
    radix_groups_fetch, radix_groups_finish, radix_groups_free, radix_groups_new, radix_groups_rows_each,
)
from qcore_ext.aggregate.text_numbers cimport (
    text_numbers_are_many, text_numbers_free, text_numbers_of, text_numbers_put, text_numbers_suit,
)
from qcore_ext.aggregate.whole_columns cimport whole_columns_add, whole_columns_suit
from qcore_ext.rows.key_columns cimport (
    key_columns_append, key_columns_free, key_columns_new, key_columns_reserve,
)
from qcore_ext.rows.part_buffers cimport RADIX_PARTS
from qcore_ext.aggregate.widened_groups cimport (
    HeldGroups, first_change, held_groups_free, held_groups_move,
)

from array import array

from qcore_ext.aggregate.calls import partial_schema  # no-cython-lint: for users
from qcore_ext.ground.status import ExecutionError, PlanError, SchemaChangeError

cdef enum:
    SINGLE = 0
    PARTIAL = 1
    FINAL = 2
    # Number of rows to pass through before the table is used again: many, so that the trial costs little, but few
    # enough to notice that the input has changed.
    PASS_ROWS = 1048576
    HELD_RUNS_MAX = 524288      # runs that are kept until their part of the table has ended
    HELD_RUN_BYTES = 256        # memory that must be left for each of them: arrays of states double when they grow
    ORDERED_GROUPS_MAX = 16384  # table size for input in key order: it stays in the second-level cache
    MASK_WAIT_MAX = 1024        # vectors after one whose keys were not all known, before masks are tried again
    PARTITIONED_GROUPS = 16     # a partitioned table may have this many times the groups of a plain one

    # Positions in `counts`, in the order of GROUP_KINDS.
    OF_ARRAY = 0
    OF_TABLE = 1
    OF_RADIX = 2
    PASSED = 3
    OF_RUNS = 4
    WHOLE = 5
    PAGED = 6
    NUMBERED = 7

GROUP_KINDS = ("array", "table", "radix", "passed", "runs", "whole", "paged", "numbered")
STEPS = {"single": SINGLE, "partial": PARTIAL, "final": FINAL}


cdef class HashAggregation(Operator):
    """Groups rows by keys and aggregates each group. Without keys, all rows are one group.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    compile : callable or None
        Makes a Program from the input schema. The program computes keys, arguments and filters. None: the input's
        columns are the keys, arguments and filters.
    n_keys : int
        The number of keys. They are the first outputs of the program.
    aggregates : AggregateCalls, or list of (str, int, int, bool)
        The calls. Positions are those of the program's outputs. Step 'final' reads the columns of partial_schema
        instead; it uses only the functions and which calls have equal positions.
    step : {'single', 'partial', 'final'}
        Calls that are distinct or holistic need 'single'. All rows of a group must then come to the same driver.
    output_schema : Schema
        The keys, then one column for each call. For step 'partial' the result of partial_schema.
    partial_groups_max : int
        The number of groups that the partial step keeps in a plain table. Groups and states should fit in the
        second-level cache. A partitioned table keeps sixteen times as many.
    radix_groups_min : int
        The number of groups from which on the other steps partition rows before grouping them.
    input_schema : Schema, optional
        The types of keys and arguments that the output schema was made for. If the input's types become wider, so
        does the output schema. Default: the schema of the first input.
    ordered : bool
        For step 'partial' with one key: the rows of each batch are neighbours in their table, in ascending order of the
        key, which is never null. Rows that a filter has dropped do not matter. The order of batches does not either.
    fences : sequence of int, optional
        With `ordered`, ascending: the table has parts, and an operator gets all rows of a part, one after another. The
        keys of a part are between two neighbouring fences, both included, and no other part has a key between them. The
        rows of a part need not be in order; then they are grouped as others.

    Raises
    ------
    PlanError
        If a call is unknown or does not take its argument's type, or is distinct or holistic outside step 'single'.
    """

    def __init__(
        self, str node_id, Account query_memory, object compile, int32_t n_keys, object aggregates, str step,
        Schema output_schema, int64_t partial_groups_max=131072, int64_t radix_groups_min=131072,
        Schema input_schema=None, bint ordered=False, object fences=None,
    ):
        Operator.__init__(self, "HashAggregation", node_id, query_memory)
        if step not in STEPS:
            raise PlanError(f"unknown aggregation step {step!r} of node {node_id}; use one of {', '.join(STEPS)}")
        if n_keys > KEY_COLUMNS_MAX:
            raise PlanError(
                f"the aggregation of node {node_id} has {n_keys} keys; the most that it supports is {KEY_COLUMNS_MAX}"
            )
        self.compile = compile
        self.n_keys = n_keys
        self.declared = input_schema
        self.calls = aggregates if isinstance(aggregates, AggregateCalls) else AggregateCalls(aggregates)
        self.needs_all_rows = self.calls.needs_all_rows
        self.n_inputs = self.calls.n_inputs
        self.n_states = self.calls.n_states
        self.step = STEPS[step]
        if self.step != SINGLE and self.needs_all_rows:
            raise PlanError(
                "a distinct or holistic aggregate cannot be computed in two steps; use step 'single' for node "
                f"{node_id}"
            )
        self.radix_groups_min = radix_groups_min
        self.may_number = True
        self.mask_wait_next = 1
        self.takes_parts = self.step == SINGLE and n_keys > 0 and not self.needs_all_rows
        self.partial_groups_max = max(partial_groups_max, <int64_t> VECTOR_ROWS)
        self.ordered = ordered and self.step == PARTIAL
        self.fences = array("q", fences or ()).tobytes()
        wanted = n_keys + (self.calls.n_state_columns if self.step == PARTIAL else self.calls.n_results)
        if len(output_schema) != wanted:
            raise PlanError(
                f"the aggregation of node {node_id} returns {wanted} columns, but its output schema has "
                f"{len(output_schema)}"
            )
        self.declared_output = output_schema
        self.set_output_schema(output_schema.schema)

    def __dealloc__(self):
        self.release()

    def stats_snapshot(self):
        """Figures of any operator, and 'masked_rows': selected rows that were computed under a mask.

        With keys 'groups' has the groups that were returned from an 'array', a 'table' and a partitioned table
        ('radix'), the rows 'passed' on without a table, the 'runs' of equal keys, the groups that were 'whole' when
        they came, the rows that came in pages of one part ('paged'), and the groups with numbers of texts as keys
        ('numbered').
        """
        counters = {**Operator.stats_snapshot(self), "masked_rows": self.masked_rows}
        if self.n_keys > 0:
            counters["groups"] = {kind: qc_load(&self.counts[i]) for i, kind in enumerate(GROUP_KINDS)}
        return counters

    # --- set-up ---

    cdef int bind(self, CSchema* schema) except -1 nogil:
        with gil:
            self.bind_program(Schema.wrap(schema))
        self.set_input_schema(schema)
        return 0

    cdef int bind_program(self, Schema schema) except -1:
        """Compile the program for an input schema. If its types are wider, widen the groups."""
        cdef Program program
        cdef CSchema* loaded = schema.schema
        cdef int32_t changed
        cdef bytes why
        if self.compile is not None:
            program = self.compile(schema)
            loaded = program.output_schema
            if self.evaluating:
                self.evaluator.close()
            self.evaluator = Evaluator(program, self.memory)
            self.evaluator.count_in(&self.stats)
            self.evaluating = True
        if self.declared is None:
            self.declared = Schema.wrap(loaded)
        if loaded.n_fields < self.declared.schema.n_fields:
            raise SchemaChangeError(
                f"the aggregation of node {self.node_id} reads {self.declared.schema.n_fields} columns, but its input "
                f"now has {loaded.n_fields}"
            )
        changed = first_change(self.declared.schema, loaded)
        if self.groups != NULL and not self.types_differ(loaded):
            return 0
        try:
            if self.groups == NULL:
                self.set_types(loaded)
                self.prepare()
            else:
                self.widen_groups(loaded)
            if changed >= 0:
                self.widen_output()
        except PlanError as error:
            if changed < 0:
                raise
            why = str(error).encode()
            raise_types_differ(
                loaded.fields[changed].name, &self.declared.schema.fields[changed].type,
                &loaded.fields[changed].type, why,
            )
        return 0

    cdef bint types_differ(self, CSchema* loaded) noexcept nogil:
        """Whether the groups were made for other types than these."""
        cdef int32_t i
        for i in range(self.n_loaded):
            if not type_equal(&loaded.fields[i].type, &self.types[i]):
                return True
        return False

    cdef int set_types(self, CSchema* loaded) except -1:
        cdef int32_t i
        self.n_loaded = loaded.n_fields
        self.types = <DataType*> struct_new((self.n_loaded + self.n_states + 1) * sizeof(DataType))
        for i in range(self.n_loaded):
            self.types[i] = loaded.fields[i].type
        return 0

    cdef int widen_output(self) except -1:
        cdef CSchema* output = output_for_types(
            self.calls, self.declared_output.schema, self.declared.schema, self.types, self.n_keys,
            self.step == FINAL, self.step == PARTIAL,
        )
        self.set_output_schema(output)
        owner_unref(<Owner*> output)
        return 0

    cdef int widen_groups(self, CSchema* loaded) except -1:
        """Prepare for wider types, or for numbers of texts and back, and move the groups to them."""
        cdef HeldGroups held
        cdef int32_t n_loaded = self.n_loaded
        if self.radix != NULL:
            radix_groups_finish(self.radix)
        held = HeldGroups(self.types, self.inputs, self.n_inputs, self.groups, self.radix, self.passed, self.texts)
        self.types = NULL
        self.texts = NULL
        self.inputs = NULL
        self.groups = NULL
        self.radix = NULL
        self.passed = NULL
        # The runs become groups as any others.
        key_runs_free(self.runs)
        self.runs = NULL
        self.ordered = False
        try:
            self.set_types(loaded)
            self.n_loaded = n_loaded
            self.prepare()
            held_groups_move(
                &held, held.types + n_loaded, self.groups, self.types, self.texts, loaded, self.memory
            )
        finally:
            held_groups_free(&held)
        self.n_last = 0
        self.rows_to_pass = 0
        return 0

    cdef bint must_renumber(self) noexcept nogil:
        """Whether to group by numbers of texts from now on, or by texts again."""
        if self.texts != NULL and self.radix != NULL:
            # Most of its rows are in buffers: they are groups for all that is known.
            return text_numbers_are_many(self.texts, self.rows_grouped, 0)
        if self.texts != NULL:
            return text_numbers_are_many(self.texts, self.n_groups(), self.rows_grouped)
        if self.radix != NULL or self.passed != NULL or self.groups.table.n_groups == 0:
            return False
        return self.groups.table.layout.mode == KEYS_STORED

    cdef int renumber(self) except -1 nogil:
        """Move the groups to numbers of their texts, if these are few, or to texts for ever."""
        self.may_number = self.texts == NULL
        self.takes_parts = False        # pages of parts have no texts
        if self.may_number:
            text_numbers_of(self.groups.table, self.types, self.n_loaded, &self.next_texts)
            if self.next_texts == NULL:
                self.may_number = False
                return 0
        with gil:
            self.widen_groups(self.evaluator.program.output_schema if self.evaluating else self.input_schema)
        return 0

    cdef int prepare(self) except -1:
        cdef int64_t n_fences = <int64_t> len(self.fences) // <int64_t> sizeof(int64_t)
        cdef int32_t i
        cdef DataType* types = self.types
        cdef DataType* state_types = types + self.n_loaded
        if self.n_keys > self.n_loaded:
            raise PlanError(
                f"the aggregation of node {self.node_id} has {self.n_keys} keys, but its input has only "
                f"{self.n_loaded} columns"
            )
        for i in range(self.n_keys):
            if types[i].id == TYPE_NESTED:
                raise PlanError(
                    f"key {i} of the aggregation of node {self.node_id} is nested; group by one of its fields"
                )
        if self.step == FINAL:
            if self.n_loaded != self.n_keys + self.calls.n_state_columns:
                wanted = self.n_keys + self.calls.n_state_columns
                raise PlanError(
                    f"the final aggregation of node {self.node_id} reads {wanted} columns of keys and states, but its "
                    f"input has {self.n_loaded}"
                )
        else:
            self.calls.check_types(types, self.n_loaded)
        self.free_scratch()
        self.vectors = <Vector*> struct_new(max(self.n_loaded, 1) * sizeof(Vector))
        self.numbers = buffer_new(self.account, VECTOR_ROWS * sizeof(uint32_t))
        if self.compile is None:
            self.scratch = buffer_new(self.account, self.n_loaded * sizeof(VectorScratch))
        self.inputs = <AggregateInput*> struct_new(max(self.n_inputs, 1) * sizeof(AggregateInput))
        for i in range(self.n_inputs):
            if self.step != FINAL:
                aggregate_input_init(&self.inputs[i], self.account, &self.calls.inputs[i], types)
        state_arguments(self.calls, types, self.n_keys, self.step == FINAL, state_types)
        self.plan.account = self.account
        self.plan.n_vectors = self.n_loaded
        self.plan.n_keys = self.n_keys
        self.plan.n_inputs = self.n_inputs
        self.plan.n_states = self.n_states
        self.plan.n_collections = self.calls.n_collections
        self.plan.collections = self.calls.collections
        self.may_number = self.may_number and text_numbers_suit(
            types, self.n_keys, NULL if self.step == FINAL else self.inputs, self.n_inputs
        )
        self.texts = self.next_texts
        self.next_texts = NULL
        self.plan.types = types if self.texts == NULL else self.texts.types
        self.plan.state_types = state_types
        self.plan.states = self.calls.states
        self.plan.inputs = self.inputs
        self.plan.merging = self.step == FINAL
        self.takes_columns = whole_columns_suit(&self.plan)
        self.groups = group_set_new(&self.plan, NULL)
        if self.ordered and key_runs_suit(types, self.n_keys, n_fences > 0):
            self.runs = key_runs_new(self.account, types, <const int64_t*> <const char*> self.fences, n_fences)
            self.passed = key_columns_new(self.account, types, self.n_keys)
        return 0

    # --- input ---

    cdef bint needs_input(self) noexcept nogil:
        return self.batch == NULL and self.ready == NULL and not self.emitting and not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef bint done = False
        if self.batch != NULL or self.ready != NULL or self.emitting:
            return REFUSED
        self.batch = batch
        self.position = 0
        try:
            if self.step == FINAL and batch.part == WHOLE_GROUPS and batch.n_selected > 0:
                self.ready = self.take_whole_groups()
            else:
                self.consume()
            done = True
        finally:
            if not done:
                self.batch = NULL           # after an error the driver still owns the batch
        return ACCEPTED

    cdef int load(self, int64_t n) except -1 nogil:
        """Load the next n selected rows into self.vectors."""
        cdef VectorScratch* scratch
        cdef const uint32_t* rows
        cdef int32_t i
        if self.evaluating:
            return self.evaluator.load(self.batch, self.position, n, self.vectors)
        scratch = <VectorScratch*> self.scratch.data
        rows = self.batch.selection
        for i in range(self.n_loaded):
            column_load_narrow(
                self.batch.columns[i], self.position, rows + self.position if rows != NULL else NULL, n, &scratch[i],
                &self.vectors[i],
            )
        return 0

    cdef bint takes_mask(self) noexcept nogil:
        """Whether all rows of the batch are computed, and those that are not selected masked.

        Worth it where most rows are selected, as gathering costs a row more than computing it, and where the states of
        all groups are in the first-level cache, as a masked row reads one too.
        """
        if self.batch.selection == NULL or self.batch.n_selected * 2 < self.batch.n_rows:
            return False
        if self.radix != NULL or self.passed != NULL or self.texts != NULL:
            return False
        if self.groups.table.n_groups == 0 or self.groups.table.n_groups > FEW_GROUPS:
            return False
        if self.evaluating and self.evaluator.n_calls > 0:
            return False        # a call sees the selected rows of the batch
        return group_set_takes_mask(self.groups)

    cdef bint add_columns(self) except -1 nogil:
        """Add all rows of the batch straight from its columns. Returns False if they must be loaded by vectors."""
        return whole_columns_add(self.groups, self.batch, self.evaluator.program.outputs if self.evaluating else NULL)

    cdef bint add_part(self) except -1 nogil:
        """Add all rows of the batch to the groups of its part. Returns False if their table is not partitioned."""
        cdef int64_t n
        if self.radix == NULL:
            if group_table_is_array(self.groups.table):
                return False
            self.start_radix()
            if self.radix == NULL:
                self.takes_parts = False        # there is too little memory for it
                return False
        radix_groups_fetch(self.radix, self.batch.part, self.batch.n_rows)
        while self.position < self.batch.n_rows:
            account_check(self.account)
            n = min(self.batch.n_rows - self.position, <int64_t> VECTOR_ROWS)
            self.load(n)
            radix_groups_add_part(self.radix, self.batch.part, self.vectors, n)
            self.position += n
        return True

    cdef int64_t add_under_mask(self) except -1 nogil:
        """Add the selected rows among the next VECTOR_ROWS rows of the batch, if their groups are known.

        Returns the number of these rows, or 0 if they were not added.
        """
        cdef uint8_t bits[VECTOR_BITMAP_BYTES]
        cdef const uint32_t* rows = self.batch.selection + self.position
        cdef int64_t first = rows[0] & ~<uint32_t> 7
        cdef int64_t n = min(self.batch.n_rows - first, <int64_t> VECTOR_ROWS)
        cdef int64_t low = batch_selected_below(self.batch, self.position, first + n)
        cdef VectorScratch* scratch
        cdef uint32_t* numbers = NULL
        cdef int32_t i
        simd_kernels().rows_to_bits(rows, low, <uint32_t> first, bits, VECTOR_BITMAP_BYTES)
        if self.evaluating:
            self.evaluator.load_all(self.batch, first, n, self.vectors)
        else:
            scratch = <VectorScratch*> self.scratch.data
            for i in range(self.n_loaded):
                column_load_narrow(self.batch.columns[i], first, NULL, n, &scratch[i], &self.vectors[i])
        if self.n_keys > 0:
            numbers = <uint32_t*> self.numbers.data
            if not group_table_find_some(self.groups.table, self.vectors, n, bits, numbers):
                self.mask_wait = self.mask_wait_next
                self.mask_wait_next = min(2 * self.mask_wait_next, <int64_t> MASK_WAIT_MAX)
                return 0
        group_set_update(self.groups, self.vectors, n, numbers, self.groups.table.n_groups, bits)
        self.n_last = n
        self.masked_rows += low
        return low

    cdef int pass_through(self, int64_t n) except -1 nogil:
        """Make a group of each of the n rows, without the table."""
        cdef uint32_t* numbers = <uint32_t*> self.numbers.data
        cdef int64_t first = self.passed.n_rows
        cdef int64_t i
        key_columns_append(self.passed, self.vectors, NULL, n)
        for i in range(n):
            numbers[i] = <uint32_t> (first + i)
        self.rows_to_pass -= n
        return group_set_update(self.groups, self.vectors, n, numbers, first + n, NULL)

    cdef int add_runs(self, int64_t n) except -1 nogil:
        """Add the n rows to groups of runs of equal keys."""
        cdef uint32_t* numbers = <uint32_t*> self.numbers.data
        if key_runs_add(self.runs, self.passed, self.vectors, n, numbers):
            return group_set_update(self.groups, self.vectors, n, numbers, self.passed.n_rows, NULL)
        if self.runs.fences == NULL:
            with gil:
                raise ExecutionError(
                    f"the rows of the aggregation of node {self.node_id} are not in the order of their key, in which "
                    "they were when the query was planned; do not change the memory of a table that is in use"
                )
        # The rows of a part are not in order. No group that is still here is returned as a whole one.
        key_runs_free(self.runs)
        self.runs = NULL
        self.ordered = False
        return self.pass_through(n)

    cdef Batch* take_whole_groups(self) except NULL nogil:
        """The results of the batch's rows. Each row is the state of a whole group."""
        cdef int64_t n_rows = self.batch.n_selected
        cdef GroupSet* groups = group_set_new(&self.plan, NULL)
        cdef KeyColumns* keys = NULL
        cdef Batch* out = NULL
        cdef uint32_t* numbers = <uint32_t*> self.numbers.data
        cdef int64_t n, i
        cdef bint done = False
        try:
            keys = key_columns_new(self.account, self.types, self.n_keys)
            key_columns_reserve(keys, n_rows)
            while self.position < n_rows:
                account_check(self.account)
                n = min(n_rows - self.position, <int64_t> VECTOR_ROWS)
                self.load(n)
                key_columns_append(keys, self.vectors, NULL, n)
                for i in range(n):
                    numbers[i] = <uint32_t> (self.position + i)
                group_set_merge_known(groups, self.vectors, n, numbers, self.position + n)
                self.position += n
            out = batch_new(self.output_schema, n_rows)
            group_set_complete(groups, n_rows)
            group_results(groups, keys, NULL, self.calls, self.output_schema, 0, n_rows, out.columns, self.account)
            counter_add(&self.counts[<int> WHOLE], n_rows)
            done = True
        finally:
            group_set_free(groups)
            key_columns_free(keys)
            if not done:
                batch_unref(out)
        batch_unref(self.batch)
        self.batch = NULL
        return out

    cdef int start_radix(self) except -1 nogil:
        """Change to a partitioned table if there is memory for its buffers and no call needs all rows of its group."""
        cdef GroupSet* groups
        cdef int64_t rows_each = 0
        if not self.needs_all_rows:
            rows_each = radix_groups_rows_each(&self.plan)
        if rows_each == 0:
            self.radix_groups_min *= 2          # try again later
            return 0
        # A new set, because an array of codes and the states of its groups may have hundreds of megabytes.
        groups = group_set_new(&self.plan, NULL)
        try:
            self.radix = radix_groups_new(&self.plan, self.groups, rows_each)
        finally:
            if self.radix == NULL:
                group_set_free(groups)
        group_set_free(self.groups)
        self.groups = groups
        return 0

    cdef bint is_full(self) noexcept nogil:
        """Whether the partial step must return its groups before it reads more rows."""
        cdef int64_t n_groups = 0
        if self.step != PARTIAL or self.n_keys == 0:
            return False
        if self.runs != NULL:
            n_groups = self.passed.n_rows + VECTOR_ROWS
            if n_groups <= ORDERED_GROUPS_MAX:
                return False
            if self.runs.fences == NULL or 2 * self.runs.n_complete >= self.passed.n_rows:
                return True
            # Most are of a part of the table that has not ended.
            return n_groups > HELD_RUNS_MAX or n_groups * HELD_RUN_BYTES > bytes_left(self.account)
        if self.radix == NULL:
            n_groups = self.n_weighed() + VECTOR_ROWS
            return n_groups > self.partial_groups_max * (PARTITIONED_GROUPS if self.is_roomy else 1)
        if self.position > 0:
            return False                        # one check for each batch is enough
        return self.n_in_parts() > self.partial_groups_max * PARTITIONED_GROUPS

    cdef int64_t n_weighed(self) noexcept nogil:
        """The number of groups, doubled where fewer fit the caches.

        These are groups of stored keys of several columns, and those of so few rows that the next will make many more.
        """
        cdef int64_t n = self.n_groups()
        if self.passed != NULL or group_table_is_array(self.groups.table):
            return n
        if self.n_keys > 1 and self.groups.table.layout.mode == KEYS_STORED or 3 * self.rows_grouped < 4 * n:
            n *= 2
        return n

    cdef bint try_radix(self) except -1 nogil:
        """Change to a partitioned table, which may have more groups, if that is useful. Returns whether it changed."""
        if self.radix != NULL or self.passed != NULL:
            return False
        # If nearly all rows were distinct so far, few of the next rows will belong to a group of the table.
        if self.rows_grouped * 50 < self.groups.table.n_groups * 51:
            return False
        # If the input is in key order, its next rows do not belong to a group of the table.
        if group_table_recent_share(self.groups.table, <const uint32_t*> self.numbers.data, self.n_last) > 0.9:
            self.partial_groups_max = min(self.partial_groups_max, <int64_t> ORDERED_GROUPS_MAX)
            return False
        if group_table_is_array(self.groups.table):
            self.is_roomy = not self.is_roomy
            return self.is_roomy
        self.start_radix()
        return self.radix != NULL

    cdef int consume(self) except -1 nogil:
        """Read the batch to its end, or until the partial step's table is full."""
        cdef int64_t n_rows = self.batch.n_selected
        cdef int64_t n
        cdef bint masks
        if self.takes_parts and self.batch.part >= 0 and self.batch.selection == NULL and self.add_part():
            self.rows_grouped += n_rows
            counter_add(&self.counts[<int> PAGED], n_rows)
        masks = self.takes_mask()
        if self.takes_columns and self.batch.selection == NULL and self.add_columns():
            self.rows_grouped += n_rows
            self.position = n_rows
        while self.position < n_rows:
            if self.is_full():
                if not self.try_radix():
                    return self.start_emitting()
                masks = False
            account_check(self.account)
            if masks and self.mask_wait > 0:
                self.mask_wait -= 1
            elif masks:
                n = self.add_under_mask()
                if n > 0:
                    self.rows_grouped += n
                    self.position += n
                    continue
            n = min(n_rows - self.position, <int64_t> VECTOR_ROWS)
            if self.may_number and self.must_renumber():
                self.renumber()
                masks = False
            self.load(n)
            if self.texts != NULL:
                text_numbers_put(self.texts, self.vectors, n)
            if self.radix != NULL:
                radix_groups_add(self.radix, self.vectors, n)
                self.rows_grouped += n
            elif self.runs != NULL:
                self.add_runs(n)
                self.rows_grouped += n
            elif self.passed != NULL:
                self.pass_through(n)
            else:
                group_set_add(self.groups, self.vectors, NULL, n, <uint32_t*> self.numbers.data)
                self.n_last = n
                self.rows_grouped += n
                if self.step != PARTIAL and self.n_weighed() >= self.radix_groups_min:
                    if not group_table_is_array(self.groups.table):
                        self.start_radix()
                        masks = False
            self.position += n
        if self.runs != NULL:
            key_runs_end_batch(self.runs, self.passed)
        batch_unref(self.batch)
        self.batch = NULL
        return 0

    # --- output ---

    cdef int64_t n_groups(self) noexcept nogil:
        """The number of groups of the set that is being filled or returned."""
        cdef GroupSet* groups = self.radix.sets[self.part] if self.radix != NULL else self.groups
        if groups == NULL:
            return 0
        return self.passed.n_rows if self.passed != NULL else groups.table.n_groups

    cdef int64_t n_in_parts(self) noexcept nogil:
        """The number of groups of all parts."""
        cdef int64_t n = 0
        cdef int64_t p
        for p in range(RADIX_PARTS):
            if self.radix.sets[p] != NULL:
                n += self.radix.sets[p].table.n_groups
        return n

    cdef int start_emitting(self) except -1 nogil:
        self.emitting = True
        self.emitted = 0
        self.part = 0
        self.n_emitting = 0
        if self.runs != NULL and (self.batch != NULL or not self.input_over):
            key_runs_cut(self.runs, self.passed)
        if self.radix != NULL:
            radix_groups_begin(self.radix)
            self.count_groups(self.radix.n_complete)
        elif self.groups != NULL:
            group_set_complete(self.groups, self.n_groups())
            self.count_groups(self.n_groups())
        return 0

    cdef void count_groups(self, int64_t n_groups) noexcept nogil:
        """Count the groups to return, n_groups by now. The new ones are added to the statistics."""
        cdef int64_t n_new = n_groups - self.n_emitting
        cdef int kind = OF_TABLE
        self.n_emitting = n_groups
        if self.radix != NULL:
            kind = OF_RADIX
        elif self.runs != NULL:
            kind = OF_RUNS
        elif self.passed != NULL:
            kind = PASSED
        elif self.groups != NULL and group_table_is_array(self.groups.table):
            kind = OF_ARRAY
        counter_add(&self.counts[kind], n_new)
        if self.texts != NULL:
            counter_add(&self.counts[<int> NUMBERED], n_new)

    cdef bint next_part(self) except -1 nogil:
        """Free this part of the key space and go to the next one. Returns False if this part is the last."""
        if self.radix == NULL or self.part == RADIX_PARTS - 1:
            return False
        radix_groups_drop(self.radix, self.part)
        self.part += 1
        self.emitted = 0
        radix_groups_complete(self.radix, self.part)
        self.count_groups(self.radix.n_complete)
        return True

    cdef int stop_emitting(self) except -1 nogil:
        """Start again after all groups were returned, with or without a table."""
        cdef GroupSet* groups
        self.emitting = False
        if self.input_over and self.batch == NULL:
            self.done = True
            return 0
        if self.texts != NULL:
            self.texts.n_returned += self.n_emitting
        if self.passed == NULL and self.rows_grouped < 2 * self.n_emitting:
            self.rows_to_pass = PASS_ROWS
        radix_groups_free(self.radix)
        self.radix = NULL
        if self.n_emitting > 2 * self.partial_groups_max:
            groups = group_set_new(&self.plan, NULL)        # the old set has more slots than will be needed
            group_set_free(self.groups)
            self.groups = groups
        else:
            group_set_clear(self.groups)
        if self.runs != NULL:
            key_runs_clear(self.runs, self.passed)
            self.rows_grouped = 0
            return 0
        key_columns_free(self.passed)
        self.passed = NULL
        self.is_roomy = False
        self.rows_grouped = 0
        if self.rows_to_pass > 0:
            self.passed = key_columns_new(self.account, self.plan.types, self.n_keys)
            key_columns_reserve(self.passed, self.partial_groups_max)
        return 0

    cdef int emit_columns(self, int64_t start, int64_t n, Column** columns) except -1 nogil:
        """Write the columns of n groups of the current set. The caller owns each column that is not NULL, also after
        an error.
        """
        cdef GroupSet* groups = self.radix.sets[self.part] if self.radix != NULL else self.groups
        if self.step == PARTIAL:
            return group_states(groups, self.passed, self.texts, start, n, columns, self.account)
        return group_results(groups, NULL, self.texts, self.calls, self.output_schema, start, n, columns, self.account)

    cdef Batch* emit(self) except NULL nogil:
        """The next groups as a batch."""
        cdef int64_t n = min(self.n_groups() - self.emitted, <int64_t> OUTPUT_ROWS)
        cdef Batch* out
        cdef bint done = False
        if self.radix != NULL and n < PART_ROWS_MIN:
            out = parts_batch(
                self.radix, &self.part, &self.emitted, self.step == PARTIAL, self.texts, self.calls,
                self.output_schema, self.account,
            )
            self.count_groups(self.radix.n_complete)
            return out
        out = batch_new(self.output_schema, n)
        try:
            self.emit_columns(self.emitted, n, out.columns)
            if self.runs != NULL:
                self.ready = key_runs_divide(self.runs, out, self.emitted)
            done = True
        finally:
            if not done:
                batch_unref(out)
        self.emitted += n
        if out.n_selected == 0:
            # No group is whole.
            batch_unref(out)
            out = self.ready
            self.ready = NULL
        return out

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.ready != NULL:
            out[0] = self.ready
            self.ready = NULL
            return OUTPUT
        while not self.done:
            if self.emitting:
                if self.groups == NULL:
                    out[0] = result_of_no_rows(self.calls, self.output_schema, self.memory)
                    self.done = True
                    return OUTPUT
                if self.emitted < self.n_groups():
                    out[0] = self.emit()
                    return OUTPUT
                if not self.next_part():
                    self.stop_emitting()
            elif self.batch != NULL:
                self.consume()
            elif self.input_over:
                self.start_emitting()
                if self.groups == NULL and (self.n_keys > 0 or self.step == PARTIAL):
                    self.done = True
            else:
                return NEEDS_INPUT
        self.release()
        return FINISHED

    cdef int finish(self) except -1 nogil:
        self.input_over = True
        return 0

    cdef void abandon(self) noexcept nogil:
        self.done = True
        self.release()

    cdef void close(self) noexcept nogil:
        self.done = True
        self.release()

    cdef void release(self) noexcept nogil:
        if self.evaluating:
            self.evaluating = False
            self.evaluator.close()
        batch_unref(self.batch)
        batch_unref(self.ready)
        self.batch = NULL
        self.ready = NULL
        group_set_free(self.groups)
        radix_groups_free(self.radix)
        key_columns_free(self.passed)
        key_runs_free(self.runs)
        text_numbers_free(self.texts)
        text_numbers_free(self.next_texts)
        self.runs = NULL
        self.groups = NULL
        self.radix = NULL
        self.passed = NULL
        self.texts = NULL
        self.next_texts = NULL
        aggregate_inputs_free(self.inputs, self.n_inputs)
        self.inputs = NULL
        struct_free(self.types)
        self.types = NULL
        self.free_scratch()

    cdef void free_scratch(self) noexcept nogil:
        struct_free(self.vectors)
        self.vectors = NULL
        buffer_unref(self.scratch)
        buffer_unref(self.numbers)
        self.scratch = NULL
        self.numbers = NULL
