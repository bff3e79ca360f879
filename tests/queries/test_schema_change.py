"""A schema that changes between batches, in every operator: supported, or an error that is listed below (SPEC D6).

The oracle is DuckDB over batches that are cast to the widest schema. If the source declares the widest schema, every
operator must agree with the oracle. If it declares the first one, REFUSED lists the operators that raise a
SchemaChangeError. All others must agree with the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, PollPull, SchemaChangeError, col
from qcore.builder.aggregate_steps import agg
from qcore.expression.tree import call, lit
from qcore.functions.aggregates import aggregate_type
from qcore.plan import nodes as p
from qcore.plan.schema import aggregate_schema
from sweeps import every

ROWS = 300
BASE = pa.schema([("i", pa.int64()), ("k", pa.int32()), ("v", pa.int32()), ("s", pa.string())])
OTHER = pa.table({"o": pa.array([0, 1, 2, 2, 30, None], pa.int32()), "w": pa.array([5, 1, 2, 3, 4, 6], pa.int32())})


def change_type(name: str, first: pa.DataType, second: pa.DataType) -> tuple[pa.Schema, pa.Schema, pa.Schema]:
    """The first schema, the second and the widest one of a source whose column changes its type."""
    at = BASE.get_field_index(name)
    one, two = BASE.set(at, pa.field(name, first)), BASE.set(at, pa.field(name, second))
    return one, two, two


def without(name: str) -> pa.Schema:
    return BASE.remove(BASE.get_field_index(name))


EXTRA = BASE.append(pa.field("extra", pa.int16()))
CHANGES: dict[str, tuple[pa.Schema, pa.Schema, pa.Schema]] = {
    "add a column": (BASE, EXTRA, EXTRA),
    "drop a column": (BASE, without("s"), BASE),
    "reorder": (BASE, pa.schema([BASE.field(n) for n in ("s", "v", "i", "k")]), BASE),
    "widen an int": change_type("v", pa.int16(), pa.int64()),
    "widen a key": change_type("k", pa.int32(), pa.int64()),
    "widen a float": change_type("v", pa.float32(), pa.float64()),
    "int to decimal": change_type("v", pa.int32(), pa.decimal128(12, 2)),
    "key to decimal": change_type("k", pa.int32(), pa.decimal128(12, 2)),
    "wider decimal": change_type("v", pa.decimal128(9, 2), pa.decimal128(20, 4)),
    "null to int": change_type("v", pa.null(), pa.int64()),
    "null to a key": change_type("k", pa.null(), pa.int32()),
    "large string": change_type("s", pa.string(), pa.large_string()),
    "string view": change_type("s", pa.string(), pa.string_view()),
    "dictionary": change_type("s", pa.string(), pa.dictionary(pa.int8(), pa.string())),
}
CONFLICT = change_type("v", pa.int32(), pa.string())
# The changed column's types before and after, as in error messages.
TYPES = {
    "widen an int": ("v", "int16", "int64"),
    "widen a key": ("k", "int32", "int64"),
    "widen a float": ("v", "float", "double"),
    "int to decimal": ("v", "int32", r"decimal128\(12, 2\)"),
    "key to decimal": ("k", "int32", r"decimal128\(12, 2\)"),
    "wider decimal": ("v", r"decimal128\(9, 2\)", r"decimal128\(20, 4\)"),
    "null to int": ("v", "null", "int64"),
    "null to a key": ("k", "null", "int32"),
}


def rows_of(schema: pa.Schema, seed: int, n_rows: int = ROWS) -> pa.RecordBatch:
    """Rows whose values all of the types above hold exactly."""
    random = np.random.default_rng(seed)
    null = random.random(n_rows) < 0.1
    columns = {
        "i": pa.array(np.arange(n_rows) + seed * ROWS),
        "k": pa.array(random.integers(0, 12, n_rows), mask=null),
        "v": pa.array(random.integers(-40, 40, n_rows), mask=random.random(n_rows) < 0.1),
        "s": pa.array([("short", "a rather long string")[i % 2] + str(i % 7) for i in range(n_rows)]),
        "extra": pa.array(random.integers(0, 9, n_rows)),
    }
    arrays = []
    for field in schema:
        if pa.types.is_null(field.type):
            arrays.append(pa.nulls(n_rows))
        elif pa.types.is_dictionary(field.type):
            arrays.append(columns[field.name].dictionary_encode().cast(field.type))
        elif pa.types.is_string_view(field.type):
            arrays.append(pa.array(columns[field.name].to_pylist(), field.type))
        elif pa.types.is_string(field.type) and field.name != "s":
            arrays.append(columns[field.name].cast(pa.int64()).cast(field.type))
        elif pa.types.is_decimal(field.type):
            arrays.append(columns[field.name].cast(pa.int8()).cast(field.type))
        else:
            arrays.append(columns[field.name].cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Changing(qcore.SourceOperator):
    """Gives each partition batches of the first schema, the second and the first again."""

    def __init__(self, declared: pa.Schema, first: pa.Schema, second: pa.Schema, partitions: int, n_rows: int = ROWS):
        self.declared = declared
        self.partitions = partitions
        empty = [rows_of(schema, 0, 0) for schema in (second, first)]
        self.batches = [
            [
                rows_of(first, 3 * part, n_rows),
                rows_of(second, 3 * part + 1, n_rows),
                *empty,
                rows_of(first, 3 * part + 2, n_rows),
            ]
            for part in range(partitions)
        ]

    def output_schema(self, schema: None) -> pa.Schema:
        return self.declared

    def init_local_state(self, cx: Any, global_state: Any) -> Any:
        return iter(self.batches[cx.partition])

    def poll_pull(self, cx: Any, local: Any, global_state: Any, partition: int) -> PollPull:
        batch = next(local, None)
        return PollPull.EXHAUSTED if batch is None else PollPull.batch(batch)

    def up_front(self, widest: pa.Schema) -> pa.Table:
        """The oracle's input: all batches cast to the widest schema."""
        tables = []
        for batch in (batch for part in self.batches for batch in part):
            columns = []
            for field in widest:
                at = batch.schema.get_field_index(field.name)
                type = pa.string() if field.name == "s" else field.type
                columns.append(pa.nulls(len(batch), type) if at < 0 else plain(batch.column(at)).cast(type))
            tables.append(pa.table(columns, names=widest.names))
        return pa.concat_tables(tables)


