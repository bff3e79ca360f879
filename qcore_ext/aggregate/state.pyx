"""The state of one aggregate for all groups. It is updated by vectors of rows and read as columns."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.aggregate.bits cimport bits_update
from qcore_ext.aggregate.comoments cimport comoments_merge, comoments_out, comoments_update
from qcore_ext.aggregate.extremes cimport (
    extreme_fill, extreme_update, pick_strings, pick_update, string_update,
)
from qcore_ext.aggregate.moments cimport moments_merge, moments_update
from qcore_ext.aggregate.state_kind cimport (
    Comoments, Moments, REP_F64, REP_I64, REP_U64, REP_VIEW, REP_WIDE, STATE_BIT_AND, STATE_BIT_XOR, STATE_COMOMENTS,
    STATE_COUNT, STATE_FIRST, STATE_LAST, STATE_MAX, STATE_MIN, STATE_MOMENTS, STATE_SUM,
)
from qcore_ext.aggregate.sums cimport (
    add_counts, count_rows, sum_doubles, sum_integers, sum_narrow,
)
from qcore_ext.data.column cimport (
    STORE_DECIMAL64, VECTOR_ROWS, Column, StringView, Vector, column_constant_null, column_new_flat,
)
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_NONE, PHYS_U8, PHYS_U16,
    PHYS_U32, PHYS_U64, PHYS_VIEW, TYPE_DECIMAL, TYPE_FLOAT32, TYPE_FLOAT64, TYPE_INT64, DataType, phys_width,
)
from qcore_ext.ground.bitmap cimport bit_clear, bit_get, qc_count_bits
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Arena, Buffer, MemoryAccount, Owner, account_check, arena_new, buffer_grow, buffer_new, buffer_unref,
    bytes_fill, owner_ref, owner_unref,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.ground.wide cimport int128, wide_power_of_ten
from qcore_ext.ground.words cimport Integer

cdef enum:
    GROUPS_MIN = 64

ctypedef fused LongInteger:
    int64_t
    uint64_t


cdef int state_rep(const DataType* type) noexcept nogil:
    cdef uint8_t phys = type.phys
    if phys == PHYS_U64:
        return REP_U64
    if phys == PHYS_F32 or phys == PHYS_F64:
        return REP_F64
    if phys == PHYS_I128:
        return REP_WIDE
    if phys == PHYS_VIEW:
        return REP_VIEW
    if phys == PHYS_NONE or PHYS_BOOL <= phys <= PHYS_U32:
        return REP_I64
    return -1


cdef inline bint is_bitwise(int kind) noexcept nogil:
    return STATE_BIT_AND <= kind <= STATE_BIT_XOR


cdef int value_width(const AggregateState* state) noexcept nogil:
    if state.kind == STATE_MOMENTS:
        return sizeof(Moments)
    if state.kind == STATE_COMOMENTS:
        return sizeof(Comoments)
    if state.kind == STATE_COUNT or is_bitwise(state.kind):
        return 8
    if state.kind == STATE_SUM:
        return 16 if state.is_wide else 8
    return 16 if state.rep == REP_WIDE or state.rep == REP_VIEW else 8


cdef bint kernel_reads_seen(const AggregateState* state) noexcept nogil:
    """Whether the kernel reads `seen`."""
    if state.kind == STATE_FIRST or state.kind == STATE_LAST:
        return True
    return state.rep == REP_VIEW and (state.kind == STATE_MIN or state.kind == STATE_MAX)


cdef bint has_count(const AggregateState* state) noexcept nogil:
    """Whether the state has a count, which is 0 for a group without a value, so that `seen` is not needed."""
    return state.kind == STATE_COUNT or state.kind == STATE_MOMENTS or state.kind == STATE_COMOMENTS


cdef int state_init(AggregateState* state, MemoryAccount* account, int kind, const DataType* type) except -1 nogil:
    memset(state, 0, sizeof(AggregateState))
    state.account = account
    state.kind = <uint8_t> kind
    state.type = type[0]
    state.rep = <uint8_t> max(state_rep(type), 0)
    if state.rep == REP_VIEW and kernel_reads_seen(state):
        state.arena = arena_new(account)
    return 0


cdef void state_free(AggregateState* state) noexcept nogil:
    buffer_unref(state.values)
    buffer_unref(state.seen)
    owner_unref(<Owner*> state.arena)
    state.values = NULL
    state.seen = NULL
    state.arena = NULL


cdef int state_clear(AggregateState* state) except -1 nogil:
    cdef Arena* arena
    state.n_groups = 0
    state.magnitude = 0
    buffer_unref(state.seen)
    state.seen = NULL
    if state.arena != NULL:
        arena = arena_new(state.account)
        owner_unref(<Owner*> state.arena)
        state.arena = arena
    return 0


# --- growing ---

cdef int grow(AggregateState* state, int64_t n_groups) except -1 nogil:
    """Extend the values to n_groups groups. The new groups have no value. `seen` does not change."""
    cdef int width = value_width(state)
    cdef int64_t capacity = max(state.capacity, <int64_t> GROUPS_MIN)
    cdef int64_t start = state.n_groups
    cdef int fill
    if n_groups > state.capacity:
        while capacity < n_groups:
            capacity *= 2
        if state.values == NULL:
            state.values = buffer_new(state.account, capacity * width)
        else:
            buffer_grow(&state.values, state.n_groups * width, capacity * width)
        state.capacity = capacity
    if (state.kind == STATE_MIN or state.kind == STATE_MAX) and state.rep != REP_VIEW:
        while start < n_groups:
            extreme_fill(
                state.rep, state.kind == STATE_MAX, state.values.data, start, min(n_groups, start + CHECK_ROWS)
            )
            start += CHECK_ROWS
            if start < n_groups:
                account_check(state.account)
    else:
        fill = 0xFF if state.kind == STATE_BIT_AND else 0
        bytes_fill(state.values.data + start * width, fill, (n_groups - start) * width, state.account)
    return 0


cdef int widen_sums(AggregateState* state) except -1 nogil:
    """Change to 128-bit sums."""
    cdef Buffer* wide = buffer_new(state.account, state.capacity * <int64_t> sizeof(int128))
    cdef int64_t start = 0
    cdef bint done = False
    try:
        while start < state.n_groups:
            account_check(state.account)
            simd_kernels().widen(
                (<const int64_t*> state.values.data) + start, min(state.n_groups - start, <int64_t> CHECK_ROWS),
                (<int64_t*> wide.data) + 2 * start,
            )
            start += CHECK_ROWS
        done = True
    finally:
        if not done:
            buffer_unref(wide)
    buffer_unref(state.values)
    state.values = wide
    state.is_wide = True
    return 0


cdef int state_reserve(AggregateState* state, int64_t n_groups, bint all_take_part) except -1 nogil:
    """Extend the state for an update in which each new group has a row. `all_take_part`: all rows take part."""
    cdef bint track = state.seen != NULL or not all_take_part or kernel_reads_seen(state)
    cdef int64_t before = state.n_groups
    if n_groups > before or state.values == NULL:
        grow(state, n_groups)
    if track and not has_count(state):
        if state.seen == NULL:
            # All groups had a value so far.
            state.seen = buffer_new(state.account, state.capacity)
            bytes_fill(state.seen.data, 1, before, state.account)
        elif state.seen.size < state.capacity:
            buffer_grow(&state.seen, before, state.capacity)
        bytes_fill(state.seen.data + before, 0, n_groups - before, state.account)
    qc_check(before <= n_groups <= state.capacity, b"a state has capacity for its groups and keeps them")
    state.n_groups = n_groups
    return 0


cdef int state_extend(AggregateState* state, int64_t n_groups) except -1 nogil:
    if n_groups > state.n_groups:
        state_reserve(state, n_groups, False)
    return 0


cdef void mark_seen(uint8_t* seen, const uint32_t* groups, int64_t n, const uint8_t* mask) noexcept nogil:
    cdef int64_t i
    if groups == NULL:
        seen[0] |= (n if mask == NULL else qc_count_bits(mask, n)) > 0
    elif mask == NULL:
        for i in range(n):
            seen[groups[i]] = 1
    else:
        for i in range(n):
            seen[groups[i]] |= bit_get(mask, i)


# --- updating ---

cdef void widen_values(const Integer* values, int64_t n, int64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <int64_t> values[i]


cdef void widen_floats(const float* values, int64_t n, double* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = values[i]


cdef void state_widen(const Vector* vector, int64_t n, char* scratch, Vector* out) noexcept nogil:
    cdef uint8_t phys = vector.phys
    out[0] = vector[0]
    if phys == PHYS_I64 or phys == PHYS_U64 or phys == PHYS_F64 or phys == PHYS_I128 or phys == PHYS_VIEW:
        return
    out.values = scratch
    out.phys = PHYS_F64 if phys == PHYS_F32 else PHYS_I64
    if phys == PHYS_F32:
        widen_floats(<const float*> vector.values, n, <double*> scratch)
    elif phys == PHYS_I32:
        widen_values[int32_t](<const int32_t*> vector.values, n, <int64_t*> scratch)
    elif phys == PHYS_U32:
        widen_values[uint32_t](<const uint32_t*> vector.values, n, <int64_t*> scratch)
    elif phys == PHYS_I16:
        widen_values[int16_t](<const int16_t*> vector.values, n, <int64_t*> scratch)
    elif phys == PHYS_U16:
        widen_values[uint16_t](<const uint16_t*> vector.values, n, <int64_t*> scratch)
    elif phys == PHYS_I8:
        widen_values[int8_t](<const int8_t*> vector.values, n, <int64_t*> scratch)
    elif phys == PHYS_U8 or phys == PHYS_BOOL:
        widen_values[uint8_t](<const uint8_t*> vector.values, n, <int64_t*> scratch)
    else:
        memset(scratch, 0, n * 8)      # type null


cdef int update_sums(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask,
) except -1 nogil:
    cdef int64_t* sums = <int64_t*> state.values.data
    if not state.is_wide:
        if sum_narrow(sums, n_groups, groups, n, argument, mask, &state.magnitude):
            return 0
        widen_sums(state)
    if sum_integers(<int128*> state.values.data, n_groups, groups, n, argument, mask):
        return raise_execution(b"a sum has more than 38 digits, the most of a decimal; cast its argument to double")
    return 0


cdef int update_value(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask,
) except -1 nogil:
    """Update a state of SUM, MIN, MAX, FIRST, LAST, BIT_AND, BIT_OR or BIT_XOR."""
    cdef int128 wide[VECTOR_ROWS]
    cdef char* values = state.values.data
    cdef uint8_t* seen = <uint8_t*> state.seen.data if state.seen != NULL else NULL
    cdef const char* arguments = <const char*> argument.values
    cdef int width = value_width(state)
    if state.kind == STATE_SUM and state.rep == REP_F64:
        sum_doubles(<double*> values, n_groups, groups, n, <const double*> argument.values, mask)
    elif state.kind == STATE_SUM:
        update_sums(state, n_groups, groups, n, argument, mask)
    elif state.kind == STATE_MIN or state.kind == STATE_MAX:
        if state.rep == REP_VIEW:
            return string_update(
                1 if state.kind == STATE_MAX else -1, <StringView*> values, seen, state.arena, groups, n, argument, mask
            )
        extreme_update(state.rep, state.kind == STATE_MAX, values, groups, n, argument, mask)
    elif is_bitwise(state.kind):
        bits_update(state.kind, <uint64_t*> values, groups, n, <const uint64_t*> argument.values, mask)
    else:
        if state.rep == REP_VIEW:
            return pick_strings(
                state.kind == STATE_FIRST, <StringView*> values, seen, state.arena, groups, n, argument, mask
            )
        if state.rep == REP_WIDE and argument.phys == PHYS_I64:
            simd_kernels().widen(<const int64_t*> argument.values, n, <int64_t*> wide)
            arguments = <const char*> wide
        pick_update(state.kind == STATE_FIRST, width, values, seen, groups, n, arguments, mask)
        return 0
    if seen != NULL:
        mark_seen(seen, groups, n, mask)
    return 0


cdef inline void check_rows(const uint32_t* groups, int64_t n, int64_t n_groups) noexcept nogil:
    """In a debug build: rows with groups are at most a vector, and the group of each row is one of the groups."""
    cdef int64_t n_most = VECTOR_ROWS if groups != NULL else CHECK_ROWS
    qc_check(0 <= n <= n_most, b"a state is updated by a bounded number of rows")
    qc_check((n_groups > 0) | (n == 0), b"rows belong to groups")
    if groups != NULL:
        qc_check_rows(groups, n, n_groups, b"a row's group is one of the groups")


cdef int state_update(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask, bint is_whole,
) except -1 nogil:
    check_rows(groups, n, n_groups)
    state_reserve(state, n_groups, is_whole)
    if state.kind == STATE_COUNT:
        count_rows(<int64_t*> state.values.data, n_groups, groups, n, mask)
        return 0
    if state.kind == STATE_MOMENTS:
        moments_update(
            <Moments*> state.values.data, groups, n, argument, <double> wide_power_of_ten(state.type.scale), mask
        )
        return 0
    if state.kind == STATE_COMOMENTS:
        comoments_update(
            <Comoments*> state.values.data, groups, n, <const double*> argument[0].values,
            <const double*> argument[1].values, mask,
        )
        return 0
    return update_value(state, n_groups, groups, n, argument, mask)


cdef int state_merge(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* arguments,
    const uint8_t* mask,
) except -1 nogil:
    check_rows(groups, n, n_groups)
    state_reserve(state, n_groups, mask == NULL)
    if state.kind == STATE_COUNT:
        add_counts(<int64_t*> state.values.data, groups, n, <const int64_t*> arguments[0].values)
        return 0
    if state.kind == STATE_MOMENTS:
        moments_merge(
            <Moments*> state.values.data, groups, n, <const int64_t*> arguments[0].values,
            <const double*> arguments[1].values, <const double*> arguments[2].values,
        )
        return 0
    if state.kind == STATE_COMOMENTS:
        comoments_merge(<Comoments*> state.values.data, groups, n, arguments)
        return 0
    return update_value(state, n_groups, groups, n, arguments, mask)


# --- reading out ---

cdef int state_n_columns(int kind) noexcept nogil:
    if kind == STATE_COMOMENTS:
        return 6
    return 3 if kind == STATE_MOMENTS else 1


cdef void state_column_type(int kind, const DataType* type, int32_t column, DataType* out) noexcept nogil:
    if kind != STATE_SUM and kind != STATE_COUNT and kind != STATE_MOMENTS and kind != STATE_COMOMENTS:
        out[0] = type[0]
        return
    memset(out, 0, sizeof(DataType))
    if kind == STATE_SUM and type.id != TYPE_FLOAT32 and type.id != TYPE_FLOAT64:
        out.id = TYPE_DECIMAL
        out.phys = PHYS_I128
        out.precision = 38
        out.scale = type.scale
    elif kind == STATE_SUM or column > 0:
        out.id = TYPE_FLOAT64
        out.phys = PHYS_F64
    else:
        out.id = TYPE_INT64
        out.phys = PHYS_I64


cdef void narrow_values(const int64_t* values, int64_t n, Integer* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <Integer> values[i]


cdef void narrow_booleans(const int64_t* values, int64_t n, uint8_t* out) noexcept nogil:
    """Write 0 or 1 for each group. A group without a value has another number (extreme_fill), which is masked."""
    cdef int64_t i
    for i in range(n):
        out[i] = <uint8_t> (values[i] & 1)


cdef void narrow_doubles(const double* values, int64_t n, float* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <float> values[i]


cdef void copy_out(uint8_t phys, const char* values, int64_t n, char* out) noexcept nogil:
    """Convert values from the form of the state (8 or 16 bytes) to the column's width."""
    if phys == PHYS_F32:
        narrow_doubles(<const double*> values, n, <float*> out)
    elif phys == PHYS_BOOL:
        narrow_booleans(<const int64_t*> values, n, <uint8_t*> out)
    elif phys_width(phys) == 4:
        narrow_values[uint32_t](<const int64_t*> values, n, <uint32_t*> out)
    elif phys_width(phys) == 2:
        narrow_values[uint16_t](<const int64_t*> values, n, <uint16_t*> out)
    elif phys_width(phys) == 1:
        narrow_values[uint8_t](<const int64_t*> values, n, <uint8_t*> out)
    else:
        memcpy(out, values, n * phys_width(phys))


