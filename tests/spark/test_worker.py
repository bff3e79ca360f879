"""One task of a stage. If it fails, it raises one clear error and leaves nothing (SPEC S2, S4)."""

from __future__ import annotations

import itertools
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process_stages import StagesRun

import qcore
from qcore.errors import Cancelled, ExecutionError, MemoryLimitError, PlanError
from qcore.session.task import Task
from qcore.spark.fragments import Limits, Stage, next_stages, with_output
from qcore.spark.page_files import QueryFolder
from qcore.spark.plan_bytes import plan_to_bytes
from qcore.spark.stage_task import is_gone, run_watched
from qcore.spark.worker import GivenSplits, TaskInput, run_task
from random_tables import random_table

APART = Limits(3, 0, 0)
GROUPED = "select k, count(*) n, max(s) s from t group by k"
UNITED = "select k, s from t union all select k, s from t where k > 5"


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A file of 60,000 rows with different keys."""
    table = random_table(3, 60_000, {"s": pa.string(), "v": pa.int64()}, 0.1)
    path = tmp_path / "t.parquet"
    pq.write_table(table.append_column("k", pa.array(range(60_000))), path, row_group_size=5000)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[QueryFolder]:
    with QueryFolder(str(tmp_path)) as made:
        yield made


def first_task(path: str, folder: QueryFolder, text: str = GROUPED) -> tuple[Stage, TaskInput]:
    """The first stage of a query, and the only task of that stage."""
    session = qcore.Session(threads=2)
    session.register("t", path)
    (stage,) = next_stages(session.sql(text).plan, APART)
    (given,) = StagesRun("", n_tasks=1).inputs(stage, folder)
    return stage, given


def test_a_task_writes_one_file(rows: str, folder: QueryFolder) -> None:
    _, given = first_task(rows, folder)
    output = run_task(given)
    assert (output.file.path, output.file.n_rows) == (given.output, 60_000)
    assert {page.partition for page in output.file.pages} == {0, 1, 2}
    assert os.listdir(folder.path) == [os.path.basename(given.output)]
    assert output.stats["pipelines"][0]["operators"][0]["output_rows"] == 60_000


def test_partitions_depend_on_keys_alone(rows: str, folder: QueryFolder) -> None:
    """The partition of a row does not depend on the task, its threads or its splits."""
    _, given = first_task(rows, folder)
    per_partition = set()
    for threads in (1, 2):
        output = run_task(replace(given, output=folder.new_file(), threads=threads))
        per_partition.add(
            tuple(sum(page.n_rows for page in output.file.pages if page.partition == n) for n in range(3))
        )
    assert len(per_partition) == 1


@contextmanager
def file_bytes_max(n_bytes: int) -> Iterator[None]:
    """Limit the size of files, so that longer writes fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n_bytes", [0, 1000, 200_000])
def test_a_disk_without_room(n_bytes: int, threads: int, rows: str, folder: QueryFolder) -> None:
    _, given = first_task(rows, folder)
    with file_bytes_max(n_bytes), pytest.raises(ExecutionError, match=rf"cannot write {given.output}: .*too large"):
        run_task(replace(given, threads=threads))
    assert os.listdir(folder.path) == []
    assert run_task(given).file.n_rows == 60_000, "the next attempt may succeed"


@pytest.mark.parametrize("parent", ["/proc", "/nowhere/at/all"])
def test_a_folder_that_cannot_be_written(parent: str, rows: str, folder: QueryFolder) -> None:
    _, given = first_task(rows, folder)
    with pytest.raises(ExecutionError, match=rf"cannot write {parent}/x\.pages"):
        run_task(replace(given, output=f"{parent}/x.pages"))


@pytest.mark.parametrize(
    ("text", "in_order"), [(GROUPED, False), (GROUPED, True), (UNITED, True)], ids=["files", "shuffle", "union"]
)
def test_a_task_ends_when_the_folder_is_removed(
    rows: str, folder: QueryFolder, tmp_path: Path, text: str, in_order: bool
) -> None:
    """The query has ended. Spark ends the worker of a killed task only seconds later."""
    _, given = first_task(rows, folder, text)
    if in_order:  # the task writes to a folder of its own
        given = replace(given, output=str(tmp_path / "own.pages"))
    many = {scan: listed * 4000 for scan, listed in given.splits.items()}
    timer = threading.Timer(1, folder.close)
    timer.start()
    with pytest.raises(ExecutionError, match=rf"the folder {folder.path} was removed while a task ran"):
        run_watched(replace(given, splits=many), folder.path, in_order)
    timer.join()
    assert not (tmp_path / "own.pages").exists()


def test_a_task_whose_folder_is_not_seen(rows: str, folder: QueryFolder, tmp_path: Path) -> None:
    """Executors without a shared folder do not see that of the query. Their tasks run all the same."""
    _, given = first_task(rows, folder, UNITED)
    output = run_watched(given, str(tmp_path / "elsewhere"), in_order=True)
    assert output.file.n_rows == 60_000 + 59_994


