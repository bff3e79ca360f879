"""The row of a query without FROM."""

from __future__ import annotations

import pytest
from bound_queries import binder

import qcore
from qcore.sql.single_row import one_row


def test_q1_one_row_has_a_column_that_no_text_can_name() -> None:
    of = binder()
    first, second = one_row(of), one_row(of)
    assert first.id != second.id
    assert len(first.schema) == 1
    assert qcore.Session(threads=1).execute(first).to_arrow().num_rows == 1
    assert first.schema.names != second.schema.names, "two of them may be joined"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("select 1 as x", [{"x": 1}]),
        ("select 1 as x where false", []),
        ("select count(*) as n", [{"n": 1}]),
        ("select x from (select 1 as x) a, (select 2 as y) b where y > x", [{"x": 1}]),
        ("select (select 3) as x", [{"x": 3}]),
    ],
)
def test_q1_queries_without_from(text: str, rows: list[dict[str, int]]) -> None:
    assert qcore.sql(text).to_arrow().to_pylist() == rows


def test_q1_a_star_needs_a_table() -> None:
    with pytest.raises(qcore.PlanError, match=r"\*"):
        qcore.sql("select *")
