"""The table of range() and generate_series(): integers with a constant step, computed while they are read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from qcore.connectors.base import BatchStream, ColumnStatistics, Split, TableStatistics, select_fields
from qcore.connectors.streams import ReaderStream
from qcore.errors import ExecutionError
from qcore.expression.tree import Expr
from qcore.record import record

VALUE, NUMBER = "value", "number"
# Rows of a split: some milliseconds of work.
SPLIT_ROWS = 1 << 20
# A task lists all splits before it reads. For 10^13 values in sections of SPLIT_ROWS that took 13 s and much memory.
SPLITS_MAX = 1024


@record(frozen=True)
class SeriesSplit(Split):
    """The values at positions `start` to `start + length` (exclusive) of a series, from 0."""

    start: int
    length: int


@record(frozen=True)
class SeriesTable:
    """Integers of 64 bits, each with its number from 1. Any thread may use it. It keeps no rows.

    Parameters
    ----------
    values : range
        The integers.
    """

    values: range

    @property
    def schema(self) -> pa.Schema:
        """Two columns: the value, and its number from 1."""
        return pa.schema([(VALUE, pa.int64()), (NUMBER, pa.int64())])

    def statistics(self) -> TableStatistics:
        """Return exact statistics."""
        n = len(self.values)
        if n == 0:
            return TableStatistics(0, {})
        ends = sorted((self.values[0], self.values[-1]))
        columns = {VALUE: ColumnStatistics(ends[0], ends[1], 0), NUMBER: ColumnStatistics(1, n, 0)}
        return TableStatistics(n, columns)

    def version(self) -> int:
        """Return 0: the series never changes."""
        return 0

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """List sections of SPLIT_ROWS values or more, at most SPLITS_MAX of them."""
        rows = max(SPLIT_ROWS, -(-len(self.values) // SPLITS_MAX))
        for start in range(0, len(self.values), rows):
            yield SeriesSplit(start, min(rows, len(self.values) - start))

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Compute the values of a split, a batch at a time."""
        if not isinstance(split, SeriesSplit):
            raise ExecutionError(f"a series cannot read a {type(split).__name__}: add SeriesSplits to its scan node")
        if split.start < 0 or split.length < 0 or split.start + split.length > len(self.values):
            raise ExecutionError(
                f"split of values {split.start} to {split.start + split.length}, but the series has {len(self.values)}"
            )
        schema = pa.schema(select_fields(self.schema, columns, "the series"))
        return ReaderStream(pa.RecordBatchReader.from_batches(schema, self._batches(split, schema, batch_rows)))

    def _batches(self, split: SeriesSplit, schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        end = split.start + split.length
        for start in range(split.start, end, batch_rows):
            positions = np.arange(start, min(start + batch_rows, end), dtype=np.int64)
            # Both ends fit into 64 bits, so the sum is correct even if the product wraps around.
            columns = {VALUE: self.values.start + positions * self.values.step, NUMBER: positions + 1}
            if not schema.names:
                yield pa.RecordBatch.from_arrays([pa.nulls(len(positions))], ["rows"]).select([])
                continue
            yield pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in schema.names], schema=schema)
