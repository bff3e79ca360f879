"""How plans become pipelines of operators (SPEC V1, V2, V4, V15)."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa
import pytest

import qcore
from operator_plans import CASES, LEFT, RIGHT
from qcore import PlanBuilder, col
from qcore.config import Settings
from qcore.errors import PlanError
from qcore.lowering.lowered import LoweredPlan, Run
from qcore.lowering.pipelines import Lowering, join_output
from qcore.plan.nodes import HashJoin, PlanNode
from qcore.session.explain import explain_plan
from qcore_ext.execution.task import Task
from qcore_ext.ground.memory import live_counts


def open_last(*of: Any) -> Any:
    return of[-1]


def begin_run(plan: LoweredPlan, **settings: Any) -> Run:
    return Run(plan, Settings.make(plan.threads, **settings), open_last, open_last)


def lower_plan(plan: PlanNode, drivers: int) -> LoweredPlan:
    return Lowering(drivers).finish(plan)


def scan(name: str, schema: pa.Schema = LEFT) -> PlanBuilder:
    return PlanBuilder().scan(name, schema=schema, id=name)


def shape(plan: PlanNode, drivers: int = 3) -> list[tuple[int, list[str]]]:
    """(drivers, names of operators) of each pipeline."""
    made = lower_plan(plan, drivers)
    run = begin_run(made)
    return [(line.drivers, [step.name for step in run.chains(line)[0]]) for line in made.pipelines]


def test_v1_a_chain_is_one_pipeline() -> None:
    """V1: a node with one input does not cut the plan."""
    plan = scan("l").filter(col("v") > 0).project(["a"]).limit(3).build()
    assert shape(plan) == [(3, ["TableScan", "Filter", "Project", "Limit", "ResultSink"])]


def test_v1_v15_the_tree_is_cut_at_all_but_one_child() -> None:
    """V1, V15: left-deep and bushy joins. Each build side ends its own pipeline."""
    names = {"k": col("k"), "w": col("w")}

    def small(name: str) -> PlanBuilder:
        renamed = {of: expr.alias(f"{name}_{of}") for of, expr in names.items()}
        return scan(name, RIGHT).project(list(renamed.values()))

    bushy = small("c").hash_join(small("d"), ["c_k"], ["d_k"])
    plan = scan("a").hash_join(small("b"), ["a"], ["b_k"]).hash_join(bushy, ["a"], ["c_k"]).build()
    assert shape(plan) == [
        (3, ["TableScan", "Project", "HashBuild"]),  # d
        (3, ["TableScan", "Project", "HashBuild"]),  # b
        (3, ["TableScan", "Project", "HashProbe", "HashBuild"]),  # c
        (3, ["TableScan", "HashProbe", "HashProbe", "ResultSink"]),  # a
    ]


def test_v1_a_union_cuts_every_input() -> None:
    """V1: all inputs write to one exchange."""
    plan = scan("a").union_all(scan("b"), PlanBuilder().values(LEFT.empty_table())).build()
    assert shape(plan, 2) == [
        (2, ["TableScan", "LocalPartition"]),
        (2, ["TableScan", "LocalPartition"]),
        (1, ["TableScan", "LocalPartition"]),
        (2, ["LocalExchange", "ResultSink"]),
    ]


@pytest.mark.parametrize(("kind", "above"), [("hash", 5), ("round_robin", 5), ("gather", 1)])
def test_v2_an_exchange_has_other_numbers_of_drivers_on_its_sides(kind: str, above: int) -> None:
    """V2: hash, round robin and gather."""
    keys = ["a"] if kind == "hash" else []
    plan = scan("l").local_partition(keys, kind=kind, drivers=5).filter(col("v") > 0).build()
    assert shape(plan, 2) == [
        (2, ["TableScan", "LocalPartition"]),
        (above, ["LocalExchange", "Filter", "ResultSink"]),
    ]


@pytest.mark.parametrize("name", CASES)
def test_v4_every_driver_has_instances_of_its_own(name: str) -> None:
    """V4: no operator is in two chains. All chains of a pipeline have the same steps."""
    plan = CASES[name].build(scan("l"), PlanBuilder({"r": RIGHT}).scan("r")).build()
    operators: list[Any] = []
    made = lower_plan(plan, 3)
    run = begin_run(made)
    for pipeline in made.pipelines:
        chains = run.chains(pipeline)
        assert len(chains) == pipeline.drivers
        assert len({tuple((step.name, step.node_id) for step in chain) for chain in chains}) == 1
        assert [step.node_id for step in chains[0]] == pipeline.node_ids
        operators += [step for chain in chains for step in chain]
    assert len(set(map(id, operators))) == len(operators)


@pytest.mark.parametrize("name", CASES)
def test_g7_every_node_and_operator_explains_itself(name: str) -> None:
    """G7: EXPLAIN has a line with kind and id for each node. Stats name each operator by class and node."""
    left, right = LEFT.empty_table(), RIGHT.empty_table()
    plan = CASES[name].build(PlanBuilder().scan("l", source=left), PlanBuilder().scan("r", source=right)).build()
    task = qcore.Task(plan, drivers=2)
    list(task.batches())
    nodes = list(plan.walk())
    for text in (explain_plan(plan), explain_plan(plan, stats=task.stats())):
        lines = [line for line in text.splitlines() if line.strip()][1:]
        assert len(lines) == len(nodes)
        for line, node in zip(lines, nodes, strict=True):
            assert type(node).__name__ in line and node.id in line.split()
    known = {node.id for node in nodes} | {"result"}
    for pipeline in task.stats()["pipelines"]:
        for operator in pipeline["operators"]:
            assert operator["name"] and operator["node_id"] in known


def test_a_node_the_engine_does_not_know() -> None:
    class Strange(PlanNode):
        pass

    with pytest.raises(PlanError, match="cannot run a Strange node"):
        lower_plan(Strange("odd", LEFT), 1)


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_a_lowered_plan_waits_for_the_garbage_collector(name: str) -> None:
    """D8: a task is freed with its last reference, and so is its memory account."""
    plan = CASES[name].build(scan("l"), PlanBuilder({"r": RIGHT}).scan("r")).build()
    gc.collect()
    gc.disable()
    try:
        before = live_counts()["structs"]
        made = lower_plan(plan, 3)
        run = begin_run(made)
        task = Task([run.chains(pipeline) for pipeline in made.pipelines], run.memory)
        assert live_counts()["structs"] > before
        del made, run, task
        assert live_counts()["structs"] == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("probe", "build", "given"),
    [
        (pa.array([1, 2, None]), pa.array([2, 3, None]), "probe"),
        (pa.array(["a", "b"]), pa.array(["b", "c"]), "probe"),
        (pa.array([0.0, 1.0]), pa.array([-0.0, 2.0]), "build"),
    ],
    ids=["integers", "texts", "zeros"],
)
def test_the_build_sides_key_is_the_probe_rows_own(probe: pa.Array, build: pa.Array, given: str) -> None:
    """In an inner join, if equal keys are the same value: -0.0 equals 0.0 and is another one."""
    left, right = pa.table({"p": probe}), pa.table({"b": build})
    plan = PlanBuilder().values(left).hash_join(PlanBuilder().values(right), ["p"], ["b"]).build()
    assert isinstance(plan, HashJoin)
    sides = join_output(plan, left.schema, right.schema, [("p", "b")])
    assert sides == [("probe", "p", "p"), (given, "p" if given == "probe" else "b", "b")]
    found = qcore.Session(threads=1).execute(plan).to_arrow()
    expected = right.filter([value.as_py() in probe.to_pylist() and value.is_valid for value in build])
    assert found["b"].type == build.type
    assert str(found["b"].to_pylist()) == str(expected["b"].to_pylist())
