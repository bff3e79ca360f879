"""Tables in a session's time zone: every timestamp with a time zone gets this zone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from qcore.connectors.base import BatchStream, Split, Table, TableStatistics, table_version, under_policy
from qcore.connectors.streams import ReaderStream
from qcore.connectors.view import ViewTable
from qcore.expression.tree import Expr
from qcore.plan.time_zones import expr_in_zone, schema_in_zone
from qcore.record import record


def table_in_zone(table: Table, zone: str) -> Table:
    """Return the table with all its timestamps with a time zone in `zone`; the table itself if they already are."""
    schema = schema_in_zone(table.schema, zone)
    if schema is table.schema:
        return table
    if isinstance(table, ViewTable):
        predicate = None if table.predicate is None else expr_in_zone(table.predicate, table.table.schema, zone)
        return ViewTable(schema, table_in_zone(table.table, zone), table.columns, predicate)
    return ZonedTable(schema, table, zone)


def zone_of(table: Table) -> str | None:
    """The time zone of the foreign session that a table comes from, such as Spark's; None: there is none."""
    zone: str | None = getattr(table.table if isinstance(table, ViewTable) else table, "time_zone", None)
    return zone


@record(frozen=True)
class ZonedTable:
    """A table's rows with other time zones in its schema. The instants do not change."""

    schema: pa.Schema
    table: Table
    zone: str

    @property
    def splits_wait(self) -> bool:
        """Whether taking the table's next split may wait."""
        return bool(getattr(self.table, "splits_wait", False))

    def under_policy(self, on_schema_change: str) -> Table:
        """Return the table with another on_schema_change."""
        return table_in_zone(under_policy(self.table, on_schema_change), self.zone)

    def statistics(self) -> TableStatistics:
        """Return the table's statistics: bounds of instants are the same in every zone."""
        return self.table.statistics()

    def version(self) -> Hashable | None:
        """Return the table's version."""
        return table_version(self.table)

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterable[Split]:
        """List the table's splits."""
        return self.table.splits(columns, filter, target)

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Open the table's stream. Columns of instants get their new type; their values do not change."""
        stream = self.table.open(split, columns, filter, batch_rows)
        held = schema_in_zone(pa.schema([self.table.schema.field(name) for name in columns]), self.zone)
        if all(self.table.schema.field(field.name).type.equals(field.type) for field in held):
            return stream
        try:
            reader = pa.RecordBatchReader.from_stream(stream)
        except BaseException:
            stream.close()
            raise
        schema = schema_in_zone(reader.schema, self.zone)
        return ReaderStream(pa.RecordBatchReader.from_batches(schema, _retype(reader, schema)), stream)


def _retype(reader: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        columns = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
