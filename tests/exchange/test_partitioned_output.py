"""PartitionedOutput and its pages, without a task (SPEC V11, H1)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.errors import MemoryLimitError, PlanError, SchemaChangeError
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, KEY_TYPES, SIZES, plain, random_table

PAGE_ROWS_MAX = 65_536


def pages_of(
    data: Any, keys: list[str], n: int, schema: pa.Schema | None = None, page_bytes: int = 1 << 20
) -> list[list[pa.RecordBatch]]:
    """The pages of every partition."""
    buffer = OutputBuffer("partitioned", n, 1, 1 << 40)
    run_chain([PartitionedOutput("1", Account(), buffer, n, keys, page_bytes)], data, schema)
    given = []
    for partition in range(n):
        answer = buffer.fetch(partition, 0)
        assert answer is not None and answer[1]
        given.append([pa.record_batch(page) for page in answer[0]])
    return given


def tables_of(pages: list[list[pa.RecordBatch]], schema: pa.Schema) -> list[pa.Table]:
    return [pa.Table.from_batches(part, schema=schema if not part else part[0].schema) for part in pages]


# --- pages ---


@pytest.mark.each_value
@pytest.mark.parametrize("type_", KEY_TYPES, ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
def test_equal_keys_meet_and_every_row_comes_once(type_: pa.DataType, null_share: float) -> None:
    """V11: for all key types, and for nulls."""
    table = random_table(
        7, 2049, {"key": type_, "id": pa.int64()}, {"key": null_share, "id": 0.0}, n_distinct={"key": 40}
    )
    parts = tables_of(pages_of(table, ["key"], 5), table.schema)
    assert_same_rows(pa.concat_tables(parts), table)
    keys = [{repr(value + 0.0 if value == 0 else value) for value in part["key"].to_pylist()} for part in parts]
    if pa.types.is_floating(type_):
        keys = [{key.replace("-0.0", "0.0") if key == "-0.0" else key for key in part} for part in keys]
    assert sum(map(len, keys)) == len(set().union(*keys))


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n", [1, 2, 7, 512])
def test_sizes(n_rows: int, n: int) -> None:
    """V11: rows keep their order within a partition."""
    table = random_table(3, n_rows, {"a": pa.int32(), "b": pa.string(), "c": pa.decimal128(20, 4)})
    table = table.append_column("id", pa.array(range(n_rows), pa.int64()))
    batches = table.to_batches(max_chunksize=500)
    parts = tables_of(pages_of(batches, ["a", "b"], n, table.schema), table.schema)
    assert_same_rows(pa.concat_tables(parts), table)
    for part in parts:
        assert part["id"].to_pylist() == sorted(part["id"].to_pylist())


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_every_type_travels_through(type_: pa.DataType) -> None:
    """Q3: encodings, views, lists, structs and maps too."""
    if pa.types.is_nested(type_):
        values = random_table(1, 5000, [type_]).column(0)
        table = pa.table({"key": pa.array(range(5000), pa.int64())}).append_column("v", values)
    else:
        table = random_table(1, 5000, {"key": pa.int64(), "v": type_}, {"key": 0.0, "v": 0.2})
    parts = tables_of(pages_of(table.to_batches(max_chunksize=700), ["key"], 3, table.schema), table.schema)
    assert_same_rows(pa.concat_tables([part.cast(plain(table).schema) for part in parts]), plain(table))


@pytest.mark.parametrize("n", [1, 8, 300])
def test_small_batches_become_large_pages(n: int) -> None:
    table = pa.table({"k": range(200_000)})
    parts = pages_of(table.to_batches(max_chunksize=100), ["k"], n, table.schema, page_bytes=1 << 14)
    for part in parts:
        sizes = [page.num_rows for page in part]
        assert max(sizes) <= PAGE_ROWS_MAX
        # All pages but the last are full and have the same size.
        assert len(set(sizes[:-1])) <= 1
        assert len(sizes) <= 1 + sum(sizes) // sizes[0]


def test_long_strings_fill_a_page_before_its_rows_do() -> None:
    text = "x" * 10_000
    table = pa.table({"k": range(2000), "s": [f"{i}{text}" for i in range(2000)]})
    parts = pages_of(table.to_batches(max_chunksize=64), ["k"], 2, table.schema, page_bytes=1 << 18)
    sizes = [page.nbytes for part in parts for page in part]
    assert len(sizes) > 40
    # A page may exceed its size by one vector of 64 rows.
    assert max(sizes) < (1 << 19) + 64 * 10_100
    assert_same_rows(pa.concat_tables(tables_of(parts, table.schema)), table)


def test_a_page_owns_its_memory() -> None:
    """The memory of a page is charged, and a page keeps no input batch alive."""
    memory = Account()
    buffer = OutputBuffer("partitioned", 4, 1, 1 << 40)
    table = pa.table({"k": range(10_000), "s": ["a string of twenty-two"] * 10_000})
    operator = PartitionedOutput("1", memory, buffer, 4, ["k"])
    run_chain([operator], table)
    before = table.nbytes
    assert before < memory.reserved_bytes < 4 * before
    assert buffer.n_bytes <= memory.reserved_bytes
    for partition in range(4):
        buffer.drop(partition)
    assert memory.reserved_bytes == 0 == buffer.n_bytes


def test_a_new_schema_begins_a_new_page() -> None:
    """D6: all rows of a page have one schema, and no row is lost."""
    first = pa.record_batch({"k": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})
    second = pa.record_batch({"v": ["d", "e"], "k": pa.array([1, 2], pa.int64()), "w": [0.5, 1.5]})
    parts = pages_of([first, second], ["k"], 3)
    seen = [tuple(row.values()) for part in parts for page in part for row in page.to_pylist()]
    assert sorted(map(repr, seen)) == sorted(map(repr, [(1, "a"), (2, "b"), (3, "c"), (1, "d", 0.5), (2, "e", 1.5)]))
    with pytest.raises(SchemaChangeError, match=r"PartitionedOutput \(node 1\): key column 'k' is missing"):
        pages_of([pa.record_batch({"x": [1]})], ["k"], 3)


def test_memory_that_runs_out_half_way() -> None:
    table = random_table(1, 50_000, {"k": pa.int64(), "s": pa.string()})
    for limit in (1 << 10, 1 << 16, 1 << 19):
        buffer = OutputBuffer("partitioned", 8, 1, 1 << 40)
        with pytest.raises(MemoryLimitError):
            run_chain([PartitionedOutput("1", Account(None, limit), buffer, 8, ["k"])], table)
        assert buffer.fetch(0, 0, timeout=0) is None


def test_a_writer_that_fails_is_named() -> None:
    done: list[bool] = []

    class Full:
        def bind(self, schema: Any) -> None:
            pass

        def write(self, partition: int, page: Any) -> None:
            raise OSError("disk full")

        def producer_done(self, finished: bool) -> None:
            done.append(finished)

    with pytest.raises(Exception, match=r"PartitionedOutput \(node 1\) failed: OSError: disk full"):
        run_chain([PartitionedOutput("1", Account(), Full(), 2, ["k"])], pa.table({"k": [1, 2]}))
    assert done == [False]


def test_pages_for_a_writer_are_charged_while_they_are_laid_out() -> None:
    """V7: while a writer converts a page, its values are in memory twice.

    The conversion may fail for lack of memory.
    """

    class Writer:
        def bind(self, schema: Any) -> None:
            pass

        def write(self, partition: int, page: Any) -> None:
            with Faults("reserve", 1), pytest.raises(MemoryLimitError):
                pa.record_batch(page)
            rows.append(pa.record_batch(page).num_rows)

        def producer_done(self, finished: bool) -> None:
            pass

    rows: list[int] = []
    table = pa.table({"k": pa.array([7] * 100), "s": [f"{i}" * 20 for i in range(100)]})
    run_chain([PartitionedOutput("1", Account(), Writer(), 2, ["k"], 1 << 30)], table)
    assert rows == [100]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(PlanError, match="output buffers are partitioned, broadcast, arbitrary, not 'hashed'"):
        OutputBuffer("hashed", 2, 1)
    with pytest.raises(PlanError, match="1 to 4096 partitions, not 5000"):
        OutputBuffer("partitioned", 5000, 1)
    with pytest.raises(PlanError, match="9 partitions do not fit 2 buffers"):
        PartitionedOutput("1", Account(), OutputBuffer("partitioned", 2, 1), 9, ["k"])
