"""Blocks of rows: values of every type come back, in few bytes, always the same; damaged ones are errors (SPEC S2)."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from page_rows import batches_of, engine_batch, page_writer, read_blocks, table_of, written_file

import qcore
from oracle import assert_same_rows
from qcore.errors import QcoreError
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.page_block import block_of, can_block, checksum_of, compressed_block
from random_tables import random_table

TYPES: list[pa.DataType] = [
    pa.null(),
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64()),
    *(pa.decimal128(7, 2), pa.decimal128(18, 3), pa.decimal128(30, 5), pa.decimal128(38, 0)),
    *(pa.date32(), pa.time32("ms"), pa.time64("us"), pa.timestamp("us"), pa.timestamp("ns", "Europe/Berlin")),
    *(pa.duration("s"), pa.month_day_nano_interval()),
    *(pa.string(), pa.string_view(), pa.large_binary(), pa.uuid()),
]
SIZES = [1, 7, 64, 2048, 2049, 5000]


def back(path: Path, *blocks: pa.Buffer, like: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a page of these blocks."""
    data = b"".join(map(bytes, blocks))
    return read_blocks(path, data, like.schema, like.num_rows, checksum_of(data))


def block(**columns: pa.Array) -> pa.Buffer:
    return block_of(engine_batch(pa.record_batch(columns)))


def same(found: pa.RecordBatch, wanted: pa.RecordBatch) -> bool:
    """Whether rows are equal, in whatever layout they are returned."""
    return bool(found.to_pylist() == wanted.to_pylist())


@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("type", TYPES, ids=str)
def test_values_of_every_type(tmp_path: Path, type: pa.DataType, null_share: float) -> None:
    """Alone in a page, and several blocks together, of which the first does not end at a byte of the bitmap."""
    whole = random_table(7, sum(SIZES), {"a": type, "b": pa.int64()}, null_share).combine_chunks().to_batches()[0]
    start = 0
    blocks = []
    for n in SIZES:
        rows = whole.slice(start, n)
        start += n
        blocks.append(block_of(engine_batch(rows)))
        assert blocks[-1].size % 8 == 0
        assert same(back(tmp_path / f"{n}", blocks[-1], like=rows), rows)
    assert same(back(tmp_path / "all", *blocks, like=whole), whole)


@pytest.mark.parametrize(
    ("values", "type", "width"),
    [
        ([7] * 4096, pa.int64(), 0),
        ([2**62, 2**62 + 255] * 2048, pa.int64(), 1),
        ([-128, 127] * 2048, pa.int8(), 1),
        ([-(2**15), -(2**15) + 256] * 2048, pa.int32(), 2),
        ([-(2**31), 2**31 - 1] * 2048, pa.int32(), 4),
        ([-(2**31), 2**31 - 1] * 2048, pa.int64(), 4),
        ([-(2**63), 2**63 - 1] * 2048, pa.int64(), 8),
        ([2**63 - 1, 2**63] * 2048, pa.uint64(), 1),
        ([2**63 - 1] * 2048 + [2**63] * 2048, pa.uint64(), 1),
        ([0, 2**64 - 1] * 2048, pa.uint64(), 8),
        ([None, 10**9, 10**9 + 5, None] * 1024, pa.int64(), 1),
        ([Decimal(10**17), Decimal(10**17 + 9)] * 2048, pa.decimal128(18, 0), 1),
        ([Decimal(-(2**63)), Decimal(-(2**63) + 9)] * 2048, pa.decimal128(38, 0), 1),
        ([Decimal(-(2**63)), Decimal(-(2**63) - 1)] * 2048, pa.decimal128(38, 0), 16),
        ([Decimal(2**63), None] * 2048, pa.decimal128(38, 0), 16),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 9, 1)] * 2048, pa.date32(), 1),
        ([True, False, None, True] * 1024, pa.bool_(), 1),
    ],
)
def test_integers_take_few_bytes(tmp_path: Path, values: list[object], type: pa.DataType, width: int) -> None:
    """The differences to the smallest value. Nulls take no more."""
    rows = pa.record_batch({"a": pa.array(values, type)})
    found = block_of(engine_batch(rows))
    assert found.size == 32 + 32 + (512 if None in values else 0) + 4096 * width
    assert same(back(tmp_path / "a", found, like=rows), rows)


