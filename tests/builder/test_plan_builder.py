"""PlanBuilder (SPEC Q1, D4): what it builds, and errors that name what, where and the remedy."""

from __future__ import annotations

import pyarrow as pa
import pytest

import qcore
from qcore.builder.aggregate_steps import agg
from qcore.builder.plan_builder import PlanBuilder
from qcore.errors import PlanError
from qcore.expression.tree import call, col, lit
from qcore.plan import nodes as p

LINES = pa.schema([("ok", pa.int64()), ("qty", pa.decimal128(15, 2)), ("day", pa.date32()), ("tag", pa.string())])
ORDERS = pa.schema([("o_ok", pa.int32()), ("o_day", pa.date32()), ("tag", pa.string())])
TABLES = {"lines": LINES, "orders": ORDERS}


def lines() -> PlanBuilder:
    return PlanBuilder(TABLES).scan("lines")


def orders() -> PlanBuilder:
    return PlanBuilder(TABLES).scan("orders")


def test_every_node_knows_its_schema() -> None:
    """SPEC D4."""
    plan = (
        lines()
        .filter(col("qty") > 3)
        .project({"x": col("qty") * 2, "k": col("tag")})
        .aggregate(["k"], {"s": ("sum", "x"), "n": ("count",), "a": ("avg", col("x") + 1)})
        .order_by(["s desc", "k asc nulls first"])
        .limit(10, offset=2)
        .build()
    )
    assert plan.schema.names == ["k", "s", "n", "a"]
    assert plan.schema.types == [pa.string(), pa.decimal128(38, 2), pa.int64(), pa.float64()]
    assert [type(node).__name__ for node in plan.walk()] == [
        "Limit", "OrderBy", "Aggregate", "Project", "Filter", "Scan",
    ]  # fmt: skip
    assert isinstance(plan, p.Limit) and (plan.count, plan.offset) == (10, 2)
    assert isinstance(plan.child, p.OrderBy)
    keys = [(key.column, key.descending, key.nulls_first) for key in plan.child.keys]
    assert keys == [("s", True, False), ("k", False, True)]


def test_scan_ids_are_table_names() -> None:
    """SPEC V3: splits are added to a node the user can name."""
    joined = lines().hash_join(lines().project({"r": "ok"}), "ok", "r").build()
    assert [node.id for node in joined.walk() if isinstance(node, p.Scan)] == ["lines", "lines_1"]
    ids = [node.id for node in joined.walk()]
    assert len(set(ids)) == len(ids)
    assert PlanBuilder(TABLES).scan("lines", id="mine").build().id == "mine"


def test_scan_reads_chosen_columns_in_order() -> None:
    scan = PlanBuilder().scan("t", columns=["day", "ok"], schema=LINES).build()
    assert isinstance(scan, p.Scan)
    assert (scan.columns, scan.schema.names, scan.source) == (("day", "ok"), ["day", "ok"], None)


def test_scan_takes_a_source() -> None:
    scan = PlanBuilder().scan("t", source=pa.table({"a": [1, 2]})).build()
    assert isinstance(scan, p.Scan)
    assert scan.schema == pa.schema([("a", pa.int64())])
    assert scan.source.statistics().row_count == 2


def test_builders_are_not_changed_by_steps() -> None:
    start = lines()
    start.filter(col("ok") > 1)
    assert isinstance(start.build(), p.Scan)


def test_aggregate_options() -> None:
    plan = lines().aggregate(
        [col("tag").alias("t")],
        {"d": agg("count", "ok", distinct=True), "f": agg("sum", "qty", filter=col("ok") > 1), "m": "max(day)"},
    )
    node = plan.build()
    assert isinstance(node, p.Aggregate)
    assert node.schema.names == ["t", "d", "f", "m"]
    assert [call.distinct for call in node.aggregates] == [True, False, False]
    assert repr(node.aggregates[1].filter) == "(ok > 1)"
    assert node.aggregates[2].function == "max"


