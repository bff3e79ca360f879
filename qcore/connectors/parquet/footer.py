"""Parquet footers: row groups, statistics, and the columns that are read as dictionaries. A cache of footers."""

from __future__ import annotations

import bisect
import itertools
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.connectors.alignment import Alignment, is_text, logical_schema
from qcore.connectors.parquet.decimal_footer import decimals_as_integers
from qcore.connectors.parquet.pruning import Bounds, is_bounded, may_pass
from qcore.connectors.storage import Location
from qcore.errors import PlanError
from qcore.expression.tree import Expr
from qcore.late_module import late_module
from qcore_ext.data.parquet_footer_check import footer_fault
from qcore_ext.ground.fault import fault_site
from qcore_ext.ground.process import ProcessLock

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

# A string column is read as a dictionary if the stored dictionary of each row group has at most this number of bytes,
# and at most this number of bytes a row. TPC-H's two flag columns at SF1 are then read in 13 ms, not in 99 ms.
DICTIONARY_BYTES_MAX = 64 * 1024
DICTIONARY_BYTES_PER_ROW_MAX = 2
CACHED_FOOTERS_MAX = 256
# Number of filters for which a footer caches the row groups that can pass.
JUDGED_FILTERS_MAX = 16
# Number of choices of columns for which a footer caches how they are decoded.
NATIVE_COLUMNS_MAX = 64
# In ns, pyarrow's default, timestamps overflow outside 1677 to 2262.
INT96_UNIT = "us"
TAIL_BYTES = 64 * 1024


