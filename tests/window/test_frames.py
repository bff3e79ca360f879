"""Frames compared with their definition: modes, exclusions, orders, nulls and types. SPEC Q2."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from windows import EXCLUSIONS, Rows, run_window

from qcore.errors import ExecutionError
from qcore.plan.nodes import ColumnDistance, SortKey, WindowCall, WindowFrame
from random_tables import SIZES

DISTANCES: list[tuple[int | None, int | None]] = [
    (None, 0), (0, None), (None, None), (0, 0), (-2, 1), (-1, -1), (2, 3), (None, -2), (1, None), (3, 1), (-9, -4),
]  # fmt: skip
NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(),
    pa.float64(), pa.decimal128(5, 0), pa.decimal128(30, 0), pa.date32(),
]  # fmt: skip


def positions(got: pa.Table, name: str) -> list[list[int]]:
    return [row or [] for row in got[name].to_pylist()]


def check(table: pa.Table, frame: WindowFrame, order: list[SortKey], model_order: list[SortKey] | None = None) -> None:
    """Compare the ids in the frame of each row, in order."""
    got = run_window(table, [WindowCall("x", "array_agg", "id", frame=frame)], ["p"], order)
    rows = got.to_pylist()
    model = Rows(rows, ["p"], model_order or order)
    expected = [[rows[at]["id"] for at in model.frame(position, frame)] for position in range(len(rows))]
    assert positions(got, "x") == expected


def table(n_rows: int, keys: pa.Array) -> pa.Table:
    """Partitions of about 25 rows, and one partition of a single row."""
    parts = [row // 25 if row else -1 for row in range(n_rows)]
    return pa.table({"id": pa.array(range(n_rows), pa.int64()), "p": pa.array(parts, pa.int64()), "k": keys})


@pytest.mark.each_value
@pytest.mark.parametrize("exclude", EXCLUSIONS)
@pytest.mark.parametrize(("start", "end"), DISTANCES)
@pytest.mark.parametrize("mode", ["rows", "groups", "range"])
def test_frames_of_each_mode(mode: str, start: int | None, end: int | None, exclude: str) -> None:
    rng = np.random.default_rng(7)
    keys = pa.array(rng.integers(0, 9, 120), pa.int64(), mask=rng.random(120) < 0.15)
    check(table(120, keys), WindowFrame(mode, start, end, exclude), [SortKey("k")])


@pytest.mark.parametrize("exclude", EXCLUSIONS)
@pytest.mark.parametrize("mode", ["rows", "groups"])
@pytest.mark.parametrize("n_rows", [0, 1, 130])
def test_distances_of_a_column(n_rows: int, mode: str, exclude: str) -> None:
    """The distances differ by row, so bounds of frames do not ascend with the rows."""
    rng = np.random.default_rng(n_rows)
    rows = table(n_rows, pa.array(rng.integers(0, 9, n_rows), pa.int64()))
    rows = rows.append_column("n", pa.array(rng.choice([0, 1, 2, 5, 24, 2**62], n_rows), pa.int64()))
    before, behind = ColumnDistance("n", True), ColumnDistance("n", False)
    for start, end in ((before, 0), (0, behind), (before, behind), (None, behind), (before, None), (before, before),
                       (behind, 3), (-2, before), (-2, behind)):  # fmt: skip
        check(rows, WindowFrame(mode, start, end, exclude), [SortKey("k")])


@pytest.mark.parametrize("mode", ["rows", "groups"])
@pytest.mark.parametrize(
    ("distances", "message"), [([1, None], "distance of a frame is null"), ([1, -1], "distance of a frame is negative")]
)
def test_distances_that_are_none(distances: list[int | None], message: str, mode: str) -> None:
    rows = pa.table({"id": [0, 1], "p": [0, 0], "k": [1, 2], "n": pa.array(distances, pa.int64())})
    for frame in (WindowFrame(mode, ColumnDistance("n", True), 0), WindowFrame(mode, 0, ColumnDistance("n", False))):
        with pytest.raises(ExecutionError, match=message):
            check(rows, frame, [SortKey("k")])


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("mode", ["rows", "groups", "range"])
def test_sizes(mode: str, n_rows: int) -> None:
    keys = pa.array(np.random.default_rng(n_rows).integers(0, 30, n_rows), pa.int32())
    check(table(n_rows, keys), WindowFrame(mode, -3, 2), [SortKey("k", descending=True)])


@pytest.mark.each_value
@pytest.mark.parametrize(("start", "end"), [(-3, 2), (1, 4), (-5, -1), (None, 1), (-1, None)])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_distances_of_each_type(
    type_: pa.DataType, nulls_first: bool, descending: bool, start: int | None, end: int | None
) -> None:
    """Distances near both ends of the type's range. The frame of a row without a value is its peers."""
    rng = np.random.default_rng(3)
    numbers: list[Any] = rng.integers(0, 20, 60).tolist()
    if pa.types.is_integer(type_):
        info = np.iinfo(type_.to_pandas_dtype())
        ends = [int(info.min), int(info.min) + 2, int(info.max), int(info.max) - 3]
        numbers[::6] = [ends[at % 4] for at in range(10)]
    elif pa.types.is_floating(type_):
        numbers[::6] = [float("nan"), float("inf"), -0.5, 1e30, 3.25] * 2
    elif pa.types.is_decimal(type_):
        numbers = [Decimal(number) for number in numbers]
    nulls = rng.random(60) < 0.1
    given = pa.int32() if pa.types.is_date32(type_) else type_
    keys = pa.array(
        [None if null else number for null, number in zip(nulls, numbers, strict=True)], given, from_pandas=False
    )
    keys = keys.cast(type_)
    rows = table(60, keys)
    convert = float if pa.types.is_floating(type_) else int
    frame = WindowFrame("range", *(None if at is None else convert(at) for at in (start, end)))
    order = [SortKey("k", descending, nulls_first)]
    got = run_window(rows, [WindowCall("x", "array_agg", "id", frame=frame)], ["p"], order)
    as_numbers = got.to_pylist()
    for row in as_numbers:
        if isinstance(row["k"], datetime.date):
            row["k"] = row["k"].toordinal()
    model = Rows(as_numbers, ["p"], order)
    expected = [[as_numbers[at]["id"] for at in model.frame(position, frame)] for position in range(60)]
    assert positions(got, "x") == expected


