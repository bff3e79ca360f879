"""Queries of a session that share memory: which wait for it, and which fail (SPEC V7, reason "memory")."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from conftest import settles
from qcore import Cancelled, MemoryLimitError, PlanBuilder, PlanError, Session
from qcore.plan.nodes import PlanNode
from qcore.session.task import Task
from qcore_ext.ground.memory_pool import MemoryPool

N_ROWS = 300_000
TABLE = pa.table(
    {"a": [i * 7919 % N_ROWS for i in range(N_ROWS)], "s": [f"the text of row {i}" for i in range(N_ROWS)]}
)
TOTAL = [{"n": N_ROWS, "x": N_ROWS * (N_ROWS - 1) // 2}]


def total(plan: PlanBuilder) -> PlanNode:
    """A query that keeps all rows before it returns one. Its result, which also counts while it is held, is small."""
    return plan.order_by(["s"]).aggregate([], {"n": ("count",), "x": ("sum", "a")}).build()


def total_plan() -> PlanNode:
    return total(PlanBuilder().values(TABLE).local_partition(drivers=4))


def sorted_plan() -> PlanNode:
    return PlanBuilder().values(TABLE).local_partition(drivers=4).order_by(["a"]).build()


def task_of(session: Session, plan: PlanNode) -> Task:
    return Task.of_plan(plan, session.settings)


def on_other_threads(session: Session, plan: PlanNode) -> Task:
    """Run the queries beside one whose drivers sleep in a source and hold their threads."""
    return Task.of_plan(plan, replace(session.settings, threads=session.settings.threads + 1))


def answer(task: Task) -> list[dict[str, int]]:
    return pa.Table.from_batches(task.batches(timeout=120)).to_pylist()


def column(batches: Any) -> list[int]:
    return [value for batch in batches for value in batch.column("a").to_pylist()]


def need(threads: int, plan: PlanNode | None = None) -> int:
    """The bytes that total_plan, or another plan with its answer, takes alone."""
    session = Session(threads=threads, batch_rows=1000, session_memory_limit=1 << 40)
    task = task_of(session, total_plan() if plan is None else plan)
    assert answer(task) == TOTAL
    return int(task.stats()["peak_bytes"])


def waits(task: Task) -> dict[str, int]:
    """Times that operators waited for memory, by operator."""
    found: dict[str, int] = {}
    for pipeline in task.stats()["pipelines"]:
        for operator in pipeline["operators"]:
            n = operator["blocked_times"].get("memory", 0)
            if n:
                found[operator["name"]] = found.get(operator["name"], 0) + n
    return found


class Gate:
    """A source's stream that stops after `n_before` batches until it is opened."""

    def __init__(self, n_before: int) -> None:
        self.schema = TABLE.schema
        self.n_before = n_before
        self.reached = threading.Event()
        self.opened = threading.Event()

    def batches(self) -> Any:
        for number, batch in enumerate(TABLE.to_batches(max_chunksize=1000)):
            if number == self.n_before:
                self.reached.set()
                assert self.opened.wait(60)
            yield batch

    def plan(self) -> PlanNode:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return total(PlanBuilder().scan("gate", source=reader))


