"""Field names and types. They are compared by value and reference-counted."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport atoi, free, malloc, strtol
from libc.string cimport memcmp, memcpy, memset, strchr, strcmp, strlen, strncpy

from qcore_ext.data.layout_check cimport layout_fault
from qcore_ext.ground.arrow_abi cimport ARROW_FLAG_NULLABLE, ArrowSchema
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref, struct_free, struct_new

from qcore_ext.ground.status import PlanError


cdef const char* NO_NAME = b""
# The metadata of a field of type arrow.uuid: one pair of texts, each behind its length.
cdef const char* UUID_METADATA = b"\x01\0\0\0" b"\x14\0\0\0" b"ARROW:extension:name" b"\x0a\0\0\0" b"arrow.uuid"


cdef void schema_free(Owner* self) noexcept nogil:
    cdef CSchema* schema = <CSchema*> self
    cdef int32_t i
    for i in range(schema.n_fields):
        struct_free(schema.fields[i].name)
        if schema.fields[i].nested != NULL:
            schema.fields[i].nested.release(schema.fields[i].nested)
            struct_free(schema.fields[i].nested)
    struct_free(schema.fields)
    struct_free(schema)


cdef CSchema* schema_new(int32_t n_fields) except NULL nogil:
    cdef CSchema* schema = <CSchema*> struct_new(sizeof(CSchema))
    try:
        schema.fields = <Field*> struct_new(max(n_fields, 1) * sizeof(Field))
    finally:
        if schema.fields == NULL:
            struct_free(schema)
    schema.owner.references = 1
    schema.owner.release = schema_free
    schema.n_fields = n_fields
    return schema


cdef char* name_copy(const char* name) except NULL nogil:
    cdef int64_t n_bytes = strlen(name) + 1
    cdef char* copy = <char*> struct_new(n_bytes)
    memcpy(copy, name, n_bytes)
    return copy


cdef int schema_set_field(CSchema* schema, int32_t i, const char* name, const DataType* type) except -1 nogil:
    cdef char* copy = name_copy(name)
    struct_free(schema.fields[i].name)
    schema.fields[i].name = copy
    schema.fields[i].type = type[0]
    return 0


cdef int schema_copy_field(CSchema* schema, int32_t i, const Field* source, const char* name) except -1 nogil:
    schema_set_field(schema, i, source.name if name == NULL else name, &source.type)
    if source.nested != NULL:
        schema.fields[i].nested = <ArrowSchema*> struct_new(sizeof(ArrowSchema))
        arrow_copy(source.nested, schema.fields[i].nested)
    return 0


# --- Arrow schemas made by the engine: trees from malloc, freed by arrow_release ---

cdef char* text_copy(const char* text) noexcept nogil:
    cdef int64_t n_bytes
    cdef char* copy
    if text == NULL:
        return NULL
    n_bytes = strlen(text) + 1
    copy = <char*> malloc(n_bytes)
    memcpy(copy, text, n_bytes)
    return copy


cdef void arrow_release(ArrowSchema* schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i].release != NULL:
            schema.children[i].release(schema.children[i])
        free(schema.children[i])
    free(schema.children)
    if schema.dictionary != NULL:
        if schema.dictionary.release != NULL:
            schema.dictionary.release(schema.dictionary)
        free(schema.dictionary)
    free(<void*> schema.format)
    free(<void*> schema.name)
    schema.release = NULL


cdef void arrow_init(
    ArrowSchema* out, const char* format, const char* name, int64_t flags, int64_t n_children,
) noexcept nogil:
    cdef int64_t i
    memset(out, 0, sizeof(ArrowSchema))
    out.format = text_copy(format)
    out.name = text_copy(name if name != NULL else NO_NAME)     # the name is optional
    out.flags = flags
    out.n_children = n_children
    if n_children > 0:
        out.children = <ArrowSchema**> malloc(n_children * sizeof(ArrowSchema*))
        for i in range(n_children):
            out.children[i] = <ArrowSchema*> malloc(sizeof(ArrowSchema))
            memset(out.children[i], 0, sizeof(ArrowSchema))
    out.release = arrow_release


cdef bint is_uuid(const ArrowSchema* arrow) noexcept nogil:
    """Whether a type is Arrow's extension type arrow.uuid."""
    cdef const char* at = arrow.metadata
    cdef int32_t n_pairs, n_key, n_value, _
    if at == NULL or strcmp(arrow.format, b"w:16") != 0:
        return False
    memcpy(&n_pairs, at, 4)
    at += 4
    for _ in range(n_pairs):
        memcpy(&n_key, at, 4)
        if n_key < 0:
            return False
        memcpy(&n_value, at + 4 + n_key, 4)
        if n_value < 0:
            return False
        if n_key == 20 and memcmp(at + 4, b"ARROW:extension:name", 20) == 0:
            return n_value == 10 and memcmp(at + 8 + n_key, b"arrow.uuid", 10) == 0
        at += 8 + n_key + n_value
    return False


