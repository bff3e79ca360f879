"""The ends of a run's plan, and the rows that arrived there: a reader, sinks in Python, files, pages (V11, V12, H3)."""

from __future__ import annotations

import os
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import qcore
from driver_fuzz.epochs import is_text
from driver_fuzz.scenario import Scenario
from driver_fuzz.user_operators import Collected
from qcore import PlanBuilder
from qcore.builder.sink_steps import OUTPUT_KINDS

FILES = ("parquet", "partition files")
# The seconds that a consumer waits for a page.
FETCH_SECONDS = 60.0


class Ending:
    """The end of one run's plan; close() removes its files."""

    def __init__(self, plan: Scenario, rng: random.Random) -> None:
        self.plan = plan
        self.rng = rng
        self.collected = Collected(plan.seed)
        self.folder = tempfile.TemporaryDirectory() if plan.sink in FILES else None
        self.keys: list[str] = []
        self.kind = ""

    def close(self) -> None:
        """Remove the written files."""
        if self.folder is not None:
            self.folder.cleanup()

    @property
    def path(self) -> Path:
        """The folder of the written files."""
        assert self.folder is not None
        return Path(self.folder.name)

    def put(self, builder: PlanBuilder) -> PlanBuilder:
        """The plan with this end."""
        sink, rng = self.plan.sink, self.rng
        if sink == "parquet":
            target = self.path / rng.choice(("rows.parquet", "rows"))
            return builder.write_parquet(target, row_group_rows=rng.choice((1, 50, 10**6)))
        if sink in ("pages", "partition files"):
            self.kind = rng.choice(OUTPUT_KINDS) if sink == "pages" else "partitioned"
            if self.kind == "partitioned":
                self.keys = rng.sample(hashable(builder.build().schema), 1)
            path = self.path / "rows" if sink == "partition files" else None
            more: dict[str, Any] = {"buffer_bytes": rng.choice((1, 1000, 1 << 20))}
            return builder.partitioned_output(self.keys, rng.randint(1, 4), self.kind, path, **more)
        return self.collected.end(sink, builder) if sink else builder

    def rows(self, got: list[Any]) -> list[list[pa.RecordBatch]]:
        """The batches of each consumer. Each should have every row. `got` are the batches of the reader."""
        sink = self.plan.sink
        if sink == "parquet":
            files = pa.Table.from_batches(got).to_pylist() if got else []
            tables = [pq.read_table(file["path"], partitioning=None) for file in files]
            assert [table.num_rows for table in tables] == [file["rows"] for file in files]
            return [[batch for table in tables for batch in table.to_batches()]]
        if sink == "partition files":
            manifest = qcore.PartitionManifest.read(self.path / "rows")
            tables = [pa.ipc.open_file(manifest.file(i)).read_all() for i in range(manifest.n_partitions)]
            assert [table.num_rows for table in tables] == list(manifest.rows)
            parts = [table.to_batches() for table in tables]
        elif sink == "pages":
            parts = got
        else:
            return [self.collected.batches if sink else got]
        if self.kind == "broadcast":
            return parts
        self.check_keys(parts)
        return [[batch for part in parts for batch in part]]

    def check_keys(self, parts: list[list[pa.RecordBatch]]) -> None:
        """Fail when rows of one key are in two partitions."""
        met = [{key for batch in part for key in zip(*map(values_of(batch), self.keys), strict=True)} for part in parts]
        assert sum(map(len, met)) == len(set().union(*met)), f"keys in several partitions: {met}"

    def check_files(self, complete: bool) -> None:
        """Fail if the folder has anything but the target, or if the target should exist and does not."""
        if self.folder is None:
            return
        names = os.listdir(self.path)
        assert not [name for name in names if name.startswith(".")], f"left of the writing: {names}"
        assert names or not complete, "nothing was written"


def hashable(schema: pa.Schema) -> list[str]:
    """Columns that may be keys."""
    return [field.name for field in schema if not pa.types.is_nested(field.type)]


def values_of(batch: pa.RecordBatch) -> Any:
    return lambda name: batch.column(name).to_pylist()


class Consumer:
    """The consumer of one partition: it fetches, fetches again, acknowledges, and may leave."""

    def __init__(
        self, buffers: qcore.OutputBuffers, partition: int, rng: random.Random, leaves_after: int | None
    ) -> None:
        self.buffers = buffers
        self.partition = partition
        self.rng = rng
        self.leaves_after = leaves_after
        self.has_left = False

    def run(self) -> list[pa.RecordBatch]:
        """All pages of the partition."""
        got: list[pa.RecordBatch] = []
        complete = False
        while not complete:
            if self.leaves_after is not None and len(got) >= self.leaves_after:
                self.has_left = True
                self.buffers.abandon(self.partition)
                return got
            complete = self.fetch(got)
        self.buffers.acknowledge(self.partition, len(got))
        return got

    def fetch(self, got: list[pa.RecordBatch]) -> bool:
        """Fetch some pages. Returns whether they were the last."""
        n = len(got)
        most = self.rng.choice((1, 1000, None))
        pages = self.buffers.fetch(self.partition, n, most, FETCH_SECONDS)
        assert pages.sequence == n
        assert pages.batches or pages.complete, "no page came in time"
        if self.rng.random() < 0.3:
            # Pages that were not acknowledged are returned again.
            again = self.buffers.fetch(self.partition, n, most, FETCH_SECONDS)
            assert again.batches[: len(pages.batches)] == pages.batches
        if self.rng.random() < 0.3:
            self.buffers.acknowledge(self.partition, n + len(pages.batches))
        got += pages.batches
        return pages.complete


def consume(task: qcore.Task, plan: Scenario, rng: random.Random) -> tuple[str, list[list[pa.RecordBatch]]]:
    """Fetch the pages of every partition in one thread each. Returns the end of the query."""
    buffers = task.output_buffers()
    leaving = plan.step if plan.fault == "leave" else None
    consumers = [
        Consumer(buffers, i, random.Random(rng.getrandbits(32)), leaving if rng.random() < 0.7 else None)
        for i in range(buffers.n_partitions)
    ]
    with ThreadPoolExecutor(buffers.n_partitions) as pool:
        running = [pool.submit(consumer.run) for consumer in consumers]
    errors = [error for future in running if (error := future.exception()) is not None]
    if errors:
        assert len({str(error) for error in errors}) == 1, errors
        raise errors[0]
    task.wait(FETCH_SECONDS)
    assert buffers.n_bytes == 0
    left = any(consumer.has_left for consumer in consumers)
    return "left" if left else "finished", [future.result() for future in running]


def unify_batches(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The columns of `schema` of batches of several schemas, in types that hold all; text as string."""
    tables = []
    for batch in batches:
        assert set(schema.names) <= set(batch.schema.names) <= {*schema.names, "extra"}, batch.schema
        columns = [batch.column(name) for name in schema.names]
        columns = [pa.array(c.to_pylist(), pa.string()) if is_text(c.type) else c for c in columns]
        tables.append(pa.Table.from_arrays(columns, schema.names))
    return pa.concat_tables(tables, promote_options="permissive") if tables else schema.empty_table()
