"""Conversion of batches to a wider schema."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.compute.exact_values cimport EXACT_NUMBER, exact_kind, exact_vector, exact_whole
from qcore_ext.compute.program cimport Program
from qcore_ext.data.batch cimport Batch, batch_compact, batch_new, batch_select, batch_unref
from qcore_ext.data.capsule cimport PyBatch, batch_of_arrow
from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch, column_constant_null, column_ref
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport (
    PHYS_U64, TYPE_DECIMAL, TYPE_FLOAT64, TYPE_NESTED, TYPE_NULL, CSchema, DataType, Field, Schema, phys_width,
    schema_copy_field, schema_equal, schema_new, type_equal, type_name,
)
from qcore_ext.data.widening cimport schema_counterpart
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.wide cimport int128, wide_to_text

from qcore_ext.ground.status import SchemaChangeError

cdef enum:
    # Among `converted`: a column of lists whose elements are converted.
    ELEMENTS = -2

cdef int64_t EXACT_MAX = 1 << 53    # float64 has all integers up to here


ctypedef struct CheckScratch:
    VectorScratch scratch
    char values[VECTOR_ROWS * 16]
    uint8_t fits[VECTOR_ROWS]


cdef int64_t first_inexact(
    const Vector* vector, const DataType* given, const DataType* wanted, int64_t n, CheckScratch* scratch,
) noexcept nogil:
    """The first of n values that type `wanted` does not have exactly, or -1."""
    cdef Vector converted
    cdef int128 value
    cdef int64_t i
    cdef bint exact
    if wanted.id == TYPE_DECIMAL:
        exact_vector(vector, given, wanted, n, scratch.values, scratch.fits, &converted)
    for i in range(n):
        if not is_valid(vector.validity, i):
            continue
        if wanted.id == TYPE_DECIMAL:
            exact = scratch.fits[i]
        else:
            value = exact_whole(vector, i)
            exact = -EXACT_MAX <= value <= EXACT_MAX
        if not exact:
            return i
    return -1


cdef int whole_digits(const DataType* type) noexcept nogil:
    """The most digits before the point of a value of a type of integers or decimals."""
    cdef int width = phys_width(type.phys)
    if type.id == TYPE_DECIMAL:
        return type.precision - type.scale
    return 20 if type.phys == PHYS_U64 else 19 if width == 8 else 10 if width == 4 else 5 if width == 2 else 3


cdef bint may_be_inexact(const DataType* given, const DataType* wanted) noexcept nogil:
    """Whether some values of type `given` have no exact value of type `wanted`."""
    if exact_kind(given) != EXACT_NUMBER:
        return False
    if wanted.id == TYPE_FLOAT64:
        return given.id == TYPE_DECIMAL or phys_width(given.phys) == 8
    return wanted.id == TYPE_DECIMAL and whole_digits(given) > whole_digits(wanted)


cdef bint same_field(const Field* a, const Field* b) noexcept nogil:
    """Whether the types are equal, including the types inside nested types. Names are ignored."""
    cdef CSchema one, other
    cdef Field renamed = b[0]
    renamed.name = a.name
    one.n_fields = other.n_fields = 1
    one.fields = <Field*> a
    other.fields = &renamed
    return schema_equal(&one, &other)


cdef object widen_elements(object values, object wanted, str name, Account account):
    """A pyarrow array of lists as lists of a wider type; SchemaChangeError, naming `name`, for an inexact value."""
    import pyarrow
    import pyarrow.compute

    if values.type == wanted:
        return values
    if not pyarrow.types.is_list(wanted):
        batch = PyBatch.from_arrow(pyarrow.record_batch([values], [name]), account, trusted=True)
        widened = Widener(account).widen(batch, Schema(pyarrow.schema([(name, wanted)])))
        return pyarrow.record_batch(widened).column(0).cast(wanted)
    lengths = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(values), 0)
    ends = pyarrow.compute.cumulative_sum(lengths)
    offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int32()), ends.cast(pyarrow.int32())])
    # Those of null rows are not among the flattened ones.
    elements = widen_elements(values.flatten(), wanted.value_type, name, account)
    return pyarrow.ListArray.from_arrays(offsets, elements, type=wanted, mask=values.is_null())


cdef Column* widen_lists(Batch* batch, int32_t at, CSchema* target, int32_t i, Account account) except NULL:
    """Column `at` of the batch, of lists, as column i of the target schema."""
    import pyarrow

    cdef CSchema* schema = schema_new(1)
    cdef Batch* one = NULL
    cdef Batch* widened = NULL
    try:
        schema_copy_field(schema, 0, &batch.schema.fields[at], NULL)
        one = batch_new(schema, batch.n_rows)
        one.columns[0] = column_ref(batch.columns[at])
        given = pyarrow.record_batch(PyBatch.wrap_for(one, account.account))
        wanted = pyarrow.schema(Schema.wrap(target)).field(i).type
        lists = widen_elements(given.column(0), wanted, target.fields[i].name.decode("utf-8", "replace"), account)
        widened = batch_of_arrow(pyarrow.record_batch([lists], ["lists"]), account.account, True)
        return column_ref(widened.columns[0])
    finally:
        owner_unref(<Owner*> schema)
        batch_unref(one)
        batch_unref(widened)


cdef class Widener:
    """Converts batches to a wider schema.

    Parameters
    ----------
    account : Account
        The account that is charged for converted columns.
    """

    def __init__(self, Account account):
        self.account = account

    def __dealloc__(self):
        self.clear()

    def widen(self, PyBatch batch, Schema target):
        """Return the batch converted to a wider schema, as a PyBatch.

        Raises SchemaChangeError for a value that the target's type does not have.
        """
        cdef Batch* wide
        self.aim(batch.batch.schema, target.schema)
        wide = self.widen_batch(batch.batch)
        try:
            return PyBatch.wrap(wide)
        finally:
            batch_unref(wide)

    cdef void clear(self) noexcept nogil:
        owner_unref(<Owner*> self.source)
        owner_unref(<Owner*> self.target)
        struct_free(self.columns)
        struct_free(self.converted)
        struct_free(self.checked)
        self.source = NULL
        self.target = NULL
        self.columns = NULL
        self.converted = NULL
        self.checked = NULL

    cdef int aim(self, CSchema* source, CSchema* target) except -1 nogil:
        if self.source != NULL and schema_equal(self.source, source) and schema_equal(self.target, target):
            return 0
        with gil:
            self.prepare(source, target)
        return 0

    cdef int prepare(self, CSchema* source, CSchema* target) except -1:
        cdef const DataType* given
        cdef const DataType* wanted
        cdef int32_t i
        if self.evaluator is not None:
            self.evaluator.close()
            self.evaluator = None
        self.clear()
        self.n_converted = 0
        self.columns = <int32_t*> struct_new((target.n_fields + 1) * sizeof(int32_t))
        self.converted = <int32_t*> struct_new((target.n_fields + 1) * sizeof(int32_t))
        self.checked = <uint8_t*> struct_new(target.n_fields + 1)
        for i in range(target.n_fields):
            self.columns[i] = schema_counterpart(source, target, i)
            self.converted[i] = -1
            if self.columns[i] < 0:
                continue
            given = &source.fields[self.columns[i]].type
            wanted = &target.fields[i].type
            if given.id == TYPE_NULL:
                self.columns[i] = -1
            elif given.id == TYPE_NESTED and not same_field(&source.fields[self.columns[i]], &target.fields[i]):
                self.converted[i] = ELEMENTS
            elif not type_equal(given, wanted):
                self.converted[i] = self.n_converted
                self.n_converted += 1
                self.checked[i] = may_be_inexact(given, wanted)
        self.source = <CSchema*> owner_ref(<Owner*> source)
        self.target = <CSchema*> owner_ref(<Owner*> target)
        if self.n_converted > 0:
            try:
                self.compile()
            except BaseException:
                self.clear()
                raise
        return 0

    cdef int compile(self) except -1:
        """Compile a program with the conversion of each column that needs one."""
        cdef CSchema* types = schema_new(2 * self.n_converted)
        cdef CSchema* outputs = NULL
        cdef int32_t i
        cdef int32_t at = 0
        steps = []
        try:
            outputs = schema_new(self.n_converted)
            for i in range(self.target.n_fields):
                if self.converted[i] < 0:
                    continue
                schema_copy_field(types, 2 * at, &self.source.fields[self.columns[i]], NULL)
                schema_copy_field(types, 2 * at + 1, &self.target.fields[i], NULL)
                schema_copy_field(outputs, at, &self.target.fields[i], NULL)
                steps.append(("load", (), {"column": self.columns[i]}))
                steps.append(("cast", (2 * at,), {"label": "widen"}))
                at += 1
            program = Program(
                Schema.wrap(self.source), Schema.wrap(outputs), steps, Schema.wrap(types), list(range(1, 2 * at, 2))
            )
        finally:
            owner_unref(<Owner*> types)
            owner_unref(<Owner*> outputs)
        self.evaluator = Evaluator(program, self.account)
        return 0

    cdef Batch* widen_batch(self, Batch* batch) except NULL nogil:
        cdef Batch* rows
        cdef Batch* conversions = NULL
        cdef int32_t i
        cdef bint as_is = self.n_converted == 0
        for i in range(self.target.n_fields):
            as_is = as_is and self.converted[i] != ELEMENTS
        if as_is:
            return self.assemble_batch(batch, NULL)
        rows = batch_compact(batch, self.account.account)
        try:
            for i in range(self.target.n_fields):
                if self.checked[i]:
                    self.check_exact(rows, i)
            if self.n_converted > 0:
                self.evaluator.project(rows, &conversions)
            return self.assemble_batch(rows, conversions)
        finally:
            batch_unref(rows)
            batch_unref(conversions)

    cdef Batch* assemble_batch(self, Batch* batch, Batch* conversions) except NULL nogil:
        cdef Batch* out = batch_new(self.target, batch.n_rows)
        cdef bint done = False
        cdef int32_t i
        try:
            for i in range(out.n_columns):
                if self.columns[i] < 0:
                    out.columns[i] = column_constant_null(&self.target.fields[i].type, batch.n_rows)
                elif self.converted[i] == ELEMENTS:
                    with gil:
                        out.columns[i] = widen_lists(batch, self.columns[i], self.target, i, self.account)
                elif self.converted[i] >= 0:
                    qc_check(self.converted[i] < conversions.n_columns, b"a converted column is one of the conversions")
                    out.columns[i] = column_ref(conversions.columns[self.converted[i]])
                else:
                    out.columns[i] = column_ref(batch.columns[self.columns[i]])
            batch_select(out, batch.selection, batch.n_selected, batch.selection_owner)
            done = True
        finally:
            if not done:
                batch_unref(out)
        return out

    cdef int check_exact(self, Batch* batch, int32_t i) except -1 nogil:
        """Raise SchemaChangeError for a value of column i that the target's type does not have exactly."""
        cdef Buffer* buffer = buffer_new(self.account.account, sizeof(CheckScratch))
        cdef CheckScratch* scratch = <CheckScratch*> buffer.data
        cdef const DataType* given = &self.source.fields[self.columns[i]].type
        cdef Vector vector
        cdef int64_t start = 0
        cdef int64_t n, found
        cdef char text[64]
        try:
            while start < batch.n_rows:
                n = min(<int64_t> VECTOR_ROWS, batch.n_rows - start)
                column_load(batch.columns[self.columns[i]], start, NULL, n, &scratch.scratch, &vector)
                found = first_inexact(&vector, given, &self.target.fields[i].type, n, scratch)
                if found >= 0:
                    wide_to_text(exact_whole(&vector, found), given.scale, text)
                    with gil:
                        self.raise_inexact(i, text.decode())
                start += n
        finally:
            buffer_unref(buffer)
        return 0

    cdef int raise_inexact(self, int32_t i, object value) except -1:
        cdef const DataType* given = &self.source.fields[self.columns[i]].type
        raise SchemaChangeError(
            f"column {self.target.fields[i].name.decode()!r} is {type_name(given)} here and "
            f"{type_name(&self.target.fields[i].type)} elsewhere, which does not hold its value {value} exactly; cast "
            "it to one type at its source"
        )
