"""The engine's own operators under polls, without a task (SPEC G1, G2, G4, G7, H3)."""

from __future__ import annotations

import doctest
import gc
import random
import sys
import threading
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import qcore
from conftest import held_by_engine
from operator_plans import CASES, LEFT, RIGHT, Doubled, random_rows
from oracle import assert_same_rows
from polling import run_polled
from qcore import FileSplit, NativeOperator, PlanBuilder, PollPull, PollPush, col
from qcore.writing.partition_files import PartitionManifest

pytestmark = pytest.mark.timeout(120)

ROWS = pa.record_batch({"a": pa.array(range(10), pa.int64())})


def sources(n_left: int = 400, n_right: int = 80, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    rng = random.Random(seed)
    return random_rows(LEFT, n_left, rng), random_rows(RIGHT, n_right, rng)


def only(builder: PlanBuilder, position: int, partitions: int = 1) -> tuple[Any, NativeOperator, Any, Any, Any]:
    """(query, definition, cx, local, global state) of one operator of the last pipeline."""
    query = qcore.polled(builder.build(), partitions)
    definition = query.pipelines[-1][position]
    cx = definition.context(0)
    shared = definition.init_global_state(definition.context())
    return query, definition, cx, definition.init_local_state(cx, shared), shared


def by_hand() -> PlanBuilder:
    """A scan that nobody reads: what comes after it is pushed to."""
    return PlanBuilder().scan("t", schema=ROWS.schema)


@pytest.mark.each_value
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_every_operator_polled_gives_what_the_task_gives(name: str, partitions: int) -> None:
    """G1, G2, G4, G5, G8, H3, V1: on one thread, a partition at a time in random order, woken only by its waker."""
    case, (left, right) = CASES[name], sources()
    plan = case.build(PlanBuilder().scan("l", source=left), PlanBuilder().scan("r", source=right)).build()
    got = run_polled(plan, partitions, random.Random(partitions), batch_rows=50)
    case.check(got, qcore.Task(plan).schema, case.expected(left, right))


def test_a_chain_of_definitions_names_itself() -> None:
    """G7, V1: pipelines in the order they were cut, each source first, and each definition explains itself."""
    plan = by_hand().hash_join(PlanBuilder().values(ROWS).project({"k": col("a")}), ["a"], ["k"]).limit(3).build()
    with qcore.polled(plan, 2) as query:
        names = [[definition.name for definition in pipeline] for pipeline in query.pipelines]
        assert names == [["TableScan", "Project", "HashBuild"], ["TableScan", "HashProbe", "Limit", "ResultSink"]]
        assert [pipeline[0].partitions for pipeline in query.pipelines] == [1, 2]
        probe = query.pipelines[1][1]
        assert probe.explain() == f"HashProbe (node {probe.node_id}): operator, 2 partitions"


def test_a_push_waits_while_output_is_not_pulled() -> None:
    """G1: PENDING gives the very batch back; a pull wakes the waker; it is pushed again, unchanged."""
    query, filter_, cx, local, shared = only(by_hand().filter(col("a") >= 0), 1)
    with query:
        assert filter_.poll_push(cx, local, shared, ROWS, 0) is PollPush.PUSHED
        answer = filter_.poll_push(cx, local, shared, ROWS, 0)
        for _ in range(3):
            if answer is PollPush.PUSHED:
                answer = filter_.poll_push(cx, local, shared, ROWS, 0)
        assert answer.refused is ROWS
        cx.waker().rearm()
        assert filter_.poll_pull(cx, local, shared, 0).given == ROWS
        assert cx.waker().woken
        assert filter_.poll_push(cx, local, shared, ROWS, 0) is PollPush.PUSHED


def test_a_pull_waits_for_a_push() -> None:
    """G1: PENDING, woken by the push; EXHAUSTED after finish, again and again (D7)."""
    query, filter_, cx, local, shared = only(by_hand().filter(col("a") >= 5), 1)
    with query:
        assert filter_.poll_pull(cx, local, shared, 0) is PollPull.PENDING
        cx.waker().rearm()
        filter_.poll_push(cx, local, shared, ROWS, 0)
        assert cx.waker().woken
        assert filter_.poll_pull(cx, local, shared, 0).given == ROWS.slice(5)
        assert filter_.finish(cx, local, shared, 0) is None
        assert [filter_.poll_pull(cx, local, shared, 0) for _ in range(3)] == [PollPull.EXHAUSTED] * 3
        stats = filter_.stats(local)
        assert (stats["input_rows"], stats["output_rows"]) == (10, 5)


def test_break_when_no_more_is_wanted() -> None:
    """G1, V8: a full Limit answers BREAK; what it has is still pulled, then it is exhausted."""
    query, limit, cx, local, shared = only(by_hand().limit(3), 1)
    with query:
        answer = limit.poll_push(cx, local, shared, ROWS, 0)
        given = limit.poll_pull(cx, local, shared, 0).given
        assert given == ROWS.slice(0, 3)
        while answer is PollPush.PUSHED:
            answer = limit.poll_push(cx, local, shared, ROWS, 0)
        assert answer is PollPush.BREAK
        assert limit.finish(cx, local, shared, 0) is None
        assert limit.poll_pull(cx, local, shared, 0) is PollPull.EXHAUSTED


def test_a_source_wakes_when_splits_come(tmp_path: Any) -> None:
    """G1, V3: pulled dry it answers PENDING, and the split added on another thread fires its waker."""
    import pyarrow.parquet as pq

    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.Table.from_batches([ROWS]), path)
    query, scan, cx, local, shared = only(by_hand(), 0)
    with query:
        assert scan.poll_pull(cx, local, shared, 0) is PollPull.PENDING
        woken = threading.Event()
        cx.waker().when_woken(lambda waker: woken.set())
        adder = threading.Thread(target=query.add_split, args=("t", FileSplit(path)))
        adder.start()
        assert woken.wait(10)
        adder.join()
        assert scan.poll_pull(cx, local, shared, 0).given == ROWS
        query.no_more_splits("t")
        assert scan.poll_pull(cx, local, shared, 0) is PollPull.EXHAUSTED


