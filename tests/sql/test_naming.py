"""A column without an alias is named by the text of its expression. SPEC Q1."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS

import qcore
from oracle import assert_same_rows
from qcore.sql.bind import plan_query

NAMES = {
    "select Sum( C ) from t": ["sum( c )"],
    "select 1 , a + 1 , 'X', \"a\" + 1 from t": ["1", "a + 1", "'X'", "a + 1"],
    "select a is distinct from 1, a from t": ["a is distinct from 1", "a"],
    "select distinct on (a, b) a, c + 1 from t": ["a", "c + 1"],
    "select a -- first\n + 1 from t": ["a + 1"],
    "select NULL, null from t": ["NULL", "NULL"],
    "select mode() within group (order by b) from t": ["mode() within group (order by b)"],
    "select (select a + 1 from u limit 1), A from t": ["(select a + 1 from u limit 1)", "a"],
    'select a as "X y", b Z from t': ["X y", "Z"],
    "select 1 union select 2": ["1"],
}


@pytest.mark.parametrize("query", NAMES)
def test_names(query: str) -> None:
    assert plan_query(query, SCHEMAS).output_names == NAMES[query]


def test_repeated_names_of_a_derived_table() -> None:
    query = "select * from (select a, a, sum(a) over (), sum(a) over () from t)"
    assert plan_query(query, SCHEMAS).output_names == ["a", "a_1", "sum(a) over ()", "sum(a) over ()_1"]


TABLES = {
    "t": pa.table({"i": [1, 2, None, 2], "s": ["a", "b", None, "b"], "day": [4, 5, 6, 7]}),
    "u": pa.table({"i": [2, 3]}),
}


def names(text: str) -> list[str]:
    return qcore.sql(text, TABLES).to_arrow().column_names


@pytest.mark.parametrize(
    ("listed", "shown"),
    [
        ("i, t.s, T.DAY", ["i", "s", "day"]),
        ("SUM(i), Count(*)", ["sum(i)", "count(*)"]),
        ("CAST(i AS INT), i::double", ["cast(i as int)", "i::double"]),
        ("sum(i)   over (order by\n day) -- so far\n", ["sum(i) over (order by day)"]),
        ("'It''s', 'A' || s, \"s\" || 'B'", ["'It''s'", "'A' || s", "s || 'B'"]),
        ("not i = 1, i is null, null", ["not i = 1", "i is null", "NULL"]),
        ("i + 1 as a, i + 2 b, i + 3", ["a", "b", "i + 3"]),
        ("{'a': i} x, [i] y, i::int k", ["x", "y", "k"]),
        ("i is distinct from 1, date '2024-01-31' + interval 1 month, interval '1' day", None),
        ("(select max(u.i) from u where u.i = t.i)", None),
        ("distinct i + 1, upper(s)", ["i + 1", "upper(s)"]),
        ("distinct on (i) i, day + 1", ["i", "day + 1"]),
        ("case when i > 1 then 'x' end, extract(year from date '2024-01-01')", None),
    ],
)
def test_columns_are_called_as_written(listed: str, shown: list[str] | None) -> None:
    parts = listed.split(", ") if shown is None else shown
    assert names(f"select {listed} from t") == parts
    assert names(f"with c as (select 1 as one) select {listed} from t union all select {listed} from t") == parts


def test_windows_by_name_and_fields() -> None:
    """The name of a window is not part of it, and a struct's field is named by the field."""
    assert names("select sum(i) over w, avg(i) over w a from t window w as (order by day)") == ["sum(i) over w", "a"]
    assert names("select x.a, x.b as c from (select {'a': i, 'b': s} x from t)") == ["a", "c"]


