"""CallbackSink (SPEC V12)."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import Cancelled, ExecutionError
from qcore_ext.basic.callback_sink import CallbackSink
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.ground.memory import Account
from qcore_ext.ground.stats import BlockReason
from qcore_testing.operators import BatchSource, import_batches

pytestmark = pytest.mark.timeout(120)
TABLE = pa.table({"a": pa.array(range(100), pa.int64())})


@dataclass
class Blocked:
    reason: Any
    future: Any


def task_of(callback: Any, scheduler: Scheduler | None = None, **options: Any) -> Task:
    memory = Account()
    source = BatchSource(import_batches(TABLE.to_batches(max_chunksize=10)), memory)
    return Task([[[source, CallbackSink("sink", memory, callback, **options)]]], memory, scheduler)


def test_each_batch_is_a_pyarrow_record_batch() -> None:
    seen: list[pa.RecordBatch] = []
    task_of(seen.append).run_on_caller(timeout=10)
    assert all(isinstance(batch, pa.RecordBatch) for batch in seen)
    assert pa.Table.from_batches(seen).equals(TABLE)


def test_a_converter_of_ones_own() -> None:
    sizes: list[int] = []
    task_of(sizes.append, convert=lambda batch: pa.record_batch(batch).num_rows).run_on_caller(timeout=10)
    assert sizes == [10] * 10


@pytest.mark.parametrize("reason", [BlockReason.WAIT_FOR_CONSUMER, "consumer", "WAIT_FOR_CONSUMER", None])
def test_a_future_holds_the_pipeline_back(reason: Any) -> None:
    """V12, V7."""
    futures: list[Future[None]] = []
    seen: list[int] = []

    def callback(batch: pa.RecordBatch) -> Any:
        seen.append(batch.num_rows)
        futures.append(Future())
        return Blocked(reason, futures[-1])

    scheduler = Scheduler(1)
    task = task_of(callback, scheduler)
    task.start()
    for i in range(10):
        while len(futures) <= i:
            time.sleep(0.001)
        time.sleep(0.005)
        assert len(seen) == i + 1
        futures[i].set_result(None)
    task.wait(10)
    sink = task.stats()["pipelines"][0]["operators"][1]
    assert sink["blocked_times"] == {"consumer": 10}
    assert sink["blocked_wall_nanos"]["consumer"] > 10e6
    scheduler.shutdown()


def test_a_future_that_is_done_already() -> None:
    done: Future[None] = Future()
    done.set_result(None)
    assert task_of(lambda batch: Blocked("user", done)).run_on_caller(timeout=10)


def test_a_future_that_fails_fails_the_task() -> None:
    failed: Future[None] = Future()
    failed.set_exception(ConnectionError("the peer is gone"))
    with pytest.raises(ExecutionError, match=r"CallbackSink \(node sink\) failed: ConnectionError: the peer is gone"):
        task_of(lambda batch: Blocked("consumer", failed)).run_on_caller(timeout=10)


def test_an_asyncio_future() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        seen: list[int] = []

        def callback(batch: pa.RecordBatch) -> Any:
            seen.append(batch.num_rows)
            future = loop.create_future()
            loop.call_soon_threadsafe(loop.call_later, 0.002, future.set_result, None)
            return Blocked("consumer", future)

        scheduler = Scheduler(1)
        task = task_of(callback, scheduler)
        task.start()
        await asyncio.to_thread(task.wait, 10)
        scheduler.shutdown()
        return seen

    assert asyncio.run(main()) == [10] * 10


def test_cancel_while_blocked_on_a_future() -> None:
    """V12, D9."""
    never: Future[None] = Future()
    scheduler = Scheduler(1)
    task = task_of(lambda batch: Blocked("consumer", never), scheduler)
    task.start()
    time.sleep(0.02)
    task.cancel()
    with pytest.raises(Cancelled):
        task.wait(10)
    never.set_result(None)  # fires the token of a driver that was freed
    scheduler.shutdown()


def test_a_callback_that_raises() -> None:
    def callback(batch: pa.RecordBatch) -> None:
        raise ValueError("not today")

    with pytest.raises(ExecutionError, match="ValueError: not today"):
        task_of(callback).run_on_caller(timeout=10)


@pytest.mark.parametrize(
    "answer", [17, Blocked("consumer", None), Blocked("boredom", Future())], ids=["int", "no future", "no reason"]
)
def test_an_answer_that_makes_no_sense(answer: Any) -> None:
    with pytest.raises(ExecutionError, match="TypeError"):
        task_of(lambda batch: answer).run_on_caller(timeout=10)


def test_the_callback_runs_on_a_worker() -> None:
    names: set[str] = set()
    scheduler = Scheduler(1)
    task = task_of(lambda batch: names.add(threading.current_thread().name), scheduler)
    task.start()
    task.wait(10)
    scheduler.shutdown()
    assert names == {"qcore-worker-0"}
