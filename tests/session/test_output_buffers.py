"""Output buffers and partition files of a task, from the outside (SPEC V11, V7, V8, D9)."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, col
from qcore.plan.nodes import Scan
from qcore_ext.ground.fault import Faults
from random_tables import NESTED_TYPES, random_table

TABLE = random_table(3, 10_000, {"k": pa.int64(), "s": pa.string(), "x": pa.float64()}, 0.1, n_distinct={"k": 500})
# Several pages for each of two partitions or drivers.
NUMBERS = pa.table({"k": pa.array(range(700_000), pa.int64())})


def assert_numbers(parts: list[Any], times: int = 1) -> None:
    """Assert that the rows are those of NUMBERS, each `times` times."""
    found = pa.concat_tables([part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in parts])
    assert (
        found.sort_by("k")["k"]
        .combine_chunks()
        .equals(pa.concat_tables([NUMBERS] * times).sort_by("k")["k"].combine_chunks())
    )


def plan_of(data: Any = TABLE, keys: Any = "k", partitions: int = 4, **options: Any) -> Any:
    return PlanBuilder().values(data).partitioned_output(keys, partitions, **options).build()


def read_all(buffers: qcore.OutputBuffers) -> list[pa.Table]:
    """Read every partition in a thread of its own."""
    with ThreadPoolExecutor(buffers.n_partitions) as pool:
        readers = [buffers.reader(partition) for partition in range(buffers.n_partitions)]
        return list(pool.map(lambda reader: pa.Table.from_batches(reader, schema=reader.schema), readers))


def waits(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


class Endless(qcore.SourceOperator):
    """A source without end."""

    def output_schema(self, schema: Any) -> pa.Schema:
        return pa.schema({"k": pa.int64()})

    def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> Any:
        return qcore.PollPull.batch(pa.record_batch({"k": range(1000)}))


class Failing(qcore.Operator):
    """An operator that returns some batches and then fails."""

    def __init__(self) -> None:
        self.n = 0
        self.held: Any = None

    def needs_input(self) -> bool:
        return self.held is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.n += 1
        if self.n == 3:
            raise ValueError("broken on purpose")
        self.held = batch

    def get_output(self) -> Any:
        held, self.held = self.held, None
        return held


# --- kinds ---


@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("partitions", [1, 2, 16])
def test_partitioned(drivers: int, partitions: int) -> None:
    """V11: every row in one partition, rows of one key in the same."""
    plan = PlanBuilder().values(TABLE).local_partition().partitioned_output(["k"], partitions).build()
    task = qcore.Task(plan, drivers=drivers)
    parts = read_all(task.output_buffers())
    task.wait(20)
    assert_same_rows(pa.concat_tables(parts), TABLE)
    keys = [set(part["k"].to_pylist()) for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))


def test_broadcast() -> None:
    """V11: every consumer gets all rows; a page is held once, until the last has acknowledged it."""
    task = qcore.Task(plan_of(NUMBERS, keys=(), partitions=3, kind="broadcast"), drivers=1)
    buffers = task.output_buffers()
    task.wait(20)
    held = buffers.n_bytes
    for partition in range(3):
        assert buffers.n_bytes == held
        assert_numbers(list(buffers.reader(partition)))
    assert buffers.n_bytes == 0


def test_arbitrary() -> None:
    """V11: each page goes to the consumer that asks first. A consumer that does not ask gets nothing."""
    source = PlanBuilder().values(NUMBERS).local_partition()
    task = qcore.Task(source.partitioned_output((), 3, kind="arbitrary").build(), drivers=2)
    buffers = task.output_buffers()
    task.wait(20)
    first = buffers.fetch(0, 0, max_bytes=1)
    second = buffers.fetch(2, 0, max_bytes=1)
    assert len(first.batches) == len(second.batches) == 1
    again = buffers.fetch(0, 0, max_bytes=1)
    assert again.batches == first.batches
    rows = [*first.batches, *second.batches]
    for partition in (0, 2):
        sequence, complete = 1, False
        while not complete:
            pages = buffers.fetch(partition, sequence)
            rows += pages.batches
            sequence, complete = pages.next_sequence, pages.complete
        buffers.acknowledge(partition, sequence)
    assert_numbers(rows)
    last = buffers.fetch(1, 0)
    assert last.complete and not last.batches


# --- fetch, acknowledge, replay ---


def test_pages_are_given_again_until_acknowledged() -> None:
    """V11: a consumer that asks twice can still read each page exactly once."""
    task = qcore.Task(plan_of(NUMBERS, partitions=2), drivers=1)
    buffers = task.output_buffers()
    task.wait(20)
    pages = buffers.fetch(0, 0, max_bytes=1)
    assert len(pages.batches) == 1 and not pages.complete
    assert buffers.fetch(0, 0, max_bytes=1).batches == pages.batches
    both = buffers.fetch(0, 0, max_bytes=1 << 40)
    assert both.batches[0] == pages.batches[0] and len(both.batches) > 1 and both.complete
    later = buffers.fetch(0, 1, max_bytes=1)
    assert later.batches[0] == both.batches[1] and later.sequence == 1
    with pytest.raises(qcore.ExecutionError, match="page 0 of partition 0 was acknowledged and is gone; page 1 is"):
        buffers.fetch(0, 0)
    with pytest.raises(qcore.ExecutionError, match=f"no page 99 yet; fetch or acknowledge up to {both.next_sequence}"):
        buffers.fetch(0, 99)
    held = buffers.n_bytes
    buffers.acknowledge(0, 2)
    buffers.acknowledge(0, 1)
    assert buffers.n_bytes < held
    buffers.acknowledge(0, both.next_sequence)
    end = buffers.fetch(0, both.next_sequence)
    assert end.complete and not end.batches
    assert buffers.stats()[0]["held"] == 0
    with pytest.raises(qcore.PlanError, match="there is no partition 2; they are numbered 0 to 1"):
        buffers.fetch(2, 0)
    buffers.close()


def test_a_fetch_is_charged_to_the_query() -> None:
    """V7: copies that a fetch makes are charged beside the pages that the buffer keeps."""
    rows = pa.table({"k": pa.array(range(1_000_000), pa.int64())})
    plan = PlanBuilder().values(rows, trusted=True).partitioned_output("k", 1, buffer_bytes=10 << 20).build()
    with qcore.Task(plan, drivers=1, memory_limit=14 << 20).output_buffers() as buffers:
        assert waits(lambda: buffers.n_bytes >= 8_000_000)
        with pytest.raises(qcore.MemoryLimitError, match=r"fetch\(\) copies \d+ pages; fetch fewer bytes"):
            buffers.fetch(0, 0, None)
        found, sequence, complete = [], 0, False
        while not complete:
            pages = buffers.fetch(0, sequence, 1 << 20)
            found += pages.batches
            sequence, complete = pages.next_sequence, pages.complete
    assert pa.Table.from_batches(found).equals(rows)


def test_a_reader_takes_its_pages() -> None:
    """V7: they are the reader's from then on, and not charged."""
    rows = pa.table({"k": pa.array(range(1_000_000), pa.int64())})
    plan = PlanBuilder().values(rows, trusted=True).partitioned_output("k", 1, buffer_bytes=10 << 20).build()
    task = qcore.Task(plan, drivers=1, memory_limit=14 << 20)
    with task.output_buffers() as buffers:
        assert waits(lambda: buffers.n_bytes >= 8_000_000)
        reader = buffers.reader(0)
        found = [next(reader)]
        with pytest.raises(qcore.ExecutionError, match="acknowledged"):
            buffers.fetch(0, 0)
        found += reader
        assert list(reader) == []
        task.wait(20)
        assert task.stats()["reserved_bytes"] < 1 << 20
    assert pa.Table.from_batches(found).equals(rows)


