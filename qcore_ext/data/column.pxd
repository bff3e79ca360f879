"""One column of a batch: borrowed or owned values in the layout they came in.

Nothing is converted at import. A column says how its values lie (Storage); column_load turns the rows a kernel wants,
at most VECTOR_ROWS at a time and so within the first-level caches, into canonical values, or points at them where they
are canonical already. A filter's or a join's output is an index vector over its input (DICTIONARY), gathered by the
same call only when someone needs the values.
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
    # Up to 12 bytes inline (rest zeroed, so equal inline strings are equal 16-byte words); longer: 4 bytes, then a
    # pointer. A pointer, not Arrow's buffer index, so that views from many batches can stand side by side.
    uint32_t length
    char prefix[4]
    char* pointer               # inline strings continue here


cdef inline const char* view_data(const StringView* view) noexcept nogil:
    """First byte of the string; of an inline one, inside the view itself."""
    if view.length <= VIEW_INLINE_BYTES:
        return <const char*> view + 4
    return view.pointer


cpdef enum Encoding:
    FLAT = 0                    # row i is value i
    CONSTANT = 1                # every row is value 0
    DICTIONARY = 2              # row i is row indices[i] of base, which is FLAT or CONSTANT


cpdef enum Storage:
    STORE_CANONICAL = 0         # as Physical says
    STORE_BITS = 1              # booleans, one bit a row
    STORE_DECIMAL128 = 2        # 16-byte decimals of a type with up to 18 digits
    STORE_DECIMAL64 = 3         # 8-byte decimals of a type with more than 18 digits, the values being small
    STORE_DECIMAL32 = 4
    STORE_UTF8 = 5              # int32 offsets and bytes
    STORE_LARGE_UTF8 = 6        # int64 offsets and bytes
    STORE_ARROW_VIEW = 7        # Arrow's views: buffer index and offset
    STORE_DATE64 = 8            # milliseconds, for date32
    STORE_HALF = 9              # float16, for float32
    STORE_FIXED_BINARY = 10     # fixed-size binary of `width` bytes
    STORE_NESTED = 11           # `nested` holds the Arrow array


ctypedef struct Column:
    Owner owner                 # a Column is held by reference count and never changes once made
    DataType type
    uint8_t encoding
    uint8_t storage
    int32_t width               # STORE_FIXED_BINARY
    int64_t n_rows
    int64_t offset              # first row within values / offsets (elements; for STORE_BITS, bits)
    const void* values          # values, or the offsets of STORE_UTF8 / STORE_LARGE_UTF8
    const uint8_t* validity     # bit i = row i of this column (offset already applied); NULL: no nulls
    const char* bytes           # STORE_UTF8 / STORE_LARGE_UTF8: the string bytes
    const void** view_buffers   # STORE_ARROW_VIEW: data buffers
    Column* base                # DICTIONARY; owned
    const uint32_t* indices     # DICTIONARY: n_rows positions in base; a null row is a null of base or of validity
    Owner* values_owner         # each owned, or NULL; `check` too
    Owner* validity_owner
    Owner* indices_owner
    Owner* heap_owner           # string bytes that views point at
    Owner* check                # a RowCheck for strings that are checked when they are loaded, or NULL
    int64_t n_bytes             # atomic; of the values, where column_bytes had to look at each; 0: it has not yet


ctypedef struct Vector:
    # Canonical values of up to VECTOR_ROWS rows. Borrowed: from the column, or from a VectorScratch until its next use.
    uint8_t phys
    const void* values
    const uint8_t* validity     # bit i = row i; NULL: no nulls


ctypedef struct VectorScratch:
    # Room for one loaded vector; 64-byte aligned by whoever allocates it. Values of null rows are zero or stale: never
    # read them for control flow.
    char values[VECTOR_ROWS * 16]
    uint8_t validity[VECTOR_BITMAP_BYTES]


# zeroed, one reference; the caller fills it
cdef Column* column_new(const DataType* type, int64_t n_rows) except NULL nogil
cdef inline Column* column_ref(Column* column) noexcept nogil:
    """Take a reference."""
    return <Column*> owner_ref(<Owner*> column)

cdef inline void column_unref(Column* column) noexcept nogil:
    owner_unref(<Owner*> column)

# A flat canonical column over fresh buffers (validity only when nullable); values not zeroed, validity all ones.
cdef Column* column_new_flat(
    const DataType* type, int64_t n_rows, bint nullable, MemoryAccount* account,
    Buffer** values,            # OUT, borrowed
    uint8_t** validity,         # OUT, borrowed; NULL when not nullable
) except NULL nogil
# Rows `indices` of `column`, without copying values; a DICTIONARY over a DICTIONARY is flattened into one. `n` rows;
# `indices_owner` keeps `indices` alive and is referenced. UINT32_MAX as an index stands for a null row (outer joins).
cdef Column* column_take(
    Column* column, const uint32_t* indices, int64_t n, Owner* indices_owner, MemoryAccount* account,
) except NULL nogil
# column_take of many columns at once: those that share an index vector keep sharing one. out[i] are owned by the
# caller.
cdef int columns_take(
    Column** columns, int64_t n_columns, const uint32_t* indices, int64_t n, Owner* indices_owner,
    MemoryAccount* account,
    Column** out,
) except -1 nogil
cdef Column* column_slice(Column* column, int64_t start, int64_t n) except NULL nogil     # start: a multiple of 8
cdef Column* column_constant_null(const DataType* type, int64_t n_rows) except NULL nogil

# What the column's rows take of memory: values, validity, and the bytes of strings and nested values. Of a DICTIONARY
# without the indices: the share that its rows have of the base on average, at most all of it.
cdef int64_t column_bytes(const Column* column) noexcept nogil
# The same for figures that nothing depends on: of long columns of views some hundred rows are read, not all.
cdef int64_t column_bytes_about(const Column* column) noexcept nogil
# What keeps the bytes of this column's string views alive (its heap owner, or its Arrow array's); may be NULL.
cdef Owner* column_heap(const Column* column) noexcept nogil