def test_join_keys_of_different_types_meet_in_a_projection() -> None:
    """int64 = int32: the narrower key is converted below the join. The output columns do not change."""
    plan = lines().hash_join(orders(), "ok", "o_ok", suffix="_r").build()
    assert plan.schema.names == ["ok", "qty", "day", "tag", "o_ok", "o_day", "tag_r"]
    (join,) = [node for node in plan.walk() if isinstance(node, p.HashJoin)]
    pairs = zip(join.left_keys, join.right_keys, strict=True)
    assert all(join.left.schema.field(a).type == join.right.schema.field(b).type for a, b in pairs)


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("inner", ["a", "x", "b", "y"]),
        ("left", ["a", "x", "b", "y"]),
        ("full", ["a", "x", "b", "y"]),
        ("semi", ["a", "x"]),
        ("anti", ["a", "x"]),
        ("right_semi", ["b", "y"]),
        ("mark", ["a", "x", "mark"]),
    ],
)
def test_join_kinds_decide_the_output(how: str, names: list[str]) -> None:
    left = PlanBuilder().values(pa.table({"a": [1], "x": [2]}))
    right = PlanBuilder().values(pa.table({"b": [1], "y": [2]}))
    assert left.hash_join(right, "a", "b", how=how).build().schema.names == names
    assert left.nested_loop_join(right, col("a") < col("b"), how=how).build().schema.names == names


def test_semi_join_of_like_named_columns() -> None:
    plan = lines().hash_join(lines(), "ok", how="semi").build()
    assert plan.schema.names == LINES.names
    join = plan
    assert isinstance(join, p.HashJoin)
    assert not set(join.left.schema.names) & set(join.right.schema.names)


def test_union_and_partition_and_callback() -> None:
    plan = lines().union_all(lines(), lines()).local_partition(["ok"]).callback(print).build()
    assert isinstance(plan, p.CallbackSink)
    assert isinstance(plan.child, p.LocalPartition) and plan.child.kind == "hash"
    assert isinstance(plan.child.child, p.UnionAll) and len(plan.child.child.inputs) == 3
    ids = [node.id for node in plan.walk()]
    assert len(set(ids)) == len(ids)


def test_expression_text() -> None:
    plan = lines().project(["ok", "qty * 2 as twice", "extract(year from day) as y"]).filter("y >= 1995 and twice < 3")
    node = plan.build()
    assert node.schema.names == ["ok", "twice", "y"]
    assert isinstance(node, p.Filter)
    assert repr(node.predicate) == "((y >= 1995) and (twice < 3))"