def plain(column: pa.Array) -> pa.Array:
    """The table with texts of every layout as strings, because pyarrow casts few layouts into each other."""
    is_text = pa.types.is_dictionary(column.type) or pa.types.is_string_view(column.type)
    return pa.array(column.to_pylist(), pa.string()) if is_text else column


class Passing(qcore.Operator):
    """V5: passes batches on."""

    held: Any = None

    def needs_input(self) -> bool:
        return self.held is None and not self.is_finishing()

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held = batch

    def get_output(self) -> pa.RecordBatch | None:
        given, self.held = self.held, None
        return given


class Same(qcore.StatelessOperator):
    """G4: passes batches on."""

    def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


class Iterating(qcore.BatchIterator):
    """D2: passes batches on."""

    def next(self) -> Any:
        outcome = self.child.next()
        self.batch = self.child.batch
        return outcome


Build = Callable[[PlanBuilder], PlanBuilder | p.PlanNode]
AGGREGATES = {"n": ("count",), "c": ("count", "v"), "t": ("sum", "v"), "lo": ("min", "v"), "hi": ("max", "v")}
AGGREGATED = "count(*) n, count(v) c, sum(v) t, min(v) lo, max(v) hi"


def grouping_sets(rows: PlanBuilder) -> p.PlanNode:
    child = rows.build()
    keys = (("k", col("k")), ("s", col("s")))
    calls = (p.AggregateCall("n", "count"), p.AggregateCall("hi", "max", (col("s"),)))
    return p.Aggregate("sets", aggregate_schema(keys, calls, child.schema), child, keys, calls, ((0,), (1,), ()))


def add_window(*calls: tuple[str, str, str | None, pa.DataType | None]) -> Build:
    """A window over k by i, with these calls: name, function, argument, type (None: the argument's)."""

    def build(rows: PlanBuilder) -> p.PlanNode:
        child = rows.build()
        schema = child.schema
        made = []
        for name, function, argument, type in calls:
            if type is None:
                assert argument is not None
                type = child.schema.field(argument).type
            elif function == "sum":
                type = aggregate_type("sum", [child.schema.field("v").type])
            elif function == "array_agg":
                type = aggregate_type("array_agg", [child.schema.field("v").type])
            schema = schema.append(pa.field(name, type))
            frame = p.WindowFrame("rows", None, 0)
            made.append(p.WindowCall(name, function, argument, 1, frame))
        return p.Window("window", schema, child, ("k",), (p.SortKey("i"),), tuple(made))

    return build


def other() -> PlanBuilder:
    return PlanBuilder().values(OTHER)


def probing(how: str, **more: Any) -> Build:
    return lambda rows: rows.hash_join(other(), left_on=["k"], right_on=["o"], how=how, **more)


def building(how: str, **more: Any) -> Build:
    return lambda rows: other().hash_join(rows, left_on=["o"], right_on=["k"], how=how, **more)


