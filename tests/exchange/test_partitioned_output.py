"""PartitionedOutput and its pages: the operator alone (SPEC V11, H1)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.errors import MemoryLimitError, PlanError, SchemaChangeError
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, KEY_TYPES, SIZES, plain, random_table

PAGE_ROWS_MAX = 65_536
WORD = (1 << 64) - 1


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


# --- which partition: a model of the hash in plain Python ---


def mix(value: int) -> int:
    for _ in range(2):
        value ^= value >> 32
        value = value * 0xD6E8FEB86659FD93 & WORD
    return value ^ value >> 32


def combine(so_far: int, value: int) -> int:
    return mix(so_far * 31 + value + 0x9E3779B97F4A7C15 & WORD)


def hash_text(value: bytes) -> int:
    if len(value) <= 12:
        words = len(value).to_bytes(4, "little") + value.ljust(12, b"\0")
        return combine(mix(int.from_bytes(words[:8], "little")), int.from_bytes(words[8:], "little"))
    state = len(value) * 0x9E3779B97F4A7C15 & WORD
    steps = [value[at : at + 8] for at in range(0, len(value) - 8, 8)] + [value[-8:]]
    for step in steps:
        word = int.from_bytes(step, "little")
        state = mix(state ^ word) + word & WORD
    return mix(state)


def hash_value(value: Any) -> int:
    if value is None:
        return 0x9AE16A3B2F90404F
    if isinstance(value, str):
        return hash_text(value.encode())
    if isinstance(value, Decimal):
        sign, digits, _ = value.as_tuple()
        value = (-1 if sign else 1) * int("".join(map(str, digits)))
        low, high = value & WORD, value >> 64 & WORD
        return mix(low) if -(1 << 63) <= value < 1 << 63 else combine(mix(low), high)
    return mix(value & WORD)


def model_partition(row: tuple[Any, ...], n: int) -> int:
    hashed = hash_value(row[0])
    for value in row[1:]:
        hashed = combine(hashed, hash_value(value))
    return (mix(hashed) >> 32) * n >> 32


@pytest.mark.parametrize(
    ("types", "n"),
    [
        ([pa.int64()], 8),
        ([pa.int32()], 4096),
        ([pa.uint8()], 3),
        ([pa.string()], 7),
        ([pa.large_string()], 8),
        ([pa.string_view()], 512),
        ([pa.decimal128(15, 2)], 5),
        ([pa.decimal128(30, 2)], 5),
        ([pa.int16(), pa.string(), pa.int64()], 16),
    ],
    ids=str,
)
def test_the_partition_is_a_pure_function_of_the_keys(types: list[pa.DataType], n: int) -> None:
    """V11: what another process, another run or another machine says; pinned by a model that shares no code."""
    table = random_table(5, 3000, types, 0.1, extremes=True)
    for partition, part in enumerate(tables_of(pages_of(table, table.column_names, n), table.schema)):
        rows = zip(*(column.to_pylist() for column in part.columns), strict=True)
        assert all(model_partition(row, n) == partition for row in rows)


def test_equal_values_meet_whatever_their_layout() -> None:
    """V11: integers of any width, text in any layout, dictionaries and floats of either width."""
    numbers = pa.array([1, -5, None, 100], pa.int8())
    text = pa.array(["short", "a string that is not short", None, ""])
    for values, types in (
        (numbers, [pa.int16(), pa.int64(), pa.int32()]),
        (text, [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]),
        (pa.array([0.5, -2.0, None, 8.0], pa.float32()), [pa.float64()]),
    ):
        wanted = None
        for as_type in (values.type, *types):
            cast = values.dictionary_encode().cast(as_type) if pa.types.is_dictionary(as_type) else values.cast(as_type)
            table = pa.table({"k": cast, "id": range(len(values))})
            got = [part["id"].to_pylist() for part in tables_of(pages_of(table, ["k"], 64), table.schema)]
            wanted = wanted or got
            assert got == wanted, as_type


# --- pages ---


@pytest.mark.parametrize("type_", KEY_TYPES, ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
def test_equal_keys_meet_and_every_row_comes_once(type_: pa.DataType, null_share: float) -> None:
    """V11 over key types and nulls."""
    table = random_table(
        7, 2049, {"key": type_, "id": pa.int64()}, {"key": null_share, "id": 0.0}, n_distinct={"key": 40}
    )
    parts = tables_of(pages_of(table, ["key"], 5), table.schema)
    assert_same_rows(pa.concat_tables(parts), table)
    keys = [{repr(value + 0.0 if value == 0 else value) for value in part["key"].to_pylist()} for part in parts]
    if pa.types.is_floating(type_):
        keys = [{key.replace("-0.0", "0.0") if key == "-0.0" else key for key in part} for part in keys]
    assert sum(map(len, keys)) == len(set().union(*keys))


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
        # All but the last are full, and as large.
        assert len(set(sizes[:-1])) <= 1
        assert len(sizes) <= 1 + sum(sizes) // sizes[0]


def test_long_strings_fill_a_page_before_its_rows_do() -> None:
    text = "x" * 10_000
    table = pa.table({"k": range(2000), "s": [f"{i}{text}" for i in range(2000)]})
    parts = pages_of(table.to_batches(max_chunksize=64), ["k"], 2, table.schema, page_bytes=1 << 18)
    sizes = [page.nbytes for part in parts for page in part]
    assert len(sizes) > 40
    # A vector of 64 rows is what a page may hold too much.
    assert max(sizes) < (1 << 19) + 64 * 10_100
    assert_same_rows(pa.concat_tables(tables_of(parts, table.schema)), table)


def test_a_page_owns_its_memory() -> None:
    """What a page holds is charged, and it keeps no input alive."""
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
    """D6: no page mixes schemas, no row is lost."""
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
        def write(self, partition: int, page: Any) -> None:
            raise OSError("disk full")

        def producer_done(self, finished: bool) -> None:
            done.append(finished)

    with pytest.raises(Exception, match=r"PartitionedOutput \(node 1\) failed: OSError: disk full"):
        run_chain([PartitionedOutput("1", Account(), Full(), 2, ["k"])], pa.table({"k": [1, 2]}))
    assert done == [False]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(PlanError, match="output buffers are partitioned, broadcast, arbitrary, not 'hashed'"):
        OutputBuffer("hashed", 2, 1)
    with pytest.raises(PlanError, match="1 to 4096 partitions, not 5000"):
        OutputBuffer("partitioned", 5000, 1)
    with pytest.raises(PlanError, match="9 partitions do not fit 2 buffers"):
        PartitionedOutput("1", Account(), OutputBuffer("partitioned", 2, 1), 9, ["k"])
