"""Patterns of to_char and to_date in PostgreSQL's and Spark's syntax (SPEC Q3)."""

from __future__ import annotations

import datetime

import pytest

import qcore

MOMENT = "timestamp '2024-03-05 14:07:09.25'"


@pytest.mark.parametrize(
    ("dialect", "pattern", "expected"),
    [
        (None, "YYYY-MM-DD HH24:MI:SS", "2024-03-05 14:07:09"),
        (None, "yyyymmdd", "20240305"),
        (None, "DD Mon YY, HH12 AM", "05 Mar 24, 02 PM"),
        (None, 'FMDay "the" DD. FMMonth', "Tuesday the 05. March"),
        (None, "YYYY-MM-DDTHH24:MI:SS.US", "2024-03-05T14:07:09.250000"),
        (None, "IYYY-IW-ID", "2024-10-2"),
        (None, "%d.%m.%Y", "05.03.2024"),
        ("postgresql", "DDD", "065"),
        ("spark", "yyyy-MM-dd HH:mm:ss", "2024-03-05 14:07:09"),
        ("spark", "EEEE, dd MMMM yyyy 'at' hh a", "Tuesday, 05 March 2024 at 02 PM"),
        ("spark", "yyyy-MM-dd'T'HH:mm", "2024-03-05T14:07"),
        ("spark", "%Y", "2024"),
    ],
)
def test_a_moment_in_a_pattern(dialect: str | None, pattern: str, expected: str) -> None:
    session = qcore.Session(dialect=dialect)
    written = pattern.replace("'", "''")
    for name in ("to_char", "date_format"):
        assert session.sql(f"select {name}({MOMENT}, '{written}') as a").to_arrow()["a"].to_pylist() == [expected]


def test_text_in_a_pattern() -> None:
    query = (
        "select to_date('05 Dec 2000', 'DD Mon YYYY') as a, to_timestamp('31.01.2024 10:30', 'DD.MM.YYYY HH24:MI') as b"
    )
    assert qcore.sql(query).to_arrow().to_pylist() == [
        {"a": datetime.date(2000, 12, 5), "b": datetime.datetime(2024, 1, 31, 10, 30)}
    ]


@pytest.mark.parametrize(
    ("dialect", "pattern", "field"),
    [(None, "YYYY-MM-DD Q", "Q"), (None, "HH:mm", "mm"), (None, "Month", "Mon"), ("spark", "yyyy-M-d", "M")],
)
def test_a_field_that_there_is_not(dialect: str | None, pattern: str, field: str) -> None:
    with pytest.raises(qcore.PlanError, match=f"'{field}.*' in the pattern '{pattern}' is not supported"):
        qcore.Session(dialect=dialect).sql(f"select to_char({MOMENT}, '{pattern}')").to_arrow()
