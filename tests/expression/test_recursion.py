"""The recursion limit is raised while a deep expression needs it. Above the new limit there is a PlanError."""

from __future__ import annotations

import sys

import pytest

from qcore.errors import PlanError
from qcore.expression.recursion import bounded_depth, deep_recursion


def test_the_recursion_limit_is_as_it_was() -> None:
    limit = sys.getrecursionlimit()
    with deep_recursion(), deep_recursion():
        assert sys.getrecursionlimit() > limit
    assert sys.getrecursionlimit() == limit


def _deeper(n: int) -> int:
    return 0 if n == 0 else 1 + _deeper(n - 1)


def test_too_deep_is_a_plan_error() -> None:
    with bounded_depth():
        assert _deeper(5000) == 5000
    with pytest.raises(PlanError, match="nested too deeply"), bounded_depth():
        _deeper(1_000_000)