def test_finish_of_a_sink_waits_for_its_peers() -> None:
    """G8, V7: the first of two builds that finish waits at the barrier; the last one's finish fires its future."""
    build = PlanBuilder().scan("b", schema=pa.schema({"k": pa.int64()}))
    query = qcore.polled(by_hand().hash_join(build, ["a"], ["k"]).build(), 2)
    with query:
        sink = query.pipelines[0][-1]
        assert (sink.name, sink.role, sink.partitions) == ("HashBuild", "sink", 2)
        shared = sink.init_global_state(sink.context())
        parts = [(cx, sink.init_local_state(cx, shared)) for cx in map(sink.context, range(2))]
        for partition, (cx, local) in enumerate(parts):
            rows = pa.record_batch({"k": pa.array([partition], pa.int64())})
            assert sink.poll_push(cx, local, shared, rows, partition) is PollPush.PUSHED
        first, second = (lambda p=p: sink.finish(*parts[p], shared, p) for p in (0, 1))
        blocked = first()
        if blocked is not None:
            assert blocked.reason == "peers" and not blocked.future.done()
        second()
        if blocked is not None:
            blocked.future.result(5)
        assert first() is None and second() is None


def test_a_callback_sink_is_pending_until_its_future_is_done() -> None:
    """V12, G1."""
    future: Future[None] = Future()
    got: list[int] = []

    def callback(batch: pa.RecordBatch) -> Any:
        got.append(batch.num_rows)
        return qcore.Blocked("consumer", future) if len(got) == 1 else None

    query, sink, cx, local, shared = only(by_hand().callback(callback), 1)
    with query:
        assert sink.poll_push(cx, local, shared, ROWS, 0) is PollPush.PUSHED
        cx.waker().rearm()
        assert sink.poll_push(cx, local, shared, ROWS, 0).refused is ROWS
        assert not cx.waker().woken
        future.set_result(None)
        assert cx.waker().woken
        assert sink.poll_push(cx, local, shared, ROWS, 0) is PollPush.PUSHED
        assert sink.finish(cx, local, shared, 0) is None
        assert got == [10, 10]


def test_an_error_names_operator_and_node_and_ends_the_partition() -> None:
    """D9."""
    plan = by_hand().project({"x": col("a") / (col("a") - col("a"))}, id="culprit")
    query, project, cx, local, shared = only(plan, 1)
    with query:
        with pytest.raises(qcore.ExecutionError, match=r"Project \(node culprit\)"):
            project.poll_push(cx, local, shared, ROWS, 0)
        with pytest.raises(qcore.ExecutionError, match=r"Project \(node culprit\): a pull after"):
            project.poll_pull(cx, local, shared, 0)


def test_what_a_caller_may_not_do() -> None:
    """G2: states are made once; sources are not pushed to, sinks not pulled from, nothing comes after finish."""
    query, filter_, cx, local, shared = only(by_hand().filter(col("a") > 0), 1)
    with query:
        with pytest.raises(qcore.PlanError, match="made before"):
            filter_.init_global_state(cx)
        with pytest.raises(qcore.PlanError, match="partition 0 was made before"):
            filter_.init_local_state(cx, shared)
        with pytest.raises(qcore.PlanError, match="context of a partition"):
            filter_.init_local_state(filter_.context(), shared)
        with pytest.raises(ValueError, match="partitions 0 to 0"):
            filter_.context(1)
        filter_.finish(cx, local, shared, 0)
        with pytest.raises(qcore.ExecutionError, match="push after finish"):
            filter_.poll_push(cx, local, shared, ROWS, 0)
        scan, _, sink = query.pipelines[0]
        states = {step: step.init_global_state(step.context()) for step in (scan, sink)}
        with pytest.raises(TypeError, match="TableScan is a source"):
            scan.poll_push(cx, scan.init_local_state(cx, states[scan]), states[scan], ROWS, 0)
        with pytest.raises(TypeError, match="ResultSink is a sink"):
            sink.poll_pull(cx, sink.init_local_state(cx, states[sink]), states[sink], 0)
        with pytest.raises(qcore.PlanError, match="takes splits; nodes that do: 't'"):
            query.add_split("u", FileSplit("x"))


