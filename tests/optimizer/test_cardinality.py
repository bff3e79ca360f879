"""Divisors of joins, and estimates that are certain (SPEC Q4)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.builder.plan_builder import PlanBuilder
from qcore.connectors.base import TableStatistics
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


def test_uncertainty() -> None:
    """Q4: joins of inputs of unknown size are uncertain."""
    schemas = {name: pa.schema([(name, pa.int64())]) for name in ("known", "a", "b")}
    estimator = Estimator(lambda scan: TableStatistics(10) if scan.table == "known" else None)
    scan = PlanBuilder(schemas).scan
    assert estimator.uncertainty(scan("known").build()) == 1
    assert estimator.uncertainty(scan("a").hash_join(scan("known"), "a", "known").build()) == UNCERTAINTY
    assert estimator.uncertainty(scan("a").hash_join(scan("b"), "a", "b").build()) == UNCERTAINTY**2
    assert estimator.uncertainty(scan("a").aggregate([], {"n": ("count",)}).build()) == 1
