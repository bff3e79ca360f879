"""Which cases of long tests are left to `make test-all`: see the markers `sweep` and `each_value` in pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, values: Iterable[Any]) -> list[Any]:
    """All values as parameters of a test; all but every `step`-th are marked `sweep`."""
    return [
        pytest.param(value, marks=() if place % step == 0 else pytest.mark.sweep) for place, value in enumerate(values)
    ]