SIDES = "t.*, o.*"
PROBES = {
    "inner": f"select {SIDES} from t join o on k = o",
    "left": f"select {SIDES} from t left join o on k = o",
    "right": f"select {SIDES} from t right join o on k = o",
    "full": f"select {SIDES} from t full join o on k = o",
    "left_semi": "select t.* from t where k in (select o from o)",
    "left_anti": "select t.* from t where not exists (select 1 from o where o = k)",
}
BUILDS = {
    "inner": f"select {SIDES} from o join t on k = o",
    "left": f"select {SIDES} from o left join t on k = o",
    "right": f"select {SIDES} from o right join t on k = o",
    "full": f"select {SIDES} from o full join t on k = o",
    "left_semi": "select o, w from o where o in (select k from t)",
    "left_anti": "select o, w from o where not exists (select 1 from t where o = k)",
}
# By operator: the plan over the changing source, and the SQL of the same over the table `t` cast up front.
OPERATORS: dict[str, tuple[Build, str]] = {
    "source": (lambda rows: rows, "select * from t"),
    "Filter": (lambda rows: rows.filter(col("v") > 3), "select * from t where v > 3"),
    "Project": (lambda rows: rows.project({"v": col("v"), "i": col("i")}), "select v, i from t"),
    "computing Project": (lambda rows: rows.project({"i": col("i"), "x": col("v") * 2}), "select i, v * 2 x from t"),
    "rounding Project": (
        lambda rows: rows.project({"i": col("i"), "x": col("v") + col("v")}),
        "select i, v + v x from t",
    ),
    "Limit": (lambda rows: rows.limit(10**9), "select * from t"),
    "LocalPartition, hash": (lambda rows: rows.local_partition(["k"]), "select * from t"),
    "LocalPartition, round robin": (lambda rows: rows.local_partition(kind="round_robin"), "select * from t"),
    "LocalPartition, gather": (lambda rows: rows.local_partition(kind="gather"), "select * from t"),
    "UnionAll": (lambda rows: rows.union_all(rows), "select * from t union all select * from t"),
    "Aggregation": (
        lambda rows: rows.aggregate(keys=["k"], aggs=AGGREGATES),
        f"select k, {AGGREGATED} from t group by k",
    ),
    "Aggregation of all rows": (lambda rows: rows.aggregate(aggs=AGGREGATES), f"select {AGGREGATED} from t"),
    "distinct Aggregation": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"d": agg("count", "v", distinct=True)}),
        "select k, count(distinct v) d from t group by k",
    ),
    "GroupingSets": (
        grouping_sets,
        "select k, s, count(*) n, max(s) hi from t group by grouping sets (k, s, ())",
    ),
    "OrderBy": (lambda rows: rows.order_by(["k desc", "i"]), "select * from t order by k desc nulls last, i"),
    "OrderBy of v": (lambda rows: rows.order_by(["v", "i"]), "select * from t order by v nulls last, i"),
    "TopN": (lambda rows: rows.top_n(["v desc", "i"], 700), "select * from t order by v desc nulls last, i limit 700"),
    "Window": (
        add_window(("r", "row_number", None, pa.int64()), ("l", "lag", "v", None)),
        "select *, row_number() over p r, lag(v) over p l from t window p as (partition by k order by i)",
    ),
    "Window with a sum": (
        add_window(("q", "sum", "v", pa.int64())),
        "select *, sum(v) over (partition by k order by i) q from t",
    ),
    "NestedLoopJoin, probe": (
        lambda rows: rows.nested_loop_join(other(), condition=col("v") < col("w"), how="left"),
        f"select {SIDES} from t left join o on v < w",
    ),
    "NestedLoopJoin, build": (
        lambda rows: other().nested_loop_join(rows, condition=col("v") < col("w"), how="left"),
        f"select {SIDES} from o left join t on v < w",
    ),
    "HashProbe, condition": (
        probing("left", condition=col("v") < col("w")),
        f"select {SIDES} from t left join o on k = o and v < w",
    ),
    "Operator in Python": (lambda rows: rows.operator(Passing), "select * from t"),
    "StatelessOperator in Python": (lambda rows: rows.operator(Same), "select * from t"),
    "BatchIterator in Python": (lambda rows: rows.operator(Iterating), "select * from t"),
    **{f"HashProbe, {how}": (probing(how), sql) for how, sql in PROBES.items()},
    **{f"HashBuild, {how}": (building(how), sql) for how, sql in BUILDS.items()},
}  # fmt: skip

V_CHANGES = {"widen an int", "widen a float", "int to decimal", "wider decimal", "null to int"}
K_CHANGES = {"widen a key", "key to decimal", "null to a key"}
# If the source declares the first schema only: by operator, the unsupported changes and the name in the error.
REFUSED: dict[str, tuple[str, set[str]]] = {
    # Sums of float32 are rounded to float32.
    "rounding Project": ("Project", {"widen a float"}),
}


def run(plan: PlanBuilder | p.PlanNode, drivers: int) -> pa.Table:
    """The rows of a task under the schema of its last batch. Columns that came later are null in rows before."""
    node = plan.build() if isinstance(plan, PlanBuilder) else plan
    batches = list(qcore.Task(node, drivers=drivers, batch_rows=1000).batches(timeout=60))
    tables = [pa.Table.from_batches([batch]) for batch in batches] or [node.schema.empty_table()]
    return pa.concat_tables(tables, promote_options="permissive")


@pytest.fixture(scope="module", autouse=True)
def duckdb_session() -> Iterator[None]:
    """One DuckDB for all tests, because it takes longer to open than to answer."""
    global connection
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("o", OTHER)
        yield


connection: duckdb.DuckDBPyConnection


def oracle(sql: str, rows: pa.Table) -> pa.Table:
    connection.register("t", rows)
    return connection.sql(sql).to_arrow_table()