def test_a_fetch_waits_no_longer_than_its_timeout() -> None:
    started = threading.Event()

    def late() -> Iterator[pa.RecordBatch]:
        started.wait(20)
        yield from TABLE.to_batches()

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, late())
    plan = PlanBuilder().scan("t", source=reader).partitioned_output("k", 2).build()
    buffers = qcore.Task(plan, drivers=1).output_buffers()
    pages = buffers.fetch(0, 0, timeout=0.01)
    assert not pages.batches and not pages.complete and pages.next_sequence == 0
    started.set()
    assert_same_rows(pa.concat_tables(read_all(buffers)), TABLE)


def test_by_task_id() -> None:
    """V11: fetched by (task, partition, sequence)."""
    manager = qcore.OutputBufferManager.instance()
    task = qcore.Task(plan_of(partitions=2), drivers=1, id="query 7, stage 2")
    task.start()
    with pytest.raises(qcore.PlanError, match="task id 'query 7, stage 2' is in use in this process"):
        qcore.Task(plan_of(partitions=2), drivers=1, id="query 7, stage 2")
    rows = 0
    for partition in range(2):
        pages = manager.fetch("query 7, stage 2", partition, 0, max_bytes=None)
        while not pages.complete:
            rows += sum(batch.num_rows for batch in pages.batches)
            pages = manager.fetch("query 7, stage 2", partition, pages.next_sequence, max_bytes=None)
        rows += sum(batch.num_rows for batch in pages.batches)
        manager.acknowledge("query 7, stage 2", partition, pages.next_sequence)
    assert rows == TABLE.num_rows
    task.wait(20)
    del task
    gc.collect()
    with pytest.raises(qcore.QcoreError, match="no output of a task 'query 7, stage 2'"):
        manager.abandon("query 7, stage 2", 0)


