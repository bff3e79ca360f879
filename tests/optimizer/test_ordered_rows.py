"""Aggregates over rows that a table in memory has in the order of their key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from qcore import PlanBuilder
from qcore.connectors.arrow import ArrowTable
from qcore.expression.tree import call, col
from qcore.optimizer import optimize
from qcore.optimizer.ordered_rows import GROUPS_MIN, ROWS_MIN
from qcore.plan import nodes as p
from qcore.session.explain import explain_plan

N = 2 * ROWS_MIN
TABLES = {
    "t": pa.table({
        "k": np.arange(N) // 3,
        "few": np.arange(N) * (GROUPS_MIN // 2) // N,
        "real": np.arange(N) / 3,
        "with_null": pa.array(np.arange(N), mask=np.arange(N) == 7),
        "late": np.where(np.arange(N) == N - 1, 0, np.arange(N)),
        "x": np.arange(N) % 5,
    }),
    "small": pa.table({"k": range(ROWS_MIN - 1)}),
}  # fmt: skip


def is_marked(builder: PlanBuilder, *without: str) -> bool:
    """Whether the plan's only Aggregate groups rows in their order."""
    plan = optimize(builder.build(), without=without)
    (found,) = (node for node in plan.walk() if isinstance(node, p.Aggregate))
    assert ("rows in order" in explain_plan(plan)) == bool(found.ordered_by)
    return found.ordered_by is not None


def scan(name: str = "t") -> PlanBuilder:
    return PlanBuilder({name: ArrowTable(table) for name, table in TABLES.items()}).scan(name)


COUNT = {"n": ("count",)}


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda: scan().aggregate(["k"], COUNT), True),
        (lambda: scan().aggregate(["k"], {"t": ("sum", "x"), "m": ("max", "few")}), True),
        (lambda: scan().filter(col("x") > 2).aggregate(["k"], COUNT), True),
        (lambda: scan().project({"y": col("k"), "x": col("x")}).filter(col("x") > 2).aggregate(["y"], COUNT), True),
        (lambda: scan().project({"y": col("k").alias("z")}).aggregate(["y"], COUNT), True),
        (lambda: scan().project({"k": call("add", col("k"), 1)}).aggregate(["k"], COUNT), False),
        (lambda: scan().aggregate(["k", "x"], COUNT), False),
        (lambda: scan().aggregate([], COUNT), False),
        (lambda: scan().aggregate(["x"], COUNT), False),
        (lambda: scan().aggregate(["few"], COUNT), False),
        (lambda: scan().aggregate(["real"], COUNT), False),
        (lambda: scan().aggregate(["with_null"], COUNT), False),
        (lambda: scan().aggregate(["late"], COUNT), False),
        (lambda: scan("small").aggregate(["k"], COUNT), False),
        (lambda: scan().limit(N - 1).aggregate(["k"], COUNT), False),
        (lambda: scan().order_by(["x"]).aggregate(["k"], COUNT), False),
    ],
    ids=[
        "scan", "calls", "filter", "renamed", "alias", "expression", "two keys", "no key", "no order", "few groups",
        "floats", "a null", "the last row", "few rows", "limit", "sorted otherwise",
    ],
)  # fmt: skip
def test_a_lone_key_in_the_order_of_the_table_is_marked(build: Callable[[], PlanBuilder], wanted: bool) -> None:
    assert is_marked(build()) == wanted
    assert not is_marked(build(), "ordered_rows")


def test_other_sources_do_not_say_their_order() -> None:
    """A table that cannot tell is not asked."""

    class Plain:
        def __init__(self) -> None:
            self.table = ArrowTable(TABLES["t"])
            self.schema = self.table.schema
            self.statistics, self.splits, self.open = self.table.statistics, self.table.splits, self.table.open

    assert not is_marked(PlanBuilder({"t": Plain()}).scan("t").aggregate(["k"], COUNT))
