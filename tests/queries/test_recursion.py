"""WITH RECURSIVE against DuckDB. SPEC Q2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from widening_source import KEYS, ask, rows_of, run
from widening_source import Widening as Changing

import qcore
from oracle import assert_same_rows
from qcore import col
from qcore.connectors.arrow import ArrowSplit, ArrowTable
from qcore.connectors.streams import TableStream
from qcore.expression.tree import lit
from qcore.plan.nodes import (
    Filter,
    HashJoin,
    NestedLoopJoin,
    PlanNode,
    Project,
    RecursiveUnion,
    UserOperator,
    WorkingTable,
)
from qcore_ext.aggregate.distinct_rows import DistinctRows
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from sweeps import every

EDGES = pa.table({"a": [1, 2, 3, 4, 2, 5, 6, 7, None], "b": [2, 3, 4, 2, 5, None, 7, 6, 1]})

QUERIES = [
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 50) select * from r",
    "with recursive r as (select 1 as n, 'x' as s union all select n + 1, s || 'y' from r where n < 5) select * from r",
    # A cycle ends only if rows that were found before, also rows with nulls, are dropped.
    "with recursive r(x) as (select 1 union select b from e join r on e.a = r.x) select x from r",
    "with recursive r(n) as (select 1 union select (n * 3) % 1000 from r) select count(*), sum(n), min(n) from r",
    "with recursive r(x, y) as (select a, b from e union select r.x, e.b from r join e on r.y = e.a) "
    "select x, count(*), sum(y) from r group by x",
    # Twice in the outer query, twice in its own, joined with a table, aggregated, in a subquery.
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 4) "
    "select p.n as p, q.n as q from r p, r q",
    "with recursive r(n) as (select 1 union all select p.n + q.n from r p, r q where p.n < 20) select * from r",
    "with recursive r(n) as (select 1 union select sum(n + b) from r, e where n < 10000) select * from r",
    "select * from (with recursive x as (select 1 as n union all select n * 2 from x where n < 99) select n from x)",
    "select a from e where a in "
    "(with recursive r(n) as (select 2 union all select n + 1 from r where n < 4) select * from r)",
    # Other tables of the list, before and after; one recursion over another.
    "with recursive s as (select min(a) as m from e), "
    "r(n) as (select m from s union all select n + 1 from r where n < 4), "
    "t as (select n * 10 as n from r) select t.n, s.m from t, s",
    "with recursive p(n) as (select 1 union all select n + 1 from p where n < 4), "
    "q(m) as (select n from p union all select m + 10 from q where m < 30) select * from q",
    # In place of a table of the same name.
    "with recursive e as (select 7 as a union all select a - 1 from e where a > 0) select * from e",
    # The first part determines the types.
    "with recursive r as (select cast(1 as smallint) as n union all select n + 1 from r where n < 5) select * from r",
    # An endless recursion below a limit.
    "with recursive r(n) as (select 1 union all select n + 1 from r) select * from r limit 200",
    "with recursive r(n) as (select a from e where a > 100 union all select n + 1 from r) select * from r",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries(query: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("e", EDGES)
    for threads in (1, 3):
        assert_same_rows(qcore.sql(query, {"e": EDGES}, threads=threads).to_arrow(), duck.sql(query))


def test_a_bare_null_has_the_type_of_the_repeated_part() -> None:
    query = "with recursive r as (select 1 as n, null as p union all select n + 1, 'a' || n from r where n < 3) "
    query += "select * from r"
    assert qcore.sql(query).to_arrow().to_pydict() == {"n": [1, 2, 3], "p": [None, "a1", "a2"]}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("with recursive r as (select 1 as n union all select n + 0.5 from r) select * from r", "column 'n' .* cast"),
        (
            "with recursive r as (select n + 1 as n from r) select * from r",
            "the recursive table 'r' is not a UNION of a first query",
        ),
        (
            "with recursive r as (select n from r union all select 1) select * from r",
            "only the last query of the UNION of the recursive table 'r' can read it",
        ),
        (
            "with recursive r as (select 1 as n union all select n, 2 from r) select * from r",
            "1 columns, the repeated part 2",
        ),
    ],
)
def test_refused(query: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        qcore.sql(query)


def endless(rounds_max: int, distinct: bool = False) -> RecursiveUnion:
    first = qcore.PlanBuilder().values(pa.table({"n": [1, 2]}), id="first").build()
    working = WorkingTable("working", first.schema, "r")
    return RecursiveUnion("loop", first.schema, "r", (first, working), distinct, rounds_max)


def test_rounds_are_limited() -> None:
    with pytest.raises(qcore.ExecutionError, match=r"loop.*more than 7 rounds of r"):
        qcore.Session(threads=2).execute(endless(7)).to_arrow()
    assert qcore.Session(threads=2).execute(endless(7, distinct=True)).to_arrow().num_rows == 2


def test_an_error_of_a_round_is_the_query_s() -> None:
    query = "with recursive r(n) as (select 9000000000000000000 union all select n + n from r) select * from r"
    with pytest.raises(qcore.ExecutionError, match="overflow"):
        qcore.sql(query, threads=2).to_arrow()


def test_cancelled_by_its_timeout() -> None:
    query = "with recursive r(n) as (select 1 union all select n from r) select sum(n) from r"
    with pytest.raises(qcore.Timeout):
        qcore.sql(query, timeout=0.3).to_arrow()


def test_explained() -> None:
    query = "with recursive r(n) as (select 1 union select n + 1 from r where n < 5) select * from r"
    text = qcore.sql(query).explain()
    assert "RecursiveUnion r distinct" in text
    assert "WorkingTable r" in text


def test_distinct_rows() -> None:
    """Each distinct row is returned once, over many batches and types. Nulls and NaN equal themselves."""
    schema = pa.schema({"a": pa.int64(), "s": pa.string(), "f": pa.float64()})
    met = DistinctRows(Schema(schema), Account())
    nan = float("nan")
    rows = [(i % 700, f"{'long ' * 5}{i % 3}" if i % 5 else None, nan if i % 2 else 0.5) for i in range(9_000)]
    seen: list[tuple[object, ...]] = []
    for start in range(0, 9_000, 2_500):
        part = rows[start : start + 2_500]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(column, type_) for column, type_ in zip(zip(*part, strict=True), schema.types, strict=True)],
            schema=schema,
        )
        fresh = pa.record_batch(met.add(PyBatch.from_arrow(batch)))
        seen += map(repr, zip(*(column.to_pylist() for column in fresh.columns), strict=True))
    assert seen == list(dict.fromkeys(map(repr, rows)))


class Failing(qcore.StatelessOperator):
    """An operator that fails in the third round."""

    def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        if 3 in batch.column("n").to_pylist():
            raise OSError("the disk is gone")
        return batch


class Widening(qcore.SourceOperator):
    """A source that declares int32, and returns int64 and another column too."""

    partitions = 1

    def output_schema(self, schema: None) -> pa.Schema:
        return pa.schema({"n": pa.int32()})

    def init_local_state(self, cx: Any, shared: Any) -> Any:
        parts = [{"n": pa.array([1], pa.int32())}, {"n": pa.array([2], self.second), "more": ["x"]}]
        return map(pa.record_batch, parts)

    def __init__(self, second: pa.DataType) -> None:
        self.second = second

    def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> qcore.PollPull:
        batch = next(local, None)
        return qcore.PollPull.EXHAUSTED if batch is None else qcore.PollPull.batch(batch)


def loop_rows(first: qcore.PlanBuilder, again: qcore.PlanBuilder | None = None) -> RecursiveUnion:
    """The rows of `first`, then endlessly new rows made by `again`, or by the default step."""
    node = first.build()
    working = WorkingTable("working", node.schema, "r")
    repeated = working if again is None else UserOperator("failing", node.schema, working, Failing())
    return RecursiveUnion("loop", node.schema, "r", (node, repeated), distinct=True)


@pytest.mark.parametrize("threads", [1, 3])
def test_d9_a_round_s_error_names_the_operator_that_failed(threads: int) -> None:
    """D9: the error is raised as it was, with its cause, and names the operator once."""
    first = qcore.PlanBuilder().values(pa.table({"n": [3]}), id="first")
    with pytest.raises(qcore.ExecutionError, match=r"^Failing \(node failing\) failed: OSError: the disk") as caught:
        qcore.Session(threads=threads).execute(loop_rows(first, first)).to_arrow()
    assert isinstance(caught.value.__cause__, OSError)
    assert (caught.value.operator, caught.value.node_id) == ("Failing", "failing")


def test_d6_schemas_that_change_in_the_rounds() -> None:
    """D6: added columns are refused, because a Result has one schema."""
    narrow = qcore.PlanBuilder().source(Widening(pa.int16()), on_schema_change="evolve")
    rows = qcore.Session(threads=1).execute(loop_rows(narrow)).to_arrow()
    assert_same_rows(rows, pa.table({"n": pa.array([1, 2], pa.int32())}), check_names=True)
    wide = qcore.PlanBuilder().source(Widening(pa.int64()), on_schema_change="evolve")
    with pytest.raises(qcore.SchemaChangeError, match="the result's column 'n' changed from int32 to int64"):
        qcore.Session(threads=1).execute(loop_rows(wide)).to_arrow()


class Given(ArrowTable):
    """A source that declares integers and returns the given batches."""

    def __init__(self, given: pa.Table) -> None:
        super().__init__(pa.table({"a": [1], "v": [2]}))
        self._given = given

    def splits(self, columns: tuple[str, ...], filter: Any, target: int) -> Iterator[ArrowSplit]:
        yield ArrowSplit(0, self._given.num_rows)

    def open(self, split: Any, columns: tuple[str, ...], filter: Any, batch_rows: int) -> TableStream:
        return TableStream(self._given.select(columns), batch_rows)


STEPS = "with recursive r(n) as (select 1::bigint union all select v from r join t on a = n) select n from r"


def test_d6_values_of_the_repeated_part_are_not_rounded() -> None:
    """D6: values that do not fit the first part's type are an error, and are not rounded."""
    steps = pa.table({"a": [1, 2, 7], "v": [2, 7, 9]})
    expected = duckdb.sql(STEPS.replace(" t ", " steps ")).to_arrow_table()
    assert_same_rows(qcore.sql(STEPS, {"t": Given(steps)}).to_arrow(), expected)
    wide = pa.table({"a": [1, 2], "v": pa.array(["2.5", "7"]).cast(pa.decimal128(9, 2))})
    for threads in (1, 3):
        with pytest.raises(qcore.SchemaChangeError, match=r"'v' is decimal128\(9, 2\), declared as int64"):
            qcore.sql(STEPS, {"t": Given(wide)}, threads=threads).to_arrow()
    with pytest.raises(qcore.PlanError, match=r"'n' .* is int64 in its first part and decimal128.* cast the first"):
        qcore.sql(STEPS, {"t": wide})


