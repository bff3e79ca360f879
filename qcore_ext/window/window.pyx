"""Window functions: a driver sorts its rows by partition and order, and computes a column for each call.

All rows of a partition must come to the same driver. Rows are returned in the order of the sort, with the input's
columns followed by the calls' columns.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from qcore_ext.aggregate.calls cimport (
    AggregateCalls, CallCollection, CallInput, CallResult, CallState, result_column,
)
from qcore_ext.aggregate.state cimport AggregateState, state_free
from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport (
    VECTOR_ROWS, Column, Vector, VectorScratch, column_new_flat, column_ref, column_slice, column_take, column_unref,
    columns_take,
)
from qcore_ext.data.schema cimport (
    PHYS_INTERVAL, PHYS_NONE, PHYS_VIEW, TYPE_INT64, TYPE_NESTED, CSchema, DataType, Schema, schema_copy_field,
    schema_index, schema_new, type_equal,
)
from qcore_ext.data.widening cimport raise_types_differ, schema_counterpart
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Account, Buffer, Owner, account_check, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free,
    struct_new,
)
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.window.frame_aggregates cimport aggregate_over_frames
from qcore_ext.window.frame_rows cimport FrameRows, frame_rows_free, frame_rows_init, frame_rows_share
from qcore_ext.window.frame_holistic cimport frame_results
from qcore_ext.aggregate.group_output cimport output_for_types
from qcore_ext.rows.column_store cimport ColumnStore, column_store_append, column_store_column, column_store_of
from qcore_ext.sort.order cimport SortOrder
from qcore_ext.sort.run cimport SortRun, sort_run_free, sort_run_new
from qcore_ext.window.frames cimport (
    EXCLUDE_CURRENT_ROW, EXCLUDE_GROUP, EXCLUDE_NO_OTHERS, EXCLUDE_TIES, FRAME_GROUPS, FRAME_RANGE, FRAME_ROWS, Frame,
    FrameBound,
)
from qcore_ext.rows.widened_rows cimport column_store_widen
from qcore_ext.window.ranking cimport (
    CUME_DIST, DENSE_RANK, NTILE, PARTITION_ROWS, PERCENT_RANK, RANK, ROW_NUMBER, compute_fractions, compute_numbers,
    compute_tiles,
)
from qcore_ext.window.partition_rows cimport Numbers, PartitionRows, partition_rows_free, partition_rows_init
from qcore_ext.window.navigation cimport (
    FIRST_VALUE, LAG, LAST_VALUE, LEAD, NTH_VALUE, find_rows_beside, find_rows_of_frames, find_rows_with_values,
)

from qcore_ext.ground.status import PlanError

cdef enum:
    OUTPUT_ROWS = 65536
    AGGREGATE = 20

KINDS = {
    "row_number": ROW_NUMBER,
    "rank": RANK,
    "dense_rank": DENSE_RANK,
    "percent_rank": PERCENT_RANK,
    "cume_dist": CUME_DIST,
    "ntile": NTILE,
    "partition_rows": PARTITION_ROWS,
    "lag": LAG,
    "lead": LEAD,
    "first_value": FIRST_VALUE,
    "last_value": LAST_VALUE,
    "nth_value": NTH_VALUE,
}
MODES = {"rows": FRAME_ROWS, "range": FRAME_RANGE, "groups": FRAME_GROUPS}
EXCLUSIONS = {
    "no others": EXCLUDE_NO_OTHERS,
    "current row": EXCLUDE_CURRENT_ROW,
    "group": EXCLUDE_GROUP,
    "ties": EXCLUDE_TIES,
}


ctypedef struct WindowCall:
    int kind
    int32_t argument            # position of the argument's column, or -1
    bint ignores_nulls
    Numbers numbers             # of lag, lead, ntile and nth_value
    Frame frame
    int32_t number_column       # the positions of columns of numbers and distances, or -1
    int32_t start_column
    int32_t end_column
    # For an aggregate:
    const CallInput* input      # borrowed
    const CallState* states     # borrowed
    int32_t n_states
    const CallResult* result    # borrowed
    const CallCollection* collection    # borrowed; NULL unless the aggregate is holistic
    AggregateState[2] of_frames     # owned; the states of frames, unless the aggregate is holistic
    # Results:
    Column* base                # owned; the results; NULL for an aggregate with states
    Buffer* indices             # owned; for each row the row of `base`, or its frame; NULL if `base` has one a row


cdef int set_bound(FrameBound* bound, object distance) except -1:
    if isinstance(distance, float):
        bound.real = distance
    elif isinstance(distance, tuple) and len(distance) == 2:
        bound.of_rows.of_column = True
        bound.sign = distance[1]
    elif isinstance(distance, tuple):
        bound.by_calendar = True
        bound.months, bound.days, bound.nanos = distance
    elif distance is not None:
        bound.whole = distance
        bound.real = distance
    return 0


cdef class Window(Operator):
    """Sorts its input by partition and order, and adds a column for each call.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    partition_keys : list of str
        Columns.
    order : list of (str, bool, bool)
        Column, descending, nulls first.
    calls : list of (str, str or None, int or str, (str, bound, bound, str), (bool, bool), tuple)
        For each call six items:

        - its function;
        - its argument's column or None;
        - a number: the distance of lag and lead, the position of nth_value, the tiles of ntile; or an int64 column;
        - its frame: the mode ('rows', 'range' or 'groups'), start, end, and exclusion. A bound is relative to the
          current row; None is the partition's begin or end. It is an int, a float for a RANGE over floats, (months,
          days, nanoseconds) for a RANGE over dates and times, or, for ROWS and GROUPS, an int64 column and its sign;
        - whether an aggregate is distinct, and whether a navigation function ignores nulls;
        - for an aggregate its further arguments, its filter or None, and the fifth item of a call of AggregateCalls if
          it is holistic or None.
    schema : Schema
        The output schema: the input's columns, then one column for each call.

    Raises
    ------
    PlanError
        At bind, if a column is missing or nested, or if a function does not take its argument's type.
    """
    cdef SortOrder order
    cdef int32_t n_partition
    cdef list descriptions
    cdef dict aggregates        # AggregateCalls by number of the call; `calls` points to their data
    cdef WindowCall* calls      # owned
    cdef int32_t n_calls
    cdef CSchema* result_schema     # owned; the output schema for the last bound input schema
    cdef CSchema* declared          # owned; the output schema of the plan
    cdef ColumnStore* rows      # owned; NULL after finish
    cdef Buffer* scratch        # owned; one VectorScratch
    cdef PartitionRows window
    cdef Column** columns       # owned; columns of all rows
    cdef int32_t n_columns
    cdef int64_t next_row       # the position of the next row to return
    cdef bint input_over

    def __init__(self, str node_id, Account query_memory, list partition_keys, list order, list calls, Schema schema):
        cdef int32_t i
        Operator.__init__(self, "Window", node_id, query_memory)
        self.order = SortOrder([(name, False, False) for name in partition_keys] + order)
        self.n_partition = <int32_t> len(partition_keys)
        self.descriptions = list(calls)
        self.calls = <WindowCall*> struct_new((len(calls) + 1) * sizeof(WindowCall))
        # Set after the arrays exist, because __dealloc__ visits this many entries.
        self.n_calls = <int32_t> len(calls)
        for i, (function, _, number, (mode, start, end, exclusion), (_, ignores_nulls), _) in enumerate(calls):
            self.calls[i].ignores_nulls = ignores_nulls
            self.calls[i].kind = KINDS.get(function, AGGREGATE)
            self.calls[i].numbers.of_column = isinstance(number, str)
            self.calls[i].numbers.constant = 0 if isinstance(number, str) else number
            self.calls[i].frame.mode = MODES[mode]
            self.calls[i].frame.exclusion = EXCLUSIONS[exclusion]
            self.calls[i].frame.from_first = start is None
            self.calls[i].frame.to_last = end is None
            set_bound(&self.calls[i].frame.start, start)
            set_bound(&self.calls[i].frame.end, end)
        self.result_schema = <CSchema*> owner_ref(<Owner*> schema.schema)
        self.declared = <CSchema*> owner_ref(<Owner*> schema.schema)

    def __dealloc__(self):
        self.release()
        struct_free(self.calls)
        owner_unref(<Owner*> self.result_schema)
        owner_unref(<Owner*> self.declared)

    cdef int bind(self, CSchema* schema) except -1 nogil:
        cdef ColumnStore* wider
        with gil:
            self.resolve_for(schema)
        if self.rows != NULL:
            wider = column_store_widen(self.rows, self.input_schema, schema, self.memory)
            owner_unref(<Owner*> self.rows)
            self.rows = wider
        self.widen_result(schema)
        self.set_input_schema(schema)
        self.set_output_schema(self.result_schema)
        return self.prepare(schema)

    cdef int widen_result(self, CSchema* schema) except -1 nogil:
        """Set the result schema to this input's columns, and a column for each call with its new type."""
        cdef CSchema* result = schema_new(schema.n_fields + self.n_calls)
        cdef int32_t first = self.declared.n_fields - self.n_calls
        cdef int32_t i
        try:
            for i in range(schema.n_fields):
                schema_copy_field(result, i, &schema.fields[i], NULL)
            for i in range(self.n_calls):
                if self.calls[i].kind == AGGREGATE:
                    with gil:
                        self.set_aggregate_field(i, schema, result)
                    continue
                schema_copy_field(result, schema.n_fields + i, &self.declared.fields[first + i], NULL)
                if self.calls[i].argument >= 0:
                    result.fields[schema.n_fields + i].type = schema.fields[self.calls[i].argument].type
            owner_unref(<Owner*> self.result_schema)
            self.result_schema = <CSchema*> owner_ref(<Owner*> result)
        finally:
            owner_unref(<Owner*> result)
        return 0

    cdef int set_aggregate_field(self, int32_t number, CSchema* schema, CSchema* result) except -1:
        """Set the field of an aggregate's result for an argument that may have another type than declared."""
        cdef CSchema* before = schema_new(schema.n_fields)
        cdef CSchema* output = NULL
        cdef CSchema* wide = NULL
        cdef DataType* types = NULL
        cdef int32_t first = self.declared.n_fields - self.n_calls
        cdef int32_t i, at
        cdef bint known
        try:
            types = <DataType*> struct_new((schema.n_fields + 1) * sizeof(DataType))
            for i in range(schema.n_fields):
                types[i] = schema.fields[i].type
                at = schema_counterpart(self.declared, schema, i)
                known = 0 <= at < first
                schema_copy_field(before, i, &self.declared.fields[at] if known else &schema.fields[i], NULL)
            output = schema_new(1)
            schema_copy_field(output, 0, &self.declared.fields[first + number], NULL)
            wide = output_for_types(self.aggregates[number], output, before, types, 0, False, False)
            schema_copy_field(result, schema.n_fields + number, &wide.fields[0], NULL)
        finally:
            struct_free(types)
            owner_unref(<Owner*> before)
            owner_unref(<Owner*> output)
            owner_unref(<Owner*> wide)
        return 0

    cdef int resolve_for(self, CSchema* schema) except -1:
        """Like resolve, but an error from a later schema is a SchemaChangeError, not a PlanError."""
        cdef const DataType* before
        cdef int32_t i
        cdef bytes why
        try:
            self.resolve(schema)
        except PlanError as error:
            if self.input_schema == NULL:
                raise
            why = str(error).encode()
            for i in range(self.input_schema.n_fields):
                before = &self.input_schema.fields[i].type
                if not type_equal(before, &schema.fields[i].type):
                    raise_types_differ(schema.fields[i].name, before, &schema.fields[i].type, why)
            raise
        return 0

    cdef int resolve(self, CSchema* schema) except -1:
        cdef AggregateCalls calls
        cdef DataType* types
        cdef int32_t i
        self.order.resolve(schema)
        for i in range(schema.n_fields):
            if schema.fields[i].type.id == TYPE_NESTED:
                raise PlanError(
                    f"Window of node {self.node_id} cannot carry the nested column "
                    f"{schema.fields[i].name.decode()!r}; leave it out in a projection below"
                )
        self.aggregates = {}
        types = <DataType*> struct_new((schema.n_fields + 1) * sizeof(DataType))
        try:
            for i in range(schema.n_fields):
                types[i] = schema.fields[i].type
            for i, (function, argument, number, frame, (distinct, _), (others, filter, holistic)) in enumerate(
                self.descriptions
            ):
                self.calls[i].argument = self.position(schema, argument)
                self.calls[i].number_column = self.whole_column(schema, number)
                self.calls[i].start_column = self.whole_column(schema, frame[1])
                self.calls[i].end_column = self.whole_column(schema, frame[2])
                if self.calls[i].kind == AGGREGATE:
                    names = () if argument is None else (argument, *others)
                    arguments = tuple(self.position(schema, name) for name in names)
                    call = (function, arguments, self.position(schema, filter), distinct)
                    calls = AggregateCalls([call if holistic is None else (*call, holistic)])
                    calls.check_types(types, schema.n_fields)
                    self.aggregates[i] = calls
                    self.calls[i].input = calls.inputs
                    self.calls[i].states = calls.states
                    self.calls[i].n_states = calls.n_states
                    self.calls[i].result = calls.results
                    self.calls[i].collection = calls.collections if calls.n_collections > 0 else NULL
        finally:
            struct_free(types)
        return 0

    cdef int32_t whole_column(self, CSchema* schema, object number) except -2:
        """The position of the int64 column of numbers or distances; -1 for a constant."""
        cdef int32_t found
        if isinstance(number, tuple) and len(number) == 2:
            number = number[0]
        if not isinstance(number, str):
            return -1
        found = self.position(schema, number)
        if schema.fields[found].type.id != TYPE_INT64:
            raise PlanError(f"Window of node {self.node_id} counts by column {number!r}, which is not int64")
        return found

    cdef int32_t position(self, CSchema* schema, object column) except -2:
        """The position of a column; -1 for None."""
        cdef int32_t found
        if column is None:
            return -1
        name = column.encode()
        found = schema_index(schema, name)
        if found < 0:
            names = ", ".join(schema.fields[i].name.decode() for i in range(schema.n_fields))
            raise PlanError(f"Window of node {self.node_id} reads column {column!r}; its input has {names}")
        return found

    cdef int prepare(self, CSchema* schema) except -1 nogil:
        if self.rows == NULL:
            self.rows = column_store_of(self.account, schema)
        if self.scratch == NULL:
            self.scratch = buffer_new(self.account, sizeof(VectorScratch))
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef const uint32_t* rows
        cdef int64_t n
        cdef int64_t start = 0
        if self.input_over:
            return REFUSED
        while start < batch.n_selected:
            n = min(batch.n_selected - start, <int64_t> VECTOR_ROWS)
            rows = batch.selection + start if batch.selection != NULL else NULL
            column_store_append(self.rows, batch.columns, start, rows, n, <VectorScratch*> self.scratch.data)
            start += n
        batch_unref(batch)
        return ACCEPTED

    cdef int finish(self) except -1 nogil:
        cdef SortRun* run = NULL
        cdef ColumnStore* rows = self.rows
        self.input_over = True
        buffer_unref(self.scratch)
        self.scratch = NULL
        if rows == NULL or rows.n_rows == 0:
            return 0
        self.rows = NULL
        run = sort_run_new(rows, self.input_schema, self.order.parts, self.order.n_keys, self.account)
        try:
            partition_rows_init(&self.window, run, self.order.parts, self.n_partition, self.account)
            self.compute(run)
        finally:
            sort_run_free(run)
        return 0

    cdef int compute(self, SortRun* run) except -1 nogil:
        cdef ColumnStore* rows = run.rows
        cdef int32_t i
        self.columns = <Column**> struct_new((rows.n_columns + 1) * sizeof(Column*))
        for i in range(rows.n_columns):
            self.columns[i] = column_store_column(rows, i)
            self.n_columns += 1
        for i in range(self.n_calls):
            account_check(self.account)
            self.read_numbers(&self.calls[i].numbers, self.calls[i].number_column)
            self.read_numbers(&self.calls[i].frame.start.of_rows, self.calls[i].start_column)
            self.read_numbers(&self.calls[i].frame.end.of_rows, self.calls[i].end_column)
            if self.calls[i].kind == AGGREGATE:
                self.aggregate(i, run)
            elif self.calls[i].kind >= LAG:
                self.take_values(&self.calls[i], run)
            else:
                self.number_rows(&self.calls[i], &self.result_schema.fields[self.n_columns + i].type)
        return 0

    cdef void read_numbers(self, Numbers* numbers, int32_t column) noexcept nogil:
        """Let numbers that are a column's point to its values."""
        if column >= 0:
            numbers.values = <const int64_t*> self.columns[column].values
            numbers.validity = self.columns[column].validity

    cdef int number_rows(self, WindowCall* call, const DataType* type) except -1 nogil:
        cdef Buffer* values
        cdef uint8_t* validity
        cdef bint may_be_null = call.kind == NTILE and call.numbers.of_column
        call.base = column_new_flat(type, self.window.n, may_be_null, self.account, &values, &validity)
        if call.kind in (PERCENT_RANK, CUME_DIST):
            compute_fractions(&self.window, call.kind, <double*> values.data, self.account)
        elif call.kind == NTILE:
            compute_tiles(&self.window, &call.numbers, <int64_t*> values.data, validity, self.account)
        else:
            compute_numbers(&self.window, call.kind, <int64_t*> values.data, self.account)
        return 0

    cdef int find_frames(self, const WindowCall* call, SortRun* run, FrameRows* out) except -1 nogil:
        cdef const Vector* key = NULL
        cdef const DataType* type = NULL
        cdef bint descending = False
        if self.order.n_keys == self.n_partition + 1:
            descending = self.order.parts[self.n_partition].descending
            type = &run.rows.columns[self.order.parts[self.n_partition].column].type
            if type.phys != PHYS_VIEW and type.phys != PHYS_INTERVAL and type.phys != PHYS_NONE:
                key = &run.keys[self.n_partition]
        return frame_rows_init(out, &self.window, &call.frame, key, type, descending, self.account)

    cdef int take_values(self, WindowCall* call, SortRun* run) except -1 nogil:
        """Compute a navigation function: for each row the row of the argument's column with the result."""
        cdef FrameRows frames
        cdef uint32_t* indices
        cdef const uint8_t* validity
        memset(&frames, 0, sizeof(FrameRows))
        call.indices = buffer_new(self.account, self.window.n * sizeof(uint32_t))
        indices = <uint32_t*> call.indices.data
        call.base = column_store_column(run.rows, call.argument)
        validity = call.base.validity if call.ignores_nulls else NULL
        try:
            if call.kind != LAG and call.kind != LEAD:
                self.find_frames(call, run, &frames)
            if validity != NULL:
                find_rows_with_values(
                    &self.window, &frames, call.kind, &call.numbers, validity, indices, self.account
                )
            elif call.kind == LAG or call.kind == LEAD:
                find_rows_beside(&self.window, call.kind, &call.numbers, indices, self.account)
            else:
                find_rows_of_frames(&frames, call.kind, &call.numbers, indices, self.account)
        finally:
            frame_rows_free(&frames)
        return 0

    cdef int aggregate(self, int32_t number, SortRun* run) except -1 nogil:
        """Compute an aggregate: one result for each frame. Consecutive rows with equal frames share it."""
        cdef WindowCall* call = &self.calls[number]
        cdef int32_t field = self.n_columns + number
        cdef Buffer* result_rows = NULL
        cdef FrameRows frames
        memset(&frames, 0, sizeof(FrameRows))
        try:
            self.find_frames(call, run, &frames)
            call.indices = buffer_new(self.account, self.window.n * sizeof(uint32_t))
            frame_rows_share(&frames, <uint32_t*> call.indices.data, self.account)
            if call.collection == NULL:
                aggregate_over_frames(
                    &frames, self.columns, call.input, call.states, call.n_states, call.of_frames, self.account
                )
                return 0
            result_rows = buffer_new(self.account, frames.n_frames * sizeof(uint32_t))
            frame_results(
                &frames, self.columns, call.collection, call.input, self.result_schema, field,
                <uint32_t*> result_rows.data, &call.base, self.account,
            )
            if call.base == NULL:
                self.take_result_rows(call, <const uint32_t*> result_rows.data)
        finally:
            frame_rows_free(&frames)
            buffer_unref(result_rows)
        return 0

    cdef int take_result_rows(self, WindowCall* call, const uint32_t* result_rows) except -1 nogil:
        """Set the index of each row to its frame's result row, which is a row of the argument."""
        cdef uint32_t* indices = <uint32_t*> call.indices.data
        cdef int64_t i
        for i in range(self.window.n):
            if i % CHECK_ROWS == 0:
                account_check(self.account)
            indices[i] = result_rows[indices[i]]
        call.base = column_ref(self.columns[call.input.argument])
        return 0

    cdef Column* call_column(self, int32_t number, int64_t start, int64_t n) except NULL nogil:
        """The result column of a call for n rows from `start`."""
        cdef WindowCall* call = &self.calls[number]
        cdef const uint32_t* indices
        cdef Buffer* moved = NULL
        cdef Column* base = NULL
        cdef uint32_t first
        cdef int64_t i
        if call.indices == NULL:
            return column_slice(call.base, start, n)
        indices = <const uint32_t*> call.indices.data + start
        if call.base != NULL:
            return column_take(call.base, indices, n, <Owner*> call.indices, self.account)
        # Frames are numbered in the order of their rows, so the frames of a batch have consecutive numbers.
        first = indices[0]
        try:
            base = result_column(
                call.result, call.of_frames, &self.result_schema.fields[self.n_columns + number].type, first,
                <int64_t> indices[n - 1] - first + 1, self.account,
            )
            moved = buffer_new(self.account, n * sizeof(uint32_t))
            for i in range(n):
                qc_check(first <= indices[i] <= indices[n - 1], b"the frames of consecutive rows ascend")
                (<uint32_t*> moved.data)[i] = indices[i] - first
            return column_take(base, <uint32_t*> moved.data, n, <Owner*> moved, self.account)
        finally:
            column_unref(base)
            buffer_unref(moved)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if not self.input_over:
            return NEEDS_INPUT
        if self.next_row == self.window.n:
            self.release()
            return FINISHED
        cdef int64_t start = self.next_row
        cdef int64_t n = min(self.window.n - start, <int64_t> OUTPUT_ROWS)
        cdef Batch* batch = batch_new(self.result_schema, n)
        cdef int32_t i
        cdef bint done = False
        qc_check_rows(self.window.perm + start, n, self.window.n, b"a sorted row is a row of the window")
        batch.n_columns = 0
        try:
            columns_take(
                self.columns, self.n_columns, self.window.perm + start, n, <Owner*> self.window.buffer, self.account,
                batch.columns,
            )
            batch.n_columns = self.n_columns
            for i in range(self.n_calls):
                batch.columns[batch.n_columns] = self.call_column(i, start, n)
                batch.n_columns += 1
            done = True
        finally:
            if not done:
                batch_unref(batch)
        self.next_row += n
        out[0] = batch
        return OUTPUT

    cdef void abandon(self) noexcept nogil:
        self.release()

    cdef void close(self) noexcept nogil:
        self.release()

    cdef void release(self) noexcept nogil:
        cdef int32_t i
        for i in range(self.n_columns):
            column_unref(self.columns[i])
        struct_free(self.columns)
        self.columns = NULL
        self.n_columns = 0
        for i in range(self.n_calls):
            column_unref(self.calls[i].base)
            buffer_unref(self.calls[i].indices)
            state_free(&self.calls[i].of_frames[0])
            state_free(&self.calls[i].of_frames[1])
            self.calls[i].base = NULL
            self.calls[i].indices = NULL
        partition_rows_free(&self.window)
        self.next_row = 0
        buffer_unref(self.scratch)
        owner_unref(<Owner*> self.rows)
        self.scratch = NULL
        self.rows = NULL
