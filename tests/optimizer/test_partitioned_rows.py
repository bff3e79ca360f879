"""The aggregates that partition rows before they group them, chosen by statistics. Their results do not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.builder.plan_builder import PlanBuilder
from qcore.config import Settings
from qcore.connectors.arrow import ArrowTable
from qcore.connectors.base import ColumnStatistics, TableStatistics
from qcore.expression.tree import Expr, col
from qcore.optimizer import optimize
from qcore.optimizer.partitioned_rows import (
    CODES_PER_GROUP,
    GROUPS_MIN,
    PAGED_GROUPS_MIN,
    PAGED_KEY_SHARE_MAX,
    ROWS_PER_GROUP_MAX,
    ROWS_PER_VALUE_MAX,
    VALUES_MIN,
)
from qcore.plan import nodes as p
from qcore.session.explain import explain_plan
from qcore.session.result import Result

SCHEMA = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("s", pa.string())])
MANY = 4 * GROUPS_MIN


def choose_keys(
    n_rows: int, column: ColumnStatistics, keys: list[str], read: Sequence[str] = (), where: Expr | None = None
) -> tuple[int, ...]:
    """The keys by which rows are partitioned for an aggregate over a table with this statistics of every column."""
    table = ArrowTable(SCHEMA.empty_table())
    built = PlanBuilder({"t": table}).scan("t").project({name: col(name) for name in SCHEMA.names})
    built = built if where is None else built.filter(where)
    calls = {"n": ("count",), **{f"max_{name}": ("max", name) for name in read}}
    statistics = TableStatistics(n_rows, dict.fromkeys(SCHEMA.names, column))
    plan = optimize(built.aggregate(keys, calls).build(), lambda node: statistics, without=["ordered_rows"])
    while not isinstance(plan, p.Aggregate):
        (plan,) = plan.children
    assert ("rows partitioned first" in explain_plan(plan)) == bool(plan.partition_keys)
    assert ("rows partitioned first by [" in explain_plan(plan)) == (0 < len(plan.partition_keys) < len(keys))
    return plan.partition_keys


SPARSE = ColumnStatistics(min=0, max=1 << 60, distinct_count=MANY)


@pytest.mark.parametrize(
    ("n_rows", "column", "keys", "wanted"),
    [
        (2 * MANY, SPARSE, ["k"], True),
        (2 * MANY, replace(SPARSE, min=None, max=None), ["s"], True),
        (int(ROWS_PER_GROUP_MAX + 1) * MANY, SPARSE, ["k"], False),
        (2 * MANY, replace(SPARSE, distinct_count=GROUPS_MIN - 1), ["k"], False),
        (2 * MANY, replace(SPARSE, distinct_count=None), ["k"], False),
        (2 * MANY, replace(SPARSE, max=CODES_PER_GROUP * MANY // 8), ["k"], False),
        (2 * MANY, replace(SPARSE, is_clustered=True), ["k"], False),
        (2 * MANY, SPARSE, ["k", "j"], False),
        (2 * MANY, SPARSE, [], False),
    ],
    ids=["sparse", "text", "large groups", "few groups", "not counted", "dense", "clustered", "two keys", "no key"],
)
def test_a_lone_key_of_many_values_is_marked(
    n_rows: int, column: ColumnStatistics, keys: list[str], wanted: bool
) -> None:
    assert choose_keys(n_rows, column, keys) == ((0,) if wanted else ())


EVEN = replace(SPARSE, most_common_share=PAGED_KEY_SHARE_MAX, distinct_count=PAGED_GROUPS_MIN)


@pytest.mark.parametrize(
    ("column", "keys", "read", "wanted"),
    [
        (EVEN, ["k"], ["j"], True),
        (replace(EVEN, null_count=MANY), ["k"], ["j"], True),
        (replace(EVEN, distinct_count=PAGED_GROUPS_MIN - 1), ["k"], ["j"], False),
        (replace(EVEN, most_common_share=None), ["k"], ["j"], False),
        (replace(EVEN, most_common_share=0.04), ["k"], ["j"], False),
        (replace(EVEN, null_count=2 * MANY), ["k"], ["j"], False),
        (EVEN, ["s"], ["j"], False),
        (EVEN, ["k"], ["j", "s"], False),
    ],
    ids=["even", "few nulls", "few groups", "unknown", "a common key", "many nulls", "text", "text as argument"],
)
def test_a_key_is_marked_earlier_if_its_rows_go_into_pages(
    column: ColumnStatistics, keys: list[str], read: list[str], wanted: bool
) -> None:
    assert choose_keys(32 * MANY, column, keys, read) == ((0,) if wanted else ())


MOST = int(ROWS_PER_VALUE_MAX * MANY)


@pytest.mark.parametrize(
    ("n_rows", "column", "keys", "wanted"),
    [
        (MOST, SPARSE, ["k", "j"], (0,)),
        (MOST, replace(SPARSE, is_clustered=True), ["j", "s"], (0,)),
        (MOST, SPARSE, ["s", "k"], (1,)),
        (MOST + 1, SPARSE, ["k", "j"], ()),
        (MOST, replace(SPARSE, distinct_count=None), ["k", "j"], ()),
        (MOST, replace(SPARSE, most_common_share=0.04), ["k", "j"], ()),
        (MOST, replace(SPARSE, null_count=MANY // 8), ["k", "j"], ()),
    ],
    ids=["two keys", "clustered", "text first", "more rows", "not counted", "a common key", "many nulls"],
)
def test_one_of_several_keys_that_few_rows_share_is_marked(
    n_rows: int, column: ColumnStatistics, keys: list[str], wanted: tuple[int, ...]
) -> None:
    assert choose_keys(n_rows, column, keys) == wanted


@pytest.mark.parametrize(("n_left", "wanted"), [(VALUES_MIN - 1, ()), (VALUES_MIN, (0,))])
def test_few_rows_are_not_partitioned(n_left: int, wanted: tuple[int, ...]) -> None:
    """The rows that a filter leaves count, not those of the table."""
    column = ColumnStatistics(min=0, max=MANY - 1, distinct_count=MANY)
    assert choose_keys(MANY, column, ["k", "s"], where=col("j") < n_left) == wanted


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_groups_are_the_same_without_partitions(threads: int) -> None:
    """Nulls, a key of half of the rows, and states of every width."""
    rng = np.random.default_rng(5)
    k = np.where(rng.random(20_000) < 0.5, 7, rng.integers(0, 9000, 20_000) * 1_000_000_007)
    table = pa.table({
        "k": pa.array(k, mask=rng.random(20_000) < 0.1),
        "x": pa.array(rng.integers(-(2**47), 2**47, 20_000), mask=rng.random(20_000) < 0.1),
        "s": pa.array([f"text of {value % 97}" for value in k]),
    })  # fmt: skip
    calls = {"n": ("count",), "t": ("sum", "x"), "m": ("min", "s"), "f": ("avg", "x")}
    settings = Settings(threads=threads)
    for keys, positions in ((["k"], [(0,)]), (["k", "s"], [(0,), (1,), (0, 1)]), (["x", "k"], [(0,), (1,)])):
        plan = PlanBuilder({"t": ArrowTable(table)}).scan("t").aggregate(keys, calls).build()
        assert isinstance(plan, p.Aggregate)
        expected = Result(plan, settings).to_arrow()
        for keys_first in positions:
            assert_same_rows(Result(replace(plan, partition_keys=keys_first), settings).to_arrow(), expected)
