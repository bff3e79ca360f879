"""Damaged files are errors that name the file and the column; they never end the process (SPEC H2)."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from c_arrays import Producer, part_of

import qcore
from qcore.connectors.soundness import SoundColumns, require_sound

WORDS = pa.table({"s": [f"text number {i}" for i in range(1000)], "i": list(range(1000))})


def change_bytes(path: Path, old: bytes, new: bytes) -> str:
    raw = path.read_bytes()
    assert old in raw
    path.write_bytes(raw.replace(old, new, 1))
    return str(path)


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
@pytest.mark.parametrize("offset", [2_000_000_000, -7, 0])
def test_a_wrong_offset_in_an_ipc_file(make: object, offset: int, tmp_path: Path) -> None:
    with make(tmp_path / "x.arrow", WORDS.schema) as writer:
        writer.write_table(WORDS)
    path = change_bytes(tmp_path / "x.arrow", struct.pack("<4i", 0, 13, 26, 39), struct.pack("<4i", 0, 13, offset, 39))
    with pytest.raises(qcore.ExecutionError, match=r"x\.arrow.*column 's' .*offsets descend"):
        qcore.sql("select s, count(*) n from t group by s", {"t": path}).to_arrow()
    with pa.memory_map(path) as file:
        mapped = (pa.ipc.open_file if make is pa.ipc.new_file else pa.ipc.open_stream)(file).read_all()
        with pytest.raises(qcore.ExecutionError, match=r"column 's' .*offsets descend"):
            qcore.sql("select s, count(*) n from t group by s", {"t": mapped}).to_arrow()


def test_an_ipc_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    rows = pa.table({"i": pa.array(range(2_000_000), pa.int64())})
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows, 65536)
    # With this limit the queue to the reader holds at most a quarter of the file.
    batches = iter(qcore.sql("select i from t", {"t": str(path)}, threads=1, memory_limit="32MB"))
    next(batches)
    time.sleep(0.1)
    os.truncate(path, 500_000)
    with pytest.raises(qcore.ExecutionError, match=r"x\.arrow"):
        sum(batch.num_rows for batch in batches)


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_in_a_parquet_file_that_is_not_utf8(dictionary: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(WORDS, path, compression="none", use_dictionary=dictionary, write_statistics=False)
    change_bytes(path, b"text number 7", b"text\xff\xfe\xfdmber 7")
    with pytest.raises(qcore.ExecutionError, match=r"x\.parquet.*column 's' .*UTF-8"):
        qcore.sql("select max(s) m from t", {"t": str(path)}).to_arrow()
    assert qcore.sql("select sum(i) n from t", {"t": str(path)}).to_arrow()["n"].to_pylist() == [499500]


def test_a_column_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(path, pa.schema([("strange", pa.int64())])):
        pass
    raw = path.read_bytes().replace(b"strange", b"str\xffnge")
    path.write_bytes(raw)
    with pytest.raises(qcore.PlanError, match=r"x\.arrow.*UTF-8"):
        qcore.sql("select * from t", {"t": str(path)})


def test_a_table_is_checked_once() -> None:
    """Later queries of any session do not check the chunks of the same table again."""
    rows = pa.table({"s": pa.chunked_array([["a", "b"], ["c"]]), "n": [1, 2, 3], "l": [[1], [2], [3]]})
    for _ in range(2):
        qcore.sql("select s, n, l from t", {"t": rows}).to_arrow()
    sound = SoundColumns.of(rows)
    assert sound.to_check(rows, ["s", "n", "l"], 0, 3) is None
    assert sound._good == {("s", 0), ("s", 1), ("l", 0)}
    known = len(SoundColumns._known)
    del rows
    assert len(SoundColumns._known) == known - 1


@pytest.mark.parametrize("type", [pa.string(), pa.string_view(), pa.binary()], ids=str)
def test_only_what_a_query_loads_is_checked(type: pa.DataType) -> None:
    n = 20_000
    rows = pa.table({"s": pa.array(["a"] * n, type), "u": pa.array(["b"] * n, type), "i": range(n)})
    session = qcore.Session(threads=1, batch_rows=2048)
    session.register("t", rows)
    sound = SoundColumns.of(rows)
    assert session.sql("select min(s) m from t where i < 4096").to_arrow()["m"].to_pylist() in (["a"], [b"a"])
    assert sound._checks["s", 0].n_left == 63
    # Columns that a filter reads in few rows are checked, but the result is not remembered.
    session.sql("select min(u) m from t where i % 100 = 0").to_arrow()
    assert sound._checks["u", 0].n_left == 79
    session.sql("select min(s) m, min(u) n from t").to_arrow()
    assert sound.to_check(rows, ["s", "u"], 0, n) is None


def test_rows_checked_one_by_one_are_remembered_in_the_end() -> None:
    """When checks of single rows have cost as much as one of the array, the array is checked and remembered."""
    n = 8192
    rows = pa.table({"s": ["text"] * n, "i": range(n)})
    session = qcore.Session(threads=1)
    session.register("t", rows)
    left = []
    for _ in range(10):
        session.sql("select min(s) m from t where i % 8 = 0").to_arrow()
        left.append(SoundColumns.of(rows)._checks["s", 0].n_left)
    assert left == [32] * 8 + [0] * 2


@pytest.mark.parametrize("type", [pa.string(), pa.string_view(), pa.large_string()], ids=str)
@pytest.mark.parametrize("step", [1, 500])
@pytest.mark.parametrize("start", [0, 5])
def test_a_fault_is_found_wherever_a_query_reads_it(type: pa.DataType, step: int, start: int) -> None:
    """A query that loads the malformed row fails, for one row or many. Other queries give right rows."""
    for row in (0, 2047, 2048, 4999):
        raw = bytearray(b"a" * 5000)
        raw[row] = 0xFF
        offsets = pa.py_buffer(np.arange(len(raw) + 1, dtype=np.int32))
        bad = pa.Array.from_buffers(pa.binary(), len(raw), [None, offsets, pa.py_buffer(bytes(raw))])
        bad = {pa.string(): bad, pa.large_string(): bad.cast(pa.large_binary())}.get(type, bad.cast(pa.binary_view()))
        numbers = pa.array(range(5000))
        rows = pa.table({"s": bad.view(type), "i": numbers}).slice(start)
        session = qcore.Session(threads=1)
        session.register("t", rows)
        reads = f"select count(*) n from t where i % {step} = {row % step} and s >= 'a'"
        if row >= start:
            with pytest.raises(qcore.ExecutionError, match=r"column 's' .*UTF-8"):
                session.sql(reads).to_arrow()
        others = session.sql(f"select count(*) n from t where i <> {row} and i % 500 = {(row + 1) % 500} and s >= 'a'")
        read = [i for i in range(start, 5000) if i % 500 == (row + 1) % 500]
        assert others.to_arrow()["n"].to_pylist() == [len(read)]


def test_dates_that_python_cannot_hold() -> None:
    """Q5: Arrow has dates in years that Python's dates do not have."""
    rows = pa.table({"fine": [1], "d": pa.array([2**31 - 1], pa.int32()).view(pa.date32())})
    result = qcore.sql("select fine, d from t", {"t": rows})
    assert pc.cast(result.to_arrow()["d"], pa.int32()).to_pylist() == [2**31 - 1]
    with pytest.raises(qcore.ExecutionError, match=r"column 'd' .*pandas cannot hold"):
        result.to_pandas()