def test_pages_as_bytes() -> None:
    """V11: pages are sent as an Arrow IPC stream."""
    buffers = qcore.Task(plan_of(partitions=2), drivers=1).output_buffers()
    tables = []
    for partition in range(2):
        pages = buffers.fetch(partition, 0)
        while not pages.complete:
            pages = buffers.fetch(partition, 0, timeout=1)
        tables.append(pa.ipc.open_stream(pages.to_ipc()).read_all())
    assert_same_rows(pa.concat_tables(tables), TABLE)
    end = buffers.fetch(0, buffers.stats()[0]["pages"])
    assert pa.ipc.open_stream(end.to_ipc()).schema == buffers.schema
    buffers.close()


# --- back-pressure, consumers gone, failure ---


@pytest.mark.parametrize("kind", ["partitioned", "broadcast", "arbitrary"])
def test_producers_wait_while_too_much_is_held(kind: str) -> None:
    """V11, V7: the bound is in bytes, the reason 'consumer'. No thread waits. Acknowledged pages wake the producers."""
    keys = "k" if kind == "partitioned" else ()
    task = qcore.Task(plan_of(NUMBERS, keys, 2, kind=kind, buffer_bytes=1 << 20), drivers=1)
    buffers = task.output_buffers()

    def sink() -> Any:
        return task.stats()["pipelines"][-1]["operators"][-1]

    assert waits(lambda: "consumer" in sink()["blocked_wall_nanos"])
    # One page more than the limit. The waiting producer holds no thread, so another query runs on the only one.
    assert buffers.n_bytes <= (1 << 20) + (1 << 20)
    session = qcore.Session(threads=1)
    assert session.sql("select sum(k) as s from t", {"t": NUMBERS}).to_arrow()["s"][0].as_py() == 244_999_650_000
    assert task.state == "running"
    parts = read_all(buffers)
    task.wait(20)
    assert_numbers(parts, 2 if kind == "broadcast" else 1)
    assert buffers.n_bytes == 0


