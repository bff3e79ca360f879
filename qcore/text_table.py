"""Render rows as an aligned text table."""

from __future__ import annotations

import datetime
import decimal
import unicodedata
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

NULL = "NULL"
# A cell wider than this is cut on a terminal.
CELL_WIDTH_MAX = 50


def render(table: pa.Table, width_max: int | None = None, unicode: bool = True) -> str:
    """Render the rows of a table, one line a row, numbers right-aligned.

    Parameters
    ----------
    table : pyarrow.Table
        All of its rows are shown.
    width_max : int or None
        Width of the terminal in columns: long cells are cut and middle columns left out to fit. None: no limit.
    unicode : bool
        Draw lines with box characters, else with ASCII.

    Examples
    --------
    >>> print(render(pa.table({"a": [1, 20]}), unicode=False))
     a
    --
     1
    20
    """
    headers = [one_line(name) for name in table.column_names]
    columns = [[cell(value) for value in python_values(column)] for column in table.columns]
    right = [is_number(column.type) for column in table.columns]
    if width_max is not None:
        headers = [_cut(header, CELL_WIDTH_MAX, unicode) for header in headers]
        columns = [[_cut(text, CELL_WIDTH_MAX, unicode) for text in column] for column in columns]
    return render_cells(headers, columns, right, width_max, unicode)


def render_cells(
    headers: Sequence[str],
    columns: Sequence[Sequence[str]],
    right: Sequence[bool],
    width_max: int | None = None,
    unicode: bool = True,
) -> str:
    """Render cells that are text already. Each of `columns` holds one column's cells; `right`: which align right."""
    widths = [max(map(text_width, (header, *column))) for header, column in zip(headers, columns, strict=True)]
    shown = _fitting_columns(widths, width_max)
    dropped = len(shown) < len(headers)
    middle = len(shown) // 2 if dropped else None
    bar, line, cross, more = ("│", "─", "┼", "…") if unicode else ("|", "-", "+", "...")

    def row_text(cells: Sequence[str]) -> str:
        parts = [_align(cells[i], widths[i], right[i]) for i in shown]
        if middle is not None:
            parts.insert(middle, more)
        return f" {bar} ".join(parts).rstrip()

    rule_widths = [widths[i] for i in shown]
    if middle is not None:
        rule_widths.insert(middle, len(more))
    rule = f"{line}{cross}{line}".join(line * width for width in rule_widths)
    n_rows = len(columns[0]) if columns else 0
    body = [row_text([column[row] for column in columns]) for row in range(n_rows)]
    return "\n".join([row_text(headers), rule, *body])


def is_number(type: pa.DataType) -> bool:
    """Whether columns of this type align right."""
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values as Python values; values that Python has no type for as text."""
    type = column.type
    if (pa.types.is_timestamp(type) or pa.types.is_time(type) or pa.types.is_duration(type)) and type.unit == "ns":
        return column.cast(pa.string() if not pa.types.is_duration(type) else pa.int64()).to_pylist()
    if pa.types.is_float32(type) or pa.types.is_float16(type):
        # 0.1, not 0.10000000149011612.
        return [
            None if value is None else float(str(value)) for chunk in column.chunks for value in _narrow_floats(chunk)
        ]
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        # Dates and timestamps outside the years 1 to 9999 exist in Arrow and not in Python.
        return column.cast(pa.string()).to_pylist() if not pa.types.is_nested(type) else ["?"] * len(column)


def _narrow_floats(chunk: pa.Array) -> list[Any]:
    values = chunk.to_numpy(zero_copy_only=False)
    return [value if valid else None for value, valid in zip(values, chunk.is_valid().to_pylist(), strict=True)]


def cell(value: Any) -> str:
    """Return one value as text on one line."""
    if value is None:
        return NULL
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, pa.MonthDayNano):
        return interval_text(value.months, value.days, value.nanoseconds)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {cell(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(cell, value)) + "]"
    return str(value)


def interval_text(months: int, days: int, nanos: int) -> str:
    """Return an interval in ISO 8601, such as P1M2DT3.5S."""
    date = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    seconds = format(decimal.Decimal(nanos).scaleb(-9).normalize(), "f")
    return f"P{date}T{seconds}S" if nanos or not date else f"P{date}"


def one_line(text: str) -> str:
    """Escape control characters, so that text cannot break the table or control the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def text_width(text: str) -> int:
    """The number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _align(text: str, width: int, right: bool) -> str:
    padding = " " * (width - text_width(text))
    return padding + text if right else text + padding


def _cut(text: str, width: int, unicode: bool) -> str:
    if text_width(text) <= width:
        return text
    mark = "…" if unicode else "..."
    while text and text_width(text) > width - len(mark):
        text = text[:-1]
    return text + mark


def _fitting_columns(widths: Sequence[int], width_max: int | None) -> list[int]:
    """Positions of the columns that fit, taken from both ends; at least the first."""
    positions = list(range(len(widths)))
    if width_max is None or sum(widths) + 3 * (len(widths) - 1) <= width_max:
        return positions
    free = width_max - 4
    left: list[int] = []
    right: list[int] = []
    taken = 0
    low, high = 0, len(widths) - 1
    while low <= high:
        from_left = len(left) <= len(right)
        position = low if from_left else high
        if left and taken + widths[position] + 3 > free:
            break
        taken += widths[position] + 3
        if from_left:
            left.append(position)
            low += 1
        else:
            right.append(position)
            high -= 1
    return left + right[::-1]
