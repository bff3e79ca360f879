"""Read Parquet files: splits at row groups, row groups skipped by statistics, few values read as dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.connectors.alignment import Alignment
from qcore.connectors.base import BatchStream, FileSplit
from qcore.connectors.parquet.footer import FOOTERS, INT96_UNIT, ParquetFooter
from qcore.connectors.parquet.native import open_native
from qcore.connectors.parquet.pruning import Bounds, is_bounded, may_pass
from qcore.connectors.soundness import TRUST_LAYOUT
from qcore.connectors.storage import Location
from qcore.connectors.streams import ReaderStream, TableStream
from qcore.errors import ExecutionError
from qcore.expression.tree import Expr
from qcore.late_module import late_module
from qcore_ext.ground.fault import fault_site

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

# Row groups up to this many rows are decoded by one call without the GIL; larger ones batch by batch.
WHOLE_GROUP_ROWS_MAX = 512 * 1024
# Row groups that need more memory than this are decoded in pieces of about PIECE_BYTES, from a file that is read in
# pieces. Read as a whole, a row group of 60 MB of text needs 160 MB, and four times the CPU time because all that
# memory is new.
WHOLE_GROUP_BYTES_MAX = 32 << 20
PIECE_BYTES = 4 << 20
FILE_BUFFER_BYTES = 1 << 20
# Small neighbouring row groups share a split up to this many rows.
SPLIT_ROWS = 64 * 1024
# Number of alignments that a footer caches: one for each set of columns that queries read.
ALIGNMENTS_MAX = 64


def split_file(
    footer: ParquetFooter,
    partition_values: tuple[tuple[str, Any], ...],
    path: str,
    filter: Expr | None,
    split_rows: int,
    groups: Sequence[int] | None = None,
) -> Iterator[FileSplit]:
    """List the splits of a file, or of some of its row groups.

    Parameters
    ----------
    footer : ParquetFooter
        The file's footer.
    partition_values : tuple of pairs
        Columns that the file does not contain, with their values.
    path : str
        Path of the splits.
    filter : Expr or None
        Row groups in which no row can pass it are left out.
    split_rows : int
        Neighbouring row groups share a split up to this number of rows.
    groups : sequence of int, optional
        Numbers of the row groups; by default all.
    """
    runs: list[list[int]] = []
    rows = 0
    for group in range(len(footer.group_rows)) if groups is None else groups:
        n_rows = footer.group_rows[group]
        if n_rows == 0 or (filter is not None and not footer.may_pass(group, filter)):
            continue
        if runs and runs[-1][-1] == group - 1 and rows + n_rows <= split_rows:
            runs[-1].append(group)
            rows += n_rows
        else:
            runs.append([group])
            rows = n_rows
    for start, length in footer.sections(runs):
        yield FileSplit(path, start, length, partition_values)


def constant_bounds(values: Mapping[str, Any], schema: pa.Schema) -> dict[str, Bounds]:
    """Return the bounds of partition columns, each of which has one value."""
    found = {}
    for name, value in values.items():
        index = schema.get_field_index(name)
        if index >= 0 and is_bounded(schema.field(index).type):
            type, null = schema.field(index).type, value is None
            found[name] = Bounds(type, value, value, empty=null, has_nulls=null, has_values=not null)
    return found


def constants_may_pass(values: Mapping[str, Any], schema: pa.Schema, filter: Expr | None) -> bool:
    """Whether rows with these partition values can pass `filter`."""
    if filter is None or not values:
        return True
    return may_pass(filter, constant_bounds(values, schema).get)


def check_section(split: FileSplit, size: int) -> None:
    """Raise ExecutionError if a split is not inside its file of `size` bytes."""
    start, length = split.start, split.length
    if start < 0 or (length is not None and length < 0):
        raise ExecutionError(f"split of {split.path}: start {start} and length {length} must not be negative")
    if start >= size or (length is not None and start + length > size):
        section = f"bytes {start} to {'the end' if length is None else start + length}"
        raise ExecutionError(f"split of {split.path} asks for {section}, but the file has {size} bytes")


def open_parquet(
    split: FileSplit,
    location: Location,
    wanted: Sequence[pa.Field],
    filter: Expr | None,
    batch_rows: int,
    *,
    absent_is_null: bool = False,
    ignore_case: bool = False,
    on_schema_change: str | None = None,
) -> BatchStream:
    """Read the columns `wanted` of the row groups of a split, except row groups in which no row can pass `filter`.

    `absent_is_null`, `ignore_case` and `on_schema_change` are parameters of Alignment.
    """
    footer = FOOTERS.get(location)
    check_section(split, footer.size)
    held = footer.groups_in(split.start, split.length)
    groups = held if filter is None else [group for group in held if footer.may_pass(group, filter)]
    constants = dict(split.partition_values)
    names = Alignment.names(footer.schema.names, wanted, constants, ignore_case)
    rows = _rows_of_piece(footer, groups, names, batch_rows)
    options = absent_is_null, ignore_case, on_schema_change

    def open_rest(group: int, fields: Sequence[pa.Field]) -> BatchStream:
        return _open_by_pyarrow(footer, [group], fields, (), rows, *options)

    stream = open_native(
        footer, groups, wanted, constants, rows, ignore_case, absent_is_null, open_rest
    ) or _open_by_pyarrow(footer, groups, wanted, split.partition_values, batch_rows, *options)
    stream.extent = {
        "row_groups": len(groups),
        "bytes": footer.stored_bytes(groups, names),
        "row_groups_left_out": len(held) - len(groups),
        "rows_left_out": footer.rows_in(held) - footer.rows_in(groups),
    }
    return stream


def _open_by_pyarrow(
    footer: ParquetFooter,
    groups: Sequence[int],
    wanted: Sequence[pa.Field],
    constants: tuple[tuple[str, Any], ...],
    batch_rows: int,
    absent_is_null: bool,
    ignore_case: bool,
    on_schema_change: str | None,
) -> TableStream | ReaderStream:
    """Read the columns `wanted` of row groups with pyarrow."""
    names = Alignment.names(footer.schema.names, wanted, dict(constants), ignore_case)
    dictionaries = footer.dictionary_columns(names, groups)
    plain = [name for name in names if name not in dictionaries]
    n_bytes = [footer.decoded_bytes(group, plain) for group in groups]
    file = _ColumnReader(footer, names, dictionaries, max(n_bytes, default=0) > WHOLE_GROUP_BYTES_MAX)
    try:
        alignment = _alignment(file, wanted, constants, absent_is_null, ignore_case, on_schema_change)
        n_rows = sum(footer.group_rows[group] for group in groups)
        stream: TableStream | ReaderStream
        if n_rows > WHOLE_GROUP_ROWS_MAX or sum(n_bytes) > WHOLE_GROUP_BYTES_MAX:
            batches = file.batches(groups, alignment, batch_rows)
            return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, batches), file, TRUST_LAYOUT)
        rows = alignment.table(file.read(groups)) if groups else alignment.no_rows()
        stream = TableStream(rows, batch_rows, TRUST_LAYOUT)
    except BaseException:
        file.close()
        raise
    file.close()
    return stream


def _rows_of_piece(footer: ParquetFooter, groups: Sequence[int], names: Sequence[str], batch_rows: int) -> int:
    """The rows of a batch: fewer than `batch_rows` if a row group is so wide that they would take much memory."""
    rows = batch_rows
    for group in groups:
        n_bytes = footer.decoded_bytes(group, names)
        if n_bytes > WHOLE_GROUP_BYTES_MAX:
            rows = min(rows, max(1, footer.group_rows[group] * PIECE_BYTES // n_bytes))
    return rows


def _alignment(
    file: _ColumnReader,
    wanted: Sequence[pa.Field],
    constants: tuple[tuple[str, Any], ...],
    absent_is_null: bool,
    ignore_case: bool,
    on_schema_change: str | None,
) -> Alignment:
    """Return the conversion of a file's columns to those wanted. Without constants it is cached in the footer."""
    footer = file.footer

    def make() -> Alignment:
        return Alignment(
            file.schema(),
            wanted,
            footer.location.path,
            dict(constants),
            footer.decimals,
            absent_is_null,
            ignore_case,
            on_schema_change,
        )

    if constants:
        return make()
    key = (tuple(wanted), file.dictionaries, absent_is_null, ignore_case, on_schema_change)
    alignment = footer.alignments.get(key)
    if alignment is None:
        alignment = make()
        if len(footer.alignments) >= ALIGNMENTS_MAX:
            footer.alignments.clear()
        footer.alignments[key] = alignment
    return alignment


