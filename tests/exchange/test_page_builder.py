"""Pages: their number of rows, the rows of each partition, nulls, string bytes, and charged memory. SPEC V11, H1."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hash_model import model_partition

from qcore.errors import MemoryLimitError
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, SIZES, plain, random_table


def pages_of(data: Any, n: int, page_bytes: int = 1 << 20, keys: tuple[str, ...] = ("k",)) -> list[list[Any]]:
    """The pages of every partition."""
    buffer = OutputBuffer("partitioned", n, 1, 1 << 40)
    run_chain([PartitionedOutput("1", Account(), buffer, n, list(keys), page_bytes)], data)
    return [[pa.record_batch(page) for page in (buffer.fetch(partition, 0) or ([],))[0]] for partition in range(n)]


def rows_of(parts: list[list[pa.RecordBatch]]) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row.values()) for page in part for row in page.to_pylist()] for part in parts]


@pytest.mark.parametrize(
    ("types", "page_bytes", "n", "rows"),
    [
        ([pa.int64()], 1, 2, 64),
        ([pa.int64()], 128 * 8, 2, 128),
        ([pa.int64()], 128 * 8 - 1, 2, 64),
        ([pa.int64(), pa.int8()], 128 * 9, 2, 128),
        ([pa.string()], 128 * 32, 2, 128),
        ([pa.string()], 128 * 32 - 1, 2, 64),
        ([pa.null()], 1, 2, 65_536),
        ([pa.int8()], 1 << 30, 2, 65_536),
        # All open pages of a driver take at most 128 MiB.
        ([pa.int64()], 1 << 30, 4096, 4096),
    ],
    ids=str,
)
def test_rows_of_a_full_page(types: list[pa.DataType], page_bytes: int, n: int, rows: int) -> None:
    """The number of rows is a power of two. A string counts 32 bytes. One key puts all rows in one partition."""
    n_rows = 2 * rows + 1
    table = pa.table({f"c{at}": pa.nulls(n_rows, type) for at, type in enumerate(types)})
    parts = pages_of(table, n, page_bytes, ("c0",))
    assert sorted([page.num_rows for page in part] for part in parts)[-1] == [rows, rows, 1]
    assert sum(map(len, parts)) == 3


def test_open_pages_take_a_share_of_the_memory_that_is_left() -> None:
    """1/256 of it, between 32 and 128 MiB: here 64 MiB, for 4,096 pages."""
    table = pa.table({"k": pa.nulls(4097, pa.int64())})
    buffer = OutputBuffer("partitioned", 4096, 1, 1 << 40)
    run_chain([PartitionedOutput("1", Account(limit=16 << 30), buffer, 4096, ["k"], 1 << 30)], table)
    rows = [page["rows"] / page["pages"] for page in buffer.stats() if page["pages"]]
    assert rows == [4097 / 3]


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n", [1, 2, 33])
@pytest.mark.parametrize("page_bytes", [1, 1 << 20])
def test_every_row_is_where_it_should_be(n_rows: int, n: int, page_bytes: int) -> None:
    """V11: columns of all widths with nulls. Pages become full within a vector."""
    types = {"k": pa.int64(), "a": pa.int8(), "b": pa.int16(), "c": pa.float32(), "d": pa.decimal128(30, 3)}
    types |= {"s": pa.string(), "nothing": pa.null(), "t": pa.binary()}
    table = random_table(n_rows, n_rows, types, 0.2)
    expected: list[list[tuple[Any, ...]]] = [[] for _ in range(n)]
    for row in table.to_pylist():
        expected[model_partition((row["k"],), n) if n > 1 else 0].append(tuple(row.values()))
    assert rows_of(pages_of(table.to_batches(max_chunksize=1500), n, page_bytes)) == expected


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_pages_of_every_type(type_: pa.DataType) -> None:
    """Also nested types, whose rows are gathered in another way."""
    values = random_table(9, 3000, [type_], 0.0 if pa.types.is_nested(type_) else 0.2).column(0)
    table = pa.table({"k": pa.array(range(3000), pa.int64()), "v": values})
    expected: list[list[tuple[Any, ...]]] = [[] for _ in range(3)]
    for row in plain(table).to_pylist():
        expected[model_partition((row["k"],), 3)].append(tuple(row.values()))
    parts = pages_of(table.to_batches(max_chunksize=400), 3, 1)
    assert repr(rows_of(parts)) == repr(expected)
    if pa.types.is_nested(type_):
        # Rows of one batch stay together. A page ends when it has 64 rows or more.
        assert all(64 <= page.num_rows < 464 for part in parts for page in part[:-1])


@pytest.mark.parametrize("n_bytes", [11, 12, 13, 4095, 4096, 5000, 300_000])
def test_bytes_of_long_strings_are_copied(n_bytes: int) -> None:
    """Long strings fill a page before its number of rows does. A string larger than a block has its own block."""
    n_rows = 40
    table = pa.table({"k": range(n_rows), "s": [f"{row:02}" + "x" * (n_bytes - 2) for row in range(n_rows)]})
    table = table.set_column(1, "s", pa.compute.if_else(pa.compute.equal(table["k"], 7), None, table["s"]))
    batches = table.to_batches(max_chunksize=1)
    pages = pages_of(batches, 1, 50_000)[0]
    assert rows_of([pages]) == [[tuple(row.values()) for row in table.to_pylist()]]
    sizes = [page.num_rows for page in pages]
    if n_bytes <= 13:
        assert sizes == [n_rows]
    elif n_bytes == 300_000:
        assert set(sizes) == {1} or sizes[7] == 2
    else:
        assert len(sizes) > 1


def test_a_schema_change_closes_the_open_pages() -> None:
    """D6: rows before the change are in other pages than rows after it."""
    first, second = pa.record_batch({"k": [1, 2, 3]}), pa.record_batch({"k": [4], "v": ["x"]})
    pages = pages_of([first, second, second], 1)[0]
    assert [page.to_pydict() for page in pages] == [{"k": [1, 2, 3]}, {"k": [4, 4], "v": ["x", "x"]}]


def test_memory_of_pages_is_charged_and_small_pages_are_trimmed() -> None:
    """H1: a page of a few rows does not keep memory for thousands."""
    memory = Account()
    buffer = OutputBuffer("partitioned", 1, 1, 1 << 40)
    table = pa.table({"k": range(100), "s": ["a string of twenty-two"] * 100})
    run_chain([PartitionedOutput("1", memory, buffer, 1, [])], table)
    needed = 100 * (8 + 16 + 22)
    assert needed <= buffer.n_bytes <= memory.reserved_bytes < 3 * needed
    buffer.drop(0)
    assert memory.reserved_bytes == 0 == buffer.n_bytes


@pytest.mark.parametrize("type_", [pa.string(), pa.list_(pa.int64())], ids=str)
def test_memory_that_runs_out_half_way(type_: pa.DataType) -> None:
    """D9: if any allocation fails, no memory stays reserved."""
    table = random_table(1, 3000, {"k": pa.int64(), "v": type_}, 0.0)
    failed = 0
    for number in (1, 2, 3, 5, 8, 13, 30):
        buffer = OutputBuffer("partitioned", 8, 1, 1 << 40)
        memory = Account()
        with Faults("reserve", number):
            try:
                run_chain([PartitionedOutput("1", memory, buffer, 8, ["k"], 1)], table)
            except MemoryLimitError:
                failed += 1
        del buffer
        assert memory.reserved_bytes == 0
    assert failed > 3
