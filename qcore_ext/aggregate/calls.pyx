"""Aggregate calls, divided into inputs, states and results."""

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from qcore_ext.aggregate.comoments cimport (
    CORR, COVAR_POP, COVAR_SAMP, REGR_AVGX, REGR_AVGY, REGR_COUNT, REGR_INTERCEPT, REGR_R2, REGR_SLOPE, REGR_SXX,
    REGR_SXY, REGR_SYY, comoments_result,
)
from qcore_ext.aggregate.state cimport (
    AggregateState, state_column, state_column_type, state_n_columns, state_rep, state_sum,
)
from qcore_ext.aggregate.state_kind cimport (
    REP_F64, REP_VIEW, STATE_BIT_AND, STATE_BIT_OR, STATE_BIT_XOR, STATE_COMOMENTS, STATE_COUNT, STATE_FIRST,
    STATE_LAST, STATE_MAX, STATE_MIN, STATE_MOMENTS, STATE_SUM, Comoments, Moments,
)
from qcore_ext.data.column cimport Column, column_new_flat, column_unref
from qcore_ext.data.schema cimport (
    PHYS_F64, PHYS_I64, PHYS_I128, PHYS_INTERVAL, PHYS_U64, PHYS_VIEW, TYPE_BOOL, TYPE_DECIMAL, TYPE_INT8, TYPE_NESTED,
    TYPE_NULL, TYPE_UINT64, CSchema, DataType, Schema, schema_copy_field, schema_new, schema_set_field, type_name,
)
from qcore_ext.ground.bitmap cimport bit_clear
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner, owner_unref, struct_free, struct_new
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.ground.wide cimport int128, wide_power_of_ten

from qcore_ext.ground.status import PlanError

# For each function: how its result is computed, and the states that it needs.
FUNCTIONS = {
    "count": (RESULT_STATE, (STATE_COUNT,)),
    "count_null": (RESULT_STATE, (STATE_COUNT,)),
    "sum": (RESULT_SUM, (STATE_SUM,)),
    "avg": (RESULT_AVG, (STATE_SUM, STATE_COUNT)),
    "min": (RESULT_STATE, (STATE_MIN,)),
    "max": (RESULT_STATE, (STATE_MAX,)),
    "bool_and": (RESULT_STATE, (STATE_MIN,)),
    "bool_or": (RESULT_STATE, (STATE_MAX,)),
    "first": (RESULT_STATE, (STATE_FIRST,)),
    "any_value": (RESULT_STATE, (STATE_FIRST,)),
    "last": (RESULT_STATE, (STATE_LAST,)),
    "var_samp": (RESULT_VAR_SAMP, (STATE_MOMENTS,)),
    "var_pop": (RESULT_VAR_POP, (STATE_MOMENTS,)),
    "stddev_samp": (RESULT_STDDEV_SAMP, (STATE_MOMENTS,)),
    "stddev_pop": (RESULT_STDDEV_POP, (STATE_MOMENTS,)),
    "bit_and": (RESULT_STATE, (STATE_BIT_AND,)),
    "bit_or": (RESULT_STATE, (STATE_BIT_OR,)),
    "bit_xor": (RESULT_STATE, (STATE_BIT_XOR,)),
    "covar_pop": (RESULT_COMOMENT + COVAR_POP, (STATE_COMOMENTS,)),
    "covar_samp": (RESULT_COMOMENT + COVAR_SAMP, (STATE_COMOMENTS,)),
    "corr": (RESULT_COMOMENT + CORR, (STATE_COMOMENTS,)),
    "regr_count": (RESULT_COMOMENT + REGR_COUNT, (STATE_COMOMENTS,)),
    "regr_avgx": (RESULT_COMOMENT + REGR_AVGX, (STATE_COMOMENTS,)),
    "regr_avgy": (RESULT_COMOMENT + REGR_AVGY, (STATE_COMOMENTS,)),
    "regr_sxx": (RESULT_COMOMENT + REGR_SXX, (STATE_COMOMENTS,)),
    "regr_syy": (RESULT_COMOMENT + REGR_SYY, (STATE_COMOMENTS,)),
    "regr_sxy": (RESULT_COMOMENT + REGR_SXY, (STATE_COMOMENTS,)),
    "regr_slope": (RESULT_COMOMENT + REGR_SLOPE, (STATE_COMOMENTS,)),
    "regr_intercept": (RESULT_COMOMENT + REGR_INTERCEPT, (STATE_COMOMENTS,)),
    "regr_r2": (RESULT_COMOMENT + REGR_R2, (STATE_COMOMENTS,)),
}
# Holistic functions. They keep all values of the first argument, and compute with them in the order of the others.
HOLISTIC = {
    "string_agg": COLLECT_TEXT,
    "array_agg": COLLECT_LIST,
    "first_ordered": COLLECT_FIRST,
    "last_ordered": COLLECT_LAST,
    "quantile_cont": COLLECT_BETWEEN,
    "quantile_disc": COLLECT_NEAREST,
    "mode": COLLECT_MODE,
}
# Null is a value for these functions.
KEEPS_NULLS = {"array_agg", "first_ordered", "last_ordered"}
# DISTINCT does not change the result of these functions.
INDIFFERENT_TO_REPEATS = {"min", "max", "bool_and", "bool_or", "first", "any_value", "last"}


