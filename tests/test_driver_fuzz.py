"""Disturbed drivers with fixed seeds. `make fuzz` runs more seeds (SPEC V5–V8, V11–V13, G1, G5, D6, D8, D9, H3)."""

from __future__ import annotations

import pytest

from driver_fuzz.crowd import TASKS, crowd
from driver_fuzz.run import run
from driver_fuzz.scenario import EPOCHS, FAULTS, RANDOM_PLAN, SINKS, WAYS, scenario
from operator_plans import CASES
from sweeps import every


@pytest.mark.timeout(120)
@pytest.mark.parametrize("first", every(4, range(0, 200, 10)))
def test_any_disturbance_leaves_the_answer_or_its_error(first: int) -> None:
    """V6, V7, V8, V11, V12, V13, G1, G5, D6, D8, D9, H3: every operator under drivers that block, yield, refuse, fail
    and stop, over sources whose schema changes.
    """
    for seed in range(first, first + 10):
        run(seed)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(3))
def test_many_tasks_at_once_lose_no_wake_up(seed: int) -> None:
    """V7, V8, G5: 200 tasks of 4 drivers on 2 threads are read, left, cancelled or dropped. `--crowd` runs more."""
    assert sum(crowd(seed).values()) == TASKS


def test_seeds_reach_everything() -> None:
    """The fixed seeds reach most plans, ways of reading and faults. A few hundred seeds reach all."""
    scenarios = [scenario(seed) for seed in range(1000)]
    assert {scenario.name for scenario in scenarios} == {*CASES, RANDOM_PLAN}
    for fault in FAULTS:
        assert {scenario.way for scenario in scenarios if scenario.fault == fault} == set(WAYS)
        assert {scenario.sink for scenario in scenarios if scenario.fault == fault} >= set(SINKS) - {"parquet"}
    for epochs in EPOCHS:
        assert {scenario.sink for scenario in scenarios if scenario.epochs == epochs} == set(SINKS)
