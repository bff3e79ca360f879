"""Strings of tables in memory are checked when they are loaded (SPEC H2)."""

from __future__ import annotations

import random
import struct
import threading

import pyarrow as pa
import pytest

import qcore
from qcore_ext.data.row_check import RowChecks

TYPES = [pa.string(), pa.large_string(), pa.string_view()]


def change_bytes(array: pa.Array, buffer: int, at: int, raw: bytes) -> pa.Array:
    """The array with changed bytes in one of its buffers. They are changed after pyarrow has validated the array."""
    buffers = array.buffers()
    held = bytearray(buffers[buffer])
    buffers[buffer] = pa.py_buffer(held)
    made = pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)
    held[at : at + len(raw)] = raw
    return made


def checks(array: pa.Array) -> RowChecks:
    data = array.buffers()[2] if len(array.buffers()) > 2 and array.type != pa.string_view() else None
    return RowChecks("s", array, data.size if data is not None else 0)


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_sections_are_remembered(type: pa.DataType) -> None:
    array = pa.array(["a", "a text of more than twelve bytes", None, "é"] * 2500, type)
    check = checks(array)
    assert check.n_left == 40
    check.require(5, 10)
    assert check.n_left == 39
    check.require(2047, 2)
    assert check.n_left == 37
    check.require(-50, 100_000)
    assert check.n_left == 0
    sliced = checks(array.slice(5000, 100))
    assert sliced.n_left == 1
    sliced.require(0, 100)
    assert sliced.n_left == 0
    assert checks(array.slice(3, 0)).n_left <= 1


def test_short_views_of_every_length(level: int) -> None:
    """At each position of a block: bytes that pad a view, and text that is not ASCII, beside any other text."""
    for length in range(13):
        texts = ["b" * length] * 5
        for position in range(5):
            sound = pa.array(texts, pa.string_view())
            checks(sound).require(0, 5)
            for byte in range(12):
                for value in (1, 0xC3):
                    bad = checks(change_bytes(sound, 1, 16 * position + 4 + byte, bytes([value])))
                    if byte >= length:
                        with pytest.raises(qcore.ExecutionError, match=r"column 's' .*zeros"):
                            bad.require(0, 5)
                    elif value == 0xC3:
                        with pytest.raises(qcore.ExecutionError, match=r"column 's' .*UTF-8"):
                            bad.require(0, 5)
                    else:
                        bad.require(0, 5)


def test_binary_views_may_hold_any_byte(level: int) -> None:
    for n in range(20):
        checks(pa.array([bytes([0xFF]) * (i % 30) for i in range(n)], pa.binary_view())).require(0, n)