cdef class AggregateCalls:
    """Aggregate calls, checked and divided into inputs, states and results.

    Parameters
    ----------
    calls : list of tuples
        For each call: function, position of the argument (a tuple if there are several, -1 if there is none), position
        of the filter or -1, distinct. A call of a holistic function has a fifth item: a list with (descending, nulls
        first) for each argument but the first, and the separator (str) or the fraction (float).
    """

    def __init__(self, list calls):
        cdef int32_t i, j
        inputs = {}
        states = {}
        collections = {}
        results = []
        self.functions = [call[0] for call in calls]
        for function, argument, filter, distinct, *more in calls:
            if function not in FUNCTIONS and function not in HOLISTIC:
                known = ", ".join(sorted([*FUNCTIONS, *HOLISTIC]))
                raise PlanError(f"unknown aggregate function {function!r}; the functions are {known}")
            arguments = argument if isinstance(argument, tuple) else (argument,) if argument >= 0 else ()
            if not arguments and function != "count":
                raise PlanError(f"the aggregate function {function!r} needs an argument")
            if len(arguments) > ARGUMENTS_MAX:
                raise PlanError(
                    f"{function} has {len(arguments)} arguments and sort keys; the most that it supports is "
                    f"{ARGUMENTS_MAX}"
                )
            repeats = bool(distinct) and function not in INDIFFERENT_TO_REPEATS and len(arguments) > 0
            n_required = len(arguments) if function in FUNCTIONS else 0 if function in KEEPS_NULLS else 1
            wanted = (arguments, n_required, filter, repeats, function == "count_null")
            at = inputs.setdefault(wanted, len(inputs))
            if function in HOLISTIC:
                order, parameter = more[0]
                wanted = (at, HOLISTIC[function], tuple(order), parameter)
                results.append((RESULT_HOLISTIC, [collections.setdefault(wanted, len(collections))]))
            else:
                how, kinds = FUNCTIONS[function]
                results.append((how, [states.setdefault((kind, at), len(states)) for kind in kinds]))
        self.n_inputs = <int32_t> len(inputs)
        self.n_states = <int32_t> len(states)
        self.n_results = <int32_t> len(results)
        self.inputs = <CallInput*> struct_new(max(self.n_inputs, 1) * sizeof(CallInput))
        self.states = <CallState*> struct_new(max(self.n_states, 1) * sizeof(CallState))
        self.results = <CallResult*> struct_new(max(self.n_results, 1) * sizeof(CallResult))
        for i, (arguments, n_required, filter, distinct, nulls) in enumerate(inputs):
            self.inputs[i].argument = arguments[0] if arguments else -1
            self.inputs[i].n_arguments = <int32_t> len(arguments)
            for j in range(self.inputs[i].n_arguments):
                self.inputs[i].arguments[j] = arguments[j]
            self.inputs[i].n_required = n_required
            self.inputs[i].filter = filter
            self.inputs[i].distinct = distinct
            self.inputs[i].nulls = nulls
        for i, (kind, at) in enumerate(states):
            self.states[i].kind = kind
            self.states[i].input = at
            self.states[i].column = self.n_state_columns
            self.n_state_columns += state_n_columns(kind)
        for i, (how, used) in enumerate(results):
            self.results[i].how = how
            for j in range(<int32_t> len(used)):
                self.results[i].states[j] = used[j]
        self.keep_collections(list(collections))

    cdef int keep_collections(self, list collections) except -1:
        cdef int32_t i, k
        cdef bytes separator
        self.kept = []
        self.n_collections = <int32_t> len(collections)
        self.collections = <CallCollection*> struct_new(max(self.n_collections, 1) * sizeof(CallCollection))
        for i, (at, kind, order, parameter) in enumerate(collections):
            self.collections[i].input = at
            self.collections[i].kind = kind
            for k, (descending, nulls_first) in enumerate(order):
                self.collections[i].descending[k] = descending
                self.collections[i].nulls_first[k] = nulls_first
            if isinstance(parameter, str):
                separator = parameter.encode()
                self.kept.append(separator)
                self.collections[i].separator = separator
                self.collections[i].separator_bytes = len(separator)
            elif parameter is not None:
                self.collections[i].fraction = parameter
        return 0

    def __dealloc__(self):
        struct_free(self.inputs)
        struct_free(self.states)
        struct_free(self.results)
        struct_free(self.collections)

    @property
    def needs_all_rows(self):
        """Whether all rows of a group must come to the same driver, because some call is distinct or holistic."""
        return self.n_collections > 0 or any(self.inputs[i].distinct for i in range(self.n_inputs))

    cdef int check_types(self, const DataType* types, int32_t n_types) except -1:
        cdef int32_t i, k, argument, last
        for i in range(self.n_inputs):
            last = self.inputs[i].filter
            for k in range(self.inputs[i].n_arguments):
                last = max(last, self.inputs[i].arguments[k])
            if last >= n_types:
                raise PlanError(f"an aggregate reads input {last}, but there are only {n_types} inputs")
            if self.inputs[i].filter >= 0 and types[self.inputs[i].filter].id != TYPE_BOOL:
                raise PlanError(
                    f"the filter of an aggregate has type {type_name(&types[self.inputs[i].filter])}; it must be bool"
                )
        for i in range(self.n_states):
            argument = self.inputs[self.states[i].input].argument
            if argument < 0 or self.states[i].kind == STATE_COUNT:
                continue
            if not can_take(self.states[i].kind, &types[argument]):
                self.refuse(argument, &types[argument])
            if self.states[i].kind == STATE_COMOMENTS:
                argument = self.inputs[self.states[i].input].arguments[1]
                if not can_take(STATE_COMOMENTS, &types[argument]):
                    self.refuse(argument, &types[argument])
        for i in range(self.n_collections):
            argument = self.inputs[self.collections[i].input].argument
            if not can_collect(self.collections[i].kind, &types[argument]):
                self.refuse(argument, &types[argument])
            for k in range(1, self.inputs[self.collections[i].input].n_arguments):
                argument = self.inputs[self.collections[i].input].arguments[k]
                if types[argument].id == TYPE_NESTED or types[argument].phys == PHYS_INTERVAL:
                    raise PlanError(
                        f"an aggregate cannot order by input {argument}: {type_name(&types[argument])} values have no "
                        "order"
                    )
        return 0

    cdef int refuse(self, int32_t argument, const DataType* type) except -1:
        names = ", ".join(sorted(set(self.functions)))
        raise PlanError(
            f"one of the functions {names} does not take input {argument} of type {type_name(type)}; cast it first"
        )


