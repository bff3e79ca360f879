"""The widening lattice: the type that holds the values of two types, and the schema of the rows of two."""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset, strcmp

from qcore_ext.data.schema cimport (
    PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, TYPE_DATE32, TYPE_DECIMAL, TYPE_DURATION,
    TYPE_FLOAT32, TYPE_FLOAT64, TYPE_INT8, TYPE_NESTED, TYPE_NULL, TYPE_TIME32, TYPE_TIME64, TYPE_TIMESTAMP,
    TYPE_UINT8, TYPE_UINT64, CSchema, DataType, Field, Schema, schema_copy_field, schema_equal, schema_new, type_equal,
    type_name,
)
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref

from qcore_ext.ground.status import SchemaChangeError

cdef enum:
    DECIMAL_DIGITS_MAX = 38

# By integer width, 8 to 64 bits: decimal digits of the largest value; physical type of the signed type.
cdef int[4] DIGITS = [3, 5, 10, 19]
cdef int[4] SIGNED = [PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64]


cdef inline bint is_integer(const DataType* type) noexcept nogil:
    return TYPE_INT8 <= type.id <= TYPE_UINT64


cdef inline bint is_float(const DataType* type) noexcept nogil:
    return type.id == TYPE_FLOAT32 or type.id == TYPE_FLOAT64


cdef inline bint is_time(const DataType* type) noexcept nogil:
    return type.id == TYPE_TIME32 or type.id == TYPE_TIME64


cdef inline int log_bytes(const DataType* type) noexcept nogil:
    """The width of an integer type: 0 for 8 bits to 3 for 64."""
    return (type.id - TYPE_INT8) & 3


cdef int integer_digits(const DataType* type) noexcept nogil:
    """Decimal digits of an integer type's largest value."""
    if type.id == TYPE_UINT64:
        return 20
    return DIGITS[log_bytes(type)]


cdef bint set_simple(DataType* out, int id, int phys) noexcept nogil:
    memset(out, 0, sizeof(DataType))
    out.id = <uint8_t> id
    out.phys = <uint8_t> phys
    return True


cdef bint set_signed(DataType* out, int log) noexcept nogil:
    """The signed integer of 8 << log bits, or a decimal if that is more than 64."""
    if log > 3:
        return set_decimal(out, 20, 0)
    return set_simple(out, TYPE_INT8 + log, SIGNED[log])


cdef bint set_decimal(DataType* out, int whole_digits, int scale) noexcept nogil:
    """A decimal with `whole_digits` before the point, or fewer if the total would exceed 38."""
    whole_digits = min(whole_digits, DECIMAL_DIGITS_MAX - scale)
    set_simple(out, TYPE_DECIMAL, PHYS_I64 if whole_digits + scale <= 18 else PHYS_I128)
    out.precision = <uint8_t> (whole_digits + scale)
    out.scale = scale
    return True


cdef bint widen_integers(const DataType* a, const DataType* b, DataType* out) noexcept nogil:
    cdef bint a_signed = a.id < TYPE_UINT8
    cdef bint b_signed = b.id < TYPE_UINT8
    if a_signed == b_signed:
        out[0] = a[0] if log_bytes(a) >= log_bytes(b) else b[0]
        return True
    if a_signed:
        return set_signed(out, max(log_bytes(a), log_bytes(b) + 1))
    return set_signed(out, max(log_bytes(b), log_bytes(a) + 1))


cdef bint widen_decimals(const DataType* a, const DataType* b, DataType* out) noexcept nogil:
    """Two decimals, or a decimal and an integer."""
    cdef int a_scale = 0 if is_integer(a) else a.scale
    cdef int b_scale = 0 if is_integer(b) else b.scale
    cdef int a_whole = integer_digits(a) if is_integer(a) else a.precision - a_scale
    cdef int b_whole = integer_digits(b) if is_integer(b) else b.precision - b_scale
    return set_decimal(out, max(a_whole, b_whole), max(a_scale, b_scale))


