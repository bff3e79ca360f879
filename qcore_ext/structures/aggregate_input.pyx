"""What an aggregate reads of one vector: its argument, widened, and which rows take part. Floor E3."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.aggregate_state cimport state_widen
from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS, Vector
from qcore_ext.data.schema cimport PHYS_U32, TYPE_UINT32, DataType, phys_width
from qcore_ext.ground.bitmap cimport bit_get, bit_set
from qcore_ext.ground.memory cimport MemoryAccount, buffer_new, buffer_unref
from qcore_ext.ground.simd cimport simd_kernels
from qcore_ext.structures.group_table cimport group_table_assign, group_table_free, group_table_new

ctypedef struct Wide:
    # A 16-byte value, moved but not looked into.
    uint64_t low
    uint64_t high

ctypedef fused Word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Wide

ctypedef struct Room:
    char widened[VECTOR_ROWS * 8]
    char values[VECTOR_ROWS * 16]       # distinct: of the rows that take part, gathered
    uint8_t mask[VECTOR_BITMAP_BYTES]
    uint32_t rows[VECTOR_ROWS]
    uint32_t groups[VECTOR_ROWS]
    uint32_t pairs[VECTOR_ROWS]
    uint8_t met[VECTOR_ROWS]


cdef int aggregate_input_init(
    AggregateInput* input, MemoryAccount* account, const CallInput* call, const DataType* type,
) except -1 nogil:
    cdef DataType[2] types
    memset(input, 0, sizeof(AggregateInput))
    input.call = call[0]
    input.room = buffer_new(account, sizeof(Room))
    if call.distinct:
        memset(&types[0], 0, sizeof(DataType))
        types[0].id = TYPE_UINT32
        types[0].phys = PHYS_U32
        types[1] = type[0]
        input.pairs = group_table_new(account, types, 2, NULL)
    return 0


cdef void aggregate_input_free(AggregateInput* input) noexcept nogil:
    buffer_unref(input.room)
    group_table_free(input.pairs)
    memset(input, 0, sizeof(AggregateInput))


cdef void gather(const Word* values, const uint32_t* rows, int64_t n, Word* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = values[rows[i]]


cdef void gather_vector(const Vector* vector, const uint32_t* rows, int64_t n, char* out) noexcept nogil:
    cdef int width = phys_width(vector.phys)
    if width == 8:
        gather[uint64_t](<const uint64_t*> vector.values, rows, n, <uint64_t*> out)
    elif width == 4:
        gather[uint32_t](<const uint32_t*> vector.values, rows, n, <uint32_t*> out)
    elif width == 16:
        gather[Wide](<const Wide*> vector.values, rows, n, <Wide*> out)
    elif width == 2:
        gather[uint16_t](<const uint16_t*> vector.values, rows, n, <uint16_t*> out)
    elif width == 1:
        gather[uint8_t](<const uint8_t*> vector.values, rows, n, <uint8_t*> out)


cdef int keep_first_of_pairs(
    AggregateInput* input, const Vector* vector, const uint32_t* groups, int64_t n,
) except -1 nogil:
    """Narrow the mask to rows whose (group, value) was not met before."""
    cdef Room* room = <Room*> input.room.data
    cdef Vector[2] keys
    cdef int64_t before = input.pairs.n_groups
    cdef int64_t count = 0
    cdef int64_t i, fresh
    for i in range(n):
        if input.mask == NULL or bit_get(input.mask, i):
            room.rows[count] = <uint32_t> i
            room.groups[count] = groups[i] if groups != NULL else 0
            count += 1
    gather_vector(vector, room.rows, count, room.values)
    keys[0].phys = PHYS_U32
    keys[0].values = room.groups
    keys[0].validity = NULL
    keys[1].phys = vector.phys
    keys[1].values = room.values
    keys[1].validity = NULL
    group_table_assign(input.pairs, keys, count, room.pairs)
    memset(room.mask, 0, VECTOR_BITMAP_BYTES)
    memset(room.met, 0, count)
    for i in range(count):
        fresh = <int64_t> room.pairs[i] - before
        if fresh >= 0 and not room.met[fresh]:
            room.met[fresh] = 1
            bit_set(room.mask, room.rows[i])
    input.mask = room.mask
    return 0


cdef void restrict(AggregateInput* input, const uint8_t* bits, bint inverted, int64_t n) noexcept nogil:
    """And `bits`, or their opposite, into the mask."""
    cdef Room* room = <Room*> input.room.data
    cdef uint64_t* mask = <uint64_t*> room.mask
    cdef uint64_t word
    cdef int64_t i
    cdef int64_t n_bytes = (n + 7) >> 3
    if input.mask == NULL:
        memset(room.mask, 0xFF, VECTOR_BITMAP_BYTES)
    for i in range(n_bytes >> 3):
        memcpy(&word, bits + 8 * i, 8)
        mask[i] &= ~word if inverted else word
    for i in range(n_bytes & ~7, n_bytes):
        room.mask[i] &= ~bits[i] if inverted else bits[i]
    input.mask = room.mask


cdef int aggregate_input_load(
    AggregateInput* input, const Vector* loaded, const uint32_t* groups, int64_t n,
) except -1 nogil:
    cdef Room* room = <Room*> input.room.data
    cdef const Vector* vector = NULL
    cdef const Vector* filter
    input.mask = NULL
    input.nothing = False
    if input.call.filter >= 0:
        filter = &loaded[input.call.filter]
        simd_kernels().mask_to_bits(<const uint8_t*> filter.values, n, room.mask)
        input.mask = room.mask
        if filter.validity != NULL:
            restrict(input, filter.validity, False, n)
    if input.call.argument < 0:
        return 0
    vector = &loaded[input.call.argument]
    if input.call.nulls and vector.validity == NULL:
        input.nothing = True
        return 0
    if vector.validity != NULL:
        restrict(input, vector.validity, input.call.nulls, n)
    if input.call.distinct:
        keep_first_of_pairs(input, vector, groups, n)
    state_widen(vector, n, room.widened, &input.vector)
    return 0
