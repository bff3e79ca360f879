"""A condition that every branch of an OR has is moved out of the OR, so that joins find their keys. SPEC Q2, P4."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.builder.plan_builder import PlanBuilder
from qcore.connectors.base import TableStatistics
from qcore.expression.tree import Expr, call, col
from qcore.optimizer import optimize
from qcore.optimizer.common_conditions import factor_condition
from qcore.plan import nodes as p

I64 = pa.int64()
TABLES = {"a": pa.schema([("k", I64), ("x", I64)]), "b": pa.schema([("l", I64), ("y", I64)])}
K, X, Y = col("k") == col("l"), col("x"), col("y")
FACTORED = [
    ((K & (X > 1)) | (K & (Y > 2)), K & ((X > 1) | (Y > 2))),
    ((K & (X > 1)) | ((col("l") == col("k")) & (Y > 2)), K & ((X > 1) | (Y > 2))),
    ((K & (X > 1)) | (K & (Y > 2)) | ((X < 0) & K & (Y < 0)), K & call("or", X > 1, Y > 2, (X < 0) & (Y < 0))),
    (((X > 1) & K & (Y > 1)) | ((Y > 1) & (X < 9) & K), call("and", K, Y > 1, (X > 1) | (X < 9))),
    (call("or", call("and", K, X > 1, Y > 1), call("and", X > 1, Y < 1, K)), call("and", K, X > 1, (Y > 1) | (Y < 1))),
    ((K & (X > 1)) | K, K),
    ((K & (X > 1)) | (K & (X > 1)), K & (X > 1)),
    ((X > 5) & ((K & (X > 6)) | (K & (Y > 2))), (X > 5) & (K & ((X > 6) | (Y > 2)))),
    (((X > 7) & ((K & (X > 1)) | (K & (X > 2)))) | (Y > 2), ((X > 7) & (K & ((X > 1) | (X > 2)))) | (Y > 2)),
    ((((K & (X > 1)) | (K & (X > 2))) & (Y > 0)) | (K & (Y < 0)), K & ((((X > 1) | (X > 2)) & (Y > 0)) | (Y < 0))),
]
KEPT = [(K & (X > 1)) | (Y > 2), (X > 1) | (X > 2), K & (X > 1), K, ~((K & (X > 1)) | (K & (Y > 2)))]


@pytest.mark.parametrize(("expr", "expected"), FACTORED, ids=repr)
def test_factored(expr: Expr, expected: Expr) -> None:
    """Q2: the common parts are before the OR, also for an OR within a branch."""
    assert repr(factor_condition(expr)) == repr(expected)


@pytest.mark.parametrize("expr", KEPT, ids=repr)
def test_others_are_kept(expr: Expr) -> None:
    """Q2: without common parts nothing changes, nor below NOT."""
    assert factor_condition(expr) is expr


def _optimize(builder: PlanBuilder, without: tuple[str, ...] = ()) -> p.PlanNode:
    return optimize(builder.build(), lambda node: TableStatistics(1000, {}), without)


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "left_semi", "left_anti", "mark"])
def test_a_nested_loop_join_becomes_a_hash_join(kind: str) -> None:
    """Q2: the equality becomes a key, the rest the join's condition. Otherwise all pairs of rows are compared."""
    built = (
        PlanBuilder(TABLES)
        .scan("a")
        .nested_loop_join(PlanBuilder(TABLES).scan("b"), how=kind, condition=(K & (X > Y)) | (K & (X + Y < 3)))
    )
    (join,) = [node for node in _optimize(built).walk() if isinstance(node, (p.HashJoin, p.NestedLoopJoin))]
    assert isinstance(join, p.HashJoin)
    assert (set(join.left_keys) | set(join.right_keys)) == {"k", "l"}
    assert repr(join.condition) == "((x > y) or ((x + y) < 3))"
    before = [type(node) for node in _optimize(built, ("common_conditions",)).walk()]
    assert p.NestedLoopJoin in before and p.HashJoin not in before


def test_a_filter_above_a_cross_join_becomes_a_key() -> None:
    """Q2: common parts are pushed down like other conditions, to the join and to a scan."""
    built = (
        PlanBuilder(TABLES).scan("a").nested_loop_join(PlanBuilder(TABLES).scan("b"))
        .filter((K & (X > 1) & (Y > 2)) | (K & (X > 1) & (Y < 1)))
    )  # fmt: skip
    plan = _optimize(built)
    (join,) = [node for node in plan.walk() if isinstance(node, (p.HashJoin, p.NestedLoopJoin))]
    assert isinstance(join, p.HashJoin) and join.condition is None
    filters = {node.table: repr(node.filter) for node in plan.walk() if isinstance(node, p.Scan)}
    assert filters == {"a": "(x > 1)", "b": "((y > 2) or (y < 1))"}


ROWS = {
    "a": pa.table({"k": [1, 1, 2, None, 3, 3], "x": [0, None, 2, 3, 4, 5]}),
    "b": pa.table({"l": [1, 2, 2, None, 3], "y": [0, 1, None, 3, 9]}),
}


@pytest.mark.parametrize("kind", ["join", "left join", "right join", "full join"])
def test_answers_are_those_of_the_condition_as_written(kind: str) -> None:
    """Q2: also for nulls."""
    query = f"select * from a {kind} b on (k = l and x > y) or (l = k and x < 3) or (k = l and y is null)"
    database, session = duckdb.connect(), qcore.Session(threads=2)
    for name, table in ROWS.items():
        database.register(name, table)
        session.register(name, table)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())


def test_equal_calls_of_random_are_one_draw_each() -> None:
    """Q2: two equal calls are two values, which the rule must not merge."""
    rows = pa.table({"n": list(range(4000))})
    text = "select count(*) from t where (random() < 0.5 and n >= 0) or (random() < 0.5 and n < 9999)"
    (found,) = qcore.sql(text, {"t": rows}).to_arrow().column(0).to_pylist()
    assert 2700 < found < 3300
