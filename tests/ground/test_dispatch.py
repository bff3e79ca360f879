"""One choice of the instruction set holds for all kernels. SPEC H1."""

from __future__ import annotations

import subprocess
import sys

import pytest

from qcore_ext.ground.dispatch import instruction_set, use_level

NAMES = {2: "baseline", 3: "x86-64-v3", 4: "x86-64-v4"}


def test_the_highest_supported_level_is_the_default() -> None:
    before = instruction_set()
    highest = max(level for level in NAMES if use_level(level))
    assert use_level(highest)
    program = "from qcore_ext.ground.dispatch import instruction_set; print(instruction_set())"
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == NAMES[highest] == before


def test_a_level_names_its_instruction_set(level: int) -> None:
    assert instruction_set() == NAMES[level]


@pytest.mark.parametrize("unknown", [-1, 0, 1, 5])
def test_a_level_that_does_not_exist_changes_nothing(unknown: int) -> None:
    before = instruction_set()
    assert use_level(unknown) is False
    assert instruction_set() == before
