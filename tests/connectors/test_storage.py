"""Paths, globs, folders and URLs resolved to files; SPEC V10."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from qcore.access import FileAccess
from qcore.connectors.storage import (
    FILES_ONE_THREAD_MAX,
    FoundFile,
    Location,
    find_files,
    locate,
    partition_columns,
    read_in_threads,
    without_compression,
)
from qcore.errors import PlanError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.csv", ".hidden.csv", "_SUCCESS", "k=1/x.csv", "k=2/_z=a%20b/y.csv", "_temp/t.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(found: list[FoundFile], tree: Path) -> list[str]:
    return [os.path.relpath(file.location.path, tree) for file in found]


@pytest.mark.parametrize("remote", [False, True])
def test_a_folder_without_its_hidden_files(tree: Path, remote: bool) -> None:
    """Local folders are walked and others are listed. Both ways find the same files and partition values."""
    filesystem = pafs.SubTreeFileSystem(str(tree), pafs.LocalFileSystem()) if remote else None
    found = find_files("" if remote else tree, filesystem)
    texts = [file.location.path if remote else os.path.relpath(file.location.path, tree) for file in found]
    assert sorted(texts) == ["a.csv", "b.csv", "k=1/x.csv", "k=2/_z=a%20b/y.csv"]
    values = {text: file.partition_values for text, file in zip(texts, found, strict=True)}
    assert values["a.csv"] == ()
    assert values["k=2/_z=a%20b/y.csv"] == (("k", "2"), ("_z", "a b"))


def test_globs_lists_and_what_is_not_there(tree: Path) -> None:
    assert names(find_files(str(tree / "*.csv")), tree) == ["a.csv", "b.csv"]
    assert names(find_files([tree / "b.csv", tree / "a.csv"]), tree) == ["b.csv", "a.csv"]
    (found,) = find_files(str(tree / "k=*" / "x.csv"))
    assert found.partition_values == (("k", "1"),)
    with pytest.raises(PlanError, match=r"no such file: .*z\*\.csv \(the pattern matches nothing\)"):
        find_files(str(tree / "z*.csv"))
    with pytest.raises(PlanError, match="the list of files is empty"):
        find_files([])


def test_a_remote_glob_does_not_cross_folders(tree: Path) -> None:
    filesystem = pafs.SubTreeFileSystem(str(tree), pafs.LocalFileSystem())
    assert [file.location.path for file in find_files("k=1/*.csv", filesystem)] == ["k=1/x.csv"]
    assert len(find_files("k=2/**.csv", filesystem)) == 1
    with pytest.raises(PlanError, match="no such file"):
        find_files("k=2/*.csv", filesystem)


def test_urls_of_local_files(tree: Path) -> None:
    assert locate(f"file://{tree}/a.csv") == Location(str(tree / "a.csv"))
    assert locate(f"file://{tree}/k%3D1/x.csv").path == str(tree / "k=1/x.csv")
    assert locate("~/a.csv").path == os.path.expanduser("~/a.csv")
    with pytest.raises(PlanError, match=r"cannot (open|reach) nosuch://"):
        locate("nosuch://host/a.csv")


def test_a_stamp_changes_with_the_file(tree: Path) -> None:
    local = locate(str(tree / "a.csv"))
    remote = Location("a.csv", pafs.SubTreeFileSystem(str(tree), pafs.LocalFileSystem()))
    assert local.stamp() == remote.stamp()
    before = local.stamp()
    os.utime(tree / "a.csv", ns=(5, 5))
    assert local.stamp() == (before[0], 5)
    for missing in (locate(str(tree / "none")), Location("none", remote.filesystem)):
        with pytest.raises(FileNotFoundError):
            missing.stamp()


def test_access_is_checked_again_when_a_file_is_opened(tree: Path) -> None:
    """A link may be changed after the file was found."""
    allowed, link = tree / "k=1", tree / "k=1" / "link.csv"
    link.symlink_to(allowed / "x.csv")
    (found,) = find_files(str(link), access=FileAccess.of([allowed]))
    with found.location.open() as file:
        assert file.read() == b"k=1/x.csv"
    link.unlink()
    link.symlink_to(tree / "a.csv")
    for use in (found.location.open, found.location.source, found.location.stamp):
        with pytest.raises(PlanError, match="file_access does not allow"):
            use()


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["1", "-2", None], pa.int64()),
        (["1", "x"], pa.string()),
        (["007"], pa.string()),
        ([str(1 << 63)], pa.string()),
        ([None], pa.string()),
    ],
)
def test_types_of_folder_names(values: list[str | None], type: pa.DataType) -> None:
    files = [FoundFile(Location("x"), (("k", value),)) for value in values]
    assert partition_columns(files) == [pa.field("k", type)]


def test_suffixes_of_compressions() -> None:
    assert [without_compression(name) for name in ("A.CSV.gz", "a.tsv.zst", "a.csv")] == ["a.csv", "a.tsv", "a.csv"]


@pytest.mark.parametrize("n", [0, 1, FILES_ONE_THREAD_MAX, FILES_ONE_THREAD_MAX + 1, 100])
def test_many_files_are_read_by_several_threads_in_order(n: int) -> None:
    threads = set()

    def read(number: int) -> int:
        threads.add(threading.current_thread())
        return number * 2

    assert read_in_threads(read, range(n)) == [number * 2 for number in range(n)]
    assert (threading.current_thread() in threads) == (0 < n <= FILES_ONE_THREAD_MAX)
    if n == 1:
        with pytest.raises(ZeroDivisionError):
            read_in_threads(lambda number: 1 // number, [1, 1, 1, 1, 0, 1])