@pytest.mark.parametrize(("text", "in_order"), [(GROUPED, False), (UNITED, True)], ids=["groups", "union"])
def test_a_task_is_cancelled_while_its_splits_are_listed(
    rows: str, folder: QueryFolder, monkeypatch: pytest.MonkeyPatch, text: str, in_order: bool
) -> None:
    """A list of many splits takes seconds, in which the query may end."""
    _, given = first_task(rows, folder, text)
    tasks: list[Task] = []

    def list_without_end(self: GivenSplits, *asked: Any) -> Iterator[Any]:
        (task,) = tasks
        for number, split in enumerate(itertools.cycle(self._splits)):
            if number == 10:
                task.cancel()
            assert number < 1000
            yield split

    monkeypatch.setattr(GivenSplits, "splits", list_without_end)
    with pytest.raises(Cancelled):
        run_task(given, tasks.append, in_order)
    assert os.listdir(folder.path) == []


def test_a_folder_that_cannot_be_looked_at_is_not_gone(tmp_path: Path) -> None:
    """A network file system may fail for a moment. A loop of links always fails."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert not is_gone(str(loop))
    assert not is_gone(str(tmp_path))
    assert is_gone(str(tmp_path / "absent"))


def test_a_file_that_exists_is_left(rows: str, folder: QueryFolder) -> None:
    """The file of another attempt is neither overwritten nor removed."""
    _, given = first_task(rows, folder)
    Path(given.output).write_text("of another attempt")
    with pytest.raises(PlanError, match="exists already"):
        run_task(given)
    assert Path(given.output).read_text() == "of another attempt"


@pytest.mark.parametrize("limit", [100_000, 1_000_000, 3_000_000])
def test_a_memory_limit(limit: int, rows: str, folder: QueryFolder) -> None:
    _, given = first_task(rows, folder)
    with pytest.raises(MemoryLimitError):
        run_task(replace(given, memory_limit=limit, threads=2))
    assert os.listdir(folder.path) == []
    assert run_task(replace(given, memory_limit=1 << 30)).file.n_rows == 60_000


def test_a_source_that_fails_in_the_middle(rows: str, folder: QueryFolder) -> None:
    _, given = first_task(rows, folder)
    data = bytearray(Path(rows).read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = os.urandom(2000)
    Path(rows).write_bytes(data)
    with pytest.raises(ExecutionError, match=r"t\.parquet"):
        run_task(given)
    assert os.listdir(folder.path) == []


@pytest.mark.parametrize("damage", ["deleted", "truncated", "longer", "zeros", "one bit"])
def test_files_that_change_between_stages(damage: str, rows: str, folder: QueryFolder) -> None:
    """S4: the next stage raises an error that names the file. No row is lost."""
    stage, _ = first_task(rows, folder)
    run = StagesRun("", n_tasks=2)
    table = run.run(stage, folder)
    session = qcore.Session(threads=2)
    session.register("t", rows)
    plan = with_output(session.sql(GROUPED).plan, stage, table)
    (second,) = next_stages(plan, APART)
    path = table.files[0].path
    data = bytearray(Path(path).read_bytes())
    if damage == "deleted":
        os.unlink(path)
    elif damage == "truncated":
        os.truncate(path, len(data) - 8)
    elif damage == "longer":
        Path(path).write_bytes(data + bytes(8))
    elif damage == "zeros":
        Path(path).write_bytes(bytes(len(data)))
    else:
        data[len(data) // 2] ^= 4
        Path(path).write_bytes(data)
    held = sorted(os.listdir(folder.path))
    failures = []
    for task in run.inputs(second, folder):
        try:
            run_task(task)
            held = sorted([*held, os.path.basename(task.output)])
        except ExecutionError as error:
            failures.append(str(error))
    assert failures, "a task reads the damaged page"
    assert all(path in failure and "of an earlier stage" in failure for failure in failures)
    assert sorted(os.listdir(folder.path)) == held


def test_a_task_that_is_interrupted(rows: str, folder: QueryFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any exception in the wait stops the task and removes its file."""
    _, given = first_task(rows, folder)
    reached = threading.Event()

    def raise_interrupt(self: Any, timeout: float | None = None) -> None:
        monkeypatch.undo()
        reached.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(qcore.Task, "wait", raise_interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_task(given)
    assert reached.is_set()
    assert os.listdir(folder.path) == []


def test_a_task_needs_splits_and_a_sink(rows: str, folder: QueryFolder) -> None:
    stage, given = first_task(rows, folder)
    with pytest.raises(PlanError, match=r"was given no splits for the scan '.*' of t"):
        run_task(replace(given, splits={}))
    with pytest.raises(PlanError, match="the plan of a task ends in PartitionedOutput, not in AggregateStep"):
        run_task(replace(given, plan=plan_to_bytes(stage.plan.child)))
    assert os.listdir(folder.path) == []
