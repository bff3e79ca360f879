"""The partition of each row, compared with a model of the hash in plain Python. SPEC V2, V11, D6."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hash_model import hash_row, model_partition

from qcore.errors import PlanError, SchemaChangeError
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import SIZES, random_table

TYPES = [
    [pa.int8()], [pa.uint16()], [pa.int64()], [pa.bool_()], [pa.string()], [pa.decimal128(15, 2)],
    [pa.decimal128(38, 10)], [pa.dictionary(pa.int32(), pa.string())], [pa.string(), pa.int32(), pa.int64()],
]  # fmt: skip


def within_task(batches: Any, keys: list[str], n: int, schema: pa.Schema | None = None) -> list[list[int]]:
    """The ids of each partition, in order."""
    memory = Account()
    queues = [BatchQueue(1, batches_max=1000) for _ in range(n)]
    options = {} if schema is None else {"schema": Schema(schema)}
    run_chain([LocalPartition("1", memory, queues, "hash", keys, **options)], batches)
    given = [run_chain([LocalExchange("1", memory, queue, Schema(pa.schema([])))]) for queue in queues]
    return [[id for batch in part for id in batch["id"].to_pylist()] for part in given]


def between_tasks(batches: Any, keys: list[str], n: int) -> list[list[int]]:
    buffer = OutputBuffer("partitioned", n, 1, 1 << 40)
    run_chain([PartitionedOutput("1", Account(), buffer, n, keys)], batches)
    given = [(buffer.fetch(partition, 0) or ([], False))[0] for partition in range(n)]
    return [[id for page in part for id in pa.record_batch(page)["id"].to_pylist()] for part in given]


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n", [2, 3, 100])
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_partitions_of_the_model(types: list[pa.DataType], n: int, n_rows: int) -> None:
    """V2, V11: bits 32 to 63 of the hash choose the partition.

    Between tasks the hash is mixed again. Rows keep their order.
    """
    table = random_table(n_rows, n_rows, types, 0.1, extremes=True)
    keys = table.column_names
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    table = table.append_column("id", pa.array(range(n_rows), pa.int64()))
    expected: list[list[int]] = [[] for _ in range(n)]
    other: list[list[int]] = [[] for _ in range(n)]
    for id, row in enumerate(rows):
        expected[(hash_row(row) >> 32) * n >> 32].append(id)
        other[model_partition(row, n)].append(id)
    assert within_task(table, keys, n) == expected
    assert between_tasks(table, keys, n) == other


def test_as_many_partitions_as_there_may_be() -> None:
    table = pa.table({"k": range(20_000), "id": range(20_000)})
    parts = between_tasks(table, ["k"], 4096)
    for partition, ids in enumerate(parts):
        assert all(model_partition((id,), 4096) == partition for id in ids)
    assert sum(map(len, parts)) == 20_000


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        (pa.int32(), pa.int64()),
        (pa.decimal128(9, 2), pa.decimal128(12, 4)),
        (pa.float32(), pa.float64()),
        (pa.timestamp("s"), pa.timestamp("us")),
    ],
    ids=str,
)
def test_equal_keys_of_different_types_meet(declared: pa.DataType, given: pa.DataType) -> None:
    """D6: a key of a wider type goes to the partition of the equal key of the declared type."""
    numbers = pa.array(range(-300, 300), pa.int64())
    if pa.types.is_decimal(declared):
        keys = pa.array([Decimal(number) / 4 for number in range(-300, 300)], declared)
    else:
        keys = (
            numbers.cast(pa.timestamp("s")).cast(declared)
            if pa.types.is_timestamp(declared)
            else numbers.cast(declared)
        )
    first = pa.record_batch({"k": keys, "id": numbers})
    second = pa.record_batch({"k": keys.cast(given), "id": pa.compute.add(numbers, 10_000)})
    for schema in (None, first.schema):
        for ids in within_task([first, second], ["k"], 16, schema):
            assert [id for id in ids if id < 5000] == [id - 10_000 for id in ids if id > 5000]


def test_keys_that_cannot_meet_or_are_missing() -> None:
    first = pa.record_batch({"k": [1], "id": [0]})
    with pytest.raises(SchemaChangeError, match="'k' changed from int64 to string: rows are partitioned by its hash"):
        within_task(pa.record_batch({"k": ["1"], "id": [0]}), ["k"], 3, first.schema)
    with pytest.raises(SchemaChangeError, match="key column 'x' is missing from the input"):
        within_task([first], ["x"], 3)
    with pytest.raises(PlanError, match="at least one key column"):
        LocalPartition("1", Account(), [BatchQueue(1)], "hash", [])


def test_selected_rows_beyond_the_first_vector() -> None:
    """Pages with nested columns contain the selected rows of every vector."""
    n_rows, n = 12_000, 3
    table = pa.table({"k": range(n_rows), "id": range(n_rows), "l": [[row, row + 1] for row in range(n_rows)]})
    memory = Account()
    queues = [BatchQueue(1, batches_max=1000) for _ in range(2)]
    run_chain([LocalPartition("1", memory, queues, "hash", ["k"])], table.combine_chunks())
    for part, queue in enumerate(queues):
        buffer = OutputBuffer("partitioned", n, 1, 1 << 40)
        source = LocalExchange("1", memory, queue, Schema(table.schema))
        run_chain([source, PartitionedOutput("2", memory, buffer, n, ["k"])])
        here = [row for row in range(n_rows) if (hash_row((row,)) >> 32) * 2 >> 32 == part]
        for partition in range(n):
            pages = [pa.record_batch(page) for page in (buffer.fetch(partition, 0) or ([], False))[0]]
            rows = [row for row in here if model_partition((row,), n) == partition]
            assert [id for page in pages for id in page["id"].to_pylist()] == rows
            assert [values for page in pages for values in page["l"].to_pylist()] == [[row, row + 1] for row in rows]
