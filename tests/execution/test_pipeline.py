"""Pipelines: drivers of the same steps, and the sums of their counters (SPEC V4, V14)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore_ext.execution.pipeline import Pipeline
from qcore_ext.execution.task import Task
from qcore_ext.ground.memory import Account
from qcore_testing.operators import BatchSource, Collector, import_batches

BATCH = pa.record_batch({"a": pa.array(range(10), pa.int64())})


@pytest.mark.parametrize("n_drivers", [1, 2, 5])
def test_counters_are_summed_over_drivers(n_drivers: int) -> None:
    """V14: driver i reads i + 1 batches."""
    memory = Account()
    chains = [[BatchSource(import_batches([BATCH] * (i + 1)), memory), Collector(memory)] for i in range(n_drivers)]
    task = Task([chains], memory)
    task.run_on_caller(timeout=60)
    (pipeline,) = task.pipelines
    assert len(pipeline.drivers) == n_drivers
    stats = pipeline.stats()
    n_batches = sum(range(1, n_drivers + 1))
    source, sink = stats["operators"]
    assert (source["output_batches"], source["output_rows"]) == (n_batches, 10 * n_batches)
    assert (sink["input_batches"], sink["input_bytes"]) == (n_batches, 80 * n_batches)
    assert [part["input_batches"] for part in sink["drivers"]] == list(range(1, n_drivers + 1))
    assert sink["add_input"]["calls"] == n_batches
    assert (stats["drivers"], stats["drivers_done"]) == (n_drivers, n_drivers)
    assert stats["turns"] == sum(driver.runs for driver in pipeline.drivers) >= n_drivers
    assert stats["steps"] == sum(driver.steps for driver in pipeline.drivers) >= n_batches
    assert (source["name"], sink["name"]) == ("BatchSource", "Collector")


def test_a_pipeline_has_a_driver() -> None:
    with pytest.raises(ValueError, match="at least one driver"):
        Pipeline([], False)