def check(operator: str, source: Changing, widest: pa.Schema, drivers: int) -> None:
    build, sql = OPERATORS[operator]
    plan = build(PlanBuilder().source(source, on_schema_change="evolve"))
    expected = oracle(sql, source.up_front(widest))
    if operator.startswith(("Hash", "NestedLoop")):
        # A join returns the columns that its plan names, so an added column is dropped.
        expected = expected.select(
            [name for name in expected.column_names if name in (*source.declared.names, "o", "w")]
        )
    actual = run(plan, drivers)
    assert set(actual.column_names) == set(expected.column_names)
    is_sorted = drivers == 1 and ("OrderBy" in operator or operator == "TopN")
    assert_same_rows(actual.select(expected.column_names), expected, ordered=is_sorted)


# The number of drivers alternates, so that each operator has each kind of change with one or several drivers. Kinds of
# joins divide the changes among them.
CASES = [
    (operator, change, 1 + 2 * ((i + j) % 2))
    for i, operator in enumerate(OPERATORS)
    for j, change in enumerate(CHANGES)
    if not operator.startswith("Hash") or (i + j // 2) % 2 == 0
]


@pytest.mark.parametrize(("operator", "change", "drivers"), CASES[: len(CHANGES)] + CASES[len(CHANGES) :: 5])
def test_schemas_within_the_declared_one_are_carried(operator: str, change: str, drivers: int) -> None:
    """D6: rows of narrower schemas than declared are widened at the source; no operator sees a change."""
    first, second, widest = CHANGES[change]
    check(operator, Changing(widest, first, second, 4 - drivers), widest, 4 - drivers)


@pytest.mark.parametrize(("operator", "change", "drivers"), every(5, CASES))
def test_schemas_wider_than_the_declared_one(operator: str, change: str, drivers: int) -> None:
    """D6: every operator gives the right rows if the schema widens between batches, or refuses it as in REFUSED."""
    first, second, widest = CHANGES[change]
    source = Changing(first, first, second, drivers)
    name, refused = REFUSED.get(operator, ("", set()))
    if change not in refused:
        check(operator, source, widest, drivers)
        return
    column, old, new = TYPES[change]
    message = rf"({name}) \(node \w+\): (?=[\s\S]*'{column}')(?=[\s\S]*{old})(?=[\s\S]*{new})"
    with pytest.raises(SchemaChangeError, match=message):
        check(operator, source, widest, drivers)


@pytest.mark.parametrize("operator", OPERATORS)
def test_types_in_conflict_are_refused(operator: str) -> None:
    """D6: no type holds integers and text."""
    drivers = 3
    first, second, _ = CONFLICT
    plan = OPERATORS[operator][0](
        PlanBuilder().source(Changing(first, first, second, drivers), on_schema_change="evolve")
    )
    with pytest.raises(SchemaChangeError, match=r"Changing \(node \d+\): column 'v' changed from int32 to string"):
        run(plan, drivers)


def unnest_rows(rows: PlanBuilder) -> PlanBuilder:
    columns = {name: col(name) for name in BASE.names}
    return rows.project({**columns, "e": call("string_split", col("s"), lit(" "))}).unnest("e")


def recursion(rows: PlanBuilder) -> p.PlanNode:
    start = rows.build()
    working = p.WorkingTable("working", start.schema, "r")
    again = p.Filter("few", start.schema, working, col("i") < 0)
    return p.RecursiveUnion("loop", start.schema, "r", (start, again), True)


def single_row(rows: PlanBuilder) -> p.PlanNode:
    child = rows.aggregate(aggs=AGGREGATES).build()
    return p.EnforceSingleRow("single", child.schema, child)


def share_rows(rows: PlanBuilder) -> p.PlanNode:
    child = rows.build()
    first = p.Shared("shared", child.schema, child)
    again = p.SharedRead("again", child.schema, "shared", tuple(child.schema.names), child)
    return p.UnionAll("both", child.schema, (first, again))


def add_aggregate(function: str) -> Build:
    return lambda rows: rows.aggregate(keys=["k"], aggs={"x": (function, "v")})


# Plans that the tables above lack.
MORE: dict[str, tuple[Build, str]] = {
    "Unnest": (unnest_rows, "select *, unnest(string_split(s, ' ')) e from t"),
    "RecursiveUnion": (recursion, "select distinct * from t"),
    "EnforceSingleRow": (single_row, f"select {AGGREGATED} from t"),
    "Shared": (share_rows, "select * from t union all select * from t"),
    "LocalPartition by v": (lambda rows: rows.local_partition(["v"]), "select * from t"),
    "Aggregation by v": (
        lambda rows: rows.aggregate(keys=["v"], aggs={"n": ("count",)}),
        "select v, count(*) n from t group by v",
    ),
    "HashProbe of v": (
        lambda rows: rows.hash_join(other(), left_on=["v"], right_on=["w"], how="left"),
        f"select {SIDES} from t left join o on v = w",
    ),
    "HashBuild of v": (
        lambda rows: other().hash_join(rows, left_on=["w"], right_on=["v"], how="full"),
        f"select {SIDES} from o full join t on v = w",
    ),
    "TopN of v": (lambda rows: rows.top_n(["v", "i"], 500), "select * from t order by v nulls last, i limit 500"),
    "median": (add_aggregate("median"), "select k, median(v) x from t group by k"),
    "avg": (add_aggregate("avg"), "select k, avg(v) x from t group by k"),
    "stddev_samp": (add_aggregate("stddev_samp"), "select k, stddev_samp(v) x from t group by k"),
    "bit_or": (add_aggregate("bit_or"), "select k, bit_or(v) x from t group by k"),
    "array_agg": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"x": agg("array_agg", "v", order_by=["i"])}),
        "select k, array_agg(v order by i) x from t group by k",
    ),
    "Window with array_agg": (
        add_window(("q", "array_agg", "v", pa.list_(pa.null()))),
        "select *, array_agg(v) over (partition by k order by i rows unbounded preceding) q from t",
    ),
    "division": (
        lambda rows: rows.project({"i": col("i"), "x": col("v") / 2}),
        "select i, case when typeof(v) in ('INTEGER', 'BIGINT') then v // 2 else v / 2 end x from t",
    ),
    **{
        name: (
            lambda rows, method=name: getattr(rows, method)(rows.filter(col("i") % 3 != 0)),
            f"select * from t {name.rstrip('_')} select * from t where i % 3 <> 0",
        )
        for name in ("intersect", "except_")
    },
}  # fmt: skip
WIDENINGS = {
    "integer": change_type("v", pa.int32(), pa.int64()),
    "integer to decimal": change_type("v", pa.int32(), pa.decimal128(12, 2)),
    "float": change_type("v", pa.float32(), pa.float64()),
    "null to integer": change_type("v", pa.null(), pa.int64()),
    "null to decimal": change_type("v", pa.null(), pa.decimal128(12, 2)),
    "null to double": change_type("v", pa.null(), pa.float64()),
    "large text": change_type("s", pa.string(), pa.large_string()),
    "text views": change_type("s", pa.string(), pa.string_view()),
    "dictionary": change_type("s", pa.string(), pa.dictionary(pa.int8(), pa.string())),
}
# By operator: the widenings that are refused, or the plan before it runs. docs/ARCHITECTURE.md says why.
NOT_CARRIED = {
    "rounding Project": {"float"},
    "division": {"integer to decimal"},
    "bit_or": {"integer to decimal", "float", "null to integer", "null to decimal", "null to double"},
}