def test_a_consumer_that_is_gone() -> None:
    """V11: the pages of a consumer that is gone are dropped. The other consumers get theirs."""
    task = qcore.Task(plan_of(pa.concat_tables([TABLE] * 10), partitions=4, buffer_bytes=1 << 16), drivers=1)
    buffers = task.output_buffers()
    buffers.abandon(1)
    buffers.abandon(1)
    with pytest.raises(qcore.ExecutionError, match="the consumer of partition 1 has dropped its pages"):
        buffers.fetch(1, 0)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda p: pa.Table.from_batches(buffers.reader(p)), (0, 2, 3)))
    task.wait(20)
    assert buffers.stats()[1]["gone"] and buffers.n_bytes == 0
    rest = buffers.stats()[1]["rows"]
    assert sum(part.num_rows for part in parts) + rest <= TABLE.num_rows * 10


@pytest.mark.parametrize("kind", ["partitioned", "broadcast", "arbitrary"])
def test_producers_stop_when_all_consumers_are_gone(kind: str) -> None:
    """V8, V11: an endless source ends, as it does after a LIMIT."""
    keys = "k" if kind == "partitioned" else ()
    for wait_until_full in (False, True):
        plan = (
            PlanBuilder().source(Endless(), partitions=2).partitioned_output(keys, 3, kind=kind, buffer_bytes=1 << 18)
        )
        task = qcore.Task(plan.build(), drivers=2)
        buffers = task.output_buffers()
        if wait_until_full:
            assert waits(lambda: buffers.n_bytes >= 1 << 18)  # noqa: B023
        assert buffers.fetch(0, 0).batches
        buffers.reader(0).close()
        with buffers:
            assert task.state == "running"
        task.wait(20)
        assert task.state == "finished" and buffers.n_bytes == 0


def test_a_task_that_fails() -> None:
    """V11, D9: each fetch raises the task's error, also a fetch that waits."""
    batches = pa.table({"k": range(10_000)}).to_batches(max_chunksize=1000)
    plan = PlanBuilder().values(pa.Table.from_batches(batches)).operator(Failing).partitioned_output("k", 2).build()
    task = qcore.Task(plan, drivers=1, batch_rows=1000)
    buffers = task.output_buffers()
    for partition in (0, 1):
        with pytest.raises(qcore.ExecutionError, match=r"Failing \(node 1\).*ValueError: broken on purpose"):
            buffers.fetch(partition, 0)
    assert task.state == "failed"


def test_a_fetch_that_waits_is_woken() -> None:
    """V7: a fetch wakes when its consumer is closed, and when the task is cancelled."""
    plan = PlanBuilder().source(Endless()).filter(col("k") < 0).partitioned_output("k", 2).build()
    task = qcore.Task(plan, drivers=1)
    buffers = task.output_buffers()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(buffers.fetch, 1, 0)
        time.sleep(0.05)
        buffers.abandon(1)
        assert isinstance(waiting.exception(20), qcore.ExecutionError)
        waiting = pool.submit(buffers.fetch, 0, 0)
        time.sleep(0.05)
        task.cancel()
        assert isinstance(waiting.exception(20), qcore.Cancelled)


def test_pages_without_a_consumer_are_freed_with_the_task() -> None:
    task = qcore.Task(plan_of(), drivers=2)
    task.output_buffers()
    task.wait(20)
    qcore.Task(plan_of(), drivers=2)


# --- uses of output buffers ---


@pytest.mark.parametrize("workers", [1, 3])
def test_two_stages_equal_one(workers: int, duck: Any) -> None:
    """V11: partial groups go to the tasks that complete them."""
    first = PlanBuilder().values(TABLE).aggregate(["k"], {"s": ("sum", "x"), "n": ("count",)})
    task = qcore.Task(first.partitioned_output("k", workers).build(), drivers=2)
    buffers = task.output_buffers()

    def stage(partition: int) -> pa.Table:
        rows = PlanBuilder().scan("p", source=buffers.reader(partition))
        groups = rows.aggregate(["k"], {"s": ("sum", "s"), "n": ("sum", "n")})
        return qcore.Session(threads=1).execute(groups.build()).to_arrow()

    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(stage, range(workers)))
    duck.register("t", TABLE)
    assert_same_rows(pa.concat_tables(parts), duck.sql("select k, sum(x), count(*) from t group by k"))


