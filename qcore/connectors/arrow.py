"""Tables made of Arrow data in memory, of Arrow streams, and of pyarrow datasets."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import pyarrow as pa

from qcore.connectors.alignment import Alignment, logical_schema, passes
from qcore.connectors.base import BatchStream, Split, StoredTable, TableStatistics, select_fields
from qcore.connectors.column_samples import SampledStatistics
from qcore.connectors.soundness import (
    TRUST_EVERYTHING,
    SoundColumns,
    is_text,
    is_trusted,
    needs_a_pass,
    require_sound,
)
from qcore.connectors.streams import ReaderStream, TableStream
from qcore.errors import ExecutionError, PlanError
from qcore.expression.tree import Expr
from qcore.plan.row_order import RowOrder
from qcore.record import record
from qcore_ext.data.checked_stream import CheckedStream
from qcore_ext.data.given_batches import GivenBatches, checked_mode
from qcore_ext.data.stored_rows import StoredRows
from qcore_ext.execution.scheduler import WaitingForOthers
from qcore_ext.ground.process import ProcessLock
from qcore_ext.ground.thread_token import TokenLock

# Rows of a split: a few batches, so that drivers finish at about the same time. Opening a split takes about 12 µs.
SPLIT_ROWS_MAX = 256 * 1024
SPLIT_ROWS_MIN = 16 * 1024
# Selections of columns whose rows are kept for drivers. One takes about 100 bytes for each column of each chunk.
STORED_MAX = 64


@record(frozen=True)
class ArrowSplit(Split):
    """The rows `start` to `start + length` (exclusive) of a table in memory."""

    start: int
    length: int


class ArrowTable(StoredTable):
    """A pyarrow Table, which is never copied. Any thread may use it.

    Its rows are checked when they are first read (see soundness), unless it is `trusted`.
    """

    def __init__(self, data: pa.Table, trusted: bool = False) -> None:
        self.schema = logical_schema(data.schema, "the Arrow table")
        self._sound = None if trusted else SoundColumns.of(data)
        self._statistics = SampledStatistics.of(data, trusted)
        self._data = data.replace_schema_metadata()
        self._alignments: dict[tuple[str, ...], Alignment | None] = {}
        self._stored: dict[tuple[str, ...], StoredRows | None] = {}
        #: Objects that charge the table's memory to a session's pool while the table lives.
        self.kept: list[Any] = []

    def rows(self) -> pa.Table:
        """Return all rows in the schema that queries see, checked."""
        if self._sound is not None:
            self._sound.require(self._data, self._data.column_names, 0, self._data.num_rows)
        return self._data.cast(self.schema)

    def statistics(self) -> TableStatistics:
        """Return the number of rows, and statistics of a sample of each column (see column_samples)."""
        return TableStatistics(self._data.num_rows, self._statistics)

    def row_order(self, column: str) -> RowOrder | None:
        """Return whether the rows are in ascending order of a column without nulls."""
        if not passes(self._data.schema.field(column).type, self.schema.field(column).type):
            return None
        return RowOrder() if self._statistics.is_ordered(column) else None

    def version(self) -> int:
        """Return 0: the table never changes."""
        return 0

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """List sections of up to SPLIT_ROWS_MAX rows, cut at chunks of the first column if these are large."""
        select_fields(self.schema, columns, "the Arrow table")
        n_rows = self._data.num_rows
        rows = min(SPLIT_ROWS_MAX, max(SPLIT_ROWS_MIN, n_rows // max(1, target) // 2048 * 2048))
        chunks = [len(chunk) for chunk in self._data.column(columns[0]).chunks] if columns else [n_rows]
        start = pending = 0
        for n in chunks:
            if pending and pending + n > rows:
                yield ArrowSplit(start, pending)
                start, pending = start + pending, 0
            pending += n
            while pending >= 2 * rows:
                yield ArrowSplit(start, rows)
                start, pending = start + rows, pending - rows
        if pending:
            yield ArrowSplit(start, pending)

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Read the rows of a split as slices of the table."""
        if not isinstance(split, ArrowSplit):
            raise ExecutionError(f"an Arrow table cannot read a {type(split).__name__}: add ArrowSplits")
        if split.start < 0 or split.length < 0 or split.start + split.length > self._data.num_rows:
            raise ExecutionError(
                f"split of rows {split.start} to {split.start + split.length}, but the Arrow table has "
                f"{self._data.num_rows} rows"
            )
        alignment = self._alignment(columns)
        rows = self._data.select(columns).slice(split.start, split.length)
        if alignment is None:
            checks = None
            if self._sound is not None:
                checks = self._sound.to_check(self._data, columns, split.start, split.length)
            return TableStream(rows, batch_rows, TRUST_EVERYTHING, is_held_outside=True, row_checks=checks)
        if self._sound is not None:
            self._sound.require(self._data, columns, split.start, split.length)
        return TableStream(alignment.table(rows), batch_rows, TRUST_EVERYTHING)

    def stored_rows(self, columns: tuple[str, ...]) -> StoredRows | None:
        """Return the rows of these columns in the form that drivers read without the GIL.

        None for columns that reads convert or check as a whole: nested ones and dictionaries.
        """
        if columns not in self._stored:
            if len(self._stored) >= STORED_MAX:
                self._stored.clear()
            self._stored[columns] = self._store(columns)
        return self._stored.get(columns)

    def _store(self, columns: tuple[str, ...]) -> StoredRows | None:
        if not columns or any(name not in self._data.column_names for name in columns):
            return None
        rows = self._data.select(columns)
        types = rows.schema.types
        if self._alignment(columns) is not None or any(needs_a_pass(type) and not is_text(type) for type in types):
            return None
        checks = None if self._sound is None else self._sound.text_checks(self._data, columns)
        stored = StoredRows(TableStream(rows, max(8, rows.num_rows), TRUST_EVERYTHING), checks)
        return stored if stored.is_checked else None

    def _alignment(self, columns: tuple[str, ...]) -> Alignment | None:
        """The conversion of the columns to their declared types; None if none is needed."""
        if columns not in self._alignments:
            wanted = select_fields(self.schema, columns, "the Arrow table")
            held = self._data.schema
            as_is = all(passes(held.field(item.name).type, item.type) for item in wanted)
            self._alignments[columns] = None if as_is else Alignment(held, wanted, "the Arrow table")
        return self._alignments[columns]


