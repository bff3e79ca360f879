"""Writing a query's rows to Parquet files (SPEC Q2)."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, col
from qcore.writing.table_write import ParquetFormat, TableCommit, TableWrite, TableWriteState
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account
from random_tables import ALL_TYPES, plain, random_table
from sweeps import every

TABLE = random_table(3, 30_000, {"k": pa.int64(), "s": pa.string(), "d": pa.decimal128(12, 2)}, n_distinct={"k": 50})


def run(builder: PlanBuilder, threads: int = 1) -> list[dict[str, Any]]:
    return qcore.Session(threads=threads).execute(builder.build()).to_arrow().to_pylist()


class Failing(qcore.Operator):
    """An operator that returns some batches, then fails."""

    def __init__(self) -> None:
        self.n = 0
        self.held: Any = None

    def needs_input(self) -> bool:
        return self.held is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.n += 1
        if self.n == 4:
            raise ValueError("broken on purpose")
        self.held = batch

    def get_output(self) -> Any:
        held, self.held = self.held, None
        return held


@pytest.mark.parametrize("threads", [1, 3])
def test_one_file(threads: int, tmp_path: Path) -> None:
    """Q2: one file with all rows in order, which replaces an earlier file."""
    path = tmp_path / "out.parquet"
    path.write_text("old")
    builder = PlanBuilder().values(TABLE).local_partition().order_by(["k", "s", "d"])
    (file,) = run(builder.write_parquet(path), threads)
    assert file == {"path": str(path), "rows": TABLE.num_rows, "bytes": path.stat().st_size}
    found = pq.read_table(path)
    assert_same_rows(found, TABLE)
    assert found["k"].to_pylist() == sorted(TABLE["k"].to_pylist(), key=lambda k: (k is None, k))
    assert os.listdir(tmp_path) == ["out.parquet"]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_a_driver(threads: int, tmp_path: Path) -> None:
    """Q2: each driver writes its own file, and the folder can be read as a table."""
    builder = PlanBuilder().values(TABLE).local_partition(["k"])
    files = run(builder.write_parquet(tmp_path / "out"), threads)
    assert len(files) == threads
    assert sorted(file["path"] for file in files) == sorted(map(str, (tmp_path / "out").iterdir()))
    for file in files:
        assert pq.ParquetFile(file["path"]).metadata.num_rows == file["rows"]
        assert os.path.getsize(file["path"]) == file["bytes"]
    assert os.listdir(tmp_path) == ["out"]
    again = PlanBuilder().scan("t", source=str(tmp_path / "out" / "*.parquet"))
    assert_same_rows(qcore.Session(threads=2).execute(again.build()).to_arrow(), TABLE)
    with pytest.raises(qcore.PlanError, match="out exists already; remove it, or write elsewhere"):
        run(builder.write_parquet(tmp_path / "out"))


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_types(type_: pa.DataType, tmp_path: Path) -> None:
    """Q3: types of Parquet are read back.

    A type that Parquet lacks is an error with the path, and no file is written.
    """
    table = random_table(1, 500, [type_])
    builder = PlanBuilder().values(table).write_parquet(tmp_path / "out.parquet")
    if type_ == pa.month_day_nano_interval():
        with pytest.raises(qcore.ExecutionError, match=r"TableWrite \(node 0\).*cannot write .*out.parquet: "):
            run(builder)
        assert os.listdir(tmp_path) == []
        return
    run(builder)
    assert_same_rows(pq.read_table(tmp_path / "out.parquet"), plain(table))


@pytest.mark.parametrize("single", [True, False])
def test_no_rows(single: bool, tmp_path: Path) -> None:
    """A file without rows has the schema."""
    builder = PlanBuilder().values(TABLE).local_partition().filter(col("s") == "no such text")
    (file,) = run(builder.write_parquet(tmp_path / "out", single=single), 2)
    assert file["rows"] == 0
    assert pq.read_table(file["path"]).schema.names == TABLE.column_names


def test_row_groups_and_compression(tmp_path: Path) -> None:
    """Small batches are collected to row groups of the wanted size."""
    builder = (
        PlanBuilder().values(TABLE).write_parquet(tmp_path / "out.parquet", compression="zstd", row_group_rows=10_000)
    )
    list(qcore.Task(builder.build(), drivers=1, batch_rows=1000).batches())
    metadata = pq.ParquetFile(tmp_path / "out.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [10_000] * 3
    assert metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_query_that_fails_leaves_nothing(single: bool, threads: int, tmp_path: Path) -> None:
    """D9: no new file, and an existing file is unchanged."""
    if single:
        (tmp_path / "out").write_text("old")
    builder = PlanBuilder().values(TABLE).local_partition().operator(Failing)
    task = qcore.Task(builder.write_parquet(tmp_path / "out", single=single).build(), drivers=threads, batch_rows=500)
    with pytest.raises(qcore.ExecutionError, match="broken on purpose"):
        list(task.batches())
    assert os.listdir(tmp_path) == (["out"] if single else [])
    assert not single or (tmp_path / "out").read_text() == "old"


def test_a_query_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    """D9."""

    class Endless(qcore.SourceOperator):
        def output_schema(self, schema: Any) -> pa.Schema:
            return pa.schema({"k": pa.int64()})

        def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> Any:
            if os.listdir(tmp_path):
                task.cancel()
            return qcore.PollPull.batch(pa.record_batch({"k": range(1000)}))

    task = qcore.Task(PlanBuilder().source(Endless()).write_parquet(tmp_path / "out").build(), drivers=1)
    with pytest.raises(qcore.Cancelled):
        list(task.batches())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("how", ["file", "folder", "copy"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_query_that_fails_for_want_of_memory_leaves_the_path(how: str, threads: int, tmp_path: Path) -> None:
    """D9: the rows about the files take the most memory here. A query that cannot return them changes no file."""
    folder = tmp_path.joinpath(*["x" * 200] * 10)
    folder.mkdir(parents=True)
    path = folder / "out"
    session = qcore.Session(threads=threads)
    session.register("t", pa.table({"k": range(40)}))
    ends = []
    for limit in range(64, 100_000, 512):
        if how != "folder":
            path.write_text("old")
        session.change(memory_limit=limit)
        rows = PlanBuilder().values(pa.table({"k": range(40)}))
        try:
            if how == "copy":
                told = session.sql(f"copy t to '{path}' (format parquet)").to_arrow().to_pylist()
            else:
                plan = rows.write_parquet(path, single=how == "file").build()
                told = session.execute(plan).to_arrow().to_pylist()
        except qcore.MemoryLimitError:
            ends.append("error")
            assert path.read_bytes() == b"old" if how != "folder" else not path.exists()
            assert os.listdir(folder) == ([] if how == "folder" else ["out"])
            continue
        ends.append("rows")
        assert sum(file["rows"] for file in told) == 40
        assert pq.read_table(path).num_rows == 40
        break
    assert ends[-1] == "rows" and len(ends) > 10


def test_a_file_that_is_finished_after_the_write_was_cancelled(tmp_path: Path) -> None:
    """D9: if a query is stopped, a driver may finish its file after the commit was closed. The file is removed."""
    state = TableWriteState(str(tmp_path / "out"), pa.schema({"k": pa.int64()}), False, "none", 1, Account())
    writer, commit = TableWrite(state, 0), TableCommit(state)
    commit.close()
    writer.add_input(pa.record_batch({"k": [1, 2]}))
    writer.finish()
    writer.close()
    assert os.listdir(tmp_path) == []


class Widening(qcore.BatchIterator):
    """Two batches of each of three schemas."""

    def __init__(self) -> None:
        columns: list[dict[str, Any]] = [
            {"k": pa.array([1, 2], pa.int16())}, {"k": pa.array([70_000])}, {"k": [0.5, 1.5], "s": ["x", None]},
        ]  # fmt: skip
        self.left = map(pa.record_batch, [part for part in columns for _ in range(2)])

    def next(self) -> qcore.IterOutcome:
        self.batch = next(self.left, None)
        return qcore.IterOutcome.NONE if self.batch is None else qcore.IterOutcome.OK_NEW_SCHEMA


def widening_rows() -> PlanBuilder:
    return PlanBuilder().source(Widening, pa.schema({"k": pa.int16()}), on_schema_change="evolve")


WIDENED = [(1, None), (2, None)] * 2 + [(70_000, None)] * 2 + [(0.5, "x"), (1.5, None)] * 2


def test_a_schema_that_widens(tmp_path: Path) -> None:
    """D6: the new file has the last schema, with the wanted row groups and compression."""
    path = tmp_path / "out.parquet"
    path.write_text("old")
    path.chmod(0o640)
    (file,) = run(widening_rows().write_parquet(path, compression="zstd", row_group_rows=3))
    assert file == {"path": str(path), "rows": len(WIDENED), "bytes": path.stat().st_size}
    table = pq.read_table(path)
    assert table.schema.remove_metadata() == pa.schema({"k": pa.float64(), "s": pa.string()})
    assert list(zip(*table.to_pydict().values(), strict=True)) == WIDENED
    metadata = pq.ParquetFile(path).metadata
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) == 3
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert os.listdir(tmp_path) == ["out.parquet"] and path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("how", every(3, ["file", "folder", "partitions"]))
def test_each_failing_step_of_a_widening_write_leaves_nothing(how: str, tmp_path: Path) -> None:
    """D6, D9: a failure while segments are written, while they are read again, and afterwards."""
    n_failed = 0
    for site in ("write_folder", "write_open", "write_rows", "write_close", "write_rename", "reserve"):
        for nth in range(1, 1000):
            rows, path = widening_rows(), tmp_path / "out"
            if how == "partitions":
                plan = rows.partitioned_output(["k"], 2, path=path).build()
            else:
                plan = rows.write_parquet(path, single=how == "file").build()
            task = qcore.Task(plan, drivers=1)
            with Faults(site, nth) as faults:
                try:
                    list(task.batches(timeout=60))
                except (qcore.ExecutionError, qcore.MemoryLimitError):
                    n_failed += 1
                    assert faults.fired
                    if site != "reserve":
                        assert os.listdir(tmp_path) == []
                    elif os.path.lexists(path):
                        # The row about the file, which has its name already, was refused the memory reserved for it.
                        assert os.listdir(tmp_path) == ["out"]
                        path.unlink() if how == "file" else shutil.rmtree(path)
                    continue
            assert not faults.fired
            assert os.listdir(tmp_path) == ["out"]
            path.unlink() if how == "file" else shutil.rmtree(path)
            break
    assert n_failed > 12


def test_a_query_that_is_cancelled_while_segments_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D6, D9."""
    read = ParquetFormat.read

    def cancelling(self: ParquetFormat, path: str) -> Iterator[pa.RecordBatch]:
        task.cancel()
        yield from read(self, path)

    monkeypatch.setattr(ParquetFormat, "read", cancelling)
    task = qcore.Task(widening_rows().write_parquet(tmp_path / "out").build(), drivers=1)
    with pytest.raises(qcore.Cancelled):
        list(task.batches(timeout=60))
    assert os.listdir(tmp_path) == []