cdef void arrow_copy(const ArrowSchema* source, ArrowSchema* out) noexcept nogil:
    cdef int64_t i
    arrow_init(out, source.format, source.name, source.flags, source.n_children)
    out.metadata = UUID_METADATA if is_uuid(source) else NULL
    for i in range(source.n_children):
        arrow_copy(source.children[i], out.children[i])
    if source.dictionary != NULL:
        out.dictionary = <ArrowSchema*> malloc(sizeof(ArrowSchema))
        arrow_copy(source.dictionary, out.dictionary)


# --- formats ---

cdef uint8_t unit_of(char letter) noexcept nogil:
    if letter == c"s":
        return UNIT_SECOND
    if letter == c"m":
        return UNIT_MILLI
    return UNIT_MICRO if letter == c"u" else UNIT_NANO


cdef struct SimpleFormat:
    const char* format
    uint8_t id
    uint8_t phys
    uint8_t variant

cdef SimpleFormat[23] SIMPLE_FORMATS = [
    SimpleFormat(b"n", TYPE_NULL, PHYS_NONE, 0),
    SimpleFormat(b"b", TYPE_BOOL, PHYS_BOOL, 0),
    SimpleFormat(b"c", TYPE_INT8, PHYS_I8, 0),
    SimpleFormat(b"C", TYPE_UINT8, PHYS_U8, 0),
    SimpleFormat(b"s", TYPE_INT16, PHYS_I16, 0),
    SimpleFormat(b"S", TYPE_UINT16, PHYS_U16, 0),
    SimpleFormat(b"i", TYPE_INT32, PHYS_I32, 0),
    SimpleFormat(b"I", TYPE_UINT32, PHYS_U32, 0),
    SimpleFormat(b"l", TYPE_INT64, PHYS_I64, 0),
    SimpleFormat(b"L", TYPE_UINT64, PHYS_U64, 0),
    SimpleFormat(b"f", TYPE_FLOAT32, PHYS_F32, 0),
    SimpleFormat(b"g", TYPE_FLOAT64, PHYS_F64, 0),
    SimpleFormat(b"u", TYPE_STRING, PHYS_VIEW, VARIANT_PLAIN),
    SimpleFormat(b"U", TYPE_STRING, PHYS_VIEW, VARIANT_LARGE),
    SimpleFormat(b"vu", TYPE_STRING, PHYS_VIEW, VARIANT_VIEW),
    SimpleFormat(b"z", TYPE_BINARY, PHYS_VIEW, VARIANT_PLAIN),
    SimpleFormat(b"Z", TYPE_BINARY, PHYS_VIEW, VARIANT_LARGE),
    SimpleFormat(b"vz", TYPE_BINARY, PHYS_VIEW, VARIANT_VIEW),
    SimpleFormat(b"tdD", TYPE_DATE32, PHYS_I32, 0),
    SimpleFormat(b"tdm", TYPE_DATE32, PHYS_I32, 0),
    SimpleFormat(b"e", TYPE_FLOAT32, PHYS_F32, 0),
    SimpleFormat(b"tin", TYPE_INTERVAL, PHYS_INTERVAL, 0),
    SimpleFormat(NULL, 0, 0, 0),
]


cdef void set_uuid(DataType* out) noexcept nogil:
    memset(out, 0, sizeof(DataType))
    out.id = TYPE_UUID
    out.phys = PHYS_VIEW
    out.variant = VARIANT_FIXED