def test_a_column_of_nulls_that_is_declared_not_nullable() -> None:
    """pyarrow reads such a type from a file, but cannot make such a field."""
    part = part_of(pa.record_batch({"n": pa.nulls(3)}))
    part.children[0].schema["flags"] = 0
    session = qcore.Session(threads=1)
    session.register("t", Producer(part))
    assert session.sql("select n from t").to_arrow().to_pylist() == [{"n": None}] * 3


def stream_with_null_keys() -> bytes:
    """An Arrow stream of one map column. The byte that gives the type of the keys is changed from text to null.

    pyarrow makes no such type. It reads one.
    """
    rows = pa.table({"m": pa.array([[("a", 2)], [("b", 4)]], pa.map_(pa.string(), pa.int32()))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    raw = sink.getvalue().to_pybytes()
    for position in [i for i, byte in enumerate(rows.schema.serialize().to_pybytes()) if byte == 5]:
        changed = raw[:position] + b"\x01" + raw[position + 1 :]
        with contextlib.suppress(pa.ArrowException, OSError):
            if str(pa.ipc.open_stream(changed).schema.field("m").type).startswith("map<null"):
                return changed
    raise AssertionError("no byte tells the type of the keys")


def test_a_map_whose_keys_are_null() -> None:
    """If the column of such a batch is read, pyarrow may end the process."""
    raw = stream_with_null_keys()
    batch = pa.ipc.open_stream(raw).read_next_batch()
    with pytest.raises(qcore.ExecutionError, match=r"the batch: column 'm' of an Arrow batch is malformed: .*[Nn]ull"):
        require_sound(batch.slice(0, 1), "the batch")
    with pytest.raises(qcore.ExecutionError, match=r"the Arrow table: column 'm' of an Arrow batch .*[Nn]ull"):
        SoundColumns(pa.ipc.open_stream(raw).read_all())
