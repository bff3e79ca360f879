"""CSV, Arrow IPC and ORC files. Each is read as a whole, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from qcore.connectors.alignment import Alignment, logical_schema
from qcore.connectors.base import BatchStream, FileSplit
from qcore.connectors.orc_check import OrcFootprint
from qcore.connectors.soundness import TRUST_EVERYTHING, TRUST_LAYOUT, require_sound
from qcore.connectors.storage import Location, without_compression
from qcore.connectors.streams import ReaderStream
from qcore.errors import ExecutionError, PlanError
from qcore.late_module import late_module
from qcore.record import record
from qcore_ext.ground.fault import fault_site

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
else:
    pacsv = late_module("pyarrow.csv")

# A block of CSV becomes one batch; types are inferred from the first block.
CSV_BLOCK_BYTES = 4 << 20
CSV_DELIMITERS = {".tsv": "\t", ".tbl": "|"}

Reader = TypeVar("Reader")


@record(frozen=True)
class FileFormat:
    """The functions that read files of one format.

    Attributes
    ----------
    name : str
        The format's name in messages.
    schema_of : callable
        Returns the schema of a file.
    rows_of : callable
        Returns the number of rows of a file, or None if that needs reading the data.
    batches_of : callable
        Takes a file, column names, the declared schema and the rows of a batch. Returns the schema of the batches, an
        iterator over them, and an object to close after it. Batches may have more columns than asked for.
    trust : str
        The `trust` of the batches (see soundness).
    """

    name: str
    schema_of: Callable[[Location], pa.Schema]
    rows_of: Callable[[Location], int | None]
    batches_of: Callable[[Location, list[str], pa.Schema | None, int], tuple[pa.Schema, Iterator[pa.RecordBatch], Any]]
    trust: str


def open_whole(
    format: FileFormat,
    split: FileSplit,
    location: Location,
    wanted: Sequence[pa.Field],
    batch_rows: int,
    *,
    declared: pa.Schema | None = None,
    absent_is_null: bool = False,
    on_schema_change: str | None = None,
) -> BatchStream:
    """Read a whole file. ExecutionError for a section of a file: these formats cannot be cut at bytes."""
    if split.start != 0 or split.length is not None:
        raise ExecutionError(
            f"split of {split.path}: a {format.name} file is read as a whole, so start must be 0 and length None, "
            f"not {split.start} and {split.length}"
        )
    constants = dict(split.partition_values)
    try:
        held = format.schema_of(location)
        names = Alignment.names(held.names, wanted, constants, False)
        schema, batches, closing = format.batches_of(location, names, declared, batch_rows)
    except FileNotFoundError as error:
        raise ExecutionError(f"no such file: {location.path}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise ExecutionError(f"cannot read {location.path} as {format.name}: {error}") from error
    alignment = Alignment(
        schema, wanted, location.path, constants, None, absent_is_null, on_schema_change=on_schema_change
    )
    rows = _align(batches, alignment, batch_rows, f"{location.path} as {format.name}")
    return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, rows), closing, format.trust)


def _align(
    batches: Iterator[pa.RecordBatch], alignment: Alignment, batch_rows: int, what: str
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in batches:
            fault_site("file_read")
            aligned = alignment.batch(batch)
            for start in range(0, aligned.num_rows, batch_rows):
                yield aligned.slice(start, batch_rows)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise ExecutionError(f"cannot read {what}: {error}") from error


def read_schema(format: FileFormat, location: Location) -> pa.Schema:
    """Return the schema of a file. PlanError that names the file if it is missing or damaged."""
    return _in_plan(format, location, lambda: logical_schema(format.schema_of(location), location.path))


def read_row_count(format: FileFormat, location: Location) -> int | None:
    """Return the number of rows of a file, or None if that needs reading the data. Errors as of read_schema()."""
    return _in_plan(format, location, lambda: format.rows_of(location))


def _in_plan(format: FileFormat, location: Location, read: Callable[[], Reader]) -> Reader:
    """Return the result of `read`. Its errors become PlanErrors that name the file."""
    try:
        return read()
    except FileNotFoundError as error:
        raise PlanError(f"no such file: {location.path}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise PlanError(f"{location.path} is not a valid {format.name} file: {error}") from error


def _open_with(open_reader: Callable[[Any], Reader], location: Location) -> tuple[Reader, Any]:
    """Open a file and a reader over it; return both. The file is closed if the reader fails."""
    file = location.source()
    try:
        fault_site("file_footer")
        return open_reader(file), file
    except BaseException:
        file.close()
        raise


def _csv_parse_options(path: str) -> pacsv.ParseOptions:
    suffix = "." + without_compression(path).rpartition(".")[2]
    return pacsv.ParseOptions(delimiter=CSV_DELIMITERS.get(suffix, ","), newlines_in_values=True)


def _csv_reader(location: Location, convert: pacsv.ConvertOptions | None) -> pacsv.CSVStreamingReader:
    fault_site("file_open")
    read = pacsv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES)
    location.check()
    source = location.path if location.filesystem is None else location.filesystem.open_input_stream(location.path)
    return pacsv.open_csv(source, read, _csv_parse_options(location.path), convert)


def _csv_schema(location: Location) -> pa.Schema:
    with _csv_reader(location, None) as reader:
        return reader.schema


def _csv_batches(
    location: Location, names: list[str], declared: pa.Schema | None, batch_rows: int
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Any]:
    types = {}
    if declared is not None:
        types = {field.name: field.type for field in declared if field.name in names}
    # At least one column, because batches without columns have no rows to count.
    include = names or [_csv_schema(location).names[0]]
    reader = _csv_reader(location, pacsv.ConvertOptions(include_columns=include, column_types=types))
    return reader.schema, iter(reader), reader


def _ipc_options(fields: list[int] | None) -> pa.ipc.IpcReadOptions:
    return pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)


def _ipc_open(location: Location, fields: list[int] | None = None) -> tuple[Any, Any, bool]:
    """(reader of some fields, file, whether it is the file format and not the stream format).

    The file is read and not mapped into memory: reading mapped bytes of a file that was truncated meanwhile kills the
    process (SIGBUS).
    """

    def open_reader(file: Any) -> tuple[Any, bool]:
        try:
            return pa.ipc.open_file(file, options=_ipc_options(fields)), True
        except pa.ArrowInvalid:
            file.seek(0)
            return pa.ipc.open_stream(file, options=_ipc_options(fields)), False

    (reader, indexed), file = _open_with(open_reader, location)
    return reader, file, indexed


def _ipc_schema(location: Location) -> pa.Schema:
    reader, file, _ = _ipc_open(location)
    with file:
        return reader.schema


def _ipc_rows(location: Location) -> int | None:
    schema = _ipc_schema(location)
    if not len(schema):
        return None
    # Reads only the column with the narrowest type.
    reader, file, indexed = _ipc_open(location, [min(range(len(schema)), key=lambda i: _bits(schema.field(i).type))])
    with file:
        return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches)) if indexed else None


def _bits(type: pa.DataType) -> int:
    try:
        return int(type.bit_width)
    except ValueError:
        return 1 << 30


def _ipc_batches(
    location: Location, names: list[str], declared: pa.Schema | None, batch_rows: int
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Any]:
    schema = _ipc_schema(location)
    wanted = [i for i, name in enumerate(schema.names) if name in names] or list(range(len(schema)))[:1]
    reader, file, indexed = _ipc_open(location, wanted or None)
    found = (reader.get_batch(i) for i in range(reader.num_record_batches)) if indexed else iter(reader)
    what = f"cannot read {location.path} as Arrow IPC"
    return reader.schema, (require_sound(batch, what) for batch in found), file


def _orc_open(location: Location) -> tuple[Any, OrcFootprint, Any]:
    """(pyarrow's reader, the counts and lengths in the file's tail, the file)."""
    import pyarrow.orc

    def open_reader(file: Any) -> tuple[Any, OrcFootprint]:
        footprint = OrcFootprint(file)
        return pyarrow.orc.ORCFile(file), footprint

    (reader, footprint), file = _open_with(open_reader, location)
    return reader, footprint, file


def _orc_schema(location: Location) -> pa.Schema:
    reader, _, file = _orc_open(location)
    with file:
        return reader.schema


def _orc_rows(location: Location) -> int | None:
    reader, _, file = _orc_open(location)
    with file:
        return int(reader.nrows)


def _orc_batches(
    location: Location, names: list[str], declared: pa.Schema | None, batch_rows: int
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Any]:
    reader, footprint, file = _orc_open(location)
    columns = names or reader.schema.names[:1]
    schema = pa.schema([reader.schema.field(name) for name in columns])

    def stripes() -> Iterator[pa.RecordBatch]:
        for i in range(reader.nstripes):
            footprint.require_sound(file, i, columns)
            yield reader.read_stripe(i, columns=columns).select(columns)

    return schema, stripes(), file


CSV = FileFormat("CSV", _csv_schema, lambda location: None, _csv_batches, TRUST_EVERYTHING)
IPC = FileFormat("Arrow IPC", _ipc_schema, _ipc_rows, _ipc_batches, TRUST_EVERYTHING)
ORC = FileFormat("ORC", _orc_schema, _orc_rows, _orc_batches, TRUST_LAYOUT)
