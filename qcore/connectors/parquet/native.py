"""Read local Parquet files with the engine's own decoder, where it knows the columns' types and encodings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from qcore.connectors.alignment import constant_array, is_bytes, is_text, logical_type, match_name, same_values
from qcore.connectors.base import BatchStream
from qcore.connectors.parquet.footer import ParquetFooter
from qcore.connectors.soundness import TRUST_EVERYTHING
from qcore.connectors.streams import EngineStream
from qcore.errors import ExecutionError
from qcore.record import record
from qcore_ext.data.schema import Schema
from qcore_ext.ground.fault import fault_site
from qcore_ext.parquet.column_reader import Conversion
from qcore_ext.parquet.reader import ParquetReader

#: For each codec, as pyarrow names it in a footer, its name for pyarrow.Codec. Hadoop's LZ4 has another name. The
#: engine decompresses Snappy itself.
CODECS = {"GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4_raw"}
ENCODINGS = frozenset(
    {
        "PLAIN",
        "PLAIN_DICTIONARY",
        "RLE_DICTIONARY",
        "RLE",
        "BIT_PACKED",
        "DELTA_BINARY_PACKED",
        "DELTA_LENGTH_BYTE_ARRAY",
        "BYTE_STREAM_SPLIT",
    }
)
UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
DECIMAL_BYTES_MAX = 16
# Digits of decimals that the engine keeps in 64 bits.
NARROW_DIGITS_MAX = 18


@record(frozen=True)
class NativeColumn:
    """How the engine decodes a column of a file: see `qcore_ext.parquet.column_reader.ColumnReader`."""

    leaf: int
    type: pa.DataType
    conversion: int
    width: int
    is_optional: bool


def native_column(footer: ParquetFooter, name: str) -> NativeColumn | None:
    """Return how a column is decoded, or None: only pyarrow reads it."""
    leaf = footer.leaf(name)
    if leaf is None:
        return None
    stored = footer.metadata.schema.column(leaf)
    type = footer.schema.field(name).type
    if stored.max_repetition_level > 0 or stored.max_definition_level > 1:
        return None
    found = _conversion(stored, type)
    return None if found is None else NativeColumn(leaf, type, *found, stored.max_definition_level == 1)


def _conversion(stored: Any, type: pa.DataType) -> tuple[int, int] | None:
    """The conversion of stored values to a type, and the bytes of a stored value."""
    physical, t = stored.physical_type, pa.types
    if physical == "BOOLEAN" and t.is_boolean(type):
        return Conversion.CONVERT_BITS, 1
    if physical == "INT32":
        if (
            t.is_int32(type)
            or t.is_uint32(type)
            or t.is_date32(type)
            or (t.is_time32(type) and _has_unit(stored, type))
        ):
            return Conversion.CONVERT_NONE, 4
        if t.is_int8(type) or t.is_uint8(type) or t.is_int16(type) or t.is_uint16(type):
            return Conversion.CONVERT_CUT, 4
        if t.is_decimal(type) and type.precision <= NARROW_DIGITS_MAX:
            return Conversion.CONVERT_WIDEN, 4
    elif physical == "INT64":
        if t.is_int64(type) or t.is_uint64(type):
            return Conversion.CONVERT_NONE, 8
        if (t.is_timestamp(type) or t.is_time64(type)) and _has_unit(stored, type):
            return Conversion.CONVERT_NONE, 8
        if t.is_decimal(type) and type.precision <= NARROW_DIGITS_MAX:
            return Conversion.CONVERT_NONE, 8
    elif (physical == "FLOAT" and t.is_float32(type)) or (physical == "DOUBLE" and t.is_float64(type)):
        return Conversion.CONVERT_NONE, type.bit_width // 8
    elif physical == "FIXED_LEN_BYTE_ARRAY":
        if t.is_decimal(type) and 0 < stored.length <= DECIMAL_BYTES_MAX:
            narrow = type.precision <= NARROW_DIGITS_MAX
            return Conversion.CONVERT_DECIMAL if narrow else Conversion.CONVERT_DECIMAL_WIDE, stored.length
    elif physical == "BYTE_ARRAY" and (is_text(type) or is_bytes(type)):
        return Conversion.CONVERT_TEXT, 0
    return None


def _has_unit(stored: Any, type: pa.DataType) -> bool:
    """Whether times are stored in the unit of their type."""
    unit = json.loads(stored.logical_type.to_json()).get("timeUnit")
    return UNITS.get(unit) == type.unit


Chunk = tuple[int, int, int, str]
OpenRest = Callable[[int, Sequence[pa.Field]], BatchStream]


def _chunk(footer: ParquetFooter, group: int, column: NativeColumn) -> Chunk | None:
    """(offset, bytes, bytes after decompression, codec) of a column chunk; None: only pyarrow reads it."""
    held = footer.metadata.row_group(group).column(column.leaf)
    start, n_bytes = held.data_page_offset, held.total_compressed_size
    if held.has_dictionary_page and 0 < held.dictionary_page_offset < start:
        start = held.dictionary_page_offset
    if (
        held.file_path
        or not ENCODINGS.issuperset(held.encodings)
        or not (held.compression in CODECS or held.compression in ("SNAPPY", "UNCOMPRESSED"))
        or held.num_values != footer.group_rows[group]
        or start < 0
        or n_bytes < 0
        or start + n_bytes > footer.size
    ):
        return None
    return start, n_bytes, held.total_uncompressed_size, held.compression


@record(frozen=True)
class GroupPlan:
    """How a row group is read: for each wanted column its chunk, or None if it is constant or pyarrow reads it."""

    chunks: tuple[Chunk | None, ...]
    #: Positions of the wanted columns that pyarrow reads.
    rest: tuple[int, ...]


class NativeColumns:
    """The columns of a file that one kind of scan reads, and their chunks. Kept by the footer."""

    def __init__(self, footer: ParquetFooter, wanted: Sequence[pa.Field], names: Sequence[str | None]) -> None:
        self._footer = footer
        self._names = names
        self.schema = pa.schema(list(wanted))
        self._columns = [_decoded_column(footer, *pair) for pair in zip(wanted, names, strict=True)]
        #: For each wanted column the argument of ParquetReader; None: a constant, or a column for pyarrow.
        self.readers = [
            None if column is None else (name, column.conversion, column.width, column.is_optional)
            for column, name in zip(self._columns, names, strict=True)
        ]
        self._groups: dict[int, GroupPlan] = {}

    def is_absent(self, position: int) -> bool:
        """Whether the file does not have a wanted column."""
        return self._names[position] is None

    def plan(self, group: int) -> GroupPlan:
        """Return how a row group's columns are read."""
        found = self._groups.get(group)
        if found is None:
            chunks = tuple(None if c is None else _chunk(self._footer, group, c) for c in self._columns)
            rest = (i for i, name in enumerate(self._names) if name is not None and chunks[i] is None)
            found = self._groups[group] = GroupPlan(chunks, tuple(rest))
        return found


