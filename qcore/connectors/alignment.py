"""Convert the columns of a file to the columns that a scan declares: found by name, types widened or cast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from qcore.connectors.base import suggest
from qcore.errors import ExecutionError, PlanError, SchemaChangeError, SchemaConflictError
from qcore.expression.types import UUID
from qcore.late_module import late_module
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas

pc = late_module("pyarrow.compute")

# pa.Array or pa.ChunkedArray; pyarrow has no types to check.
Values: TypeAlias = Any
Convert = Callable[[Values], Values]


def logical_type(type: pa.DataType) -> pa.DataType:
    """The type that queries see: dictionaries and run-ends as their values, extension types as their storage.

    The engine has a type for UUIDs.
    """
    if type == UUID:
        return type
    if isinstance(type, pa.BaseExtensionType):
        return logical_type(type.storage_type)
    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return logical_type(type.value_type)
    if pa.types.is_decimal(type) and type.bit_width < 128:
        return pa.decimal128(type.precision, type.scale)
    return type


def logical_schema(schema: pa.Schema, where: str) -> pa.Schema:
    """Return the schema that queries see: names, logical types and nullability, without metadata.

    Raises
    ------
    PlanError
        Two columns have the same name, or a name is not UTF-8. The message begins with `where`.
    """
    try:
        _read_names(schema)
    except UnicodeDecodeError as error:
        raise PlanError(f"{where} is damaged: it has a column whose name is not UTF-8 ({error})") from error
    names = schema.names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanError(f"{where} has two columns named {twice!r}; rename one, because columns are found by name")
    # A column of type null is always nullable: pyarrow makes no field of that type that is not.
    return pa.schema(
        [
            pa.field(field.name, logical_type(field.type), field.nullable or pa.types.is_null(field.type))
            for field in schema
        ]
    )


def _read_names(fields: Iterable[pa.Field]) -> None:
    """Read every name once, at all depths: UnicodeDecodeError if one is not UTF-8."""
    for field in fields:
        field.name  # noqa: B018
        if pa.types.is_nested(field.type):
            _read_names(field.type.field(i) for i in range(field.type.num_fields))


def unify_schemas(schemas: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return one schema for several files: columns by name, in order of first appearance, types widened.

    A column that a file lacks is nullable.

    Parameters
    ----------
    schemas : iterable of (str, pyarrow.Schema)
        The name of each file, for messages, and its schema.

    Raises
    ------
    SchemaConflictError
        Types of a column do not widen into one. The message names the column, both types and both files.

    Examples
    --------
    >>> a, b = pa.schema({"x": pa.int32()}), pa.schema({"x": pa.int64(), "y": pa.string()})
    >>> unify_schemas([("a", a), ("b", b)]).types
    [DataType(int64), DataType(string)]
    """
    fields: dict[str, pa.Field] = {}
    firsts: dict[str, str] = {}
    count = 0
    seen: dict[str, int] = {}
    for where, schema in schemas:
        for item in schema:
            seen[item.name] = seen.get(item.name, 0) + 1
            known = fields.get(item.name)
            if known is None:
                fields[item.name] = item
                firsts[item.name] = where
            elif not known.equals(item):
                type = widen(known.type, item.type)
                if type is None:
                    raise SchemaConflictError(
                        f"column {item.name!r} is {known.type} in {firsts[item.name]} and {item.type} in {where}: "
                        "no type holds the values of both; register the files as two tables and cast the column"
                    )
                fields[item.name] = pa.field(item.name, type, known.nullable or item.nullable)
        count += 1
    return pa.schema([item if seen[name] == count else item.with_nullable(True) for name, item in fields.items()])


def require_same(schemas: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the common schema of several files. SchemaConflictError names file, column and types if they differ."""
    first: pa.Schema | None = None
    for where, schema in schemas:
        if first is None:
            first, first_where = schema, where
            continue
        remedy = "; on_schema_change='evolve' reads them as one table"
        for name in dict.fromkeys([*first.names, *schema.names]):
            if name not in first.names or name not in schema.names:
                has, lacks = (first_where, where) if name in first.names else (where, first_where)
                type = (first if name in first.names else schema).field(name).type
                raise SchemaConflictError(f"column {name!r} ({type}) of {has} is not in {lacks}{remedy}")
            a, b = first.field(name).type, schema.field(name).type
            if widen(a, b) is None or not (a.equals(b) or same_values(a, b)):
                raise SchemaConflictError(f"column {name!r} is {a} in {first_where} and {b} in {where}{remedy}")
        if first.names != schema.names:
            raise SchemaConflictError(
                f"columns come in the order {first.names} in {first_where} and {schema.names} in {where}{remedy}"
            )
    assert first is not None, "a table has at least one part"
    return first


def widen(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds the values of both (see qcore_ext.data.widening); None: there is none.

    Types inside lists, structs and maps widen too, because pyarrow converts these columns.
    """
    if a.equals(b) or same_values(a, b):
        return a
    if pa.types.is_nested(a) and pa.types.is_nested(b):
        return _widen_nested(a, b)
    try:
        schemas = [Schema(pa.schema([("", type)])) for type in (a, b)]
        wide = pa.schema(widen_schemas(*schemas)).field(0).type
        # pyarrow's casts do not check whether a float represents a decimal exactly.
        rounds = pa.types.is_floating(wide) and (pa.types.is_decimal(a) or pa.types.is_decimal(b))
        return None if rounds else wide
    except (PlanError, SchemaChangeError):
        return None


def _widen_nested(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        try:
            return pa.struct(unify_schemas([("", pa.schema(list(a))), ("", pa.schema(list(b)))]))
        except PlanError:
            return None
    if not (pa.types.is_list(a) and pa.types.is_list(b)):
        return None
    item = widen(a.value_type, b.value_type)
    return None if item is None else pa.list_(a.value_field.with_type(item))


def is_text(type: pa.DataType) -> bool:
    """Whether a type is one of Arrow's string layouts."""
    return pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)


def is_bytes(type: pa.DataType) -> bool:
    """Whether a type is one of Arrow's layouts for binary values of varying length."""
    return pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type)


