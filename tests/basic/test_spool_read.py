"""SpoolRead returns the rows of a spool to each of its readers (SPEC Q2, D6)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore_ext.basic.spool_read import SpoolRead
from qcore_ext.basic.spool_write import SpoolWrite
from qcore_ext.data.schema import Schema
from qcore_ext.flow.batch_spool import BatchSpool
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, SIZES, random_table


@pytest.mark.parametrize("n", SIZES)
def test_rows_of_every_type_and_size(n: int) -> None:
    """Q2, Q3: every reader has all rows in order."""
    table = random_table(13, n, ALL_TYPES, 0.2, chunk_rows=700)
    spool = BatchSpool(1, [1, 1])
    run_chain([SpoolWrite("w", Account(), spool)], table, table.schema)
    for number in range(2):
        got = run_chain([SpoolRead("r", Account(), spool, number, Schema(table.schema))])
        for name in table.column_names:
            assert [value for batch in got for value in batch[name].to_pylist()] == table[name].to_pylist()


def test_writers_need_not_agree_on_a_schema() -> None:
    """D6: batches of several schemas are returned as they are."""
    narrow, wide = pa.record_batch({"a": pa.array([1], pa.int32())}), pa.record_batch({"a": pa.array([2], pa.int64())})
    spool = BatchSpool(2, [1])
    for batch in (narrow, wide):
        run_chain([SpoolWrite("w", Account(), spool)], [batch])
    got = run_chain([SpoolRead("r", Account(), spool, 0, Schema(narrow.schema))])
    assert [batch["a"].to_pylist() for batch in got] == [[1], [2]]
