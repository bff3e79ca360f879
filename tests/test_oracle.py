"""The comparison of the tests itself: if it could not fail, no other test could."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from oracle import assert_same_rows
from random_tables import ALL_TYPES, SIZES, random_table


def differ(actual: pa.Table, expected: pa.Table, **options: object) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_same_rows(actual, expected, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_multisets_count_duplicates() -> None:
    once, twice = pa.table({"a": [1, 2, 2]}), pa.table({"a": [1, 1, 2]})
    assert_same_rows(once, pa.table({"b": [2, 1, 2]}))
    message = differ(once, twice)
    assert "1 rows missing:\n  (1)" in message and "1 rows not expected:\n  (2)" in message


def test_order_counts_when_asked() -> None:
    down = pa.table({"a": [2, 1]})
    assert "row 0: (1)" in differ(down, pa.table({"a": [1, 2]}), ordered=True)


def test_decimals_are_exact_and_floats_are_not() -> None:
    exact = pa.table({"a": pa.array([Decimal("0.10")], pa.decimal128(10, 2))})
    near = pa.table({"a": pa.array([Decimal("0.1000000001")], pa.decimal128(20, 10))})
    differ(exact, near)
    assert_same_rows(exact, pa.table({"a": pa.array([Decimal("0.1")], pa.decimal128(38, 1))}))
    assert_same_rows(exact, pa.table({"a": [0.1 + 1e-13]}))
    differ(exact, pa.table({"a": [0.1001]}))


def test_floats_match_whatever_their_order() -> None:
    left = pa.table({"k": ["x", "x", "y"], "a": [1.0, float("nan"), -0.0]})
    right = pa.table({"k": ["y", "x", "x"], "a": [0.0, float("nan"), 1.0 + 1e-12]})
    assert_same_rows(left, right)
    assert "not expected" in differ(left, pa.table({"k": ["y", "x", "x"], "a": [0.0, 2.0, 1.0]}))


def test_null_equals_null_alone() -> None:
    differ(pa.table({"a": [None, 1]}), pa.table({"a": [0, 1]}))
    assert_same_rows(pa.table({"a": [None, 1]}), pa.table({"a": [1, None]}))


def test_booleans_are_no_numbers() -> None:
    differ(pa.table({"a": [True]}), pa.table({"a": [1]}))


@pytest.mark.parametrize("size", SIZES)
def test_random_tables_are_what_was_asked_for(size: int) -> None:
    table = random_table(1, size, ALL_TYPES, null_share=0.3, offset=3)
    table.validate(full=True)
    assert table.num_rows == size
    assert table.equals(random_table(1, size, ALL_TYPES, null_share=0.3, offset=3))
    if size > 1000:
        assert all(column.null_count == size or 0.2 < column.null_count / size < 0.4 for column in table.columns)
        assert random_table(2, size, [pa.int64()]) != random_table(1, size, [pa.int64()])


@pytest.mark.parametrize("type", ALL_TYPES, ids=str)
def test_random_values_survive_the_oracle(type: pa.DataType, duck: duckdb.DuckDBPyConnection) -> None:
    """DuckDB reads every generated type and returns the same rows."""
    table = random_table(3, 500, [type], n_distinct=40, extremes=not pa.types.is_floating(type), chunk_rows=128)
    duck.register("t", table)
    assert_same_rows(duck.sql("select * from t"), table)
