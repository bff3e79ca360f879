"""Common tables that read one another several times are planned and computed once. SPEC P4, Q1."""

from __future__ import annotations

import time

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.optimizer import optimize
from qcore.plan import nodes as p
from qcore.session.session import bind_sources
from qcore.sql.bind import plan_query

T = pa.table({"a": [1, 2, 3, None], "b": [10, 20, 30, 40]})
#: The query of each table of a chain, over the one before.
STEPS = {
    "union": "select * from {0} union all select * from {0}",
    "join": "select x.a, y.b from {0} x join {0} y on x.a = y.a",
    "aggregate": "select x.a, y.s as b from {0} x, (select a, sum(b) as s from {0} group by a) y where x.a = y.a",
    "subquery": "select a, b from {0} where b >= (select min(b) from {0})",
    "exists": "select a, b from {0} z where exists (select 1 from {0} w where w.a = z.a)",
    "columns": "select a, b from {0} where b < 40 union all select b - b + 7, a + 0 from {0} where b = 40",
    "except": "select a, b from {0} except all select a, b from {0} where a = 2",
    "own": "with q as (select * from {0}) select q.a, {0}.b from q join {0} on q.b = {0}.b",
}


def chain(step: str, length: int, last: str = "select * from {0}") -> str:
    tables = ["a1 as (select a, b from t)"]
    tables += [f"a{n} as ({STEPS[step].format(f'a{n - 1}')})" for n in range(2, length + 1)]
    return f"with {', '.join(tables)} {last.format(f'a{length}')}"


@pytest.mark.each_value
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("threads", [1, 2])
def test_answers(step: str, threads: int) -> None:
    """Q1: the rows are those of 64 copies, with the conditions and columns of all outer queries."""
    database = duckdb.connect()
    database.register("t", T)
    length = 7 if step in ("union", "columns") else 6
    for last in ("select * from {0}", "select b, count(*) as n from {0} where a > 1 group by b"):
        query = chain(step, length, last)
        found = qcore.sql(query, {"t": T}, threads=threads, timeout=120).to_arrow()
        assert_same_rows(found, database.sql(query).to_arrow_table())


def _n_nodes(step: str, length: int) -> tuple[int, int]:
    """The number of nodes of the plan as bound, and as optimized."""
    plan = plan_query(chain(step, length), {"t": T.schema}).plan
    session = qcore.Session()
    session.register("t", T)
    bound = bind_sources(plan, session._tables)
    return len(list(plan.walk())), len(list(optimize(bound).walk()))


@pytest.mark.parametrize("step", ["union", "join", "aggregate", "columns"])
def test_plans_grow_with_the_query(step: str) -> None:
    """P4: 32 steps would be 2 ** 31 copies of the first. Twice as many steps have about twice as many nodes."""
    small, large = _n_nodes(step, 16), _n_nodes(step, 32)
    assert all(b < 3 * a for a, b in zip(small, large, strict=True)), (small, large)


def test_planning_takes_no_longer() -> None:
    """P4: planning fourteen steps took 20 s when each was copied."""
    began = time.process_time()
    result = qcore.sql(chain("union", 14, "select count(*) as n, sum(b) as s from {0}"), {"t": T})
    assert time.process_time() - began < 5
    assert result.to_arrow().to_pylist() == [{"n": 4 << 13, "s": 100 << 13}]


def test_views_that_name_one_another() -> None:
    """P4, B4: views are planned like common tables."""
    session = qcore.Session(threads=2)
    session.register("t", T)
    session.sql("create view v1 as select a, b from t")
    for n in range(2, 11):
        session.sql(f"create view v{n} as select * from v{n - 1} union all select * from v{n - 1}")
    result = session.sql("select count(*) as n, count(a) as m, sum(b) as s from v10")
    assert result.explain().count("TableScan") + result.explain().count("Scan") < 200
    assert result.to_arrow().to_pylist() == [{"n": 4 << 9, "m": 3 << 9, "s": 100 << 9}]


def test_a_part_that_a_condition_drops() -> None:
    """P4: a shared part is computed by a reader if the node that would have computed it is removed."""
    query = chain("union", 7, "select * from {0} where false union all select * from a2 where a = 1")
    assert qcore.sql(query, {"t": T}).to_arrow().to_pydict() == {"a": [1, 1], "b": [10, 10]}


def test_names_of_columns_and_quotes() -> None:
    """Q1: lists of columns, capitals, and keywords after names."""
    tables = ['"A1"(x, "Y") as (select a, b from t)']
    for n in range(2, 8):
        tables.append(f'"A{n}" as materialized (select * from "A{n - 1}" union all (select * from "A{n - 1}"))')
    query = f'with {", ".join(tables)} select sum("Y") as s, count(x) as n from "A7"'
    assert qcore.sql(query, {"t": T}).to_arrow().to_pylist() == [{"s": 100 << 6, "n": 3 << 6}]


def test_shared_nodes_are_few() -> None:
    """P4: at most one a level."""
    plan = plan_query(chain("union", 14), {"t": T.schema}).plan
    shared = [node for node in plan.walk() if isinstance(node, p.Shared)]
    assert 0 < len(shared) <= 14 and len({node.id for node in shared}) == len(shared)
