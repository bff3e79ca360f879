"""The layout of pages: narrow types, and compression if a sample shows that it pays (SPEC S2)."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from page_rows import engine_batch

from qcore.writing.page_layout import ipc_stream, is_worth_compressing, narrow_type
from qcore_ext.exchange.page_block import block_of

N = 8192


def block(numbers: list[int]) -> pa.Buffer:
    return block_of(engine_batch(pa.record_batch({"a": pa.array(numbers, pa.int64())})))


def test_narrow_types() -> None:
    types = [pa.decimal128(18, 2), pa.decimal128(19, 2), pa.string_view(), pa.binary_view(), pa.int64()]
    narrow = [pa.decimal64(18, 2), pa.decimal128(19, 2), pa.string(), pa.binary(), pa.int64()]
    assert [narrow_type(type_) for type_ in types] == narrow


def test_compression_of_what_compresses_well() -> None:
    """At 125 MB/s to write and read, a byte costs 16 ns. Less must be saved then."""
    random = Random(1)
    repeated = block([n // 64 * 7919 % 100_000 for n in range(N)])
    halves = block([random.getrandbits(8) + (n // 4096 << 20) for n in range(N)])
    scattered = block([n * 6364136223846793005 % 2**63 for n in range(N)])
    assert [is_worth_compressing(page, 2.0) for page in (repeated, halves, scattered)] == [True, False, False]
    assert [is_worth_compressing(page, 16.0) for page in (repeated, halves, scattered)] == [True, True, False]


def test_ipc_streams_of_nested_rows() -> None:
    """Also of slices. Short decimals have 8 bytes, texts have offsets."""
    rows = pa.record_batch(
        {
            "d": pa.array([None if n % 3 == 0 else n for n in range(N)], pa.decimal128(12, 0)),
            "s": pa.array([None if n % 5 == 0 else f"a long enough word {n % 7}" for n in range(N)], pa.string_view()),
            "l": pa.array([[n] * (n % 3) for n in range(N)], pa.list_(pa.int64())),
        }
    )
    for is_compressed in (False, True):
        for part in (rows, rows.slice(1), rows.slice(13, 2051), rows.slice(5, 0)):
            read = pa.ipc.open_stream(ipc_stream(part, is_compressed)).read_all()
            assert read.schema.types[:2] == [pa.decimal64(12, 0), pa.string()]
            assert read.to_pylist() == part.to_pylist()
    assert ipc_stream(rows, True).size < ipc_stream(rows, False).size
