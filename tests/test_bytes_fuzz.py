"""Damaged files, plans and C streams under fixed seeds; `make fuzz-bytes` goes on from there (SPEC H2)."""

from __future__ import annotations

import pytest
from bytes_fuzz.sources import KINDS
from bytes_fuzz.watch import run

N_MUTATIONS = 400


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bytes_are_an_answer_or_an_error_of_ours(kind: str) -> None:
    """H2: no dead process, no error but a QcoreError; and most damage is found."""
    found = run(kind, 0, N_MUTATIONS)
    assert found.n == N_MUTATIONS
    assert not found.faults
    assert found.counts["error"] > 0
    assert found.counts["same answer"] + found.counts["another answer"] > 0