class ParquetFooter:
    """The footer of one file, shared by all threads. Immutable except for its caches.

    Attributes
    ----------
    location : Location
        The file.
    stamp : (int, int)
        Size and modification time of the file's version.
    size : int
        Size of the file in bytes.
    metadata, reading_metadata : pyarrow.parquet.FileMetaData
        The footer, and the footer to read with, in which decimals may be integers.
    decimals : dict
        Types of the decimals that `reading_metadata` reads as integers, by column.
    schema : pyarrow.Schema
        The columns as queries see them.
    n_rows : int
        Number of rows.
    group_rows : list of int
        Number of rows of each row group.
    alignments, group_values, native_columns : dict
        Caches of parquet/table, parquet/distinct and parquet/native.
    """

    def __init__(self, location: Location, stamp: tuple[int, int], raw: bytes) -> None:
        self.location = location
        self.stamp = stamp
        self.size = stamp[0]
        fault = footer_fault(raw, self.size)
        if fault is not None:
            raise PlanError(f"{location.path} is not a valid Parquet file: in its footer, {fault}")
        self.metadata, self.file_schema = _parse(raw, location.path)
        # With this footer pyarrow reads decimals of 4 or 8 bytes as integers. It need not widen them to 16 bytes, and
        # the engine need not narrow them (Q6's columns: 109 -> 89 ms).
        rewritten, self.decimals = decimals_as_integers(raw)
        self.reading_metadata = _parse(rewritten, location.path)[0] if self.decimals else self.metadata
        self.schema = logical_schema(self.file_schema, location.path)
        self.n_rows = self.metadata.num_rows
        self.group_rows = [self.metadata.row_group(i).num_rows for i in range(self.metadata.num_row_groups)]
        self._leaves = _leaf_indexes(self.file_schema)
        self._leaves_of = _leaf_ranges(self.file_schema)
        self._decoded: dict[tuple[int, str], int] = {}
        self._stored: dict[tuple[int, str], int] = {}
        self._texts = {name: leaf for name, leaf in self._leaves.items() if is_text(self.file_schema.field(name).type)}
        self._middles: list[int] | None = None
        self._is_ordered = False
        self.alignments: dict[tuple[Any, ...], Alignment] = {}
        self.native_columns: dict[tuple[Any, ...], Any] = {}
        self.group_values: dict[tuple[int, str], Any] = {}
        self._bounds: dict[tuple[int, str], Bounds | None] = {}
        self._judged: dict[Expr, dict[int, bool]] = {}
        self._ranges: dict[str, tuple[Any, Any, int | None]] = {}

    def keep_native(self, key: tuple[Any, ...], columns: Any) -> None:
        """Cache the result of parquet/native for one choice of columns."""
        if len(self.native_columns) >= NATIVE_COLUMNS_MAX:
            self.native_columns.clear()
        self.native_columns[key] = columns

    def leaf(self, name: str) -> int | None:
        """The index of a column among the leaf columns; None if it is nested or absent."""
        return self._leaves.get(name)

    def decoded_bytes(self, group: int, names: Sequence[str]) -> int:
        """Estimate the memory in bytes of columns of a row group after they are read; 0 for columns not in the file."""
        total = 0
        for name in names:
            key = (group, name)
            if key not in self._decoded:
                columns = [self.metadata.row_group(group).column(leaf) for leaf in self._leaves_of.get(name, ())]
                # At least 4 bytes a value: packed or repeated small values take their full width in memory.
                sizes = [max(column.total_uncompressed_size, column.num_values * 4) for column in columns]
                self._decoded[key] = sum(sizes)
            total += self._decoded[key]
        return total

    def rows_in(self, groups: Sequence[int]) -> int:
        """Return the number of rows of row groups."""
        return sum(self.group_rows[group] for group in groups)

    def stored_bytes(self, groups: Sequence[int], names: Sequence[str]) -> int:
        """Return how many bytes of the file columns of row groups take; 0 for columns not in the file."""
        total = 0
        for group in groups:
            for name in names:
                key = (group, name)
                if key not in self._stored:
                    columns = [self.metadata.row_group(group).column(leaf) for leaf in self._leaves_of.get(name, ())]
                    self._stored[key] = sum(column.total_compressed_size for column in columns)
                total += self._stored[key]
        return total

    def middles(self) -> list[int]:
        """The middle byte of each row group, as Spark and parquet-mr compute it."""
        if self._middles is None:
            middles = [self._middle(self.metadata.row_group(i)) for i in range(self.metadata.num_row_groups)]
            self._is_ordered = all(a < b for a, b in itertools.pairwise(middles))
            self._middles = middles
        return self._middles

    @staticmethod
    def _middle(group: Any) -> int:
        if group.num_columns == 0:
            return 4
        first = group.column(0)
        start = first.data_page_offset
        if first.has_dictionary_page and 0 < first.dictionary_page_offset < start:
            start = first.dictionary_page_offset
        return start + sum(group.column(j).total_compressed_size for j in range(group.num_columns)) // 2

    def groups_in(self, start: int, length: int | None) -> list[int]:
        """Return the numbers of the row groups whose middle byte is in a section; `length` None: to the file's end."""
        if start == 0 and (length is None or length == self.size):
            return list(range(self.metadata.num_row_groups))
        end = self.size if length is None else start + length
        middles = self.middles()
        if self._is_ordered:
            return list(range(bisect.bisect_left(middles, start), bisect.bisect_left(middles, end)))
        return [i for i, middle in enumerate(middles) if start <= middle < end]

    def sections(self, runs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
        """Return a byte section (start, length) for each run of neighbouring row groups, with only their middle bytes.

        If the row groups are not stored in order, the only section is the whole file.
        """
        middles = self.middles()
        if not self._is_ordered:
            return [(0, self.size)] if runs else []
        cuts = [0, *(middle + 1 for middle in middles[:-1]), self.size]
        return [(cuts[run[0]], cuts[run[-1] + 1] - cuts[run[0]]) for run in runs]

    def may_pass(self, group: int, filter: Expr) -> bool:
        """Whether rows of a row group can pass `filter`. Cached, because listing and opening splits both call it."""
        judged = self._judged.get(filter)
        if judged is None:
            if len(self._judged) >= JUDGED_FILTERS_MAX:
                self._judged.clear()
            judged = self._judged[filter] = {}
        passes = judged.get(group)
        if passes is None:
            passes = judged[group] = may_pass(filter, lambda name: self.bounds(group, name))
        return passes

    def bounds(self, group: int, name: str) -> Bounds | None:
        """The bounds of a column in a row group; None: unknown."""
        key = (group, name)
        if key not in self._bounds:
            self._bounds[key] = self._read_bounds(group, name)
        return self._bounds[key]

    def _read_bounds(self, group: int, name: str) -> Bounds | None:
        leaf = self._leaves.get(name)
        if leaf is None:
            return None
        type = self.schema.field(name).type
        column = self.metadata.row_group(group).column(leaf)
        try:
            statistics = column.statistics
            if statistics is None:
                return None
            n_rows = self.group_rows[group]
            nulls = statistics.null_count if statistics.has_null_count else None
            low = high = None
            if statistics.has_min_max and is_bounded(type):
                low, high = statistics.min, statistics.max
        except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeDecodeError):
            return None
        if not _is_sound(low, high):
            low = high = None
        return Bounds(
            type,
            low,
            None if pa.types.is_floating(type) else high,
            empty=nulls is not None and nulls == n_rows,
            has_nulls=nulls is None or nulls > 0,
            has_values=nulls is None or nulls < n_rows,
        )

    def column_range(self, name: str) -> tuple[Any, Any, int | None]:
        """(minimum, maximum, nulls) of a column over the whole file; None for each that is unknown."""
        if name not in self._ranges:
            self._ranges[name] = self._read_range(name)
        return self._ranges[name]

    def _read_range(self, name: str) -> tuple[Any, Any, int | None]:
        low = high = None
        nulls: int | None = 0
        known = True
        for i, n_rows in enumerate(self.group_rows):
            if n_rows == 0:
                continue                # it has no statistics
            statistics = self._statistics(i, name)
            if statistics is None:
                return None, None, None
            nulls = nulls + statistics.null_count if nulls is not None and statistics.has_null_count else None
            if nulls is not None and statistics.null_count == n_rows:
                continue
            bounds = self.bounds(i, name)
            if not known or bounds is None or bounds.low is None or not statistics.has_min_max:
                known = False
                continue
            greatest = statistics.max
            low = bounds.low if low is None or bounds.low < low else low
            high = greatest if high is None or greatest > high else high
        return (low, high, nulls) if known else (None, None, nulls)

    def has_ordered_groups(self, name: str) -> bool:
        """Whether each row group's values of a column are at least, or at most, those of the row group before it.

        False if there are fewer than two row groups, or if the range of one is unknown.
        """
        ranges = [self.bounds(group, name) for group, n_rows in enumerate(self.group_rows) if n_rows > 0]
        known = [(of.low, of.high) for of in ranges if of is not None and of.low is not None and of.high is not None]
        if len(known) < max(2, len(ranges)):
            return False
        pairs = list(itertools.pairwise(known))
        return all(a[1] <= b[0] for a, b in pairs) or all(b[1] <= a[0] for a, b in pairs)

    def _statistics(self, group: int, name: str) -> Any:
        leaf = self._leaves.get(name)
        return None if leaf is None else self.metadata.row_group(group).column(leaf).statistics

    def dictionary_columns(self, names: Sequence[str], groups: Sequence[int]) -> tuple[str, ...]:
        """The string columns among `names` that have few values in all of `groups`."""
        return tuple(name for name in names if name in self._texts and self._has_few_values(name, groups))

    def _has_few_values(self, name: str, groups: Sequence[int]) -> bool:
        leaf = self._texts[name]
        for i in groups:
            column = self.metadata.row_group(i).column(leaf)
            if not column.has_dictionary_page or column.dictionary_page_offset <= 0:
                return False
            stored = column.data_page_offset - column.dictionary_page_offset
            if not 0 < stored <= min(DICTIONARY_BYTES_MAX, DICTIONARY_BYTES_PER_ROW_MAX * column.num_values + 64):
                return False
        return True


