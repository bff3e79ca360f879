"""The input of aggregates: the arguments of one vector of rows, widened, and the mask of the rows that take part."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.aggregate.calls cimport ARGUMENTS_MAX
from qcore_ext.aggregate.state cimport state_widen
from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS, Vector
from qcore_ext.data.schema cimport PHYS_U32, TYPE_UINT32, DataType, phys_width
from qcore_ext.data.take cimport gather_validity, gather_width
from qcore_ext.ground.bitmap cimport bit_set, qc_count_bits, qc_set_rows
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport MemoryAccount, buffer_new, buffer_unref, struct_free
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.grouping cimport GROUPING_FEW
from qcore_ext.aggregate.group_table cimport group_table_assign, group_table_free, group_table_new

cdef enum:
    # If at most one row in so many takes part, their arguments are gathered, and states see no other row. With a mask a
    # sum passes over all rows up to four times.
    GATHERED_SHARE = 4
    GATHERED_ROWS = 512         # VECTOR_ROWS / GATHERED_SHARE

ctypedef struct Gathered:
    # For distinct calls: an argument of the rows that take part.
    char values[VECTOR_ROWS * 16]
    uint8_t validity[VECTOR_BITMAP_BYTES]

ctypedef struct CallScratch:
    char widened[2][16384]              # VECTOR_ROWS numbers of eight bytes
    uint8_t mask[VECTOR_BITMAP_BYTES]
    uint32_t rows[VECTOR_ROWS]
    uint32_t groups[VECTOR_ROWS]
    char arguments[2][8192]             # GATHERED_ROWS values of sixteen bytes
    uint32_t pairs[VECTOR_ROWS]
    uint8_t met[VECTOR_ROWS]            # whether a row with this new pair was seen
    Gathered gathered[1]                # n_compared


cdef int aggregate_input_init(
    AggregateInput* input, MemoryAccount* account, const CallInput* call, const DataType* types,
) except -1 nogil:
    cdef DataType[ARGUMENTS_MAX + 1] compared
    cdef int32_t k
    memset(input, 0, sizeof(AggregateInput))
    input.call = call[0]
    if call.distinct:
        input.n_compared = max(call.n_required, <int32_t> 1)
    input.scratch = buffer_new(account, sizeof(CallScratch) + input.n_compared * sizeof(Gathered))
    if call.distinct:
        memset(&compared[0], 0, sizeof(DataType))
        compared[0].id = TYPE_UINT32
        compared[0].phys = PHYS_U32
        for k in range(input.n_compared):
            compared[k + 1] = types[call.arguments[k]]
        input.pairs = group_table_new(account, compared, input.n_compared + 1, NULL)
    return 0


cdef void aggregate_input_free(AggregateInput* input) noexcept nogil:
    buffer_unref(input.scratch)
    group_table_free(input.pairs)
    memset(input, 0, sizeof(AggregateInput))


cdef void aggregate_inputs_free(AggregateInput* inputs, int32_t n_inputs) noexcept nogil:
    cdef int32_t i
    if inputs != NULL:
        for i in range(n_inputs):
            aggregate_input_free(&inputs[i])
    struct_free(inputs)


cdef int64_t list_taken(
    CallScratch* scratch, const uint8_t* mask, const uint32_t* groups, int64_t n,
) noexcept nogil:
    """List the rows that take part, and their groups. Returns how many."""
    cdef int64_t count = qc_set_rows(mask, n, scratch.rows)
    cdef int64_t i
    for i in range(count):
        scratch.groups[i] = groups[scratch.rows[i]] if groups != NULL else 0
    return count


cdef int keep_first_of_pairs(
    AggregateInput* input, const Vector* loaded, const uint32_t* groups, int64_t n,
) except -1 nogil:
    """Restrict the mask to the first row of each pair (group, values) that was not seen before."""
    cdef CallScratch* scratch = <CallScratch*> input.scratch.data
    cdef Vector[ARGUMENTS_MAX + 1] keys
    cdef const Vector* vector
    cdef int64_t before = input.pairs.n_groups
    cdef int64_t count = list_taken(scratch, input.mask, groups, n)
    cdef int64_t i, fresh
    cdef int32_t k
    keys[0].phys = PHYS_U32
    keys[0].values = scratch.groups
    keys[0].validity = NULL
    for k in range(input.n_compared):
        vector = &loaded[input.call.arguments[k]]
        gather_width(vector.values, n, phys_width(vector.phys), scratch.rows, count, scratch.gathered[k].values)
        keys[k + 1].phys = vector.phys
        keys[k + 1].values = scratch.gathered[k].values
        keys[k + 1].validity = NULL
        if vector.validity != NULL:
            gather_validity(vector.validity, n, scratch.rows, count, scratch.gathered[k].validity)
            keys[k + 1].validity = scratch.gathered[k].validity
    group_table_assign(input.pairs, keys, NULL, count, scratch.pairs)
    memset(scratch.mask, 0, VECTOR_BITMAP_BYTES)
    memset(scratch.met, 0, count)
    for i in range(count):
        fresh = <int64_t> scratch.pairs[i] - before
        qc_check(fresh < count, b"a vector adds at most one pair a row")
        if fresh >= 0 and not scratch.met[fresh]:
            scratch.met[fresh] = 1
            bit_set(scratch.mask, scratch.rows[i])
    input.mask = scratch.mask
    return 0


cdef void restrict(AggregateInput* input, const uint8_t* bits, bint inverted, int64_t n) noexcept nogil:
    """Clear the mask's bits where `bits` is 0, or where it is 1 if `inverted`."""
    cdef CallScratch* scratch = <CallScratch*> input.scratch.data
    cdef uint64_t* mask = <uint64_t*> scratch.mask
    cdef uint64_t word
    cdef int64_t i
    cdef int64_t n_bytes = (n + 7) >> 3
    if input.mask == NULL:
        memset(scratch.mask, 0xFF, VECTOR_BITMAP_BYTES)
    elif input.mask != scratch.mask:
        memcpy(scratch.mask, input.mask, n_bytes)
    for i in range(n_bytes >> 3):
        memcpy(&word, bits + 8 * i, 8)
        mask[i] &= ~word if inverted else word
    for i in range(n_bytes & ~7, n_bytes):
        scratch.mask[i] &= ~bits[i] if inverted else bits[i]
    input.mask = scratch.mask


