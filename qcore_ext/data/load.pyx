"""Rows of a flat column as canonical values. Only this module reads storage layouts."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport (
    STORE_ARROW_VIEW, STORE_BITS, STORE_CANONICAL, STORE_DATE64, STORE_DECIMAL32, STORE_DECIMAL64, STORE_DECIMAL128,
    STORE_FIXED_BINARY, STORE_HALF, STORE_LARGE_UTF8, STORE_UTF8, VECTOR_BITMAP_BYTES, VECTOR_ROWS, VIEW_INLINE_BYTES,
    CONSTANT, FLAT,
    Column, StringView, Vector, VectorScratch,
)
from qcore_ext.data.row_check cimport ROW_CHECK_ROWS, RowCheck, row_check
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_I64, PHYS_I128, PHYS_NONE, PHYS_VIEW, TYPE_DECIMAL, DataType, phys_width,
)
from qcore_ext.data.take cimport gather_width
from qcore_ext.ground.bitmap cimport bitmap_bytes, is_valid, qc_gather_bits
from qcore_ext.ground.check cimport qc_check, qc_check_large_offsets, qc_check_offsets, qc_check_rows
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.ground.words cimport Word128


cdef void spread_bits(const uint8_t* bits, int64_t first, const uint32_t* rows, int64_t n, uint8_t* out) noexcept nogil:
    cdef int64_t i, at
    if rows == NULL:
        for i in range(n):
            at = first + i
            out[i] = (bits[at >> 3] >> (at & 7)) & 1
    else:
        for i in range(n):
            at = first + rows[i]
            out[i] = (bits[at >> 3] >> (at & 7)) & 1


cdef uint64_t narrow_wide(const Word128* values, const uint32_t* rows, int64_t n, int64_t* out) noexcept nogil:
    """Low words of 128-bit integers. Returns non-zero if a value does not fit 64 bits."""
    if rows == NULL:
        return simd_kernels().narrow(<const int64_t*> values, n, out)
    return simd_kernels().narrow_rows(<const int64_t*> values, rows, n, out)


cdef bint valid_row_lost(
    const Word128* values, const uint32_t* rows, int64_t n, const uint8_t* validity,
) noexcept nogil:
    """Whether the value of a valid row does not fit 64 bits. Null rows may hold any value."""
    cdef int64_t i, at
    for i in range(n):
        at = rows[i] if rows != NULL else i
        if is_valid(validity, i) and values[at].high != <uint64_t> ((<int64_t> values[at].low) >> 63):
            return True
    return False


cdef void views_from_arrow(
    const StringView* source, const void** buffers, const uint32_t* rows, int64_t n, const uint8_t* validity,
    StringView* out,
) noexcept nogil:
    cdef int64_t i
    cdef const int32_t* location
    if rows == NULL:
        memcpy(out, source, n * sizeof(StringView))
    else:
        simd_kernels().gather[4](source, rows, n, out)
    if not simd_kernels().views_long(out, n):
        return
    for i in range(n):
        if out[i].length > VIEW_INLINE_BYTES:
            if is_valid(validity, i):
                location = <const int32_t*> &out[i].pointer
                out[i].pointer = (<char*> buffers[location[0]]) + location[1]
            else:
                memset(&out[i], 0, sizeof(StringView))      # the view of a null row may point anywhere


cdef void views_from_fixed(
    const char* data, int width, const uint32_t* rows, int64_t n, StringView* out,
) noexcept nogil:
    cdef int64_t i, at
    memset(out, 0, n * sizeof(StringView))
    for i in range(n):
        at = rows[i] if rows != NULL else i
        out[i].length = width
        memcpy(out[i].prefix, data + at * width, 4 if width > VIEW_INLINE_BYTES else width)
        if width > VIEW_INLINE_BYTES:
            out[i].pointer = <char*> data + at * width


cdef float half_to_float(uint16_t half) noexcept nogil:
    cdef uint32_t sign = (<uint32_t> (half & 0x8000)) << 16
    cdef uint32_t exponent = (half >> 10) & 0x1F
    cdef uint32_t mantissa = half & 0x3FF
    cdef uint32_t bits
    cdef float value
    if exponent == 0:
        value = <float> mantissa * <float> 5.9604644775390625e-08      # subnormal: 2**-24 each
        return -value if sign else value
    if exponent == 31:
        bits = sign | 0x7F800000 | (mantissa << 13)
    else:
        bits = sign | ((exponent + 112) << 23) | (mantissa << 13)
    memcpy(&value, &bits, 4)
    return value


cdef void load_validity(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch, Vector* out,
) noexcept nogil:
    if column.type.phys == PHYS_NONE:
        memset(scratch.validity, 0, VECTOR_BITMAP_BYTES)
        out.validity = scratch.validity
    elif column.validity == NULL:
        out.validity = NULL
    elif rows == NULL:
        out.validity = column.validity + (start >> 3)
    else:
        qc_gather_bits(column.validity, rows, n, scratch.validity)
        out.validity = scratch.validity


cdef int load_decimal(
    const Column* column, const Word128* values, const uint32_t* rows, int64_t n, bint must_fit, VectorScratch* scratch,
    Vector* out,
) except -1 nogil:
    """128-bit values as int64 if they fit; else unchanged, or an error if the type says that they must fit."""
    out.phys = PHYS_I64
    out.values = scratch.values
    if narrow_wide(values, rows, n, <int64_t*> scratch.values) and valid_row_lost(values, rows, n, out.validity):
        if must_fit:
            return raise_execution(b"a stored decimal has more digits than its type's precision")
        out.phys = PHYS_I128
        if rows == NULL:
            out.values = values
        else:
            gather_width(values, column.n_rows, 16, rows, n, scratch.values)
    return 0


cdef void widen(
    const Column* column, int64_t first, const uint32_t* rows, int64_t n, VectorScratch* scratch,
) noexcept nogil:
    """Widen decimals stored in 4 or 8 bytes to 8 or 16 bytes."""
    cdef int64_t i, at, value
    for i in range(n):
        at = first + (rows[i] if rows != NULL else i)
        if column.storage == STORE_DECIMAL32:
            value = (<const int32_t*> column.values)[at]
        else:
            value = (<const int64_t*> column.values)[at]
        if column.type.phys == PHYS_I64:
            (<int64_t*> scratch.values)[i] = value
        else:
            (<int64_t*> scratch.values)[2 * i] = value
            (<int64_t*> scratch.values)[2 * i + 1] = value >> 63


cdef void load_text(
    const Column* column, int64_t first, const uint32_t* rows, int64_t n, int64_t data_bytes, const uint8_t* validity,
    StringView* out,
) noexcept nogil:
    """Strings as views; `data_bytes` may be read of those that offsets point into, `validity` is that of the rows."""
    if column.storage == STORE_UTF8:
        simd_kernels().views((<const int32_t*> column.values) + first, column.bytes, data_bytes, rows, n, out)
    elif column.storage == STORE_LARGE_UTF8:
        simd_kernels().views_large((<const int64_t*> column.values) + first, column.bytes, data_bytes, rows, n, out)
    else:
        views_from_arrow((<const StringView*> column.values) + first, column.view_buffers, rows, n, validity, out)


cdef int load_checked(
    const Column* column, int64_t first, const uint32_t* rows, int64_t n, const uint8_t* validity, StringView* out,
) except -1 nogil:
    """Strings from outside. Each section is checked just before it is loaded, and read from memory once for both."""
    cdef RowCheck* check = <RowCheck*> column.check
    cdef int64_t start = 0
    cdef int64_t at, n_section
    cdef const uint32_t* picked = NULL
    while start < n:
        n_section = min(<int64_t> ROW_CHECK_ROWS, n - start)
        at = first + start if rows == NULL else first
        picked = rows + start if rows != NULL else NULL
        row_check(check, at, picked, n_section)
        # A section begins with a byte of the bitmap.
        load_text(
            column, at, picked, n_section, check.data_bytes, validity + (start >> 3) if validity != NULL else NULL,
            out + start,
        )
        start += n_section
    return 0


cdef int load_converted(
    const Column* column, int64_t first, const uint32_t* rows, int64_t n, VectorScratch* scratch, Vector* out,
) except -1 nogil:
    """Load layouts that are neither canonical nor decimal. `first` is the position of row 0, or of row 0 of `rows`."""
    cdef int64_t i, at, milliseconds
    cdef const int32_t* offsets
    cdef const int64_t* long_offsets
    cdef StringView* views = <StringView*> scratch.values
    out.values = scratch.values
    if column.check != NULL:
        if column.storage != STORE_ARROW_VIEW or rows != NULL:
            return load_checked(column, first, rows, n, out.validity, views)
        row_check(<RowCheck*> column.check, first, NULL, n)
    if column.storage == STORE_UTF8:
        offsets = <const int32_t*> column.values + column.offset
        qc_check_offsets(offsets, column.n_rows, b"the offsets of strings ascend")
        load_text(column, first, rows, n, offsets[column.n_rows], out.validity, views)
    elif column.storage == STORE_LARGE_UTF8:
        long_offsets = <const int64_t*> column.values + column.offset
        qc_check_large_offsets(long_offsets, column.n_rows, b"the offsets of strings ascend")
        load_text(column, first, rows, n, long_offsets[column.n_rows], out.validity, views)
    elif column.storage == STORE_ARROW_VIEW:
        if rows == NULL and not simd_kernels().views_long((<const StringView*> column.values) + first, n):
            out.values = (<const StringView*> column.values) + first    # short strings are the same in both layouts
            return 0
        load_text(column, first, rows, n, 0, out.validity, views)
    elif column.storage == STORE_FIXED_BINARY:
        views_from_fixed((<const char*> column.values) + first * column.width, column.width, rows, n, views)
    elif column.storage == STORE_BITS:
        spread_bits(<const uint8_t*> column.values, first, rows, n, <uint8_t*> scratch.values)
    elif column.storage == STORE_DATE64:
        for i in range(n):
            at = first + (rows[i] if rows != NULL else i)
            milliseconds = (<const int64_t*> column.values)[at]
            # Floor division: a time before 1970 belongs to the day in which it lies.
            (<int32_t*> scratch.values)[i] = <int32_t> (
                (milliseconds - (86399999 if milliseconds < 0 else 0)) / 86400000
            )
    elif column.storage == STORE_HALF:
        for i in range(n):
            at = first + (rows[i] if rows != NULL else i)
            (<float*> scratch.values)[i] = half_to_float((<const uint16_t*> column.values)[at])
    else:
        return raise_execution(b"a column's memory layout is not one the engine can read")
    return 0


cdef int load_flat(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, bint narrow, VectorScratch* scratch,
    Vector* out,
) except -1 nogil:
    cdef int width = phys_width(column.type.phys)
    cdef int64_t first = column.offset + (start if rows == NULL else 0)
    out.phys = column.type.phys
    load_validity(column, start, rows, n, scratch, out)
    if column.type.phys == PHYS_NONE:
        out.values = scratch.values
        return 0
    if column.storage == STORE_CANONICAL:
        if narrow and column.type.phys == PHYS_I128:
            return load_decimal(column, (<const Word128*> column.values) + first, rows, n, False, scratch, out)
        if rows == NULL:
            out.values = (<const char*> column.values) + first * width
        else:
            gather_width((<const char*> column.values) + first * width, column.n_rows, width, rows, n, scratch.values)
            out.values = scratch.values
        return 0
    if column.storage == STORE_DECIMAL128:
        return load_decimal(column, (<const Word128*> column.values) + first, rows, n, True, scratch, out)
    if column.storage == STORE_DECIMAL64 and narrow:
        out.phys = PHYS_I64
        if rows == NULL:
            out.values = (<const int64_t*> column.values) + first
        else:
            gather_width((<const uint64_t*> column.values) + first, column.n_rows, 8, rows, n, scratch.values)
            out.values = scratch.values
        return 0
    if column.storage == STORE_DECIMAL64 or column.storage == STORE_DECIMAL32:
        widen(column, first, rows, n, scratch)
        out.values = scratch.values
        return 0
    return load_converted(column, first, rows, n, scratch, out)


cdef void spread(const char* value, int width, int64_t n, char* out) noexcept nogil:
    """Repeat one value n times."""
    cdef int64_t i
    if width == 8:
        for i in range(n):
            (<uint64_t*> out)[i] = (<uint64_t*> value)[0]
    elif width == 4:
        for i in range(n):
            (<uint32_t*> out)[i] = (<uint32_t*> value)[0]
    else:
        for i in range(n):
            memcpy(out + i * width, value, width)


cdef int load_constant(
    const Column* column, int64_t n, bint narrow, VectorScratch* scratch, Vector* out,
) except -1 nogil:
    cdef Vector one
    cdef char value[16]
    cdef int width
    cdef bint valid = column.validity == NULL or (column.validity[0] & 1)
    if column.type.phys == PHYS_NONE or not valid:
        out.phys = column.type.phys
        if narrow and out.phys == PHYS_I128:
            out.phys = PHYS_I64
        memset(scratch.values, 0, n * phys_width(out.phys))
        memset(scratch.validity, 0, bitmap_bytes(n))
        out.values = scratch.values
        out.validity = scratch.validity
        return 0
    load_flat(column, 0, NULL, 1, narrow, scratch, &one)
    width = phys_width(one.phys)
    memcpy(value, one.values, width)
    spread(value, width, n, scratch.values)
    out.phys = one.phys
    out.values = scratch.values
    out.validity = NULL
    return 0


cdef void load_own_validity(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch, Vector* out,
) noexcept nogil:
    """Make rows null that are null in a dictionary column itself. `out` has the validity of its base."""
    cdef uint8_t[VECTOR_BITMAP_BYTES] gathered
    cdef const uint8_t* own = column.validity
    cdef int64_t i
    if own == NULL:
        return
    if rows == NULL:
        own += start >> 3
    else:
        qc_gather_bits(column.validity, rows, n, gathered)
        own = gathered
    if out.validity == NULL and rows == NULL:
        out.validity = own
        return
    for i in range((n + 7) >> 3):
        scratch.validity[i] = own[i] if out.validity == NULL else own[i] & out.validity[i]
    out.validity = scratch.validity


cdef int load(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, bint narrow, VectorScratch* scratch,
    Vector* out,
) except -1 nogil:
    cdef uint32_t base_rows[VECTOR_ROWS]
    cdef const uint32_t* at
    cdef int64_t i
    qc_check(n >= 0 and n <= VECTOR_ROWS, b"a vector is loaded of at most VECTOR_ROWS rows")
    if rows != NULL:
        qc_check_rows(rows, n, column.n_rows, b"rows to load lie in the column")
    else:
        qc_check(start >= 0 and start % 8 == 0, b"rows to load start at a byte of the bitmap")
        qc_check(start + n <= column.n_rows, b"rows to load lie in the column")
    if column.encoding == FLAT:
        return load_flat(column, start, rows, n, narrow, scratch, out)
    if column.encoding == CONSTANT:
        return load_constant(column, n, narrow, scratch, out)
    if rows == NULL:
        at = column.indices + start
    else:
        for i in range(n):
            base_rows[i] = column.indices[rows[i]]
        at = base_rows
    qc_check_rows(at, n, column.base.n_rows, b"a dictionary's indices are rows of its base")
    if column.base.encoding == CONSTANT:
        load_constant(column.base, n, narrow, scratch, out)
    else:
        load_flat(column.base, 0, at, n, narrow, scratch, out)
    load_own_validity(column, start, rows, n, scratch, out)
    return 0


cdef int column_load(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch, Vector* out,
) except -1 nogil:
    return load(column, start, rows, n, False, scratch, out)


cdef int column_load_narrow(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch, Vector* out,
) except -1 nogil:
    return load(column, start, rows, n, column.type.id == TYPE_DECIMAL, scratch, out)


cdef int arrow_width(const DataType* type) noexcept nogil:
    if type.id == TYPE_DECIMAL:
        return 16
    return 0 if type.phys == PHYS_BOOL or type.phys == PHYS_VIEW else phys_width(type.phys)


cdef const char* column_arrow_values(const Column* column) noexcept nogil:
    cdef int width = arrow_width(&column.type)
    if column.encoding != FLAT or width == 0:
        return NULL
    if column.storage == STORE_DECIMAL128 or (
        column.storage == STORE_CANONICAL and phys_width(column.type.phys) == width
    ):
        return <const char*> column.values + column.offset * width
    return NULL
