"""Plans over relations without rows, before and after the rule."""

from __future__ import annotations

import pyarrow as pa
import pytest

from optimized_plans import check_rule, scan
from qcore.builder.plan_builder import PlanBuilder
from qcore.expression.tree import col, lit

T, U, V = scan("t"), scan("u"), scan("v")
NEVER = lit(1) == 2
Case = tuple[PlanBuilder, list[str], list[str]]
CASES: dict[str, Case] = {
    "inner join": (
        T.hash_join(U.filter(NEVER), "a", "i").project({"x": col("a") + col("n")}),
        ["Project (a + n)", "  HashJoin inner a = i", "    Scan t", "    Values of 0 rows"],
        ["Values of 0 rows"],
    ),
    "left join": (
        T.hash_join(U.filter(NEVER), "a", "i", how="left"),
        ["HashJoin left a = i", "  Scan t", "  Values of 0 rows"],
        ["Project a, b, c, null, null", "  Scan t"],
    ),
    "full join": (
        T.filter(NEVER).hash_join(U, "a", "i", how="full"),
        ["HashJoin full a = i", "  Values of 0 rows", "  Scan u"],
        ["Project null, null, null, i, n", "  Scan u"],
    ),
    "anti join": (
        T.hash_join(U.filter(NEVER), "a", "i", how="left_anti"),
        ["HashJoin left_anti a = i", "  Scan t", "  Values of 0 rows"],
        ["Scan t"],
    ),
    "not in": (
        T.hash_join(U.filter(NEVER), "a", "i", how="null_aware_anti"),
        ["HashJoin null_aware_anti a = i", "  Scan t", "  Values of 0 rows"],
        ["Scan t"],
    ),
    "mark join": (
        T.hash_join(U.filter(NEVER), "a", "i", how="null_aware_mark"),
        ["HashJoin null_aware_mark a = i", "  Scan t", "  Values of 0 rows"],
        ["Project a, b, c, False", "  Scan t"],
    ),
    "condition of a left join": (
        T.nested_loop_join(U, NEVER, "left"),
        ["NestedLoopJoin left False", "  Scan t", "  Scan u"],
        ["Project a, b, c, null, null", "  Scan t"],
    ),
    "condition of a semi join": (
        T.nested_loop_join(U, NEVER, "left_semi"),
        ["NestedLoopJoin left_semi False", "  Scan t", "  Scan u"],
        ["Values of 0 rows"],
    ),
    "union": (
        U.filter(NEVER).union_all(V, U.project({"p": "n", "q": "i"})),
        ["UnionAll", "  Values of 0 rows", "  Scan v", "  Project n, i", "    Scan u"],
        ["UnionAll", "  Project k, m", "    Scan v", "  Project n, i", "    Scan u"],
    ),
    "union of one": (
        U.filter(NEVER).union_all(V),
        ["UnionAll", "  Values of 0 rows", "  Scan v"],
        ["Project k, m", "  Scan v"],
    ),
    "groups": (
        T.filter(NEVER).aggregate(["b"], {"s": ("sum", "a")}),
        ["Aggregate", "  Values of 0 rows"],
        ["Values of 0 rows"],
    ),
    "total": (
        T.filter(NEVER).aggregate([], {"s": ("count",)}),
        ["Aggregate", "  Values of 0 rows"],
        ["Aggregate", "  Values of 0 rows"],
    ),
    "limit of none": (
        T.order_by("a").limit(0).hash_join(U, "a", "i"),
        ["Project a, b, c, i, n", "  HashJoin inner i = a", "    Scan u", "    TopN 0", "      Scan t"],
        ["Values of 0 rows"],
    ),
    "null": (T.filter((col("a") > 1) & lit(None, pa.bool_())), ["Values of 0 rows"], ["Values of 0 rows"]),
}


@pytest.mark.parametrize("name", CASES)
def test_empty_relations(name: str) -> None:
    builder, before, after = CASES[name]
    check_rule(builder.build(), "empty_relations", before, after)