cdef void moments_out(const Moments* moments, int32_t column, int64_t n, char* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if column == 0:
            (<int64_t*> out)[i] = <int64_t> moments[i].count
        else:
            (<double*> out)[i] = moments[i].mean if column == 1 else moments[i].m2


cdef Column* state_column(
    AggregateState* state, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    cdef DataType type
    cdef Column* out
    cdef Buffer* values
    cdef uint8_t* validity
    cdef const uint8_t* seen
    cdef const char* source
    cdef int64_t i
    qc_check((start >= 0) & (n >= 0) & (start + n <= state.n_groups), b"states to read are those of groups")
    state_column_type(state.kind, &state.type, column, &type)
    if type.phys == PHYS_NONE:
        return column_constant_null(&type, n)
    out = column_new_flat(&type, n, state.seen != NULL, account, &values, &validity)
    source = state.values.data + start * value_width(state) if n > 0 else NULL
    if n == 0:
        return out
    if state.kind == STATE_MOMENTS:
        moments_out(<const Moments*> source, column, n, values.data)
    elif state.kind == STATE_COMOMENTS:
        comoments_out(<const Comoments*> source, column, n, values.data)
    elif state.kind == STATE_SUM and type.phys == PHYS_I128 and not state.is_wide:
        memcpy(values.data, source, n * 8)
        out.storage = STORE_DECIMAL64
    elif type.phys == PHYS_I128:
        # Most sums fit 64 bits. This halves the memory, and the reader need not look for narrow values again.
        if simd_kernels().narrow(<const int64_t*> source, n, <int64_t*> values.data) == 0:
            out.storage = STORE_DECIMAL64
        else:
            memcpy(values.data, source, n * 16)
    else:
        copy_out(type.phys, source, n, values.data)
    if state.seen != NULL:
        seen = <const uint8_t*> state.seen.data + start
        for i in range(n):
            if not seen[i]:
                bit_clear(validity, i)
    if type.phys == PHYS_VIEW:
        out.heap_owner = owner_ref(<Owner*> state.arena)
    return out
