"""SpoolWrite writes rows to a spool until all readers have left (SPEC Q2)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.basic.spool_read import SpoolRead
from qcore_ext.basic.spool_write import SpoolWrite
from qcore_ext.data.schema import Schema
from qcore_ext.flow.batch_spool import BatchSpool
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

SCHEMA = pa.schema([("a", pa.int64())])
BATCHES = [pa.record_batch({"a": pa.array([i, i + 1], pa.int64())}) for i in range(0, 40, 2)]


def count_written(spool: BatchSpool) -> int:
    operator = SpoolWrite("w", Account(), spool)
    run_chain([operator], BATCHES, SCHEMA)
    return operator.stats_snapshot()["input_batches"]


def test_every_batch_is_written() -> None:
    """Q2."""
    spool = BatchSpool(1, [1])
    assert count_written(spool) == len(BATCHES)
    got = run_chain([SpoolRead("r", Account(), spool, 0, Schema(SCHEMA))])
    assert [value for batch in got for value in batch["a"].to_pylist()] == list(range(40))


@pytest.mark.parametrize("n_readers", [1, 2])
def test_nothing_is_written_once_every_reader_has_left(n_readers: int) -> None:
    """Q2: the writer finishes, and its pipeline ends."""
    spool = BatchSpool(2, [1] * n_readers)
    assert count_written(spool) == len(BATCHES)
    for number in range(n_readers):
        limit = Limit("l", Account(), LimitState(1))
        got = run_chain([SpoolRead("r", Account(), spool, number, Schema(SCHEMA)), limit])
        assert [batch["a"].to_pylist() for batch in got] == [[0]]
    assert count_written(spool) <= 1
