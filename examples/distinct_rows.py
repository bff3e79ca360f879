"""Distinct rows, with state that all drivers share: a `qcore.Operator` and a polled sink.

    python examples/distinct_rows.py

Each driver has its own Distinct. The function that makes them passes the shared state to each. The sink keeps one count
for each partition. `finish` adds the counts.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

import qcore


class Seen:
    """The keys read so far. A driver calls it once a batch, so that drivers rarely wait for the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: set[Any] = set()

    def first_of(self, keys: list[Any]) -> list[int]:
        """The positions of new keys. Adds these keys."""
        first = []
        with self._lock:
            for position, key in enumerate(keys):
                if key not in self._keys:
                    self._keys.add(key)
                    first.append(position)
        return first


class Distinct(qcore.Operator):
    """Returns the first row of each key and drops the others."""

    def __init__(self, key: str, seen: Seen) -> None:
        self._key = key
        self._seen = seen
        self._ready: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self._ready is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        first = self._seen.first_of(batch.column(self._key).to_pylist())
        if first:
            self._ready = batch.take(pa.array(first, pa.int64()))

    def get_output(self) -> pa.RecordBatch | None:
        ready, self._ready = self._ready, None
        return ready


class RowCount(qcore.SinkOperator):
    """Counts rows. `total` is set when every partition has finished."""

    total: int | None = None

    def init_global_state(self, cx: Any) -> dict[str, Any]:
        return {"lock": threading.Lock(), "rows": 0, "unfinished": cx.partitions}

    def init_local_state(self, cx: Any, global_state: Any) -> dict[str, int]:
        return {"rows": 0}

    def poll_push(
        self, cx: Any, local: dict[str, int], global_state: Any, batch: pa.RecordBatch, partition: int
    ) -> qcore.PollPush:
        local["rows"] += batch.num_rows
        return qcore.PollPush.PUSHED

    def finish(self, cx: Any, local: dict[str, int], global_state: dict[str, Any], partition: int) -> None:
        with global_state["lock"]:
            global_state["rows"] += local["rows"]
            global_state["unfinished"] -= 1
            if global_state["unfinished"] == 0:
                self.total = global_state["rows"]


def distinct_count(table: pa.Table, key: str, threads: int = 2) -> int | None:
    """The number of distinct values of the column `key`."""
    seen = Seen()
    sink = RowCount()
    plan = (
        qcore.PlanBuilder()
        .values(table)
        .local_partition(drivers=threads)
        .operator(lambda: Distinct(key, seen))
        .sink(sink)
        .build()
    )
    task = qcore.Task(plan, drivers=threads, batch_rows=1000)
    task.start()
    task.wait()
    return sink.total


if __name__ == "__main__":
    cities = pa.table({"city": ["Bern", "Basel", "Bern", "Genf"] * 10_000})
    print(f"{distinct_count(cities, 'city')} cities")