def _is_sound(low: Any, high: Any) -> bool:
    if low is None or high is None or low != low or high != high:
        return False
    try:
        return bool(low <= high)
    except TypeError:
        return False


def _leaf_indexes(schema: pa.Schema) -> dict[str, int]:
    """The index among the file's leaf columns of each column that is not nested."""
    found, position = {}, 0
    for field in schema:
        width = _leaf_count(field.type)
        if width == 1 and not pa.types.is_nested(_plain(field.type)):
            found[field.name] = position
        position += width
    return found


def _leaf_ranges(schema: pa.Schema) -> dict[str, range]:
    """The indexes among the file's leaf columns of all leaves of each column."""
    found, position = {}, 0
    for field in schema:
        width = _leaf_count(field.type)
        found[field.name] = range(position, position + width)
        position += width
    return found


def _plain(type: pa.DataType) -> pa.DataType:
    return type.storage_type if isinstance(type, pa.BaseExtensionType) else type


def _leaf_count(type: pa.DataType) -> int:
    type = _plain(type)
    if pa.types.is_dictionary(type) or not pa.types.is_nested(type):
        return 1
    if pa.types.is_map(type):
        return _leaf_count(type.key_type) + _leaf_count(type.item_type)
    return sum(_leaf_count(type.field(i).type) for i in range(type.num_fields))


