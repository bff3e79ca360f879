"""Tables made of files: Parquet, CSV, Arrow IPC, ORC; local or on any pyarrow or fsspec filesystem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from qcore.access import FileAccess
from qcore.connectors.alignment import logical_schema, require_same, unify_schemas
from qcore.connectors.base import BatchStream, FileSplit, Split, TableStatistics, select_fields
from qcore.connectors.other_formats import CSV, IPC, ORC, FileFormat, open_whole, read_row_count, read_schema
from qcore.connectors.parquet.footer import FOOTERS
from qcore.connectors.parquet.native import columns_of_pyarrow
from qcore.connectors.parquet.row_order import order_of_row_groups
from qcore.connectors.parquet.statistics import FooterStatistics
from qcore.connectors.parquet.table import SPLIT_ROWS, constants_may_pass, open_parquet, split_file
from qcore.connectors.storage import (
    FoundFile,
    Location,
    find_files,
    locate,
    partition_columns,
    read_in_threads,
    without_compression,
)
from qcore.errors import ExecutionError, PlanError
from qcore.expression.tree import Expr
from qcore.plan.row_order import RowOrder

PARQUET = "Parquet"
SUFFIXES: dict[str, FileFormat | str] = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".parq": PARQUET,
    ".csv": CSV,
    ".tsv": CSV,
    ".tbl": CSV,
    ".arrow": IPC,
    ".arrows": IPC,
    ".feather": IPC,
    ".ipc": IPC,
    ".orc": ORC,
}
MAGIC: tuple[tuple[bytes, FileFormat | str], ...] = ((b"PAR1", PARQUET), (b"ARROW1", IPC), (b"ORC", ORC))


def format_of(location: Location) -> FileFormat | str:
    """Return the format of a file by its suffix, else by its first bytes. PlanError if both are unknown."""
    name = without_compression(location.path)
    for suffix, format in SUFFIXES.items():
        if name.endswith(suffix):
            return format
    try:
        with location.open() as file:
            head = bytes(file.read(6))
    except OSError as error:
        raise PlanError(f"no such file: {location.path} ({error})") from error
    for magic, format in MAGIC:
        if head.startswith(magic):
            return format
    raise PlanError(f"the format of {location.path} is unknown: use the suffix .parquet, .csv, .arrow or .orc")


class FileTable:
    """Files of one format as a table with the union of their columns. Any thread may use it; it can be pickled.

    Parameters
    ----------
    source : path, URL, glob, folder, or sequence of them
        Hidden files in folders are left out. Folders named key=value add columns.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the paths; without it they are local paths or URLs.
    schema : pyarrow.Schema, optional
        Declared columns, in place of those of the files. Files are matched to them by name.
    on_schema_change : {'evolve', 'error'}
        For files with different schemas. 'evolve': the union of their columns, matched by name, in the narrowest types
        that hold all values (see qcore_ext.data.widening), null where a file lacks a column. 'error': raise
        SchemaConflictError.
    access : FileAccess, optional
        The access setting of the session whose query names the source; without it every file may be read.

    Raises
    ------
    PlanError
        There is no such file, its format is unknown, it is damaged, or `access` denies it.
    SchemaConflictError
        The files' schemas do not widen into one, or differ under 'error'.
    """

    def __init__(
        self,
        source: Any,
        filesystem: Any = None,
        schema: pa.Schema | None = None,
        on_schema_change: str = "evolve",
        access: FileAccess | None = None,
    ) -> None:
        given = isinstance(source, list) and bool(source) and isinstance(source[0], FoundFile)
        self._files: list[FoundFile] = source if given else find_files(source, filesystem, access)
        #: The source as text if `access` applies to it; None: Python objects named the files.
        self._named = None if given or filesystem is not None else source
        self._access = access
        self._format = format_of(self._files[0].location)
        for file in self._files[1:]:
            if format_of(file.location) is not self._format and format_of(file.location) != self._format:
                raise PlanError(
                    f"{self._files[0].location.path} and {file.location.path} have different formats: "
                    "register them as two tables and combine them with UNION ALL"
                )
        self._by_path = {file.location.path: file.location for file in self._files}
        partitions = partition_columns(self._files)
        self._declared = schema
        self._on_schema_change = on_schema_change
        if schema is None:
            found = self._one_schema()
            in_names = {field.name for field in partitions}
            schema = pa.schema([field for field in found if field.name not in in_names] + partitions)
        self.schema = logical_schema(schema, self._name())
        self._constants = [self._read_types(file) for file in self._files]
        #: The versions of the Parquet files, and the statistics that were read from them.
        self._statistics: tuple[Any, TableStatistics] = (None, TableStatistics())

    def under_policy(self, on_schema_change: str) -> FileTable:
        """Return the same files with another on_schema_change. It has no effect if a schema is declared."""
        if on_schema_change == self._on_schema_change or self._declared is not None:
            return self
        return FileTable(self._files, on_schema_change=on_schema_change)

    def under_access(self, access: FileAccess) -> FileTable:
        """Return the same files, also checked when they are opened. PlanError if `access` denies one."""
        if self._named is None or not access.is_restricted:
            return self
        return FileTable(self._named, None, self._declared, self._on_schema_change, access)

    def _one_schema(self) -> pa.Schema:
        named = zip(self._paths(), self._read_schemas(), strict=True)
        return require_same(named) if self._on_schema_change == "error" else unify_schemas(named)

    def _paths(self) -> list[str]:
        return [file.location.path for file in self._files]

    def _name(self) -> str:
        first = self._files[0].location.path
        return first if len(self._files) == 1 else f"{first} and {len(self._files) - 1} more files"

    def _read_schemas(self) -> list[pa.Schema]:
        return read_in_threads(self._read_schema, self._files)

    def _read_schema(self, file: FoundFile) -> pa.Schema:
        if isinstance(self._format, FileFormat):
            return read_schema(self._format, file.location)
        return FOOTERS.get(file.location).schema

    def _read_types(self, file: FoundFile) -> tuple[tuple[str, Any], ...]:
        values = []
        for name, text in file.partition_values:
            index = self.schema.get_field_index(name)
            if index >= 0:
                type = self.schema.field(index).type
                values.append((name, None if text is None else pa.scalar(text).cast(type).as_py()))
        return tuple(values)

    def statistics(self) -> TableStatistics:
        """Return the number of rows and, for Parquet, statistics of columns, from the footers."""
        if isinstance(self._format, FileFormat):
            counts = [read_row_count(self._format, file.location) for file in self._files]
            return TableStatistics(None if None in counts else sum(count for count in counts if count is not None))
        footers = [FOOTERS.get(file.location) for file in self._files]
        version = tuple(footer.stamp for footer in footers)
        known, statistics = self._statistics
        if known != version:
            files = [(file.location, constants) for file, constants in zip(self._files, self._constants, strict=True)]
            rows = sum(footer.n_rows for footer in footers)
            statistics = TableStatistics(rows, FooterStatistics(self.schema, files))
            self._statistics = version, statistics
        return statistics

    def row_order(self, column: str) -> RowOrder | None:
        """Return the bounds of a column in the row groups of Parquet files, if these have only bounds in common."""
        if isinstance(self._format, FileFormat) or any(column in dict(constants) for constants in self._constants):
            return None
        footers = [FOOTERS.get(file.location) for file in self._files]
        return order_of_row_groups(footers, self.schema.field(column))

    def version(self) -> tuple[tuple[int, int], ...]:
        """Return the size and the modification time of each file. OSError: a file is gone."""
        return tuple(file.location.stamp() for file in self._files)

    def is_listed(self) -> bool:
        """Whether a query that names the source would find the same files now."""
        try:
            return self._named is None or find_files(self._named, None, self._access) == self._files
        except PlanError:
            return False

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """List about one split for each row group; for other formats one for each file."""
        select_fields(self.schema, columns, self._name())
        if isinstance(self._format, FileFormat):
            for file, constants in zip(self._files, self._constants, strict=True):
                if constants_may_pass(dict(constants), self.schema, filter):
                    yield FileSplit(file.location.path, 0, None, constants)
            return
        footers = [FOOTERS.get(file.location) for file in self._files]
        # Small row groups share splits if every driver still gets `target` / drivers of them.
        split_rows = min(SPLIT_ROWS, sum(footer.n_rows for footer in footers) // max(1, target))
        for footer, constants in zip(footers, self._constants, strict=True):
            if constants_may_pass(dict(constants), self.schema, filter):
                yield from split_file(footer, constants, footer.location.path, filter, split_rows)

    def columns_of_pyarrow(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of Parquet files that the engine's own decoder does not read in every row group."""
        if isinstance(self._format, FileFormat):
            return []
        found = {name for file in self._files for name in columns_of_pyarrow(FOOTERS.get(file.location), columns)}
        return [name for name in columns if name in found]

    def parquet_extent(self, columns: Sequence[str]) -> tuple[int, int]:
        """Return the number of row groups, and of the bytes that the columns take in them; 0 for other formats."""
        if isinstance(self._format, FileFormat):
            return 0, 0
        footers = [FOOTERS.get(file.location) for file in self._files]
        n_bytes = sum(footer.stored_bytes(range(len(footer.group_rows)), columns) for footer in footers)
        return sum(len(footer.group_rows) for footer in footers), n_bytes

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Read a split of this table, or a split of any other file with these columns that the application made."""
        file = _file_split(split)
        location = self._by_path.get(file.path) or locate(file.path)
        wanted = select_fields(self.schema, columns, self._name())
        return open_file(file, location, wanted, filter, batch_rows, declared=self.schema, absent_is_null=True)


class SplitTable:
    """A table with declared columns. The application adds its splits: sections of files of any format.

    Parameters
    ----------
    schema : pyarrow.Schema
        The declared columns. Files are matched to them by name.
    on_schema_change : {None, 'error', 'evolve'}
        Which types a file's column may have. None: every type that can be cast to the declared one. 'error': only the
        declared type. 'evolve': types that widen into the declared one; a column that the file lacks is null.
    """

    def __init__(self, schema: pa.Schema, on_schema_change: str | None = None) -> None:
        self._on_schema_change = on_schema_change
        self.schema = logical_schema(schema, "the declared schema")

    def statistics(self) -> TableStatistics:
        """Return unknown statistics: there are no files yet."""
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterable[Split]:
        """Return no splits: the application adds them."""
        return ()

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Read a file section."""
        file = _file_split(split)
        wanted = select_fields(self.schema, columns, "the declared schema")
        return open_file(
            file,
            locate(file.path),
            wanted,
            filter,
            batch_rows,
            declared=self.schema,
            absent_is_null=self._on_schema_change == "evolve",
            on_schema_change=self._on_schema_change,
        )


