"""CSV, Arrow IPC and ORC files, read whole, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from qcore.connectors.alignment import Alignment, logical_schema
from qcore.connectors.base import BatchStream, FileSplit, ReaderStream
from qcore.connectors.soundness import TRUST_EVERYTHING, TRUST_LAYOUT, require_sound
from qcore.connectors.storage import Location
from qcore.errors import ExecutionError, PlanError
from qcore_ext.ground.fault import fault_site

# One block of CSV is one batch; types are inferred from the first one.
CSV_BLOCK_BYTES = 4 << 20
CSV_DELIMITERS = {".tsv": "\t", ".tbl": "|"}


@dataclass(frozen=True)
class FileFormat:
    """How files of one format are read: their schema and row count, and their batches."""

    name: str
    schema_of: Callable[[Location], pa.Schema]
    # None: not known without reading the data.
    rows_of: Callable[[Location], int | None]
    # (batches of some columns, what to close): may give more columns than asked for.
    batches_of: Callable[[Location, list[str], pa.Schema | None, int], tuple[pa.Schema, Iterator[pa.RecordBatch], Any]]
    # What is known of the batches (soundness).
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
    """Read a whole file. ExecutionError for a section of one: these formats cannot be cut by bytes here."""
    if split.start != 0 or split.length is not None:
        raise ExecutionError(
            f"split of {split.path}: a {format.name} file is read whole, so start must be 0 and length None, "
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
    rows = _aligned(batches, alignment, batch_rows, f"{location.path} as {format.name}")
    return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, rows), closing, format.trust)


def _aligned(
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
    """The columns of a file. PlanError naming it when it is missing or damaged."""
    try:
        return logical_schema(format.schema_of(location), location.path)
    except FileNotFoundError as error:
        raise PlanError(f"no such file: {location.path}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise PlanError(f"{location.path} is damaged or no {format.name} file: {error}") from error


def _csv_parse_options(path: str) -> pacsv.ParseOptions:
    base = path.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    suffix = "." + base.rpartition(".")[2]
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
    # Without a column at all there would be no rows to count.
    include = names or [_csv_schema(location).names[0]]
    reader = _csv_reader(location, pacsv.ConvertOptions(include_columns=include, column_types=types))
    return reader.schema, iter(reader), reader


def _ipc_options(fields: list[int] | None) -> pa.ipc.IpcReadOptions:
    return pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)


def _ipc_open(location: Location, fields: list[int] | None = None) -> tuple[Any, Any, bool]:
    """(reader of some fields, file, whether it is the file format and not the stream format)."""
    fault_site("file_open")
    location.check()
    # Read, not mapped into memory: whoever reads mapped bytes of a file that was cut meanwhile is killed (SIGBUS).
    if location.filesystem is None:
        file = pa.OSFile(location.path)
    else:
        file = location.filesystem.open_input_file(location.path)
    try:
        fault_site("file_footer")
        try:
            return pa.ipc.open_file(file, options=_ipc_options(fields)), file, True
        except pa.ArrowInvalid:
            file.seek(0)
            return pa.ipc.open_stream(file, options=_ipc_options(fields)), file, False
    except BaseException:
        file.close()
        raise


def _ipc_schema(location: Location) -> pa.Schema:
    reader, file, _ = _ipc_open(location)
    with file:
        return reader.schema


def _ipc_rows(location: Location) -> int | None:
    schema = _ipc_schema(location)
    if not len(schema):
        return None
    # Of the column that takes the least reading.
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


def _orc_open(location: Location) -> tuple[Any, Any]:
    import pyarrow.orc

    fault_site("file_open")
    location.check()
    if location.filesystem is None:
        file = pa.OSFile(location.path)
    else:
        file = location.filesystem.open_input_file(location.path)
    try:
        fault_site("file_footer")
        return pyarrow.orc.ORCFile(file), file
    except BaseException:
        file.close()
        raise


def _orc_schema(location: Location) -> pa.Schema:
    reader, file = _orc_open(location)
    with file:
        return reader.schema


def _orc_rows(location: Location) -> int | None:
    reader, file = _orc_open(location)
    with file:
        return int(reader.nrows)


def _orc_batches(
    location: Location, names: list[str], declared: pa.Schema | None, batch_rows: int
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Any]:
    reader, file = _orc_open(location)
    columns = names or reader.schema.names[:1]
    schema = pa.schema([reader.schema.field(name) for name in columns])
    stripes = (reader.read_stripe(i, columns=columns).select(columns) for i in range(reader.nstripes))
    return schema, stripes, file


CSV = FileFormat("CSV", _csv_schema, lambda location: None, _csv_batches, TRUST_EVERYTHING)
IPC = FileFormat("Arrow IPC", _ipc_schema, _ipc_rows, _ipc_batches, TRUST_EVERYTHING)
ORC = FileFormat("ORC", _orc_schema, _orc_rows, _orc_batches, TRUST_LAYOUT)