def test_segments_are_private_and_go_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D6: only the owner can enter the folder of segments. A segment is removed as soon as its rows are in the file."""
    read, n_left = ParquetFormat.read, []

    def looking(self: ParquetFormat, path: str) -> Iterator[pa.RecordBatch]:
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        n_left.append(len(list((folder / "segments").iterdir())))
        yield from read(self, path)

    monkeypatch.setattr(ParquetFormat, "read", looking)
    run(widening_rows().write_parquet(tmp_path / "out"))
    # The first segment has the name of the file. One segment is being written.
    assert n_left == [3, 3, 2]


def test_a_schema_that_stays_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D6: rows are written once if the source did not change, or cannot change."""
    opened: list[str] = []
    monkeypatch.setattr(ParquetFormat, "read", None)
    begin = ParquetFormat.open
    monkeypatch.setattr(ParquetFormat, "open", lambda self, *more: opened.append(more[0]) or begin(self, *more))
    rows = PlanBuilder().source(Widening, pa.schema({"k": pa.float64(), "s": pa.string()}), on_schema_change="evolve")
    run(rows.write_parquet(tmp_path / "out"))
    assert len(opened) == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Bad input: the error names the path."""
    (tmp_path / "file").write_text("x")
    for path, message in (("file/out.parquet", "create it first"), ("missing/out", "create it first")):
        with pytest.raises(qcore.PlanError, match=message):
            PlanBuilder().values(TABLE).write_parquet(tmp_path / path)
    (tmp_path / "out.parquet").mkdir()
    with pytest.raises(qcore.PlanError, match=r"out\.parquet is a folder, and only regular files can be replaced"):
        run(PlanBuilder().values(TABLE).write_parquet(tmp_path / "out.parquet"))
    assert sorted(os.listdir(tmp_path)) == ["file", "out.parquet"]


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    builder = PlanBuilder().values(TABLE)
    for message, options in {
        "compression is one of none, snappy": {"compression": "rar"},
        "row_group_rows must be 1 or more, not 0": {"row_group_rows": 0},
    }.items():
        with pytest.raises(qcore.PlanError, match=message):
            builder.write_parquet(tmp_path / "x.parquet", **options)  # type: ignore[arg-type]
    with pytest.raises(qcore.PlanError, match="the local file system"):
        builder.write_parquet("s3://bucket/x.parquet")


def test_copy(tmp_path: Path) -> None:
    """Q2: COPY in SQL. The file has the column names of the query."""
    path = tmp_path / "it's.parquet"
    quoted = str(path).replace("'", "''")
    session = qcore.Session(threads=2)
    session.register("t", TABLE)
    (file,) = (
        session.sql(f"copy (select k as \"Key\", count(*) as n from t group by k) to '{quoted}';")
        .to_arrow()
        .to_pylist()
    )
    assert file["path"] == str(path) and file["rows"] == len(set(TABLE["k"].to_pylist()))
    assert pq.read_table(path).schema.names == ["Key", "n"]
    other = tmp_path / "out"
    session.sql(
        f"COPY t TO '{other}' (FORMAT parquet, PER_THREAD_OUTPUT true, COMPRESSION gzip, ROW_GROUP_SIZE 1000)"
    ).to_arrow()
    assert_same_rows(pq.read_table(other), TABLE)
    (name,) = os.listdir(other)
    metadata = pq.ParquetFile(other / name).metadata
    assert metadata.num_row_groups == 30 and metadata.row_group(0).column(0).compression == "GZIP"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("copy t to 'x.csv'", "COPY writes Parquet, not 'csv'"),
        ("copy t to 'x.parquet' (format json)", "COPY writes Parquet, not 'json'"),
        ("copy t to 'x.parquet' (header true)", "COPY has no option HEADER"),
        ("copy t to 'x.parquet' (row_group_size many)", "ROW_GROUP_SIZE is a number of rows, not 'many'"),
        ("copy t to 'x.parquet' (compression rar)", "compression is one of none"),
        ("copy t from 'x.parquet'", "COPY cannot be read"),
        ("copy t to 'x.parquet' please", "COPY cannot be read after its path"),
        ("copy (select a.k, b.k from t a join t b on a.k = b.k) to 'x.parquet'", "two columns are named 'k'"),
        ("copy (select z from t) to 'x.parquet'", "unknown column 'z'"),
        ("insert into t values (1, 'a', 2)", "unknown table 't' in INSERT INTO"),
    ],
)
def test_statements_that_are_refused(statement: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        qcore.sql(statement, {"t": TABLE})
    assert not os.path.exists("x.parquet")


def test_explain(tmp_path: Path) -> None:
    """G7."""
    text = (
        qcore.Session(threads=1)
        .execute(PlanBuilder().values(TABLE).write_parquet(tmp_path / "x.parquet").build())
        .explain()
    )
    assert f"TableWrite file {tmp_path / 'x.parquet'}" in text


def make_special_file(kind: str, path: Path) -> None:
    """Create something other than a regular file."""
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "a device":
        path.symlink_to(os.devnull)  # only root can create a device node, so a link to one is used
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a device", "a folder"])
def test_only_regular_files_are_replaced(kind: str, tmp_path: Path) -> None:
    """Renaming would replace whatever is at the path, so other kinds of files are errors."""
    path = tmp_path / "x"
    make_special_file(kind, path)
    before = os.lstat(path)
    with pytest.raises(qcore.PlanError, match=rf"x is {kind}, and only regular files can be replaced"):
        PlanBuilder().values(TABLE).write_parquet(path, single=True)
    session = qcore.Session(threads=1)
    session.register("t", TABLE)
    with pytest.raises(qcore.PlanError, match=rf"COPY: .*x is {kind}, and only regular files can be replaced"):
        session.sql(f"copy t to '{path}' (format parquet)")
    with pytest.raises(qcore.PlanError, match="x exists already"):
        session.sql(f"copy t to '{path}' (format parquet, per_thread_output true)")
    assert os.lstat(path) == before
    assert os.listdir(tmp_path) == ["x"]


def test_a_file_that_appeared_at_the_path_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    for kind in ("a FIFO", "a folder"):
        result = qcore.Session(threads=1).execute(PlanBuilder().values(TABLE).write_parquet(path).build())
        batches = iter(result)
        assert result.task.state == "created"
        make_special_file(kind, path)
        with pytest.raises(
            qcore.ExecutionError, match=rf"TableCommit \(node 0\).*cannot write .*x\.parquet has become {kind}"
        ):
            list(batches)
        assert os.listdir(tmp_path) == ["x.parquet"]
        path.unlink() if kind == "a FIFO" else path.rmdir()


def test_the_mode_of_a_replaced_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "app.parquet"
    for mode in (0o600, 0o640, 0o444, 0o755):
        path.write_text("old")
        path.chmod(mode)
        run(PlanBuilder().values(TABLE).write_parquet(path))
        assert (path.stat().st_mode & 0o7777, pq.read_metadata(path).num_rows) == (mode, TABLE.num_rows)
        path.unlink()


def test_a_new_file_has_the_mode_that_new_files_have(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "folder").mkdir()
    run(PlanBuilder().values(TABLE).write_parquet(tmp_path / "x.parquet"))
    run(PlanBuilder().values(TABLE).write_parquet(tmp_path / "x"))
    assert (tmp_path / "x.parquet").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "folder").stat().st_mode


def test_the_target_of_a_symbolic_link_is_replaced(tmp_path: Path) -> None:
    """Links stay, also dangling ones and links to links. The new file is written next to the old one."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (there / "a.parquet").write_text("old")
    (here / "one.parquet").symlink_to(there / "a.parquet")
    (here / "two.parquet").symlink_to("one.parquet")
    (here / "new.parquet").symlink_to(there / "b.parquet")
    for name, target in (("two", "a"), ("new", "b")):
        path = here / f"{name}.parquet"
        (file,) = run(PlanBuilder().values(TABLE).write_parquet(path))
        assert file["path"] == str(path)
        assert path.is_symlink()
        assert not (there / f"{target}.parquet").is_symlink()
        assert pq.read_metadata(there / f"{target}.parquet").num_rows == TABLE.num_rows
    assert sorted(os.listdir(there)) == ["a.parquet", "b.parquet"]
    (here / "lost.parquet").symlink_to(tmp_path / "nowhere" / "x.parquet")
    (here / "round.parquet").symlink_to(here / "round.parquet")
    with pytest.raises(qcore.PlanError, match=r"the folder '.*nowhere' does not exist"):
        PlanBuilder().values(TABLE).write_parquet(here / "lost.parquet")
    with pytest.raises(qcore.PlanError, match=r"round.parquet cannot be written: Too many levels of symbolic links"):
        PlanBuilder().values(TABLE).write_parquet(here / "round.parquet")


def test_files_being_written_are_private(tmp_path: Path) -> None:
    """Only the owner can enter a staging folder, whatever the umask."""
    seen: list[int] = []

    class Looks(qcore.Operator):
        held: Any = None

        def needs_input(self) -> bool:
            return self.held is None

        def add_input(self, batch: pa.RecordBatch) -> None:
            seen.extend(folder.stat().st_mode & 0o777 for folder in tmp_path.glob(".*.partial"))
            self.held = batch

        def get_output(self) -> Any:
            held, self.held = self.held, None
            return held

    umask = os.umask(0)
    try:
        plan = PlanBuilder().values(TABLE).operator(Looks).write_parquet(tmp_path / "x", row_group_rows=10).build()
        qcore.Session(threads=1, batch_rows=1000).execute(plan).to_arrow()
    finally:
        os.umask(umask)
    assert seen
    assert set(seen) == {0o700}
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o777
