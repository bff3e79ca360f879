"""Limit and offset (SPEC V8)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

TABLE = pa.table({"id": pa.array(range(5000), pa.int64())})


def ids(batches: list[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["id"].to_pylist()]


@pytest.mark.each_value
@pytest.mark.parametrize("offset", [0, 1, 7, 8, 999, 1000, 1001, 4999, 5000, 6000])
@pytest.mark.parametrize("count", [None, 0, 1, 8, 1000, 1001, 4096, 6000])
def test_one_driver_keeps_the_order(count: int | None, offset: int) -> None:
    limit = Limit("1", Account(), LimitState(count, offset))
    end = None if count is None else offset + count
    assert ids(run_chain([limit], TABLE.to_batches(max_chunksize=1000))) == list(range(5000))[offset:end]


@pytest.mark.parametrize(("count", "offset"), [(0, 0), (1, 0), (100, 3), (1500, 17), (5000, 0), (None, 1200)])
def test_over_selections(count: int | None, offset: int) -> None:
    """A hash partition has rows with a selection, which the limit cuts."""
    memory, schema = Account(), Schema(TABLE.schema)

    def half(*operators: Limit) -> list[int]:
        queues = [BatchQueue(1), BatchQueue(1)]
        run_chain([LocalPartition("1", memory, queues, "hash", ["id"])], TABLE.to_batches(max_chunksize=1000))
        return ids(run_chain([LocalExchange("1", memory, queues[0], schema), *operators]))

    end = None if count is None else offset + count
    assert half(Limit("2", memory, LimitState(count, offset))) == half()[offset:end]


@pytest.mark.parametrize("offset", [0, 500])
def test_a_shared_limit_counts_all_drivers(offset: int) -> None:
    state = LimitState(1500, offset)
    parts = [ids(run_chain([Limit("1", Account(), state)], TABLE.slice(i * 1000, 1000).to_batches())) for i in range(5)]
    assert [len(part) for part in parts] == ([1000, 500, 0, 0, 0] if offset == 0 else [500, 1000, 0, 0, 0])


@pytest.mark.parametrize(("count", "offset"), [(-1, 0), (5, -1)])
def test_negative_numbers_are_refused(count: int, offset: int) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        LimitState(count, offset)
