"""Runs the Window operator over tables, and computes frames by their definition in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.plan.nodes import ColumnDistance, SortKey, WindowCall, WindowFrame
from qcore.plan.window_calls import operator_call, window_type
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_ext.window.window import Window
from qcore_testing.operators import run_chain

EXCLUSIONS = ("no others", "current row", "group", "ties")


def run_window(
    table: pa.Table,
    calls: Sequence[WindowCall],
    partition: Sequence[str] = (),
    order: Sequence[SortKey] = (),
    batch_rows: int | None = None,
) -> pa.Table:
    """The table's rows in order, with a column for each call."""
    fields = [pa.field(call.name, window_type(call, table.schema)) for call in calls]
    schema = pa.schema([*table.schema, *fields])
    keys = [(key.column, key.descending, key.nulls_first) for key in order]
    described = [operator_call(call) for call in calls]
    operator = Window("w", Account(), list(partition), keys, described, Schema(schema))
    batches = run_chain([operator], table.to_batches(max_chunksize=batch_rows), table.schema)
    return pa.Table.from_batches(batches, schema=schema)


def window_values(
    table: pa.Table, call: WindowCall, partition: Sequence[str] = (), order: Sequence[SortKey] = ()
) -> Any:
    """The values of one call, in the window's order."""
    return run_window(table, [call], partition, order)[call.name].to_pylist()


class Rows:
    """A model: rows in a window's order, with partitions, peers and frames found by comparing all rows."""

    def __init__(self, rows: list[dict[str, Any]], partition: Sequence[str], order: Sequence[SortKey]) -> None:
        self.rows = rows
        self.keys = [tuple(as_equal(row[key.column]) for key in order) for row in rows]
        self.order = list(order)
        parts = [tuple(as_equal(row[name]) for name in partition) for row in rows]
        self.part_of: list[range] = []
        self.group: list[int] = []
        for position, part in enumerate(parts):
            same = position > 0 and part == parts[position - 1]
            begin = self.part_of[-1].start if same else position
            end = (
                self.part_of[-1].stop
                if same
                else next((at for at in range(position, len(rows)) if parts[at] != part), len(rows))
            )
            self.part_of.append(range(begin, end))
            is_peer = same and self.keys[position] == self.keys[position - 1]
            self.group.append(self.group[-1] + (not is_peer) if same else 0)

    def frame(self, position: int, frame: WindowFrame) -> list[int]:
        """The positions of a row's frame, ascending."""
        inside = [at for at in self.part_of[position] if self._within(at, position, frame)]
        if frame.exclude == "current row":
            return [at for at in inside if at != position]
        if frame.exclude in ("group", "ties"):
            kept = frame.exclude == "ties"
            return [at for at in inside if self.group[at] != self.group[position] or (kept and at == position)]
        return inside

    def _within(self, at: int, position: int, frame: WindowFrame) -> bool:
        start, end = (self._distance(end, position) for end in (frame.start, frame.end))
        if frame.mode == "range":
            return self._reaches(at, position, start, False) and self._reaches(at, position, end, True)
        positions = range(len(self.rows)) if frame.mode == "rows" else self.group
        distance = positions[at] - positions[position]
        return (start is None or distance >= start) and (end is None or distance <= end)

    def _distance(self, end: Any, position: int) -> Any:
        """A bound of a row's frame. If the bound is a column, its value in the row."""
        if not isinstance(end, ColumnDistance):
            return end
        value = self.rows[position][end.column]
        return -value if end.is_preceding else value

    def _reaches(self, at: int, position: int, distance: Any, is_end: bool) -> bool:
        """Whether a row is inside of one bound of a frame by values."""
        if distance is None:
            return True
        groups = self.group[at] - self.group[position]
        here, there = (self.keys[row][0] if self.keys[row] else None for row in (position, at))
        if distance == 0 or len(self.order) != 1 or not is_number(here):
            return groups <= 0 if is_end else groups >= 0
        if not is_number(there):
            # Rows without a number are before or after all others.
            return groups < 0 if is_end else groups > 0
        if self.order[0].descending:
            here, there = -here, -there
        return there <= here + distance if is_end else there >= here + distance


def as_equal(value: Any) -> Any:
    """The value, or a text for NaN, which does not equal itself."""
    return "nan" if value != value else value


def is_number(value: Any) -> bool:
    return value is not None and not isinstance(value, str)