cdef bint can_take(int kind, const DataType* type) noexcept nogil:
    cdef int rep = state_rep(type)
    if kind == STATE_COMOMENTS:
        return type.phys == PHYS_F64
    if STATE_BIT_AND <= kind <= STATE_BIT_XOR:
        # A decimal is an integer to the kernel, but it has no bits.
        return TYPE_INT8 <= type.id <= TYPE_UINT64 or type.id == TYPE_NULL
    return rep >= 0 and not (rep == REP_VIEW and (kind == STATE_SUM or kind == STATE_MOMENTS))


cdef bint can_collect(int kind, const DataType* type) noexcept nogil:
    if kind == COLLECT_TEXT:
        return type.phys == PHYS_VIEW
    if kind == COLLECT_BETWEEN:
        return type.phys == PHYS_F64
    return type.id != TYPE_NESTED


def partial_schema(Schema inputs, int n_keys, list calls, Schema results):
    """The output schema of step 'partial', which is the input schema of step 'final': keys, then states.

    Parameters
    ----------
    inputs : Schema
        The schema of the expressions that the partial step computes: keys, arguments, filters.
    n_keys : int
    calls : list of (str, int, int, bool)
        The calls, as HashAggregation takes them.
    results : Schema
        The output schema of the final step. The keys' names are taken from it.

    Returns
    -------
    Schema

    Raises
    ------
    PlanError
        If a call is unknown or does not take its argument's type.
    """
    cdef AggregateCalls parts = AggregateCalls(calls)
    cdef CSchema* schema
    cdef DataType* types = schema_types(inputs.schema)
    cdef DataType type
    cdef DataType none
    cdef int32_t i, column, argument
    memset(&none, 0, sizeof(DataType))
    try:
        parts.check_types(types, inputs.schema.n_fields)
        schema = schema_new(n_keys + parts.n_state_columns)
        try:
            for i in range(n_keys):
                schema_copy_field(schema, i, &inputs.schema.fields[i], results.schema.fields[i].name)
            for i in range(parts.n_states):
                argument = parts.inputs[parts.states[i].input].argument
                for column in range(state_n_columns(parts.states[i].kind)):
                    state_column_type(parts.states[i].kind, &types[argument] if argument >= 0 else &none, column, &type)
                    name = f"$state{parts.states[i].column + column}".encode()
                    schema_set_field(schema, n_keys + parts.states[i].column + column, name, &type)
            return Schema.wrap(schema)
        finally:
            owner_unref(<Owner*> schema)
    finally:
        struct_free(types)