@pytest.mark.each_value
@pytest.mark.parametrize("operator", every(6, [*OPERATORS, *MORE]))
@pytest.mark.parametrize("drivers", [1, 2, 8])
def test_every_operator_and_every_widening(operator: str, drivers: int) -> None:
    """D6: only the listed combinations are refused."""
    build, sql = {**OPERATORS, **MORE}[operator]
    for name, (first, second, widest) in WIDENINGS.items():
        source = Changing(first, first, second, drivers, 40)
        rows = PlanBuilder().source(source, on_schema_change="evolve")
        if name in NOT_CARRIED.get(operator, ()):
            with pytest.raises((SchemaChangeError, qcore.PlanError)):
                run(build(rows), drivers)
            continue
        expected = oracle(sql, source.up_front(widest))
        actual = run(build(rows), drivers)
        assert_same_rows(actual.select(expected.column_names), expected)


LISTS = {
    "integers": (pa.list_(pa.int32()), pa.list_(pa.int64())),
    "integers to decimals": (pa.list_(pa.int32()), pa.list_(pa.decimal128(12, 2))),
    "floats": (pa.list_(pa.float32()), pa.list_(pa.float64())),
    "nulls to integers": (pa.list_(pa.null()), pa.list_(pa.int64())),
    "lists of integers": (pa.list_(pa.list_(pa.int32())), pa.list_(pa.list_(pa.int64()))),
}


class ChangingLists(Changing):
    """The column `v` has lists. If their first type is null they have no elements."""

    def __init__(self, first: pa.DataType, second: pa.DataType, partitions: int) -> None:
        self.declared = change_type("v", first, second)[0]
        self.partitions = partitions
        self.batches = [
            [self.lists(3 * part + at, type, n) for at, type, n in ((0, first, 40), (1, second, 40), (0, second, 0))]
            + [self.lists(3 * part + 2, first, 40)]
            for part in range(partitions)
        ]

    def lists(self, seed: int, type: pa.DataType, n: int) -> pa.RecordBatch:
        rows = rows_of(BASE, seed, n)
        lists: list[Any] = []
        for i, v in enumerate(rows.column("v").to_pylist()):
            values = [None if pa.types.is_null(type.value_type) else v, None][: i % 4]
            is_deep = pa.types.is_list(type.value_type)
            lists.append(None if i % 7 == 0 else [[x, 1] if is_deep and x is not None else x for x in values])
        return rows.set_column(rows.schema.get_field_index("v"), "v", pa.array(lists, type))

    def up_front(self, widest: pa.Schema) -> pa.Table:
        batches = [batch for part in self.batches for batch in part]
        return pa.Table.from_pylist([row for batch in batches for row in batch.to_pylist()], widest)