class _Run:
    """One pass over a stream, shared by the drivers. Each driver takes the next batch under a lock."""

    def __init__(self, reader: pa.RecordBatchReader, name: str, is_checked: bool) -> None:
        self._name = name
        self._is_checked = is_checked
        self._given = GivenBatches() if checked_mode() else None
        self._reader: pa.RecordBatchReader | None = reader
        self._slices: deque[pa.RecordBatch] = deque()
        self._lock = TokenLock()

    def batches(self, alignment: Alignment, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Take batches that no other driver took, until the stream ends."""
        while (batch := self._next(batch_rows)) is not None:
            yield alignment.batch(batch)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._lock.try_acquire():
            # The driver that holds the lock waits for the stream. The stream may be a query that needs this thread or
            # its memory to continue.
            with WaitingForOthers():
                self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def _next(self, batch_rows: int) -> pa.RecordBatch | None:
        with self._turn():
            while not self._slices:
                if self._reader is None:
                    return None
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    self._reader = None
                    self._watch(None)
                    return None
                except (pa.ArrowException, OSError) as error:
                    self._reader = None
                    # pyarrow appends the stack trace of the Python code that feeds the stream.
                    cause = str(error).partition(". Detail: Python exception")[0]
                    raise ExecutionError(f"the Arrow stream failed: {cause}") from error
                if not self._is_checked:
                    require_sound(batch, self._name)
                self._watch(batch)
                self._slices.extend(batch.slice(at, batch_rows) for at in range(0, batch.num_rows, batch_rows))
            return self._slices.popleft()

    def _watch(self, batch: pa.RecordBatch | None) -> None:
        """In checked mode, raise ExecutionError if the stream has changed the memory of an earlier batch."""
        if self._given is None:
            return
        try:
            if batch is None:
                self._given.check_all()
            else:
                self._given.check_last()
                self._given.add(batch)
        except ExecutionError as error:
            raise ExecutionError(f"{self._name} {error}") from None


@record(frozen=True)
class StreamSplit(Split):
    """One driver's share of a stream: the batches that it takes before the other drivers."""

    number: int
    run: _Run = field(compare=False, repr=False)

    def __reduce__(self) -> Any:
        raise TypeError("a split of an Arrow stream cannot be pickled: the stream lives in this process")


class StreamTable:
    """A table of an object with `__arrow_c_stream__`. An iterator is read once; other objects make a new stream a scan.

    Its batches are checked unless it is `trusted`, by parameter or by its attribute `trust` (see soundness). Batches of
    pyarrow's readers are checked after they are read, because pyarrow knows the sizes of their buffers; others before.
    """

    def __init__(self, source: Any, trusted: bool = False) -> None:
        self._source = source
        self._trusted = trusted or is_trusted(source)
        self._once = hasattr(source, "__next__")
        self._lock = ProcessLock()
        self._first: pa.RecordBatchReader | None = self._connect()
        self._held = self._first.schema
        self.schema = logical_schema(self._held, self._name())
        if not self._once:
            self._first = None

    def _name(self) -> str:
        kind = type(self._source)
        return f"the {kind.__module__.partition('.')[0]} {kind.__name__}"

    def _connect(self) -> pa.RecordBatchReader:
        try:
            if isinstance(self._source, pa.RecordBatchReader):
                return self._source  # not through the C interface, which does not carry the sizes of buffers
            if self._trusted:
                return pa.RecordBatchReader.from_stream(self._source)
            return pa.RecordBatchReader.from_stream(CheckedStream(self._source))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise PlanError(f"{self._name()} does not return an Arrow stream: {error}") from error

    def statistics(self) -> TableStatistics:
        """Return unknown statistics."""
        return TableStatistics()

    def version(self) -> int:
        """Return 0: the schema and the statistics of the stream never change."""
        return 0

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """List one share for each driver. PlanError if the source is an iterator that was read before."""
        select_fields(self.schema, columns, self._name())
        if self._once:
            with self._lock:
                reader, self._first = self._first, None
            if reader is None:
                raise PlanError(
                    f"{self._name()} has been read already, and a stream can be read only once; "
                    "pass a new one, or a pyarrow Table (reader.read_all())"
                )
        else:
            reader = self._connect()
        known = self._trusted or not isinstance(self._source, pa.RecordBatchReader)
        run = _Run(reader, self._name(), known)
        return iter([StreamSplit(number, run) for number in range(max(1, target))])

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Read the share of one driver."""
        if not isinstance(split, StreamSplit):
            raise ExecutionError(f"{self._name()} cannot read a {type(split).__name__}: add StreamSplits")
        alignment = Alignment(self._held, select_fields(self.schema, columns, self._name()), self._name())
        batches = split.run.batches(alignment, batch_rows)
        return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, batches), None, TRUST_EVERYTHING)


@record(frozen=True)
class FragmentSplit(Split):
    """One fragment of a pyarrow dataset; `number` None: the whole of a dataset that does not list its fragments."""

    number: int | None


class DatasetTable:
    """A pyarrow Dataset, read by its own scanner. Used for datasets that are more than a list of Parquet files."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._fragments: list[Any] | None
        try:
            self._fragments = list(dataset.get_fragments())
        except ValueError:
            self._fragments = None
        self.schema = logical_schema(dataset.schema, "the dataset")

    def statistics(self) -> TableStatistics:
        """Return unknown statistics: they would need a call for each fragment."""
        return TableStatistics()

    def version(self) -> int:
        """Return 0: the schema and the statistics of the dataset never change."""
        return 0

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """List one split for each fragment."""
        select_fields(self.schema, columns, "the dataset")
        if self._fragments is None:
            return iter([FragmentSplit(None)])
        return iter([FragmentSplit(number) for number in range(len(self._fragments))])

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Scan one fragment on this thread."""
        if not isinstance(split, FragmentSplit):
            raise ExecutionError(f"a dataset cannot read a {type(split).__name__}: add FragmentSplits")
        # At least one column, because a scanner without columns returns no rows to count.
        names = list(columns) or self.schema.names[:1]
        options: dict[str, Any] = {"columns": names, "batch_size": batch_rows, "use_threads": False}
        if split.number is None or self._fragments is None:
            scanner = self._dataset.scanner(**options)
        else:
            scanner = self._fragments[split.number].scanner(schema=self._dataset.schema, **options)
        reader = scanner.to_reader()
        wanted = select_fields(self.schema, columns, "the dataset")
        alignment = Alignment(reader.schema, wanted, "the dataset")
        batches = (alignment.batch(require_sound(batch, "the dataset")) for batch in reader)
        return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, batches), reader, TRUST_EVERYTHING)
