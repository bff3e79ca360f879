"""The engine's operators take no lock while batches pass through them (SPEC G3)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from operator_plans import CASES, LEFT, RIGHT, random_rows
from qcore import PlanBuilder
from qcore.session.task import Task

# A wake-up puts a driver on the scheduler's queue, or ends the sleep of the thread that reads the result. Both
# lock the object that is woken, and happen only if something waits.
WAKE_UPS = {"scheduler", "sleeper"}
WAKING = {"LocalPartition", "LocalExchange", "ResultSink", "HashProbe", "NestedLoopJoin"}

# Operators that keep batches for several readers take one lock for each batch.
KEEPING = {"SpoolWrite", "SpoolRead", "PartitionedOutput"}

# The rounds of a recursion are tasks. They begin and end, under locks, in polls of the scan of their rows.
POLLED = [name for name in CASES if not name.startswith("recursion")]


def operators(stats: dict[str, Any]) -> list[dict[str, Any]]:
    return [operator for pipeline in stats["pipelines"] for operator in pipeline["operators"]]


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("name", POLLED)
def test_polls_take_no_lock(name: str, drivers: int) -> None:
    """G3: needs_input, add_input and get_output of every native operator, over a plan for each."""
    rng = random.Random(7)
    left, right = random_rows(LEFT, 3000, rng), random_rows(RIGHT, 500, rng)
    one, two = PlanBuilder().scan("l", source=left), PlanBuilder().scan("r", source=right)
    plan = CASES[name].build(one, two).build()
    task = Task(plan, drivers=drivers, batch_rows=128)
    for _ in task.batches():
        pass
    for operator in operators(task.stats()):
        name, taken = operator["name"], set(operator["locks"])
        if name in KEEPING:
            taken -= {"structure"} | WAKE_UPS
        assert taken <= (WAKE_UPS if name in WAKING else set()), (name, operator["locks"])
