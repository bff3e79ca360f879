"""Every call to a file system made to fail, in connectors and in writers (SPEC D9, V10, V11).

The error surfaces once and names the operator or the file; nothing is left, in memory (conftest.py looks after each
test) or on disk; the same query then runs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from operator_plans import CASES, LEFT, RIGHT, random_rows
from oracle import assert_same_rows
from qcore import PlanBuilder, QcoreError
from qcore.connectors.files import FileTable
from qcore.session.task import Task
from qcore.writing.partition_files import PartitionManifest
from qcore_ext.ground.fault import SITES, Faults

pytestmark = pytest.mark.timeout(120)

TABLE = pa.table({"a": [i % 7 for i in range(4000)], "s": [f"row {i}" for i in range(4000)]})
FILE_SITES = tuple(site for site in SITES if site.startswith(("file_", "write_")))
# Sites that fail while the query runs, in the operator that reads or writes.
IN_OPERATORS = ("file_read", "write_open", "write_rows", "write_close", "write_rename", "write_folder")


def read_parquet(folder: Path) -> PlanBuilder:
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=1000)
    return PlanBuilder().scan("t", source=FileTable(folder / "t.parquet"))


def read_large_groups(folder: Path) -> PlanBuilder:
    """Row groups are decoded a batch at a time."""
    n = 600_000
    pq.write_table(pa.table({"a": pa.array(range(n), pa.int64())}), folder / "t.parquet", row_group_size=n)
    table = FileTable(folder / "t.parquet")
    return PlanBuilder().scan("t", source=table).aggregate([], {"x": ("sum", "a")})


def read_from_a_filesystem(folder: Path) -> PlanBuilder:
    (folder / "k=1").mkdir()
    pq.write_table(TABLE, folder / "k=1" / "t.parquet", row_group_size=1000)
    filesystem = pyarrow.fs.SubTreeFileSystem(str(folder), pyarrow.fs.LocalFileSystem())
    return PlanBuilder().scan("t", source=FileTable("", filesystem))


def read_csv(folder: Path) -> PlanBuilder:
    pyarrow.csv.write_csv(TABLE, folder / "t.csv")
    return PlanBuilder().scan("t", source=FileTable(folder / "t.csv"))


def read_ipc(folder: Path) -> PlanBuilder:
    with pa.ipc.new_file(folder / "t.arrow", TABLE.schema) as file:
        file.write_table(TABLE, max_chunksize=1000)
    return PlanBuilder().scan("t", source=FileTable(folder / "t.arrow"))


def read_orc(folder: Path) -> PlanBuilder:
    pyarrow.orc.write_table(TABLE, folder / "t.orc")
    return PlanBuilder().scan("t", source=FileTable(folder / "t.orc"))


def write_folder(folder: Path) -> PlanBuilder:
    return read_ipc(folder).write_parquet(folder / "out", row_group_rows=1000)


def write_file(folder: Path) -> PlanBuilder:
    return read_ipc(folder).write_parquet(folder / "out", single=True, row_group_rows=1000)


def write_partitions(folder: Path) -> PlanBuilder:
    return read_ipc(folder).partitioned_output(["a"], 3, path=folder / "out")


READS = {
    "Parquet": read_parquet,
    "Parquet, large row groups": read_large_groups,
    "Parquet on a file system": read_from_a_filesystem,
    "CSV": read_csv,
    "Arrow IPC": read_ipc,
    "ORC": read_orc,
}
WRITES = {"a folder": write_folder, "a file": write_file, "partitions": write_partitions}


class Folders:
    """A new folder for every run, because footers are cached by path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.numbers = itertools.count()

    def new(self) -> Path:
        folder = self.path / f"run-{next(self.numbers)}"
        folder.mkdir()
        return folder