def _decoded_column(footer: ParquetFooter, field: pa.Field, name: str | None) -> NativeColumn | None:
    column = None if name is None else native_column(footer, name)
    return column if column is not None and _gives(column, field.type) else None


def columns_of_pyarrow(footer: ParquetFooter, names: Sequence[str]) -> list[str]:
    """Return the columns of which pyarrow decodes some row group."""
    if footer.location.filesystem is not None:
        return [name for name in names if name in footer.schema.names]
    held = [name for name in names if name in footer.schema.names]
    columns = NativeColumns(footer, [footer.schema.field(name) for name in held], held)
    rest = {i for group in range(len(footer.group_rows)) for i in columns.plan(group).rest}
    return [name for i, name in enumerate(held) if i in rest]


def _gives(column: NativeColumn, declared: pa.DataType) -> bool:
    """Whether the decoder gives a column the declared type."""
    actual, declared = logical_type(column.type), logical_type(declared)
    return bool(actual.equals(declared)) or same_values(actual, declared)


def open_native(
    footer: ParquetFooter,
    groups: Sequence[int],
    wanted: Sequence[pa.Field],
    constants: Mapping[str, Any],
    batch_rows: int,
    ignore_case: bool,
    absent_is_null: bool,
    open_rest: OpenRest,
) -> NativeStream | None:
    """Open row groups of a file with the engine's decoder. None: pyarrow must read them.

    Parameters
    ----------
    footer : ParquetFooter
        The file's footer.
    groups : sequence of int
        Numbers of the row groups.
    wanted : sequence of pyarrow.Field
        The columns, in order, in the declared types.
    constants : mapping
        Columns that the file does not contain, each with its value.
    batch_rows : int
        Rows of a batch, at most.
    ignore_case, absent_is_null : bool
        As the parameters of Alignment.
    open_rest : callable
        Takes a row group and fields, and returns a BatchStream of them. Used for columns that only pyarrow reads.

    Raises
    ------
    ExecutionError
        The file cannot be opened.
    """
    location = footer.location
    if location.filesystem is not None:
        return None
    columns = _columns(footer, wanted, constants, ignore_case)
    plans = [(group, columns.plan(group)) for group in groups]
    if wanted and all(all(chunk is None for chunk in plan.chunks) for _, plan in plans):
        return None
    sources: list[Any] = list(columns.readers)
    for i, field in enumerate(wanted):
        if columns.is_absent(i):
            if field.name not in constants and not absent_is_null:
                return None  # Alignment raises the error that names the missing column
            row = constant_array(constants.get(field.name), field.type, 1)
            sources[i] = pa.RecordBatch.from_arrays([row], [field.name])
    return NativeStream(footer, columns.schema, sources, plans, batch_rows, open_rest)