cdef DataType* schema_types(CSchema* schema) except NULL:
    """The fields' types as an array. The caller frees it."""
    cdef DataType* types = <DataType*> struct_new(max(schema.n_fields, 1) * sizeof(DataType))
    cdef int32_t i
    for i in range(schema.n_fields):
        types[i] = schema.fields[i].type
    return types


# --- results ---

cdef int sum_to_doubles(const AggregateState* state, int64_t start, int64_t n, double* out) except -1 nogil:
    cdef long double unit = <long double> wide_power_of_ten(state.type.scale)
    cdef int64_t i
    if state.rep == REP_F64:
        for i in range(n):
            out[i] = (<const double*> state.values.data)[start + i]
    else:
        for i in range(n):
            out[i] = <double> (<long double> state_sum(state, start + i) / unit)
    return 0


cdef int sum_to_wholes(
    const AggregateState* state, const DataType* type, int64_t start, int64_t n, char* out,
) except -1 nogil:
    """Convert sums to int64, uint64 or decimals of the state's scale."""
    cdef int128 low = -wide_power_of_ten(38)
    cdef int128 high = wide_power_of_ten(38)
    cdef int128 sum
    cdef bint bad = False
    cdef int64_t i
    if not state.is_wide and type.phys == PHYS_I64:
        memcpy(out, (<const int64_t*> state.values.data) + start, n * sizeof(int64_t))
        return 0
    if type.id == TYPE_DECIMAL:
        high = wide_power_of_ten(type.precision) - 1
        low = -high
    elif type.phys == PHYS_U64:
        low = 0
        high = <int128> 0xFFFFFFFFFFFFFFFFULL
    else:
        high = <int128> 0x7FFFFFFFFFFFFFFFULL
        low = -high - 1
    for i in range(n):
        sum = state_sum(state, start + i)
        bad |= sum < low or sum > high
    if bad:
        return raise_execution(b"a sum does not fit its result type; cast its argument to a wider type or to double")
    if type.phys == PHYS_I128:
        for i in range(n):
            (<int128*> out)[i] = state_sum(state, start + i)
    else:
        for i in range(n):
            (<int64_t*> out)[i] = <int64_t> state_sum(state, start + i)
    return 0


