"""Groups whose keys and arguments widen in mid-stream (SPEC D6).

What an aggregation has of narrow types, keys, states, values met and values kept, becomes of wide ones, whichever
driver sees the change and when. The oracle is DuckDB over the same rows cast up front to the widest type.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from widening_source import KEYS, Widening, ask, rows_of, run

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, SchemaChangeError, col
from qcore.builder.aggregate_steps import agg
from qcore.functions.aggregates import aggregate_type
from qcore.plan import nodes as p
from qcore.plan.schema import aggregate_schema
from sweeps import every

DRIVERS = (1, 2, 8)
# One seed for each number of drivers, and then more seeds.
SEEDS = pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 12), marks=pytest.mark.sweep)], ids=str)
NUMBERS = [name for name in KEYS if name not in ("date to timestamp", "null to time", "null to text", "text")]


def check(plan: PlanBuilder, sql: str, source: Widening, drivers: int) -> None:
    expected = ask(sql, t=source.up_front())
    assert_same_rows(run(plan, drivers, expected), expected)


@SEEDS
@pytest.mark.parametrize("name", every(3, KEYS))
def test_keys_of_groups_widen(name: str, seeds: range) -> None:
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, seed)
        aggs = {"n": ("count",), "t": ("sum", "i"), "lo": ("min", "i"), "a": ("avg", "g")}
        plan = rows_of(source).aggregate(keys=["k"], aggs=aggs)
        check(plan, "select k, count(*) n, sum(i) t, min(i) lo, avg(g) a from t group by k", source, drivers)


@SEEDS
@pytest.mark.parametrize("name", every(3, KEYS))
def test_two_keys(name: str, seeds: range) -> None:
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 50 + seed)
        plan = rows_of(source).aggregate(keys=["g", "k"], aggs={"n": ("count",), "hi": ("max", "i")})
        check(plan, "select g, k, count(*) n, max(i) hi from t group by g, k", source, drivers)


@SEEDS
@pytest.mark.parametrize("name", every(3, KEYS))
def test_distinct_rows(name: str, seeds: range) -> None:
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 100 + seed)
        plan = rows_of(source).aggregate(keys=["k"], aggs={})
        check(plan, "select distinct k from t", source, drivers)


ANY = {"n": ("count", "k"), "lo": ("min", "k"), "hi": ("max", "k")}
ANY_SQL = "count(k) n, min(k) lo, max(k) hi"


@SEEDS
@pytest.mark.parametrize("by", ["g", None])
@pytest.mark.parametrize("name", every(3, KEYS))
def test_arguments_of_any_type_widen(name: str, by: str | None, seeds: range) -> None:
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 150 + seed)
        plan = rows_of(source).aggregate(keys=[by] if by else [], aggs=ANY)
        check(plan, f"select g, {ANY_SQL} from t group by g" if by else f"select {ANY_SQL} from t", source, drivers)


@pytest.mark.each_value
@SEEDS
@pytest.mark.parametrize("by", ["g", None])
@pytest.mark.parametrize("name", NUMBERS)
def test_sums_and_their_kin_widen(name: str, by: str | None, seeds: range) -> None:
    aggs = {"t": ("sum", "k"), "a": ("avg", "k"), "s": ("stddev_samp", "k"), "v": ("var_pop", "k"), "n": ("count", "k")}
    sql = "sum(k) t, avg(k) a, stddev_samp(k) s, var_pop(k) v, count(k) n"
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 200 + seed, values="sums")
        plan = rows_of(source).aggregate(keys=[by] if by else [], aggs=aggs)
        check(plan, f"select g, {sql} from t group by g" if by else f"select {sql} from t", source, drivers)


@SEEDS
@pytest.mark.parametrize("name", every(3, KEYS))
def test_values_met_and_values_kept_widen(name: str, seeds: range) -> None:
    """Aggregates with DISTINCT, and aggregates that keep all values."""
    aggs = {
        "d": agg("count", "k", distinct=True),
        "b": agg("count", "k", distinct=True, filter=col("i") > 1 << 39),
        "q": agg("quantile_disc", "k", 0.3),
    }
    sql = """
        count(distinct k) d, count(distinct k) filter (where i > 549755813888) b,
        quantile_disc(k, 0.3) q"""
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 250 + seed)
        check(rows_of(source).aggregate(keys=["g"], aggs=aggs), f"select g, {sql} from t group by g", source, drivers)


@SEEDS
@pytest.mark.parametrize("name", NUMBERS)
def test_distinct_sums_and_medians(name: str, seeds: range) -> None:
    aggs = {"d": agg("sum", "k", distinct=True), "m": agg("median", "k"), "a": agg("avg", "k", distinct=True)}
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 300 + seed, values="sums")
        plan = rows_of(source).aggregate(keys=["g"], aggs=aggs)
        sql = "select g, sum(distinct k) d, median(k::double) m, avg(distinct k) a from t group by g"
        check(plan, sql, source, drivers)


class Many(qcore.SourceOperator):
    """Batches of 100,000 rows. The key widens in later batches."""

    def __init__(self, partitions: int, n_keys: int, width: pa.DataType) -> None:
        random = np.random.default_rng(5)
        self.declared = pa.schema([("k", pa.int32()), ("v", pa.int32())])
        self.batches = [
            [
                pa.record_batch(
                    {
                        "k": pa.array(random.integers(0, n_keys, 100_000), pa.int32()).cast(type_),
                        "v": pa.array(random.integers(0, 9, 100_000), pa.int32()).cast(type_),
                    }
                )
                for type_ in (pa.int32(), width, pa.int32())
            ]
            for _ in range(partitions)
        ]

    def output_schema(self, schema: None) -> pa.Schema:
        return self.declared

    def init_local_state(self, cx: Any, global_state: Any) -> Any:
        return iter(self.batches[cx.partition])

    def poll_pull(self, cx: Any, local: Any, global_state: Any, partition: int) -> Any:
        batch = next(local, None)
        return qcore.PollPull.EXHAUSTED if batch is None else qcore.PollPull.batch(batch)


@pytest.mark.each_value
@pytest.mark.parametrize("width", [pa.int64(), pa.decimal128(12, 2), pa.decimal128(24, 2), pa.float64()], ids=str)
@pytest.mark.parametrize("n_keys", [1000, 30_000, 90_000, 1 << 30])
def test_many_groups(n_keys: int, width: pa.DataType) -> None:
    """Partitioned tables, full partial tables, and rows that pass the partial step without a table."""
    for drivers in (1, 3):
        source = Many(drivers, n_keys, width)
        batches = [batch for part in source.batches for batch in part]
        wide = pa.schema([("k", width), ("v", width)])
        rows = pa.concat_tables(pa.Table.from_batches([batch]).cast(wide) for batch in batches)
        plan = PlanBuilder().source(source, on_schema_change="evolve")
        plan = plan.aggregate(keys=["k"], aggs={"n": ("count",), "t": ("sum", "v"), "hi": ("max", "v")})
        expected = ask("select k, count(*) n, sum(v) t, max(v) hi from t group by k order by k", t=rows)
        actual = run(plan, drivers, expected).sort_by("k")
        assert actual.num_rows == expected.num_rows
        for name in expected.column_names:
            same = actual[name].combine_chunks().equals(expected[name].combine_chunks())
            assert same, f"{name} differs with {drivers} drivers"


@pytest.mark.parametrize("function", ["bit_and", "bit_or", "bit_xor"])
def test_a_decimal_of_few_digits_has_no_bits(function: str) -> None:
    """The engine keeps it as a 64-bit integer. The bits of that integer are not bits of the value."""
    keys = pa.array([Decimal("5.00")], pa.decimal128(12, 2))
    wide = pa.record_batch({"k": keys, "i": [1], "g": pa.array([1], pa.int8())})
    source = Widening("integer to decimal", 1, 0)
    source.batches = [[wide]]
    plan = rows_of(source).aggregate(keys=["g"], aggs={"x": (function, "k")})
    with pytest.raises(SchemaChangeError, match=r"(?s)int32.*decimal128\(12, 2\).*does not take input"):
        run(plan, 1, pa.table({"g": pa.array([], pa.int8())}))


@pytest.mark.parametrize("drivers", [1, 3])
def test_aggregates_that_cannot_widen_are_refused_by_name(drivers: int) -> None:
    """Bitwise aggregates of decimals."""
    source = Widening("integer to decimal", drivers, 0)
    plan = rows_of(source).aggregate(keys=["g"], aggs={"x": ("bit_and", "k")})
    with pytest.raises(SchemaChangeError, match=r"(?s)HashAggregation.*int32.*decimal128\(.*does not take input"):
        run(plan, drivers, pa.table({"g": pa.array([], pa.int8())}))


@SEEDS
@pytest.mark.parametrize("name", NUMBERS)
def test_aggregates_over_windows(name: str, seeds: range) -> None:
    """Keys and arguments of windows widen: frames that grow or move, and aggregates that need all values."""
    calls = (("t", "sum", True), ("lo", "min", False), ("a", "avg", True), ("d", "count", True))
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 600 + seed, values="sums")
        child = rows_of(source).build()
        schema, made = child.schema, []
        for call, function, grows in calls:
            schema = schema.append(pa.field(call, aggregate_type(function, [child.schema.field("k").type])))
            frame = p.WindowFrame("rows", None if grows else -2, 0 if grows else 2)
            made.append(p.WindowCall(call, function, "k", 1, frame))
        plan = p.Window("window", schema, child, ("g",), (p.SortKey("i"),), tuple(made))
        sql = """
            select k, i, g, sum(k) over w t, avg(k) over w a, count(k) over w d,
                min(k) over (partition by g order by i rows between 2 preceding and 2 following) lo
            from t window w as (partition by g order by i rows between unbounded preceding and current row)"""
        expected = ask(sql, t=source.up_front()).select(schema.names)
        assert_same_rows(run(plan, drivers, expected), expected)


@SEEDS
@pytest.mark.parametrize("name", every(8, KEYS))
def test_set_operations(name: str, seeds: range) -> None:
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        left = Widening(name, drivers, 400 + seed)
        right = Widening(name, drivers, 450 + seed)
        for sql in ("union all", "except", "intersect", "except all", "intersect all"):
            one, other = (rows_of(side).project({"k": col("k")}) for side in (left, right))
            method, _, all_rows = sql.partition(" ")
            how = {"all": True} if all_rows and method != "union" else {}
            plan = getattr(one, {"union": "union_all", "except": "except_"}.get(method, method))(other, **how)
            expected = ask(f"select k from t {sql} select k from o", t=left.up_front(), o=right.up_front())
            assert_same_rows(run(plan, drivers, expected), expected)


@SEEDS
@pytest.mark.parametrize("name", every(3, KEYS))
def test_grouping_sets(name: str, seeds: range) -> None:
    for seed in seeds:
        drivers = DRIVERS[seed % 3]
        source = Widening(name, drivers, 500 + seed)
        child = rows_of(source).build()
        keys = (("k", col("k")), ("g", col("g")))
        calls = (p.AggregateCall("n", "count"), p.AggregateCall("hi", "max", (col("k"),)))
        schema = aggregate_schema(keys, calls, child.schema)
        plan = p.Aggregate("sets", schema, child, keys, calls, ((0,), (1,), (0, 1), ()))
        sql = "select k, g, count(*) n, max(k) hi from t group by grouping sets ((k), (g), (k, g), ())"
        expected = ask(sql, t=source.up_front())
        assert_same_rows(run(plan, drivers, expected), expected)


def test_a_text_of_several_types_is_refused() -> None:
    """The column is declared null. 5 and 5.00 would have different texts, depending on the first type."""
    source = Widening("null to decimal", 1, 0)
    source.batches = [[source.batch(*kind, random.Random(1)) for kind in KEYS["null to decimal"]]]
    plan = rows_of(source).project({"x": col("k").cast(pa.string())})
    with pytest.raises(SchemaChangeError, match=r"'k' changed from int32 to decimal128\(12, 2\)"):
        run(plan, 1, pa.table({"x": pa.array([], pa.string())}))
