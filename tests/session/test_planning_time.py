"""The timeout holds while a query is planned. SPEC P4, G6."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

import qcore
from qcore.builder.plan_builder import PlanBuilder
from qcore.plan.planning_time import check_planning, limit_planning

T = pa.table({"a": [1, 2, 3]})
TOO_LONG = "planning the query took longer than its timeout of"


def test_each_way_to_plan_a_query() -> None:
    """G6: each way notices the timeout."""
    session = qcore.Session(timeout=1e-5)
    session.register("t", T)
    with pytest.raises(qcore.Timeout, match=TOO_LONG):
        session.sql("select * from t")
    with pytest.raises(qcore.Timeout, match=TOO_LONG):
        session.execute(PlanBuilder({"t": T.schema}).scan("t").filter("a > 1").build())
    session.change(timeout=60)
    assert session.sql("select count(*) as n from t").to_arrow()["n"].to_pylist() == [3]


def test_long_queries() -> None:
    """P4: planning of two thousand unions, each with a condition, ends soon after the timeout."""
    parts = [f"select a + {n} as a from t where a > {n} or a in (1, 2, {n})" for n in range(2000)]
    session = qcore.Session(timeout=0.2)
    session.register("t", T)
    began = time.process_time()
    with pytest.raises(qcore.Timeout, match=TOO_LONG):
        session.sql(" union all ".join(parts))
    assert time.process_time() - began < 20


def test_limits_are_of_one_query() -> None:
    """G6: the outermost limit applies. Other threads and later queries have none."""
    other = threading.Thread(target=check_planning)

    def long_planning() -> None:
        with limit_planning(0.01), limit_planning(60):
            time.sleep(0.02)
            other.start()
            other.join()
            check_planning()

    with pytest.raises(qcore.Timeout):
        long_planning()
    check_planning()
    with limit_planning(None):
        check_planning()
