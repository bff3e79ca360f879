"""What a source of data is to the engine: a table that names its splits and opens each as an Arrow stream."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Expr


@dataclass(frozen=True)
class ColumnStatistics:
    """What is known of one column without reading it. None: not known.

    `min` and `max` are Python values of the column's type and hold for every non-null value but NaN (bounds: they
    need not occur). `distinct_count` is about how many values other than null there are.
    """

    min: Any = None
    max: Any = None
    null_count: int | None = None
    distinct_count: int | None = None


UNKNOWN_COLUMN = ColumnStatistics()


@dataclass(frozen=True)
class TableStatistics:
    """What is known of a table without reading it, for the optimizer.

    `columns` may compute an entry when it is first asked for, so ask only for the columns that matter.
    """

    row_count: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def column(self, name: str) -> ColumnStatistics:
        """Statistics of one column; all unknown when there are none."""
        return self.columns.get(name, UNKNOWN_COLUMN)


@dataclass(frozen=True)
class Split:
    """An instruction for getting part of a table's rows. Picklable, so that it can travel to another process."""


@dataclass(frozen=True)
class FileSplit(Split):
    """A byte section of one file.

    Of a Parquet file it stands for the row groups whose middle byte lies in it, so sections that tile a file give
    every row once, wherever the cuts fall. Other formats take whole files only: start 0 and length None.

    Parameters
    ----------
    path : str
        A local path or a URL that pyarrow or fsspec can open.
    start, length : int
        The section in bytes; length None: to the end of the file.
    partition_values : mapping or tuple of pairs
        Columns that the file does not hold, with the one value each has in all its rows.

    Examples
    --------
    >>> FileSplit("lineitem.parquet", start=0, length=4_000_000)
    FileSplit(path='lineitem.parquet', start=0, length=4000000, partition_values=())
    """

    path: str
    start: int = 0
    length: int | None = None
    partition_values: tuple[tuple[str, Any], ...] = field(default=())

    def __post_init__(self) -> None:
        if isinstance(self.partition_values, Mapping):
            object.__setattr__(self, "partition_values", tuple(self.partition_values.items()))
        object.__setattr__(self, "path", str(self.path))


@runtime_checkable
class BatchStream(Protocol):
    """An opened split: batches of exactly the wanted columns, in order, of the declared types.

    String columns may come as string, large_string, string_view or a dictionary of one of them, decimals in any width.

    An attribute `trust` may say what is known of the batches: "everything" of those made by this process or checked
    before, "layout" of those that pyarrow decoded, whose text it did not look at, "nothing" of others, and so without
    it. The engine checks what is not known.

    The query is charged for the batches' memory while it keeps them, unless the stream has `is_held_outside` = True:
    it is there anyway, as that of a table in memory.
    """

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows as an ArrowArrayStream; asked for once."""

    def close(self) -> None:
        """Release files; also after an error, and when the stream was not read to its end."""


@runtime_checkable
class Table(Protocol):
    """The handle a Scan node's `source` holds. Its methods may be called from any thread."""

    @property
    def schema(self) -> pa.Schema:
        """All columns, known before anything is read (SPEC D4)."""

    def statistics(self) -> TableStatistics:
        """What is known cheaply: from footers and lengths, never by reading data."""

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterable[Split]:
        """The splits that hold rows for `filter`; possibly lazy, and then iterated in a thread that may wait.

        `columns` and the columns of `filter` are this table's own names. Splits whose statistics show that no row can
        pass `filter` may be left out. `target` is how many splits would be enough to keep the drivers busy; there may
        be more or fewer. When no more are wanted, the iterator's `close` is called, if it has one.

        A table whose iterator may wait sets `splits_wait = True`; it is then iterated in a thread of its own, and
        `close` may come from another.
        """

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Start reading a split; batches have about `batch_rows` rows. The rows may include some that fail `filter`."""


class TableStream:
    """A pyarrow Table as a BatchStream: its batches are handed out by C++, without the GIL.

    `is_held_outside`: somebody else keeps the table's memory, which the query that reads it is not charged for.
    """

    __slots__ = ("_table", "_batch_rows", "trust", "is_held_outside")

    def __init__(self, table: pa.Table, batch_rows: int, trust: str = "nothing", is_held_outside: bool = False) -> None:
        self.trust = trust
        self._table: pa.Table | None = table
        # As TableScan cuts batches, at multiples of 8: otherwise it cuts each of these again.
        self._batch_rows = max(8, batch_rows) & ~7
        self.is_held_outside = is_held_outside

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        table = self._table
        if table is None:
            raise ValueError("the stream is closed")
        self._table = None  # the stream keeps what it needs; memory goes as batches are consumed
        return table.to_reader(max_chunksize=self._batch_rows).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Drop the rows not taken yet."""
        self._table = None


def held_rows(data: pa.Table | pa.RecordBatch) -> TableStream:
    """Rows of a plan as a stream: checked when the plan was made, and kept in memory by somebody else.

    They come in the chunks they lie in, which TableScan cuts: each batch that crosses from pyarrow may take the GIL.
    """
    table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    return TableStream(table, max(table.num_rows, 8), "everything", is_held_outside=True)


class ReaderStream:
    """A pyarrow RecordBatchReader as a BatchStream, with something to close after it."""

    __slots__ = ("_reader", "_closing", "trust")

    def __init__(self, reader: pa.RecordBatchReader, closing: Any = None, trust: str = "nothing") -> None:
        self.trust = trust
        self._reader: pa.RecordBatchReader | None = reader
        self._closing = closing

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = self._reader
        if reader is None:
            raise ValueError("the stream is closed")
        self._reader = None
        return reader.__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Close the file behind the reader."""
        self._reader = None
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.close()


ON_SCHEMA_CHANGE = ("error", "evolve")


def check_policy(on_schema_change: str | None) -> None:
    """PlanError unless it is a known one, or None."""
    if on_schema_change is not None and on_schema_change not in ON_SCHEMA_CHANGE:
        raise PlanError(f"on_schema_change is 'error' or 'evolve', not {on_schema_change!r}")


def under_policy(table: Table, on_schema_change: str | None) -> Table:
    """The table as a scan with this on_schema_change reads it; one whose parts have one schema stays as it is."""
    check_policy(on_schema_change)
    change = getattr(table, "under_policy", None)
    if on_schema_change is None or change is None:
        return table
    changed: Table = change(on_schema_change)
    return changed


def suggest(name: str, names: Sequence[str]) -> str:
    """`; did you mean 'x'?`, or the first names there are."""
    close = difflib.get_close_matches(name, names, 1)
    if not close:
        close = [known for known in names if known.lower() == name.lower()]
    if close:
        return f"; did you mean {close[0]!r}?"
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"; there are: {shown}" if names else "; there are no columns"


def select_fields(schema: pa.Schema, columns: Sequence[str], what: str) -> list[pa.Field]:
    """The fields named, in that order. PlanError naming an unknown one, with a suggestion."""
    fields = []
    for name in columns:
        index = schema.get_field_index(name)
        if index < 0:
            raise PlanError(f"{what} has no column {name!r}{suggest(name, schema.names)}")
        fields.append(schema.field(index))
    return fields
