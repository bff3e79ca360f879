"""Settings."""

from __future__ import annotations

from typing import Any

import pytest

from qcore.config import Settings, default_threads


def test_defaults_are_filled_in() -> None:
    settings = Settings.make()
    assert settings.threads == default_threads() >= 1
    assert settings.memory_limit is None
    assert settings.batch_rows == 65_536


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"threads": -1}, {"memory_limit": 0}, {"batch_rows": 0}, {"timeout": 0.0}]
)
def test_what_makes_no_sense_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be positive"):
        Settings.make(**wrong)
