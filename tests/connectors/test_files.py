"""CSV, Arrow IPC and ORC files; paths, globs, URLs and folders (SPEC V10)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs
import pyarrow.orc as paorc
import pyarrow.parquet as pq
import pytest
from reading import read_split, read_table

from oracle import assert_same_rows
from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable, SplitTable
from qcore.connectors.storage import find_files, locate
from qcore.errors import ExecutionError, PlanError
from random_tables import random_table

TYPES = {"a": pa.int64(), "s": pa.string(), "f": pa.float64(), "d": pa.date32()}


def sample(n_rows: int = 2500) -> pa.Table:
    table = random_table(1, n_rows, TYPES, {"a": 0.1, "s": 0.0, "f": 0.1, "d": 0.1})
    # CSV does not tell an empty string from none.
    return table.set_column(1, "s", pa.array([f'word {i}, "quoted"' for i in range(n_rows)]))


def write_csv(table: pa.Table, path: Path) -> None:
    pacsv.write_csv(table, path)


def write_ipc(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=600)


def write_ipc_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=600)


def write_orc(table: pa.Table, path: Path) -> None:
    paorc.write_table(table, path)


FORMATS = [
    ("t.csv", write_csv, None),
    ("t.arrow", write_ipc, 2500),
    ("t.feather", write_ipc, 2500),
    ("t.arrows", write_ipc_stream, None),
    ("t.orc", write_orc, 2500),
    ("no_suffix", write_ipc, 2500),
]


@pytest.mark.parametrize(("name", "write", "n_rows"), FORMATS)
def test_formats(tmp_path: Path, name: str, write: object, n_rows: int | None) -> None:
    table = sample()
    write(table, tmp_path / name)  # type: ignore[operator]
    file = FileTable(str(tmp_path / name))
    assert file.statistics().row_count == n_rows
    assert_same_rows(read_table(file), table, ordered=True)
    assert_same_rows(read_table(file, ("d", "a")), table.select(["d", "a"]), ordered=True)
    split = next(iter(file.splits((), None, 1)))
    assert read_split(file, split, ()).num_rows == 2500
    with pytest.raises(ExecutionError, match="is read as a whole, so start must be 0"):
        file.open(FileSplit(str(tmp_path / name), 10, 20), ("a",), None, 1000)
    declared = SplitTable(pa.schema([("s", pa.string()), ("a", pa.int64())]))
    read = read_split(declared, FileSplit(str(tmp_path / name)), ("s", "a"))
    assert_same_rows(read, table.select(["s", "a"]), ordered=True)


@pytest.mark.parametrize("name", ["t.csv", "t.arrow", "t.orc"])
def test_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(PlanError, match=name):
        FileTable(str(tmp_path / name))


def test_compressed_csv_and_other_delimiters(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))
    (tmp_path / "t.tsv").write_text("a\tb\n1\tx\n2\ty\n")
    for name in ("t.csv.gz", "t.tsv"):
        assert read_table(FileTable(str(tmp_path / name))).to_pydict() == {"a": [1, 2], "b": ["x", "y"]}


def test_csv_value_of_another_type_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\nx\n")
    table = SplitTable(pa.schema([("a", pa.int64())]))
    with pytest.raises(ExecutionError, match=r"cannot read .*t\.csv as CSV: .*'x'"):
        table.open(FileSplit(str(tmp_path / "t.csv")), ("a",), None, 10)


class TestFinding:
    def files(self, tmp_path: Path) -> list[str]:
        (tmp_path / "deep" / "_temporary").mkdir(parents=True)
        hidden = ("deep/_temporary/d.parquet", "_meta", ".a.parquet.crc")
        for name in ("b.parquet", "a.parquet", "deep/c.parquet", *hidden):
            pq.write_table(pa.table({"n": [name]}), tmp_path / name)
        return [str(tmp_path / name) for name in ("a.parquet", "b.parquet", "deep/c.parquet")]

    def paths(self, source: object, filesystem: object = None) -> list[str]:
        return [found.location.path for found in find_files(source, filesystem)]

    def test_folder_glob_and_list(self, tmp_path: Path) -> None:
        a, b, c = self.files(tmp_path)
        assert self.paths(str(tmp_path)) == [a, b, c]
        assert self.paths(tmp_path / "*.parquet") == [a, b]
        assert self.paths(f"{tmp_path}/**/c.parquet") == [c]
        assert self.paths([b, a]) == [b, a]
        assert self.paths(f"file://{a}") == [a]

    def test_filesystems(self, tmp_path: Path) -> None:
        self.files(tmp_path)
        below = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        assert self.paths("a.parquet", below) == ["a.parquet"]
        assert self.paths("*.parquet", below) == ["a.parquet", "b.parquet"]
        assert self.paths("deep", below) == ["deep/c.parquet"]
        table = FileTable(["deep/c.parquet", "a.parquet"], below)
        assert read_table(table).column("n").to_pylist() == ["deep/c.parquet", "a.parquet"]
        assert table.statistics().row_count == 2

    def test_a_name_with_pattern_characters(self, tmp_path: Path) -> None:
        path = tmp_path / "odd[1]*.parquet"
        pq.write_table(pa.table({"n": [1]}), path)
        assert self.paths(str(path)) == [str(path)]

    def test_nothing_found(self, tmp_path: Path) -> None:
        with pytest.raises(PlanError, match=r"no such file: .*\(the pattern matches nothing\)"):
            find_files(str(tmp_path / "*.parquet"))
        with pytest.raises(PlanError, match="no such file"):
            find_files(str(tmp_path))
        with pytest.raises(PlanError, match="list of files is empty"):
            find_files([])

    def test_unknown_scheme(self) -> None:
        with pytest.raises(PlanError, match="cannot open nowhere://x/y"):
            locate("nowhere://x/y")

    def test_mixed_formats(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("a\n1\n")
        pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
        with pytest.raises(PlanError, match="different formats"):
            FileTable(str(tmp_path))

    def test_unknown_format(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(PlanError, match=r"the format of .*notes\.txt is unknown: use the suffix"):
            FileTable(str(tmp_path / "notes.txt"))