def test_long_views_stand_among_short_ones(level: int) -> None:
    numbers = random.Random(level)
    for n in (1, 3, 4, 513, 2049):
        texts = ["x" * numbers.choice((0, 5, 12, 13, 40)) for _ in range(n)]
        array = pa.array(texts, pa.string_view())
        checks(array).require(0, n)
        longs = [i for i, text in enumerate(texts) if len(text) > 12]
        for row in numbers.sample(longs, min(3, len(longs))):
            for at, raw, says in (
                (12, struct.pack("<i", 1 << 28), "past the end"),
                (0, b"\xff\xff\xff\xff", "negative"),
            ):
                bad = checks(change_bytes(array, 1, 16 * row + at, raw))
                with pytest.raises(qcore.ExecutionError, match=f"column 's' .*{says}"):
                    bad.require(0, n)
                assert bad.n_left > 0


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("n", [1, 7, 64, 3000])
def test_offsets(level: int, width: int, n: int) -> None:
    """An offset that descends, is negative or is above the size of the text, in any row."""
    array = pa.array(["ab"] * n, pa.string() if width == 4 else pa.large_string())
    code = "<i" if width == 4 else "<q"
    for row in {0, n // 2, n - 1}:
        for value, says in ((-3, "descend"), (2 * row - 1, "descend"), (2 * n + 1, "descend|outside")):
            bad = checks(change_bytes(array, 1, (row + 1) * width, struct.pack(code, value)))
            with pytest.raises(qcore.ExecutionError, match=f"column 's' .*({says})"):
                bad.require(0, n)
    short = RowChecks("s", array, 2 * n - 1)
    with pytest.raises(qcore.ExecutionError, match="outside"):
        short.require(0, n)


TEXTS = ["", "short", "a text of more than twelve bytes", "twelve bytes", "thirteen byte", "x" * 70, "x" * 300]
# By storage, how a row is damaged: the buffer, the bytes of a row in it, the position in the row, the written bytes.
FAULTS: dict[pa.DataType, list[tuple[int, int, int, bytes]]] = {
    pa.string(): [
        (1, 4, 4, struct.pack("<i", 1 << 30)),
        (1, 4, 4, struct.pack("<i", -1)),
        (1, 4, 0, struct.pack("<i", (1 << 31) - 1)),
    ],
    pa.large_string(): [(1, 8, 8, struct.pack("<q", 1 << 62)), (1, 8, 8, struct.pack("<q", -(1 << 63)))],
    pa.string_view(): [
        (1, 16, 0, struct.pack("<i", -1)),
        (1, 16, 0, struct.pack("<i", 1 << 30)),
        (1, 16, 8, struct.pack("<i", 99)),
        (1, 16, 8, struct.pack("<i", -1)),
        (1, 16, 12, struct.pack("<i", 1 << 30)),
        (1, 16, 12, struct.pack("<i", -9)),
        (1, 16, 4, b"no"),
    ],
}


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_rows_that_a_filter_picks(level: int, type: pa.DataType) -> None:
    """If few rows of a section are read, only they are checked, and a fault in one of them is found."""
    n = 4096
    sound = pa.array([TEXTS[i * i % 11 % 7] for i in range(n)], type)
    for number, (buffer, width, at, raw) in enumerate(FAULTS[type]):
        row = [i for i in range(n) if len(sound[i].as_py()) == 70][10 * number + 1]
        session = qcore.Session(threads=1)
        session.register("t", pa.table({"s": change_bytes(sound, buffer, width * row + at, raw), "i": range(n)}))
        query = "select count(*) n from t where i % 16 = {} and s >= ''"
        with pytest.raises(qcore.ExecutionError, match=r"column 's' .*malformed"):
            session.sql(query.format(row % 16)).to_arrow()
        assert session.sql(query.format((row + 8) % 16)).to_arrow()["n"].to_pylist() == [n // 16]


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("every", [1, 3, 700])
def test_what_a_null_row_holds_is_not_looked_at(type: pa.DataType, every: int) -> None:
    texts = ["good"] * 3000
    array = pa.array(texts, type)
    bits = bytearray(b"\xff" * 375)
    bits[77 // 8] &= ~(1 << (77 % 8))
    raw = array.buffers()
    bad = change_bytes(array, *((2, 4 * 77) if type != pa.string_view() else (1, 16 * 77 + 4)), b"\xff\xfe")
    holds = pa.Array.from_buffers(type, 3000, [pa.py_buffer(bytes(bits)), *bad.buffers()[1 : len(raw)]])
    rows = pa.table({"s": holds, "i": range(3000)})
    session = qcore.Session(threads=1)
    session.register("t", rows)
    # i = 77 is among the loaded rows in each case.
    found = session.sql(
        f"select count(*) n, count(s) m from t where i % {every} = {77 % every} and (s = 'good' or s is null)"
    )
    n = len([i for i in range(3000) if i % every == 77 % every])
    assert found.to_arrow().to_pylist() == [{"n": n, "m": n - 1}]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_values_and_nulls_stand_where_they_did(level: int, type: pa.DataType) -> None:
    """Values and nulls do not move if sections are loaded one by one, from any row, under filters of any density."""
    numbers = random.Random(level)
    texts = [None if numbers.random() < 0.2 else TEXTS[numbers.randrange(7)] + str(i) for i in range(7000)]
    for start, end in ((0, 7000), (3, 2051), (255, 257), (256, 512), (1023, 6999)):
        rows = pa.table({"s": pa.array(texts, type), "i": pa.array(range(7000), pa.int64())}).slice(start, end - start)
        for every, below in ((1, 1), (10, 9), (4, 1), (90, 1)):
            sql = f"select i, s || '!' s from t where i % {every} < {below}"
            found = qcore.sql(sql, {"t": rows}, threads=1).to_arrow()
            wanted = [i for i in range(start, end) if i % every < below]
            assert found["i"].to_pylist() == wanted
            assert found["s"].to_pylist() == [None if texts[i] is None else f"{texts[i]}!" for i in wanted]


def test_many_threads_check_one_array() -> None:
    array = pa.array(["text"] * 400_000)
    for _ in range(5):
        check = checks(array)
        threads = [threading.Thread(target=check.require, args=(0, 400_000)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert check.n_left == 0


def test_a_join_reads_rows_in_any_order() -> None:
    """A join that reads few rows of many sections checks them one by one."""
    numbers = random.Random(5)
    order = list(range(40_000))
    numbers.shuffle(order)
    texts = [f"text number {i} of many" for i in range(40_000)]
    tables = {"t": pa.table({"k": range(40_000), "s": texts}), "o": pa.table({"j": order[:300]})}
    for type in TYPES:
        tables["t"] = tables["t"].set_column(1, "s", tables["t"]["s"].cast(type))
        found = qcore.sql("select j, s from o join t on j = k", tables, threads=1).to_arrow().to_pylist()
        assert sorted((row["j"], row["s"]) for row in found) == sorted((j, texts[j]) for j in order[:300])
        bad = change_bytes(tables["t"]["s"].chunk(0), 1 if type == pa.string_view() else 2, 20, b"\xff\xff")
        broken = {**tables, "t": tables["t"].set_column(1, "s", pa.chunked_array([bad]))}
        wanted = {**broken, "o": pa.table({"j": [30_000, 1, 0]})}
        with pytest.raises(qcore.ExecutionError, match=r"column 's' .*malformed"):
            qcore.sql("select j, s from o join t on j = k", wanted, threads=1).to_arrow()


def test_arrays_that_share_buffers_in_parts() -> None:
    """Chunks that are slices of one array, and one chunk twice."""
    array = pa.array([f"text {i}" for i in range(10_000)], pa.string_view())
    chunks = pa.chunked_array([array.slice(3, 5000), array.slice(0, 10), array.slice(3, 5000), array.slice(9_000)])
    rows = pa.table({"s": chunks})
    for threads in (1, 2):
        assert qcore.sql("select s from t order by s", {"t": rows}, threads=threads).to_arrow()[
            "s"
        ].to_pylist() == sorted(chunks.to_pylist())
