"""Buffers of the rows of 256 parts, as an exchange passes them on. SPEC V2, Q2."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import random_table
from sweeps import every

WIDTHS = [pa.bool_(), pa.int16(), pa.float32(), pa.int64(), pa.decimal128(38, 3)]


def pages(table: pa.Table, page_rows: int, limit: int = 0) -> list[pa.RecordBatch]:
    """The pages of the table's rows by column k."""
    memory = Account(limit=limit)
    queues = [BatchQueue(1, batches_max=10_000, bytes_max=1 << 40) for _ in range(2)]
    options = {"by_part": True, "paged_rows_min": 0, "page_rows": page_rows}
    run_chain([LocalPartition("1", memory, queues, "hash", ["k"], **options)], table.combine_chunks())
    given = [run_chain([LocalExchange("1", memory, queue, Schema(table.schema))]) for queue in queues]
    return [page for part in given for page in part]


@pytest.mark.parametrize("type_", every(2, WIDTHS), ids=str)
@pytest.mark.parametrize("n_keys", [1, 2000])
def test_validity_of_rows_before_the_first_null(type_: pa.DataType, n_keys: int) -> None:
    """The first null comes when the buffers and the lines of the parts have rows, also lines that are not full."""
    tables = [
        random_table(seed, n_rows, {"k": pa.int32(), "x": type_}, share, n_distinct={"k": n_keys})
        for seed, n_rows, share in ((1, 4100, 0.0), (2, 2048, {"k": 0.0, "x": 0.5}), (3, 900, 0.0))
    ]
    table = pa.concat_tables(tables).append_column("id", pa.array(range(7048), pa.int64()))
    got = pa.Table.from_batches(pages(table, 8128)).sort_by("id")
    assert_same_rows(got, table, ordered=True)
    assert got["x"].null_count == table["x"].null_count > 0


@pytest.mark.parametrize("n_rows", [2047, 2048, 4096, 4097, 20_000])
def test_a_part_with_all_rows(n_rows: int) -> None:
    table = pa.table({"k": pa.array([5] * n_rows, pa.int8()), "id": range(n_rows)})
    found = pages(table, 4096)
    full, rest = divmod(n_rows, 4096)
    # A vector whose rows would not fit goes into the next page.
    assert [page.num_rows for page in found] == [4096] * full + [rest] * (rest > 0)
    assert pa.Table.from_batches(found).equals(table)


def test_buffers_are_shorter_where_memory_is_short() -> None:
    """Buffers take at most a sixteenth of the memory that is left. They are halved until they do."""
    table = pa.table({"k": [5] * 5000})
    row_bytes = 256 * 8
    assert [page.num_rows for page in pages(table, 8128)] == [5000]
    for rows_each in (8000, 4100):  # both are halved to 4,032, which two vectors do not fit
        found = pages(table, 8128, 16 * row_bytes * rows_each)
        assert [page.num_rows for page in found] == [2048, 2952]
