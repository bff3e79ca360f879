"""Sums and counts of whole columns, without keys: sizes, nulls, slices, layouts, selections, drivers. SPEC Q2."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, present

import qcore
from random_tables import SIZES

WIDE = pa.decimal128(38, 0)


def total(values: list[Any]) -> Any:
    return sum(present(values)) if present(values) else None


def exact_total(values: list[Any]) -> Any:
    return math.fsum(present(values)) if present(values) else None


def n_present(values: list[Any]) -> int:
    return len(present(values))


def numbers(n_rows: int, null_share: float, seed: int = 1) -> pa.Table:
    """An integer from the whole range, a float and a smaller integer. Null rows hold random bits."""
    rng = np.random.default_rng(seed)
    nulls = rng.random((3, n_rows)) < null_share
    columns = {
        "i": pa.array(rng.integers(-(2**63), 2**63 - 1, n_rows), mask=nulls[0]),
        "f": pa.array(rng.normal(size=n_rows), mask=nulls[1]),
        "s": pa.array(rng.integers(-9, 9, n_rows).astype(np.int32), mask=nulls[2]),
    }
    return pa.table(columns)


def plain_calls(i: int, f: int) -> list[Call]:
    return [
        Call("sum", i, WIDE, total),
        Call("count", i, pa.int64(), n_present),
        Call("sum", f, pa.float64(), exact_total),
        Call("count", f, pa.int64(), n_present),
        Call("count", -1, pa.int64(), len),
    ]


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 65_535, 65_536, 65_537, 150_001])
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("start", [0, 1, 13])
def test_q2_sums_and_counts_of_columns(n_rows: int, null_share: float, start: int) -> None:
    """Blocks of 65,536 rows, slices whose bitmaps begin within a byte, and columns that are all null."""
    check(numbers(n_rows + start, null_share).slice(start), 0, plain_calls(0, 1))


@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_q2_one_argument_of_another_layout(null_share: float) -> None:
    """Narrow or unsigned integers, dictionaries and stored decimals are loaded as vectors.

    All calls then read vectors.
    """
    table = numbers(5000, null_share)
    others = {
        "narrow": table["s"],
        "dictionary": table["i"].dictionary_encode(),
        "unsigned": pa.chunked_array([pa.array([2**64 - 1, None, 3] * 1667, pa.uint64())[:5000]]),
        "decimal": pa.chunked_array([pa.array([Decimal(10**17), None, Decimal(-3)] * 1667, pa.decimal128(18))[:5000]]),
    }
    for name, column in others.items():
        both = pa.table({"i": table["i"], "f": table["f"], name: column})
        calls = [*plain_calls(0, 1), Call("sum", 2, WIDE, total), Call("count", 2, pa.int64(), n_present)]
        check(both, 0, calls)


def test_q2_no_value_before_the_last_batch() -> None:
    """Only the last rows of a column are not null. The sum has a value only then."""
    values = [None] * 70_000 + [5, None]
    table = pa.table({"i": pa.array(values, pa.int64()), "f": pa.array(values, pa.float64())})
    check(table, 0, plain_calls(0, 1))
    check(table.slice(0, 70_000), 0, plain_calls(0, 1))


def test_q2_sums_that_exceed_64_bits() -> None:
    for value in (2**63 - 1, -(2**63)):
        table = pa.table({"i": pa.array([value] * 70_000, pa.int64()), "f": pa.array([0.5] * 70_000)})
        check(table, 0, plain_calls(0, 1))


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("condition", ["true", "s < 0", "s > 8", "s > 100", "i is not null"])
def test_q2_rows_that_a_filter_selects(threads: int, condition: str) -> None:
    table = numbers(70_000, 0.2)
    session = qcore.Session(threads=threads)
    session.register("t", table)
    row = session.sql(f"select sum(s), sum(f), count(i), count(*), avg(f) from t where {condition}").to_arrow()
    rows = [
        row
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
        if condition == "true"
        or (condition == "i is not null" and row[0] is not None)
        or (condition.startswith("s ") and row[2] is not None and eval(condition, {"s": row[2]}))
    ]
    floats = present(row[1] for row in rows)
    exact = math.fsum(floats) if floats else None
    assert row.column(0).to_pylist() == [total([row[2] for row in rows])]
    assert row.column(1).to_pylist() == [pytest.approx(exact)]
    assert row.column(2).to_pylist() == [n_present([row[0] for row in rows])]
    assert row.column(3).to_pylist() == [len(rows)]
    assert row.column(4).to_pylist() == [pytest.approx(exact / len(floats)) if floats else None]
