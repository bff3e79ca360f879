"""OutputBuffer: numbered pages, acknowledgements, shared pages, limits, producers and consumers. SPEC V11, V7, V8."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError, PlanError
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

# A page has at least 64 rows, so partition 0 gets ten pages.
ROWS = pa.table({"x": pa.array(range(640), pa.int64())})


def fill_buffer(kind: str, n: int = 3, data: Any = ROWS) -> OutputBuffer:
    buffer = OutputBuffer(kind, n, 1, 1 << 40)
    run_chain([PartitionedOutput("1", Account(), buffer, 1, [], page_bytes=1)], data)
    return buffer


def first_values(answer: tuple[list[Any], bool] | None) -> list[int]:
    assert answer is not None
    return [pa.record_batch(page)["x"][0].as_py() for page in answer[0]]


def test_pages_by_number_until_acknowledged() -> None:
    """V11: a page can be fetched again until it is acknowledged. Each acknowledgement releases bytes."""
    buffer = fill_buffer("partitioned")
    starts = list(range(0, 640, 64))
    assert first_values(buffer.fetch(0, 0)) == first_values(buffer.fetch(0, 0)) == starts
    assert buffer.fetch(0, 0)[1] and buffer.fetch(1, 0) == ([], True)
    total = buffer.n_bytes
    assert first_values(buffer.fetch(0, 3)) == starts[3:]
    assert buffer.n_bytes == total * 7 // 10
    buffer.acknowledge(0, 5)
    buffer.acknowledge(0, 4)
    assert first_values(buffer.fetch(0, 5)) == starts[5:]
    with pytest.raises(ExecutionError, match="page 4 of partition 0 was acknowledged and is gone; page 5 is the first"):
        buffer.fetch(0, 4)
    for call in (buffer.fetch, buffer.acknowledge):
        with pytest.raises(ExecutionError, match="partition 0 has no page 11 yet; fetch or acknowledge up to 10"):
            call(0, 11)
    assert buffer.fetch(0, 10) == ([], True)
    assert buffer.n_bytes == 0


def test_as_many_bytes_as_wanted() -> None:
    """A fetch returns at least one page. Only the last fetch is marked complete."""
    buffer = fill_buffer("partitioned")
    page_bytes = buffer.n_bytes // 10
    for wanted, n_pages in ((0, 1), (1, 1), (page_bytes, 1), (2 * page_bytes - 1, 1), (2 * page_bytes, 2)):
        answer = buffer.fetch(0, 0, wanted)
        assert (len(answer[0]), answer[1]) == (n_pages, False)
    assert [len(part) for part in buffer.fetch(0, 9, 1)[:1]] == [1] and buffer.fetch(0, 9, 1)[1]


def test_broadcast_pages_are_held_until_every_consumer_has_them() -> None:
    """V11."""
    buffer = fill_buffer("broadcast")
    total = buffer.n_bytes
    for partition in range(3):
        assert first_values(buffer.fetch(partition, 0)) == list(range(0, 640, 64))
    buffer.acknowledge(0, 10)
    buffer.drop(1)
    assert buffer.n_bytes == total
    buffer.acknowledge(2, 4)
    assert buffer.n_bytes == total * 6 // 10
    assert [stats["held"] for stats in buffer.stats()] == [0, 0, 6]


def test_arbitrary_pages_go_to_the_first_consumer_that_fetches() -> None:
    """V11: a page that one consumer took stays with that consumer."""
    buffer = fill_buffer("arbitrary")
    page_bytes = buffer.n_bytes // 10
    assert first_values(buffer.fetch(1, 0, 2 * page_bytes)) == [0, 64]
    assert first_values(buffer.fetch(1, 0)) == [0, 64]
    answer = buffer.fetch(2, 0)
    assert first_values(answer) == list(range(128, 640, 64)) and answer[1]
    assert buffer.fetch(0, 0) == ([], True)
    assert [stats["pages"] for stats in buffer.stats()] == [0, 2, 8]
    buffer.drop(2)
    buffer.drop(1)
    assert buffer.n_bytes == 0


def test_counters() -> None:
    buffer = fill_buffer("partitioned", 2, ROWS.slice(0, 100))
    buffer.fetch(0, 1)
    first, second = buffer.stats()
    assert first["bytes"] > 0
    assert {**first, "bytes": 0} == {
        "pages": 2, "rows": 100, "bytes": 0, "held": 1, "acknowledged": 1, "gone": False,
    }  # fmt: skip
    assert set(second.values()) == {0}


def test_more_pages_than_the_ring_holds_while_its_head_moves() -> None:
    """The ring of a partition grows while its first page is in the middle of the ring."""
    buffer = OutputBuffer("partitioned", 1, 40, 1 << 40)
    put = 0
    for taken in range(1, 41):
        run_chain([PartitionedOutput("1", Account(), buffer, 1, [], page_bytes=1)], ROWS.slice(0, 192))
        put += 3
        buffer.acknowledge(0, taken)
        values = first_values(buffer.fetch(0, taken, timeout=0))
        assert values == [number % 3 * 64 for number in range(taken, put)]


def test_a_consumer_that_is_gone() -> None:
    """V8: its pages are dropped. Producers stop when no consumer is left."""
    buffer = fill_buffer("partitioned")
    buffer.drop(0)
    buffer.drop(0)
    assert buffer.n_bytes == 0 and buffer.stats()[0]["gone"]
    with pytest.raises(ExecutionError, match="the consumer of partition 0 has dropped its pages"):
        buffer.fetch(0, 0)
    buffer = OutputBuffer("broadcast", 2, 1)
    for partition in range(2):
        buffer.drop(partition)
    operator = PartitionedOutput("1", Account(), buffer, 1, [])
    run_chain([operator], ROWS)
    assert operator.stats_snapshot()["input_rows"] == 0


def test_a_fetch_waits_for_a_page_and_for_the_end() -> None:
    """V7: a fetch waits at most as long as its timeout."""
    buffer = OutputBuffer("partitioned", 2, 2, 1 << 40)
    started = time.monotonic()
    assert buffer.fetch(0, 0, timeout=0.05) == ([], False)
    assert time.monotonic() - started >= 0.05
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda at=at: answers.append((at, buffer.fetch(at, 0)))) for at in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    run_chain([PartitionedOutput("1", Account(), buffer, 1, [])], ROWS)
    threads[0].join(30)
    assert [at for at, _ in answers] == [0] and not answers[0][1][1]
    run_chain([PartitionedOutput("1", Account(), buffer, 1, [])], [])
    threads[1].join(30)
    assert answers[1] == (1, ([], True))
    assert buffer.fetch(0, 0)[1]


@pytest.mark.parametrize("free", ["acknowledge", "drop"])
def test_producers_wait_while_too_much_is_held(free: str) -> None:
    """V11, V7: a page may exceed the limit. The next producer waits until it is acknowledged."""
    buffer = OutputBuffer("partitioned", 1, 1, 1)
    operator = PartitionedOutput("1", Account(), buffer, 1, [], page_bytes=1)
    thread = threading.Thread(target=lambda: run_chain([operator], ROWS))
    thread.start()
    deadline = time.monotonic() + 30
    while not operator.stats_snapshot()["is_blocked"]["calls"] and time.monotonic() < deadline:
        time.sleep(0.001)  # a consumer that is as fast as the producer would never let it wait
    for taken in range(3):
        answer = buffer.fetch(0, taken)
        assert first_values(answer) == [taken * 64] and not answer[1]
    if free == "drop":
        buffer.drop(0)
    else:
        for taken in range(3, 11):
            assert len(buffer.fetch(0, taken)[0]) == (taken < 10)
    thread.join(30)
    assert not thread.is_alive()
    assert operator.stats_snapshot()["blocked_times"]["consumer"] >= 1


def test_a_producer_that_fails_breaks_the_buffer() -> None:
    buffer = OutputBuffer("partitioned", 2, 1, 1 << 40)
    with pytest.raises(Exception, match="memory"):
        run_chain([PartitionedOutput("1", Account(None, 100), buffer, 1, [])], ROWS)
    assert buffer.fetch(0, 0) is None and buffer.fetch(1, 0) is None


def test_an_unknown_partition_is_named() -> None:
    buffer = fill_buffer("partitioned")
    for call in (buffer.drop, buffer.check_partition, lambda partition: buffer.fetch(partition, 0)):
        for partition in (-1, 3):
            with pytest.raises(PlanError, match=f"there is no partition {partition}; they are numbered 0 to 2"):
                call(partition)
    with pytest.raises(ValueError, match="at least one producer and a limit of at least one byte"):
        OutputBuffer("partitioned", 1, 0)
