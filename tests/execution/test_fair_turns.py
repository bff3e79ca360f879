"""Small queries run on one thread during a long call of an operator (SPEC V7: a driver's time slice is bounded)."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder

N_ROWS = 16_000_000
PLANS: dict[str, Callable[[PlanBuilder], PlanBuilder]] = {
    "sort": lambda rows: rows.order_by(["v", "k"]),
    "window": lambda rows: rows.window(partition_by=["v"], order_by=["k"], calls={"n": ("row_number",)}),
}


def sorting(task: qcore.Task) -> bool:
    """Whether the sort has all rows, and begins the long call."""
    operators = [operator for pipeline in task.stats()["pipelines"] for operator in pipeline["operators"]]
    return any(o["name"] in ("OrderBy", "Window") and o["input_rows"] == N_ROWS for o in operators)


@pytest.mark.parametrize("name", PLANS)
def test_v7_a_sort_lets_others_be_served(name: str) -> None:
    """V7: the sort of all rows is one call. Other queries do not wait for its end."""
    random = np.random.default_rng(1)
    rows = pa.table({"k": random.integers(0, 1 << 30, N_ROWS), "v": random.integers(0, 100, N_ROWS)})
    session = qcore.Session(threads=1)
    session.register("t", pa.table({"a": range(1000)}))
    plan = PLANS[name](PlanBuilder().values(rows)).aggregate(aggs={"n": ("count",)})
    heavy = qcore.Task(plan.build(), drivers=1)
    heavy.start()
    while not sorting(heavy):
        time.sleep(0.001)
    session.sql("select count(*) from t where a > 3").to_arrow()
    assert heavy.state == "running"  # the answer did not wait for the end of the sort
    heavy.wait(timeout=60)
