"""Output batches of a join: columns of the probe batch and of the build side, with row numbers as indices."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport (
    DICTIONARY, NO_ROW, Column, column_constant_null, column_new, column_ref, columns_take,
)
from qcore_ext.data.schema cimport (
    PHYS_BOOL, TYPE_BOOL, DataType, Schema, phys_width, schema_copy_field, schema_index, schema_new, schema_set_field,
)
from qcore_ext.ground.bitmap cimport bit_clear, bitmap_bytes
from qcore_ext.ground.check cimport qc_check_rows
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, Owner, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.join.kind cimport returns_build_rows, keeps_probe
from qcore_ext.join.slot_values cimport slot_values_unpack
from qcore_ext.join.table cimport JoinTable

from qcore_ext.ground.status import PlanError

SIDES = {"probe": SIDE_PROBE, "build": SIDE_BUILD, "mark": SIDE_MARK}


cdef class JoinOutput:
    """The output columns of one join operator, resolved for one pair of input schemas."""

    def __dealloc__(self):
        owner_unref(<Owner*> self.schema)
        struct_free(self.columns)
        struct_free(self.scratch)

    cdef Batch* pairs(
        self, Batch* probe, Buffer* probe_rows, const JoinTable* table, Buffer* build_rows, bint some_missing,
        int64_t n,
    ) except NULL nogil:
        cdef Batch* out = batch_new(self.schema, n)
        cdef bint done = False
        try:
            self.take_probe(out, probe, probe_rows, n)
            self.take_build(out, table, build_rows, some_missing, n)
            done = True
        finally:
            if not done:
                batch_unref(out)
        return out

    cdef Batch* value_pairs(
        self, Batch* probe, Buffer* probe_rows, const JoinTable* table, Buffer* values, int64_t n,
    ) except NULL nogil:
        cdef Batch* out = batch_new(self.schema, n)
        cdef bint done = False
        try:
            self.take_probe(out, probe, probe_rows, n)
            self.take_values(out, table, values, n)
            done = True
        finally:
            if not done:
                batch_unref(out)
        return out

    cdef int take_values(self, Batch* out, const JoinTable* table, Buffer* values, int64_t n) except -1 nogil:
        cdef const DataType* type
        cdef Column* column
        cdef Buffer* narrow
        cdef int32_t i
        cdef int width
        for i in range(self.n_columns):
            if self.columns[i].side != SIDE_BUILD:
                continue
            type = &self.schema.fields[i].type
            width = phys_width(type.phys)
            column = column_new(type, n)
            out.columns[i] = column
            if width == 8:
                column.values_owner = owner_ref(<Owner*> values)
                column.values = values.data
            else:
                narrow = buffer_new(self.account, n * width)
                column.values_owner = <Owner*> narrow
                column.values = narrow.data
                slot_values_unpack(
                    <const uint64_t*> values.data, n, table.value_shifts[self.columns[i].position], width, narrow.data
                )
        return 0

    cdef int take_probe(self, Batch* out, Batch* probe, Buffer* rows, int64_t n) except -1 nogil:
        cdef Column** columns = self.scratch
        cdef Column** indexed = self.scratch + self.n_columns
        cdef const uint32_t* indices = NULL
        cdef Owner* owner = NULL
        cdef int32_t i
        cdef int32_t at = 0
        if self.n_probe == 0:
            return 0
        if probe == NULL:
            for i in range(self.n_columns):
                if self.columns[i].side == SIDE_PROBE:
                    out.columns[i] = column_constant_null(&self.schema.fields[i].type, n)
            return 0
        if rows != NULL:
            indices = <const uint32_t*> rows.data
            owner = <Owner*> rows
        elif probe.selection != NULL:
            indices = probe.selection
            owner = probe.selection_owner
        for i in range(self.n_columns):
            if self.columns[i].side == SIDE_PROBE:
                columns[at] = probe.columns[self.columns[i].position]
                at += 1
        if indices != NULL:
            qc_check_rows(indices, n, probe.n_rows, b"a probe row is a row of the batch")
            columns_take(columns, self.n_probe, indices, n, owner, self.account, indexed)
        else:
            for i in range(self.n_probe):
                indexed[i] = column_ref(columns[i])
        at = 0
        for i in range(self.n_columns):
            if self.columns[i].side == SIDE_PROBE:
                out.columns[i] = indexed[at]
                at += 1
        return 0

    cdef int take_build(
        self, Batch* out, const JoinTable* table, Buffer* rows, bint some_missing, int64_t n,
    ) except -1 nogil:
        cdef Buffer* validity = NULL
        cdef Buffer* clean = NULL
        cdef Column* column
        cdef int32_t i
        if self.n_columns == self.n_probe:
            return 0
        if rows == NULL or table.n_rows == 0:
            for i in range(self.n_columns):
                if self.columns[i].side == SIDE_BUILD:
                    out.columns[i] = column_constant_null(&self.schema.fields[i].type, n)
            return 0
        try:
            if some_missing:
                clean = buffer_new(self.account, n * 4)
                validity = buffer_new(self.account, bitmap_bytes(n))
                split_missing(
                    <const uint32_t*> rows.data, n, <uint32_t*> clean.data, <uint8_t*> validity.data
                )
                rows = clean
            qc_check_rows(<const uint32_t*> rows.data, n, table.n_rows, b"a build row is a row of the table")
            for i in range(self.n_columns):
                if self.columns[i].side == SIDE_BUILD:
                    column = column_new(&self.schema.fields[i].type, n)
                    out.columns[i] = column
                    column.encoding = DICTIONARY
                    column.base = column_ref(table.columns[self.columns[i].position])
                    column.indices = <const uint32_t*> rows.data
                    column.indices_owner = owner_ref(<Owner*> rows)
                    if validity != NULL:
                        column.validity = <const uint8_t*> validity.data
                        column.validity_owner = owner_ref(<Owner*> validity)
        finally:
            buffer_unref(clean)
            buffer_unref(validity)
        return 0

    cdef Batch* rows(self, Batch* probe, Buffer* selection, int64_t n, Column* marks) except NULL nogil:
        cdef Batch* out = batch_new(self.schema, probe.n_rows)
        cdef int32_t i
        for i in range(self.n_columns):
            if self.columns[i].side == SIDE_PROBE:
                out.columns[i] = column_ref(probe.columns[self.columns[i].position])
            elif self.columns[i].side == SIDE_MARK:
                out.columns[i] = column_ref(marks)
        if selection != NULL:
            batch_select(out, <const uint32_t*> selection.data, n, <Owner*> selection)
        else:
            batch_select(out, probe.selection, probe.n_selected, probe.selection_owner)
        return out


cdef void split_missing(
    const uint32_t* rows, int64_t n,
    uint32_t* clean,            # OUT; 0 if the row is missing
    uint8_t* validity,          # OUT
) noexcept nogil:
    cdef int64_t i
    memset(validity, 0xFF, bitmap_bytes(n))
    for i in range(n):
        clean[i] = rows[i] if rows[i] != <uint32_t> NO_ROW else 0
    for i in range(n):
        if rows[i] == <uint32_t> NO_ROW:
            bit_clear(validity, i)


cdef list pair_columns(Schema probe, Schema build):
    return [("probe", name, name) for name in probe.names] + [("build", name, name) for name in build.names]


cdef JoinOutput join_output(list output, int kind, Schema probe, Schema build, MemoryAccount* account):
    cdef JoinOutput self = JoinOutput.__new__(JoinOutput)
    cdef DataType truth
    cdef Schema source
    cdef int32_t i, at
    memset(&truth, 0, sizeof(DataType))
    truth.id = TYPE_BOOL
    truth.phys = PHYS_BOOL
    truth.nullable = 1
    self.account = account
    self.n_columns = <int32_t> len(output)
    self.columns = <JoinOutputColumn*> struct_new(self.n_columns * sizeof(JoinOutputColumn) + 1)
    self.scratch = <Column**> struct_new(2 * self.n_columns * sizeof(Column*) + 1)
    self.schema = schema_new(self.n_columns)
    for i in range(self.n_columns):
        side, column, name = output[i]
        if side not in SIDES:
            raise PlanError(f"a join's output column {name!r} has side {side!r}; use 'probe', 'build' or 'mark'")
        self.columns[i].side = SIDES[side]
        if side == "mark":
            schema_set_field(self.schema, i, name.encode(), &truth)
            continue
        source = probe if side == "probe" else build
        if source is None:
            raise PlanError(
                f"the {side} side of a join had no batch, so the type of its column {column!r} is not known; "
                f"declare the bridge's {side}_schema"
            )
        at = schema_index(source.schema, column.encode())
        if at < 0:
            raise PlanError(f"the {side} side of a join has no column {column!r}; it has {', '.join(source.names)}")
        self.columns[i].position = at
        schema_copy_field(self.schema, i, &source.schema.fields[at], name.encode())
        if side == "build" and keeps_probe(kind) or side == "probe" and returns_build_rows(kind):
            self.schema.fields[i].type.nullable = 1
        self.n_probe += side == "probe"
    return self
