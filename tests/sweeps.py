"""Cases of long tests that are left to `make test-all`: see the markers `sweep` and `each_value` in pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, values: Iterable[Any]) -> list[Any]:
    """Parameters for a test: every value, marked `sweep` except every `step`-th. A tuple is several parameters."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=[pytest.mark.sweep] if i % step else [])
        for i, value in enumerate(values)
    ]