def one_that_holds_and_one_that_waits() -> tuple[Gate, Task, Task]:
    """A query that holds more than its share until the gate is opened, and a query that waits for the memory."""
    # The strings of a stream are charged to the query, those of a table in memory are not.
    open_gate = Gate(280)
    open_gate.opened.set()
    session = Session(threads=2, batch_rows=1000, session_memory_limit=need(2, open_gate.plan()) * 3 // 2)
    memory = session.settings.memory_pool
    assert memory is not None
    gate = Gate(280)
    first, second = task_of(session, gate.plan()), on_other_threads(session, total_plan())
    first.start()
    assert gate.reached.wait(60)
    assert settles(lambda: memory.reserved_bytes <= memory.limit // 8)
    second.start()
    assert settles(lambda: memory.n_waiting == 0)
    return gate, first, second


@pytest.mark.parametrize("threads", [2, 8])
def test_v7_queries_that_fit_one_at_a_time_all_finish(threads: int) -> None:
    """V7: the limit is enough for two of four queries. None fails, in any order, and the limit is kept."""
    limit = need(threads) * 2
    session = Session(threads=threads, batch_rows=1000, session_memory_limit=limit)
    for _ in range(3):
        tasks = [task_of(session, total_plan()) for _ in range(4)]
        with ThreadPoolExecutor(len(tasks)) as pool:
            assert list(pool.map(answer, tasks)) == [TOTAL] * len(tasks)
    memory = session.settings.memory_pool
    assert memory is not None
    assert memory.peak_bytes <= limit
    assert memory.n_waiting == 0


def test_v7_a_query_waits_while_another_holds_the_memory() -> None:
    """V7: the later query blocks, with reason "memory" and without a thread, until the other ends."""
    gate, first, second = one_that_holds_and_one_that_waits()
    assert second.state == "running"
    gate.opened.set()
    assert answer(first) == TOTAL
    assert answer(second) == TOTAL
    # It had the lead since memory became short, and one of its drivers always continued.
    assert waits(first) == {}
    assert set(waits(second)) <= {"TableScan", "LocalExchange", "LocalPartition", "OrderBy"}
    assert waits(second)
    blocked = [
        operator["blocked_wall_nanos"].get("memory", 0)
        for pipeline in second.stats()["pipelines"]
        for operator in pipeline["operators"]
    ]
    assert max(blocked) > 0


def test_v7_a_sort_takes_the_lead_before_its_rows_multiply() -> None:
    """V7: rows that are not ordered yet take less than an eighth of the limit, and the sort takes more."""
    # Four times the rows: the sorted rows do not fit into the queue of the result.
    table = pa.concat_tables([TABLE] * 4)
    session = Session(threads=2, batch_rows=1000, session_memory_limit=900 << 20)
    memory = session.settings.memory_pool
    assert memory is not None
    first = task_of(session, PlanBuilder().values(table).local_partition(drivers=4).order_by(["s"]).build())
    first.start()
    assert settles(lambda: memory.reserved_bytes <= memory.limit // 8 or memory.n_going > 0)
    assert first.state == "running"
    second = task_of(session, total_plan())
    assert answer(second) == TOTAL
    assert waits(first) == {}
    assert waits(second)            # the lead passed on when the first query's drivers waited for its reader
    assert sorted(column(first.batches(timeout=60))) == sorted(table["a"].to_pylist())


def test_v7_cancel_and_memory() -> None:
    """V7: a query that waits for memory is cancelled at once, while the other query still holds the memory."""
    gate, first, second = one_that_holds_and_one_that_waits()
    second.cancel()
    with pytest.raises(Cancelled):
        second.wait(60)
    assert first.state == "running"
    gate.opened.set()
    assert answer(first) == TOTAL


def test_v7_alone_above_the_limit_is_an_error() -> None:
    """V7: no other query can free memory, so the query fails and does not wait."""
    session = Session(threads=2, batch_rows=1000, session_memory_limit=need(2) // 2)
    task = task_of(session, total_plan())
    with pytest.raises(
        MemoryLimitError, match=r"goes past the limit of \d+ for all queries together; raise session_me"
    ):
        list(task.batches(timeout=60))
    assert waits(task) == {}


def test_v7_an_error_names_what_queries_hold_that_are_over() -> None:
    """V7: unread rows of finished queries count until they are read. The error names their bytes."""
    session = Session(threads=2, session_memory_limit=1 << 30)
    memory = session.settings.memory_pool
    assert memory is not None
    few = TABLE.slice(0, 50_000)
    over = task_of(session, PlanBuilder().values(few).order_by(["a"]).build())
    over.start()
    assert settles(lambda: over.state == "running")
    held = memory.held_bytes
    assert held == memory.reserved_bytes > 0
    session.change(session_memory_limit=held + (1 << 16))
    named = rf"\({held} bytes are rows of finished queries that are unread or still referenced"
    with pytest.raises(MemoryLimitError, match=named) as raised:
        answer(task_of(session, total_plan()))
    assert raised.value.is_shared
    assert column(over.batches(timeout=60)) == sorted(few.column("a").to_pylist())
    assert settles(lambda: memory.reserved_bytes > 0)
    assert memory.held_bytes == 0


def test_v7_bytes_that_a_running_query_releases_are_not_held() -> None:
    """V7: bytes that a running query reserves and releases between two reads are not bytes of finished queries."""
    session = Session(threads=2, batch_rows=1000, session_memory_limit=1 << 30)
    memory = session.settings.memory_pool
    assert memory is not None
    held = n_looks = 0
    for _ in range(5):
        task = task_of(session, total_plan())
        task.start()
        while True:
            now = memory.held_bytes
            if task.state != "running":
                break
            held, n_looks = max(held, now), n_looks + 1
        assert answer(task) == TOTAL
    assert n_looks > 100
    assert held == 0


def test_v7_a_query_of_its_own_limit_is_an_error() -> None:
    """V7: a query above its own limit fails, because memory of other queries cannot help."""
    session = Session(threads=2, memory_limit=1 << 16, session_memory_limit=1 << 40)
    with pytest.raises(MemoryLimitError, match="memory limit of 65536; raise memory_limit"):
        list(task_of(session, sorted_plan()).batches(timeout=60))


def test_v7_a_query_read_within_another_does_not_wait_for_it() -> None:
    """V7: the first query leads and waits for its reader, which reads the second query. The lead passes on."""
    limit = need(2) * 6
    session = Session(threads=2, batch_rows=1000, session_memory_limit=limit)
    outer = task_of(session, sorted_plan()).batches(timeout=60)
    held = [next(outer)]
    for _ in range(3):
        assert column(task_of(session, sorted_plan()).batches(timeout=60)) == list(range(N_ROWS))
    assert column([*held, *outer]) == list(range(N_ROWS))


def test_v7_a_query_that_is_another_ones_source_does_not_wait_for_it() -> None:
    """V7: a driver sleeps in the scan of the first query until the second query returns a batch."""
    session = Session(threads=2, batch_rows=1000, session_memory_limit=need(2) * 3)
    inner = on_other_threads(session, sorted_plan())
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, inner.batches(timeout=60))
    plan = PlanBuilder().values(TABLE).order_by(["a"]).union_all(PlanBuilder().scan("inner", source=reader))
    got = column(task_of(session, plan.build()).batches(timeout=60))
    assert sorted(got) == [i for i in range(N_ROWS) for _ in range(2)]


def test_the_limit_of_a_session_may_change() -> None:
    session = Session(threads=2, session_memory_limit=1 << 20)
    memory = session.settings.memory_pool
    assert isinstance(memory, MemoryPool)
    session.change(session_memory_limit=1 << 30)
    assert session.settings.memory_pool is memory
    assert memory.limit == 1 << 30
    session.change(batch_rows=10)
    assert session.settings.memory_pool is memory
    session.change(session_memory_limit=None)
    assert session.settings.memory_pool is None
    with pytest.raises(ValueError, match="session_memory_limit must be positive, not 0"):
        session.change(session_memory_limit=0)
    with pytest.raises(PlanError, match="no setting 'memory'"):
        session.change(memory=1)