def test_a_new_schema_is_bound_and_an_unfit_one_refused() -> None:
    """D1, D6: a definition sees no schema; the batch pushed brings it."""
    query, filter_, cx, local, shared = only(by_hand().filter(col("a") > 7), 1)
    with query:
        assert filter_.poll_push(cx, local, shared, ROWS, 0) is PollPush.PUSHED
        assert filter_.poll_pull(cx, local, shared, 0).given.num_rows == 2
        wider = pa.record_batch({"b": ["x", "y"], "a": pa.array([1, 9], pa.int64())})
        assert filter_.poll_push(cx, local, shared, wider, 0) is PollPush.PUSHED
        assert filter_.poll_pull(cx, local, shared, 0).given.to_pydict() == {"b": ["y"], "a": [9]}
        with pytest.raises(qcore.QcoreError, match=r"Filter \(node"):
            filter_.poll_push(cx, local, shared, pa.record_batch({"b": [1]}), 0)


def test_close_comes_once_for_all_that_was_never_polled() -> None:
    """D8: a query left at any point is closed whole, and what an operator's close raises is seen."""
    closed: list[str] = []

    class Closing(Doubled):
        def close(self) -> None:
            closed.append("close")
            raise ValueError("broken close")

    builder = by_hand().project({"v": col("a")}).operator(Closing)
    qcore.polled(builder.build(), 2).close()  # never opened: there is no object to close
    assert closed == []
    query, definition, cx, local, shared = only(builder, 2)
    definition.poll_push(cx, local, shared, ROWS.rename_columns(["v"]), 0)
    with pytest.raises(qcore.ExecutionError, match=r"Closing .*failed in close\(\): ValueError: broken close"):
        query.close()
    query.close()
    assert closed == ["close"]


def test_a_context_carries_the_settings() -> None:
    """G6: operators written in Python see the settings polled() was given."""
    seen: list[int] = []

    class Looking(qcore.StatelessOperator):
        def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
            seen.append(cx.settings.batch_rows)
            return batch

    plan = PlanBuilder().values(ROWS).operator(Looking()).build()
    assert sum(batch.num_rows for batch in run_polled(plan, 1, random.Random(1), batch_rows=7)) == 10
    assert set(seen) == {7}


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(sys.modules[qcore.polled.__module__]).failed == 0


@pytest.mark.parametrize("partitions", [1, 3])
def test_v11_partitions_written_by_polls_are_a_tasks(partitions: int, tmp_path: Path) -> None:
    """G1, G2, V11: the same rows in the same partitions, and the folder there once all have finished."""
    left, _ = sources()

    def plan(name: str) -> PlanBuilder:
        return PlanBuilder().scan("l", source=left).partitioned_output(["a", "s"], 4, path=tmp_path / name)

    assert run_polled(plan("polled").build(), partitions, random.Random(partitions), batch_rows=50) == []
    task = qcore.Task(plan("task").build(), drivers=partitions)
    assert list(task.batches()) == []
    polled, by_task = (PartitionManifest.read(tmp_path / name) for name in ("polled", "task"))
    assert polled.rows == by_task.rows
    assert sum(polled.rows) == left.num_rows
    for partition in range(4):
        got, expected = (pa.ipc.open_file(part.file(partition)).read_all() for part in (polled, by_task))
        assert_same_rows(got, expected)


def test_v11_polls_given_up_leave_no_partitions(tmp_path: Path) -> None:
    """D8, V11: one partition of two finished, then nobody polls any more."""
    plan = by_hand().partitioned_output(["a"], 2, path=tmp_path / "out").build()
    with qcore.polled(plan, 2) as query:
        sink = query.pipelines[-1][-1]
        shared = sink.init_global_state(sink.context())
        for partition in range(2):
            cx = sink.context(partition)
            local = sink.init_local_state(cx, shared)
            assert sink.poll_push(cx, local, shared, ROWS, partition) is PollPush.PUSHED
            if partition == 0:
                assert sink.finish(cx, local, shared, partition) is None
    assert list(tmp_path.iterdir()) == []


def test_v11_pages_in_memory_need_a_task() -> None:
    with pytest.raises(qcore.PlanError, match=r"over partitioned_output\(\) needs a path"):
        qcore.polled(by_hand().partitioned_output(["a"], 2).build(), 1)


def test_g1_a_polled_query_waits_for_no_garbage_collector() -> None:
    """G1, D8: neither after close() nor, with partitions opened and pushed to, without it."""
    gc.collect()
    gc.disable()
    try:
        for closes in (True, False):
            query, filter_, cx, local, shared = only(by_hand().filter(col("a") >= 0), 1)
            assert filter_.poll_push(cx, local, shared, ROWS, 0) is PollPush.PUSHED
            watched = [weakref.ref(query), weakref.ref(filter_), weakref.ref(shared)]
            if closes:
                query.close()
            del query, filter_, cx, local, shared
            assert [ref() for ref in watched] == [None] * 3
            assert not held_by_engine()
    finally:
        gc.enable()
