"""One column of a batch: borrowed or owned values in the layout in which they were imported."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from qcore_ext.data.schema cimport PHYS_NONE, PHYS_VIEW, DataType, phys_width
from qcore_ext.ground.atomic cimport qc_load, qc_store
from qcore_ext.ground.bitmap cimport bit_clear, bit_get, bitmap_bytes, is_valid, qc_gather_bits
from qcore_ext.ground.check cimport qc_check, qc_check_indices
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, Owner, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)

cdef enum:
    COUNTED_ROWS_MAX = 1048576  # up to this many views are all counted, which takes a millisecond
    SAMPLED_ROWS = 512          # rows read for a size that is only shown: one cache line each


cdef void column_free(Owner* self) noexcept nogil:
    cdef Column* column = <Column*> self
    owner_unref(<Owner*> column.base)
    owner_unref(column.values_owner)
    owner_unref(column.validity_owner)
    owner_unref(column.indices_owner)
    owner_unref(column.heap_owner)
    owner_unref(column.check)
    struct_free(column)


cdef Column* column_new(const DataType* type, int64_t n_rows) except NULL nogil:
    cdef Column* column = <Column*> struct_new(sizeof(Column))
    column.owner.references = 1
    column.owner.release = column_free
    column.type = type[0]
    column.n_rows = n_rows
    return column


cdef Column* column_new_flat(
    const DataType* type, int64_t n_rows, bint nullable, MemoryAccount* account,
    Buffer** values, uint8_t** validity,
) except NULL nogil:
    cdef Column* column = column_new(type, n_rows)
    cdef Buffer* bits
    cdef bint done = False
    validity[0] = NULL
    try:
        values[0] = buffer_new(account, n_rows * phys_width(type.phys))
        column.values_owner = <Owner*> values[0]
        column.values = values[0].data
        if nullable:
            bits = buffer_new(account, bitmap_bytes(n_rows))
            memset(bits.data, 0xFF, bitmap_bytes(n_rows))
            column.validity_owner = <Owner*> bits
            column.validity = <uint8_t*> bits.data
            validity[0] = <uint8_t*> bits.data
        done = True
    finally:
        if not done:
            column_unref(column)
    return column


cdef Column* column_constant_null(const DataType* type, int64_t n_rows) except NULL nogil:
    # 16 zero bytes are a value of any type, and one zero byte is its validity.
    cdef Column* column = column_new(type, n_rows)
    column.encoding = CONSTANT
    column.values = NULL_VALUE
    column.validity = <const uint8_t*> NULL_VALUE
    return column

cdef char[32] NULL_VALUE
memset(NULL_VALUE, 0, 32)


cdef bint some_no_row(const uint32_t* indices, int64_t n) noexcept nogil:
    cdef uint32_t found = 0
    cdef int64_t i
    for i in range(n):
        found |= indices[i] == <uint32_t> NO_ROW
    return found != 0


cdef Buffer* compose_indices(
    const uint32_t* outer,      # IN, n positions in `inner`
    int64_t n,
    const uint32_t* inner,      # IN
    MemoryAccount* account,
) except NULL nogil:
    cdef Buffer* buffer = buffer_new(account, n * 4)
    cdef uint32_t* out = <uint32_t*> buffer.data
    cdef int64_t i
    for i in range(n):
        out[i] = inner[outer[i]] if outer[i] != <uint32_t> NO_ROW else <uint32_t> NO_ROW
    return buffer


cdef Column* take_with(
    Column* column, Column* base, const uint32_t* indices, int64_t n, Owner* indices_owner,
    const uint32_t* rows,       # IN, positions in `column`, by which its validity is gathered; or NULL
    bint missing,               # some indices are NO_ROW
    MemoryAccount* account,
) except NULL nogil:
    """A DICTIONARY over base. A row is null if its index is NO_ROW or column.validity says so."""
    cdef Column* out
    cdef Buffer* bits
    cdef Buffer* clean
    cdef uint32_t* clean_indices
    cdef uint8_t* validity
    cdef int64_t i
    cdef bint own_nulls = rows != NULL and column.encoding == DICTIONARY and column.validity != NULL
    cdef bint done = False
    if n > 0 and base.n_rows == 0:
        return column_constant_null(&column.type, n)
    out = column_new(&column.type, n)
    try:
        out.encoding = DICTIONARY
        out.base = column_ref(base)
        out.indices = indices
        out.indices_owner = owner_ref(indices_owner)
        if missing or own_nulls:
            bits = buffer_new(account, bitmap_bytes(n))
            out.validity_owner = <Owner*> bits
            validity = <uint8_t*> bits.data
            out.validity = validity
            memset(validity, 0xFF, bitmap_bytes(n))
            if own_nulls and not missing:
                qc_gather_bits(column.validity, rows, n, validity)
            elif own_nulls:
                for i in range(n):
                    if rows[i] != <uint32_t> NO_ROW and not bit_get(column.validity, rows[i]):
                        bit_clear(validity, i)
        if missing:
            clean = buffer_new(account, n * 4)
            clean_indices = <uint32_t*> clean.data
            owner_unref(out.indices_owner)
            out.indices_owner = <Owner*> clean
            out.indices = clean_indices
            for i in range(n):
                if indices[i] == <uint32_t> NO_ROW:
                    clean_indices[i] = 0
                    bit_clear(validity, i)
                else:
                    clean_indices[i] = indices[i]
        done = True
    finally:
        if not done:
            column_unref(out)
    return out


cdef Column* column_take(
    Column* column, const uint32_t* indices, int64_t n, Owner* indices_owner, MemoryAccount* account,
) except NULL nogil:
    cdef Column* out
    columns_take(&column, 1, indices, n, indices_owner, account, &out)
    return out


cdef int columns_take(
    Column** columns, int64_t n_columns, const uint32_t* indices, int64_t n, Owner* indices_owner,
    MemoryAccount* account,
    Column** out,
) except -1 nogil:
    cdef int64_t i, j
    cdef int64_t made = 0
    cdef Column* column
    cdef Buffer* composed = NULL
    cdef const uint32_t* composed_of = NULL
    cdef bint missing = n_columns > 0 and some_no_row(indices, n)
    cdef bint done = False
    try:
        for i in range(n_columns):
            column = columns[i]
            qc_check_indices(indices, n, column.n_rows, b"rows to take are rows of the column")
            if column.encoding == DICTIONARY:
                # Columns from one filter or join are next to each other, so remembering the last index vector is enough
                # to keep them sharing it.
                if column.indices != composed_of:
                    for j in range(i):
                        if columns[j].encoding == DICTIONARY and columns[j].indices == column.indices and (
                            out[j].encoding == DICTIONARY and columns[j].validity == NULL and column.validity == NULL
                        ):
                            break
                    else:
                        j = -1
                    buffer_unref(composed)
                    composed = NULL
                    composed_of = NULL
                    if j >= 0:
                        out[i] = column_new(&column.type, n)
                        made = i + 1
                        out[i].encoding = DICTIONARY
                        out[i].base = column_ref(column.base)
                        out[i].indices = out[j].indices
                        out[i].indices_owner = owner_ref(out[j].indices_owner)
                        out[i].validity = out[j].validity
                        out[i].validity_owner = owner_ref(out[j].validity_owner)
                        continue
                    composed = compose_indices(indices, n, column.indices, account)
                    composed_of = column.indices
                out[i] = take_with(
                    column, column.base, <uint32_t*> composed.data, n, <Owner*> composed, indices, missing, account
                )
            else:
                out[i] = take_with(column, column, indices, n, indices_owner, NULL, missing, account)
            made = i + 1
        done = True
    finally:
        buffer_unref(composed)
        if not done:
            for i in range(made):
                column_unref(out[i])
    return 0


cdef Column* column_slice(Column* column, int64_t start, int64_t n) except NULL nogil:
    qc_check(start >= 0 and start % 8 == 0, b"a slice starts at a byte of the bitmap")
    qc_check(n >= 0 and start + n <= column.n_rows, b"a slice lies in its column")
    cdef Column* out = column_new(&column.type, n)
    out.encoding = column.encoding
    out.storage = column.storage
    out.lent = column.lent
    out.width = column.width
    out.values = column.values
    out.bytes = column.bytes
    out.view_buffers = column.view_buffers
    out.offset = column.offset
    out.validity = column.validity
    if column.encoding != CONSTANT:
        if column.encoding == FLAT:
            out.offset += start
        if column.validity != NULL:
            out.validity = column.validity + (start >> 3)
    if column.indices != NULL:
        out.indices = column.indices + start
    out.base = <Column*> owner_ref(<Owner*> column.base)
    out.values_owner = owner_ref(column.values_owner)
    out.validity_owner = owner_ref(column.validity_owner)
    out.indices_owner = owner_ref(column.indices_owner)
    out.heap_owner = owner_ref(column.heap_owner)
    out.check = owner_ref(column.check)
    if column.storage == STORE_NESTED and column.n_rows > 0:
        out.n_bytes = <int64_t> (<double> column.n_bytes * n / column.n_rows)
    return out


cdef int64_t viewed_bytes(const Column* column, int64_t rows_max) noexcept nogil:
    """Bytes of the long strings of a view column. Of more than rows_max rows only a sample is read."""
    cdef const uint32_t* lengths        # the first word of a view, in Arrow's format and in ours
    cdef int64_t total = 0
    cdef int64_t n_seen = 0
    cdef int64_t step = column.n_rows // rows_max + 1
    cdef int64_t i = 0
    lengths = <const uint32_t*> column.values + 4 * column.offset
    while i < column.n_rows:
        if lengths[4 * i] > VIEW_INLINE_BYTES and is_valid(column.validity, i):
            total += lengths[4 * i]
        n_seen += 1
        i += step
    return total if step == 1 else <int64_t> (<double> total * column.n_rows / n_seen)


cdef int64_t flat_bytes(const Column* column, int64_t rows_max) noexcept nogil:
    """Bytes of values and validity of a FLAT column. Views of at most rows_max rows are read."""
    cdef int64_t n = column.n_rows
    cdef int64_t total = bitmap_bytes(n) if column.validity != NULL else 0
    cdef int64_t held
    cdef uint8_t storage = column.storage
    if n == 0 or column.type.phys == PHYS_NONE:
        return total
    if storage == STORE_UTF8:
        return total + 4 * n + (
            (<const int32_t*> column.values)[column.offset + n] - (<const int32_t*> column.values)[column.offset]
        )
    if storage == STORE_LARGE_UTF8:
        return total + 8 * n + (
            (<const int64_t*> column.values)[column.offset + n] - (<const int64_t*> column.values)[column.offset]
        )
    if storage == STORE_NESTED:
        return qc_load(&column.n_bytes)         # includes the validity
    if storage == STORE_FIXED_BINARY:
        return total + n * column.width
    if column.type.phys == PHYS_VIEW:
        held = qc_load(&column.n_bytes)
        if held == 0:
            held = 16 * n + viewed_bytes(column, rows_max)
            if rows_max == COUNTED_ROWS_MAX:
                # Two threads may count at the same time, with the same result.
                qc_store(<int64_t*> &column.n_bytes, held)
        return total + held
    if storage == STORE_BITS:
        return total + bitmap_bytes(n)
    if storage == STORE_DECIMAL128:
        return total + 16 * n
    if storage == STORE_DECIMAL64 or storage == STORE_DATE64:
        return total + 8 * n
    if storage == STORE_DECIMAL32:
        return total + 4 * n
    if storage == STORE_HALF:
        return total + 2 * n
    return total + n * phys_width(column.type.phys)


cdef int64_t counted_bytes(const Column* column, int64_t rows_max) noexcept nogil:
    cdef int64_t held
    if column.encoding == FLAT:
        return flat_bytes(column, rows_max)
    if column.encoding == CONSTANT:
        return phys_width(column.type.phys) if column.n_rows > 0 else 0
    held = flat_bytes(column.base, rows_max) if column.base.encoding == FLAT else phys_width(column.type.phys)
    if column.base.n_rows > column.n_rows:
        held = <int64_t> (<double> held * column.n_rows / column.base.n_rows)
    return held + (bitmap_bytes(column.n_rows) if column.validity != NULL else 0)


cdef int64_t column_bytes(const Column* column) noexcept nogil:
    return counted_bytes(column, COUNTED_ROWS_MAX)


cdef int64_t column_bytes_about(const Column* column) noexcept nogil:
    return counted_bytes(column, SAMPLED_ROWS)


cdef Owner* column_heap(const Column* column) noexcept nogil:
    cdef const Column* flat = column if column.encoding != DICTIONARY else column.base
    return flat.heap_owner if flat.heap_owner != NULL else flat.values_owner
