"""Pruning by statistics never leaves out a row group with a row that passes (SPEC V10)."""

from __future__ import annotations

import datetime
import decimal
import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcore.connectors.parquet.footer import FooterCache
from qcore.connectors.parquet.pruning import Bounds, may_pass
from qcore.connectors.storage import locate
from qcore.expression.tree import Call, Cast, Column, Expr, In, Literal, call, col, lit

OPERATORS: dict[str, Any] = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}


def value_of(expr: Expr, row: dict[str, Any]) -> Any:
    """The value of an expression by SQL's three-valued logic; None is null."""
    if isinstance(expr, Column):
        return row[expr.name]
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Cast):
        value = value_of(expr.argument, row)
        is_day = isinstance(value, datetime.date) and pa.types.is_timestamp(expr.to)
        return datetime.datetime.combine(value, datetime.time()) if is_day else value
    if isinstance(expr, In):
        parts = [value_of(call("equal", expr.argument, value), row) for value in expr.values]
        return True if True in parts else None if None in parts else False
    assert isinstance(expr, Call)
    values = [value_of(argument, row) for argument in expr.arguments]
    if expr.function == "and":
        return False if False in values else None if None in values else True
    if expr.function == "or":
        return True if True in values else None if None in values else False
    if expr.function == "is_null":
        return values[0] is None
    if expr.function == "is_not_null":
        return values[0] is not None
    if None in values:
        return None
    if expr.function == "not":
        return not values[0]
    if expr.function == "like":
        return values[0].startswith(values[1].rstrip("%"))
    return OPERATORS[expr.function](*values)


def draw_value(draw: random.Random, kind: str) -> Any:
    number = draw.randrange(-20, 20)
    return {
        "i": number,
        "d": decimal.Decimal(number) / 10,
        "s": "abc"[: abs(number) % 4] + str(abs(number)) * (abs(number) % 3),
        "day": datetime.date(2020, 1, 15) + datetime.timedelta(days=number),
        "b": number > 0,
        "f": draw.choice([number / 4, float("nan"), -0.0]),
    }[kind]


TYPES = {
    "i": pa.int32(),
    "d": pa.decimal128(9, 1),
    "s": pa.string(),
    "day": pa.date32(),
    "b": pa.bool_(),
    "f": pa.float64(),
}


def draw_condition(draw: random.Random, depth: int) -> Expr:
    kind = draw.choice(list(TYPES))
    shape = draw.randrange(10 if depth else 7)
    column = col(kind)
    constant = lit(draw_value(draw, kind), TYPES[kind])
    if shape < 3:
        return call(draw.choice(list(OPERATORS)), *draw.sample([column, constant], 2))
    if shape == 3:
        other = {"i": "d", "d": "i", "day": "day"}.get(kind, kind)
        return call(draw.choice(list(OPERATORS)), column, col(other + "2" if other == kind else other))
    if shape == 4:
        return In(column, tuple(lit(draw_value(draw, kind), TYPES[kind]) for _ in range(3)))
    if shape == 5:
        return draw.choice([column.is_null(), column.is_not_null(), col("b"), lit(None, pa.bool_()), lit(True)])
    if shape == 6:
        casts = {"i": pa.int64(), "d": pa.decimal128(12, 3), "day": pa.timestamp("us"), "s": pa.large_string()}
        if kind == "s" and draw.random() < 0.5:
            return column.like(draw_value(draw, "s") + "%")
        to = casts.get(kind, TYPES[kind])
        return call(draw.choice(list(OPERATORS)), Cast(column, to), lit(value_of(Cast(constant, to), {}), to))
    parts = [draw_condition(draw, depth - 1) for _ in range(2)]
    return call("not", parts[0]) if shape == 7 else call("and" if shape == 8 else "or", *parts)


def draw_rows(draw: random.Random, n_rows: int) -> list[dict[str, Any]]:
    rows = []
    null_share = draw.choice([0.0, 0.3, 1.0])
    narrow = draw.random() < 0.5
    base = {kind: draw_value(draw, kind) for kind in TYPES}
    for _ in range(n_rows):
        row: dict[str, Any] = {}
        for kind in TYPES:
            for name in (kind, kind + "2"):
                value = base[kind] if narrow else draw_value(draw, kind)
                row[name] = None if draw.random() < null_share else value
        rows.append(row)
    return rows