def castable(type: pa.DataType) -> pa.DataType:
    """The layout that columns of a declared type are cast to, because pyarrow casts few types to views."""
    if pa.types.is_string_view(type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(type) else type


def same_values(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether two types are layouts of the same logical type."""
    return (is_text(a) and is_text(b)) or (is_bytes(a) and is_bytes(b))


def passes(actual: pa.DataType, declared: pa.DataType) -> bool:
    """Whether the engine reads a column of type `actual` as one of type `declared` without a conversion here."""
    if actual.equals(declared) or same_values(actual, declared):
        return True
    if pa.types.is_dictionary(actual):
        return is_text(actual.value_type) and is_text(declared)
    if pa.types.is_decimal(actual) and pa.types.is_decimal(declared):
        return actual.scale == declared.scale and actual.precision == declared.precision and actual.bit_width <= 128
    return False


class Alignment:
    """The conversion of an opened file's columns to a scan's columns. Made once a file, applied to each batch.

    Parameters
    ----------
    source : pyarrow.Schema
        The schema of the batches that are read from the file.
    wanted : sequence of pyarrow.Field
        The declared columns, in order.
    where : str
        The file's name in messages.
    constants : mapping
        Columns that the file does not contain, each with its value.
    decimals : mapping
        Columns of integers that are unscaled values of a decimal, each with that type (see parquet/decimal_footer).
    absent_is_null : bool
        Whether a column that is neither in the file nor a constant is all null. Otherwise it is an error.
    ignore_case : bool
        Whether to find columns without regard to case, as Spark does, if there is no exact match.
    on_schema_change : {None, 'error', 'evolve'}
        Which types a column may have. None: every type that can be cast to the declared one, value by value. 'error':
        only the declared type. 'evolve': types that widen into the declared one.

    Raises
    ------
    ExecutionError
        The file lacks a column, or a name matches several columns.
    SchemaChangeError
        A type or a missing column is not allowed by `on_schema_change`.
    """

    def __init__(
        self,
        source: pa.Schema,
        wanted: Sequence[pa.Field],
        where: str,
        constants: Mapping[str, Any] | None = None,
        decimals: Mapping[str, pa.DataType] | None = None,
        absent_is_null: bool = False,
        ignore_case: bool = False,
        on_schema_change: str | None = None,
    ) -> None:
        self._where = where
        self._on_schema_change = on_schema_change
        self._constants = constants or {}
        self._decimals = decimals or {}
        self._absent_is_null = absent_is_null
        self._ignore_case = ignore_case
        #: For each column: its name in the source (None: a constant), its conversion, and its constant.
        self._steps: list[tuple[str | None, Convert | None, Any]] = []
        fields = []
        for field in wanted:
            name, type, convert = self._plan(source, field)
            self._steps.append((name, convert, self._constants.get(field.name)))
            fields.append(pa.field(field.name, type, field.nullable or name is None))
        self.schema = pa.schema(fields)
        self._no_rows: pa.Table | None = None

    @staticmethod
    def names(
        source: Sequence[str], wanted: Sequence[pa.Field], constants: Mapping[str, Any], ignore_case: bool
    ) -> list[str]:
        """The names of the source's columns that must be read, in the order of `wanted`."""
        found = (match_name(source, field.name, ignore_case) for field in wanted if field.name not in constants)
        return [name for name in found if name is not None]

    def _plan(self, source: pa.Schema, field: pa.Field) -> tuple[str | None, pa.DataType, Convert | None]:
        if field.name in self._constants:
            return None, field.type, None
        name = match_name(source.names, field.name, self._ignore_case)
        if name is None:
            if self._absent_is_null:
                return None, field.type, None
            kind = SchemaChangeError if self._on_schema_change else ExecutionError
            raise kind(f"{self._where} has no column {field.name!r} ({field.type}){suggest(field.name, source.names)}")
        actual = source.field(name).type
        viewed = self._decimals.get(name)
        self._check_type(field, logical_type(actual if viewed is None else viewed))
        if viewed is not None:
            return name, *self._plan_decimal(viewed, field)
        if passes(actual, field.type):
            return name, actual, None
        return name, castable(field.type), self._cast(actual, field)

    def _check_type(self, field: pa.Field, actual: pa.DataType) -> None:
        declared = logical_type(field.type)
        if self._on_schema_change is None or actual.equals(declared) or same_values(actual, declared):
            return
        if self._on_schema_change == "evolve" and declared == widen(declared, actual):
            return
        raise SchemaChangeError(
            f"column {field.name!r} of {self._where} is {actual}, the scan declares {declared}: "
            + (
                "declare a type that holds both"
                if self._on_schema_change == "evolve"
                else "on_schema_change is 'error'"
            )
        )

    def _plan_decimal(self, viewed: pa.DataType, field: pa.Field) -> tuple[pa.DataType, Convert]:
        declared = field.type
        if pa.types.is_decimal(declared) and declared.scale == viewed.scale and declared.precision >= viewed.precision:
            wide = declared.precision
            if viewed.bit_width == 32 and wide <= 9:
                type = pa.decimal32(wide, viewed.scale)
            elif viewed.bit_width == 64 and wide <= 18:
                type = pa.decimal64(wide, viewed.scale)
            else:
                return castable(declared), self._cast(viewed, field, first=lambda values: _view(values, viewed))
            return type, lambda values: _view(values, type)
        return castable(declared), self._cast(viewed, field, first=lambda values: _view(values, viewed))

    def _cast(self, actual: pa.DataType, field: pa.Field, first: Convert | None = None) -> Convert:
        declared, where = castable(field.type), self._where

        def convert(values: Values) -> Values:
            try:
                return _cast(first(values) if first else values, declared)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise ExecutionError(
                    f"column {field.name!r} of {where} is {logical_type(actual)} and cannot be converted to the "
                    f"declared {declared}: {error}"
                ) from error

        return convert

    def no_rows(self) -> pa.Table:
        """Return the declared columns without rows."""
        if self._no_rows is None:
            self._no_rows = pa.Table.from_batches([], self.schema)
        return self._no_rows

    def table(self, table: pa.Table) -> pa.Table:
        """Convert the rows of a table."""
        if not self._steps:
            return table.select([])
        return pa.Table.from_arrays(self._columns(table), schema=self.schema)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the rows of a batch."""
        if not self._steps:
            return batch.select([])
        return pa.RecordBatch.from_arrays(self._columns(batch), schema=self.schema)

    def _columns(self, rows: pa.Table | pa.RecordBatch) -> list[Values]:
        columns = []
        for (name, convert, constant), field in zip(self._steps, self.schema, strict=True):
            if name is None:
                columns.append(constant_array(constant, field.type, rows.num_rows))
            else:
                values = rows.column(name)
                columns.append(values if convert is None else convert(values))
        return columns


def match_name(names: Sequence[str], name: str, ignore_case: bool) -> str | None:
    """Find `name` in `names`: exactly, else without regard to case. ExecutionError if several names match."""
    if name in names:
        return name
    if not ignore_case:
        return None
    lower = name.lower()
    matches = [known for known in names if known.lower() == lower]
    if len(matches) > 1:
        raise ExecutionError(f"column {name!r} could be any of {', '.join(matches)}, which differ in case only")
    return matches[0] if matches else None


def constant_array(value: Any, type: pa.DataType, n_rows: int) -> pa.Array:
    """Return an array that repeats one value `n_rows` times."""
    return pa.nulls(n_rows, type) if value is None else pa.repeat(pa.scalar(value, type), n_rows)


def _view(values: Values, type: pa.DataType) -> Values:
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([chunk.view(type) for chunk in values.chunks], type=type)
    return values.view(type)


def _cast(values: Values, type: pa.DataType) -> Values:
    if isinstance(values, pa.ChunkedArray):
        if isinstance(values.type, pa.BaseExtensionType) or pa.types.is_run_end_encoded(values.type):
            return pa.chunked_array([_cast(chunk, type) for chunk in values.chunks], type=type)
    elif isinstance(values.type, pa.BaseExtensionType):
        return _cast(values.storage, type)
    elif pa.types.is_run_end_encoded(values.type):
        return _cast(pc.run_end_decode(values), type)
    if pa.types.is_decimal(values.type) and values.type.bit_width < 128:
        values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    if type == UUID and is_text(values.type):
        # pyarrow takes 16 letters for the bytes of a UUID.
        raise TypeError("declare it as text, and cast it in the query")
    return values if passes(values.type, type) else values.cast(type)
