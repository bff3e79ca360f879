"""Divisors of joins, and estimates that are certain (SPEC Q4)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.builder.plan_builder import PlanBuilder
from qcore.connectors.arrow import ArrowTable
from qcore.connectors.base import TableStatistics
from qcore.expression.tree import col
from qcore.optimizer.cardinality import UNCERTAINTY, ColumnEstimate, Estimator, is_unique, key_values

ROWS = 1_000.0


def column(distinct: float, low: float | None = None, high: float | None = None, known: bool = True) -> ColumnEstimate:
    return ColumnEstimate(distinct, ROWS, known, low, high, 0.0, object())


def test_keys() -> None:
    assert is_unique([column(ROWS)])
    assert is_unique([column(2), column(ROWS, 1, ROWS, known=False)])
    assert not is_unique([column(ROWS, known=False)])  # the default assumption: as many values as rows
    assert not is_unique([column(ROWS - 1)])


def test_values_of_two_columns_that_repeat() -> None:
    assert key_values([column(25)], [column(10)]) == 25
    assert key_values([column(25)], [column(10, known=False)]) == 10


def test_values_of_a_unique_column() -> None:
    """A calendar has 1,000 days. Sales have 30 different days, all among the first 100."""
    calendar, sales = column(ROWS, 1, ROWS), column(30, 1, 100)
    assert key_values([sales], [calendar]) == pytest.approx(100)
    assert key_values([calendar], [sales]) == pytest.approx(100)
    # However many days a filter leaves, a sale matches one row at most.
    assert key_values([sales], [calendar], rows_b=400) == 400
    # Texts have no range.
    assert key_values([column(30)], [column(ROWS)]) == ROWS


def test_a_join_of_few_values_is_large() -> None:
    """Q2: TPC-H Q5 joins customers with the suppliers of their nation."""
    text = pa.table({"c_nation": [i % 25 for i in range(5_000)], "c_id": range(5_000)})
    other = pa.table({"s_nation": [i % 25 for i in range(2_000)], "s_id": range(2_000)})
    joined = (
        PlanBuilder().scan("c", source=text).hash_join(PlanBuilder().scan("s", source=other), "c_nation", "s_nation")
    )
    estimator = Estimator(lambda scan: scan.source.statistics())
    assert estimator.rows(joined.build()) == pytest.approx(5_000 * 2_000 / 25)


@pytest.mark.parametrize("name", ["x", "b_x"])
def test_a_key_of_columns_that_a_join_made_equal(name: str) -> None:
    """Q4: TPC-H Q9 joins parts and suppliers of a part. (y, b_x) has no more values than the table of (y, x).

    That `b_x` is a key of its table is not known: of large tables distinct values are estimated.
    """
    pairs = pa.table({"x": [i // 4 for i in range(4_000)], "y": [i % 4 * 50 + i % 200 // 4 for i in range(4_000)]})
    tables = {
        "pairs": pairs,
        "b": pa.table({"b_x": [0, *range(1_000)], "b_flag": [i % 10 == 0 for i in range(1_001)]}),
        "sales": pa.table({"s_x": [i % 4_000 // 4 for i in range(9_000)], "s_y": [i % 200 for i in range(9_000)]}),
    }
    scan = PlanBuilder({key: table.schema for key, table in tables.items()}).scan
    chosen = scan("pairs").hash_join(scan("b").filter(col("b_flag")), "x", "b_x").project(["y", "x", "b_x"])
    joined = scan("sales").hash_join(chosen.filter(col("y") >= 0), ["s_x", "s_y"], [name, "y"])
    estimator = Estimator(lambda scan: ArrowTable(tables[scan.table]).statistics())
    below = estimator.rows(chosen.build())
    # The key has 9,000 values at most in the 9,000 rows of sales. All combinations of 1,000 and 200 would be 200,000.
    assert estimator.rows(joined.build()) == pytest.approx(below, rel=0.3)


def test_uncertainty() -> None:
    """Q4: joins of inputs of unknown size are uncertain."""
    schemas = {name: pa.schema([(name, pa.int64())]) for name in ("known", "a", "b")}
    estimator = Estimator(lambda scan: TableStatistics(10) if scan.table == "known" else None)
    scan = PlanBuilder(schemas).scan
    assert estimator.uncertainty(scan("known").build()) == 1
    assert estimator.uncertainty(scan("a").hash_join(scan("known"), "a", "known").build()) == UNCERTAINTY
    assert estimator.uncertainty(scan("a").hash_join(scan("b"), "a", "b").build()) == UNCERTAINTY**2
    assert estimator.uncertainty(scan("a").aggregate([], {"n": ("count",)}).build()) == 1
