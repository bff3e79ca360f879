"""The interface of data sources: a `Table` lists its splits and opens each split as an Arrow stream."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import pyarrow as pa

from qcore.errors import PlanError, QcoreError
from qcore.expression.tree import Expr
from qcore.plan.row_order import RowOrder
from qcore.record import record

if TYPE_CHECKING:
    from qcore_ext.data.stored_rows import StoredRows


@record(frozen=True)
class ColumnStatistics:
    """Statistics of one column that are known without reading all its rows. None: unknown.

    Attributes
    ----------
    min, max : object
        Bounds of all values except null and NaN, as Python values of the column's type. They need not occur.
        If `is_sampled`, bounds of the sample: other values may lie outside.
    null_count : int or None
        Number of nulls.
    distinct_count : int or None
        Estimated number of distinct values without null.
    is_sampled : bool
        Whether the bounds and the number of distinct values come from a sample of the rows.
    is_clustered : bool
        Whether rows with equal values are known to be near each other: a part of the table, such as a row group of a
        Parquet file, has values that the other parts do not have.
    most_common_share : float or None
        Estimated share of the values, without null, that are the most common value.
    """

    min: Any = None
    max: Any = None
    null_count: int | None = None
    distinct_count: int | None = None
    is_sampled: bool = False
    is_clustered: bool = False
    most_common_share: float | None = None


UNKNOWN_COLUMN = ColumnStatistics()


@record(frozen=True)
class TableStatistics:
    """Statistics of a table for the optimizer, known without reading all its data.

    Attributes
    ----------
    row_count : int or None
        Number of rows; None: unknown.
    columns : mapping of str to ColumnStatistics
        Statistics by column. The mapping may compute an entry at its first access, so read only the columns needed.
    """

    row_count: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def column(self, name: str) -> ColumnStatistics:
        """Return the statistics of one column, with all values unknown if there are none."""
        return self.columns.get(name, UNKNOWN_COLUMN)


@dataclass(frozen=True)
class Split:
    """Describes a part of a table's rows. Splits can be pickled, so that another process can read them."""


@dataclass(frozen=True)
class FileSplit(Split):
    """A byte section of one file.

    A section of a Parquet file selects the row groups whose middle byte lies in it. Sections that cover a file without
    overlap therefore return every row once, wherever they begin. Files of other formats are read as a whole: start 0
    and length None.

    Parameters
    ----------
    path : str
        A local path, or a URL that pyarrow or fsspec can open.
    start : int
        Offset of the section in bytes.
    length : int or None
        Length of the section in bytes; None: to the end of the file.
    partition_values : mapping or tuple of pairs
        Columns that the file does not contain, each with the value that it has in all rows.

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
    """An opened split: a stream of batches with exactly the wanted columns, in order, in the declared types.

    A string column may be string, large_string, string_view or a dictionary of one of them. A decimal may have any
    width.

    The optional attribute `trust` says which checks of the batches the engine can omit:

    - "everything": this process made the batches or has checked them.
    - "layout": pyarrow decoded them, but did not check their text.
    - "nothing" (the default): the engine checks everything.

    The query is charged for the memory of batches that it keeps, unless the stream's attribute `is_held_outside` is
    True. Then another owner, such as a table in memory, keeps that memory.
    """

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the rows as an ArrowArrayStream. Called once."""

    def close(self) -> None:
        """Release files. Also called after an error, and if the stream was not read to its end."""


@runtime_checkable
class Table(Protocol):
    """A data source, as the `source` of a Scan node. Any thread may call its methods.

    A table may also have a method `version()`. It returns a hashable object that changes with the schema and the
    statistics. Plans of queries over tables without this method are not cached.

    A table may have a method `row_order(column)`. It returns the RowOrder of its rows by a column, None if they have
    none. No row may be in two of its splits then. The method may read the column.
    """

    @property
    def schema(self) -> pa.Schema:
        """Schema of all columns, known before data is read."""

    def statistics(self) -> TableStatistics:
        """Return statistics that are cheap to read: from footers, lengths and samples."""

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterable[Split]:
        """List the splits that may have rows for `filter`.

        Parameters
        ----------
        columns : tuple of str
            The columns that will be read, by this table's names.
        filter : Expr or None
            A condition over this table's names. Splits may be left out if statistics show that none of their rows can
            pass it.
        target : int
            Number of splits that keeps the drivers busy. There may be more or fewer.

        Returns
        -------
        iterable of Split
            May be lazy. If taking the next split may wait, the table has an attribute `splits_wait` = True. The
            iterator then runs in a separate thread, and another thread may call its `close`, if it has one.
        """

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Start reading a split, in batches of about `batch_rows` rows. Rows that fail `filter` may be included."""


class StoredTable(ABC):
    """The base of tables in memory whose rows drivers can read without the GIL. Such a class is also a Table."""

    @abstractmethod
    def stored_rows(self, columns: tuple[str, ...]) -> StoredRows | None:
        """Return the rows of these columns for drivers. None: this selection must be read through splits."""


def table_version(table: Table) -> Hashable | None:
    """Return a table's version. None: it has no version(), or its files cannot be read now."""
    version = getattr(table, "version", None)
    try:
        return None if version is None else cast(Hashable, version())
    except (OSError, QcoreError):
        return None


def table_row_order(table: Any, column: str) -> RowOrder | None:
    """Return the order of a table's rows by a column. None: they have none, or the table's files cannot be read now."""
    row_order = getattr(table, "row_order", None)
    try:
        return None if row_order is None else cast("RowOrder | None", row_order(column))
    except (OSError, QcoreError):
        return None


ON_SCHEMA_CHANGE = ("error", "evolve")


def check_policy(on_schema_change: str | None) -> None:
    """Raise PlanError unless `on_schema_change` is 'error', 'evolve' or None."""
    if on_schema_change is not None and on_schema_change not in ON_SCHEMA_CHANGE:
        raise PlanError(f"on_schema_change is 'error' or 'evolve', not {on_schema_change!r}")


def under_policy(table: Table, on_schema_change: str | None) -> Table:
    """Return the table with another on_schema_change. A table without parts of different schemas stays as it is."""
    check_policy(on_schema_change)
    change = getattr(table, "under_policy", None)
    if on_schema_change is None or change is None:
        return table
    changed: Table = change(on_schema_change)
    return changed


def suggest(name: str, names: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: the closest known name, or the first known names."""
    close = difflib.get_close_matches(name, names, 1)
    if not close:
        close = [known for known in names if known.lower() == name.lower()]
    if close:
        return f"; did you mean {close[0]!r}?"
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"; its columns are: {shown}" if names else "; it has no columns"


def select_fields(schema: pa.Schema, columns: Sequence[str], what: str) -> list[pa.Field]:
    """Return the named fields in order. Raises PlanError for an unknown name, with a suggestion."""
    fields = []
    for name in columns:
        index = schema.get_field_index(name)
        if index < 0:
            raise PlanError(f"{what} has no column {name!r}{suggest(name, schema.names)}")
        fields.append(schema.field(index))
    return fields
