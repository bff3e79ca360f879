"""Inner joins whose repeated rows do not matter, before and after the rule (SPEC Q2)."""

from __future__ import annotations

import pytest

from optimized_plans import check_rule, scan, shape
from qcore.builder.plan_builder import PlanBuilder
from qcore.expression.tree import col
from qcore.optimizer import optimize

T, U, V = scan("t"), scan("u"), scan("v")
INNER = U.hash_join(V, "i", "k")
JOINED = ["    HashJoin inner i = k", "      Scan u", "      Scan v"]


def in_subquery(rows: PlanBuilder, column: str) -> PlanBuilder:
    return T.hash_join(rows.project([column]), "a", column, how="left_semi")


Case = tuple[PlanBuilder, list[str], list[str]]
CASES: dict[str, Case] = {
    "the left side is used": (
        in_subquery(INNER, "i"),
        ["HashJoin left_semi a = i", "  Scan t", "  Project i", *JOINED],
        ["HashJoin left_semi a = i", "  Scan t", "  HashJoin left_semi i = k", "    Scan u", "    Scan v"],
    ),
    "the right side is used": (
        in_subquery(INNER, "m"),
        ["HashJoin left_semi a = m", "  Scan t", "  Project m", *JOINED],
        [
            "HashJoin left_semi a = m",
            "  Scan t",
            "  Project m",
            "    HashJoin left_semi k = i",
            "      Scan v",
            "      Scan u",
        ],
    ),
    "with a condition": (
        in_subquery(U.hash_join(V, "i", "k", condition=col("n") < col("m")), "i"),
        [
            "HashJoin left_semi a = i",
            "  Scan t",
            "  Project i",
            "    HashJoin inner i = k (n < m)",
            "      Scan u",
            "      Scan v",
        ],
        [
            "HashJoin left_semi a = i",
            "  Scan t",
            "  Project i",
            "    HashJoin left_semi i = k (n < m)",
            "      Scan u",
            "      Scan v",
        ],
    ),
    "not in": (
        T.hash_join(INNER.project(["k"]), "a", "k", how="null_aware_anti"),
        ["HashJoin null_aware_anti a = k", "  Scan t", "  Project k", *JOINED],
        ["HashJoin null_aware_anti a = k", "  Scan t", "  HashJoin left_semi k = i", "    Scan v", "    Scan u"],
    ),
    "distinct rows": (
        INNER.aggregate(keys=["n"], aggs={}),
        ["Aggregate", "  HashJoin inner i = k", "    Scan u", "    Scan v"],
        ["Aggregate", "  HashJoin left_semi i = k", "    Scan u", "    Scan v"],
    ),
    "below another join": (
        T.hash_join(U, "a", "i").hash_join(V, "c", "m", how="left_anti").aggregate(keys=["a"], aggs={}),
        [
            "Aggregate",
            "  HashJoin inner i = a",
            "    Scan u",
            "    Project a",
            "      HashJoin left_anti c = m",
            "        Scan t",
            "        Scan v",
        ],
        [
            "Aggregate",
            "  HashJoin left_semi a = i",
            "    Project a",
            "      HashJoin left_anti c = m",
            "        Scan t",
            "        Scan v",
            "    Scan u",
        ],
    ),
}
SAME: dict[str, PlanBuilder] = {
    "both sides are used": in_subquery(INNER.project({"s": col("n") + col("m")}), "s"),
    "the outer condition reads the other side": T.hash_join(
        INNER, "a", "i", how="left_semi", condition=col("c") < col("m")
    ),
    "repeated rows are counted": INNER.aggregate(keys=["n"], aggs={"x": ("count",)}),
    "a limit counts rows": in_subquery(INNER.project(["i"]).limit(2), "i"),
    "an outer join keeps all rows": in_subquery(U.hash_join(V, "i", "k", how="left"), "i"),
    "repeated rows of the left side are returned": (
        T.hash_join(U, "a", "i").hash_join(V, "c", "k", how="left_semi").project(["a"])
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_joins_without_repeated_rows(name: str) -> None:
    builder, before, after = CASES[name]
    check_rule(builder.build(), "existence_joins", before, after)


@pytest.mark.parametrize("name", SAME)
def test_joins_whose_repeated_rows_matter(name: str) -> None:
    plan = SAME[name].build()
    same = shape(optimize(plan))
    check_rule(plan, "existence_joins", same, same)