cdef bint type_from_format(const char* format, DataType* out) noexcept nogil:
    """Parse a format. False: the engine has no such type. Nested and run-end-encoded types are TYPE_NESTED."""
    cdef SimpleFormat* simple = &SIMPLE_FORMATS[0]
    cdef const char* comma
    memset(out, 0, sizeof(DataType))
    while simple.format != NULL:
        if strcmp(simple.format, format) == 0:
            out.id = simple.id
            out.phys = simple.phys
            out.variant = simple.variant
            return True
        simple += 1
    if format[0] == c"+":
        out.id = TYPE_NESTED
        out.phys = PHYS_NESTED
    elif format[0] == c"w" and format[1] == c":":
        if not (c"0" <= format[2] <= c"9") or strlen(format) > 11 or strtol(format + 2, NULL, 10) > 0x7FFFFFFF:
            return False
        out.id = TYPE_BINARY
        out.phys = PHYS_VIEW
    elif format[0] == c"d" and format[1] == c":":
        comma = strchr(format, c",")
        if comma == NULL:
            return False
        out.id = TYPE_DECIMAL
        out.precision = <uint8_t> atoi(format + 2)
        out.scale = <int8_t> atoi(comma + 1)
        if not 1 <= atoi(format + 2) <= 38 or not -128 <= atoi(comma + 1) <= 127:
            return False
        comma = strchr(comma + 1, c",")
        if comma != NULL and atoi(comma + 1) not in (32, 64, 128):
            return False
        out.phys = PHYS_I64 if out.precision <= 18 else PHYS_I128
    elif format[0] != c"t" or format[1] == 0 or format[2] == 0 or strchr(b"smun", format[2]) == NULL:
        return False
    elif format[1] == c"t":
        out.unit = unit_of(format[2])
        out.id = TYPE_TIME32 if out.unit <= UNIT_MILLI else TYPE_TIME64
        out.phys = PHYS_I32 if out.unit <= UNIT_MILLI else PHYS_I64
    elif format[1] == c"s":
        if format[3] != c":" or strlen(format + 4) >= sizeof(out.timezone):
            return False
        out.id = TYPE_TIMESTAMP
        out.phys = PHYS_I64
        out.unit = unit_of(format[2])
        strncpy(out.timezone, format + 4, sizeof(out.timezone) - 1)
    elif format[1] == c"D":
        out.id = TYPE_DURATION
        out.phys = PHYS_I64
        out.unit = unit_of(format[2])
    else:
        return False
    return True


cdef void type_to_format(const DataType* type, char* out, int64_t size) noexcept nogil:
    cdef SimpleFormat* simple = &SIMPLE_FORMATS[0]
    cdef char unit = b"smun"[type.unit]
    out[0] = 0
    while simple.format != NULL:
        if simple.id == type.id and simple.variant == type.variant:
            strncpy(out, simple.format, size - 1)
            return
        simple += 1
    if type.id == TYPE_DECIMAL:
        snprintf(out, size, b"d:%d,%d", <int> type.precision, <int> type.scale)
    elif type.id == TYPE_TIME32 or type.id == TYPE_TIME64:
        snprintf(out, size, b"tt%c", <int> unit)
    elif type.id == TYPE_TIMESTAMP:
        snprintf(out, size, b"ts%c:%s", <int> unit, type.timezone)
    elif type.id == TYPE_DURATION:
        snprintf(out, size, b"tD%c", <int> unit)
    elif type.id == TYPE_UUID:
        snprintf(out, size, b"w:%d", <int> UUID_BYTES)


cdef CSchema* schema_from_arrow(const ArrowSchema* arrow) except NULL:
    cdef CSchema* schema
    cdef const ArrowSchema* child
    cdef const ArrowSchema* values
    cdef DataType type
    cdef int32_t i
    cdef const char* fault = layout_fault(arrow)
    if fault != NULL:
        raise PlanError(f"an Arrow type is malformed: {fault.decode()}; its producer is broken")
    if strcmp(arrow.format, b"+s") != 0:
        raise PlanError("the schema of a table must be a struct with one field for each column")
    schema = schema_new(<int32_t> arrow.n_children)
    try:
        for i in range(schema.n_fields):
            child = arrow.children[i]
            values = child.dictionary if child.dictionary != NULL else child
            if not type_from_format(values.format, &type):
                name = child.name.decode("utf-8", "replace") if child.name != NULL else ""
                format = values.format.decode("utf-8", "replace")
                raise PlanError(
                    f"column {name!r} has the Arrow type of format {format!r}, which the engine does not know; "
                    "cast it to a supported type first"
                )
            if is_uuid(values):
                set_uuid(&type)
            type.nullable = (child.flags & ARROW_FLAG_NULLABLE) != 0
            schema_set_field(schema, i, child.name if child.name != NULL else NO_NAME, &type)
            if type.id == TYPE_NESTED:
                schema.fields[i].nested = <ArrowSchema*> struct_new(sizeof(ArrowSchema))
                arrow_copy(values, schema.fields[i].nested)
    except BaseException:
        owner_unref(<Owner*> schema)
        raise
    return schema


cdef int schema_to_arrow(const CSchema* schema, ArrowSchema* out) except -1:
    cdef int32_t i
    cdef char format[80]
    cdef Field* field
    arrow_init(out, b"+s", b"", 0, schema.n_fields)
    for i in range(schema.n_fields):
        field = &schema.fields[i]
        if field.nested != NULL:
            arrow_copy(field.nested, out.children[i])
            free(<void*> out.children[i].name)
            out.children[i].name = text_copy(field.name)
        else:
            type_to_format(&field.type, format, sizeof(format))
            arrow_init(out.children[i], format, field.name, ARROW_FLAG_NULLABLE, 0)
            out.children[i].metadata = UUID_METADATA if field.type.id == TYPE_UUID else NULL
        out.children[i].flags = ARROW_FLAG_NULLABLE
    return 0