cdef inline bint is_whole(const DataType* type) noexcept nogil:
    return is_integer(type) or (type.id == TYPE_DECIMAL and type.scale == 0)


cdef bint widen_floats(const DataType* a, const DataType* b, DataType* out) noexcept nogil:
    """Two floats, or a float and a whole number."""
    cdef bint wide = a.id == TYPE_DECIMAL or b.id == TYPE_DECIMAL or a.id == TYPE_FLOAT64 or b.id == TYPE_FLOAT64
    wide = wide or (is_integer(a) and log_bytes(a) >= 2) or (is_integer(b) and log_bytes(b) >= 2)
    return set_simple(out, TYPE_FLOAT64, PHYS_F64) if wide else set_simple(out, TYPE_FLOAT32, PHYS_F32)


cdef bint widen_times(const DataType* a, const DataType* b, DataType* out) noexcept nogil:
    """Types with a unit. A date counts as a timestamp at midnight."""
    if a.id == TYPE_DATE32 or b.id == TYPE_DATE32:
        out[0] = b[0] if a.id == TYPE_DATE32 else a[0]
        return out.id == TYPE_TIMESTAMP and out.timezone[0] == 0
    if a.id != b.id and not (is_time(a) and is_time(b)):
        return False
    out[0] = a[0] if a.unit >= b.unit else b[0]
    return strcmp(a.timezone, b.timezone) == 0


cdef bint type_widen(const DataType* a, const DataType* b, DataType* out) noexcept nogil:
    cdef bint found = False
    if type_equal(a, b) or b.id == TYPE_NULL:
        out[0] = a[0]
        found = True
    elif a.id == TYPE_NULL:
        out[0] = b[0]
        found = True
    elif is_integer(a) and is_integer(b):
        found = widen_integers(a, b, out)
    elif (is_integer(a) or a.id == TYPE_DECIMAL) and (is_integer(b) or b.id == TYPE_DECIMAL):
        found = widen_decimals(a, b, out)
    elif (is_whole(a) or is_float(a)) and (is_whole(b) or is_float(b)):
        found = widen_floats(a, b, out)
    elif TYPE_DATE32 <= a.id <= TYPE_DURATION and TYPE_DATE32 <= b.id <= TYPE_DURATION:
        found = widen_times(a, b, out)
    out.nullable = a.nullable or b.nullable
    return found


cdef int32_t schema_counterpart(const CSchema* schema, const CSchema* like, int32_t i) noexcept nogil:
    cdef const char* name = like.fields[i].name
    cdef int32_t nth = 0
    cdef int32_t j
    if i < schema.n_fields and schema.n_fields == like.n_fields and strcmp(schema.fields[i].name, name) == 0:
        return i                    # the usual case; columns of one name correspond in order
    for j in range(i):
        nth += strcmp(like.fields[j].name, name) == 0
    for j in range(schema.n_fields):
        if strcmp(schema.fields[j].name, name) == 0:
            if nth == 0:
                return j
            nth -= 1
    return -1


cdef bint holds(const CSchema* a, const CSchema* b) noexcept nogil:
    """Whether `a` holds the rows of `b` without a change."""
    cdef DataType type
    cdef int32_t i, at
    for i in range(b.n_fields):
        at = schema_counterpart(a, b, i)
        if at < 0 or not type_widen(&a.fields[at].type, &b.fields[i].type, &type):
            return False
        if not type_equal(&a.fields[at].type, &type) or not same_inside(&a.fields[at], &b.fields[i]):
            return False
    return True


cdef bint same_inside(const Field* a, const Field* b) noexcept nogil:
    """Whether nested types allow the widening: they are equal, or one is null."""
    cdef CSchema one
    cdef CSchema other
    if a.type.id != TYPE_NESTED or b.type.id != TYPE_NESTED:
        return True
    one.n_fields = other.n_fields = 1
    one.fields = <Field*> a
    other.fields = <Field*> b
    return schema_equal(&one, &other)


