"""A result as another query's table, in one session: they share its threads (SPEC V7, D3)."""

from __future__ import annotations

import pyarrow as pa
import pytest

import qcore

N_ROWS = 100_000
TABLE = pa.table({"a": range(N_ROWS)})


def nested(session: qcore.Session, depth: int, text: str) -> qcore.Result:
    """A query over the result of a query … over the table `t`."""
    result = session.sql(text)
    for level in range(depth):
        session.register(f"u{level}", pa.RecordBatchReader.from_stream(result))
        result = session.sql(f"select a + 1 as a from u{level} order by a desc")
    return result


def session_of(threads: int) -> qcore.Session:
    session = qcore.Session(threads=threads, batch_rows=1000)
    session.register("t", TABLE)
    return session


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_v7_a_result_is_another_querys_source(threads: int, depth: int) -> None:
    """V7: drivers that wait for the inner query, or for who does, leave it threads to run on."""
    session = session_of(threads)
    for _ in range(3):
        result = nested(session, depth, "select a from t where a % 2 = 0 order by a desc").to_arrow()
        assert result["a"].to_pylist() == [a + depth for a in range(N_ROWS - 2, -1, -2)]


@pytest.mark.parametrize("threads", [1, 2])
def test_v8_leaving_early_ends_them_all(threads: int) -> None:
    """V8: the inner queries are still running when the outer one has enough."""
    session = session_of(threads)
    session.register("u", pa.RecordBatchReader.from_stream(session.sql("select x.a from t x, t y")))
    session.register("v", pa.RecordBatchReader.from_stream(session.sql("select a + 1 as a from u")))
    assert session.sql("select a from v limit 10").to_arrow().num_rows == 10


@pytest.mark.parametrize("threads", [1, 2])
def test_v9_the_inner_querys_error_comes_out_once(threads: int) -> None:
    session = session_of(threads)
    with pytest.raises(qcore.ExecutionError, match="division by zero") as raised:
        nested(session, 3, "select 1 / (a - 99999) as a from t").to_arrow()
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