cdef void gather_few(AggregateInput* input) noexcept nogil:
    """If few rows take part, gather their arguments and groups."""
    cdef CallScratch* scratch = <CallScratch*> input.scratch.data
    cdef Vector* vector
    cdef int64_t count = qc_count_bits(input.mask, input.n)
    cdef int32_t k
    if count * GATHERED_SHARE > input.n:
        return
    qc_check(count <= GATHERED_ROWS, b"gathered arguments have space")
    list_taken(scratch, input.mask, input.groups, input.n)
    for k in range(min(input.call.n_arguments, <int32_t> 2)):
        vector = &input.vectors[k]
        gather_width(vector.values, input.n, phys_width(vector.phys), scratch.rows, count, scratch.arguments[k])
        vector.values = scratch.arguments[k]
        vector.validity = NULL
    input.groups = scratch.groups
    input.n = count
    input.mask = NULL
    input.nothing = input.nothing or count == 0


cdef int load_arguments(
    AggregateInput* input, const Vector* loaded, const uint32_t* groups, int64_t n, const uint8_t* bits,
) except -1 nogil:
    cdef CallScratch* scratch = <CallScratch*> input.scratch.data
    cdef const Vector* vector = NULL
    cdef const Vector* filter
    cdef int32_t k
    input.mask = bits
    input.nothing = False
    input.whole = True
    if input.call.filter >= 0:
        filter = &loaded[input.call.filter]
        simd_kernels().mask_to_bits(<const uint8_t*> filter.values, n, scratch.mask)
        input.mask = scratch.mask
        if filter.validity != NULL:
            restrict(input, filter.validity, False, n)
        if bits != NULL:
            restrict(input, bits, False, n)
        input.whole = False
    if input.call.argument < 0:
        return 0
    vector = &loaded[input.call.argument]
    if input.call.nulls and vector.validity == NULL:
        input.nothing = True
        return 0
    for k in range(input.call.n_required):
        vector = &loaded[input.call.arguments[k]]
        if vector.validity != NULL:
            restrict(input, vector.validity, input.call.nulls, n)
            input.whole = False
    if input.call.distinct:
        keep_first_of_pairs(input, loaded, groups, n)
        input.whole = False
    for k in range(min(input.call.n_arguments, <int32_t> 2)):
        state_widen(&loaded[input.call.arguments[k]], n, scratch.widened[k], &input.vectors[k])
    return 0


cdef int aggregate_input_load(
    AggregateInput* input, const Vector* loaded, const uint32_t* groups, int64_t n_groups, int64_t n,
    const uint8_t* bits,
) except -1 nogil:
    load_arguments(input, loaded, groups, n, bits)
    input.groups = groups
    input.n = n
    input.taken = input.mask
    # With few groups the kernels take masks. An argument that may be null has a validity, which is not gathered.
    if input.mask != NULL and n_groups > GROUPING_FEW and input.call.n_required == input.call.n_arguments:
        gather_few(input)
    return 0
