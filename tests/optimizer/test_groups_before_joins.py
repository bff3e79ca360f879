"""The aggregates that are grouped before joins, chosen by statistics. Their results do not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.builder.plan_builder import PlanBuilder
from qcore.connectors.base import ColumnStatistics, TableStatistics
from qcore.expression.tree import Expr, call, col, lit
from qcore.optimizer import groups_before_joins, optimize
from qcore.plan import nodes as p
from qcore.session.session import Session

I64, F64, TEXT, MONEY = pa.int64(), pa.float64(), pa.string(), pa.decimal128(12, 2)
MONEY_AND_LESS = pa.decimal128(11, 2)
TABLES = {
    "sale": pa.schema([("s_buyer", I64), ("s_day", I64), ("s_weight", F64), ("s_price", MONEY), ("s_count", I64)]),
    "buyer": pa.schema([("b_id", I64), ("b_name", TEXT), ("b_street", TEXT), ("b_land", I64), ("b_weight", F64)]),
    "land": pa.schema([("l_id", I64), ("l_name", TEXT)]),
    "day": pa.schema([("d_id", I64), ("d_year", I64)]),
}
ROWS = {"sale": 5_000_000, "buyer": 200_000, "land": 25, "day": 3_000}
RANGES = {"s_buyer": 200_000, "b_id": 200_000, "b_land": 25, "l_id": 25, "s_day": 3_000, "d_id": 3_000, "d_year": 8}


def statistics_of(scan: p.Scan) -> TableStatistics:
    columns = {
        name: ColumnStatistics(min=0, max=RANGES[name] - 1) for name in TABLES[scan.table].names if name in RANGES
    }
    return TableStatistics(ROWS[scan.table], columns)


def join_sales(*tables: str) -> PlanBuilder:
    """The sales joined with the given tables."""
    on = {"buyer": ("s_buyer", "b_id"), "land": ("b_land", "l_id"), "day": ("s_day", "d_id")}
    built = PlanBuilder(TABLES).scan("sale")
    for table in tables:
        left, right = on[table]
        built = built.hash_join(PlanBuilder(TABLES).scan(table), left, right)
    return built


def groupings(built: PlanBuilder, statistics: Callable[[p.Scan], Any] = statistics_of) -> list[list[str]]:
    """The keys of the plan's aggregates, from the top."""
    plan = optimize(built.build(), statistics)
    return [[name for name, _ in node.keys] for node in plan.walk() if isinstance(node, p.Aggregate)]


BY_NAME = ["b_id", "b_name", "b_street"]
TOTAL = {"total": ("sum", col("s_price"))}


def test_tables_that_only_give_keys_are_joined_last() -> None:
    assert groupings(join_sales("buyer").aggregate(BY_NAME, TOTAL)) == [BY_NAME, ["s_buyer"]]
    # Fewer rows are looked up, which alone saves time.
    assert groupings(join_sales("buyer").aggregate(["b_id"], TOTAL)) == [["b_id"], ["s_buyer"]]
    keys = [*BY_NAME, "l_name"]
    assert groupings(join_sales("buyer", "land").aggregate(keys, TOTAL)) == [keys, ["s_buyer"]]


def test_keys_of_the_tables_joined_first() -> None:
    """The first groups keep columns that the last ones read. A filter gives the number of years."""
    built = join_sales("buyer", "day").filter(col("d_year") == 3).aggregate([*BY_NAME, "d_year"], TOTAL)
    first, second = groupings(built)
    assert first == [*BY_NAME, "d_year"]
    assert sorted(second) == ["d_year", "s_buyer"]


@pytest.mark.parametrize(
    "argument",
    [
        call("divide", col("s_weight"), 2.0),
        call("divide", col("s_price") - col("s_price"), lit(2).cast(pa.decimal128(3, 1))),
        col("s_count").cast(pa.decimal128(20, 0)),
        col("s_price").cast(pa.decimal128(20, 2)),
    ],
    ids=["divided", "divided by a cast", "cast", "wider"],
)
def test_what_fails_on_no_number_is_computed_before_joins(argument: Expr) -> None:
    built = join_sales("buyer").aggregate(BY_NAME, {"total": ("sum", argument)})
    assert groupings(built) == [BY_NAME, ["s_buyer"]]


