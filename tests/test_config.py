"""Settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore.config import Settings, bytes_of, default_threads
from qcore.errors import PlanError


def test_defaults_are_filled_in() -> None:
    settings = Settings.make()
    assert settings.threads == default_threads() >= 1
    assert settings.memory_limit is None
    assert settings.batch_rows == 65_536


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"threads": -1}, {"memory_limit": 0}, {"batch_rows": 0}, {"timeout": 0.0}]
)
def test_settings_must_be_positive(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be positive"):
        Settings.make(**wrong)


@pytest.mark.parametrize(
    ("given", "n_bytes"),
    [
        (1, 1),
        (2**40, 2**40),
        ("1000", 1000),
        ("512MB", 512_000_000),
        ("64 MB", 64_000_000),
        ("1GB", 10**9),
        ("1gb", 10**9),
        ("2kB", 2_000),
        ("3TB", 3 * 10**12),
        ("1.5 GiB", 3 << 29),
        ("64MiB", 64 << 20),
        ("1 KiB", 1024),
        ("2 tib", 2 << 40),
        (" 10 bytes ", 10),
        ("0.1GB", 10**8),
        (".5KB", 500),
        ("999999999TB", 2**63 - 1),
    ],
)
def test_limits_are_bytes_or_texts_with_units(given: int | str, n_bytes: int) -> None:
    assert bytes_of(given, "memory_limit") == n_bytes
    assert Settings.make(memory_limit=given).memory_limit == n_bytes


@pytest.mark.parametrize(
    "wrong", ["", "MB", "1 XB", "1,5GB", "-1GB", "1e9", "lots", "nan", 1.5, True, [1], "0", "0.1B"]
)
def test_a_bad_limit_is_an_error_that_lists_the_accepted_forms(wrong: Any) -> None:
    with pytest.raises(PlanError, match=r"memory_limit (is a|must be positive)") as caught:
        Settings.make(memory_limit=wrong)
    assert isinstance(caught.value, ValueError)


def test_every_way_to_give_a_limit_takes_a_text() -> None:
    session = qcore.Session(memory_limit="1GB", session_memory_limit="2 GiB")
    assert session.settings.memory_limit == 10**9
    assert session.settings.memory_pool is not None and session.settings.memory_pool.limit == 2 << 30
    session.change(memory_limit="64 MiB", session_memory_limit="1GiB")
    assert session.settings.memory_limit == 64 << 20
    assert session.settings.memory_pool.limit == 1 << 30
    plan = qcore.PlanBuilder().values(pa.table({"a": [1]})).build()
    assert qcore.Task(plan, memory_limit="1KB").settings.memory_limit == 1000
    with qcore.polled(plan, 1, memory_limit="1MB") as query:
        assert query.settings.memory_limit == 10**6
    rows = qcore.sql("select sum(a) s from t", {"t": pa.table({"a": [1]})}, memory_limit="1MB")
    assert rows.to_arrow().to_pylist() == [{"s": 1}]
    for wrong in (lambda: qcore.Session(session_memory_limit="1 XB"), lambda: session.change(memory_limit="many")):
        with pytest.raises(qcore.PlanError, match=r"such as '512MB' or '1\.5 GiB'"):
            wrong()


def test_a_session_has_no_setting_that_does_nothing() -> None:
    with pytest.raises(TypeError, match="spill_dir"):
        qcore.Session(spill_dir="/tmp")  # type: ignore[call-arg]
    with pytest.raises(PlanError, match="no setting 'spill_dir'; it has threads, memory_limit, batch_rows, timeout"):
        qcore.Session().change(spill_dir="/tmp")
