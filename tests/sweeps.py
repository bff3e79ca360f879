"""Which cases of long tests are left to `make test-all`: see the markers `sweep` and `each_value` in pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, values: Iterable[Any]) -> list[Any]:
    """All values as parameters of a test; all but every `step`-th are marked `sweep`. Tuples are several parameters."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=[pytest.mark.sweep] if i % step else [])
        for i, value in enumerate(values)
    ]
