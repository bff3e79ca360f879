"""Limits above unions and joins, before and after the rule."""

from __future__ import annotations

import pytest

from optimized_plans import check_rule, scan
from qcore.builder.plan_builder import PlanBuilder

T, U, V = scan("t"), scan("u"), scan("v")


def _mark_join(kind: str = "mark") -> PlanBuilder:
    return T.hash_join(U, "a", "i", how=kind)


Case = tuple[PlanBuilder, list[str], list[str]]
CASES: dict[str, Case] = {
    "union": (
        T.project(["a"]).union_all(U.project(["i"])).limit(3, offset=1),
        ["Limit 3 after 1", "  UnionAll", "    Scan t", "    Scan u"],
        ["Limit 3 after 1", "  UnionAll", "    Limit 4", "      Scan t", "    Limit 4", "      Scan u"],
    ),
    "union of limits": (
        T.project(["a"]).limit(2).union_all(U.project(["i"]).order_by("i")).limit(3),
        ["Limit 3", "  UnionAll", "    Limit 2", "      Scan t", "    OrderBy", "      Scan u"],
        ["Limit 3", "  UnionAll", "    Limit 2", "      Scan t", "    TopN 3", "      Scan u"],
    ),
    "left join": (
        T.hash_join(U, "a", "i", how="left").limit(2),
        ["Limit 2", "  HashJoin left a = i", "    Scan t", "    Scan u"],
        ["Limit 2", "  HashJoin left a = i", "    Limit 2", "      Scan t", "    Scan u"],
    ),
    "mark join": (
        _mark_join().limit(2),
        ["Limit 2", "  HashJoin mark a = i", "    Scan t", "    Scan u"],
        ["HashJoin mark a = i", "  Limit 2", "    Scan t", "  Scan u"],
    ),
    "inner join": (
        T.hash_join(U, "a", "i").limit(2),
        ["Limit 2", "  HashJoin inner a = i", "    Scan t", "    Scan u"],
        ["Limit 2", "  HashJoin inner a = i", "    Scan t", "    Scan u"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_limits(name: str) -> None:
    builder, before, after = CASES[name]
    check_rule(builder.build(), "limits", before, after, any_rows=True)
