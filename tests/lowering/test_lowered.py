"""Lowered plans, which have no state of a run, and runs of them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import qcore
from operator_plans import CASES, LEFT, RIGHT, random_rows
from qcore import PlanBuilder
from qcore.config import Settings
from qcore.lowering.lowered import QUEUE_BYTES_MAX, QUEUE_BYTES_MIN, LoweredPlan, Run
from qcore.session.task import Task, lower_plan


def open_last(*of: Any) -> Any:
    return of[-1]


def run_of(plan: LoweredPlan, **settings: Any) -> Run:
    return Run(plan, Settings.make(plan.threads, **settings), open_last, open_last)


def rows_of(plan: LoweredPlan) -> list[pa.RecordBatch]:
    return list(Task.of_lowered(plan, Settings.make(plan.threads)).batches())


@pytest.mark.parametrize("name", CASES)
def test_every_run_of_a_lowered_plan_is_right(name: str) -> None:
    """Runs one after another, and at the same time. The plan keeps nothing of a run."""
    rng = random.Random(name)
    left, right = random_rows(LEFT, 200, rng), random_rows(RIGHT, 60, rng)
    case = CASES[name]
    expected = case.expected(left, right)
    plan = case.build(PlanBuilder().scan("l", source=left), PlanBuilder().scan("r", source=right)).build()
    lowered = lower_plan(plan, 2)
    for _ in range(2):
        case.check(rows_of(lowered), plan.schema, expected)
    tasks = [Task.of_lowered(lowered, Settings.make(2)) for _ in range(2)]
    for task in tasks:
        task.start()
    for task in tasks:
        case.check(list(task.batches()), plan.schema, expected)


@pytest.mark.parametrize("name", CASES)
def test_runs_share_no_part(name: str) -> None:
    plan = CASES[name].build(PlanBuilder().scan("l", schema=LEFT), PlanBuilder().scan("r", schema=RIGHT))
    lowered = lower_plan(plan.build(), 2)
    one, other = run_of(lowered), run_of(lowered)
    assert not {id(part) for part in one.parts} & {id(part) for part in other.parts}
    assert not {id(queue) for queue in one.split_queues.values()} & set(map(id, other.split_queues.values()))
    assert one.memory is not other.memory and one.filters is not other.filters


def test_a_run_has_as_many_threads_as_its_plan() -> None:
    lowered = lower_plan(PlanBuilder().values(pa.table({"a": [1]})).build(), 2)
    with pytest.raises(AssertionError, match="another number of threads"):
        Run(lowered, Settings.make(3), open_last)


@pytest.mark.parametrize(
    ("limit", "n_queues", "bytes_max"),
    [
        (None, 3, QUEUE_BYTES_MAX),
        (64 << 20, 1, 8 << 20),
        (64 << 20, 4, 2 << 20),
        (64 << 20, 64, QUEUE_BYTES_MIN),
        (1 << 40, 1, QUEUE_BYTES_MAX),
    ],
)
def test_queues_of_an_exchange_take_an_eighth_of_the_limit(
    limit: int | None, n_queues: int, bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(lower_plan(PlanBuilder().values(pa.table({"a": [1]})).build(), 2), memory_limit=limit)
    monkeypatch.setattr("qcore.lowering.lowered.BatchQueue", lambda n_producers, bytes_max: (n_producers, bytes_max))
    assert run.queues(2, n_queues) == [(2, bytes_max)] * n_queues


def test_a_file_is_checked_by_each_run(tmp_path: Any) -> None:
    """A run checks the files that it writes. Lowering does not."""
    plan = PlanBuilder().values(pa.table({"a": [1]})).write_parquet(str(tmp_path / "new")).build()
    lowered = lower_plan(plan, 1)
    assert len(rows_of(lowered)) == 1
    with pytest.raises(qcore.PlanError, match="exists"):
        rows_of(lowered)
