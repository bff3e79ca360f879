"""Statistics of a table of Parquet files, from their footers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from qcore.connectors.alignment import match_name
from qcore.connectors.base import UNKNOWN_COLUMN, ColumnStatistics
from qcore.connectors.parquet.distinct import distinct_values
from qcore.connectors.parquet.footer import FOOTERS
from qcore.connectors.storage import Location

# A file, and the values of the columns that it does not contain.
FileWithConstants = tuple[Location, tuple[tuple[str, Any], ...]]


class FooterStatistics(Mapping[str, ColumnStatistics]):
    """Statistics of each column over several files, computed at the first access.

    Parameters
    ----------
    schema : pyarrow.Schema
        The table's columns.
    files : sequence of (Location, constants)
        Each file once, with the columns that it does not contain and their values.
    ignore_case : bool
        Whether to find columns without regard to case.
    """

    def __init__(self, schema: pa.Schema, files: Sequence[FileWithConstants], ignore_case: bool = False) -> None:
        self._schema = schema
        self._files = files
        self._ignore_case = ignore_case
        self._known: dict[str, ColumnStatistics] = {}

    def __getitem__(self, name: str) -> ColumnStatistics:
        if name not in self._known:
            if self._schema.get_field_index(name) < 0:
                raise KeyError(name)
            try:
                self._known[name] = self._compute(name)
            except TypeError:  # types of different files that Python does not compare: dates and timestamps
                self._known[name] = UNKNOWN_COLUMN
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema.names)

    def __len__(self) -> int:
        return len(self._schema)

    def _compute(self, name: str) -> ColumnStatistics:
        lows, highs = [], []
        nulls: int | None = 0
        bounded = True
        for location, constants in self._files:
            low, high, count, n_rows = self._of_file(location, dict(constants), name)
            nulls = None if nulls is None or count is None else nulls + count
            if count == n_rows:
                continue
            if low is None or high is None:
                bounded = False
                continue
            lows.append(low)
            highs.append(high)
        distinct = self._distinct(name)
        if not bounded:
            return ColumnStatistics(null_count=nulls, distinct_count=distinct)
        low, high = min(lows, default=None), max(highs, default=None)
        return ColumnStatistics(low, high, nulls, distinct, is_clustered=self._is_clustered(name))

    def _is_clustered(self, name: str) -> bool:
        """Whether the row groups of each file are in the order of the column's values."""
        footers = [FOOTERS.get(location) for location, _ in self._files]
        footers = [footer for footer in footers if footer.n_rows > 0]
        for footer in footers:
            held = match_name(footer.schema.names, name, self._ignore_case)
            if held is None or not footer.has_ordered_groups(held):
                return False
        return bool(footers)

    def _distinct(self, name: str) -> int | None:
        """Estimate the number of distinct values; None for constants, which differ between files."""
        footers = []
        for location, constants in self._files:
            footer = FOOTERS.get(location)
            held = match_name(footer.schema.names, name, self._ignore_case)
            if held is None or name in dict(constants):
                return None
            footers.append((footer, held))
        return distinct_values(footers)

    def _of_file(self, location: Location, constants: dict[str, Any], name: str) -> tuple[Any, Any, int | None, int]:
        """(minimum, maximum, nulls, rows) of a column in one file; None: unknown."""
        footer = FOOTERS.get(location)
        n_rows = footer.n_rows
        if name in constants:
            value = constants[name]
            return value, value, n_rows if value is None else 0, n_rows
        held = match_name(footer.schema.names, name, self._ignore_case)
        if held is None:
            return None, None, n_rows, n_rows
        return *footer.column_range(held), n_rows
