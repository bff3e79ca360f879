"""Rows as text."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from qcore.text_table import cell, render, text_width
from random_tables import ALL_TYPES, random_table


def test_numbers_align_right_and_text_left() -> None:
    table = pa.table(
        {"name": ["a", "bcd"], "n": [1, 200], "d": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))}
    )
    assert render(table).splitlines() == [
        "name │   n │    d",
        "─────┼─────┼─────",
        "a    │   1 │ 1.50",
        "bcd  │ 200 │ NULL",
    ]


def test_ascii_lines() -> None:
    assert render(pa.table({"a": [1], "b": [2]}), unicode=False).splitlines() == ["a | b", "--+--", "1 | 2"]


def test_no_rows_and_no_columns() -> None:
    assert render(pa.table({"a": pa.array([], pa.int32())})).splitlines() == ["a", "─"]
    assert render(pa.table({})) == "\n"


def test_a_cell_stays_on_its_line() -> None:
    assert cell("two\nlines\x1b[31m") == "two\\nlines\\x1b[31m"
    assert len(render(pa.table({"a\nb": ["c\nd"]})).splitlines()) == 3


@pytest.mark.parametrize("width", [20, 40, 79, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    table = pa.table({f"column_{i}": ["x" * (i * 7 % 60)] for i in range(12)})
    lines = render(table, width).splitlines()
    # The first column is shown whatever happens.
    assert max(map(text_width, lines)) <= max(width, text_width("column_0") + 4)
    assert "…" in lines[0]
    assert "column_0" in lines[0]


def test_wide_characters_count_double() -> None:
    lines = render(pa.table({"a": ["漢字", "ab"], "b": ["x", "y"]})).splitlines()
    assert lines[2] == "漢字 │ x"
    assert lines[3] == "ab   │ y"


def test_values_read_as_people_write_them() -> None:
    assert cell(datetime.datetime(2024, 2, 29, 12, 30)) == "2024-02-29 12:30:00"
    assert cell(Decimal("1E+5")) == "100000"
    assert cell(b"ab") == "\\x6162"
    assert cell([1, None, {"k": True}]) == "[1, NULL, {k: true}]"
    assert cell(pa.MonthDayNano([1, 2, 3_500_000_000])) == "P1M2DT3.5S"
    assert render(pa.table({"f": pa.array(np.float32([0.1]))})).splitlines()[2] == "0.1"


def test_every_type_has_a_text() -> None:
    table = random_table(1, 20, ALL_TYPES, extremes=True)
    assert len(render(table, 120).splitlines()) == 22
