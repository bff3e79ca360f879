"""WITH RECURSIVE, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check, rows

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "with recursive c(n) as (select 1 union all select n + 1 from c where n < 4) select * from c",
        "with recursive c(n) as (select 1 union select (n + 1) % 3 from c) select * from c",
        "with recursive c as (select a, 0 as depth from t where a = 1 union all select u.a, depth + 1 "
        "from u join c on u.a = c.a + 1) select * from c",
        "with recursive d as (select 1 as x) select * from d",
        "with recursive c(n) as (select 1 union all select n + 1 from c where n < 4) select x.n, y.n from c x, c y",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "with recursive c as (select 1 as n union all select n, n from c) select * from c",
            "has 1 columns, the repeated part 2",
        ),
        ("with recursive c as (select n from c) select * from c", "is not a UNION"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_a_null_of_the_first_part_is_of_the_type_of_the_second() -> None:
    query = (
        "with recursive c as (select 1 as n, null as p union all select n + 1, n from c where n < 3) select * from c"
    )
    assert rows(query) == [(1, None), (2, 1), (3, 2)]