LIST_OPERATORS = {
    **{
        name: OPERATORS[name]
        for name in (
            "source", "Project", "Limit", "LocalPartition, hash", "LocalPartition, gather", "UnionAll", "OrderBy",
            "Operator in Python", "StatelessOperator in Python", "BatchIterator in Python", "HashProbe, left",
            "HashProbe, full", "HashBuild, full", "HashBuild, inner", "HashBuild, left_semi",
        )
    },
    "Filter": (lambda rows: rows.filter(col("k") > 3), "select * from t where k > 3"),
    "TopN": (lambda rows: rows.top_n(["i"], 70), "select * from t order by i limit 70"),
    "NestedLoopJoin": (
        lambda rows: other().nested_loop_join(rows, condition=col("k") < col("w"), how="left"),
        f"select {SIDES} from o left join t on k < w",
    ),
    "Unnest": (lambda rows: rows.unnest("v"), "select i, k, unnest(v) v, s from t"),
    "count": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"n": ("count", "v")}),
        "select k, count(v) n from t group by k",
    ),
}  # fmt: skip


def window_by_lists(rows: PlanBuilder) -> p.PlanNode:
    child = rows.build()
    frame = p.WindowFrame("rows", None, 0)
    calls = (p.WindowCall("r", "row_number", None, 1, frame), p.WindowCall("x", "max", "v", 1, frame))
    schema = pa.schema([*child.schema, ("r", pa.int64()), ("x", child.schema.field("v").type)])
    return p.Window("window", schema, child, ("v",), (p.SortKey("i"),), calls)


# Operators compare and keep lists as bytes.
LIST_KEYS: dict[str, tuple[Build, str]] = {
    "key": (lambda rows: rows.aggregate(keys=["v"], aggs={"n": ("count",)}), "select v, count(*) n from t group by v"),
    "two keys": (
        lambda rows: rows.aggregate(keys=["v", "k"], aggs={"n": ("count",), "t": ("sum", "i")}),
        "select v, k, count(*) n, sum(i) t from t group by v, k",
    ),
    "min and max": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"x": ("min", "v"), "y": ("max", "v")}),
        "select k, min(v) x, max(v) y from t group by k",
    ),
    "min and max of all rows": (
        lambda rows: rows.aggregate(aggs={"x": ("min", "v"), "y": ("max", "v")}),
        "select min(v) x, max(v) y from t",
    ),
    "distinct count": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"n": agg("count", "v", distinct=True)}),
        "select k, count(distinct v) n from t group by k",
    ),
    "array_agg": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"x": agg("array_agg", "v", order_by=["i"])}),
        "select k, array_agg(v order by i) x from t group by k",
    ),
    "distinct array_agg": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"x": agg("array_agg", "v", order_by=["v"], distinct=True)}),
        "select k, array_agg(distinct v order by v nulls last) x from t group by k",
    ),
    "first": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"x": agg("first", "v", order_by=["i"])}),
        "select k, first(v order by i) x from t group by k",
    ),
    "order of array_agg": (
        lambda rows: rows.aggregate(keys=["k"], aggs={"x": agg("array_agg", "i", order_by=["v", "i"])}),
        "select k, array_agg(i order by v nulls last, i) x from t group by k",
    ),
    "OrderBy": (lambda rows: rows.order_by(["v", "i"]), "select * from t order by v nulls last, i"),
    "TopN of v": (
        lambda rows: rows.top_n(["v desc", "i"], 50),
        "select * from t order by v desc nulls last, i limit 50",
    ),
    "HashJoin": (
        lambda rows: rows.hash_join(rows, left_on=["v"], right_on=["v"], how="left_semi"),
        "select * from t where v is not null",
    ),
    "HashJoin of two": (
        lambda rows: rows.hash_join(
            rows.project({"x": col("v"), "j": col("i")}).filter(col("j") % 5 == 0),
            left_on=["v"],
            right_on=["x"],
            how="full",
        ),
        "select t.*, o.v x, o.i j from t full join (select * from t where i % 5 = 0) o on t.v = o.v",
    ),
    "Window": (
        add_window(("r", "row_number", None, pa.int64())),
        "select *, row_number() over (partition by k order by i) r from t",
    ),
    "Window by v": (
        window_by_lists,
        "select *, row_number() over p r, max(v) over p x from t window p as (partition by v order by i)",
    ),
    "Window of lists": (
        add_window(("l", "lag", "v", None), ("m", "min", "v", None), ("f", "first_value", "v", None)),
        "select *, lag(v) over p l, min(v) over p m, first_value(v) over p f from t "
        "window p as (partition by k order by i rows unbounded preceding)",
    ),
    "LocalPartition by v": MORE["LocalPartition by v"],
    "intersect": MORE["intersect"],
    "except_": MORE["except_"],
}  # fmt: skip
LIST_FUNCTIONS: dict[str, tuple[Build, str]] = {
    "length": (lambda rows: rows.project({"i": col("i"), "n": call("len", col("v"))}), "select i, len(v) n from t"),
    "element": (
        lambda rows: rows.project({"i": col("i"), "x": call("list_extract", col("v"), lit(1))}),
        "select i, v[1] x from t",
    ),
    "slice": (
        lambda rows: rows.project({"i": col("i"), "x": call("list_slice", col("v"), lit(1), lit(2))}),
        "select i, v[1:2] x from t",
    ),
    "reverse": (
        lambda rows: rows.project({"i": col("i"), "x": call("list_reverse", col("v"))}),
        "select i, list_reverse(v) x from t",
    ),
    "equal": (lambda rows: rows.filter(col("v") == col("v")), "select * from t where v = v"),
}
# Functions that show the type of the elements.
LISTS_REFUSED: dict[str, Build] = {
    "text": lambda rows: rows.project({"x": call("array_to_string", col("v"), lit(","))}),
    "struct": lambda rows: rows.project({"x": call("row", col("v"))}),
}


