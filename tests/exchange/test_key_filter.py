"""Filters of keys find every key that was added, also nulls and other types, and few other keys (SPEC S2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.errors import MemoryLimitError, PlanError
from qcore_ext.exchange.key_filter import KeyFilter, KeyHashes
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import KEY_TYPES, random_table

MANY = 1 << 20


def exchange(data: Any, keys: list[str], n_partitions: int = 3, account: Account | None = None, **wanted: Any) -> Any:
    """The rows that a PartitionedOutput returns."""
    buffer = OutputBuffer("partitioned", n_partitions, 1, 1 << 40)
    output = PartitionedOutput("1", account or Account(), buffer, n_partitions, keys, **wanted)
    run_chain([output], data, None)
    pages = []
    for partition in range(n_partitions):
        answer = buffer.fetch(partition, 0)
        assert answer is not None
        pages += [pa.record_batch(page) for page in answer[0]]
    return pa.Table.from_batches(pages, schema=data.schema if not pages else pages[0].schema)


def filter_of(build: pa.Table, keys: list[str], bits_per_key: int = 16, n_partitions: int = 3) -> KeyFilter:
    hashes = KeyHashes(Account(), MANY)
    exchange(build, keys, n_partitions, hashes=hashes)
    assert hashes.n == build.num_rows
    made = KeyFilter(pa.py_buffer(np.zeros(max(1, build.num_rows * bits_per_key // 64), np.uint64)))
    made.add(hashes.to_buffer())
    return made


@pytest.mark.each_value
@pytest.mark.parametrize("type_", KEY_TYPES, ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n_partitions", [1, 3, 4096])
def test_keys_that_were_added_are_found(type_: pa.DataType, null_share: float, n_partitions: int) -> None:
    """Rows whose keys were added pass the filter, whatever the number of partitions."""
    types = {"key": type_, "id": pa.int64()}
    table = random_table(7, 3000, types, {"key": null_share, "id": 0.0}, n_distinct={"key": 500})
    made = filter_of(table, ["key"], n_partitions=n_partitions)
    assert_same_rows(exchange(table, ["key"], filter=made), table)
    assert_same_rows(exchange(table.slice(17, 900), ["key"], filter=made), table.slice(17, 900))


def test_few_others_are_found() -> None:
    def rows(start: int, n: int) -> pa.Table:
        return pa.table({"a": pa.array(range(start, start + n)), "b": [str(i % 7) for i in range(n)]})

    made = filter_of(rows(0, 50_000), ["a", "b"])
    for n_partitions in (1, 3, 1024):
        found = exchange(rows(50_001, 50_000), ["a", "b"], n_partitions, filter=made)
        assert found.num_rows < 1500
        mixed = exchange(rows(49_000, 60_000).slice(0, 50_000), ["a", "b"], n_partitions, filter=made)
        assert mixed.num_rows < 3000


def test_rows_of_a_selection() -> None:
    """The input batch already has a selection."""
    rows = pa.table({"a": list(range(20_000)), "b": [float(i) for i in range(20_000)]})
    made = filter_of(rows.filter(pa.compute.less(rows["a"], 300)), ["a"])
    few = rows.filter(pa.compute.equal(pa.compute.bit_wise_and(rows["a"], 1), 0))
    found = exchange(few, ["a"], filter=made)
    assert set(range(0, 300, 2)) <= set(found["a"].to_pylist()) <= set(few["a"].to_pylist())
    assert found.num_rows < 600


def test_a_filter_that_drops_few_rows_is_rarely_used() -> None:
    """After 65,536 rows the filter is not used. After 524,288 more rows it is tried again."""
    made = filter_of(pa.table({"a": list(range(100_000))}), ["a"])
    probe = pa.Table.from_batches(pa.table({"a": list(range(1_200_000))}).to_batches(max_chunksize=40_000))
    found = exchange(probe, ["a"], filter=made)
    assert 80_000 + 524_288 <= found.num_rows < 80_000 + 524_288 + 40_000 + 12_000


def test_too_many_hashes() -> None:
    table = pa.table({"a": list(range(10_000))})
    for n_max, expected in ((10_000, 10_000), (9_999, 0), (1, 0), (0, 0)):
        hashes = KeyHashes(Account(), n_max)
        exchange(table, ["a"], hashes=hashes)
        assert (hashes.n, hashes.is_over) == (expected, expected == 0)
        assert hashes.to_buffer().size == 8 * expected


def test_memory_of_hashes() -> None:
    table = pa.table({"a": list(range(200_000))})
    with pytest.raises(MemoryLimitError):
        exchange(table, ["a"], hashes=KeyHashes(Account(limit=1 << 20), MANY))


def test_unsupported_input() -> None:
    hashes = KeyHashes(Account(), 10)
    with pytest.raises(PlanError, match="a filter of keys needs key columns"):
        PartitionedOutput("1", Account(), OutputBuffer("partitioned", 1, 1, 1 << 20), 1, [], hashes=hashes)
    for size in (0, 4, 12):
        with pytest.raises(ValueError, match=f"not {size} bytes"):
            KeyFilter(pa.py_buffer(bytes(size)))
    with pytest.raises(ValueError, match="can be changed"):
        KeyFilter(pa.py_buffer(bytes(8))).add(pa.py_buffer(bytes(8)))
