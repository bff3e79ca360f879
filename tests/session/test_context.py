"""What operators can read of their query's context, and what they may change (SPEC G6)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder

TABLE = pa.table({"a": pa.array(range(100), pa.int64())})


def calling(do: Callable[[Any], None]) -> PlanBuilder:
    """A plan with an operator that calls a function with its context at each batch."""

    class Calling(qcore.StatelessOperator):
        def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
            do(cx)
            return batch

    return PlanBuilder().values(TABLE).operator(Calling())


def test_g6_each_partition_sees_the_sessions_settings() -> None:
    """G6: operators see the settings when states are created and at every poll, in every partition."""
    seen: list[tuple[Any, int | None, int]] = []
    lock = threading.Lock()

    class Looking(qcore.SinkOperator):
        def see(self, cx: Any) -> None:
            with lock:
                seen.append((cx.settings, cx.partition, cx.partitions))

        def init_global_state(self, cx: Any) -> None:
            self.see(cx)

        def init_local_state(self, cx: Any, global_state: Any) -> None:
            self.see(cx)

        def poll_push(self, cx: Any, local: Any, global_state: Any, batch: Any, partition: int) -> qcore.PollPush:
            self.see(cx)
            return qcore.PollPush.PUSHED

    session = qcore.Session(threads=3, memory_limit=10**8, batch_rows=32, timeout=60.0)
    session.execute(PlanBuilder().values(TABLE).local_partition(drivers=3).sink(Looking()).build()).to_arrow()
    assert {partition for _, partition, _ in seen} == {None, 0, 1, 2}
    assert {partitions for _, _, partitions in seen} == {3}
    assert all(settings == session.settings for settings, _, _ in seen)


def test_g6_changes_to_the_session_go_through_the_context() -> None:
    """G6: later queries run with the changes. The query itself and other sessions do not."""
    session, other = qcore.Session(threads=2, batch_rows=32), qcore.Session(threads=2, batch_rows=32)
    seen: list[int] = []

    def change(cx: Any) -> None:
        cx.change_session(batch_rows=64, timeout=50.0)
        seen.append(cx.settings.batch_rows)

    session.execute(calling(change).build()).to_arrow()
    assert set(seen) == {32} and len(seen) > 1
    assert (session.settings.batch_rows, session.settings.timeout, session.settings.threads) == (64, 50.0, 2)
    assert other.settings.batch_rows == 32
    sizes: list[int] = []
    for of in (session, other):
        result = of.execute(calling(lambda cx: sizes.append(cx.settings.batch_rows)).build())
        assert result.to_arrow().num_rows == 100
    assert set(sizes) == {64, 32}


def test_g6_a_change_that_makes_no_sense_fails_the_query_and_changes_nothing() -> None:
    session = qcore.Session(threads=1)
    for settings, message in (({"treads": 3}, "no setting 'treads'"), ({"threads": 0}, "threads must be positive")):
        plan = calling(lambda cx, settings=settings: cx.change_session(**settings)).build()
        with pytest.raises(qcore.QcoreError, match=rf"Calling \(node \d\).*{message}"):
            session.execute(plan).to_arrow()
    assert session.settings == qcore.Session(threads=1).settings


def test_g6_a_task_has_no_session_to_change() -> None:
    with pytest.raises(qcore.PlanError, match="without a session"):
        list(qcore.Task(calling(lambda cx: cx.change_session(threads=2)).build()).batches())


def test_g6_a_session_forgotten_meanwhile_is_no_matter() -> None:
    result = qcore.Session(threads=1).execute(calling(lambda cx: cx.change_session(threads=2)).build())
    gc.collect()
    assert result.to_arrow().num_rows == 100
