"""Disturbed drivers under fixed seeds; `make fuzz` goes on from there (SPEC V5–V8, V13, G1, G5, D8, D9, H3)."""

from __future__ import annotations

import pytest

import driver_fuzz


@pytest.mark.timeout(120)
@pytest.mark.parametrize("first", range(0, 200, 10))
def test_any_disturbance_leaves_the_answer_or_its_error(first: int) -> None:
    """V6, V7, V8, V13, G1, G5, D8, D9, H3: every operator under drivers that block, yield, refuse, fail and stop."""
    for seed in range(first, first + 10):
        driver_fuzz.run(seed)


def test_seeds_reach_everything() -> None:
    """The fixed seeds alone cover most, and a few hundred all, of plans, ways and faults."""
    scenarios = [driver_fuzz.scenario(seed) for seed in range(1000)]
    assert {scenario.name for scenario in scenarios} == {*driver_fuzz.CASES, driver_fuzz.RANDOM_PLAN}
    for fault in driver_fuzz.FAULTS:
        assert {scenario.way for scenario in scenarios if scenario.fault == fault} == set(driver_fuzz.WAYS)
