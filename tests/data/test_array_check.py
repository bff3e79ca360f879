"""Malformed Arrow arrays are errors that name the column, for every way of import (SPEC H2)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from c_arrays import Part, Producer, part_of

import qcore
from qcore.connectors.base import TableStatistics
from qcore_ext.data.checked_stream import CheckedStream, check_batch
from qcore_ext.data.schema import Schema

TEXT = "a text of more than twelve bytes"
COLUMNS = {
    "number": pa.array([1, None, 3, 4]),
    "text": pa.array(["a", None, "ccc", TEXT]),
    "large": pa.array(["a", None, "ccc", TEXT], pa.large_string()),
    "view": pa.array(["a", None, TEXT, TEXT + "!"], pa.string_view()),
    "code": pa.array(["x", "y", None, "x"]).dictionary_encode(),
    "list": pa.array([[1], None, [2, 3], []]),
    "pairs": pa.array([[("a", 1)], None, [], [("b", 2)]], pa.map_(pa.string(), pa.int32())),
    "fixed": pa.array([[1, 2]] * 4, pa.list_(pa.int8(), 2)),
    "views": pa.array([[1], None, [2, 3], []], pa.list_view(pa.int64())),
    "record": pa.array([{"p": 1, "q": "x"}, None, {"p": 2, "q": "y"}, {"p": 3, "q": TEXT}]),
    "words": pa.array([["x"], ["y", "x"], None, []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
}


def put(at: int, format: str, *values: int, buffer: int = 1) -> Callable[[Part], None]:
    """Write numbers into a buffer at a byte."""
    def change(part: Part) -> None:
        struct.pack_into("<" + format, part.buffers[buffer], at, *values)
    return change


def say(**numbers: int) -> Callable[[Part], None]:
    return lambda part: part.numbers.update(numbers)


def null(buffer: int) -> Callable[[Part], None]:
    def change(part: Part) -> None:
        part.buffers[buffer] = None
    return change


def inside(change: Callable[[Part], None], child: int = 0) -> Callable[[Part], None]:
    return lambda part: change(part.children[child])


def in_dictionary(change: Callable[[Part], None]) -> Callable[[Part], None]:
    return lambda part: change(part.dictionary)


def in_words(change: Callable[[Part], None]) -> Callable[[Part], None]:
    return lambda part: change(part.children[0].dictionary)


MALFORMED = [
    ("number", say(length=-1), "negative"),
    ("number", say(length=3), "shorter"),
    ("number", say(length=9), "another number of rows"),
    ("number", say(offset=-1), "negative"),
    ("number", say(offset=1 << 62), "too large"),
    ("number", say(length=(1 << 63) - 1, offset=2), "too large"),
    ("number", say(length=1 << 41), "too large"),
    ("number", say(n_buffers=1), "number of buffers"),
    ("number", say(n_buffers=-1), "number of buffers"),
    ("number", say(null_count=99), "null count"),
    ("number", say(null_count=-7), "null count"),
    ("number", null(0), "no validity bitmap"),
    ("number", null(1), "buffer of values is missing"),
    ("text", put(8, "i", 0), "descend"),
    ("text", put(4, "i", -5), "descend"),
    ("text", put(0, "5i", -8, -8, -8, -8, -8), "descend"),
    ("text", null(1), "buffer of values is missing"),
    ("text", null(2), "buffer of bytes is missing"),
    ("text", say(n_buffers=2), "number of buffers"),
    ("text", put(1, "B", 0xFF, buffer=2), "UTF-8"),
    ("text", put(4, "2B", 0xC0, 0x80, buffer=2), "UTF-8"),
    ("text", put(4, "3B", 0xED, 0xA0, 0x80, buffer=2), "UTF-8"),
    ("text", put(3, "2B", 0xC3, 0xA4, buffer=2), "UTF-8"),      # a character in two rows
    ("large", put(16, "q", 0), "descend"),
    ("large", put(8, "q", -1), "descend"),
    ("large", put(32, "q", 1 << 33), "2 GiB"),
    ("view", put(0, "i", -5), "negative length"),
    ("view", put(2 * 16 + 8, "i", 7), "missing buffer"),
    ("view", put(2 * 16 + 8, "i", -1), "missing buffer"),
    ("view", put(2 * 16 + 12, "i", 2_000_000_000), "past the end"),
    ("view", put(2 * 16 + 12, "i", -4), "past the end"),
    ("view", put(2 * 16, "i", 2_000_000_000), "past the end"),
    ("view", put(2 * 16 + 4, "4B", *b"ZZZZ"), "prefix of one of its views"),
    ("view", put(15, "B", 1), "zeros"),
    ("view", null(3), "sizes of its view buffers"),
    ("view", null(2), "past the end"),
    ("view", say(n_buffers=2), "number of buffers"),
    ("code", put(4, "i", 9), "outside its dictionary"),
    ("code", put(4, "i", -1), "outside its dictionary"),
    ("code", null(1), "buffer of values is missing"),
    ("code", in_dictionary(say(length=1)), "outside its dictionary"),
    ("code", in_dictionary(say(length=-1)), "negative"),
    ("code", in_dictionary(put(4, "i", 9)), "descend"),
    ("list", put(4, "i", 3), "descend"),
    ("list", put(16, "i", 1_000_000_000), "point outside their array"),
    ("list", put(0, "i", -4), "descend"),
    ("list", inside(say(length=2)), "point outside their array"),
    ("list", say(n_children=0), "number of children"),
    ("list", inside(null(1)), "buffer of values is missing"),
    ("pairs", inside(inside(put(4, "i", 9))), "descend"),
    ("fixed", inside(say(length=7)), "more elements"),
    ("views", put(8, "i", 2_000_000_000), "points outside its elements"),
    ("views", put(8, "i", -1, buffer=2), "points outside its elements"),
    ("views", null(2), "sizes of its lists"),
    ("record", inside(say(length=1)), "shorter"),
    ("record", inside(put(8, "i", -1), 1), "descend"),
    ("record", say(n_children=1), "number of children"),
    ("words", inside(put(0, "b", 5)), "outside its dictionary"),
    ("words", inside(put(0, "b", -1)), "outside its dictionary"),
    ("words", in_words(put(4, "i", -1)), "descend"),
]


class Native:
    """A connector whose splits are the producer itself, which the engine imports without pyarrow."""

    def __init__(self, source: Any, schema: pa.Schema) -> None:
        self.schema = pa.schema(Schema(schema))
        self._source = source

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Any, target: int) -> list[qcore.Split]:
        return [qcore.Split()]

    def open(self, split: Any, columns: tuple[str, ...], filter: Any, batch_rows: int) -> Any:
        return self._source


def batch_with(column: str) -> pa.RecordBatch:
    return pa.record_batch({column: COLUMNS[column], "other": pa.array([1, 2, 3, 4])})


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("start", [0, 1])
def test_sound_arrays_pass(column: str, start: int) -> None:
    batch = batch_with(column).slice(start)
    check_batch(batch)
    session = qcore.Session(threads=1)
    session.register("streamed", Producer(part_of(batch)))
    session.register("native", Native(Producer(part_of(batch)), batch.schema))
    for name in ("streamed", "native"):
        assert session.sql(f"select * from {name}").to_arrow().to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("native", [False, True], ids=["streamed", "native"])
@pytest.mark.parametrize(
    ("column", "change", "says"), MALFORMED, ids=[f"{c}-{i}-{s}" for i, (c, _, s) in enumerate(MALFORMED)]
)
def test_malformed_arrays_are_refused(column: str, change: Callable[[Part], None], says: str, native: bool) -> None:
    batch = batch_with(column)
    part = part_of(batch)
    change(part.children[0])
    session = qcore.Session(threads=1)
    session.register("t", Native(Producer(part), batch.schema) if native else Producer(part))
    if native and says == "another number of rows":
        return      # the engine reads as many rows as the batch has
    with pytest.raises(qcore.ExecutionError, match=f"column '{column}' .*{says}"):
        session.sql("select * from t").to_arrow()


@pytest.mark.parametrize("change", [
    say(length=-1), say(length=9), say(offset=-1), say(offset=1 << 62), say(n_children=1), say(n_children=-1),
    say(null_count=2), null(0),
], ids=range(8))
def test_malformed_batches_are_refused(change: Callable[[Part], None]) -> None:
    part = part_of(batch_with("text"))
    change(part)
    if part.numbers["null_count"] == 0 and part.numbers == part_of(batch_with("text")).numbers:
        return      # the validity of a batch is not read
    session = qcore.Session(threads=1)
    session.register("t", Producer(part))
    with pytest.raises(qcore.ExecutionError, match="malformed"):
        session.sql("select * from t").to_arrow()


@pytest.mark.parametrize("schema", [
    {"format": None}, {"format": b"zz"}, {"format": b""}, {"format": b"\xff"}, {"format": b"w:-1"}, {"format": b"w:"},
    {"format": b"w:99999999999"}, {"format": b"d:99,2"}, {"format": b"d:5"}, {"format": b"d:0,0"},
    {"format": b"d:5,2,16"},
    {"format": b"ts"}, {"format": b"tsx:"}, {"format": b"tDx"}, {"format": b"ttx"}, {"format": b"t"},
    {"format": b"+w:-3"}, {"format": b"+l"}, {"n_children": -1}, {"n_children": 1 << 40}, {"name": b"\xff\xfe"},
], ids=str)
@pytest.mark.parametrize("native", [False, True], ids=["streamed", "native"])
def test_malformed_types_are_refused(schema: dict[str, Any], native: bool) -> None:
    batch = batch_with("number")
    part = part_of(batch)
    part.children[0].schema.update(schema)
    session = qcore.Session(threads=1)
    with pytest.raises(qcore.QcoreError):  # noqa: PT012  either call may refuse
        session.register("t", Native(Producer(part), batch.schema) if native else Producer(part))
        session.sql("select * from t").to_arrow()


# For a block of valid views: the position of the fault, the written bytes, and the expected message.
VIEW_FAULTS = [
    (0, "i", (-5,), "negative length"), (8, "i", (2,), "missing buffer"), (8, "i", (-1,), "missing buffer"),
    (12, "i", (1 << 30,), "past the end"), (12, "i", (-4,), "past the end"), (0, "i", (1 << 30,), "past the end"),
    (4, "4B", tuple(b"ZZZZ"), "prefix of one of its views"), (0, "i4Bq", (12, *b"abcd", 0xFF), "UTF-8"),
    (0, "i4Bq", (3, *b"abcd", 0), "zeros"),
]
VIEW_TEXTS = {
    "alike": ["N"] * 1300,
    "of any length": ["x" * (i * 7 % 40) for i in range(1300)],
    "not in order": [f"text number {i % 9} of a few" for i in range(1300)],
    "not ASCII": ["é" * (i % 25) for i in range(1300)],
}


@pytest.mark.parametrize("texts", VIEW_TEXTS)
def test_a_view_among_many_is_looked_at(texts: str) -> None:
    """Blocks of views are checked together. A fault at any position is found. Views of null rows may have any bytes."""
    rows = [*VIEW_TEXTS[texts], TEXT, None]
    part = part_of(pa.record_batch({"v": pa.array(rows, pa.string_view())}))
    taken = pa.RecordBatchReader.from_stream(CheckedStream(Producer(part.copy()))).read_all()
    assert taken["v"].to_pylist() == rows
    for at, format, values, says in VIEW_FAULTS:
        for row in (1300, 1301):
            wrong = part.copy()
            put(1300 * 16 + at, format, *values)(wrong.children[0])
            if row == 1301:
                put(1300 // 8, "B", 0, buffer=0)(wrong.children[0])
                say(null_count=-1)(wrong.children[0])
            reader = pa.RecordBatchReader.from_stream(CheckedStream(Producer(wrong)))
            if row == 1301:
                assert reader.read_all()["v"].to_pylist()[:1296] == rows[:1296]
                continue
            with pytest.raises(pa.ArrowInvalid, match=f"column 'v' .*{says}"):
                reader.read_all()


@pytest.mark.parametrize("texts", VIEW_TEXTS)
@pytest.mark.parametrize(
    ("format", "values", "says"),
    [
        ("i4Bq", (3, *b"abcd", 0), "zeros"),
        ("iiq", (1, ord("N"), 1 << 40), "zeros"),
        ("i4Bq", (1, 0xFF, 0, 0, 0, 0), "UTF-8"),
    ],
)
def test_a_short_view_in_the_middle_of_a_block(texts: str, format: str, values: tuple[int, ...], says: str) -> None:
    part = part_of(pa.record_batch({"v": pa.array(VIEW_TEXTS[texts], pa.string_view())}))
    put(700 * 16, format, *values)(part.children[0])
    reader = pa.RecordBatchReader.from_stream(CheckedStream(Producer(part)))
    with pytest.raises(pa.ArrowInvalid, match=f"column 'v' .*{says}"):
        reader.read_all()


def test_text_between_views_in_order_is_not_taken_for_theirs() -> None:
    """Bytes between two views that no view points to are not checked as text."""
    texts = pa.array(["first text of many", "\u00e9", "second text of many"]).cast(pa.string_view())
    part = part_of(pa.record_batch({"v": texts}))
    data = part.children[0].buffers[2]
    assert data is not None
    for at in range(len(data)):
        if data[at] > 127:
            data[at] = 0xFF
    taken = pa.RecordBatchReader.from_stream(CheckedStream(Producer(part))).read_all()
    assert taken["v"].to_pylist() == texts.to_pylist()


def test_trusted_data_is_not_looked_at() -> None:
    offsets = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xff")])
    session = qcore.Session(threads=1)
    session.register("unchecked", pa.table({"s": bad}), trusted=True)
    session.register("checked", pa.table({"s": bad}))
    assert session.sql("select count(s) n from unchecked").to_arrow()["n"].to_pylist() == [2]
    with pytest.raises(qcore.ExecutionError, match=r"column 's' .*UTF-8"):
        session.sql("select count(s) n from checked").to_arrow()


def text_with_offsets(*offsets: int) -> pa.RecordBatch:
    """Strings in `hello` with these offsets, which are written after pyarrow has validated the batch."""
    held = bytearray(4 * len(offsets))
    made = pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(held), pa.py_buffer(b"hello")])
    batch = pa.record_batch({"s": made})
    struct.pack_into(f"<{len(offsets)}i", held, 0, *offsets)
    return batch


def test_a_table_with_buffers_that_are_too_small_is_refused() -> None:
    """Only pyarrow knows the sizes of buffers; the C Data interface has none. Offsets may be beyond the text."""
    bad = text_with_offsets(0, 5, 2_000_000_000)
    with pytest.raises(qcore.QcoreError, match="'s'"):
        qcore.sql("select s from t", {"t": bad}).to_arrow()
    with pytest.raises(qcore.QcoreError, match="'s'"):
        qcore.PlanBuilder().values(bad)


def test_a_batch_of_an_operator_is_checked() -> None:
    """V5: batches from a user's operator are checked, too."""
    class Gives(qcore.StatelessOperator):
        offsets: tuple[int, ...]

        def execute(self, batch: pa.RecordBatch, *_: Any) -> pa.RecordBatch:
            return text_with_offsets(*self.offsets)

    plan = qcore.PlanBuilder().values(pa.table({"s": ["a", "b"]})).operator(Gives).build()
    for Gives.offsets in ((0, 5, 2), (0, 5, 2_000_000_000)):
        with pytest.raises(qcore.ExecutionError, match="malformed"):
            qcore.Session(threads=1).execute(plan).to_arrow()