def test_a_partition_is_spread_evenly_by_the_next_task() -> None:
    """An exchange of the next task uses the same hash, and must not send the whole partition to one driver."""
    table = pa.table({"k": pa.array(range(80_000), pa.int64())})
    buffers = qcore.Task(plan_of(table, partitions=4), drivers=1).output_buffers()
    part = read_all(buffers)[2]
    again = PlanBuilder().values(part).local_partition(["k"], drivers=4).partitioned_output((), 1, kind="arbitrary")
    task = qcore.Task(again.build(), drivers=4)
    read_all(task.output_buffers())
    task.wait(20)
    rows = [driver["input_rows"] for driver in task.stats()["pipelines"][-1]["operators"][-1]["drivers"]]
    assert max(rows) < 1.2 * min(rows)


@pytest.mark.parametrize("type_", NESTED_TYPES, ids=str)
def test_nested_columns_travel(type_: pa.DataType) -> None:
    """Q3: lists, structs and maps, through pages and files."""
    table = random_table(1, 3000, {"k": pa.int64(), "v": type_})
    parts = read_all(qcore.Task(plan_of(table), drivers=2).output_buffers())
    assert_same_rows(pa.concat_tables(parts), table)


def test_wrong_use_is_refused() -> None:
    builder = PlanBuilder().values(TABLE)
    for message, call in {
        "kind": lambda: builder.partitioned_output("k", 2, kind="hashed"),
        "needs keys": lambda: builder.partitioned_output((), 2),
        "takes no keys": lambda: builder.partitioned_output("k", 2, kind="broadcast"),
        "partitions must be 1 to 4,096, not 5000": lambda: builder.partitioned_output("k", 5000),
        "buffer_bytes must be 1 or more": lambda: builder.partitioned_output("k", 2, buffer_bytes=0),
        "column 'z'": lambda: builder.partitioned_output("z", 2),
        "sink ends the plan": lambda: builder.partitioned_output("k", 2).filter("x > 1"),
        "not to a int": lambda: builder.partitioned_output("k", 2, path=5),
        "the local file system": lambda: builder.partitioned_output("k", 2, path="s3://bucket/x"),
        "create it first": lambda: builder.partitioned_output("k", 2, path="/nowhere/at/all"),
    }.items():
        with pytest.raises(qcore.PlanError, match=message):
            call()
    lists = PlanBuilder().values(pa.table({"l": [[1]]}))
    with pytest.raises(qcore.PlanError, match=r"column 'l' is list<.*>, which cannot be hashed"):
        lists.partitioned_output("l", 2)
    task = qcore.Task(builder.build(), drivers=1)
    with pytest.raises(qcore.PlanError, match="no output buffers"):
        task.output_buffers()
    task = qcore.Task(plan_of(), drivers=1)
    with pytest.raises(qcore.PlanError, match=r"rows come from task\.output_buffers"):
        list(task.batches())
    with pytest.raises(qcore.PlanError, match=r"rows come from task\.output_buffers"):
        qcore.Session(threads=1).execute(plan_of()).to_arrow()


def test_explain_says_where_rows_go(tmp_path: Path) -> None:
    """G7."""
    text = qcore.Session(threads=1).execute(plan_of(path=tmp_path / "out")).explain()
    # Long paths are cut.
    assert f"PartitionedOutput partitioned into 4 by [k] files in {tmp_path}"[:70] in text


# --- files ---


