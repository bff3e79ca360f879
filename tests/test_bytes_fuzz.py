"""Damaged files, plans and C streams with fixed seeds. `make fuzz-bytes` runs more seeds (SPEC H2)."""

from __future__ import annotations

import pytest
from bytes_fuzz.sources import KINDS
from bytes_fuzz.watch import run

from sweeps import every

# The first seed, and the one after the last.
SEEDS = [(0, 15), *(pytest.param(*seeds, marks=pytest.mark.sweep) for seeds in ((0, 50), (50, 100), (100, 300)))]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", every(3, KINDS))
@pytest.mark.parametrize(("first", "last"), SEEDS)
def test_damaged_bytes_are_an_answer_or_an_error_of_ours(first: int, last: int, kind: str) -> None:
    """H2: no process dies, all errors are QcoreErrors, and most damage is found."""
    found = run(kind, first, last)
    assert found.n == last - first
    assert not found.faults
    assert found.counts["error"] > 0
    assert found.counts["same answer"] + found.counts["another answer"] > 0
