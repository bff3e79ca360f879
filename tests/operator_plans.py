"""A plan for every operator, with the SQL for DuckDB. Tests that run operators in unusual ways use these plans."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import qcore
from oracle import assert_same_rows, comparable_rows
from qcore import IterOutcome, PlanBuilder, agg, col, lit
from qcore.expression.tree import Expr
from qcore.plan.nodes import (
    Aggregate,
    EnforceSingleRow,
    HashJoin,
    Limit,
    RecursiveUnion,
    Shared,
    SharedRead,
    UnionAll,
    WorkingTable,
)

LEFT = pa.schema([("a", pa.int64()), ("b", pa.int32()), ("s", pa.string()), ("v", pa.int64())])
RIGHT = pa.schema([("k", pa.int64()), ("w", pa.int32()), ("t", pa.string())])
WORDS = ("", "x", "yy", "twelve bytes", "thirteen byte", "a string too long to be inline")


def random_rows(schema: pa.Schema, n_rows: int, rng: random.Random) -> pa.Table:
    """Rows with many equal keys and some nulls."""

    def value(field: pa.Field) -> Any:
        if rng.random() < 0.1:
            return None
        if field.type == pa.string():
            return rng.choice(WORDS)
        return rng.randint(0, 40) if field.name in ("a", "k") else rng.randint(-50, 50)

    return pa.table({field.name: pa.array([value(field) for _ in range(n_rows)], field.type) for field in schema})


@functools.cache
def oracle() -> duckdb.DuckDBPyConnection:
    """One DuckDB for all cases, because opening it takes longer than most cases."""
    return duckdb.connect(config={"threads": 1})


@dataclass(frozen=True)
class Case:
    """`build` makes the plan over builders of LEFT and RIGHT; `sql` asks DuckDB the same of tables l and r.

    `some`: which rows come is free, how many is not, and all are rows of `sql` without its limit.
    """

    build: Callable[[PlanBuilder, PlanBuilder], PlanBuilder]
    sql: str
    ordered: bool = False
    some: int | None = None

    def expected(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The rows by DuckDB."""
        duck = oracle()
        duck.register("l", left)
        duck.register("r", right)
        try:
            return duck.sql(self.sql).to_arrow_table()
        finally:
            duck.unregister("l")
            duck.unregister("r")

    def check(self, actual: list[pa.RecordBatch], schema: pa.Schema, expected: pa.Table) -> None:
        """Fail unless the batches are right."""
        got = pa.Table.from_batches(actual, schema)
        if self.some is None:
            assert_same_rows(got, expected, ordered=self.ordered)
            return
        assert got.num_rows == min(self.some, expected.num_rows)
        extra = Counter(comparable_rows(got)) - Counter(comparable_rows(expected))
        assert not extra, f"rows that should not be: {list(extra)[:5]}"


def append_node(builder: PlanBuilder, node: Any) -> PlanBuilder:
    return builder._append(node)


# --- operators written in Python, one in each protocol ---


class Doubled(qcore.Operator):
    """Doubles v. One output batch for each input batch (V5)."""

    held: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self.held is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held = double_values(batch)

    def get_output(self) -> pa.RecordBatch | None:
        given, self.held = self.held, None
        return given


class DoubledStateless(qcore.StatelessOperator):
    """Doubles v (G4)."""

    def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        return double_values(batch)


