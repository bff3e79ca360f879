"""LocalPartition and LocalExchange (SPEC V2, H1)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore.errors import PlanError, SchemaChangeError
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, KEY_TYPES, SIZES, plain, random_table


def partition(
    table: pa.Table, kind: str, keys: list[str], n_partitions: int, chunk_rows: int | None = None
) -> list[pa.Table]:
    """The rows of each partition, read through an exchange."""
    memory = Account()
    queues = [BatchQueue(1, batches_max=1000, bytes_max=1 << 40) for _ in range(n_partitions)]
    batches = table.to_batches(max_chunksize=chunk_rows) if chunk_rows else table.to_batches()
    run_chain([LocalPartition("1", memory, queues, kind, keys)], batches, table.schema)
    parts = []
    for queue in queues:
        assert queue.n_batches <= max(len(batches), 1)
        out = run_chain([LocalExchange("1", memory, queue, Schema(table.schema))])
        parts.append(pa.Table.from_batches(out, schema=out[0].schema if out else table.schema))
    return parts


@pytest.mark.each_value
@pytest.mark.parametrize("type_", KEY_TYPES, ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
def test_equal_keys_meet_and_every_row_comes_once(type_: pa.DataType, null_share: float) -> None:
    """V2."""
    table = random_table(
        7, 2049, {"key": type_, "id": pa.int64()}, {"key": null_share, "id": 0.0}, n_distinct={"key": 40}
    )
    parts = partition(table, "hash", ["key"], 5)
    assert_same_rows(pa.concat_tables([part.cast(plain(table).schema) for part in parts]), plain(table))
    # Values as text: NaN equals itself there; -0.0 and 0.0 are one key.
    keys = [{repr(value + 0.0 if value == 0 else value) for value in part["key"].to_pylist()} for part in parts]
    if pa.types.is_floating(type_):
        keys = [{key.replace("-0.0", "0.0") if key == "-0.0" else key for key in part} for part in keys]
    assert sum(map(len, keys)) == len(set().union(*keys))


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("kind", ["hash", "round_robin", "gather"])
@pytest.mark.parametrize("n_partitions", [1, 2, 7, 64])
def test_sizes(n_rows: int, kind: str, n_partitions: int) -> None:
    n_partitions = 1 if kind == "gather" else n_partitions
    table = random_table(3, n_rows, {"a": pa.int32(), "b": pa.string(), "c": pa.decimal128(20, 4)})
    parts = partition(table, kind, ["a", "b"], n_partitions, chunk_rows=500)
    assert_same_rows(pa.concat_tables(parts), table)


def test_rows_keep_their_order_within_a_partition() -> None:
    table = random_table(5, 10_000, {"key": pa.int64()}, 0.0, n_distinct=50).append_column(
        "id", pa.array(range(10_000), pa.int64())
    )
    for part in partition(table, "hash", ["key"], 4, chunk_rows=1000):
        ids = part["id"].to_pylist()
        assert ids == sorted(ids)


def test_sequential_keys_spread_evenly() -> None:
    table = pa.table({"key": pa.array(range(80_000), pa.int64())})
    sizes = [part.num_rows for part in partition(table, "hash", ["key"], 8)]
    assert max(sizes) < 1.1 * min(sizes)


def test_partitioning_twice_works_over_selections() -> None:
    table = random_table(11, 5000, {"a": pa.int64(), "b": pa.string()}, n_distinct=300)
    memory = Account()
    first = [BatchQueue(1, batches_max=100) for _ in range(3)]
    second = [BatchQueue(3, batches_max=100) for _ in range(4)]
    run_chain([LocalPartition("1", memory, first, "hash", ["a"])], table)
    for queue in first:
        run_chain(
            [
                LocalExchange("1", memory, queue, Schema(table.schema)),
                LocalPartition("2", memory, second, "hash", ["b"]),
            ]
        )
    parts = [
        pa.Table.from_batches(run_chain([LocalExchange("2", memory, q, Schema(table.schema))]), table.schema)
        for q in second
    ]
    assert_same_rows(pa.concat_tables(parts), table)
    seen = [set(part["b"].to_pylist()) for part in parts]
    assert sum(map(len, seen)) == len(set().union(*seen))


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_every_type_travels_through(type_: pa.DataType) -> None:
    if pa.types.is_nested(type_):
        table = pa.table({"key": pa.array(range(500), pa.int64())}).append_column(
            "v", random_table(1, 500, [type_]).column(0)
        )
    else:
        table = random_table(1, 500, {"key": pa.int64(), "v": type_}, {"key": 0.0, "v": 0.2})
    parts = partition(table, "hash", ["key"], 3)
    assert_same_rows(pa.concat_tables([part.cast(plain(table).schema) for part in parts]), plain(table))


def test_no_value_is_copied() -> None:
    """A partition needs memory for one index a row."""
    table = random_table(2, 65_536, {"key": pa.int64(), "a": pa.int64(), "b": pa.int64(), "c": pa.int64()}, 0.0)
    memory = Account()
    queues = [BatchQueue(1) for _ in range(4)]
    run_chain([LocalPartition("1", memory, queues, "hash", ["key"])], table)
    # 4 bytes an index kept, and 2 for the partition number while sorting.
    assert memory.peak_bytes <= 65_536 * (4 + 2)
    for queue in queues:
        run_chain([LocalExchange("1", memory, queue, Schema(table.schema))])


def test_bad_arguments_are_refused() -> None:
    queues = [BatchQueue(1), BatchQueue(1)]
    with pytest.raises(PlanError, match="one of gather"):
        LocalPartition("1", Account(), queues, "shuffle")
    with pytest.raises(PlanError, match="at least one key"):
        LocalPartition("1", Account(), queues, "hash", [])
    with pytest.raises(PlanError, match="gather local partition cannot have 2"):
        LocalPartition("1", Account(), queues, "gather")


def test_a_missing_key_column_is_named() -> None:
    queues = [BatchQueue(1), BatchQueue(1)]
    with pytest.raises(SchemaChangeError, match=r"LocalPartition \(node 9\): key column 'k' is missing"):
        run_chain([LocalPartition("9", Account(), queues, "hash", ["k"])], pa.table({"a": [1]}))


def test_a_schema_without_rows_gets_across() -> None:
    """SPEC D5: the reader of the result gets its schema even if no row passes."""
    table = random_table(1, 0, {"a": pa.int64(), "b": pa.string()})
    memory = Account()
    queues = [BatchQueue(1) for _ in range(3)]
    empty = pa.record_batch([pa.array([], field.type) for field in table.schema], schema=table.schema)
    run_chain([LocalPartition("1", memory, queues, "hash", ["a"])], [empty])
    out = [run_chain([LocalExchange("1", memory, queue, Schema(table.schema))]) for queue in queues]
    assert [[batch.num_rows for batch in part] for part in out] == [[0], [], []]
