"""Field names and types. They are compared by value and reference-counted."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from qcore_ext.ground.arrow_abi cimport ArrowSchema
from qcore_ext.ground.memory cimport Owner


cpdef enum TypeId:
    TYPE_NULL = 0
    TYPE_BOOL = 1
    TYPE_INT8 = 2
    TYPE_INT16 = 3
    TYPE_INT32 = 4
    TYPE_INT64 = 5
    TYPE_UINT8 = 6
    TYPE_UINT16 = 7
    TYPE_UINT32 = 8
    TYPE_UINT64 = 9
    TYPE_FLOAT32 = 10
    TYPE_FLOAT64 = 11
    TYPE_DECIMAL = 12
    TYPE_DATE32 = 13        # days since 1970-01-01; Arrow date64 is imported as this
    TYPE_TIME32 = 14        # unit s or ms
    TYPE_TIME64 = 15        # unit us or ns
    TYPE_TIMESTAMP = 16
    TYPE_DURATION = 17
    TYPE_INTERVAL = 18      # months, days, nanoseconds: 16 bytes in Arrow's layout
    TYPE_STRING = 19
    TYPE_BINARY = 20
    TYPE_NESTED = 21        # list, struct, map and others: the engine does not read their values
    TYPE_UUID = 22          # 16 bytes, ordered as bytes; Arrow's extension type arrow.uuid


cpdef enum Physical:
    # The format of canonical values in memory, which kernels get from column_load.
    PHYS_NONE = 0           # type null: no values; all rows are null
    PHYS_BOOL = 1           # one byte a row, 0 or 1
    PHYS_I8 = 2
    PHYS_I16 = 3
    PHYS_I32 = 4
    PHYS_I64 = 5
    PHYS_U8 = 6
    PHYS_U16 = 7
    PHYS_U32 = 8
    PHYS_U64 = 9
    PHYS_F32 = 10
    PHYS_F64 = 11
    PHYS_I128 = 12          # decimals of more than 18 digits, little endian two's complement
    PHYS_VIEW = 13          # StringView
    PHYS_INTERVAL = 14
    PHYS_NESTED = 15


cpdef enum Variant:
    # The Arrow layout of a logical type at import, which export uses again. Not part of type equality.
    VARIANT_PLAIN = 0       # utf8, binary, decimal128
    VARIANT_LARGE = 1       # large_utf8, large_binary
    VARIANT_VIEW = 2        # string_view, binary_view
    VARIANT_FIXED = 3       # UUIDs: UUID_BYTES a row, without offsets


cdef enum:
    UUID_BYTES = 16


cpdef enum TimeUnit:
    UNIT_SECOND = 0
    UNIT_MILLI = 1
    UNIT_MICRO = 2
    UNIT_NANO = 3


ctypedef struct DataType:
    uint8_t id              # TypeId
    uint8_t phys            # Physical; decimal: PHYS_I64 up to 18 digits, PHYS_I128 beyond
    uint8_t precision       # decimal
    int8_t scale            # decimal
    uint8_t unit            # TimeUnit of time, timestamp, duration
    uint8_t variant         # Variant
    uint8_t nullable        # a hint; not part of type equality
    char timezone[48]       # of a timestamp: NUL-terminated; empty: without time zone


ctypedef struct Field:
    char* name              # owned, NUL-terminated UTF-8
    DataType type
    ArrowSchema* nested     # owned deep copy for TYPE_NESTED, else NULL


ctypedef struct CSchema:
    # Immutable. Drivers compare addresses first, then values.
    Owner owner
    int32_t n_fields
    Field* fields


cdef CSchema* schema_new(int32_t n_fields) except NULL nogil            # fields zeroed; schema_set_field fills them
cdef int schema_set_field(CSchema* schema, int32_t i, const char* name, const DataType* type) except -1 nogil
cdef int schema_copy_field(
    CSchema* schema, int32_t i, const Field* source, const char* name,
) except -1 nogil  # name NULL: the source's
# From a struct schema with one child for each column. Raises PlanError for a type that the engine does not have.
cdef CSchema* schema_from_arrow(const ArrowSchema* arrow) except NULL
cdef int schema_to_arrow(const CSchema* schema, ArrowSchema* out) except -1
# A deep copy. Of the metadata it has only what marks UUIDs.
cdef void arrow_copy(const ArrowSchema* source, ArrowSchema* out) noexcept nogil
cdef bint type_equal(const DataType* a, const DataType* b) noexcept nogil
# Compares names, order and types; neither nullability nor Variant.
cdef bint schema_equal(const CSchema* a, const CSchema* b) noexcept nogil
cdef int32_t schema_index(const CSchema* schema, const char* name) noexcept nogil   # -1: absent
# As pyarrow prints it, such as 'decimal128(15, 2)'; or 'uuid'.
cdef str type_name(const DataType* type)


cdef inline int phys_width(uint8_t phys) noexcept nogil:
    """Bytes of one canonical value; 0 for null and nested types."""
    if phys == PHYS_I64 or phys == PHYS_F64 or phys == PHYS_U64:
        return 8
    if phys == PHYS_VIEW or phys == PHYS_I128 or phys == PHYS_INTERVAL:
        return 16
    if phys == PHYS_I32 or phys == PHYS_F32 or phys == PHYS_U32:
        return 4
    if phys == PHYS_I16 or phys == PHYS_U16:
        return 2
    if phys == PHYS_BOOL or phys == PHYS_I8 or phys == PHYS_U8:
        return 1
    return 0


cdef class Schema:
    """The Python object that owns a CSchema. It imports from and exports to __arrow_c_schema__."""
    cdef CSchema* schema            # owned

    @staticmethod
    cdef Schema wrap(CSchema* schema)       # takes a new reference
