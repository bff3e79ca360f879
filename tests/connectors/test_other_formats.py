"""CSV, Arrow IPC and ORC files opened one by one; whole tables of them are in test_files (SPEC V10)."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as paorc
import pytest

from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable
from qcore.connectors.other_formats import CSV, IPC, ORC, FileFormat, open_whole, read_schema
from qcore.connectors.storage import locate
from qcore.errors import ExecutionError, PlanError
from qcore_ext.ground.fault import Faults

ROWS = pa.table({"a": pa.array(range(100)), "s": [f"text {i}" for i in range(100)], "b": pa.array([1.5] * 100)})


def write(path: Path, format: FileFormat) -> None:
    if format is ORC:
        paorc.write_table(ROWS, path)
    else:
        make = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with make(path, ROWS.schema) as writer:
            writer.write_table(ROWS, max_chunksize=30)


def read(format: FileFormat, path: Path, columns: list[str], batch_rows: int = 1000, **options: Any) -> pa.Table:
    wanted = [pa.field(name, ROWS.schema.field(name).type) for name in columns]
    stream = open_whole(format, FileSplit(str(path)), locate(str(path)), wanted, batch_rows, **options)
    try:
        return pa.RecordBatchReader.from_stream(stream).read_all()
    finally:
        stream.close()


@pytest.mark.parametrize(("format", "suffix"), [(IPC, ".arrow"), (IPC, ".arrows"), (ORC, ".orc")])
def test_binary_formats(tmp_path: Path, format: FileFormat, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    write(path, format)
    location = locate(str(path))
    assert read(format, path, ["s", "a"]).equals(ROWS.select(["s", "a"]))
    assert read(format, path, []).num_rows == 100
    assert read_schema(format, location).names == ["a", "s", "b"]
    # The number of rows of a stream is known only when it is read.
    assert format.rows_of(location) == (None if suffix == ".arrows" else 100)
    sizes = [batch.num_rows for batch in read(format, path, ["a"], 20).to_batches()]
    assert sum(sizes) == 100
    assert max(sizes) == 20


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.tbl", "T.TSV.gz", "t.csv.bz2"])
def test_delimiters_and_compressions(tmp_path: Path, name: str) -> None:
    delimiter = "\t" if ".tsv" in name.lower() else "|" if ".tbl" in name else ","
    text = "\n".join(delimiter.join(row) for row in (["a", "s"], ["1", "x y"], ["2", '"in\nlines"'])).encode()
    data = gzip.compress(text) if name.endswith("gz") else bz2.compress(text) if name.endswith("bz2") else text
    path = tmp_path / name
    path.write_bytes(data)
    assert read(CSV, path, ["s", "a"]).to_pydict() == {"s": ["x y", "in\nlines"], "a": [1, 2]}
    assert read(CSV, path, []).num_rows == 2
    assert CSV.rows_of(locate(str(path))) is None


def test_declared_types_are_read_from_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,s\n007,1\n")
    declared = pa.schema({"s": pa.string(), "a": pa.int64()})
    assert read(CSV, path, ["s"], declared=declared).to_pydict() == {"s": ["1"]}


@pytest.mark.parametrize(("start", "length"), [(0, 10), (1, None), (5, 5)])
def test_sections_are_refused(tmp_path: Path, start: int, length: int | None) -> None:
    path = tmp_path / "t.orc"
    write(path, ORC)
    split = FileSplit(str(path), start, length)
    with pytest.raises(ExecutionError, match="a ORC file is read as a whole, so start must be 0 and length None"):
        open_whole(ORC, split, locate(str(path)), [], 10)


@pytest.mark.parametrize("format", [IPC, ORC])
def test_damaged_and_missing_files(tmp_path: Path, format: FileFormat) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(b"no format at all" * 10)
    with pytest.raises(PlanError, match=rf"t\.bin is not a valid {format.name} file"):
        read_schema(format, locate(str(path)))
    with pytest.raises(ExecutionError, match=rf"cannot read .*t\.bin as {format.name}"):
        read(format, path, ["a"])
    for use in (lambda: read_schema(format, locate(str(tmp_path / "x"))), lambda: read(format, tmp_path / "x", ["a"])):
        with pytest.raises((PlanError, ExecutionError), match=r"no such file: .*x"):
            use()


@pytest.mark.parametrize("site", ["file_open", "file_footer"])
@pytest.mark.parametrize("format", [IPC, ORC])
def test_a_file_that_fails_to_open_is_closed(tmp_path: Path, format: FileFormat, site: str) -> None:
    path = tmp_path / "t.arrow"
    write(path, format)
    with Faults(site, 1), pytest.raises(PlanError, match=r"t\.arrow is not a valid"):
        read_schema(format, locate(str(path)))
    assert read_schema(format, locate(str(path))).names == ["a", "s", "b"]


def test_a_file_whose_rows_cannot_be_counted(tmp_path: Path) -> None:
    """The optimizer asks for row counts first, and finds the damaged batch."""
    path = tmp_path / "t.arrow"
    rows = pa.table({"a": list(range(1000))})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    table = FileTable(str(path))
    assert table.statistics().row_count == 1000
    written = path.read_bytes()
    at = written.index(b"\xff\xff\xff\xff", written.index(b"\xff\xff\xff\xff") + 4)
    path.write_bytes(written[: at + 8] + bytes(64) + written[at + 72 :])
    with pytest.raises(PlanError, match=r"t\.arrow is not a valid Arrow IPC file"):
        table.statistics()
    path.unlink()
    with pytest.raises(PlanError, match=r"no such file: .*t\.arrow"):
        table.statistics()