@pytest.mark.each_value
@pytest.mark.parametrize("operator", every(6, [*LIST_OPERATORS, *LIST_KEYS, *LIST_FUNCTIONS]))
@pytest.mark.parametrize("drivers", [1, 2, 8])
def test_lists_of_wider_elements(operator: str, drivers: int) -> None:
    """D6: operators that pass lists on, compare, keep or unnest them carry the change."""
    build, sql = {**LIST_OPERATORS, **LIST_KEYS, **LIST_FUNCTIONS}[operator]
    for first, second in LISTS.values():
        source = ChangingLists(first, second, drivers)
        expected = oracle(sql, source.up_front(change_type("v", first, second)[1]))
        actual = run(build(PlanBuilder().source(source, on_schema_change="evolve")), drivers)
        assert_same_rows(actual.select(expected.column_names), expected)


@pytest.mark.parametrize("operator", LISTS_REFUSED)
@pytest.mark.parametrize("change", ["integers to decimals", "floats"])
def test_functions_that_show_types_refuse_wider_elements(operator: str, change: str) -> None:
    source = ChangingLists(*LISTS[change], 1)
    with pytest.raises(SchemaChangeError, match=r"column 'v(_1)?' changed from list<.* to list<"):
        run(LISTS_REFUSED[operator](PlanBuilder().source(source, on_schema_change="evolve")), 1)


NESTED: dict[str, pa.DataType] = {
    "list": pa.list_(pa.int32()),
    "struct": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "map": pa.map_(pa.string(), pa.int32()),
}


def nested_value(kind: str, i: int) -> Any:
    if i % 7 == 0:
        return None
    if kind == "list":
        return [i, None][: i % 3]
    return {"x": i, "y": None if i % 3 else f"s{i}"} if kind == "struct" else [(f"k{j}", i) for j in range(i % 3)]


class ChangingNested(Changing):
    """A column `extra` of a nested type is added between batches. With `was_null` it had the null type before."""

    def __init__(self, type: pa.DataType, kind: str, was_null: bool, partitions: int) -> None:
        super().__init__(BASE, BASE, BASE, partitions, 40)
        self.declared = BASE.append(pa.field("extra", pa.null())) if was_null else BASE
        for part in self.batches:
            for at, batch in enumerate(part):
                if at in (1, 2):
                    values = pa.array([nested_value(kind, i) for i in range(len(batch))], type)
                    part[at] = batch.append_column("extra", values)
                elif was_null:
                    part[at] = batch.append_column("extra", pa.nulls(len(batch)))

    def up_front(self, widest: pa.Schema) -> pa.Table:
        batches = [batch for part in self.batches for batch in part]
        return pa.Table.from_pylist([row for batch in batches for row in batch.to_pylist()], widest)


# These return the columns that their plans name. A recursion does not compare nested rows.
NAME_COLUMNS = ("Hash", "NestedLoop", "RecursiveUnion", "intersect", "except_")


@pytest.mark.each_value
@pytest.mark.parametrize("operator", [*OPERATORS, *MORE])
@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("drivers", [1, 2, 8])
@pytest.mark.parametrize("was_null", [True, False])
def test_nested_columns_that_are_new(operator: str, kind: str, drivers: int, was_null: bool) -> None:
    """D6: earlier rows have nulls in a new column of lists, structs or maps."""
    build, sql = {**OPERATORS, **MORE}[operator]
    source = ChangingNested(NESTED[kind], kind, was_null, drivers)
    plan = build(PlanBuilder().source(source, on_schema_change="evolve"))
    if operator == "RecursiveUnion" and was_null:
        with pytest.raises(qcore.PlanError, match="a recursive UNION cannot compare rows with the nested column"):
            run(plan, drivers)
        return
    expected = oracle(sql, source.up_front(BASE.append(pa.field("extra", NESTED[kind]))))
    if operator == "Unnest" or (not was_null and operator.startswith(NAME_COLUMNS)):
        expected = expected.select([name for name in expected.column_names if name != "extra"])
    actual = run(plan, drivers)
    assert set(actual.column_names) == set(expected.column_names)
    assert_same_rows(actual.select(expected.column_names), expected)