def test_texts_take_few_bytes(tmp_path: Path) -> None:
    """At most 256 distinct texts are numbers; others have lengths of the fewest bytes."""
    n = 4096
    cases = [
        ([f"{i % 256:012}" for i in range(n)], n + 256 * (4 + 12)),
        ([f"{i % 256:040}" for i in range(n)], n + 256 * (4 + 40)),
        (["the only text"] * n, 8 + 16),
        ([f"{i:013}" for i in range(n)], 13 * n),
        ([f"{i % 257:04}" for i in range(n)], 4 * n),
        (["x" * (i % 3) + f"{i:04}" for i in range(n)], n + 4 * n + sum(i % 3 for i in range(n))),
        ([f"{i:0{i % 500 + 5}}" for i in range(n)], 2 * n + sum(i % 500 + 5 for i in range(n))),
        (["", "x"] * (n // 2), n + 8 + 8),
    ]
    for number, (texts, n_bytes) in enumerate(cases):
        rows = pa.record_batch({"a": pa.array(texts)})
        found = block_of(engine_batch(rows))
        assert 0 <= found.size - 64 - n_bytes < 8, texts[:3]
        assert same(back(tmp_path / str(number), found, like=rows), rows)


def test_texts_that_are_alike(tmp_path: Path) -> None:
    """Equal lengths, ends and starts; zeros; and texts whose slots of the numbers' table are taken."""
    alike = [
        "a" * 20 + "b",
        "a" * 19 + "bb",
        "a" * 20 + "c",
        "a" * 12,
        "a" * 13,
        "a" * 11 + "\0",
        "a" * 11,
        "",
        "\0",
        "\0\0",
    ]
    alike += ["prefix" + "x" * i + "the same ending" for i in range(40)]
    alike += [f"same{i:03}the same ending of this text" for i in range(180)]
    rows = pa.record_batch({"a": pa.array(random.Random(5).choices(alike, k=9000))})
    found = block_of(engine_batch(rows))
    assert found.size < 64 + 9000 + 230 * 50
    assert same(back(tmp_path / "a", found, like=rows), rows)


def test_numbers_of_texts_stay_a_dictionary(tmp_path: Path) -> None:
    """A page whose blocks all have numbers is read as numbers; with another block its texts are read."""
    few = [
        pa.record_batch({"a": pa.array([f"text {i % 3 + number} of a length" for i in range(100)])})
        for number in (0, 2)
    ]
    many = pa.record_batch({"a": pa.array([f"text {i}" for i in range(100)])})
    for batches in (few, [*few, many], [many, *few]):
        rows = pa.concat_batches(batches)
        blocks = [block_of(engine_batch(batch)) for batch in batches]
        assert same(back(tmp_path / "a", *blocks, like=rows), rows)


def test_nothing_depends_on_what_is_behind_nulls(tmp_path: Path) -> None:
    """A task that runs again must give the same pages. Values of null rows are whatever was in memory."""
    n = 3000
    nulls = np.arange(n) % 3 == 0
    bits = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())

    def array_of(seed: int, dtype: type, arrow: pa.DataType) -> pa.Array:
        values = np.arange(n).astype(dtype)
        values[nulls] = np.random.default_rng(seed).integers(0, 100, int(nulls.sum())).astype(dtype)
        return pa.Array.from_buffers(arrow, n, [bits, pa.py_buffer(values.tobytes())])

    for dtype, arrow in ((np.int64, pa.int64()), (np.float64, pa.float64()), (np.int16, pa.int16())):
        one, other = (block(a=array_of(seed, dtype, arrow)) for seed in (1, 2))
        assert one.equals(other)
    texts = pa.array([None if null else f"a text of row {i}" for i, null in enumerate(nulls)], pa.string_view())
    views = np.frombuffer(texts.buffers()[1], np.uint8).reshape(n, 16).copy()
    views[nulls, :4] = 5
    changed = pa.Array.from_buffers(texts.type, n, [texts.buffers()[0], pa.py_buffer(views), *texts.buffers()[2:]])
    assert block(a=texts).equals(block(a=changed))


def test_rows_of_a_selection(tmp_path: Path) -> None:
    """Tasks write the rows that a filter left, of columns that were computed, taken from others, or constant."""
    rows = random_table(3, 20_000, {"k": pa.int64(), "s": pa.string(), "d": pa.decimal128(15, 2)}, 0.1)
    plan = (
        qcore.PlanBuilder()
        .values(rows)
        .filter("k % 3 = 0")
        .project(["k", "s", "d", "k + 1 as n", "'constant' as c", "cast(null as varchar) as v"])
        .partitioned_output(["k"], 5)
        .build()
        .with_fields(path=str(tmp_path / "a.pages"), single_file=True)
    )
    task = qcore.Task(plan, drivers=2)
    task.start()
    task.wait()
    assert task.page_file is not None
    text = "select k, s, d, k + 1 as n, 'constant' as c, cast(null as varchar) as v from t where k % 3 = 0"
    wanted = qcore.sql(text, {"t": rows}).to_arrow()
    assert_same_rows(table_of(task.page_file, plan.child.schema), wanted)
    picked = table_of(task.page_file, plan.child.schema, ["n", "s"])
    assert_same_rows(picked, wanted.select(["n", "s"]))


def test_compressed_blocks(tmp_path: Path) -> None:
    """Beside blocks that are not compressed."""
    rows = random_table(3, 3000, {"k": pa.int64(), "s": pa.string()}, 0.1).combine_chunks().to_batches()[0]
    plain = [block_of(engine_batch(rows.slice(start, 1000))) for start in (0, 1000, 2000)]
    packed = compressed_block(plain[1], pa.Codec("lz4").compress(plain[1]))
    assert packed.size % 8 == 0
    assert same(back(tmp_path / "a", plain[0], packed, plain[2], like=rows), rows)
    assert same(back(tmp_path / "a", packed, like=rows.slice(1000, 1000)), rows.slice(1000, 1000))


def test_slow_storage(tmp_path: Path) -> None:
    """Pages are compressed if a byte takes long enough to write and read."""
    rows = pa.record_batch({"a": [n // 64 * 7919 % 100_000 for n in range(20_000)]})
    sizes = []
    for byte_nanos in (0.1, 16.0):
        writer = page_writer(tmp_path / str(byte_nanos), rows.schema, byte_nanos=byte_nanos)
        for start in (0, 10_000):
            writer.write(0, rows.slice(start, 10_000))
        file = written_file(writer)
        assert pa.Table.from_batches(batches_of(file, rows.schema)).equals(pa.Table.from_batches([rows]))
        sizes.append(file.n_bytes)
    assert sizes[1] < sizes[0] / 4


def test_nested_rows_are_no_blocks() -> None:
    assert can_block(Schema(pa.schema([("a", pa.string())])))
    assert not can_block(Schema(pa.schema([("a", pa.int64()), ("l", pa.list_(pa.int64()))])))


def test_damaged_blocks_are_errors_or_rows(tmp_path: Path) -> None:
    """Bytes that were changed while their checksum is right: an error, or rows; never memory outside of the page."""
    chance = random.Random(11)
    path = tmp_path / "a"
    schema = {"i": pa.int32(), "s": pa.string(), "t": pa.string(), "d": pa.decimal128(30, 2), "f": pa.float64()}
    rows = random_table(5, 300, {**schema, "t": pa.int8()}, 0.2).combine_chunks().to_batches()[0]
    rows = rows.set_column(
        2, "t", pa.array([f"one of {value % 3}" if value else None for value in rows["t"].to_pylist()])
    )
    good = bytes(block_of(engine_batch(rows)))
    n_errors = n_read = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(len(data) if chance.random() < 0.5 else 32 * 6)
            data[at] = chance.choice([0, 1, 0xFF, 0x7F, 0x80, chance.randrange(256)])
        if chance.random() < 0.1:
            del data[chance.randrange(len(data) // 8) * 8 :]
        try:
            batch = read_blocks(path, bytes(data), rows.schema, rows.num_rows, checksum_of(data))
        except QcoreError as error:
            n_errors += f"cannot read the file {path} of an earlier stage" in str(error)
        else:
            assert batch.num_rows == rows.num_rows
            n_read += 1
            batch.select(["i", "d", "f"]).to_pylist()
            [text.as_buffer().size for name in ("s", "t") for text in batch[name] if text.is_valid]
    assert n_errors + n_read == 3000 and n_errors > 500


def test_rows_that_are_not_the_reported_ones(tmp_path: Path) -> None:
    rows = pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    data = bytes(block_of(engine_batch(rows)))
    other = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
    for schema, n_rows, reason in (
        (rows.schema, 4, "the blocks have too few rows"),
        (rows.schema, 2, "a block has another number of rows"),
        (other, 3, "a column is missing"),
        (pa.schema([("a", pa.int32()), ("b", pa.string())]), 3, "a column has another type"),
    ):
        with pytest.raises(QcoreError, match=f"the page at byte 0 is damaged: {reason}"):
            read_blocks(tmp_path / "a", data, schema, n_rows, checksum_of(data))


def test_a_batch_of_the_engine_is_not_changed() -> None:
    rows = pa.record_batch({"a": pa.array([1, None, 3])})
    batch = PyBatch.from_arrow(rows)
    block_of(batch)
    assert pa.record_batch(batch).equals(rows)
