"""Estimate the number of distinct values of a Parquet column, from its footer or from headers of dictionary pages."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.connectors.parquet.footer import ParquetFooter
from qcore.connectors.parquet.thrift import I32, STRUCT, FooterDamaged, ThriftReader
from qcore.record import record

# Number of row groups that are sampled, spread over all files.
GROUPS_MAX = 8
# Number of files whose page headers are read, because each must be opened.
FILES_MAX = 2
PAGE_HEADER_BYTES = 64
# Ratio of distinct values to rows of a row group. Above it other row groups are assumed to have other values.
NEARLY_UNIQUE = 0.5
# The same ratio. Above it other row groups with the same range are assumed to have some other values.
HARDLY_REPEATED = 0.05
# Ratio of distinct values to rows of the table, above which the column is assumed to be a key.
UNIQUE = 0.97
# Fields of Thrift's PageHeader, and of the DictionaryPageHeader in it.
UNCOMPRESSED_SIZE, DICTIONARY_HEADER = 2, 7
N_VALUES = 1


@record(frozen=True)
class GroupValues:
    """The number of distinct values and of non-null rows of a row group; minimum and maximum if they are numbers."""

    distinct: int
    n_rows: int
    low: float | None
    high: float | None


def distinct_values(footers: Sequence[tuple[ParquetFooter, str]]) -> int | None:
    """Estimate the number of distinct values of a column; None: unknown.

    Parameters
    ----------
    footers : sequence of (ParquetFooter, str)
        The footer of each file, and the column's name in that file.
    """
    groups = [(footer, name, group) for footer, name in footers for group in range(len(footer.group_rows))]
    if not groups:
        return None
    step = max(1, math.ceil(len(groups) / GROUPS_MAX))
    n_opened = len({id(footer) for footer, _, _ in groups[::step]})
    found = []
    for footer, name, group in groups[::step]:
        values = footer.group_values.get((group, name))
        if values is None:
            values = footer.group_values[group, name] = _group_values(footer, name, group, n_opened <= FILES_MAX)
        if not isinstance(values, GroupValues):
            return None
        if values.n_rows > 0:
            found.append(values)
    return _combine(found, len(groups) / len(groups[::step])) if found else 0


def _combine(groups: list[GroupValues], scale: float) -> int:
    """Estimate the distinct values of a table from sampled row groups; it has `scale` times as many row groups."""
    most = max(group.distinct for group in groups)
    total = sum(group.distinct for group in groups)
    part = total / sum(group.n_rows for group in groups)
    lows = [group.low for group in groups if group.low is not None]
    highs = [group.high for group in groups if group.high is not None]
    if len(lows) < len(groups) or len(highs) < len(groups):
        return round(total * scale) if part > NEARLY_UNIQUE else most
    # Row groups with the same range share values; row groups with disjoint ranges share none.
    width = max(highs) - min(lows) + 1.0
    widths = sum(high - low + 1.0 for low, high in zip(lows, highs, strict=True))
    together = total * width / widths
    if part > HARDLY_REPEATED and total < widths:
        # A row group has a sample of the values in its range. Each other row group adds some new values.
        together = width * (1.0 - (1.0 - total / widths) ** (widths * scale / width))
    n_rows = round(sum(group.n_rows for group in groups) * scale)
    found = round(max(most, min(total * scale, together)))
    return n_rows if found > UNIQUE * n_rows else found


def _group_values(footer: ParquetFooter, name: str, group: int, may_open: bool) -> GroupValues | bool:
    """Count the values of one row group; False: unknown."""
    leaf = footer.leaf(name)
    if leaf is None:
        return False
    column = footer.metadata.row_group(group).column(leaf)
    try:
        statistics = column.statistics
        nulls = statistics.null_count if statistics is not None and statistics.has_null_count else 0
        n_rows = column.num_values - nulls
        low = high = None
        if statistics is not None and statistics.has_min_max:
            low, high = _number(statistics.min), _number(statistics.max)
        if n_rows == 0:
            return GroupValues(0, 0, low, high)
        counted = statistics.distinct_count if statistics is not None else None
        if not counted and may_open:
            counted = _dictionary_values(footer, column)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeDecodeError):
        return False
    return GroupValues(min(counted, n_rows), n_rows, low, high) if counted else False


def _number(value: Any) -> float | None:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return float(value.toordinal())
    return float(value) if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else None


def _dictionary_values(footer: ParquetFooter, column: Any) -> int | None:
    """The number of values in a column chunk's dictionary; None if the chunk has values outside of it."""
    offset = column.dictionary_page_offset
    if not column.has_dictionary_page or not offset or offset <= 0 or footer.location.filesystem is not None:
        return None
    try:
        with footer.location.open() as file:
            file.seek(offset)
            header = dict(_page_header(ThriftReader(file.read(PAGE_HEADER_BYTES))))
    except (OSError, FooterDamaged, IndexError):
        return None
    n_values = header.get(DICTIONARY_HEADER, 0)
    if n_values <= 0:
        return None
    # Bits for each code and its levels. A larger chunk has changed from dictionary codes to plain values.
    bits = max(1, (n_values - 1).bit_length()) + 2
    most = 1024 + 1.1 * column.num_values * bits / 8
    return n_values if column.total_uncompressed_size - header.get(UNCOMPRESSED_SIZE, 0) <= most else None


def _page_header(reader: ThriftReader) -> Iterator[tuple[int, int]]:
    """The integer fields of a page header by id; for the dictionary header its number of values."""
    last = 0
    while (head := reader.field(last)) is not None:
        last, type = head
        if type == I32:
            yield last, reader.integer()
        elif type == STRUCT and last == DICTIONARY_HEADER:
            inner = reader.field(0)
            yield last, reader.integer() if inner == (N_VALUES, I32) else 0
            return
        else:
            reader.skip(type)
