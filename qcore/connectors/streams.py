"""Streams over pyarrow objects and over readers of the engine: the `BatchStream`s that tables return for splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qcore_ext.data.row_check import RowChecks
from qcore_ext.ground.memory import Account


class TableStream:
    """A pyarrow Table as a BatchStream. C++ code returns its batches without the GIL.

    `is_held_outside`: something else keeps the table's memory, so the query is not charged for it. `row_checks`: for
    each column the checks of the arrays of strings whose rows are checked when they are loaded. `extent`: figures for
    the statistics of the scan.
    """

    __slots__ = ("_table", "_batch_rows", "trust", "is_held_outside", "row_checks", "extent")

    def __init__(
        self,
        table: pa.Table,
        batch_rows: int,
        trust: str = "nothing",
        is_held_outside: bool = False,
        row_checks: list[list[RowChecks]] | None = None,
    ) -> None:
        self.trust = trust
        self.extent: dict[str, int] = {}
        self.row_checks = row_checks
        self._table: pa.Table | None = table
        # A multiple of 8, as TableScan cuts batches: otherwise it would cut each of these again.
        self._batch_rows = max(8, batch_rows) & ~7
        self.is_held_outside = is_held_outside

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        table = self._table
        if table is None:
            raise ValueError("the stream is closed")
        self._table = None  # the stream keeps the batches that are left, so memory is freed while it is read
        return table.to_reader(max_chunksize=self._batch_rows).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Drop the rows that were not read."""
        self._table = None


def stream_of_values(data: pa.Table | pa.RecordBatch) -> TableStream:
    """Return the rows of a Values node as a stream. The plan keeps the rows alive, and checked them when it was made.

    The stream returns whole chunks, which TableScan cuts, because each batch from pyarrow may take the GIL.
    """
    table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    return TableStream(table, max(table.num_rows, 8), "everything", is_held_outside=True)


class ReaderStream:
    """A pyarrow RecordBatchReader as a BatchStream. `closing` is closed with it. `extent` is as that of TableStream."""

    __slots__ = ("_reader", "_closing", "trust", "extent")

    def __init__(self, reader: pa.RecordBatchReader, closing: Any = None, trust: str = "nothing") -> None:
        self.trust = trust
        self.extent: dict[str, int] = getattr(closing, "extent", {})
        self._reader: pa.RecordBatchReader | None = reader
        self._closing = closing

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = self._reader
        if reader is None:
            raise ValueError("the stream is closed")
        self._reader = None
        return reader.__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Close the reader's file."""
        self._reader = None
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.close()


class EngineStream:
    """A reader of the engine as a BatchStream. TableScan reads `batch_reader`; others read it as an Arrow stream."""

    def __init__(self, reader: Any, trust: str) -> None:
        self.trust = trust
        #: The rows, as TableScan reads them: a BatchReader with a method close().
        self.batch_reader = reader

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        schema = pa.schema(self.batch_reader.schema_object)
        return pa.RecordBatchReader.from_batches(schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        account = Account()
        while (batch := self.batch_reader.read_batch(account)) is not None:
            yield pa.record_batch(batch)

    def close(self) -> None:
        """Close the reader's file."""
        self.batch_reader.close()