def _columns(
    footer: ParquetFooter, wanted: Sequence[pa.Field], constants: Mapping[str, Any], ignore_case: bool
) -> NativeColumns:
    key = tuple(wanted), frozenset(constants), ignore_case
    columns: NativeColumns | None = footer.native_columns.get(key)
    if columns is None:
        held = footer.schema.names
        names = [None if field.name in constants else match_name(held, field.name, ignore_case) for field in wanted]
        columns = NativeColumns(footer, wanted, names)
        footer.keep_native(key, columns)
    return columns


class NativeStream(EngineStream):
    """Row groups of a file as a BatchStream."""

    def __init__(
        self,
        footer: ParquetFooter,
        schema: pa.Schema,
        sources: Sequence[Any],
        plans: Sequence[tuple[int, GroupPlan]],
        batch_rows: int,
        open_rest: OpenRest,
    ) -> None:
        path = self._path = footer.location.path
        #: Figures for the statistics of the scan.
        self.extent: dict[str, int] = {}
        self._open_rest = open_rest
        names = {chunk[3] for _, plan in plans for chunk in plan.chunks if chunk is not None}
        codecs: dict[str, Any] = {name: pa.Codec(CODECS[name]) for name in names if name in CODECS}
        codecs["SNAPPY"] = "snappy"
        try:
            file = footer.location.open()
        except OSError as error:
            raise ExecutionError(f"cannot open {path}: {error}") from error
        groups = [
            (
                group,
                footer.group_rows[group],
                [None if chunk is None else (*chunk[:3], codecs.get(chunk[3])) for chunk in plan.chunks],
                [schema.field(i) for i in plan.rest],
            )
            for group, plan in plans
        ]
        reader = ParquetReader(path, file, Schema(schema), sources, groups, batch_rows, self._begin_group)
        super().__init__(reader, TRUST_EVERYTHING)

    def _begin_group(self, group: int, rest: Sequence[pa.Field]) -> Any:
        """Called before a row group is read. Returns a stream of the columns that pyarrow decodes, or None."""
        try:
            fault_site("file_read")
        except OSError as error:
            raise ExecutionError(f"cannot read {self._path}, row group {group}: {error}") from error
        return self._open_rest(group, rest) if rest else None