class DoubledIterator(qcore.BatchIterator):
    """Doubles v. Two output batches for each input batch (D2)."""

    rest: pa.RecordBatch | None = None

    def next(self) -> IterOutcome:
        if self.rest is not None:
            self.batch, self.rest = self.rest, None
            return IterOutcome.OK
        outcome = self.child.next()
        if outcome in (IterOutcome.OK, IterOutcome.OK_NEW_SCHEMA):
            batch = double_values(self.child.batch)
            self.batch, self.rest = batch.slice(0, batch.num_rows // 2), batch.slice(batch.num_rows // 2)
        return outcome


class Passing(qcore.Operator):
    """Returns its input."""

    def __init__(self) -> None:
        self.held: list[pa.RecordBatch] = []

    def needs_input(self) -> bool:
        return len(self.held) < 2

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held.append(batch)

    def get_output(self) -> pa.RecordBatch | None:
        return self.held.pop(0) if self.held else None


def double_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with doubled v, in the type of v."""
    position = batch.schema.get_field_index("v")
    field, column = batch.schema.field(position), batch.column(position)
    return batch.set_column(position, field, pc.add(column, column).cast(field.type))


class Listed(qcore.StatelessOperator):
    """Adds the column e: a list of a % 4 numbers from v on; null if a or v is null."""

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema.append(pa.field("e", pa.list_(pa.int64())))

    def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = zip(batch.column("a").to_pylist(), batch.column("v").to_pylist(), strict=True)
        lists = [None if a is None or v is None else list(range(int(v), int(v) + int(a) % 4)) for a, v in rows]
        return batch.append_column("e", pa.array(lists, pa.list_(pa.int64())))


# --- the plans ---


def grouping_sets(one: PlanBuilder) -> PlanBuilder:
    node = one.aggregate(["a", "b"], {"n": ("count",), "x": ("sum", "v")}).build()
    assert isinstance(node, Aggregate)
    return append_node(one, replace(node, grouping_sets=((0, 1), (0,), ())))


def window(one: PlanBuilder, keys: tuple[str, ...]) -> PlanBuilder:
    calls = {"n": "row_number", "x": qcore.window("sum", "v", frame=("rows", -2, 1))}
    return one.window(calls, keys, ["a", "b", "s", "v"])


def single_row(one: PlanBuilder) -> PlanBuilder:
    total = one.aggregate([], {"n": ("count",), "x": ("max", "v")})
    node = total.build()
    return append_node(total, EnforceSingleRow("single", node.schema, node))


def no_row(one: PlanBuilder) -> PlanBuilder:
    none = one.filter(col("v") > 1000)
    node = none.build()
    return append_node(none, EnforceSingleRow("single", node.schema, node))


def recursion(first: PlanBuilder, again: Callable[[PlanBuilder], PlanBuilder], distinct: bool) -> PlanBuilder:
    """The rows of `first`, then those that `again` makes from the last rows, until there are none."""
    node = first.build()
    working = append_node(PlanBuilder(), WorkingTable("working", node.schema, "again"))
    left, right, free = first._both("recursion", again(working))
    return first._with(RecursiveUnion("recursion", node.schema, "again", (left, right), distinct), free)


def like(name: str, rows: PlanBuilder, value: str | Expr) -> Expr:
    """The value cast to the type of a column of these rows."""
    return (col(value) if isinstance(value, str) else value).cast(rows.build().schema.field(name).type)


JOINS = {
    "inner": "select * from {l} join {r} on {on}",
    "left": "select * from {l} left join {r} on {on}",
    "right": "select * from {l} right join {r} on {on}",
    "full": "select * from {l} full join {r} on {on}",
    "left_semi": "select * from {l} where exists (select 1 from {r} where {on})",
    "left_anti": "select * from {l} where not exists (select 1 from {r} where {on})",
    "right_semi": "select * from {r} where exists (select 1 from {l} where {on})",
    "right_anti": "select * from {r} where not exists (select 1 from {l} where {on})",
    "mark": "select *, exists (select 1 from {r} where {on}) from {l}",
}
# columns of Listed
LISTS = "range(v::bigint, v::bigint + a::bigint % 4)"
# Conditions of nested-loop joins.
FEW = {"l": "(from l where a < 8) as l", "r": "(from r where k < 8) as r"}


def window_sql(keys: str) -> str:
    over = "order by a nulls last, b nulls last, s nulls last, v nulls last"
    over = f"partition by {keys} {over}" if keys else over
    return f"select *, row_number() over ({over}), sum(v) over ({over} rows between 2 preceding and 1 following) from l"


CASES = {
    "scan": Case(lambda one, two: one, "select * from l"),
    "filter": Case(lambda one, two: one.filter((col("v") > 0) & (col("s") != "x")), "from l where v > 0 and s <> 'x'"),
    "project": Case(
        lambda one, two: one.project({"x": col("v") * lit(2) + lit(1), "s": col("s")}), "select v * 2 + 1, s from l"
    ),
    "aggregate": Case(
        lambda one, two: one.aggregate(
            ["a", "s"], {"n": ("count",), "x": ("sum", "v"), "lo": ("min", "s"), "hi": ("max", "b")}
        ),
        "select a, s, count(*), sum(v), min(s), max(b) from l group by a, s",
    ),
    "aggregate without keys": Case(
        lambda one, two: one.aggregate([], {"n": ("count", "v"), "x": ("sum", "v")}),
        "select count(v), sum(v) from l",
    ),
    "distinct aggregate": Case(
        lambda one, two: one.aggregate(["b"], {"n": agg("count", "a", distinct=True), "x": ("sum", "v")}),
        "select b, count(distinct a), sum(v) from l group by b",
    ),
    "grouping sets": Case(
        lambda one, two: grouping_sets(one),
        "select a, b, count(*), sum(v) from l group by grouping sets ((a, b), (a), ())",
    ),
    "rollup": Case(
        lambda one, two: one.aggregate(["s", "b"], {"n": ("count",), "hi": ("max", "v")}, grouping_sets="rollup"),
        "select s, b, count(*), max(v) from l group by rollup (s, b)",
    ),
    "window": Case(lambda one, two: window(one, ("a",)), window_sql("a")),
    "window without keys": Case(lambda one, two: window(one, ()), window_sql("")),
    "window of other rows' values": Case(
        lambda one, two: one.window(
            {"r": "rank", "before": ("lag", "v", 2), "first": ("first_value", "s"), "n": ("count", "v")},
            partition_by=["s"],
            order_by=["a", "b", "v"],
        ),
        "select *, rank() over p, lag(v, 2) over p, first_value(s) over p, count(v) over p from l "
        "window p as (partition by s order by a nulls last, b nulls last, v nulls last)",
    ),
    "unnest": Case(lambda one, two: one.operator(Listed()).unnest("e"), f"select *, unnest({LISTS}) as e from l"),
    "outer unnest with numbers": Case(
        lambda one, two: one.operator(Listed()).unnest({"e": "x"}, outer=True, ordinality="n"),
        f"select l.*, u.x, u.x - v + 1 from l left join lateral (select unnest({LISTS}) as x) as u on true",
    ),
    "order by": Case(
        lambda one, two: one.order_by(["s desc", "a", "b nulls first", "v"]),
        "from l order by s desc nulls last, a nulls last, b nulls first, v nulls last",
        ordered=True,
    ),
    "top n": Case(
        lambda one, two: one.top_n(["v desc", "a", "b", "s"], 20, offset=3),
        "from l order by v desc nulls last, a nulls last, b nulls last, s nulls last limit 20 offset 3",
        ordered=True,
    ),
    "limit": Case(lambda one, two: one.limit(50), "from l", some=50),
    "limit and offset": Case(
        lambda one, two: one.filter(col("a") == 1).project(["a"]).limit(7, offset=2),
        "select a from l where a = 1 offset 2",
        some=7,
    ),
    "single row": Case(lambda one, two: single_row(one), "select count(*), max(v) from l"),
    "no row": Case(lambda one, two: no_row(one), "select null, null, null, null"),
    "union all": Case(
        lambda one, two: one.project(["a", "s"]).union_all(two.project(["k", "t"]), two.project(["k", "t"])),
        "select a, s from l union all select k, t from r union all select k, t from r",
    ),
    "union distinct": Case(
        lambda one, two: one.project(["a", "s"]).union_all(two.project(["k", "t"])).distinct(),
        "select a, s from l union select k, t from r",
    ),
    "recursion over a table": Case(
        lambda one, two: recursion(
            one.filter(col("a") < 5).project({"n": col("a")}),
            lambda working: working.hash_join(two, ["n"], ["k"]).project({"n": like("n", working, "w")}),
            distinct=True,
        ),
        "with recursive again(n) as (select a from l where a < 5 union select w from r join again on n = k) from again",
    ),
    "recursion with an aggregate above": Case(
        lambda one, two: recursion(
            one.project({"n": col("a")}).local_partition(),
            lambda working: (
                working.filter(col("n") < 40).project({"n": like("n", working, col("n") + lit(7))}).order_by(["n"])
            ),
            distinct=False,
        ).aggregate(["n"], {"x": ("count",)}),
        "with recursive again(n) as (select a from l union all select n + 7 from again where n < 40) "
        "select n, count(*) from again group by n",
    ),
    "hash exchange": Case(lambda one, two: one.local_partition(["a", "s"], drivers=3), "from l"),
    "round robin exchange": Case(
        lambda one, two: one.local_partition(drivers=3).filter(col("v") > 0), "from l where v > 0"
    ),
    "gathering exchange": Case(lambda one, two: one.local_partition(kind="gather"), "from l"),
    "exchanges in a row": Case(
        lambda one, two: one.local_partition(["a"]).filter(col("b") > 0).local_partition(["s"], drivers=2),
        "from l where b > 0",
    ),
    "limit above a left join": Case(
        lambda one, two: one.hash_join(two, ["a"], ["k"], how="left").limit(30),
        "select * from l left join r on a = k",
        some=30,
    ),
    "join over an empty build": Case(
        lambda one, two: one.hash_join(two.filter(col("w") > 1000), ["a"], ["k"]), "select * from l, r where false"
    ),
    "null-aware anti join": Case(
        lambda one, two: one.hash_join(two.filter(col("k") > 5), ["a"], ["k"], how="null_aware_anti"),
        "from l where a not in (select k from r where k > 5)",
    ),
    "cross join": Case(
        lambda one, two: one.filter(col("a") < 5).nested_loop_join(two.filter(col("k") < 5)),
        "select * from l, r where a < 5 and k < 5",
    ),
    "join, aggregate, order": Case(
        lambda one, two: (
            one.hash_join(two, ["a"], ["k"])
            .aggregate(["t"], {"n": ("count",), "x": ("sum", "v")})
            .order_by(["n desc", "t"])
        ),
        "select t, count(*) as n, sum(v) from l join r on a = k group by t order by n desc, t nulls last",
        ordered=True,
    ),
    "pushed operator in Python": Case(lambda one, two: one.operator(Doubled), "select a, b, s, v * 2 from l"),
    "stateless operator in Python": Case(
        lambda one, two: one.operator(DoubledStateless()), "select a, b, s, v * 2 from l"
    ),
    "iterator in Python": Case(lambda one, two: one.operator(DoubledIterator), "select a, b, s, v * 2 from l"),
    "operators in Python above a join": Case(
        lambda one, two: (
            one.operator(DoubledIterator)
            .hash_join(two.operator(Passing), ["a"], ["k"])
            .operator(Doubled)
            .aggregate(["a"], {"x": ("sum", "v")})
        ),
        "select a, sum(v * 4) from l join r on a = k group by a",
    ),
}


def shared_twice(one: PlanBuilder, two: PlanBuilder, how: str) -> PlanBuilder:
    """Sums of l joined with themselves. The build side and the probe side read the same spool."""
    sums = one.aggregate(["a"], {"x": ("sum", "v")}).build()
    made = Shared("shared", sums.schema, sums)
    renamed = pa.schema([field.with_name(field.name + "2") for field in sums.schema])
    read = SharedRead("read", renamed, "shared", ("a", "x"), sums)
    keys = (("a",), ("a2",))
    if how == "one side is empty":
        key = sums.schema.field("a").type
        nobody = two.filter(col("k") > 1000).project({"k": col("k").cast(key)}).build()
        empty = HashJoin("empty", made.schema, made, nobody, "left_semi", ("a",), ("k",))
        inputs = (empty, SharedRead("read", sums.schema, "shared", ("a", "x"), sums))
        return append_node(two, UnionAll("union", sums.schema, inputs))
    schema = pa.schema([*made.schema, *read.schema])
    return append_node(one, HashJoin("self", schema, made, read, "inner", *keys, build=how))


SUMS = "(select a, sum(v) as x from l group by a)"
for side in ("left", "right"):
    CASES[f"a subplan read twice, built on the {side}"] = Case(
        lambda one, two, side=side: shared_twice(one, two, side),
        f"select * from {SUMS} one join {SUMS} two on one.a = two.a",
    )
CASES["a subplan read twice, once in vain"] = Case(
    lambda one, two: shared_twice(one, two, "one side is empty"), f"select * from {SUMS}"
)


def shared_three_times(one: PlanBuilder) -> PlanBuilder:
    """Sums of l with three readers, one of which reads no row."""
    sums = one.aggregate(["a"], {"x": ("sum", "v")}).build()
    second, third = (SharedRead(id, sums.schema, "shared", ("a", "x"), sums) for id in ("second", "third"))
    inputs = (Limit("none", sums.schema, second, 0), Shared("shared", sums.schema, sums), third)
    return append_node(one, UnionAll("union", sums.schema, inputs))


CASES["a subplan read three times, once not at all"] = Case(
    lambda one, two: shared_three_times(one), f"select * from {SUMS} union all select * from {SUMS}"
)


def set_operation_cases() -> dict[str, Case]:
    """Intersections and differences, of distinct rows and of all."""
    made = {}
    for kind, step in (("intersect", PlanBuilder.intersect), ("except", PlanBuilder.except_)):
        for all in (False, True):
            made[kind + " all" * all] = Case(
                lambda one, two, step=step, all=all: step(one.project(["a", "s"]), two.project(["k", "t"]), all=all),
                f"select a, s from l {kind} {'all ' * all}select k, t from r",
            )
    return made


def join_cases() -> dict[str, Case]:
    """Every kind of join, by hash and by nested loops."""
    made = {}
    for how, sql in JOINS.items():
        made[f"hash join {how}"] = Case(
            lambda one, two, how=how: one.hash_join(two, ["a"], ["k"], how=how), sql.format(l="l", r="r", on="a = k")
        )
        made[f"hash join {how} on two keys, with a condition"] = Case(
            lambda one, two, how=how: one.hash_join(
                two, ["a", "s"], ["k", "t"], how=how, condition=col("v") > col("w")
            ),
            sql.format(l="l", r="r", on="a = k and s = t and v > w"),
        )
        made[f"nested loop join {how}"] = Case(
            lambda one, two, how=how: one.filter(col("a") < 8).nested_loop_join(
                two.filter(col("k") < 8), condition=(col("v") > col("w")) & (col("a") != col("k")), how=how
            ),
            sql.format(**FEW, on="v > w and a <> k"),
        )
    return made


CASES |= join_cases() | set_operation_cases()