@pytest.mark.parametrize(
    "built",
    [
        join_sales("buyer").filter(col("b_land") == 3).aggregate(BY_NAME, TOTAL),
        join_sales("buyer").aggregate(BY_NAME, {"total": ("sum", col("b_weight"))}),
        join_sales("buyer").aggregate(BY_NAME, {"total": ("sum", call("divide", col("s_weight"), col("s_weight")))}),
        join_sales("buyer").aggregate(BY_NAME, {"total": ("sum", call("divide", col("s_weight"), 0.0))}),
        join_sales("buyer").aggregate(BY_NAME, {"total": ("sum", col("s_price").cast(MONEY_AND_LESS))}),
        join_sales("buyer").aggregate(BY_NAME, {"total": ("sum", col("s_weight").cast(I64))}),
        join_sales("buyer").aggregate(BY_NAME, {"total": ("sum", col("s_count") + 1)}),
        join_sales("buyer").aggregate(BY_NAME, {"middle": ("median", col("s_price"))}),
        join_sales("buyer").aggregate(["b_name", "s_day", "s_weight"], TOTAL),
        join_sales("buyer").aggregate([], TOTAL),
    ],
    ids=[
        "filtered",
        "read by a call",
        "division fails",
        "division by zero",
        "cast of long decimals fails",
        "cast of floats fails",
        "integers overflow",
        "not mergeable",
        "too many groups",
        "no keys",
    ],
)
def test_aggregates_that_stay(built: PlanBuilder) -> None:
    assert len(groupings(built)) == 1


def test_sizes_must_be_known() -> None:
    assert len(groupings(join_sales("buyer").aggregate(BY_NAME, TOTAL), lambda scan: None)) == 1