cdef object arrow_type(const Field* field):
    """A field's type as pyarrow has it."""
    import pyarrow

    cdef CSchema* one = schema_new(1)
    try:
        schema_copy_field(one, 0, field, NULL)
        return pyarrow.schema(Schema.wrap(one)).field(0).type
    finally:
        owner_unref(<Owner*> one)


cdef object widen_lists(object a, object b):
    """The list type that holds the lists of both types; None if there is none."""
    import pyarrow

    if not (pyarrow.types.is_list(a) and pyarrow.types.is_list(b)):
        return None
    try:
        wide = widen_schemas(*(Schema(pyarrow.schema([("element", type.value_type)])) for type in (a, b)))
    except SchemaChangeError:
        return None
    return pyarrow.list_(a.value_field.with_type(pyarrow.schema(wide).field(0).type).with_nullable(True))


cdef int set_nested(CSchema* wide, int32_t i, const Field* a, const Field* b) except -1 with gil:
    """Make field i that of nested values of both fields. SchemaChangeError if there is no such type."""
    import pyarrow

    cdef Schema found
    type = widen_lists(arrow_type(a), arrow_type(b))
    if type is None:
        raise_types_differ(
            a.name, &a.type, &b.type, b"they do not widen into one type; cast it to one type at its source"
        )
    found = Schema(pyarrow.schema([("list", type)]))
    schema_copy_field(wide, i, &found.schema.fields[0], a.name)
    return 0


cdef CSchema* schema_widen(CSchema* a, CSchema* b) except NULL nogil:
    cdef CSchema* wide
    cdef DataType type
    cdef int32_t n_fields = a.n_fields
    cdef int32_t i, at
    cdef bint done = False
    if schema_equal(a, b) or holds(a, b):
        return <CSchema*> owner_ref(<Owner*> a)
    for i in range(b.n_fields):
        n_fields += schema_counterpart(a, b, i) < 0
    wide = schema_new(n_fields)
    try:
        for i in range(a.n_fields):
            at = schema_counterpart(b, a, i)
            if at < 0:
                schema_copy_field(wide, i, &a.fields[i], NULL)
                wide.fields[i].type.nullable = 1
                continue
            if not type_widen(&a.fields[i].type, &b.fields[at].type, &type):
                raise_types_differ(
                    a.fields[i].name, &a.fields[i].type, &b.fields[at].type,
                    b"they do not widen into one type; cast it to one type at its source",
                )
            if not same_inside(&a.fields[i], &b.fields[at]):
                set_nested(wide, i, &a.fields[i], &b.fields[at])
                wide.fields[i].type.nullable = type.nullable
                continue
            schema_copy_field(wide, i, &a.fields[i] if type.id == a.fields[i].type.id else &b.fields[at], NULL)
            wide.fields[i].type = type
        n_fields = a.n_fields
        for i in range(b.n_fields):
            if schema_counterpart(a, b, i) < 0:
                schema_copy_field(wide, n_fields, &b.fields[i], NULL)
                wide.fields[n_fields].type.nullable = 1
                n_fields += 1
        # For lists only the widening shows that `a` holds those of `b`.
        done = not schema_equal(a, wide)
    finally:
        if not done:
            owner_unref(<Owner*> wide)
    return wide if done else <CSchema*> owner_ref(<Owner*> a)


cdef int raise_types_differ(const char* name, const DataType* a, const DataType* b, const char* why) except -1 nogil:
    with gil:
        raise SchemaChangeError(
            f"column {name.decode('utf-8', 'replace')!r} changed from {type_name(a)} to {type_name(b)}: {why.decode()}"
        )


def widen_schemas(Schema first, Schema second):
    """Return the narrowest schema that holds the rows of both.

    Parameters
    ----------
    first, second : Schema
        Columns are matched by name.

    Returns
    -------
    Schema
        The columns of the first schema, followed by those that only the second one has.

    Raises
    ------
    SchemaChangeError
        The types of a column do not widen into one. The error names the column and both types.
    """
    cdef Schema wide = Schema.__new__(Schema)
    wide.schema = schema_widen(first.schema, second.schema)
    return wide
