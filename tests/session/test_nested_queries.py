"""A result as a table of another query in the same session. The queries share threads (SPEC V7, D3)."""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import qcore
from conftest import settles
from sweeps import every

N_ROWS = 100_000
TABLE = pa.table({"a": range(N_ROWS)})


def nest_query(session: qcore.Session, depth: int, text: str) -> qcore.Result:
    """A query over the result of a query … over the table `t`."""
    result = session.sql(text)
    for level in range(depth):
        session.register(f"u{level}", pa.RecordBatchReader.from_stream(result))
        result = session.sql(f"select a + 1 as a from u{level} order by a desc")
    return result


def session_of(threads: int, **settings: float) -> qcore.Session:
    session = qcore.Session(threads=threads, batch_rows=1000, **settings)
    session.register("t", TABLE)
    return session


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_v7_a_result_is_another_querys_source(threads: int, depth: int) -> None:
    """V7: drivers that wait for an inner query leave it threads to run on, also over several levels."""
    session = session_of(threads)
    for _ in range(3):
        result = nest_query(session, depth, "select a from t where a % 2 = 0 order by a desc").to_arrow()
        assert result["a"].to_pylist() == [a + depth for a in range(N_ROWS - 2, -1, -2)]


@pytest.mark.parametrize("threads", [1, 2])
def test_v8_leaving_early_ends_them_all(threads: int) -> None:
    """V8: the inner queries are still running when the outer one needs no more rows. They end."""
    session = session_of(threads)
    session.register("u", pa.RecordBatchReader.from_stream(session.sql("select x.a from t x, t y")))
    session.register("v", pa.RecordBatchReader.from_stream(session.sql("select a + 1 as a from u")))
    assert session.sql("select a from v limit 10").to_arrow().num_rows == 10


@pytest.mark.parametrize("threads", [1, 2])
def test_v9_the_inner_querys_error_comes_out_once(threads: int) -> None:
    session = session_of(threads)
    with pytest.raises(qcore.ExecutionError, match="division by zero") as raised:
        nest_query(session, 3, "select 1 // (a - 99999) as a from t").to_arrow()
    assert str(raised.value).count("division by zero") == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_v11_a_task_reads_another_ones_output(threads: int) -> None:
    """V11: the pages of a task that runs on the same threads."""
    plan = qcore.PlanBuilder().values(TABLE).partitioned_output(["a"], 2).build()
    task = qcore.Task(plan, drivers=threads)
    buffers = task.output_buffers()

    def pages(partition: int) -> object:
        sequence, complete = 0, False
        while not complete:
            found = buffers.fetch(partition, sequence)
            yield from found.batches
            sequence, complete = found.next_sequence, found.complete

    readers = [pa.RecordBatchReader.from_batches(TABLE.schema, pages(partition)) for partition in (0, 1)]
    sources = [qcore.PlanBuilder().scan(f"p{i}", source=reader) for i, reader in enumerate(readers)]
    total = sources[0].union_all(sources[1]).aggregate([], {"n": ("count",), "x": ("sum", "a")})
    rows = [row for batch in qcore.Task(total.build(), drivers=threads).batches() for row in batch.to_pylist()]
    assert rows == [{"n": N_ROWS, "x": sum(range(N_ROWS))}]


# Readers of the table `u`: a scan, a query over another result, and rounds of a recursion, in the scan's thread.
READERS = {
    "scan": ["select a + 1 as a from u"],
    "chain": ["select a + 1 as a from u", "select a + 1 as a from u0", "select max(a) as a from u1"],
    "recursion": ["with recursive r(a) as (select a from u union all select a + 1 from r where a < 3) select a from r"],
}


@contextlib.contextmanager
def endless(session: qcore.Session) -> Iterator[qcore.Task]:
    """A query of the session that waits for splits for ever, and is its table `u`."""
    plan = qcore.PlanBuilder().scan("never", schema=TABLE.schema).build()
    inner = qcore.Task.of_plan(plan, session.settings)
    session.register("u", pa.RecordBatchReader.from_batches(TABLE.schema, inner.batches()))
    try:
        yield inner
    finally:
        inner.cancel()


def reading(session: qcore.Session, kind: str) -> qcore.Result:
    result = None
    for level, text in enumerate(READERS[kind]):
        if result is not None:
            session.register(f"u{level - 1}", pa.RecordBatchReader.from_stream(result))
        result = session.sql(text)
    assert result is not None
    return result


@pytest.mark.parametrize("kind", every(3, READERS))
@pytest.mark.parametrize("threads", [1, 2])
def test_v7_cancel_ends_a_wait_for_another_query(threads: int, kind: str) -> None:
    """V7, D9: the inner query returns nothing, and ends with the query that reads it."""
    session = session_of(threads)
    with endless(session) as inner, ThreadPoolExecutor(1) as pool:
        try:
            result = reading(session, kind)
            rows = pool.submit(result.to_arrow)
            assert settles(lambda: inner.state != "running")
            result.cancel()
            with pytest.raises(qcore.Cancelled):
                rows.result(60)
            assert inner.state == "cancelled"
        finally:
            inner.cancel()  # otherwise the pool would wait forever


@pytest.mark.parametrize("kind", every(3, READERS))
def test_v7_a_timeout_ends_a_wait_for_another_query(kind: str) -> None:
    session = session_of(2, timeout=1)
    with endless(session) as inner:
        with pytest.raises(qcore.Timeout):
            reading(session, kind).to_arrow()
        assert inner.state != "running"


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """Whether the process gets SIGINT. Processes started in the background of a shell ignore it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("kind", every(3, READERS))
def test_v7_ctrl_c_ends_a_wait_for_another_query(kind: str) -> None:
    session = session_of(2)
    with endless(session) as inner:

        def interrupt() -> None:
            if settles(lambda: inner.state != "running"):
                _thread.interrupt_main()

        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            reading(session, kind).to_arrow()
        other.join()
        assert inner.state == "cancelled"


def test_v11_cancel_ends_a_wait_for_pages() -> None:
    """V11: the other task returns no page."""
    plan = qcore.PlanBuilder().scan("never", schema=TABLE.schema).partitioned_output(["a"], 2).build()
    inner = qcore.Task(plan, drivers=1)
    buffers = inner.output_buffers()
    outer = qcore.Task(qcore.PlanBuilder().scan("pages", source=buffers.reader(0)).build(), drivers=2)
    outer.start()
    assert settles(lambda: outer.progress()[1] == 0)
    outer.cancel()
    with pytest.raises(qcore.Cancelled):
        outer.wait(60)
    assert inner.state == "running"
    buffers.close()
    inner.wait(60)
