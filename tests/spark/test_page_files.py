"""Tables of the pages that stages wrote, and the folders of queries (SPEC S2, S4)."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from page_rows import page_writer, written_file

import qcore
from oracle import assert_same_rows
from qcore.connectors.base import FileSplit
from qcore.errors import ExecutionError, PlanError, QcoreError
from qcore.spark.page_files import REMOVALS, SPLIT_BYTES, PagesTable, QueryFolder, sweep
from qcore.writing.page_file import PageFile
from random_tables import random_table

TYPES = {"k": pa.int64(), "s": pa.string(), "d": pa.decimal128(15, 2), "t": pa.timestamp("us")}


def write_pages(path: Path, rows: pa.Table, n_partitions: int = 3, page_rows: int = 500) -> PageFile:
    """Pages of the rows, in partitions in turn."""
    writer = page_writer(path, rows.schema)
    for number, batch in enumerate(rows.combine_chunks().to_batches(max_chunksize=page_rows)):
        writer.write(number % n_partitions, batch)
    return written_file(writer)


def test_a_table_of_pages(tmp_path: Path) -> None:
    """A query reads all partitions or some. The table and its splits can be pickled."""
    rows = random_table(1, 10_000, TYPES, 0.1)
    halves = [write_pages(tmp_path / "a", rows.slice(0, 6000)), write_pages(tmp_path / "b", rows.slice(6000))]
    table = PagesTable(rows.schema, halves, 3, ("k",))
    assert (table.n_rows, table.n_bytes) == (10_000, sum(map(os.path.getsize, (tmp_path / "a", tmp_path / "b"))))
    session = qcore.Session(threads=2)
    session.register("p", pickle.loads(pickle.dumps(table)))
    assert_same_rows(session.sql("select * from p").to_arrow(), rows)
    assert session.sql("select count(*) n from p").to_arrow()["n"].to_pylist() == [10_000]
    assert_same_rows(
        session.sql("select d, k from p where k > 0").to_arrow(),
        qcore.sql("select d, k from p where k > 0", {"p": rows}).to_arrow(),
    )
    by_partition = [table.splits_of(partition) for partition in range(3)]
    assert pickle.loads(pickle.dumps(by_partition)) == by_partition
    n_rows = [sum(page.n_rows for split in splits for page in split.pages) for splits in by_partition]
    assert n_rows == [3500, 3500, 3000]
    assert table.without_files().n_rows == 0
    assert table.without_files().keys == ("k",)


def test_splits_have_few_bytes(tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array(range(0, 3_000_000_000, 1000), pa.int64())})
    table = PagesTable(rows.schema, [write_pages(tmp_path / "a", rows, 1, 32_768)])
    splits = table.splits(("k",), None, 1)
    assert len(splits) < 1.3 * table.n_bytes / SPLIT_BYTES
    assert all(split.n_bytes <= SPLIT_BYTES for split in splits)
    assert sum(split.n_bytes for split in splits) == table.n_bytes


def test_inputs_that_are_no_pages_are_refused(tmp_path: Path) -> None:
    rows = random_table(1, 1000, TYPES)
    file = write_pages(tmp_path / "a", rows)
    with pytest.raises(QcoreError, match="a page of partition 1, of 1"):
        PagesTable(rows.schema, [file])
    table = PagesTable(rows.schema, [file], 3)
    with pytest.raises(QcoreError, match="there is no partition 3: the stage wrote 3"):
        table.splits_of(3)
    with pytest.raises(ExecutionError, match="cannot be read from a FileSplit: add PageSplits"):
        table.open(FileSplit("a"), ("k",), None, 1000)


def test_a_folder_is_its_owners_and_is_removed(tmp_path: Path) -> None:
    with QueryFolder(str(tmp_path)) as folder:
        assert oct(os.stat(folder.path).st_mode)[-3:] == "700"
        assert folder.new_file() != folder.new_file()
        Path(folder.new_file()).write_text("x")
        assert sweep(str(tmp_path)) == [], "its process runs"
    assert os.listdir(tmp_path) == []
    folder.close()
    kept = QueryFolder(str(tmp_path))
    del kept
    assert os.listdir(tmp_path) == [], "a folder that nobody holds is removed"


@pytest.mark.parametrize(("n_failures", "n_held"), [(1, 0), (REMOVALS, 1)])
def test_a_removal_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_failures: int, n_held: int
) -> None:
    """A task may create a file meanwhile. After several failures the sweep of the next query removes the folder."""
    rmtree, n_tried = shutil.rmtree, [0]

    def remove(path: str, **options: bool) -> None:
        n_tried[0] += 1
        if n_tried[0] > n_failures:
            rmtree(path, **options)

    monkeypatch.setattr(shutil, "rmtree", remove)
    folder = QueryFolder(str(tmp_path))
    Path(folder.new_file()).write_text("x")
    folder.close()
    assert n_tried[0] == min(n_failures + 1, REMOVALS)
    held = os.listdir(tmp_path)
    assert len(held) == n_held
    assert sweep(str(tmp_path)) == [str(tmp_path / name) for name in held]
    assert os.listdir(tmp_path) == []
    assert sweep(str(tmp_path)) == []


@pytest.mark.parametrize("parent", ["relative", "/proc", "/nowhere/at/all"])
def test_a_folder_that_cannot_be_made(parent: str) -> None:
    with pytest.raises(PlanError, match=r"the folder of a query's files (must be an absolute path|cannot be made in)"):
        QueryFolder(parent)


def test_folders_of_ended_processes_are_swept(tmp_path: Path) -> None:
    """S4: a process that was killed leaves its folder, and the next one removes it."""
    script = (
        "import json, os, signal, sys\n"
        "from qcore.spark.page_files import QueryFolder\n"
        "folder = QueryFolder(sys.argv[1])\n"
        "open(folder.new_file(), 'w').write('x')\n"
        "print(json.dumps(folder.path), flush=True)\n"
        "sys.stdin.read()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = json.loads(process.stdout.readline())
        assert sweep(str(tmp_path)) == [], "its process runs"
        process.communicate()
    name = os.path.basename(path)
    others = ["qcore-query-elsewhere.1-" + name.split("-", 3)[3], name + "x", "another folder"]
    for other in others:
        (tmp_path / other).mkdir()
    assert sweep(str(tmp_path)) == [path]
    assert sorted(os.listdir(tmp_path)) == sorted(others)
    assert sweep("/nowhere/at/all") == []


def test_a_forked_child_does_not_remove_the_folder(tmp_path: Path) -> None:
    folder = QueryFolder(str(tmp_path))
    child = os.fork()
    if child == 0:
        folder.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.path.isdir(folder.path)
    folder.close()
