"""Fixtures of the tests of qcore_ext.ground."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qcore_ext.ground.dispatch import use_level


@pytest.fixture(params=[2, 3, 4])
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    """Each x86-64 level that the processor supports. Its kernels are used in one test."""
    if not use_level(request.param):
        pytest.skip(f"this processor does not support x86-64-v{request.param}")
    yield request.param
    assert any(use_level(best) for best in (4, 3, 2))
