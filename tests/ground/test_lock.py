"""Mutexes: the names of what they protect, and no mutex is locked while another is held (SPEC G3)."""

from __future__ import annotations

import pyarrow as pa

import qcore
from qcore_ext.ground.lock import LOCK_NAMES, lock_misuses, renew_locks

TABLE = pa.table({"k": [i % 7 for i in range(20_000)], "v": list(range(20_000))})
QUERY = "select k, sum(v) as s from t group by k order by k"


def test_no_lock_is_taken_below_another() -> None:
    """G3: exchanges, aggregations and sorts with several threads."""
    before = lock_misuses()
    for _ in range(3):
        qcore.sql(QUERY, {"t": TABLE}, threads=3).to_arrow()
    assert lock_misuses() == before


def test_locks_work_after_they_are_renewed() -> None:
    """A forked child renews every mutex when it first locks it."""
    session = qcore.Session(threads=2)
    first = session.sql(QUERY, {"t": TABLE}).to_arrow()
    renew_locks()
    assert session.sql(QUERY, {"t": TABLE}).to_arrow().equals(first)
    assert first["s"].to_pylist() == [sum(range(k, 20_000, 7)) for k in range(7)]


def test_locks_have_names() -> None:
    assert len(LOCK_NAMES) == len(set(LOCK_NAMES)) == 4