# --- answers ---


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Group before joins at any cost. The list gets an entry for each plan that does."""
    found: list[int] = []
    best = groups_before_joins._Joins.best

    def count_plans(joins: groups_before_joins._Joins) -> p.PlanNode | None:
        plan = best(joins)
        if plan is not None:
            found.append(1)
        return plan

    monkeypatch.setattr(groups_before_joins._Joins, "best", count_plans)
    monkeypatch.setattr(groups_before_joins, "ROWS_MIN", 0.0)
    monkeypatch.setattr(groups_before_joins, "COST_MAX", float("inf"))
    monkeypatch.setattr(groups_before_joins, "MATCHES_MIN", 0.0)
    monkeypatch.setattr(groups_before_joins, "MATCHES_MAX", float("inf"))
    return found


def tables(n_rows: int, seed: int) -> dict[str, pa.Table]:
    """Keys that repeat on both sides, exist on one side, are null, or belong to half of the rows."""
    rng = np.random.default_rng(seed)

    def numbers(n: int, high: int) -> pa.Array:
        values = np.where(rng.random(n) < 0.5, 3, rng.integers(0, high, n))
        return pa.array(values, I64, mask=rng.random(n) < 0.1)

    def texts(n: int, high: int) -> pa.Array:
        return pa.array([f"a text of number {i}" if i else None for i in rng.integers(0, high, n)], TEXT)

    def reals(n: int) -> pa.Array:
        return pa.array(rng.choice([0.0, -0.0, np.nan, 1.5, -2.25], n), F64, mask=rng.random(n) < 0.1)

    n_buyers, n_lands = n_rows // 10, 6
    price = pa.array([Decimal(value) / 100 for value in rng.integers(-(10**6), 10**6, n_rows).tolist()], MONEY)
    return {
        "sale": pa.table({
            "s_buyer": numbers(n_rows, max(n_buyers, 1)), "s_day": numbers(n_rows, 7), "s_weight": reals(n_rows),
            "s_price": price,
            "s_count": pa.array(rng.integers(-(2**36), 2**36, n_rows), mask=rng.random(n_rows) < 0.2),
            "s_flag": pa.array(rng.random(n_rows) < 0.5, mask=rng.random(n_rows) < 0.2), "s_text": texts(n_rows, 50),
        }),
        "buyer": pa.table({
            "b_id": numbers(n_buyers, max(n_buyers, 1)), "b_name": texts(n_buyers, 20), "b_land": numbers(n_buyers, 7),
            "b_weight": reals(n_buyers),
        }),
        "land": pa.table({"l_id": numbers(n_lands, 7), "l_name": texts(n_lands, 3)}),
        "day": pa.table({"d_id": pa.array(range(5), I64), "d_year": pa.array([1, 1, 2, None, 2], I64)}),
    }  # fmt: skip


CALLS = (
    "count(*), count(s_weight), sum(s_price), min(s_text), max(s_text), min(distinct s_count), bool_and(s_flag), "
    "avg(s_price), sum(s_price * s_price), sum(s_count), bit_xor(s_count), avg(s_count), sum((s_price - 1) / 2), "
    "max(s_count::decimal(38, 3))"
)
QUERIES = [
    f"select b_name, {CALLS} from sale, buyer where s_buyer = b_id group by b_name",
    f"select b_name, l_name, {CALLS} from sale, buyer, land where s_buyer = b_id and b_land = l_id group by all",
    f"select l_name, d_year, b_name || l_name as n, {CALLS} from sale, buyer, land, day "
    "where s_buyer = b_id and b_land = l_id and s_day = d_id and d_year = 1 group by all",
    f"select b_weight, s_day + 1 as next_day, {CALLS} from sale, buyer where s_buyer = b_id group by all",
    f"select b_name, s_day, s_weight, {CALLS} from sale, buyer where s_buyer = b_id group by all",
    f"select b_name, {CALLS} from sale, buyer where s_buyer = b_id and s_day = b_land group by all",
    f"select b_name, {CALLS} from sale, buyer, day where s_buyer = b_id and s_day = d_id and s_day <> b_land "
    "group by all",
    "select b_name, s_day from sale, buyer where s_buyer = b_id group by all",
    f"select l_name, {CALLS} from sale, buyer, land where s_buyer = b_id and s_day = l_id group by all "
    "having count(*) > 10",
    "select b_name, count(*) from sale, buyer, land where s_buyer = b_id group by all",
]


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("n_rows", [0, 1, 300, 20_000])
@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_groups_are_those_of_the_joined_rows(query: str, n_rows: int, threads: int, always: Sequence[int]) -> None:
    data = tables(n_rows, seed=n_rows)
    session = Session(threads=threads)
    oracle = duckdb.connect()
    for name, rows in data.items():
        session.register(name, rows)
        oracle.register(name, rows)
    found = session.sql(query).to_arrow()
    assert_same_rows(found, oracle.sql(query).to_arrow_table())
    assert always or n_rows < 300


def test_names_of_parts_are_new(always: Sequence[int]) -> None:
    """A table that is joined later has a column with the name that a partial sum would get."""
    session = Session()
    session.register("sale", pa.table({"k": [1, 1, 2], "v": [1, 2, 3]}))
    session.register("buyer", pa.table({"b": [1, 2], "t_sum": ["one", "two"]}))
    query = "select t_sum, sum(v) as t from sale, buyer where k = b group by t_sum order by 1"
    assert session.sql(query).to_arrow().to_pylist() == [{"t_sum": "one", "t": 3}, {"t_sum": "two", "t": 3}]
    assert always


def test_functions_of_a_float_tell_zeros_apart(always: Sequence[int]) -> None:
    """0.0 and -0.0 are one group. A key computed from them has two values."""
    session = Session()
    session.register("sale", pa.table({"k": [1, 1], "x": [0.0, -0.0], "v": [1, 2]}))
    session.register("buyer", pa.table({"b": [1], "b_name": ["one"]}))
    query = "select b_name, cast(x as varchar) as s, sum(v) as t from sale, buyer where k = b group by all"
    assert sorted(session.sql(query).to_arrow()["t"].to_pylist()) == [1, 2]
    assert not always
