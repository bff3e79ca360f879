"""Filters pushed through windows and taken from OR, before and after the rule."""

from __future__ import annotations

import pyarrow as pa
import pytest

from optimized_plans import check_rows, check_rule, scan, shape
from qcore.builder.plan_builder import PlanBuilder
from qcore.expression.tree import col, lit
from qcore.optimizer import optimize

I64 = pa.int64()
T, U, V = scan("t"), scan("u"), scan("v")
Case = tuple[PlanBuilder, list[str], list[str]]
CASES: dict[str, Case] = {
    "window": (
        T.window({"r": ("row_number",)}, partition_by=["b"], order_by=["a"]).filter(
            (col("b") > 1) & (col("r") < 2) & (col("a") > 1)
        ),
        ["Filter and((b > 1), (r < 2), (a > 1))", "  Window", "    Scan t"],
        ["Filter ((r < 2) and (a > 1))", "  Window", "    Filter (b > 1)", "      Scan t"],
    ),
    "key of a condition": (
        T.nested_loop_join(U, col("a") == col("i"), "left").filter(col("a") == 2),
        ["Filter (a = 2)", "  NestedLoopJoin left (a = i)", "    Scan t", "    Scan u"],
        ["HashJoin left a = i", "  Filter (a = 2)", "    Scan t", "  Filter (i = 2)", "    Scan u"],
    ),
    "key of another type": (
        T.nested_loop_join(
            U.project({"i": col("i").cast(pa.float64()), "n": "n"}), col("a") == col("i"), "inner"
        ).filter(col("a") == 2),
        [
            "Project a, b, c, i, n",
            "  Filter (a = 2)",
            "    HashJoin inner a_key = i",
            "      Project a, b, c, cast(a as double)",
            "        Scan t",
            "      Project cast(i as double), n",
            "        Scan u",
        ],
        [
            "Project a, b, c, i, n",
            "  HashJoin inner i = a_key",
            "    Project cast(i as double), n",
            "      Scan u",
            "    Project a, b, c, cast(a as double)",
            "      Filter (a = 2)",
            "        Scan t",
        ],
    ),
    "or over both": (
        T.nested_loop_join(U).filter(
            ((col("a") == 1) & (col("n") > 5)) | ((col("a") == 2) & (col("n") < 25) & (col("b") > 0))
        ),
        [
            "Filter (((a = 1) and (n > 5)) or and((a = 2), (n < 25), (b > 0)))",
            "  NestedLoopJoin inner",
            "    Scan t",
            "    Scan u",
        ],
        [
            "Project a, b, c, i, n",
            "  NestedLoopJoin inner (((a = 1) and (n > 5)) or and((a = 2), (n < 25), (b > 0)))",
            "    Filter ((n > 5) or (n < 25))",
            "      Scan u",
            "    Filter ((a = 1) or ((a = 2) and (b > 0)))",
            "      Scan t",
        ],
    ),
    "or in on": (
        T.hash_join(
            U, "a", "i", how="left", condition=((col("b") == 1) & (col("n") > 5)) | ((col("b") == 2) & (col("n") < 25))
        ),
        ["HashJoin left a = i (((b = 1) and (n > 5)) or ((b = 2) and (n < 25)))", "  Scan t", "  Scan u"],
        [
            "HashJoin left a = i (((b = 1) and (n > 5)) or ((b = 2) and (n < 25)))",
            "  Scan t",
            "  Filter ((n > 5) or (n < 25))",
            "    Scan u",
        ],
    ),
    "or of one side only": (
        T.nested_loop_join(U).filter(((col("a") == 1) & (col("n") > 5)) | (col("a") == 2)),
        ["Filter (((a = 1) and (n > 5)) or (a = 2))", "  NestedLoopJoin inner", "    Scan t", "    Scan u"],
        [
            "Project a, b, c, i, n",
            "  NestedLoopJoin inner (((a = 1) and (n > 5)) or (a = 2))",
            "    Scan u",
            "    Filter a in (1, 2)",
            "      Scan t",
        ],
    ),
    "constant of a union": (
        T.project({"kind": lit("t"), "x": "a"}).union_all(U.project({"kind": lit("u"), "x": "n"})).filter(
            (col("kind") == "t") & (col("x") > 2)
        ),
        [
            "Filter ((kind = 't') and (x > 2))",
            "  UnionAll",
            "    Project 't', a",
            "      Scan t",
            "    Project 'u', n",
            "      Scan u",
        ],
        ["Project 't', a", "  Filter (a > 2)", "    Scan t"],
    ),
    "constant that is null": (
        T.project({"x": lit(None, I64), "a": "a"}).union_all(U.project({"x": "i", "a": "n"})).filter(col("x") < 3),
        ["Filter (x < 3)", "  UnionAll", "    Project null, a", "      Scan t", "    Project i, n", "      Scan u"],
        ["Project i, n", "  Filter (i < 3)", "    Scan u"],
    ),
}


def test_conditions_that_are_true_keep_all_rows() -> None:
    """Also if no other rule has removed them."""
    plan = T.filter(lit(True)).hash_join(U.filter(lit(True)), "a", "i", how="left").filter(lit(True)).build()
    made = optimize(plan, without=["simplify"])
    assert shape(made) == ["HashJoin left a = i", "  Scan t", "  Scan u"]
    check_rows(plan, made)


@pytest.mark.parametrize("name", CASES)
def test_filters(name: str) -> None:
    builder, before, after = CASES[name]
    check_rule(builder.build(), "filters", before, after)
