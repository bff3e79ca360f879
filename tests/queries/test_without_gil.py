"""The engine's own operators run while another thread holds the GIL all the time (SPEC H1)."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, col
from sweeps import every

pytestmark = pytest.mark.timeout(120)

BATCH = pa.record_batch(
    {
        "k": pa.array([i * 7919 % 10_007 for i in range(16_384)], pa.int64()),
        "v": pa.array([i % 100 for i in range(16_384)], pa.int64()),
        "s": pa.array([f"text {i % 50}" for i in range(16_384)]),
    }
)
# The same buffers are repeated. 5 billion rows take longer than the test, and take little memory. The texts of all are
# checked when the first plan is built, in two seconds.
ENDLESS = pa.Table.from_batches(pa.Table.from_batches([BATCH] * 64).combine_chunks().to_batches() * 5_000)
SMALL = pa.Table.from_batches([BATCH.slice(0, 500).rename_columns(["k2", "v2", "s2"])])


def rows() -> PlanBuilder:
    return PlanBuilder().values(ENDLESS)


# The plan, and the operator that must make progress.
CASES: dict[str, tuple[Callable[[], PlanBuilder], str]] = {
    "filter": (
        lambda: rows().filter((col("v") > 50) & (col("s") != "text 3")).aggregate([], {"n": ("count",)}),
        "Filter",
    ),
    "project": (lambda: rows().project({"x": col("v") * 2 + col("k")}).aggregate([], {"x": ("sum", "x")}), "Project"),
    "aggregation": (
        lambda: rows().aggregate(["k", "s"], {"n": ("count",), "x": ("sum", "v"), "m": ("min", "s")}),
        "HashAggregation",
    ),
    "partition": (
        lambda: rows().local_partition(["s"], drivers=2).aggregate(["s"], {"n": ("count",)}),
        "LocalPartition",
    ),
    "hash join build": (
        lambda: PlanBuilder().values(SMALL).hash_join(rows().filter(col("v") == 3), ["k2"], ["k"]),
        "HashBuild",
    ),
    "hash join probe": (
        lambda: rows().hash_join(PlanBuilder().values(SMALL), ["k"], ["k2"]).aggregate([], {"x": ("sum", "v2")}),
        "HashProbe",
    ),
    "nested loop": (
        lambda: rows()
        .nested_loop_join(PlanBuilder().values(SMALL.slice(0, 3)), col("v") < col("v2"))
        .aggregate([], {"n": ("count",)}),
        "NestedLoopJoin",
    ),
    "top n": (lambda: rows().top_n(["s desc", "k", "v"], 10), "TopN"),
    "order by": (lambda: rows().filter(col("v") == 3).order_by(["s", "k"]), "OrderBy"),
}  # fmt: skip


@pytest.fixture
def no_switches() -> Iterator[None]:
    """A thread keeps the GIL until it gives it up by itself."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("no_switches")
@pytest.mark.parametrize("case", every(2, CASES))
def test_h1_operators_need_no_gil(case: str) -> None:
    """H1: what runs between two batches that cross from or to Python takes the GIL nowhere."""
    build, name = CASES[case]
    task = qcore.Task(build().build(), drivers=2)

    def count_taken() -> int:
        operators: list[dict[str, Any]] = [of for pipeline in task.stats()["pipelines"] for of in pipeline["operators"]]
        return sum(of["input_batches"] for of in operators if of["name"] == name)

    # Unlike CDLL's, PyDLL's calls keep the GIL.
    sleep_with_gil = ctypes.PyDLL(None).usleep
    task.start()
    for _ in range(200):
        # Drivers that end and splits that are opened may take the GIL. They get it here.
        time.sleep(0.005)
        before = count_taken()
        sleep_with_gil(50_000)
        # A batch that a driver already had does not count as progress.
        if count_taken() > before + 2 * 2:
            break
    else:
        assert task.state == "running", "the rows ran out before the test had looked"
        pytest.fail(f"{name} stood still while this thread held the GIL")
    assert task.state == "running"
    task.cancel()
    with pytest.raises(qcore.Cancelled):
        task.wait(20)