class _ColumnReader:
    """Reads columns of one file, on one thread. `is_wide`: a row group needs more than WHOLE_GROUP_BYTES_MAX."""

    def __init__(
        self, footer: ParquetFooter, names: list[str], dictionaries: tuple[str, ...], is_wide: bool = False
    ) -> None:
        self.footer = footer
        self._is_wide = is_wide
        self.dictionaries = dictionaries
        self._path = footer.location.path
        self._names = names
        self._opened: pq.ParquetFile | None = None

    def schema(self) -> pa.Schema:
        """The schema of the rows that are read."""
        held = self._file.schema_arrow
        # Without metadata, which would make equal schemas differ.
        return pa.schema([held.field(name).remove_metadata() for name in self._names])

    @property
    def _file(self) -> pq.ParquetFile:
        """The file, opened when it is first read. Many splits have no row group that can pass the filter."""
        if self._opened is None:
            location = self.footer.location
            try:
                self._opened = pq.ParquetFile(
                    location.source(),
                    metadata=self.footer.reading_metadata,
                    read_dictionary=self.dictionaries,
                    # Local reads become 1.2-4 times slower by the extra copy. On a network it combines many small
                    # requests into few large ones.
                    pre_buffer=location.filesystem is not None,
                    buffer_size=FILE_BUFFER_BYTES if self._is_wide else 0,
                    coerce_int96_timestamp_unit=INT96_UNIT,
                )
            except (OSError, pa.ArrowException) as error:
                raise ExecutionError(f"cannot open {self._path}: {error}") from error
        return self._opened

    def read(self, groups: Sequence[int]) -> pa.Table:
        """Read row groups. The columns are in the file's order, and a name with a dot may match other columns too."""
        try:
            fault_site("file_read")
            return self._file.read_row_groups(list(groups), columns=self._names, use_threads=False)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise ExecutionError(f"cannot read {self._path}, row groups {list(groups)}: {error}") from error

    def batches(self, groups: Sequence[int], alignment: Alignment, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read row groups a batch at a time, aligned."""
        for group in groups:
            n_rows = self.footer.group_rows[group]
            n_bytes = self.footer.decoded_bytes(group, [name for name in self._names if name not in self.dictionaries])
            if n_rows <= WHOLE_GROUP_ROWS_MAX and n_bytes <= WHOLE_GROUP_BYTES_MAX:
                yield from alignment.table(self.read([group])).to_batches(max_chunksize=batch_rows)
                continue
            rows = min(batch_rows, max(1, n_rows * PIECE_BYTES // max(n_bytes, 1)))
            try:
                for batch in self._file.iter_batches(rows, [group], columns=self._names, use_threads=False):
                    fault_site("file_read")
                    yield alignment.batch(batch)
            except (OSError, pa.ArrowException, ValueError) as error:
                raise ExecutionError(f"cannot read {self._path}, row group {group}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close(force=True)