def both(left: PlanNode, right: PlanNode) -> pa.Schema:
    return pa.schema([*left.schema, *right.schema])


@pytest.mark.parametrize("name", every(6, KEYS))
def test_d6_rows_met_before_widen(name: str) -> None:
    """D6: rows of a narrow and of a wide type that are equal are one row, in whichever rounds they come."""
    for seed in range(12):
        first, later = Changing(name, 1, 700 + seed), Changing(name, 1, 750 + seed, "o")
        start = rows_of(first).project({"k": col("k")}).build()
        working, other = WorkingTable("working", start.schema, "r"), rows_of(later).build()
        pairs = NestedLoopJoin("pairs", both(working, other), working, other, "inner")
        again = Project("again", pa.schema([pairs.schema.field("ok")]), pairs, (col("ok"),))
        plan = RecursiveUnion("loop", start.schema, "r", (start, again), distinct=True)
        sql = "select k from t union select ok from o where exists (select 1 from t)"
        expected = ask(sql, t=first.up_front(), o=later.up_front())
        assert_same_rows(run(plan, (1, 2, 8)[seed % 3], expected), expected)


@pytest.mark.parametrize("name", every(6, KEYS))
def test_d6_the_working_table_widens(name: str) -> None:
    """D6: a round reads rows of the widest type of the rounds before."""
    for seed in range(12):
        first, later = Changing(name, 1, 800 + seed), Changing(name, 1, 850 + seed, "o")
        start = rows_of(first).project({"k": col("k"), "d": lit(0, pa.int64())}).build()
        working = Filter("few", start.schema, WorkingTable("working", start.schema, "r"), col("d") < 2)
        other = rows_of(later).build()
        pairs = HashJoin("pairs", both(working, other), working, other, "inner", ("k",), ("ok",))
        again = Project("again", start.schema, pairs, (col("ok"), col("d") + 1))
        plan = RecursiveUnion("loop", start.schema, "r", (start, again))
        sql = """
            with recursive r as (select k, 0::bigint d from t union all select ok, d + 1 from r join o on k = ok
            where d < 2) select k, d from r"""
        expected = ask(sql, t=first.up_front(), o=later.up_front())
        assert_same_rows(run(plan, (1, 2, 8)[seed % 3], expected), expected)


