"""The counters of operators (SPEC V14)."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from qcore.expression.tree import col
from qcore.lowering.compile import compile_predicate
from qcore_ext.basic.filter import Filter
from qcore_ext.ground.memory import Account
from qcore_ext.ground.stats import REASON_NAMES, BlockReason, tick_nanos
from qcore_testing.operators import FakeOperator, run_chain

TIMINGS = ("add_input", "get_output", "finish", "is_blocked")


@pytest.mark.parametrize("n_batches", [1, 5])
def test_rows_bytes_and_batches_are_counted(n_batches: int) -> None:
    """V14."""
    memory = Account()
    keep = Filter("f", memory, lambda schema: compile_predicate(col("a") < 30, pa.schema(schema)))
    batch = pa.record_batch({"a": pa.array(range(100), pa.int64())})
    run_chain([keep], [batch] * n_batches)
    stats = keep.stats_snapshot()
    assert (stats["input_rows"], stats["input_batches"]) == (100 * n_batches, n_batches)
    assert (stats["output_rows"], stats["output_batches"]) == (30 * n_batches, n_batches)
    assert stats["input_bytes"] == 800 * n_batches
    assert stats["output_bytes"] == 240 * n_batches
    assert stats["add_input"]["calls"] == n_batches
    assert stats["finish"]["calls"] == 2  # finish and close
    assert stats["get_output"]["calls"] >= n_batches
    assert all(stats[name]["wall_nanos"] >= 0 and stats[name]["cpu_nanos"] >= 0 for name in TIMINGS)
    assert stats["blocked_wall_nanos"] == stats["blocked_times"] == {}


def test_every_reason_to_block_has_its_name() -> None:
    """V14."""
    names = [reason.name.lower().removeprefix("wait_for_") for reason in sorted(BlockReason)]
    assert [name for name in names if name in REASON_NAMES] == list(REASON_NAMES)[: len(names)]


def test_nothing_is_counted_before_it_runs() -> None:
    stats = FakeOperator("idle").stats_snapshot()
    assert stats["input_rows"] == stats["output_rows"] == stats["splits"] == 0
    assert all(stats[name]["calls"] == 0 for name in TIMINGS)


def test_a_tick_is_a_share_of_a_nanosecond() -> None:
    """The length of a tick in ns. It is 0 if the rate is not known yet, or if the monotonic clock is used."""
    time.sleep(0.25)
    assert 0.0 <= tick_nanos() < 100.0
