"""Folders of partition files: complete when all producers have finished, else removed (SPEC V11)."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError, QcoreError, SchemaChangeError
from qcore.writing.partition_files import MANIFEST, PartitionFiles, PartitionManifest
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account

SCHEMA = pa.schema([("a", pa.int64())])


def page(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def files_in(folder: Path, n_producers: int = 1) -> PartitionFiles:
    return PartitionFiles(str(folder), SCHEMA, ("a",), 3, n_producers, Account())


def test_v11_rows_come_back_by_partition(tmp_path: Path) -> None:
    """V11: every partition has a file, an empty one too; the manifest counts rows and bytes."""
    files = files_in(tmp_path / "out", n_producers=2)
    writers = [
        threading.Thread(target=lambda start=start: [files.write(n % 2, page(n)) for n in range(start, start + 50)])
        for start in (0, 50)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    files.producer_done(True)
    assert not (tmp_path / "out").exists(), "one producer is left"
    files.producer_done(True)
    assert os.listdir(tmp_path) == ["out"]
    manifest = PartitionManifest.read(tmp_path / "out")
    assert (manifest.keys, manifest.rows, manifest.schema) == (("a",), (50, 50, 0), SCHEMA)
    for partition in range(3):
        with pa.OSFile(manifest.file(partition)) as file:
            values = pa.ipc.open_file(file).read_all()["a"].to_pylist()
        assert sorted(values) == ([] if partition == 2 else [n for n in range(100) if n % 2 == partition])
        assert manifest.bytes[partition] == os.path.getsize(manifest.file(partition))
    for wrong in (-1, 3):
        with pytest.raises(QcoreError, match=f"has no partition {wrong}; it has 3"):
            manifest.file(wrong)


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_a_producer_that_failed_removes_all(tmp_path: Path, order: tuple[bool, bool]) -> None:
    files = files_in(tmp_path / "out", n_producers=2)
    files.write(0, page(1))
    for finished in order:
        files.producer_done(finished)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("site", ["write_rows", "write_open", "write_close", "write_rename"])
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, site: str) -> None:
    files = files_in(tmp_path / "out")

    def write() -> None:
        files.write(1, page(1))
        files.producer_done(True)

    with Faults(site, 1), pytest.raises(ExecutionError, match=r"cannot write .*out"):
        write()
    if site in ("write_rows", "write_open"):
        files.producer_done(False)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_page_of_another_schema_widens_all_files(tmp_path: Path, order: tuple[int, int]) -> None:
    """D6: all files get the wider schema, also those of earlier rows and those without rows."""
    files = files_in(tmp_path / "out")
    pages = [page(1), pa.record_batch({"a": pa.array([2.5]), "b": ["x"]})]
    for at in order:
        files.write(0, pages[at])
    files.write(1, page(3))
    files.producer_done(True)
    assert os.listdir(tmp_path) == ["out"]
    manifest = PartitionManifest.read(tmp_path / "out")
    assert manifest.schema == pa.schema({"a": pa.float64(), "b": pa.string()})
    rows = [{"a": 1.0, "b": None}, {"a": 2.5, "b": "x"}]
    for partition, expected in enumerate([[rows[at] for at in order], [{"a": 3.0, "b": None}], []]):
        with pa.OSFile(manifest.file(partition)) as file:
            table = pa.ipc.open_file(file).read_all()
        assert (table.schema, table.to_pylist()) == (manifest.schema, expected)
        assert manifest.bytes[partition] == os.path.getsize(manifest.file(partition))
    assert sorted(os.listdir(tmp_path / "out")) == sorted([MANIFEST, *(f"part-0000{n}.arrow" for n in range(3))])


def test_types_in_conflict_are_refused(tmp_path: Path) -> None:
    files = files_in(tmp_path / "out")
    files.write(0, page(1))
    with pytest.raises(SchemaChangeError, match="column 'a' changed from int64 to string"):
        files.write(0, pa.record_batch({"a": ["x"]}))
    files.producer_done(False)
    assert os.listdir(tmp_path) == []


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(QcoreError, match="holds no complete partitions"):
        PartitionManifest.read(tmp_path)
    files = files_in(tmp_path / "out")
    files.producer_done(True)
    manifest = tmp_path / "out" / MANIFEST
    held = json.loads(manifest.read_text())
    for changed, words in (
        ({**held, "format": 2}, "a manifest of format 2; this version of qcore reads format 1"),
        ({**held, "schema": "AAAA"}, "holds no complete partitions"),
        ({"format": 1}, "holds no complete partitions"),
    ):
        manifest.write_text(json.dumps(changed))
        with pytest.raises(QcoreError, match=words):
            PartitionManifest.read(tmp_path / "out")