def run(
    make: Callable[[Path], PlanBuilder], folder: Path, drivers: int, faults: Faults
) -> tuple[Any, Exception | None]:
    """The plan's rows, or its error, which must be the injected one and have it once."""
    with faults:
        try:
            task = Task(make(folder).build(), drivers=drivers, batch_rows=500)
            return pa.Table.from_batches(task.batches(timeout=60), task.schema), None
        except QcoreError as error:
            failed = error
    assert faults.fired, failed
    assert str(failed).count("injected fault") == 1, failed
    return None, failed


def choose_passes(passes: int) -> list[int]:
    """The first passes, one in the middle, and the last."""
    return sorted({1, 2, passes // 2 + 1, passes} & set(range(1, passes + 1)))


@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("name", READS)
def test_d9_any_call_of_a_connector_may_fail(name: str, drivers: int, tmp_path: Path) -> None:
    """D9, V10."""
    folders = Folders(tmp_path)
    counted = Faults()
    expected, failed = run(READS[name], folders.new(), drivers, counted)
    assert failed is None
    for site in FILE_SITES:
        for nth in choose_passes(counted.passes[site]):
            folder = folders.new()
            got, failed = run(READS[name], folder, drivers, Faults(site, nth))
            if failed is None:
                # Another driver read the rest, or the rest was not needed.
                assert_same_rows(got, expected)
                continue
            assert "t." in str(failed) or str(folder) in str(failed) or "cannot list" in str(failed), failed
            if site in IN_OPERATORS:
                assert str(failed).startswith("TableScan (node "), failed
    got, failed = run(READS[name], folders.new(), drivers, Faults())
    assert failed is None
    assert_same_rows(got, expected)


def count_written(name: str, folder: Path) -> int:
    """The number of rows that were written. Their files must be complete."""
    target = folder / "out"
    if name == "a file":
        return pq.read_table(target).num_rows
    if name == "a folder":
        return sum(pq.read_table(file).num_rows for file in target.iterdir())
    manifest = PartitionManifest.read(target)
    rows = [pa.ipc.open_file(manifest.file(i)).read_all().num_rows for i in range(manifest.n_partitions)]
    assert rows == list(manifest.rows)
    return sum(rows)


@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("name", WRITES)
def test_d9_any_call_of_a_writer_may_fail(name: str, drivers: int, tmp_path: Path) -> None:
    """D9, V11: a failed write leaves no file and no hidden folder; files that exist are complete."""
    folders = Folders(tmp_path)
    counted = Faults()
    folder = folders.new()
    assert run(WRITES[name], folder, drivers, counted)[1] is None
    assert count_written(name, folder) == TABLE.num_rows
    assert all(counted.passes[site] for site in FILE_SITES if site.startswith("write_")), counted.passes
    for site in FILE_SITES:
        for nth in choose_passes(counted.passes[site]):
            folder = folders.new()
            _, failed = run(WRITES[name], folder, drivers, Faults(site, nth))
            left = sorted(path.name for path in folder.iterdir())
            if failed is None:
                assert count_written(name, folder) == TABLE.num_rows
                assert left == ["out", "t.arrow"]
                continue
            assert left in (["t.arrow"], []), (site, nth, left)
            if site.startswith("write_"):
                assert str(folder / "out") in str(failed), failed
                assert str(failed).startswith(("TableWrite (node ", "TableCommit (node ", "PartitionedOutput (node "))


def test_every_site_is_passed_by_some_plan(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    passed: set[str] = set()
    rng = random.Random(3)
    left, right = random_rows(LEFT, 400, rng), random_rows(RIGHT, 80, rng)
    for name in ("hash join full", "order by", "union all"):
        one, two = PlanBuilder().scan("l", source=left), PlanBuilder().scan("r", source=right)
        with Faults() as faults:
            list(Task(CASES[name].build(one, two).build(), drivers=2, batch_rows=100).batches(timeout=60))
        passed |= {site for site, n in faults.passes.items() if n}
    for make in (*READS.values(), *WRITES.values()):
        faults = Faults()
        run(make, folders.new(), 2, faults)
        passed |= {site for site, n in faults.passes.items() if n}
    assert passed == set(SITES)
