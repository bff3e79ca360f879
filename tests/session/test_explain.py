"""Plans as text (SPEC G7)."""

from __future__ import annotations

import pyarrow as pa

import qcore
from qcore.builder.aggregate_steps import agg
from qcore.builder.plan_builder import PlanBuilder
from qcore.expression.tree import col
from qcore.session.explain import describe, explain_plan

T = pa.schema([("k", pa.string()), ("x", pa.int64()), ("y", pa.int64())])


def builder() -> PlanBuilder:
    return PlanBuilder().scan("t", schema=T)


def test_tree_is_aligned_and_names_every_node() -> None:
    other = PlanBuilder().scan("u", schema=pa.schema([("z", pa.int64())])).filter(col("z") > 1)
    plan = builder().hash_join(other, "x", "z").aggregate(["k"], {"s": ("sum", "y")}).build()
    assert explain_plan(plan, lambda node: 1_234_567).splitlines() == [
        "plan                         id  estimated rows",
        "Aggregate by [k] s = sum(y)   2       1,234,567",
        "└─ HashJoin inner x = z       1       1,234,567",
        "   ├─ Scan t [k, x, y]        t       1,234,567",
        "   └─ Filter z > 1            0       1,234,567",
        "      └─ Scan u [z]           u       1,234,567",
    ]


def test_nodes_say_what_they_do() -> None:
    assert describe(builder().order_by(["x desc nulls first", "k"]).build()) == "OrderBy by x desc nulls first, k"
    assert describe(builder().top_n("x", 10, offset=2).build()) == "TopN 10 after 2 by x"
    assert describe(builder().limit(None, offset=5).build()) == "Limit all after 5"
    assert describe(builder().project({"a": col("x") + 1, "k": "k"}).build()) == "Project a = x + 1, k"
    counted = builder().aggregate([], {"n": ("count",), "d": agg("count", "x", distinct=True, filter=col("y") > 1)})
    assert describe(counted.build()) == "Aggregate n = count(*), d = count(distinct x) filter y > 1"
    assert describe(builder().local_partition(["k"]).build()) == "LocalPartition hash by [k]"
    assert describe(builder().local_partition(kind="gather").build()) == "LocalPartition gather"
    assert describe(builder().callback(print).build()) == "CallbackSink print"
    crossed = builder().nested_loop_join(PlanBuilder().values(pa.table({"v": [1, 2]})), col("x") < col("v"), how="left")
    assert describe(crossed.build()) == "NestedLoopJoin left x < v"
    assert describe(crossed.build().children[1]) == "Values 2 rows [v]"


def test_long_lines_are_cut() -> None:
    wide = pa.schema([(f"column_number_{i}", pa.int64()) for i in range(50)])
    text = describe(PlanBuilder().scan("t", schema=wide).build())
    assert len(text) < 120 and text.endswith("…")


def operator(node: str, rows: int, millis: float, blocked: float = 0) -> dict[str, object]:
    call = {"calls": 1, "wall_nanos": int(millis * 1e6), "cpu_nanos": 0}
    idle = {"calls": 0, "wall_nanos": 0, "cpu_nanos": 0}
    return {
        "name": "x", "node_id": node, "output_rows": rows, "input_rows": 0, "add_input": call, "get_output": idle,
        "finish": idle, "is_blocked": idle, "blocked_wall_nanos": {"join build": int(blocked * 1e6)},
    }  # fmt: skip


def test_stats_stand_beside_the_plan() -> None:
    plan = builder().filter(col("x") > 1).build()
    stats = {
        "pipelines": [
            {"operators": [operator("t", 5000, 1.5), operator("0", 100, 0.25, blocked=3), operator("result", 0, 0)]},
        ]
    }
    assert explain_plan(plan, stats=stats).splitlines() == [
        "plan                 id   rows    ms  blocked ms  pipelines",
        "Filter x > 1          0    100  0.25        3.00  0",
        "└─ Scan t [k, x, y]   t  5,000  1.50        0.00  0",
    ]


def test_pipelines_are_marked_as_they_will_run():
    """The numbers of a plan that has not run are those that it shows once it has (SPEC G7, Q1)."""
    session = qcore.Session(threads=2)
    session.register("t", pa.table({"i": range(100), "s": ["a"] * 100}))
    session.register("u", pa.table({"x": range(10)}))
    result = session.sql("select s, count(*) as n from t join u on i = x group by s order by n limit 3")

    def pipeline_columns(text):
        header, *lines = text.splitlines()
        return [line[header.index("pipelines") :] for line in lines if not line.startswith("plan cache")]

    before = pipeline_columns(result.explain())
    assert before == pipeline_columns(result.explain(analyze=True))
    assert before[0] and len(set(before)) > 2