@pytest.mark.parametrize("drivers", [1, 3])
def test_files(drivers: int, tmp_path: Path) -> None:
    """V11: one Arrow file a partition and a manifest; a downstream task scans them."""
    plan = PlanBuilder().values(TABLE).local_partition().partitioned_output("k", 4, path=tmp_path / "out").build()
    task = qcore.Task(plan, drivers=drivers)
    task.start()
    task.wait(20)
    manifest = qcore.PartitionManifest.read(tmp_path / "out")
    assert manifest.n_partitions == 4 and manifest.keys == ("k",) and sum(manifest.rows) == TABLE.num_rows
    assert sorted(os.listdir(tmp_path)) == ["out"]
    buffers = qcore.Task(plan_of(), drivers=1).output_buffers()
    for partition, expected in enumerate(read_all(buffers)):
        rows = PlanBuilder().scan("p", source=manifest.file(partition)).build()
        assert_same_rows(qcore.Session(threads=2).execute(rows).to_arrow(), expected)
        assert manifest.rows[partition] == expected.num_rows
        assert manifest.bytes[partition] == os.path.getsize(manifest.file(partition))
    with pytest.raises(qcore.QcoreError, match="has no partition 4; it has 4"):
        manifest.file(4)
    with pytest.raises(qcore.PlanError, match="out exists already"):
        qcore.Task(plan, drivers=1)


def test_files_of_no_rows(tmp_path: Path) -> None:
    task = qcore.Task(plan_of(TABLE.slice(0, 0), path=tmp_path / "out"), drivers=1)
    assert list(task.batches()) == []
    manifest = qcore.PartitionManifest.read(tmp_path / "out")
    assert manifest.rows == (0, 0, 0, 0)
    assert pa.ipc.open_file(manifest.file(3)).read_all().schema.names == TABLE.column_names


def test_a_task_that_fails_leaves_no_files(tmp_path: Path) -> None:
    """D9, V11: the folder exists complete or not at all."""
    builder = PlanBuilder().values(TABLE).operator(Failing)
    task = qcore.Task(builder.partitioned_output("k", 2, path=tmp_path / "out").build(), drivers=1, batch_rows=1000)
    with pytest.raises(qcore.ExecutionError, match="broken on purpose"):
        list(task.batches())
    assert os.listdir(tmp_path) == []
    endless = PlanBuilder().source(Endless()).partitioned_output("k", 2, path=tmp_path / "out").build()
    task = qcore.Task(endless, drivers=1)
    task.start()
    assert waits(lambda: len(os.listdir(tmp_path)) > 0)
    task.cancel()
    with pytest.raises(qcore.Cancelled):
        task.wait(20)
    assert os.listdir(tmp_path) == []
    with pytest.raises(qcore.QcoreError, match="holds no complete partitions"):
        qcore.PartitionManifest.read(tmp_path)


def test_a_target_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    task = qcore.Task(plan_of(path=tmp_path / "out"), drivers=1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(qcore.ExecutionError, match="exists already"):
        list(task.batches())
    assert os.listdir(tmp_path / "out") == ["mine"] and os.listdir(tmp_path) == ["out"]


def test_d9_a_wait_for_pages_may_fail() -> None:
    """D9, V11: the error is raised without the buffer's lock (conftest.py checks). The next fetch gets the pages."""
    task = qcore.Task(PlanBuilder().scan("never", schema=TABLE.schema).partitioned_output(["k"], 1).build(), drivers=1)
    buffers = task.output_buffers()
    assert waits(lambda: bool(task.stats()["pipelines"][0]["operators"][0]["blocked_times"]))
    for _ in range(2):
        with Faults("wait", 1), pytest.raises(qcore.MemoryLimitError, match="injected fault: wait"):
            buffers.fetch(0, 0)
    (scan,) = (node for node in task.plan.walk() if isinstance(node, Scan))
    task.no_more_splits(scan.id)
    assert buffers.fetch(0, 0).complete
    task.wait(60)