def test_random_conditions_over_random_row_groups(tmp_path: Path) -> None:
    """The oracle evaluates row by row. Some groups must be left out, because the test shows nothing otherwise."""
    draw = random.Random(11)
    groups = [draw_rows(draw, 6) for _ in range(60)]
    types = {name: type for kind, type in TYPES.items() for name, type in ((kind, type), (kind + "2", type))}
    table = pa.Table.from_pylist([row for rows in groups for row in rows], schema=pa.schema(list(types.items())))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=6)
    footer = FooterCache().get(locate(str(tmp_path / "t.parquet")))
    left_out = 0
    for _ in range(3000):
        condition = draw_condition(draw, 2)
        number = draw.randrange(len(groups))
        passes = any(value_of(condition, row) is True for row in groups[number])
        kept = footer.may_pass(number, condition)
        assert kept or not passes, f"{condition!r} holds for a row of group {number}: {groups[number]}"
        left_out += not kept
    assert left_out > 600


def bounds_of(type: pa.DataType, low: Any, high: Any, **more: bool) -> Any:
    bounds = Bounds(type, low, high, **more)
    return lambda name: bounds if name == "a" else None


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (col("a") > 10, False),
        (col("a") >= 10, True),
        (col("unknown") > 10, True),
        (lit(10) < col("a"), False),
        ((col("a") > 10) | (col("unknown") > 3), True),
        ((col("a") > 10) & (col("unknown") > 3), False),
        (~(col("a") <= 10), False),
        (col("a") == "ten", True),
        (col("a") + 1 > 100, True),
        (col("a") > lit(None, pa.int64()), False),
        (lit(False), False),
        (lit(None, pa.bool_()), False),
        (col("a") > 10.0, False),
        (col("a") > float("nan"), True),
        (col("a") > decimal.Decimal("10.5"), False),
    ],
)
def test_integers_from_1_to_10(condition: Expr, kept: bool) -> None:
    assert may_pass(condition, bounds_of(pa.int64(), 1, 10)) is kept


def test_integers_beyond_double_precision_against_a_double() -> None:
    """As doubles, 2**53 + 1 equals 2**53: the group must stay."""
    assert may_pass(col("a") == float(2**53), bounds_of(pa.int64(), 2**53 + 1, 2**53 + 1))


def test_single_precision_against_a_constant_it_cannot_hold() -> None:
    assert may_pass(col("a") == lit(0.1), bounds_of(pa.float32(), 0.10000000149011612, None))
    assert not may_pass(col("a") < lit(0.0), bounds_of(pa.float32(), 1.0, None))


def test_not_a_number_counts_as_greater_than_all(tmp_path: Path) -> None:
    """Statistics do not include NaN, and NaN passes x > 5."""
    pq.write_table(pa.table({"a": [1.0, float("nan")]}), tmp_path / "t.parquet")
    footer = FooterCache().get(locate(str(tmp_path / "t.parquet")))
    assert footer.may_pass(0, col("a") > 5.0)
    assert not footer.may_pass(0, col("a") < 0.5)


def test_zoned_against_plain_timestamps_stay() -> None:
    zoned = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    assert may_pass(col("a") > datetime.datetime(2030, 1, 1), bounds_of(pa.timestamp("us", "UTC"), zoned, zoned))


def test_clocks_of_zones_are_not_taken_for_utc() -> None:
    """A local time that is compared with instants of a zone is a time of that zone. Pruning leaves it to the engine."""
    when = datetime.datetime(2024, 7, 1, 3, 30, tzinfo=datetime.UTC)
    bounds = bounds_of(pa.timestamp("us", "Asia/Kolkata"), when, when)
    there = pa.timestamp("us", "Asia/Kolkata")
    local = lit(datetime.datetime(2024, 7, 1, 9, 0), pa.timestamp("us"))
    assert may_pass(call("equal", col("a"), Cast(local, there)), bounds)
    assert may_pass(call("equal", col("a"), lit(datetime.date(2024, 7, 1), pa.date32())), bounds)
    utc = pa.timestamp("us", "UTC")
    assert not may_pass(call("equal", col("a"), Cast(lit(when + datetime.timedelta(hours=1), utc), there)), bounds)


def test_truncated_string_statistics(tmp_path: Path) -> None:
    """Writers may shorten long bounds: the minimum to a prefix, the maximum to a larger prefix."""
    words = ["m" * 200 + "a", "m" * 200 + "z"]
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": words}), sink)
    (tmp_path / "t.parquet").write_bytes(sink.getvalue())
    footer = FooterCache().get(locate(str(tmp_path / "t.parquet")))
    for word in words:
        assert footer.may_pass(0, col("a") == word)
        assert footer.may_pass(0, col("a").like(word[:150] + "%"))
