"""A file gets its name when it is complete, or never. SPEC Q2."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError, PlanError, SchemaChangeError
from qcore.writing.file_sets import (
    StagingFolder,
    check_absent,
    local_path,
    match_file_schema,
    replace_file,
    resolve_target,
    writing,
)


@pytest.mark.parametrize("path", ["s3://bucket/x", "", b"x", 7, None])
def test_paths_that_cannot_be_written(path: object) -> None:
    with pytest.raises(PlanError, match="COPY writes to a path"):
        local_path(path, "COPY")


def test_local_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("x.parquet", "COPY") == local_path(tmp_path / "x.parquet", "COPY") == str(tmp_path / "x.parquet")
    with pytest.raises(PlanError, match=r"COPY: the folder '.*nowhere' does not exist; create it first"):
        local_path("nowhere/x.parquet", "COPY")


def test_links_are_followed_to_the_file(tmp_path: Path) -> None:
    target, link, broken = tmp_path / "target", tmp_path / "link", tmp_path / "broken"
    target.write_text("old")
    link.symlink_to(target)
    broken.symlink_to(tmp_path / "later")
    assert resolve_target(str(link), "w") == str(target)
    assert resolve_target(str(broken), "w") == str(tmp_path / "later")
    with pytest.raises(PlanError, match="is a folder, and only regular files can be replaced"):
        resolve_target(str(tmp_path), "w")
    check_absent(str(tmp_path / "none"), "w")
    broken_link = tmp_path / "dangling"
    broken_link.symlink_to(tmp_path / "none")
    with pytest.raises(PlanError, match="dangling exists already"):
        check_absent(str(broken_link), "w")


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    target, staged = tmp_path / "target", tmp_path / "staged"
    target.write_text("old")
    target.chmod(0o640)
    staged.write_text("new")
    replace_file(str(staged), str(target))
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("new", 0o640)
    assert not staged.exists()


def test_a_file_that_appeared_at_the_target_stays(tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    staged.write_text("new")
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(tmp_path / "elsewhere")
    for target, words in ((folder, "has become a folder"), (link, "has become a symbolic link")):
        with pytest.raises(FileExistsError, match=words):
            replace_file(str(staged), str(target))
    assert staged.read_text() == "new"


def test_a_staging_folder_appears_as_a_whole(tmp_path: Path) -> None:
    staging = StagingFolder(str(tmp_path / "out"))
    assert os.listdir(tmp_path) == []
    for name in ("a", "b"):
        Path(staging.file(name)).write_text(name)
    (hidden,) = os.listdir(tmp_path)
    assert hidden.startswith(".out.")
    assert stat.S_IMODE((tmp_path / hidden).stat().st_mode) == 0o700
    staging.become_target()
    assert os.listdir(tmp_path) == ["out"]
    assert sorted(os.listdir(tmp_path / "out")) == ["a", "b"]
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) & 0o500 == 0o500


def test_a_staging_folder_does_not_replace_and_is_removed(tmp_path: Path) -> None:
    staging = StagingFolder(str(tmp_path / "out"))
    Path(staging.file("a")).write_text("a")
    (tmp_path / "out").mkdir()
    with pytest.raises(ExecutionError, match=r"cannot write .*out: .*out exists already; remove it"):
        staging.become_target()
    staging.remove()
    staging.remove()
    assert os.listdir(tmp_path) == ["out"]


def test_a_forked_child_removes_nothing(tmp_path: Path) -> None:
    staging = StagingFolder(str(tmp_path / "out"))
    staging.file("a")
    staging._process += 1
    staging.remove()
    assert len(os.listdir(tmp_path)) == 1


SCHEMA = pa.schema([("a", pa.int32()), ("s", pa.string())])


def test_only_the_layout_may_differ() -> None:
    batch = pa.record_batch([pa.array(["x"], pa.string_view()), pa.array([1], pa.int32())], names=["s", "a"])
    assert match_file_schema(batch, SCHEMA, "out").equals(
        pa.record_batch([pa.array([1], pa.int32()), pa.array(["x"])], schema=SCHEMA)
    )


@pytest.mark.parametrize(
    ("name", "type", "words"),
    [
        ("b", pa.int32(), r"column 'b' \(int32\) is new: the files in out have the columns \['a', 's'\]"),
        ("a", pa.int64(), "column 'a' changed from int32 to int64: the files in out have the first type"),
    ],
)
def test_other_schemas_are_refused(name: str, type: pa.DataType, words: str) -> None:
    """D6: a file that was begun keeps its schema, so another one is an error."""
    with pytest.raises(SchemaChangeError, match=words):
        match_file_schema(pa.record_batch({name: pa.array([1], type)}), SCHEMA, "out")


def test_errors_name_the_path() -> None:
    with pytest.raises(ExecutionError, match="cannot write /x: no space") as raised, writing("/x"):
        raise OSError("no space")
    assert isinstance(raised.value.__cause__, OSError)
    with pytest.raises(KeyError), writing("/x"):
        raise KeyError
