"""Hash aggregation: partial, final or in a single step. Floor E4.

Reads vectors, finds each row's group, then runs one kernel an aggregate over the vector. The partial step keeps a
bounded table: when it is full its groups are given out as states and it starts anew; where the rows hardly repeat their
keys, it passes them through as states without a table for a while. Partial output: keys, then state columns
(compute.aggregate_calls).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.compute.aggregate_calls cimport AggregateCalls, result_column
from qcore_ext.compute.aggregate_state cimport (
    STATE_COUNT, AggregateState, state_clear, state_column, state_extend, state_free, state_init, state_merge,
    state_n_columns, state_update, state_widen,
)
from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.compute.program cimport Program
from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport (
    VECTOR_ROWS, Column, Vector, VectorScratch, column_constant_null, column_load_narrow, column_new_flat,
)
from qcore_ext.data.schema cimport TYPE_INT64, TYPE_NESTED, CSchema, DataType, Schema, type_equal, type_name
from qcore_ext.ground.memory cimport Account, Buffer, buffer_new, buffer_unref, struct_free, struct_new
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.operators.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.structures.aggregate_input cimport (
    AggregateInput, aggregate_input_free, aggregate_input_init, aggregate_input_load,
)
from qcore_ext.structures.group_table cimport (
    GroupTable, group_table_assign, group_table_clear, group_table_column, group_table_free, group_table_new,
)
from qcore_ext.structures.key_packing cimport KEY_COLUMNS_MAX
from qcore_ext.structures.stored_keys cimport (
    stored_keys_append, stored_keys_column, stored_keys_free, stored_keys_new,
)

from qcore_ext.compute.aggregate_calls import partial_schema as partial_schema
from qcore_ext.ground.status import PlanError, SchemaChangeError

cdef enum:
    SINGLE = 0
    PARTIAL = 1
    FINAL = 2
    OUTPUT_ROWS = 65536
    # Rows passed through before the table is tried again: enough that trying costs little, few enough to notice a
    # change.
    PASS_ROWS = 1048576

STEPS = {"single": SINGLE, "partial": PARTIAL, "final": FINAL}


cdef class HashAggregation(Operator):
    """Groups rows by keys and aggregates each group; without keys, all rows are one group.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    compile : callable or None
        Schema of the input to a Program that computes keys, arguments and filters. None: the input's columns are just
        these.
    n_keys : int
        How many of the program's first outputs are keys.
    aggregates : list of (str, int, int, bool)
        Function; positions of its argument and of its filter among the program's outputs, or -1; distinct. In step
        'final' only the functions and the distinctness of positions count: it reads what partial_schema says.
    step : {'single', 'partial', 'final'}
        Distinct aggregates need 'single', below which rows of one group must meet in one driver.
    output_schema : Schema
        Keys, then a column an aggregate; for 'partial', what partial_schema gives.
    partial_groups_max : int
        Groups the partial step keeps: as many as fit the second-level cache with their states.

    Raises
    ------
    PlanError
        An aggregate is unknown or cannot take its argument's type, or is distinct outside step 'single'.
    """

    def __init__(
        self, str node_id, Account query_memory, object compile, int32_t n_keys, list aggregates, str step,
        Schema output_schema, int64_t partial_groups_max=65536,
    ):
        Operator.__init__(self, "HashAggregation", node_id, query_memory)
        if step not in STEPS:
            raise PlanError(f"the step of an aggregation is one of {', '.join(STEPS)}, not {step!r}")
        if n_keys > KEY_COLUMNS_MAX:
            raise PlanError(f"an aggregation takes up to {KEY_COLUMNS_MAX} keys, not {n_keys}")
        self.compile = compile
        self.n_keys = n_keys
        self.calls = AggregateCalls(aggregates)
        self.n_inputs = self.calls.n_inputs
        self.n_states = self.calls.n_states
        self.step = STEPS[step]
        if self.step != SINGLE and self.calls.has_distinct:
            raise PlanError(f"a distinct aggregate cannot be computed in steps; node {node_id} must use step 'single'")
        self.partial_groups_max = max(partial_groups_max, <int64_t> VECTOR_ROWS)
        wanted = n_keys + (self.calls.n_state_columns if self.step == PARTIAL else self.calls.n_results)
        if len(output_schema) != wanted:
            raise PlanError(f"the aggregation of node {node_id} gives {wanted} columns, its schema has {len(output_schema)}")
        self.set_output_schema(output_schema.schema)

    def __dealloc__(self):
        self.release()

    # --- set-up ---

    cdef int bind(self, CSchema* schema) except -1 nogil:
        with gil:
            self.bind_program(Schema.wrap(schema))
        self.set_input_schema(schema)
        return 0

    cdef int bind_program(self, Schema schema) except -1:
        """Compile for an input schema; the vectors' types must stay what they were."""
        cdef Program program
        cdef CSchema* loaded = schema.schema
        cdef int32_t i
        if self.compile is not None:
            program = self.compile(schema)
            loaded = program.output_schema
            if self.evaluating:
                self.evaluator.close()
            self.evaluator = Evaluator(program, self.memory)
            self.evaluating = True
        if self.table != NULL:
            for i in range(min(loaded.n_fields, self.n_loaded)):
                if not type_equal(&loaded.fields[i].type, &self.types[i]):
                    raise SchemaChangeError(
                        f"{self.name} of node {self.node_id}: input {loaded.fields[i].name.decode()!r} changed from "
                        f"{type_name(&self.types[i])} to {type_name(&loaded.fields[i].type)} while groups are held; "
                        "cast it to the wider type first"
                    )
            if loaded.n_fields != self.n_loaded:
                raise SchemaChangeError(
                    f"{self.name} of node {self.node_id} reads {self.n_loaded} columns, the input now has {loaded.n_fields}"
                )
            return 0
        self.n_loaded = loaded.n_fields
        self.types = <DataType*> struct_new(max(self.n_loaded, 1) * sizeof(DataType))
        for i in range(self.n_loaded):
            self.types[i] = loaded.fields[i].type
        return self.prepare()

    cdef int prepare(self) except -1:
        cdef int32_t i
        cdef int32_t argument
        cdef DataType* type
        cdef DataType* types = self.types
        if self.n_keys > self.n_loaded:
            raise PlanError(f"the aggregation of node {self.node_id} has {self.n_keys} keys but {self.n_loaded} inputs")
        for i in range(self.n_keys):
            if types[i].id == TYPE_NESTED:
                raise PlanError(f"node {self.node_id}: key {i} is nested; group by one of its fields")
        if self.step == FINAL:
            if self.n_loaded != self.n_keys + self.calls.n_state_columns:
                raise PlanError(f"node {self.node_id}: the final aggregation reads {self.n_loaded} columns, not its states")
        else:
            self.calls.check_types(types, self.n_loaded)
        self.vectors = <Vector*> struct_new(max(self.n_loaded, 1) * sizeof(Vector))
        self.groups = buffer_new(self.account, VECTOR_ROWS * sizeof(uint32_t))
        if self.compile is None:
            self.scratch = buffer_new(self.account, self.n_loaded * sizeof(VectorScratch))
        self.inputs = <AggregateInput*> struct_new(max(self.n_inputs, 1) * sizeof(AggregateInput))
        self.states = <AggregateState*> struct_new(max(self.n_states, 1) * sizeof(AggregateState))
        for i in range(self.n_inputs):
            if self.step != FINAL:
                argument = self.calls.inputs[i].argument
                aggregate_input_init(
                    &self.inputs[i], self.account, &self.calls.inputs[i], &types[argument] if argument >= 0 else NULL
                )
        for i in range(self.n_states):
            if self.step == FINAL:
                type = &types[self.n_keys + self.calls.states[i].column]
            else:
                argument = self.calls.inputs[self.calls.states[i].input].argument
                type = &types[max(argument, 0)]
            if self.n_loaded == 0:
                type = &self.output_schema.fields[i].type       # count of rows: the type is not looked at
            state_init(&self.states[i], self.account, self.calls.states[i].kind, type)
        self.table = group_table_new(self.account, types, self.n_keys)
        return 0

    # --- input ---

    cdef bint needs_input(self) noexcept nogil:
        return self.batch == NULL and not self.emitting and not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef bint done = False
        if self.batch != NULL or self.emitting:
            return REFUSED
        self.batch = batch
        self.position = 0
        try:
            self.consume()
            done = True
        finally:
            if not done:
                self.batch = NULL           # after an error it is still the driver's
        return ACCEPTED

    cdef int load(self, int64_t n) except -1 nogil:
        """The next n selected rows as vectors."""
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

    cdef int64_t n_groups(self) noexcept nogil:
        if self.table == NULL:
            return 0
        return self.passed.n_rows if self.passed != NULL else self.table.n_groups

    cdef int assign(self, int64_t n) except -1 nogil:
        cdef uint32_t* groups = <uint32_t*> self.groups.data
        cdef int64_t i, first
        if self.passed == NULL:
            return group_table_assign(self.table, self.vectors, n, groups)
        first = self.passed.n_rows
        stored_keys_append(self.passed, self.vectors, NULL, n)
        for i in range(n):
            groups[i] = <uint32_t> (first + i)
        return 0

    cdef int update(self, const uint32_t* groups, int64_t n_groups, int64_t n) except -1 nogil:
        cdef AggregateInput* input
        cdef int32_t i
        for i in range(self.n_inputs):
            aggregate_input_load(&self.inputs[i], self.vectors, groups, n)
        for i in range(self.n_states):
            input = &self.inputs[self.calls.states[i].input]
            if not input.nothing:
                state_update(&self.states[i], n_groups, groups, n, &input.vector, input.mask)
        return 0

    cdef int merge(self, const uint32_t* groups, int64_t n_groups, int64_t n) except -1 nogil:
        cdef VectorScratch room
        cdef Vector[3] arguments
        cdef const Vector* vectors
        cdef int32_t i
        for i in range(self.n_states):
            vectors = self.vectors + self.n_keys + self.calls.states[i].column
            if state_n_columns(self.calls.states[i].kind) == 1:
                state_widen(&vectors[0], n, room.values, &arguments[0])
                vectors = arguments
            state_merge(&self.states[i], n_groups, groups, n, vectors, vectors[0].validity)
        return 0

    cdef int consume(self) except -1 nogil:
        """Read on in the batch, until its end or until the partial table is full."""
        cdef int64_t n_rows = self.batch.n_selected
        cdef int64_t n
        cdef const uint32_t* groups
        cdef bint bounded = self.step == PARTIAL and self.n_keys > 0
        while self.position < n_rows:
            if bounded and self.n_groups() + VECTOR_ROWS > self.partial_groups_max:
                return self.start_emitting()
            n = min(n_rows - self.position, <int64_t> VECTOR_ROWS)
            self.load(n)
            groups = NULL
            if self.n_keys > 0:
                self.assign(n)
                groups = <uint32_t*> self.groups.data
            if self.step == FINAL:
                self.merge(groups, self.n_groups(), n)
            else:
                self.update(groups, self.n_groups(), n)
            self.position += n
            if self.passed != NULL:
                self.rows_to_pass -= n
            else:
                self.rows_grouped += n
        batch_unref(self.batch)
        self.batch = NULL
        return 0

    # --- output ---

    cdef int start_emitting(self) except -1 nogil:
        cdef int32_t i
        self.emitting = True
        self.emitted = 0
        if self.states != NULL:
            for i in range(self.n_states):
                state_extend(&self.states[i], self.n_groups())
        return 0

    cdef int stop_emitting(self) except -1 nogil:
        """All groups are out: start anew, with or without a table."""
        cdef int64_t n_groups = self.n_groups()
        cdef int32_t i
        self.emitting = False
        if self.input_over:
            self.done = True
            return 0
        for i in range(self.n_states):
            state_clear(&self.states[i])
        if self.passed == NULL and self.rows_grouped < 2 * n_groups:
            self.rows_to_pass = PASS_ROWS
        group_table_clear(self.table)
        stored_keys_free(self.passed)
        self.passed = NULL
        self.rows_grouped = 0
        if self.rows_to_pass > 0:
            self.passed = stored_keys_new(self.account, self.types, self.n_keys)
        return 0

    cdef Batch* emit(self) except NULL nogil:
        """The next groups as a batch."""
        cdef int64_t n = min(self.n_groups() - self.emitted, <int64_t> OUTPUT_ROWS)
        cdef int64_t start = self.emitted
        cdef Batch* out = batch_new(self.output_schema, n)
        cdef Column** columns = out.columns
        cdef int32_t i, j
        cdef bint done = False
        try:
            for i in range(self.n_keys):
                if self.passed != NULL:
                    columns[i] = stored_keys_column(self.passed, i, start, n, self.account)
                else:
                    columns[i] = group_table_column(self.table, i, start, n, self.account)
            columns += self.n_keys
            if self.step == PARTIAL:
                for i in range(self.n_states):
                    for j in range(state_n_columns(self.calls.states[i].kind)):
                        columns[self.calls.states[i].column + j] = state_column(&self.states[i], j, start, n, self.account)
            else:
                for i in range(self.calls.n_results):
                    columns[i] = result_column(
                        &self.calls.results[i], self.states, &self.output_schema.fields[self.n_keys + i].type, start, n,
                        self.account,
                    )
            done = True
        finally:
            if not done:
                batch_unref(out)
        self.emitted += n
        return out

    cdef Batch* emit_nothing_read(self) except NULL nogil:
        """The one row of an aggregation without keys that never saw a batch: counts are 0, all else is null."""
        cdef Batch* out = batch_new(self.output_schema, 1)
        cdef Buffer* values
        cdef uint8_t* validity
        cdef DataType* type
        cdef int32_t i
        cdef bint done = False
        try:
            for i in range(self.calls.n_results):
                type = &self.output_schema.fields[i].type
                if type.id == TYPE_INT64 and self.calls.states[self.calls.results[i].states[0]].kind == STATE_COUNT:
                    out.columns[i] = column_new_flat(type, 1, False, self.account, &values, &validity)
                    (<int64_t*> values.data)[0] = 0
                else:
                    out.columns[i] = column_constant_null(type, 1)
            done = True
        finally:
            if not done:
                batch_unref(out)
        return out

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        while not self.done:
            if self.emitting:
                if self.table == NULL:
                    out[0] = self.emit_nothing_read()
                    self.done = True
                    return OUTPUT
                if self.emitted < self.n_groups():
                    out[0] = self.emit()
                    return OUTPUT
                self.stop_emitting()
            elif self.batch != NULL:
                self.consume()
            elif self.input_over:
                self.start_emitting()
                if self.table == NULL and (self.n_keys > 0 or self.step == PARTIAL):
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
        cdef int32_t i
        if self.evaluating:
            self.evaluating = False
            self.evaluator.close()
        batch_unref(self.batch)
        self.batch = NULL
        group_table_free(self.table)
        self.table = NULL
        stored_keys_free(self.passed)
        self.passed = NULL
        if self.inputs != NULL:
            for i in range(self.n_inputs):
                aggregate_input_free(&self.inputs[i])
        if self.states != NULL:
            for i in range(self.n_states):
                state_free(&self.states[i])
        struct_free(self.inputs)
        struct_free(self.states)
        struct_free(self.vectors)
        struct_free(self.types)
        self.inputs = NULL
        self.states = NULL
        self.vectors = NULL
        self.types = NULL
        buffer_unref(self.scratch)
        buffer_unref(self.groups)
        self.scratch = NULL
        self.groups = NULL