@pytest.mark.parametrize(
    "text",
    [
        "select i, i from t",
        "select i, i, t.i, s from t order by i, s",
        "select 1, 1, null, null",
        "select sum(i), sum(i), count(*), count(*) from t",
        "select *, i from t",
        "select i + 1, i + 1 from t union all select 1, 2",
        "select i as a, s as b, day as a from t",
        "select cast('2024-01-01' as date), date '2024-01-01'",
        "select i, day, interval '1' day from t",
        "select interval '1' day, day from t",
        "select max(s), max(s) from t group by i",
        "select distinct i + 1 from t order by i+1 desc nulls last",
        "select distinct i + 1 as n, upper(s) from t order by upper(s), i + 1 limit 2",
        "select distinct s, s from t order by s",
        "with recursive c(n, m) as (select 1, 1 union all select n + 1, n + 1 from c where n < 4) select * from c",
        "select x.b, count(*) from (select i, i from t) x(a, b) group by x.b",
        "select * from (select distinct i + 1, s, s from t order by i + 1 limit 2) x(a, b, c)",
        "select i from t where exists (select 1, 1 from u where u.i = t.i)",
    ],
)
def test_a_select_list_may_say_a_thing_twice(text: str) -> None:
    connection = duckdb.connect()
    for name, table in TABLES.items():
        connection.register(name, table)
    wanted, got = connection.sql(text).to_arrow_table(), qcore.sql(text, TABLES).to_arrow()
    unique = [f"c{n}" for n in range(len(wanted.column_names))]
    assert_same_rows(got.rename_columns(unique), wanted.rename_columns(unique), ordered="order by" in text)


def test_the_plan_shows_the_names_too() -> None:
    plan = qcore.sql("select sum(i), sum(i) from t", TABLES).explain()
    assert "sum(i)" in plan
    assert "$name" not in plan


def test_twice_is_no_file() -> None:
    with pytest.raises(qcore.PlanError, match=r"sum\(i\)"):
        qcore.sql("copy (select sum(i), sum(i) from t) to 'never.parquet'", TABLES)


WITHIN = {
    "t": pa.table({"i": [1, 2, None, 2], "g": ["a", "b", None, "b"]}),
    "u": pa.table({"i": [2, 3], "sum(u.i)": [5, 6]}),
}


@pytest.mark.parametrize(
    "query",
    [
        'select "sum(i)" from (select sum(i) from t)',
        'select "sum(i)" + 1 as x from (select sum(i) from t) q where "sum(i)" > 1',
        "select * from (select sum(i), sum(i), sum(t.i), upper(g) from t group by upper(g)) order by 4",
        'with c as (select sum(u.i), sum(u.i) from u) select "sum(u.i)_1", * from c',
        "select * from (select i, i from t)",
        "select q.i_1 from (select i, g as i from t) q",
        "select * from (select * from (select max(i) from t))",
        'select "max(i)" from (select max(i) from t union all select min(i) from t)',
        'select "max(i)" from (select max(i) from t except all select min(i) from t)',
        'select "max(i)" from ((select max(i) from t) union (select min(i) from t))',
        "select * from (select upper(g), i from t union all by name select i, upper(g) from t)",
        'select a."sum(i)", b."sum(i)" as other from (select sum(i) from t) a, (select sum(i) from u) b',
        "select x from (select sum(i) from t) q(x)",
        "select * from u",
        'with recursive r as (select 1 union all select "1" + 1 from r where "1" < 4) select * from r',
        "select i from t where i in (select max(i) from u) or exists (select max(i), max(i) from u)",
    ],
)
def test_columns_of_queries_within_are_called_as_written(query: str) -> None:
    """Q1: as in DuckDB, an outer query may use these names."""
    connection = duckdb.connect()
    for name, table in WITHIN.items():
        connection.register(name, table)
    wanted, got = connection.sql(query).to_arrow_table(), qcore.sql(query, WITHIN).to_arrow()
    assert_same_rows(got, wanted, check_names=True)


def test_a_table_made_from_a_query_has_the_names_of_its_columns() -> None:
    """Q1."""
    session = qcore.Session()
    session.register("t", WITHIN["t"])
    session.sql("create table made as select count(*), sum(t.i), i + 1::double precision from t group by i")
    assert session.sql("select * from made").to_arrow().column_names == [
        "count(*)",
        "sum(t.i)",
        "i + 1::double precision",
    ]
