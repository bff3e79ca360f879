"""Tables made of files: Parquet, CSV, Arrow IPC, ORC; local or on any pyarrow or fsspec filesystem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from qcore.access import FileAccess
from qcore.connectors.alignment import logical_schema, require_same, unify_schemas
from qcore.connectors.base import BatchStream, FileSplit, Split, TableStatistics, select_fields
from qcore.connectors.other_formats import CSV, IPC, ORC, FileFormat, open_whole, read_schema
from qcore.connectors.parquet.footer import FOOTERS
from qcore.connectors.parquet.statistics import FooterStatistics
from qcore.connectors.parquet.table import SPLIT_ROWS, constants_may_pass, open_parquet, split_file
from qcore.connectors.storage import FoundFile, Location, find_files, locate, partition_columns
from qcore.errors import ExecutionError, PlanError
from qcore.expression.tree import Expr

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
COMPRESSIONS = (".gz", ".bz2", ".zst")
# More footers than this are read by several threads, since each costs a round trip on remote storage.
FOOTERS_ONE_THREAD_MAX = 4
FOOTER_THREADS = 8


def format_of(location: Location) -> FileFormat | str:
    """The format, by the name's ending, else by the first bytes. PlanError when neither tells."""
    name = location.path.lower()
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression)
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
    raise PlanError(f"the format of {location.path} is not known: name it .parquet, .csv, .arrow or .orc")


class FileTable:
    """Files of one format with the union of their columns. Safe to use from any thread, and picklable.

    Parameters
    ----------
    source : path, URL, glob, directory, or sequence of them
        Hidden files are left out of directories; folders named key=value give columns.
    filesystem : pyarrow or fsspec filesystem, optional
        Where the paths are; without it they are local, or URLs.
    schema : pyarrow.Schema, optional
        Declared columns, instead of those found; files are matched to them by name.
    on_schema_change : {'evolve', 'error'}
        Files of different schemas: the union of their columns, by name, in the narrowest types that hold all values
        (qcore_ext.data.widening), null where a file lacks one; or a SchemaConflictError.
    access : FileAccess, optional
        Of the session in whose queries the source is named; without it every file may be read.
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
        #: What names the files as text; None: a program's own objects do.
        self._named = None if given or filesystem is not None else source
        self._format = format_of(self._files[0].location)
        for file in self._files[1:]:
            if format_of(file.location) is not self._format and format_of(file.location) != self._format:
                raise PlanError(
                    f"{self._files[0].location.path} and {file.location.path} are of different formats: "
                    "scan them as two tables and take the union"
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
        self._constants = [self._typed(file) for file in self._files]

    def under_policy(self, on_schema_change: str) -> FileTable:
        """The same files under another on_schema_change; those of a declared schema are matched to that anyway."""
        if on_schema_change == self._on_schema_change or self._declared is not None:
            return self
        return FileTable(self._files, on_schema_change=on_schema_change)

    def under_access(self, access: FileAccess) -> FileTable:
        """The same files, each checked when it is opened too. PlanError when one is not allowed."""
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
        if len(self._files) <= FOOTERS_ONE_THREAD_MAX:
            return [self._read_schema(file) for file in self._files]
        with ThreadPoolExecutor(FOOTER_THREADS, "qcore-footer") as pool:
            try:
                schemas = pool.map(self._read_schema, self._files)
            except RuntimeError:  # the interpreter is leaving: Python starts no thread of a pool any more
                return [self._read_schema(file) for file in self._files]
            return list(schemas)

    def _read_schema(self, file: FoundFile) -> pa.Schema:
        if isinstance(self._format, FileFormat):
            return read_schema(self._format, file.location)
        return FOOTERS.get(file.location).schema

    def _typed(self, file: FoundFile) -> tuple[tuple[str, Any], ...]:
        values = []
        for name, text in file.partition_values:
            index = self.schema.get_field_index(name)
            if index >= 0:
                type = self.schema.field(index).type
                values.append((name, None if text is None else pa.scalar(text).cast(type).as_py()))
        return tuple(values)

    def statistics(self) -> TableStatistics:
        """Row count and column ranges, from the footers."""
        if isinstance(self._format, FileFormat):
            counts = [self._format.rows_of(file.location) for file in self._files]
            return TableStatistics(None if None in counts else sum(count for count in counts if count is not None))
        rows = sum(FOOTERS.get(file.location).n_rows for file in self._files)
        locations = [file.location for file in self._files]
        files = list(zip(locations, self._constants, strict=True))
        return TableStatistics(rows, FooterStatistics(self.schema, files))

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """About one split a row group; other formats: one a file."""
        select_fields(self.schema, columns, self._name())
        if isinstance(self._format, FileFormat):
            for file, constants in zip(self._files, self._constants, strict=True):
                if constants_may_pass(dict(constants), self.schema, filter):
                    yield FileSplit(file.location.path, 0, None, constants)
            return
        footers = [FOOTERS.get(file.location) for file in self._files]
        # Few splits for little work, but enough to keep every driver busy.
        split_rows = min(SPLIT_ROWS, sum(footer.n_rows for footer in footers) // max(1, target))
        for footer, constants in zip(footers, self._constants, strict=True):
            if constants_may_pass(dict(constants), self.schema, filter):
                yield from split_file(footer, constants, footer.location.path, filter, split_rows)

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Read a split of this table, or one the application made of any file with such columns."""
        file = _file_split(split)
        location = self._by_path.get(file.path) or locate(file.path)
        wanted = select_fields(self.schema, columns, self._name())
        return open_file(file, location, wanted, filter, batch_rows, declared=self.schema, absent_is_null=True)


class SplitTable:
    """A table of declared columns whose splits the application adds itself (SPEC V3): files of any format.

    Parameters
    ----------
    schema : pyarrow.Schema
        The declared columns; every file must have them, by name.
    on_schema_change : {None, 'error', 'evolve'}
        What a file may hold where another type is declared: any that can be cast to it, value by value; none; or those
        that widen into it, and nothing at all, which is null then.
    """

    def __init__(self, schema: pa.Schema, on_schema_change: str | None = None) -> None:
        self._on_schema_change = on_schema_change
        self.schema = logical_schema(schema, "the declared schema")

    def statistics(self) -> TableStatistics:
        """Nothing is known before splits come."""
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterable[Split]:
        """None of its own."""
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
        raise ExecutionError(f"a {type(split).__name__} cannot be read by a table of files: add FileSplits to its node")
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
    """Open a section of a file of any known format. ExecutionError naming the path when it cannot be read."""
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
