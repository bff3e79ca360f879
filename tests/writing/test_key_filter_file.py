"""Files with filters of keys: made from the hashes in page files, read and checked (SPEC S2, S4)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from page_rows import table_of

import qcore
from qcore.config import Settings
from qcore.errors import ExecutionError
from qcore.session.task import Task
from qcore.writing import key_filter_file
from qcore.writing.key_filter_file import write_key_filter
from qcore.writing.page_file import PageFile


def page_file(path: Path, rows: pa.Table, hashes_max: int = 1 << 20, threads: int = 2, **fields: object) -> PageFile:
    """The file of a task that writes rows, partitioned by k."""
    plan = qcore.PlanBuilder().values(rows).partitioned_output(["k"], 3).build()
    plan = plan.with_fields(path=str(path), single_file=True, hashes_max=hashes_max, **fields)
    task = Task.of_plan(plan, Settings.make(threads, None, None, None))
    task.start()
    task.wait()
    assert task.page_file is not None
    return task.page_file


def keys(start: int, stop: int) -> pa.Table:
    return pa.table({"k": pa.array(range(start, stop), pa.int64())})


def keys_in(file: PageFile) -> list[int]:
    return sorted(table_of(file, keys(0, 0).schema)["k"].to_pylist())


def test_a_filter_of_several_files(tmp_path: Path) -> None:
    """One of the files has no rows. Files and their descriptions are sent as JSON."""
    parts = [(0, 5000), (5000, 5000), (5000, 9000)]
    files = [page_file(tmp_path / str(i), keys(*part)) for i, part in enumerate(parts)]
    files = [PageFile.from_json(file.to_json()) for file in files]
    assert [file.hashes.n_rows for file in files if file.hashes] == [5000, 0, 4000]
    assert keys_in(files[0]) == list(range(5000))
    made = write_key_filter(files, str(tmp_path / "filter"))
    assert made is not None and made.n_bytes == os.path.getsize(made.path) == 2250 * 8
    found = keys_in(page_file(tmp_path / "probe", keys(8000, 40_000), 0, key_filter=made))
    assert found[:1000] == list(range(8000, 9000)) and len(found) < 2000


def test_no_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has more rows than it may have hashes, or there are too many keys for a filter."""
    few = page_file(tmp_path / "few", keys(0, 1000), 1000)
    many = page_file(tmp_path / "many", keys(0, 1001), 1000)
    assert few.hashes is not None and many.hashes is None
    assert write_key_filter([few, many], str(tmp_path / "a")) is None
    monkeypatch.setattr(key_filter_file, "FILTER_BYTES_MAX", 999)
    assert write_key_filter([few], str(tmp_path / "b")) is None
    assert sorted(os.listdir(tmp_path)) == ["few", "many"]


@pytest.mark.parametrize("damage", ["delete", "truncate", "change"])
@pytest.mark.parametrize("of", ["hashes", "filter"])
def test_a_damaged_file(tmp_path: Path, damage: str, of: str) -> None:
    build = page_file(tmp_path / "build", keys(0, 9000))
    made = write_key_filter([build], str(tmp_path / "filter"))
    assert made is not None
    path = tmp_path / ("build" if of == "hashes" else "filter")
    data = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        path.write_bytes(data[:-8] if damage == "truncate" else data[:-8] + bytes(b ^ 255 for b in data[-8:]))
    act: Any = lambda: page_file(tmp_path / "probe", keys(0, 10), key_filter=made)  # noqa: E731
    if of == "hashes":
        act = lambda: write_key_filter([build], str(tmp_path / "again"))  # noqa: E731
    with pytest.raises(ExecutionError, match=str(path)):
        act()
    assert not (tmp_path / "probe").exists() and not (tmp_path / "again").exists()
