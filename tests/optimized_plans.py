"""Plans before and after a rule of the optimizer, and a check that both return the same rows."""

from __future__ import annotations

import pyarrow as pa

from oracle import assert_same_rows
from qcore.builder.plan_builder import PlanBuilder
from qcore.config import Settings
from qcore.connectors.arrow import ArrowTable
from qcore.optimizer import optimize
from qcore.plan import nodes as p
from qcore.session.result import Result

I64 = pa.int64()
TABLES = {
    "t": pa.table({
        "a": pa.array([1, 2, 3, 4, None, 6, 7, 2], I64),
        "b": pa.array([1, 2, 1, None, 2, 1, 3, 2], I64),
        "c": pa.array([5, 6, None, 5, 6, 5, 6, 7], I64),
    }),
    "u": pa.table({
        "i": pa.array([1, 2, 2, 9, None, 3], I64),
        "n": pa.array([10, 20, 30, 40, 50, None], I64),
    }),
    "v": pa.table({"k": pa.array([1, 2, None, 7], I64), "m": pa.array([10, 30, 40, 15], I64)}),
}  # fmt: skip


def scan(table: str) -> PlanBuilder:
    """A scan of one of TABLES."""
    return PlanBuilder({name: ArrowTable(rows) for name, rows in TABLES.items()}).scan(table)


def shape(plan: p.PlanNode) -> list[str]:
    """A line for each node, indented by its depth: its type, and the fields that rules change."""
    lines: list[str] = []

    def add(node: p.PlanNode, depth: int) -> None:
        lines.append("  " * depth + _line(node))
        for child in node.children:
            add(child, depth + 1)

    add(plan, 0)
    return lines


def _line(node: p.PlanNode) -> str:
    parts: list[str] = [type(node).__name__]
    if isinstance(node, (p.HashJoin, p.NestedLoopJoin)):
        parts.append(node.kind)
        if isinstance(node, p.HashJoin):
            parts += [f"{a} = {b}" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
        if node.condition is not None:
            parts.append(repr(node.condition))
    elif isinstance(node, p.Filter):
        parts.append(repr(node.predicate))
    elif isinstance(node, p.Project):
        parts.append(", ".join(map(repr, node.expressions)))
    elif isinstance(node, p.Scan):
        parts.append(node.table)
    elif isinstance(node, p.Values):
        parts.append(f"of {node.data.num_rows} rows")
    elif isinstance(node, (p.Limit, p.TopN)):
        parts.append(f"{node.count}" + (f" after {node.offset}" if node.offset else ""))
    return " ".join(parts)


def check_rule(plan: p.PlanNode, rule: str, before: list[str], after: list[str], any_rows: bool = False) -> None:
    """Compare the optimized plan with and without a rule.

    Its rows do not change; with `any_rows` only their number counts.
    """
    plain, made = optimize(plan, without=[rule]), optimize(plan)
    assert shape(plain) == before
    assert shape(made) == after
    check_rows(plan, made, any_rows)


def check_rows(plan: p.PlanNode, made: p.PlanNode, any_rows: bool = False, threads: int = 2) -> None:
    """Both plans return the same rows, or as many. Neither is optimized before it runs."""
    expected, actual = (Result(one, Settings.make(threads), None, None).to_arrow() for one in (plan, made))
    if any_rows:
        assert actual.num_rows == expected.num_rows
    else:
        assert_same_rows(actual, expected)