cdef void averages(
    const AggregateState* sums, const AggregateState* counts, int64_t start, int64_t n, double* out,
) noexcept nogil:
    cdef const int64_t* count = (<const int64_t*> counts.values.data) + start
    cdef long double unit = <long double> wide_power_of_ten(sums.type.scale)
    cdef int64_t i
    if sums.rep == REP_F64:
        for i in range(n):
            out[i] = (<const double*> sums.values.data)[start + i] / count[i]
    else:
        # The sum is exact, so only this division rounds.
        for i in range(n):
            out[i] = <double> (<long double> state_sum(sums, start + i) / (unit * count[i]))


cdef void variances(const Moments* moments, int how, int64_t n, double* out, uint8_t* validity) noexcept nogil:
    cdef bint sample = how == RESULT_VAR_SAMP or how == RESULT_STDDEV_SAMP
    cdef double freedom
    cdef int64_t i
    for i in range(n):
        freedom = moments[i].count - 1 if sample else moments[i].count
        if freedom <= 0:
            out[i] = 0
            bit_clear(validity, i)
        elif how == RESULT_STDDEV_SAMP or how == RESULT_STDDEV_POP:
            out[i] = sqrt(moments[i].m2 / freedom)
        else:
            out[i] = moments[i].m2 / freedom


cdef Column* compute_result(
    const CallResult* result, AggregateState* states, const DataType* type, int64_t start, int64_t n,
    MemoryAccount* account,
) except NULL nogil:
    cdef AggregateState* state = &states[result.states[0]]
    cdef Buffer* values
    cdef uint8_t* validity
    cdef int64_t i
    cdef bint done = False
    cdef Column* out = column_new_flat(type, n, True, account, &values, &validity)
    try:
        if n > 0 and result.how >= RESULT_COMOMENT:
            comoments_result(
                (<Comoments*> state.values.data) + start, result.how - RESULT_COMOMENT, n, values.data, validity
            )
        elif n > 0 and result.how >= RESULT_VAR_SAMP:
            variances((<Moments*> state.values.data) + start, result.how, n, <double*> values.data, validity)
        elif n > 0:
            if result.how == RESULT_AVG:
                averages(state, &states[result.states[1]], start, n, <double*> values.data)
            elif type.phys == PHYS_F64:
                sum_to_doubles(state, start, n, <double*> values.data)
            else:
                sum_to_wholes(state, type, start, n, values.data)
            if state.seen == NULL:
                out.validity = NULL
            else:
                for i in range(n):
                    if not (<uint8_t*> state.seen.data)[start + i]:
                        bit_clear(validity, i)
        done = True
    finally:
        if not done:
            column_unref(out)
    return out


cdef Column* result_column(
    const CallResult* result, AggregateState* states, const DataType* type, int64_t start, int64_t n,
    MemoryAccount* account,
) except NULL nogil:
    if result.how == RESULT_STATE:
        return state_column(&states[result.states[0]], 0, start, n, account)
    return compute_result(result, states, type, start, n, account)
