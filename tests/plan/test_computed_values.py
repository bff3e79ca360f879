"""VALUES as plan nodes: one table of literals, and projections for computed values. SPEC Q1, P4."""

from __future__ import annotations

import pyarrow as pa

import qcore
from qcore.expression.tree import Expr, call, lit
from qcore.plan.computed_values import values_of
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, UnionAll, Values


def make_values(rows: list[list[Expr]], *types: pa.DataType) -> PlanNode:
    names = ColumnNames()
    own = [names.new(f"c{n}") for n in range(len(types))]
    return values_of(rows, own, types, NodeIds(), names)


def answer(node: PlanNode) -> list[tuple[object, ...]]:
    result = qcore.Session(threads=1).execute(node).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in result.columns), strict=True), key=repr)


def test_literals_are_a_table() -> None:
    node = make_values([[lit(1), lit("a")], [lit(None), lit("b")]], pa.int64(), pa.string())
    assert isinstance(node, Values) and node.schema == pa.schema([("c0", pa.int64()), ("c1", pa.string())])
    assert node.data.to_pylist() == [{"c0": 1, "c1": "a"}, {"c0": None, "c1": "b"}]


def test_no_rows() -> None:
    assert answer(make_values([], pa.int64())) == []


def test_rows_that_are_computed_alike_are_one_input() -> None:
    node = make_values([[call("add", lit(n), lit(1)), lit(n)] for n in range(500)], pa.int64(), pa.int64())
    assert sum(isinstance(part, Values) for part in node.walk()) == 1
    assert sorted(answer(node)) == [(n + 1, n) for n in range(500)]


def test_other_rows_are_other_inputs_of_one_type() -> None:
    node = make_values([[lit(1)], [call("upper", lit("a"))]], pa.string())
    assert any(isinstance(part, UnionAll) for part in node.walk())
    assert answer(node) == [("1",), ("A",)]
