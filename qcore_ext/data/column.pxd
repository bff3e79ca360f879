"""One column of a batch: borrowed or owned values in the layout in which they were imported.

Import converts nothing. A column knows the layout of its values (Storage). column_load gives canonical values of at
most VECTOR_ROWS rows, which fit the first-level cache: pointers into the column if its layout is canonical, else
converted values. The output of a filter or a join is an index vector over its input (DICTIONARY). column_load gathers
the values when a kernel needs them.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.schema cimport DataType, Physical
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner, owner_ref, owner_unref


cdef enum:
    VECTOR_ROWS = 2048
    VECTOR_BITMAP_BYTES = 256
    VIEW_INLINE_BYTES = 12
    NO_ROW = 0xFFFFFFFF         # as a position: a null row


ctypedef struct StringView:
    # Up to 12 bytes are inline, with the rest zeroed, so that equal inline strings are equal 16-byte words. A longer
    # string has 4 bytes inline and a pointer. It is a pointer and not Arrow's buffer index, so that views of many
    # batches can be in one array.
    uint32_t length
    char prefix[4]
    char* pointer               # inline strings continue in these bytes


cdef inline const char* view_data(const StringView* view) noexcept nogil:
    """First byte of the string. An inline string is inside the view."""
    if view.length <= VIEW_INLINE_BYTES:
        return <const char*> view + 4
    return view.pointer


cpdef enum Encoding:
    FLAT = 0                    # row i is value i
    CONSTANT = 1                # every row is value 0
    DICTIONARY = 2              # row i is row indices[i] of base, which is FLAT or CONSTANT


cpdef enum Storage:
    STORE_CANONICAL = 0         # as Physical describes
    STORE_BITS = 1              # booleans, one bit a row
    STORE_DECIMAL128 = 2        # 16-byte decimals of a type with up to 18 digits
    STORE_DECIMAL64 = 3         # 8-byte decimals of a type with more than 18 digits and small values
    STORE_DECIMAL32 = 4
    STORE_UTF8 = 5              # int32 offsets and bytes
    STORE_LARGE_UTF8 = 6        # int64 offsets and bytes
    STORE_ARROW_VIEW = 7        # Arrow's views: buffer index and offset
    STORE_DATE64 = 8            # milliseconds, for date32
    STORE_HALF = 9              # float16, for float32
    STORE_FIXED_BINARY = 10     # fixed-size binary of `width` bytes
    STORE_NESTED = 11           # `nested` holds the Arrow array


ctypedef struct Column:
    Owner owner                 # a Column is reference-counted and immutable
    DataType type
    uint8_t encoding
    uint8_t storage
    bint lent                   # FLAT over memory of the application, which costs the query nothing
    int32_t width               # STORE_FIXED_BINARY; STORE_ARROW_VIEW: 1 if data/layout made the column, else 0
    int64_t n_rows
    int64_t offset              # position of the first row in values or offsets (elements; for STORE_BITS, bits)
    const void* values          # values, or the offsets of STORE_UTF8 / STORE_LARGE_UTF8
    const uint8_t* validity     # bit i = row i of this column (offset already applied); NULL: no nulls
    const char* bytes           # STORE_UTF8 / STORE_LARGE_UTF8: the string bytes
    const void** view_buffers   # STORE_ARROW_VIEW: data buffers
    Column* base                # DICTIONARY; owned
    const uint32_t* indices     # DICTIONARY: n_rows positions in base; rows are null in base or by `validity`
    Owner* values_owner         # each owned, or NULL; `check` too
    Owner* validity_owner
    Owner* indices_owner
    Owner* heap_owner           # bytes of strings that views point at
    Owner* check                # a RowCheck for strings that are checked when they are loaded, or NULL
    int64_t n_bytes             # atomic; bytes of the values, once column_bytes counted them one by one; 0 before


ctypedef struct Vector:
    # Canonical values of up to VECTOR_ROWS rows, borrowed from the column or, until its next use, from a VectorScratch.
    uint8_t phys
    const void* values
    const uint8_t* validity     # bit i = row i; NULL: no nulls


ctypedef struct VectorScratch:
    # Memory for one loaded vector. The allocating code aligns it to 64 bytes. Values of null rows are zero or stale;
    # control flow must not depend on them.
    char values[VECTOR_ROWS * 16]
    uint8_t validity[VECTOR_BITMAP_BYTES]


# Zeroed, with one reference. The caller fills it.
cdef Column* column_new(const DataType* type, int64_t n_rows) except NULL nogil
cdef inline Column* column_ref(Column* column) noexcept nogil:
    """Take a reference."""
    return <Column*> owner_ref(<Owner*> column)

cdef inline void column_unref(Column* column) noexcept nogil:
    owner_unref(<Owner*> column)

# A flat canonical column over new buffers, with validity if nullable. Values are not zeroed; all rows are valid.
cdef Column* column_new_flat(
    const DataType* type, int64_t n_rows, bint nullable, MemoryAccount* account,
    Buffer** values,            # OUT, borrowed
    uint8_t** validity,         # OUT, borrowed; NULL when not nullable
) except NULL nogil
# Rows `indices` of `column`, without copying values. A DICTIONARY over a DICTIONARY becomes one DICTIONARY. `n` is the
# number of rows. `indices_owner` keeps `indices` alive and is referenced. NO_ROW as an index gives a null row.
cdef Column* column_take(
    Column* column, const uint32_t* indices, int64_t n, Owner* indices_owner, MemoryAccount* account,
) except NULL nogil
# column_take of several columns. Columns that share an index vector still share one afterwards. The caller owns out[i].
cdef int columns_take(
    Column** columns, int64_t n_columns, const uint32_t* indices, int64_t n, Owner* indices_owner,
    MemoryAccount* account,
    Column** out,
) except -1 nogil
cdef Column* column_slice(Column* column, int64_t start, int64_t n) except NULL nogil     # start: a multiple of 8
cdef Column* column_constant_null(const DataType* type, int64_t n_rows) except NULL nogil

# Memory of the column's rows: values, validity, and the bytes of strings and nested values. For a DICTIONARY: the
# average share of its rows in the base, at most the whole base, without the indices.
cdef int64_t column_bytes(const Column* column) noexcept nogil
# column_bytes for counters, which nothing depends on: of long columns of views only some hundred rows are read.
cdef int64_t column_bytes_about(const Column* column) noexcept nogil
# The owner of the bytes of this column's string views (its heap owner, or its Arrow array's), or NULL.
cdef Owner* column_heap(const Column* column) noexcept nogil
