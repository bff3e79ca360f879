"""Joins with an additional condition, and nested-loop joins, against DuckDB. SPEC V13, Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from joins import KINDS, as_table, hash_join, oracle_join

from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.expression.tree import col
from qcore.lowering.compile import compile_predicate

CONDITIONAL_KINDS = [kind for kind in KINDS if not kind.startswith("null_aware")]


def less_than(schema):
    """The condition p_v < b_v."""
    return compile_predicate(col("p_v") < col("b_v"), pa.schema(schema))


def never(schema):
    """The condition p_v < b_v - 1000000, which no pair fulfils."""
    return compile_predicate(col("p_v") < col("b_v") - 1_000_000, pa.schema(schema))


def sides(n_probe: int, n_build: int, n_keys: int, seed: int = 5) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)

    def side(name: str, n_rows: int) -> pa.Table:
        nulls = rng.random(n_rows) < 0.1
        return pa.table(
            {
                f"{name}_k": pa.array(rng.integers(0, n_keys, n_rows), mask=nulls),
                f"{name}_v": pa.array(rng.integers(0, 100, n_rows), mask=rng.random(n_rows) < 0.05),
                f"{name}_s": pa.array([f"row {row} of {name} with a long tail" for row in range(n_rows)], pa.string()),
            }
        )

    return side("p", n_probe), side("b", n_build)


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 2])
@pytest.mark.parametrize("kind", CONDITIONAL_KINDS)
@pytest.mark.parametrize(("n_probe", "n_build"), [(0, 50), (50, 0), (1, 1), (2049, 500), (300, 2500)])
def test_hash_join_with_condition(duck, kind, n_probe, n_build, drivers):
    probe, build = sides(n_probe, n_build, 200)
    expected = oracle_join(duck, probe, build, kind, ["p_k"], ["b_k"], "p_v < b_v")
    actual = hash_join(probe, build, kind, ["p_k"], ["b_k"], drivers, 700, less_than)
    assert_same_rows(as_table(actual, expected), expected)


@pytest.mark.parametrize("kind", CONDITIONAL_KINDS)
def test_condition_that_never_holds(duck, kind):
    probe, build = sides(500, 300, 50)
    expected = oracle_join(duck, probe, build, kind, ["p_k"], ["b_k"], "p_v < b_v - 1000000")
    actual = hash_join(probe, build, kind, ["p_k"], ["b_k"], 1, None, never)
    assert_same_rows(as_table(actual, expected), expected)


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 2])
@pytest.mark.parametrize("kind", CONDITIONAL_KINDS)
@pytest.mark.parametrize(("n_probe", "n_build"), [(0, 5), (5, 0), (1, 1), (100, 1), (70, 60)])
def test_nested_loop_join_with_condition(duck, kind, n_probe, n_build, drivers):
    probe, build = sides(n_probe, n_build, 10)
    expected = oracle_join(duck, probe, build, kind, [], [], "p_v < b_v")
    actual = hash_join(probe, build, kind, [], [], drivers, 32, less_than)
    assert_same_rows(as_table(actual, expected), expected)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", CONDITIONAL_KINDS)
@pytest.mark.parametrize(("n_probe", "n_build"), [(0, 5), (5, 0), (100, 1), (70, 60)])
def test_cross_join(duck, kind, n_probe, n_build):
    probe, build = sides(n_probe, n_build, 10)
    expected = oracle_join(duck, probe, build, kind, [], [])
    actual = hash_join(probe, build, kind, [], [])
    assert_same_rows(as_table(actual, expected), expected)


@pytest.mark.parametrize("condition", [None, less_than], ids=["plain", "condition"])
def test_output_batches_of_many_matches_are_bounded(condition):
    """V13: one probe batch has 2,500,000 pairs. They are returned in batches of at most 65,536."""
    probe = pa.table({"p_k": pa.array([1] * 2500), "p_v": pa.array([1] * 2500)})
    build = pa.table({"b_k": pa.array([1] * 1000), "b_v": pa.array([2] * 1000)})
    batches = hash_join(probe, build, "inner", ["p_k"], ["b_k"], condition=condition)
    assert sum(len(batch) for batch in batches) == 2_500_000
    assert max(len(batch) for batch in batches) <= 65_536


def test_null_aware_join_refuses_a_condition():
    probe, build = sides(5, 5, 3)
    with pytest.raises(PlanError, match="null-aware"):
        hash_join(probe, build, "null_aware_anti", ["p_k"], ["b_k"], condition=less_than)
