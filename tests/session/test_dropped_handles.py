"""A task that can no longer be read is cancelled without a call of close() (SPEC V3, V7, D8)."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder
from qcore.config import Settings
from qcore.session.output_buffers import OutputBufferManager
from qcore.session.result import Result

pytestmark = pytest.mark.timeout(120)

SCHEMA = pa.schema({"k": pa.int64()})
ROWS = pa.record_batch({"k": pa.array(range(100), pa.int64())})


class Endless(qcore.SourceOperator):
    """A source that returns rows until it is closed."""

    partitions = 1

    def __init__(self) -> None:
        self.began = threading.Event()
        self.closed = threading.Event()

    def output_schema(self, inputs: Any) -> pa.Schema:
        return SCHEMA

    def poll_pull(self, context: Any, local: Any, shared: Any, partition: Any) -> Any:
        self.began.set()
        return qcore.PollPull.batch(ROWS)

    def close(self, *arguments: Any) -> None:
        self.closed.set()


def stream(source: Endless) -> PlanBuilder:
    return PlanBuilder().source(source)


def sum_stream(source: Endless) -> PlanBuilder:
    return PlanBuilder().source(source).aggregate(keys=[], aggs={"n": ("count",)})


def group_stream(source: Endless) -> PlanBuilder:
    return PlanBuilder().source(source).local_partition(["k"]).aggregate(keys=["k"], aggs={"n": ("count",)})


def page_stream(source: Endless) -> PlanBuilder:
    return PlanBuilder().source(source).partitioned_output(["k"], 2, buffer_bytes=1_000_000)


def start_task(builder: PlanBuilder) -> qcore.Task:
    task = qcore.Task(builder.build(), drivers=1)
    task.start()
    return task


def begin(builder: PlanBuilder) -> Iterator[pa.RecordBatch]:
    batches = qcore.Task(builder.build(), drivers=1).batches()
    next(batches)
    return batches


def step_iterator(builder: PlanBuilder) -> Any:
    iterator = qcore.Task(builder.build(), drivers=1).iterator()
    iterator.next()
    return iterator


HANDLES: dict[str, tuple[Callable[[Endless], PlanBuilder], Callable[[PlanBuilder], Any]]] = {
    "task": (stream, start_task),
    "task of one pipeline": (sum_stream, start_task),
    "task of two pipelines": (group_stream, start_task),
    "task with pages": (page_stream, start_task),
    "output buffers": (page_stream, lambda builder: start_task(builder).output_buffers()),
    "partition's reader": (page_stream, lambda builder: start_task(builder).output_buffers().reader(0)),
    "batches": (stream, begin),
    "batches on the caller": (
        stream,
        lambda b: next(it := qcore.Task(b.build(), drivers=1).run_on_caller()) and it,
    ),
    "iterator": (stream, step_iterator),
    "iterator not begun": (sum_stream, lambda builder: start_task(builder).iterator()),
}


@pytest.mark.parametrize("name", HANDLES)
def test_v7_dropped_handles_cancel(name: str) -> None:
    source = Endless()
    build, opened = HANDLES[name]
    handle = opened(build(source))
    assert source.began.wait(60)
    assert not source.closed.is_set()
    del handle
    assert source.closed.wait(60)


def test_v7_a_handle_in_a_cycle_cancels_when_it_is_collected() -> None:
    source = Endless()
    cycle: list[Any] = [start_task(page_stream(source))]
    cycle.append(cycle)
    assert source.began.wait(60)
    del cycle
    gc.collect()
    assert source.closed.wait(60)


def test_v11_output_buffers_keep_their_task() -> None:
    """V11: the owner of the buffers reads them to their end. Afterwards the task's id is unknown."""
    table = pa.table({"k": list(range(1000))})
    task = qcore.Task(PlanBuilder().values(table).partitioned_output(["k"], 2).build(), drivers=1)
    name, buffers = task.id, task.output_buffers()
    del task
    assert sum(batch.num_rows for part in (0, 1) for batch in buffers.reader(part)) == 1000
    assert OutputBufferManager.instance().buffers(name) is buffers
    del buffers
    with pytest.raises(qcore.QcoreError, match="or it was freed"):
        OutputBufferManager.instance().buffers(name)


def test_v3_a_dropped_task_that_waits_for_splits() -> None:
    """V3: its drivers wait for splits that cannot come. conftest.py checks that nothing is left."""
    task = start_task(PlanBuilder().scan("t", schema=SCHEMA))
    engine = task._engine
    del task
    assert engine.settle(60)
    assert engine.state == "cancelled"


def test_v3_a_dropped_task_ends_sources_whose_splits_wait() -> None:
    """V3: the thread that waits for splits does not keep the task."""

    class Waiting:
        splits_wait = True
        schema = SCHEMA

        def __init__(self) -> None:
            self.asked, self.closed = threading.Event(), threading.Event()

        def statistics(self) -> Any:
            from qcore.connectors.base import TableStatistics

            return TableStatistics()

        def splits(self, *arguments: Any) -> Any:
            return self

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            self.asked.set()
            self.closed.wait(60)
            raise StopIteration

        def open(self, *arguments: Any) -> Any:
            raise AssertionError("there is no split")

        def close(self) -> None:
            self.closed.set()

    table = Waiting()
    task = start_task(PlanBuilder().scan("t", source=table))
    assert table.asked.wait(60)
    del task
    assert table.closed.wait(60)


def test_v7_a_dropped_result_and_its_iterators_cancel() -> None:
    source = Endless()
    result = Result(stream(source).build(), Settings.make(1, None, None, None))
    batches = iter(result)
    next(batches)
    del result
    next(batches)
    del batches
    assert source.closed.wait(60)


def test_v7_an_async_iterator_that_is_left_cancels_its_own_query() -> None:
    """Another query that the result runs by then goes on."""
    source = Endless()
    result = Result(stream(source).build(), Settings.make(1, None, None, None))

    async def leave_early() -> None:
        batches = result.aiter()
        await anext(batches)
        task = result.task
        other = iter(result)
        next(other)
        assert result.task is not task
        await batches.aclose()
        assert task.state == "cancelled"
        assert result.task.state == "running"
        other.close()  # type: ignore[attr-defined]

    asyncio.run(leave_early())


def test_v7_a_reader_collected_on_a_driver_of_its_own_task_does_not_wait_for_it() -> None:
    """V7: the collector may run on a driver of the task. A driver that waited for its own task would wait for ever."""

    class Collects(Endless):
        def __init__(self) -> None:
            super().__init__()
            self.held: list[Any] = []
            self.ready = threading.Event()

        def poll_pull(self, context: Any, local: Any, shared: Any, partition: Any) -> Any:
            if self.began.is_set():
                assert self.ready.wait(60)
                self.held.clear()  # the last reference to the task's reader
            return super().poll_pull(context, local, shared, partition)

    source = Collects()
    task = qcore.Task(stream(source).build(), drivers=1)
    engine = task._engine
    source.held.append(task.batches())
    next(source.held[0])
    del task
    source.ready.set()
    assert source.closed.wait(60)
    assert engine.settle(60)
    assert engine.state == "cancelled"
