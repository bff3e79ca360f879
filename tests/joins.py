"""Runs joins over tables with one thread for each driver, and the same joins in DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_testing.operators import run_chain

KINDS = (
    "inner",
    "left",
    "right",
    "full",
    "left_semi",
    "left_anti",
    "right_semi",
    "right_anti",
    "null_aware_anti",
    "mark",
    "null_aware_mark",
)
PROBE_ONLY = ("left_semi", "left_anti", "null_aware_anti")
BUILD_ONLY = ("right_semi", "right_anti")
MARKS = ("mark", "null_aware_mark")


def split(table: pa.Table, n_parts: int, batch_rows: int | None) -> list[list[pa.RecordBatch]]:
    """Divide the table's batches among drivers."""
    batches = table.to_batches(max_chunksize=batch_rows)
    return [batches[part::n_parts] for part in range(n_parts)]


def output_of(kind: str, probe: Sequence[str], build: Sequence[str]) -> list[tuple[str, str, str]]:
    """All columns that a join of this kind can return."""
    columns = []
    if kind not in BUILD_ONLY:
        columns += [("probe", name, name) for name in probe]
    if kind not in PROBE_ONLY and kind not in MARKS:
        columns += [("build", name, name) for name in build]
    if kind in MARKS:
        columns.append(("mark", "mark", "mark"))
    return columns


def run_together(jobs: Sequence[Callable[[], list[pa.RecordBatch]]]) -> list[pa.RecordBatch]:
    """Run each job in a thread. Returns all their batches, or raises the first error."""
    given: list[Any] = [None] * len(jobs)

    def run(position: int) -> None:
        try:
            given[position] = jobs[position]()
        except BaseException as error:
            given[position] = error

    threads = [threading.Thread(target=run, args=(position,)) for position in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a driver hangs"
    for result in given:
        if isinstance(result, BaseException):
            raise result
    return [batch for result in given for batch in result]


def hash_join(
    probe: pa.Table,
    build: pa.Table,
    kind: str,
    probe_keys: Sequence[str],
    build_keys: Sequence[str],
    drivers: int = 1,
    batch_rows: int | None = None,
    condition: Callable[[Any], Any] | None = None,
    after: Callable[[Account], list[Any]] = lambda memory: [],
    build_columns: Sequence[str] | None = None,
    counters: list[dict[str, Any]] | None = None,
) -> list[pa.RecordBatch]:
    """The batches of a whole hash join, with all drivers running at once. It returns all columns of the build side, or
    the given ones. `counters` gets what each probe driver counted.
    """
    memory = Account()
    bridge = JoinBridge(kind, drivers, drivers, condition is not None, build.schema, probe.schema)
    payload = build.column_names if build_columns is None else list(build_columns)
    output = output_of(kind, probe.column_names, payload)
    probes = []
    jobs: list[Callable[[], list[pa.RecordBatch]]] = []
    for part in split(build, drivers, batch_rows):
        sink = HashBuild("build", memory, bridge, list(build_keys), payload)
        jobs.append(lambda sink=sink, part=part: run_chain([sink], part))
    for part in split(probe, drivers, batch_rows):
        probes.append(HashProbe("probe", memory, bridge, list(probe_keys), output, condition))
        chain = [probes[-1], *after(memory)]
        jobs.append(lambda chain=chain, part=part: run_chain(chain, part))
    batches = run_together(jobs)
    if counters is not None:
        counters += [operator.stats_snapshot() for operator in probes]
    return batches


def as_table(batches: list[pa.RecordBatch], expected: pa.Table) -> pa.Table:
    """A table of the batches, with the expected columns if there is no batch."""
    return pa.Table.from_batches(batches) if batches else expected.slice(0, 0)


def oracle_join(
    duck: duckdb.DuckDBPyConnection,
    probe: pa.Table,
    build: pa.Table,
    kind: str,
    probe_keys: Sequence[str],
    build_keys: Sequence[str],
    condition: str | None = None,
) -> pa.Table:
    """The same join in DuckDB."""
    duck.register("p", probe)
    duck.register("b", build)
    on = " and ".join(f"p.{x} = b.{y}" for x, y in zip(probe_keys, build_keys, strict=True)) or "true"
    if condition is not None:
        on += f" and ({condition})"
    key = f"p.{probe_keys[0]} in (select {build_keys[0]} from b)" if probe_keys else ""
    queries = {
        "inner": f"select * from p join b on {on}",
        "left": f"select * from p left join b on {on}",
        "right": f"select * from p right join b on {on}",
        "full": f"select * from p full join b on {on}",
        "left_semi": f"select * from p where exists (select 1 from b where {on})",
        "left_anti": f"select * from p where not exists (select 1 from b where {on})",
        "right_semi": f"select * from b where exists (select 1 from p where {on})",
        "right_anti": f"select * from b where not exists (select 1 from p where {on})",
        "null_aware_anti": f"select * from p where not ({key})",
        "mark": f"select *, exists (select 1 from b where {on}) as mark from p",
        "null_aware_mark": f"select *, {key} as mark from p",
    }
    return duck.sql(queries[kind]).to_arrow_table()