def _file_split(split: Split) -> FileSplit:
    if not isinstance(split, FileSplit):
        raise ExecutionError(f"a table of files cannot read a {type(split).__name__}: add FileSplits to its scan node")
    return split


def open_file(
    split: FileSplit,
    location: Location,
    wanted: Sequence[pa.Field],
    filter: Expr | None,
    batch_rows: int,
    *,
    declared: pa.Schema | None = None,
    absent_is_null: bool = False,
    ignore_case: bool = False,
    on_schema_change: str | None = None,
) -> BatchStream:
    """Open a section of a file of any known format.

    Parameters
    ----------
    split : FileSplit
        The section, and the values of partition columns.
    location : Location
        The file.
    wanted : sequence of pyarrow.Field
        The columns to read, in order, in the declared types.
    filter : Expr or None
        Condition by which row groups may be left out.
    batch_rows : int
        Approximate number of rows of each batch.
    declared : pyarrow.Schema, optional
        Declared types of formats without types (CSV).
    absent_is_null, ignore_case, on_schema_change
        As the parameters of Alignment.

    Raises
    ------
    ExecutionError
        The file cannot be read. The message names its path.
    """
    try:
        format = format_of(location)
        if isinstance(format, FileFormat):
            return open_whole(
                format,
                split,
                location,
                wanted,
                batch_rows,
                declared=declared,
                absent_is_null=absent_is_null,
                on_schema_change=on_schema_change,
            )
        return open_parquet(
            split,
            location,
            wanted,
            filter,
            batch_rows,
            absent_is_null=absent_is_null,
            ignore_case=ignore_case,
            on_schema_change=on_schema_change,
        )
    except PlanError as error:
        raise ExecutionError(str(error)) from error