cdef bint nested_equal(const ArrowSchema* a, const ArrowSchema* b) noexcept nogil:
    cdef int64_t i
    if a == NULL or b == NULL:
        return a == b
    if strcmp(a.format, b.format) != 0 or a.n_children != b.n_children:
        return False
    if (a.dictionary == NULL) != (b.dictionary == NULL) or is_uuid(a) != is_uuid(b):
        return False
    for i in range(a.n_children):
        if not nested_equal(a.children[i], b.children[i]):
            return False
        if a.format[1] == c"s" and strcmp(a.children[i].name, b.children[i].name) != 0:
            return False
    return True


cdef bint type_equal(const DataType* a, const DataType* b) noexcept nogil:
    return (
        a.id == b.id
        and a.precision == b.precision
        and a.scale == b.scale
        and a.unit == b.unit
        and strcmp(a.timezone, b.timezone) == 0
    )


cdef bint schema_equal(const CSchema* a, const CSchema* b) noexcept nogil:
    cdef int32_t i
    if a == b:
        return True
    if a == NULL or b == NULL or a.n_fields != b.n_fields:
        return False
    for i in range(a.n_fields):
        if (
            not type_equal(&a.fields[i].type, &b.fields[i].type)
            or strcmp(a.fields[i].name, b.fields[i].name) != 0
            or not nested_equal(a.fields[i].nested, b.fields[i].nested)
        ):
            return False
    return True


cdef int32_t schema_index(const CSchema* schema, const char* name) noexcept nogil:
    cdef int32_t i
    for i in range(schema.n_fields):
        if strcmp(schema.fields[i].name, name) == 0:
            return i
    return -1


cdef str type_name(const DataType* type):
    names = {
        TYPE_NULL: "null", TYPE_BOOL: "bool", TYPE_INT8: "int8", TYPE_INT16: "int16", TYPE_INT32: "int32",
        TYPE_INT64: "int64", TYPE_UINT8: "uint8", TYPE_UINT16: "uint16", TYPE_UINT32: "uint32", TYPE_UINT64: "uint64",
        TYPE_FLOAT32: "float", TYPE_FLOAT64: "double", TYPE_DATE32: "date32[day]",
        TYPE_INTERVAL: "month_day_nano_interval",
        TYPE_STRING: "string", TYPE_BINARY: "binary", TYPE_NESTED: "nested", TYPE_UUID: "uuid",
    }
    if type.id in names:
        return names[type.id]
    if type.id == TYPE_DECIMAL:
        return f"decimal128({type.precision}, {type.scale})"
    unit = ("s", "ms", "us", "ns")[type.unit]
    if type.id == TYPE_TIMESTAMP:
        zone = type.timezone.decode()
        return f"timestamp[{unit}, tz={zone}]" if zone else f"timestamp[{unit}]"
    if type.id == TYPE_DURATION:
        return f"duration[{unit}]"
    return f"time32[{unit}]" if type.id == TYPE_TIME32 else f"time64[{unit}]"


cdef void release_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema* arrow = <ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema")
    if arrow.release != NULL:
        arrow.release(arrow)
    free(arrow)


cdef class Schema:
    """Names and types of a batch's columns.

    Parameters
    ----------
    source : object with __arrow_c_schema__
        For example a pyarrow.Schema. Dictionary types count as their value types.

    Raises
    ------
    PlanError
        A column has a type that the engine does not support.
    """

    def __init__(self, source):
        capsule = source.__arrow_c_schema__()
        self.schema = schema_from_arrow(<ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema"))

    def __dealloc__(self):
        owner_unref(<Owner*> self.schema)

    @staticmethod
    cdef Schema wrap(CSchema* schema):
        cdef Schema self = Schema.__new__(Schema)
        self.schema = <CSchema*> owner_ref(<Owner*> schema)
        return self

    def __arrow_c_schema__(self):
        """Return the schema as a capsule, for pyarrow.schema() and others."""
        cdef ArrowSchema* arrow = <ArrowSchema*> malloc(sizeof(ArrowSchema))
        schema_to_arrow(self.schema, arrow)
        return PyCapsule_New(arrow, "arrow_schema", release_schema_capsule)

    @property
    def names(self):
        """Column names, in order."""
        return [self.schema.fields[i].name.decode() for i in range(self.schema.n_fields)]

    @property
    def types(self):
        """Type names, in order, as pyarrow prints them; uuid has its short name."""
        return [type_name(&self.schema.fields[i].type) for i in range(self.schema.n_fields)]

    def __len__(self):
        return self.schema.n_fields

    def __eq__(self, other):
        return isinstance(other, Schema) and schema_equal(self.schema, (<Schema> other).schema)

    def __repr__(self):
        return "\n".join(f"{name}: {type_}" for name, type_ in zip(self.names, self.types, strict=True))