def test_types_that_a_window_cannot_collect_are_refused_by_name() -> None:
    """D6: array_agg over a window takes no lists, declared or not."""
    source = ChangingNested(NESTED["list"], "list", True, 1)
    build = add_window(("q", "array_agg", "extra", pa.list_(pa.null())))
    with pytest.raises(SchemaChangeError, match=r"'extra' changed from null to list<.*use GROUP BY"):
        run(build(PlanBuilder().source(source, on_schema_change="evolve")), 1)


def read_written(path: Path, how: str) -> list[pa.Table]:
    """Read the files of a write."""
    if how == "partitions":
        manifest = qcore.PartitionManifest.read(path)
        assert sum(manifest.rows) > 0
        return [pa.ipc.open_file(manifest.file(part)).read_all() for part in range(manifest.n_partitions)]
    return [pq.read_table(file) for file in ([path] if how == "file" else sorted(path.iterdir()))]


def write_files(rows: PlanBuilder, path: Path, how: str, drivers: int) -> list[pa.Table]:
    """Run a task that writes files, and return them. It leaves no other files beside them."""
    if how == "partitions":
        plan = rows.partitioned_output(["i"], 3, path=path).build()
    else:
        plan = rows.write_parquet(path, single=how == "file", row_group_rows=100).build()
    found = [row for batch in qcore.Task(plan, drivers=drivers).batches(timeout=60) for row in batch.to_pylist()]
    tables = read_written(path, how)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    if how != "partitions":
        assert [(row["rows"], row["bytes"]) for row in found] == [
            (len(table), Path(row["path"]).stat().st_size) for row, table in zip(found, tables, strict=True)
        ]
    return tables


NESTED_SOURCES: dict[str, Callable[[int], tuple[Changing, pa.Schema]]] = {
    **{
        f"lists: {name}": lambda drivers, types=types: (ChangingLists(*types, drivers), change_type("v", *types)[2])
        for name, types in LISTS.items()
    },
    **{
        f"new {kind}, was null: {was_null}": lambda drivers, kind=kind, was_null=was_null: (
            ChangingNested(NESTED[kind], kind, was_null, drivers), BASE.append(pa.field("extra", NESTED[kind])),
        )
        for kind in NESTED
        for was_null in (True, False)
    },
}  # fmt: skip


@pytest.mark.each_value
@pytest.mark.parametrize("change", [*CHANGES, *WIDENINGS, *NESTED_SOURCES])
@pytest.mark.parametrize("how", ["file", "folder", "partitions"])
@pytest.mark.parametrize("drivers", [1, 2, 8])
def test_written_files_have_the_widest_schema(change: str, how: str, drivers: int, tmp_path: Path) -> None:
    """D6, Q2: every file has the columns and types of the rows cast up front, and the rows of a driver in order."""
    if change in NESTED_SOURCES:
        source, widest = NESTED_SOURCES[change](drivers)
    else:
        first, second, widest = {**CHANGES, **WIDENINGS}[change]
        source = Changing(first, first, second, drivers)
    rows = PlanBuilder().source(source, on_schema_change="evolve")
    tables = write_files(rows, tmp_path / "out", how, drivers)
    expected = source.up_front(widest)
    for table in tables:
        assert table.schema.names == expected.schema.names
        for found, wanted in zip(table.schema, widest, strict=True):
            if found.name != "s":
                assert found.type.equals(wanted.type)
        assert table["s"].type in (pa.string(), pa.large_string())
    actual = pa.concat_tables(tables)
    assert_same_rows(actual.cast(expected.schema), expected)
    if drivers == 1 and how != "partitions":
        assert actual["i"].to_pylist() == expected["i"].to_pylist()


@pytest.mark.parametrize("how", ["file", "folder", "partitions"])
def test_written_types_in_conflict_are_refused(how: str, tmp_path: Path) -> None:
    """D6: the error names the column and both types, and no file is left."""
    source = Changing(CONFLICT[0], CONFLICT[0], CONFLICT[1], 1)
    rows = PlanBuilder().source(source, on_schema_change="evolve")
    with pytest.raises(SchemaChangeError, match="'v' changed from int32 to string"):
        write_files(rows, tmp_path / "out", how, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["file", "folder", "partitions"])
def test_a_wider_schema_without_rows_is_written(how: str, tmp_path: Path) -> None:
    """D6: the files have the last schema, also if no row had it."""
    source = Changing(BASE, BASE, EXTRA, 1)
    source.batches = [[rows_of(BASE, 0), rows_of(EXTRA, 0, 0)]]
    rows = PlanBuilder().source(source, on_schema_change="evolve")
    for table in write_files(rows, tmp_path / "out", how, 1):
        assert table.schema.names == EXTRA.names