ERRORS = {
    "unknown column in text": (lambda: lines().filter("qtty > 3"), "unknown column 'qtty'.*did you mean 'qty'"),
    "unknown column": (lambda: lines().filter(col("okk") > 3), "unknown column 'okk' in filter.*did you mean 'ok'"),
    "unknown plain name": (lambda: lines().project(["dya"]), r"unknown column 'dya' in project\(\).*'day'"),
    "unknown sort column": (lambda: lines().order_by("qy desc"), r"unknown column 'qy' in order_by\(\).*'qty'"),
    "unknown key": (lambda: lines().local_partition(["oky"]), r"unknown column 'oky' in local_partition"),
    "not boolean": (lambda: lines().filter(col("qty") + 1), r"filter\(\): .*decimal128.*not boolean"),
    "text against number": (
        lambda: lines().filter(col("day") > lit(True)),
        r"filter\(\).*nothing in common|not defined",
    ),
    "incompatible keys": (
        lambda: lines().hash_join(orders(), "ok", "tag", suffix="_r"),
        r"ok \(int64\) and tag_r \(string\) cannot be compared",
    ),
    "same names": (lambda: lines().hash_join(orders(), "ok", "o_ok"), "both inputs have a column 'tag'; give suffix"),
    "key counts": (lambda: lines().hash_join(orders(), ["ok", "day"], ["o_ok"]), "2 left keys and 1 right keys"),
    "kind of join": (lambda: lines().hash_join(orders(), "ok", "o_ok", how="lefft"), "did you mean 'left'"),
    "no schema": (lambda: PlanBuilder().scan("x"), "scan of 'x' needs schema=… or source=…"),
    "unknown table": (lambda: PlanBuilder(TABLES).scan("line"), r"unknown table 'line' in scan\(\).*'lines'"),
    "unknown aggregate": (lambda: lines().aggregate("tag", {"s": ("summ", "ok")}), "'s'.*unknown aggregate summ"),
    "aggregate of a date": (lambda: lines().aggregate("tag", {"s": ("sum", "day")}), "'s'.*sum.date32.*numbers"),
    "aggregate in filter": (lambda: lines().filter("sum(ok) > 3"), "is an aggregate; use aggregate"),
    "window": (lambda: lines().filter("row_number() over () > 3"), "not a single expression over the input.s columns"),
    "syntax": (lambda: lines().filter("ok +"), r"filter\(\): 'ok \+'"),
    "two names": (lambda: lines().project(["ok", "ok"]), r"two columns are named 'ok' in project\(\)"),
    "no name": (lambda: lines().project(col("ok") + 1), "needs a name"),
    "negative limit": (lambda: lines().limit(-1), "whole number of 0 or more, not -1"),
    "id twice": (
        lambda: PlanBuilder(TABLES).scan("lines", id="a").union_all(PlanBuilder(TABLES).scan("lines", id="a")),
        "both plans have a node with the id 'a'",
    ),
    "union of unlike": (lambda: lines().union_all(orders()), "input 2 has 3 columns, the first input 4"),
    "no input": (lambda: PlanBuilder().filter(col("a") > 1), "start with scan"),
    "second scan": (lambda: lines().scan("orders"), "starts a plan"),
    "after callback": (lambda: lines().callback(print).limit(1), "a sink ends the plan"),
    "values": (lambda: PlanBuilder().values([1, 2]), "takes Arrow data, not a list"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_what_where_and_the_remedy(case: str) -> None:
    make, message = ERRORS[case]
    with pytest.raises(PlanError, match=message):
        make()


STEPS = [
    lambda plan, deep: plan.project([deep.alias("x")]),
    lambda plan, deep: plan.filter(deep > 1),
    lambda plan, deep: plan.aggregate(keys=[], aggs={"s": ("sum", deep)}),
]


def deep_sum(levels):
    deep = col("a")
    for _ in range(levels):
        deep = deep + 1
    return deep


@pytest.mark.parametrize("step", STEPS)
def test_an_expression_of_many_levels(step):
    plan = step(PlanBuilder().values(pa.table({"a": [1]})), deep_sum(300)).build()
    assert list(qcore.Session(threads=1).execute(plan).to_arrow().to_pylist()[0].values()) in ([301], [1])


@pytest.mark.parametrize("levels", [20_000, 50_000])
@pytest.mark.parametrize("step", [*STEPS, lambda plan, deep: plan.project([deep])])
def test_an_expression_of_too_many_levels(levels, step):
    """Q1, V3: an error of qcore, and not Python's RecursionError."""
    with pytest.raises(PlanError, match=r"too deeply|levels needs a name|…"):
        step(PlanBuilder().values(pa.table({"a": [1]})), deep_sum(levels))


def test_functions_by_their_names_in_sql() -> None:
    """SPEC Q1, Q3: call() and aggregates accept the names of SQL functions."""
    plan = (
        lines()
        .project({"x": call("ucase", col("tag")), "y": call("if", col("ok") > 1, call("len", col("tag")), 0)})
        .aggregate([], {"n": ("count_if", col("y") > 1), "m": ("arg_max", "x", "y"), "d": ("stddev", "y")})
        .build()
    )
    aggregate = plan
    assert isinstance(aggregate, p.Aggregate)
    assert [made.function for made in aggregate.aggregates] == ["sum", "first", "stddev_samp"]
    project = aggregate.child
    assert isinstance(project, p.Project)
    assert repr(project.expressions[0]) == "upper(tag)"
    assert project.schema.types == [pa.string(), pa.int64()]
    with pytest.raises(PlanError, match=r"project.*unknown function 'uper'.*did you mean 'upper'"):
        lines().project({"x": call("uper", col("tag"))})
    with pytest.raises(PlanError, match="sem is computed from other aggregates"):
        lines().aggregate([], {"s": ("sem", "ok")})