def _parse(raw: bytes, path: str) -> tuple[pq.FileMetaData, pa.Schema]:
    """The footer and its Arrow schema. UUIDs are those of Arrow, and INT96 timestamps have the unit INT96_UNIT."""
    try:
        whole = b"PAR1" + raw + len(raw).to_bytes(4, "little") + b"PAR1"
        file = pq.ParquetFile(pa.BufferReader(whole), coerce_int96_timestamp_unit=INT96_UNIT)
        return file.metadata, file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PlanError(f"{path} is not a valid Parquet file: its footer cannot be read ({error})") from error


def _read_raw(location: Location, size: int) -> bytes:
    """Read the footer's bytes. PlanError if the file is not a Parquet file."""
    path = location.path
    try:
        with location.open() as file:
            fault_site("file_footer")
            tail_bytes = min(size, TAIL_BYTES)
            file.seek(size - tail_bytes)
            tail = file.read(tail_bytes)
            if size < 12 or tail[-4:] != b"PAR1":
                encrypted = tail[-4:] == b"PARE"
                reason = "its footer is encrypted" if encrypted else f"it does not end with PAR1 ({size} bytes)"
                raise PlanError(f"{path} is not a valid Parquet file: {reason}")
            n = int.from_bytes(tail[-8:-4], "little")
            if n + 12 > size:
                raise PlanError(
                    f"{path} is not a valid Parquet file: its footer would have {n} bytes, but the file has {size}"
                )
            if n + 8 > tail_bytes:
                file.seek(size - 8 - n)
                tail = file.read(n + 8)
            return bytes(tail[-8 - n : -8])
    except OSError as error:
        raise PlanError(f"cannot read {path}: {error}") from error


class FooterCache:
    """A cache of the footers that were read last. A file with another size or modification time is read again."""

    def __init__(self, capacity: int = CACHED_FOOTERS_MAX) -> None:
        self._capacity = capacity
        self._lock = ProcessLock()
        self._footers: OrderedDict[tuple[str, str], ParquetFooter] = OrderedDict()

    def get(self, location: Location) -> ParquetFooter:
        """Return a file's footer. PlanError that names the path if the file is missing or damaged."""
        filesystem = location.filesystem
        key = ("" if filesystem is None else filesystem.type_name, location.path)
        try:
            stamp = location.stamp()
        except OSError as error:
            raise PlanError(f"no such file: {location.path} ({error})") from error
        with self._lock:
            footer = self._footers.get(key)
            if footer is not None and footer.stamp == stamp and footer.location.filesystem == filesystem:
                self._footers.move_to_end(key)
                return footer
        footer = ParquetFooter(location, stamp, _read_raw(location, stamp[0]))
        with self._lock:
            self._footers[key] = footer
            while len(self._footers) > self._capacity:
                self._footers.popitem(last=False)
        return footer


FOOTERS = FooterCache()