INT_LISTS, DECIMAL_LISTS = pa.list_(pa.int32()), pa.list_(pa.decimal128(12, 2))


class WideningLists(qcore.SourceOperator):
    """A source of lists of integers, then of lists of decimals."""

    partitions = 1

    def __init__(self) -> None:
        values = [pa.array([[1], [2]], INT_LISTS), pa.array([[3], [4]], DECIMAL_LISTS)]
        self.batches = iter([pa.record_batch({"l": one}) for one in values])

    def output_schema(self, input_schema: pa.Schema | None) -> pa.Schema:
        return pa.schema({"l": INT_LISTS})

    def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> Any:
        batch = next(self.batches, None)
        return qcore.PollPull.EXHAUSTED if batch is None else qcore.PollPull.batch(batch)


def test_d6_lists_that_widened_are_keys_of_the_next_round() -> None:
    """D6: a list of the round's wider type equals a list of the other table's type."""
    other = pa.table({"m": pa.array([[1], [3]], INT_LISTS), "n": pa.array([[10], [30]], INT_LISTS)})
    expected = pa.table({"l": pa.array([[1], [2], [3], [4], [10], [30]], DECIMAL_LISTS)})
    for drivers in (1, 2, 8):
        builder = qcore.PlanBuilder().source(
            WideningLists, schema=pa.schema({"l": INT_LISTS}), on_schema_change="evolve"
        )
        start = builder.build()
        working, right = WorkingTable("working", start.schema, "r"), qcore.PlanBuilder().values(other, id="o").build()
        pairs = HashJoin("pairs", both(working, right), working, right, "inner", ("l",), ("m",))
        again = Project("again", start.schema, pairs, (col("n"),))
        assert_same_rows(run(RecursiveUnion("loop", start.schema, "r", (start, again)), drivers, expected), expected)
