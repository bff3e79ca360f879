"""Operator times as text, from counters made by hand (SPEC V14)."""

from __future__ import annotations

from typing import Any

from qcore.session.profile import TIMED_CALLS, operator_wall_nanos, profile_text


def counters(name: str, millis: int, **more: Any) -> dict[str, Any]:
    calls = {call: {"wall_nanos": millis * 250_000} for call in TIMED_CALLS}
    sums = {"input_rows": 1000, "output_rows": 10, "peak_bytes": 4096, "blocked_wall_nanos": {"user": 500_000}}
    return {"name": name, "node_id": "7", **calls, **sums, **more}


def test_v14_the_most_expensive_operator_comes_first() -> None:
    """V14: a line for each operator, with its share of the time of all. Blocked time does not count."""
    stats = {"pipelines": [{"operators": [counters("Cheap", 4)]}, {"operators": [counters("Dear", 12)]}]}
    assert operator_wall_nanos(stats["pipelines"][1]["operators"][0]) == 12_000_000
    header, _, first, second = profile_text(stats).splitlines()
    assert [cell.strip() for cell in header.split("│")][:4] == ["operator", "node", "ms", "share"]
    cells = [cell.strip() for cell in first.split("│")]
    assert cells == ["Dear", "7", "12.00", "75%", "0.50", "1,000", "10", "4,096"]
    assert second.split()[0] == "Cheap"


def test_a_column_for_pyarrow_only_if_it_was_called() -> None:
    calling = counters("B", 2, arrow_calls=3, arrow_wall_nanos=1_500_000)
    stats = {"pipelines": [{"operators": [counters("A", 1), calling]}]}
    header, _, first, second = profile_text(stats).splitlines()
    assert header.endswith("pyarrow ms")
    assert first.endswith("1.50")
    assert second.endswith("0.00")


def test_no_operators_and_no_time() -> None:
    assert len(profile_text({"pipelines": []}).splitlines()) == 2
    assert "0%" in profile_text({"pipelines": [{"operators": [counters("A", 0)]}]})
