"""Sources of PlanBuilder: the nodes of scan() and values()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from qcore.connectors.base import check_policy
from qcore.errors import PlanError
from qcore.plan.nodes import Scan, Values
from qcore.plan.schema import check_column, check_unique, unknown, without_metadata


def scan_node(
    id: str,
    table: str,
    columns: Sequence[str] | None,
    schema: pa.Schema | None,
    source: Any,
    on_schema_change: str | None,
    tables: Mapping[str, Any],
) -> Scan:
    """The node of scan(). `tables` are the sources and schemas that the builder knows by name."""
    check_policy(on_schema_change)
    where = f"scan of {table!r}"
    if source is None and schema is None:
        known = tables.get(table)
        if isinstance(known, pa.Schema):
            schema = known
        elif known is not None:
            source = known
        elif tables:
            raise unknown("table", table, tables, "scan()")
        else:
            raise PlanError(f"{where} needs schema=… or source=…: the columns must be known before the plan runs")
    if source is not None:
        from qcore.connectors.sources import table_from

        source = table_from(source, on_schema_change)
        schema = source.schema if schema is None else schema
    assert schema is not None
    names = list(schema.names) if columns is None else list(columns)
    for name in names:
        check_column(name, schema, where)
    check_unique(names, where)
    output = without_metadata(pa.schema([schema.field(name) for name in names]))
    return Scan(id, output, table, source, tuple(names), on_schema_change=on_schema_change)


def values_node(id: str, data: Any, trusted: bool) -> Values:
    """The node of values()."""
    from qcore.connectors.soundness import SoundColumns
    from qcore.connectors.sources import table_of_stream

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif not isinstance(data, pa.Table):
        if not hasattr(data, "__arrow_c_stream__"):
            raise PlanError(f"values() takes Arrow data, not a {type(data).__name__}")
        data = table_of_stream(data, trusted)
    check_unique(data.column_names, "values()")
    if not trusted:
        SoundColumns.of(data).require(data, data.column_names, 0, data.num_rows)
    schema = without_metadata(data.schema)
    if not data.schema.equals(schema, check_metadata=True):
        data = data.cast(schema)
    return Values(id, schema, data)
