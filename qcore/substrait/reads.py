"""Translation of Substrait's read relations to Scan and Values nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Expr
from qcore.plan.computed_values import values_of
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Scan, Values
from qcore.plan.schema import unknown
from qcore.record import record
from qcore.substrait.dropped import VIRTUAL_TABLE_ROWS, as_message, dropped_fields
from qcore.substrait.literals import read_literal
from qcore.substrait.scope import FieldScope
from qcore.substrait.types import read_type, top_level_names

# The only column of rows without columns (`select 1`), because a batch has no rows without columns.
_ROW = "$row"

ReadExpression = Callable[[Any, FieldScope], Bound]


@record
class TableRead:
    """A read table. `all_columns` are those of its base schema, `columns` those that it emits."""

    node: PlanNode
    all_columns: list[str]
    columns: list[str]


def read_table(
    message: Any,
    schemas: Mapping[str, pa.Schema] | None,
    ids: NodeIds,
    names: ColumnNames,
    files: dict[str, list[str]],
    read_expression: ReadExpression,
) -> TableRead:
    """The node of a ReadRel. Files that the plan names are added to `files`."""
    kind = message.WhichOneof("read_type")
    if kind == "virtual_table":
        return _virtual_table(message, ids, names, read_expression)
    if kind == "named_table":
        table = _table_name(list(message.named_table.names), schemas)
        known = schemas[table] if schemas is not None else None
    elif kind == "local_files":
        table, known = _local_files(message.local_files, files), None
    else:
        raise PlanError(f"a Substrait read of kind {kind or 'none'} is not supported")
    base_names, base_types = _base_schema(message.base_schema, known, table)
    positions = _read_positions(message, len(base_names))
    own = [names.new(name) for name in base_names]
    # A filter inside the read may use columns that the projection lacks.
    kept = list(range(len(base_names))) if message.HasField("filter") else sorted(set(positions))
    schema = pa.schema([pa.field(own[i], base_types[i]) for i in kept])
    node = Scan(ids.new(), schema, table, None, tuple(base_names[i] for i in kept))
    return TableRead(node, own, [own[i] for i in positions])


def _table_name(parts: list[str], schemas: Mapping[str, pa.Schema] | None) -> str:
    name = ".".join(parts)
    if schemas is None or name in schemas:
        return name
    if parts and parts[-1] in schemas:
        return parts[-1]
    raise unknown("table", name, schemas, "the plan")


def _base_schema(message: Any, known: pa.Schema | None, table: str) -> tuple[list[str], list[pa.DataType]]:
    """Names and types of the table's columns. A known table has its own types."""
    if known is not None:
        if len(known) == len(message.struct.types) == len(message.names) and list(message.names) == known.names:
            return known.names, known.types
        types = [read_type(part) for part in message.struct.types]
        names = top_level_names(message.names, types)
        for name in names:
            if name not in known.names:
                raise unknown("column", name, known.names, f"table {table!r}")
        return names, [known.field(name).type for name in names]
    types = [read_type(part) for part in message.struct.types]
    return top_level_names(message.names, types), types


def _read_positions(message: Any, n_columns: int) -> list[int]:
    """Positions of the columns that the read emits."""
    if not message.HasField("projection"):
        return list(range(n_columns))
    items = message.projection.select.struct_items
    for item in items:
        if item.HasField("child"):
            raise PlanError("reading parts of nested columns is not supported yet")
    return [item.field for item in items]


def _local_files(message: Any, files: dict[str, list[str]]) -> str:
    paths = []
    for item in message.items:
        path = getattr(item, item.WhichOneof("path_type") or "uri_file")
        if item.start or item.length:
            raise PlanError(f"sections of files in a Substrait plan are not supported; add splits to a Task ({path})")
        paths.append(path.removeprefix("file://"))
    if not paths:
        raise PlanError("a Substrait read of local files names no file")
    table = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    files[table] = paths
    return table


def _virtual_table(message: Any, ids: NodeIds, names: ColumnNames, read: ReadExpression) -> TableRead:
    types = [read_type(part) for part in message.base_schema.struct.types]
    row = pa.table({_ROW: pa.nulls(1, pa.bool_())})
    node = Values("", row.schema, row)
    scope = FieldScope(node, [])
    rows: list[list[Expr]] = [
        [read(field, scope).expr for field in row.fields] for row in message.virtual_table.expressions
    ]
    if scope.node is not node:
        raise PlanError("VALUES takes neither subqueries nor random values; use SELECT … UNION ALL SELECT …")
    if not rows:
        rows = [[read_literal(field) for field in row.fields] for row in _dropped_rows(message.virtual_table)]
    if not types:
        data = pa.table({names.new(_ROW): pa.nulls(len(rows), pa.bool_())})
        return TableRead(Values(ids.new(), data.schema, data), [], [])
    own = [names.new(name) for name in top_level_names(message.base_schema.names, types)]
    if any(len(row) != len(own) for row in rows):
        raise PlanError(f"the rows of VALUES must have as many values as there are columns, {len(own)}")
    made = values_of(rows, own, types, ids, names)
    return TableRead(made, own, [own[i] for i in _read_positions(message, len(own))])


def _dropped_rows(message: Any) -> list[Any]:
    from substrait.algebra_pb2 import Expression

    return [as_message(row, Expression.Literal.Struct) for row in dropped_fields(message, VIRTUAL_TABLE_ROWS)]
