"""The output columns of a sort: flat columns that the drivers fill part by part, from sorted items."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.column cimport column_constant_null, column_new, column_ref, column_unref
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_NONE, PHYS_U8, PHYS_U16, PHYS_U32, PHYS_U64,
    PHYS_VIEW, TYPE_NESTED, CSchema, DataType, phys_width,
)
from qcore_ext.ground.atomic cimport qc_add
from qcore_ext.ground.bitmap cimport bit_get, bitmap_bytes
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, Owner, OwnerList, account_check, buffer_new, buffer_new_zeroed, buffer_unref, owner_list_add,
    owner_list_new, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.wide cimport int128
from qcore_ext.ground.words cimport Word, Word128
from qcore_ext.rows.column_store cimport ColumnStore, StoreColumn
from qcore_ext.rows.nested_rows cimport nested_concat
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.radix cimport SortEntry, SortItem

cdef extern from "native/huge_pages.h" nogil:
    void qc_advise_huge_pages(void* start, int64_t n_bytes)

cdef enum:
    PIECE_ROWS = 4096           # filled at a time, column by column: the items stay in the first-level cache

ctypedef fused Code:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    int128


cdef inline uint64_t prefix_of(const SortItem* items, int64_t i) noexcept nogil:
    if SortItem is uint64_t:
        return items[i]
    else:
        return items[i].prefix


cdef bint has_values_in_codes(uint8_t phys) noexcept nogil:
    """Whether every code is of one value. NaN and zero have several forms, and strings do not lie in their codes."""
    return (
        phys == PHYS_I64 or phys == PHYS_I32 or phys == PHYS_I16 or phys == PHYS_I8 or phys == PHYS_U64
        or phys == PHYS_U32 or phys == PHYS_U16 or phys == PHYS_U8 or phys == PHYS_BOOL or phys == PHYS_I128
    )


cdef int sorted_columns_init(
    SortedColumns* self, ColumnStore** stores, const int64_t* firsts, int64_t n_stores, CSchema* schema,
    const SortKey* keys, int32_t n_whole, int64_t n_rows, MemoryAccount* account,
) except -1 nogil:
    cdef SortedColumn* column
    cdef const DataType* type
    cdef bint has_nested = False
    cdef int32_t i, k
    self.n_columns = schema.n_fields
    self.in_place = -1
    self.columns = <SortedColumn*> struct_new(max(schema.n_fields, 1) * sizeof(SortedColumn))
    for i in range(self.n_columns):
        column = &self.columns[i]
        type = &schema.fields[i].type
        column.phys = type.phys
        column.width = phys_width(type.phys)
        column.source = FROM_ROWS
        if type.id == TYPE_NESTED:
            column.source = FROM_NESTED
            has_nested = True
        elif type.phys == PHYS_NONE:
            column.source = FROM_NOTHING
            column.column = column_constant_null(type, n_rows)
        else:
            for k in range(n_whole):
                if keys[k].column == i and has_values_in_codes(type.phys) and keys[k].has_values:
                    column.source = FROM_PREFIX
                    column.key = keys[k]
                    break
            new_column(column, type, stores, i, n_stores, n_rows, account)
            if column.source == FROM_ROWS:
                find_values(column, stores, firsts, i, n_stores, account)
        self.has_rows = self.has_rows or column.source == FROM_ROWS or column.source == FROM_NESTED
    if has_nested:
        take_nested(self, stores, firsts, n_stores, n_rows, account)
    return 0


cdef Buffer* sorted_columns_share_words(SortedColumns* self) noexcept nogil:
    cdef int32_t i
    for i in range(self.n_columns):
        if self.columns[i].source == FROM_PREFIX and self.columns[i].width == sizeof(uint64_t):
            self.in_place = i
            return <Buffer*> owner_ref(self.columns[i].column.values_owner)
    return NULL


cdef int new_column(
    SortedColumn* column, const DataType* type, ColumnStore** stores, int32_t i, int64_t n_stores, int64_t n_rows,
    MemoryAccount* account,
) except -1 nogil:
    """Allocate the values, and zeroed validity if there are nulls."""
    cdef OwnerList* heaps
    cdef bint has_nulls = False
    cdef int64_t s
    for s in range(n_stores):
        has_nulls = has_nulls or stores[s].columns[i].validity != NULL
    column.column = column_new(type, n_rows)
    column.column.values_owner = <Owner*> buffer_new(account, n_rows * column.width)
    column.values = (<Buffer*> column.column.values_owner).data
    column.column.values = column.values
    qc_advise_huge_pages(column.values, n_rows * column.width)
    if has_nulls:
        column.column.validity_owner = <Owner*> buffer_new_zeroed(account, bitmap_bytes(n_rows))
        column.validity = <uint64_t*> (<Buffer*> column.column.validity_owner).data
        column.column.validity = <const uint8_t*> column.validity
    if column.phys == PHYS_VIEW:
        heaps = owner_list_new()
        column.column.heap_owner = <Owner*> heaps
        for s in range(n_stores):
            owner_list_add(heaps, <Owner*> stores[s].columns[i].heaps)
    return 0


cdef int64_t count_chunks(ColumnStore** stores, const int64_t* firsts, int64_t n_stores) noexcept nogil:
    return (firsts[n_stores - 1] + stores[n_stores - 1].n_rows + CHUNK_ROWS - 1) >> CHUNK_SHIFT


cdef int find_values(
    SortedColumn* column, ColumnStore** stores, const int64_t* firsts, int32_t i, int64_t n_stores,
    MemoryAccount* account,
) except -1 nogil:
    cdef int64_t n_chunks = count_chunks(stores, firsts, n_stores)
    cdef const StoreColumn* stored
    cdef const char** bases
    cdef const uint8_t** bits = NULL
    cdef int64_t s, chunk, end
    column.bases = buffer_new(account, n_chunks * sizeof(void*))
    bases = <const char**> column.bases.data
    if column.validity != NULL:
        column.bits = buffer_new(account, n_chunks * sizeof(void*))
        bits = <const uint8_t**> column.bits.data
    for s in range(n_stores):
        stored = &stores[s].columns[i]
        end = firsts[s + 1] if s + 1 < n_stores else n_chunks << CHUNK_SHIFT
        for chunk in range(firsts[s] >> CHUNK_SHIFT, end >> CHUNK_SHIFT):
            bases[chunk] = stored.values.data - firsts[s] * column.width if stored.values != NULL else NULL
            if bits != NULL:
                bits[chunk] = NULL
                if stored.validity != NULL:
                    bits[chunk] = <const uint8_t*> stored.validity.data + (((chunk << CHUNK_SHIFT) - firsts[s]) >> 3)
    return 0


cdef int take_nested(
    SortedColumns* self, ColumnStore** stores, const int64_t* firsts, int64_t n_stores, int64_t n_rows,
    MemoryAccount* account,
) except -1 nogil:
    cdef OwnerList* parts = owner_list_new()
    cdef Batch* nested = NULL
    cdef int64_t position = 0
    cdef int64_t s, kept, chunk, end
    cdef int32_t n_nested = 0
    cdef int32_t i
    try:
        for s in range(n_stores):
            if stores[s].nested != NULL:
                for kept in range(stores[s].nested.n_items):
                    owner_list_add(parts, stores[s].nested.items[kept])
        nested = nested_concat(parts, account)
        for i in range(self.n_columns):
            if self.columns[i].source == FROM_NESTED:
                self.columns[i].column = column_ref(nested.columns[n_nested])
                n_nested += 1
    finally:
        owner_unref(<Owner*> parts)
        batch_unref(nested)
    self.positions = buffer_new(account, n_rows * sizeof(uint32_t))
    self.moves = <int64_t*> struct_new((count_chunks(stores, firsts, n_stores) + 1) * sizeof(int64_t))
    for s in range(n_stores):
        end = firsts[s + 1] if s + 1 < n_stores else count_chunks(stores, firsts, n_stores) << CHUNK_SHIFT
        for chunk in range(firsts[s] >> CHUNK_SHIFT, end >> CHUNK_SHIFT):
            self.moves[chunk] = firsts[s] - position
        position += stores[s].n_rows
    return 0


# --- filling ---

cdef void decode(const SortedColumn* column, const SortItem* items, int64_t n, Code* out) noexcept nogil:
    """Values from prefixes. The code of a signed number is the number plus half of the range of its type."""
    cdef int shift = column.key.shift & 63      # 64 only if the mask is zero
    cdef uint64_t mask = 0xFFFFFFFFFFFFFFFFULL if column.key.bits == 64 else ((<uint64_t> 1) << column.key.bits) - 1
    cdef uint64_t low = column.key.low
    cdef uint64_t high = column.key.high
    cdef uint64_t half = 0
    cdef int64_t i
    if column.phys == PHYS_I64 or column.phys == PHYS_I128:
        half = 0x8000000000000000ULL
    elif column.phys == PHYS_I32:
        half = 0x80000000ULL
    elif column.phys == PHYS_I16:
        half = 0x8000ULL
    elif column.phys == PHYS_I8:
        half = 0x80ULL
    if column.key.descending:
        high -= half
        for i in range(n):
            if Code is int128:
                out[i] = <int64_t> (high - ((prefix_of(items, i) >> shift) & mask))
            else:
                out[i] = <Code> (high - ((prefix_of(items, i) >> shift) & mask))
    else:
        low -= half
        for i in range(n):
            if Code is int128:
                out[i] = <int64_t> (low + ((prefix_of(items, i) >> shift) & mask))
            else:
                out[i] = <Code> (low + ((prefix_of(items, i) >> shift) & mask))


cdef void fill_decoded(SortedColumn* column, const SortItem* items, int64_t at, int64_t n) noexcept nogil:
    if column.width == 8:
        decode(column, items, n, <uint64_t*> column.values + at)
    elif column.width == 4:
        decode(column, items, n, <uint32_t*> column.values + at)
    elif column.width == 2:
        decode(column, items, n, <uint16_t*> column.values + at)
    elif column.width == 1:
        decode(column, items, n, <uint8_t*> column.values + at)
    else:
        decode(column, items, n, <int128*> column.values + at)


cdef void gather(
    const char** bases, int64_t n_chunks, const SortEntry* items, int64_t n, Word* out,
) noexcept nogil:
    cdef uint32_t row
    cdef int64_t i
    for i in range(n):
        row = items[i].row
        qc_check(row >> CHUNK_SHIFT < n_chunks, b"an item's row is in one of the chunks")
        qc_check(bases[row >> CHUNK_SHIFT] != NULL, b"the chunk of an item's row has values")
        out[i] = (<const Word*> bases[row >> CHUNK_SHIFT])[row]


cdef void fill_gathered(SortedColumn* column, const SortEntry* items, int64_t at, int64_t n) noexcept nogil:
    cdef const char** bases = <const char**> column.bases.data
    cdef int64_t n_chunks = column.bases.size / <int64_t> sizeof(void*)
    if column.width == 8:
        gather(bases, n_chunks, items, n, <uint64_t*> column.values + at)
    elif column.width == 4:
        gather(bases, n_chunks, items, n, <uint32_t*> column.values + at)
    elif column.width == 16:
        gather(bases, n_chunks, items, n, <Word128*> column.values + at)
    elif column.width == 2:
        gather(bases, n_chunks, items, n, <uint16_t*> column.values + at)
    elif column.width == 1:
        gather(bases, n_chunks, items, n, <uint8_t*> column.values + at)


cdef bint row_is_valid(const SortedColumn* column, const SortItem* items, int64_t i) noexcept nogil:
    cdef const uint8_t* bits
    cdef uint32_t row
    if column.source == FROM_PREFIX:
        if not column.key.nullable:
            return True
        return ((prefix_of(items, i) >> (column.key.shift + column.key.bits)) & 1) == <uint64_t> column.key.nulls_first
    if SortItem is uint64_t:
        return True                 # words have no rows to gather from
    else:
        row = items[i].row
        bits = (<const uint8_t**> column.bits.data)[row >> CHUNK_SHIFT]
        return bits == NULL or bit_get(bits, row & (CHUNK_ROWS - 1))


cdef void fill_validity(SortedColumn* column, const SortItem* items, int64_t at, int64_t n) noexcept nogil:
    cdef uint64_t word = 0
    cdef int64_t first = at
    cdef int64_t i
    for i in range(n):
        word |= (<uint64_t> row_is_valid(column, items, i)) << ((at + i) & 63)
        if ((at + i) & 63) == 63 or i == n - 1:
            if first & 63 == 0 and ((at + i) & 63) == 63:
                column.validity[(at + i) >> 6] = word
            else:
                # Another thread may fill the other bits of this word. No bit is set twice, so the sum is their union.
                qc_add(<int64_t*> &column.validity[(at + i) >> 6], <int64_t> word)
            word = 0
            first = at + i + 1


cdef void fill_positions(SortedColumns* self, const SortEntry* items, int64_t at, int64_t n) noexcept nogil:
    cdef uint32_t* positions = <uint32_t*> self.positions.data + at
    cdef int64_t i
    for i in range(n):
        positions[i] = <uint32_t> (items[i].row - self.moves[items[i].row >> CHUNK_SHIFT])


cdef int fill(
    SortedColumns* self, const SortItem* items, int64_t at, int64_t n, const MemoryAccount* account,
) except -1 nogil:
    cdef SortedColumn* column
    cdef int64_t m
    cdef int64_t start = 0
    cdef int32_t i
    for i in range(self.n_columns):
        qc_check((at >= 0) & (at + n <= self.columns[i].column.n_rows), b"the rows to fill are rows of the column")
    while start < n:
        m = min(n - start, <int64_t> PIECE_ROWS)
        if start % (16 * PIECE_ROWS) == 0:
            account_check(account)
        for i in range(self.n_columns):
            column = &self.columns[i]
            if column.validity != NULL:
                fill_validity(column, items + start, at + start, m)
            if column.source == FROM_PREFIX and i != self.in_place:
                fill_decoded(column, items + start, at + start, m)
            elif column.source == FROM_ROWS:
                if SortItem is SortEntry:
                    fill_gathered(column, items + start, at + start, m)
        if self.in_place >= 0:
            # Last, as it overwrites the items.
            fill_decoded(&self.columns[self.in_place], items + start, at + start, m)
        if self.positions != NULL:
            if SortItem is SortEntry:
                fill_positions(self, items + start, at + start, m)
        start += m
    return 0


cdef int sorted_columns_fill_entries(
    SortedColumns* self, const SortEntry* items, int64_t at, int64_t n, const MemoryAccount* account,
) except -1 nogil:
    return fill[SortEntry](self, items, at, n, account)


cdef int sorted_columns_fill_words(
    SortedColumns* self, const uint64_t* items, int64_t at, int64_t n, const MemoryAccount* account,
) except -1 nogil:
    qc_check(not self.has_rows, b"words are sorted only if all columns are in them")
    return fill[uint64_t](self, items, at, n, account)


cdef void sorted_columns_seal(SortedColumns* self) noexcept nogil:
    cdef int32_t i
    for i in range(self.n_columns):
        buffer_unref(self.columns[i].bases)
        buffer_unref(self.columns[i].bits)
        self.columns[i].bases = NULL
        self.columns[i].bits = NULL
    struct_free(self.moves)
    self.moves = NULL


cdef void sorted_columns_free(SortedColumns* self) noexcept nogil:
    cdef int32_t i
    sorted_columns_seal(self)
    for i in range(self.n_columns):
        column_unref(self.columns[i].column)
    buffer_unref(self.positions)
    struct_free(self.columns)
    self.columns = NULL
    self.positions = NULL
    self.n_columns = 0
