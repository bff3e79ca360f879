"""Pages that Spark's shuffle brings: only those that an earlier stage reported, in any order (SPEC S2)."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from page_rows import page_writer, written_file

from qcore.errors import ExecutionError, QcoreError
from qcore.spark.carried_pages import HEADER, REPORT, CarriedPages, Slots, carried_path, send_pages, stage_of
from qcore.spark.page_files import PageSplit, PagesTable, QueryFolder
from qcore.writing.page_file import Page, PageFile

SCHEMA = pa.schema([("x", pa.int64())])


def write_task(folder: QueryFolder, task: int, start: int) -> PageFile:
    """The page file of a task with pages of two partitions."""
    writer = page_writer(folder.new_file(), SCHEMA)
    for number in range(4):
        rows = pa.record_batch({"x": list(range(start + number * 10_000, start + number * 10_000 + 9_000))}, SCHEMA)
        writer.write(number % 2, rows)
    return written_file(writer)


@pytest.fixture
def sent(tmp_path: Path) -> tuple[PagesTable, list[bytes]]:
    """A table of two tasks of stage 3 whose pages are in Spark's shuffle, and the pages that are sent."""
    blobs: list[bytes] = []
    files = []
    with QueryFolder(str(tmp_path)) as folder:
        for task in range(2):
            file = write_task(folder, task, task * 1_000_000)
            blobs += send_pages(3, task, file)
            files.append(PageFile(carried_path(3, task), file.pages, file.n_bytes))
    return PagesTable(SCHEMA, files, 2, ("x",)), blobs


def rows_of(table: PagesTable, splits: list[PageSplit]) -> list[int]:
    found: list[int] = []
    for split in splits:
        stream = table.open(split, ("x",), None, 65_536)
        found += pa.RecordBatchReader.from_stream(stream).read_all()["x"].to_pylist()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_rows_come_in_the_order_of_tasks(sent: tuple[PagesTable, list[bytes]], tmp_path: Path, seed: int) -> None:
    table, blobs = sent
    random.Random(seed).shuffle(blobs)
    blobs.insert(1, HEADER.pack(3, 0, REPORT) + b"report")
    with QueryFolder(str(tmp_path)) as folder:
        splits = table.splits((), None, 1)
        carried = CarriedPages(splits, folder)
        carried.receive(blobs)
        found = rows_of(table, [carried.move_split(split) for split in splits])  # type: ignore[misc]
        assert found == sorted(found) and len(found) == 2 * 4 * 9_000
        copy = PagesTable(SCHEMA, [carried.file_of(table.files)], 2, ("x",))
        assert rows_of(copy, copy.splits((), None, 1)) == found  # type: ignore[arg-type]
        halves = [rows_of(copy, copy.splits_of(partition)) for partition in range(2)]  # type: ignore[arg-type]
        assert sorted(halves[0] + halves[1]) == found


@pytest.mark.parametrize("fault", ["missing", "twice", "changed", "longer", "of another stage"])
def test_other_pages_are_an_error(sent: tuple[PagesTable, list[bytes]], tmp_path: Path, fault: str) -> None:
    table, blobs = sent
    if fault == "missing":
        del blobs[-1]
    elif fault == "twice":
        blobs.append(blobs[-1])
    elif fault == "changed":
        blobs[-1] = blobs[-1][:-8] + bytes(value ^ 1 for value in blobs[-1][-8:])
    elif fault == "longer":
        blobs[-1] += bytes(8)
    else:
        blobs.append(HEADER.pack(2, 1, 0) + bytes(8))
    with QueryFolder(str(tmp_path)) as folder:
        carried = CarriedPages(table.splits((), None, 1), folder)
        task = "task 1 of stage 2" if fault == "of another stage" else "task 1 of stage 3"
        with pytest.raises(
            ExecutionError, match=f"^the output of {task} was lost in Spark's shuffle, and computing it"
        ):
            carried.receive(blobs)
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_driver_process(tmp_path: Path) -> None:
    with QueryFolder(str(tmp_path)) as there:
        file = write_task(there, 0, 5)
        data = Path(file.path).read_bytes()
    table = PagesTable(SCHEMA, [file], 2, ("x",))
    with QueryFolder(str(tmp_path)) as folder:
        splits = table.splits_of(1)
        carried = CarriedPages(splits, folder)
        carried.receive([])
        with pytest.raises(QcoreError, match="was not sent to the task that reads it"):
            carried.move_split(splits[0])
        carried.copy_files({file.path: lambda: data, "/other": lambda: b""}, splits)
        found = rows_of(table, [carried.move_split(split) for split in splits])  # type: ignore[misc]
        assert found == [*range(10_005, 19_005), *range(30_005, 39_005)]


def test_names_and_slots() -> None:
    assert stage_of(carried_path(12, 3)) == 12
    assert stage_of("/x/shuffle:1/2") is None
    page = Page(5, 0, 8, 1, 0)
    assert Slots(7, False).of(3, 9, page) == 5
    assert [Slots(3, True).of(task, number, page) for task in range(2) for number in range(3)] == [0, 1, 2, 1, 2, 0]
