"""Mark joins below a filter that needs one value of the mark, before and after the rule (SPEC Q2)."""

from __future__ import annotations

import pytest

from optimized_plans import check_rule, scan
from qcore.builder.plan_builder import PlanBuilder
from qcore.expression.tree import call, col

T, U, V = scan("t"), scan("u"), scan("v")


def _mark_join(kind: str = "mark") -> PlanBuilder:
    return T.hash_join(U, "a", "i", how=kind)


Case = tuple[PlanBuilder, list[str], list[str]]
CASES: dict[str, Case] = {
    "exists": (
        _mark_join().filter(col("mark")),
        ["Filter mark", "  HashJoin mark a = i", "    Scan t", "    Scan u"],
        ["Project a, b, c, True", "  HashJoin left_semi a = i", "    Scan t", "    Scan u"],
    ),
    "not exists": (
        _mark_join().filter(~col("mark")),
        ["Filter not(mark)", "  HashJoin mark a = i", "    Scan t", "    Scan u"],
        ["Project a, b, c, False", "  HashJoin left_anti a = i", "    Scan t", "    Scan u"],
    ),
    "in": (
        _mark_join("null_aware_mark").filter(call("is_true", col("mark")) & (col("b") > 1)),
        [
            "Filter is_true(mark)",
            "  HashJoin null_aware_mark a = i",
            "    Filter (b > 1)",
            "      Scan t",
            "    Scan u",
        ],
        ["Project a, b, c, True", "  HashJoin left_semi a = i", "    Filter (b > 1)", "      Scan t", "    Scan u"],
    ),
    "not in": (
        _mark_join("null_aware_mark").filter(~col("mark")),
        ["Filter not(mark)", "  HashJoin null_aware_mark a = i", "    Scan t", "    Scan u"],
        ["Project a, b, c, False", "  HashJoin null_aware_anti a = i", "    Scan t", "    Scan u"],
    ),
    "not in, written otherwise": (
        _mark_join("null_aware_mark").filter(call("is_false", col("mark"))),
        ["Filter is_false(mark)", "  HashJoin null_aware_mark a = i", "    Scan t", "    Scan u"],
        ["Project a, b, c, False", "  HashJoin null_aware_anti a = i", "    Scan t", "    Scan u"],
    ),
    "not known to be in": (
        _mark_join("null_aware_mark").filter(~call("coalesce", col("mark"), False)),
        ["Filter not(coalesce(mark, False))", "  HashJoin null_aware_mark a = i", "    Scan t", "    Scan u"],
        ["Filter not(coalesce(mark, False))", "  HashJoin null_aware_mark a = i", "    Scan t", "    Scan u"],
    ),
    "not known to exist": (
        _mark_join().filter(~call("coalesce", col("mark"), False)),
        ["Filter not(coalesce(mark, False))", "  HashJoin mark a = i", "    Scan t", "    Scan u"],
        ["Project a, b, c, False", "  HashJoin left_anti a = i", "    Scan t", "    Scan u"],
    ),
    "or": (
        _mark_join().filter(col("mark") | (col("b") > 1)),
        ["Filter (mark or (b > 1))", "  HashJoin mark a = i", "    Scan t", "    Scan u"],
        ["Filter (mark or (b > 1))", "  HashJoin mark a = i", "    Scan t", "    Scan u"],
    ),
    "on any condition": (
        T.nested_loop_join(U, col("a") < col("i"), "mark").filter(~col("mark")),
        ["Filter not(mark)", "  NestedLoopJoin mark (a < i)", "    Scan t", "    Scan u"],
        ["Project a, b, c, False", "  NestedLoopJoin left_anti (a < i)", "    Scan t", "    Scan u"],
    ),
    "its value too": (
        _mark_join().filter(col("mark")).project({"a": "a", "x": ~col("mark")}),
        ["Project a, not(mark)", "  Filter mark", "    HashJoin mark a = i", "      Scan t", "      Scan u"],
        ["Project a, not(True)", "  HashJoin left_semi a = i", "    Scan t", "    Scan u"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_marks(name: str) -> None:
    builder, before, after = CASES[name]
    check_rule(builder.build(), "marks", before, after)