def plus(at: datetime.datetime, months: int, days: int, seconds: int) -> datetime.datetime:
    """Add an interval to an instant. If the month is too short for the day, the result is the month's last day."""
    month = at.year * 12 + at.month - 1 + months
    for day in range(at.day, 27, -1):
        try:
            at = at.replace(year=month // 12, month=month % 12 + 1, day=day)
            break
        except ValueError:
            continue
    else:
        at = at.replace(year=month // 12, month=month % 12 + 1)
    return at + datetime.timedelta(days=days, seconds=seconds)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("unit", ["date", "s", "ms", "us", "ns"])
def test_distances_by_the_calendar(unit: str, descending: bool) -> None:
    """One month before the 31st is the last day of the month. Also for nanoseconds, and before 1970."""
    rng = np.random.default_rng(11)
    base = datetime.datetime(1969, 11, 25)
    hours = rng.integers(0, 24 * 120, 80).tolist()
    times = [base + datetime.timedelta(hours=hour if unit != "date" else hour // 24 * 24) for hour in hours]
    times[0], times[1] = datetime.datetime(1970, 1, 31), datetime.datetime(1970, 2, 28)
    type_ = pa.date32() if unit == "date" else pa.timestamp(unit)
    keys = pa.array([None if row % 9 == 4 else time for row, time in enumerate(times)], pa.timestamp("us")).cast(type_)
    rows = pa.table({"id": range(80), "p": [0] * 80, "k": keys})
    start, end = (-1, -2, -7200), (0, 3, 3600)
    bounds = [pa.MonthDayNano([months, days, seconds * 10**9]) for months, days, seconds in (start, end)]
    order = [SortKey("k", descending)]
    got = run_window(rows, [WindowCall("x", "array_agg", "id", frame=WindowFrame("range", *bounds))], ["p"], order)
    ids = got["id"].to_pylist()
    sign = -1 if descending else 1
    expected = []
    for id in ids:
        if id % 9 == 4:
            expected.append([other for other in ids if other % 9 == 4])
            continue
        ends = [plus(times[id], *(sign * part for part in bound)) for bound in (start, end)]
        low, high = reversed(ends) if descending else ends
        expected.append([other for other in ids if other % 9 != 4 and low <= times[other] <= high])
    assert positions(got, "x") == expected


def test_a_distance_needs_one_number() -> None:
    rows = pa.table({"id": [1, 2], "p": [0, 0], "k": ["a", "b"]})
    for order in ([], [SortKey("k")], [SortKey("k"), SortKey("id")]):
        message = "a RANGE frame with a distance needs exactly one key to order by: a number or a time"
        with pytest.raises(ExecutionError, match=message):
            run_window(rows, [WindowCall("x", "sum", "id", frame=WindowFrame("range", -1, 1))], ["p"], order)
