"""Stars and COLUMNS, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS, check

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select * exclude (l) replace (a + 1 as a) rename (b as bb) from t",
        "select t.* from t where t.a = 1",
        "select s.* from t as s(k) where k = 1",
        "select columns('a|c') from t",
        "select min(columns(* exclude (l))) from t",
        "select a from t where columns(['a', 'c']) > 0",
        "select s.* from (select {'x': a, 'y': b} as s from t)",
        "select * like 'a%' from t",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select *", "\\* needs a table"),
        ("select x.* from t", "unknown table 'x'"),
        ("select * exclude (zz) from t", "unknown column 'zz'"),
        ("select not * from t", r"NOT \* is not supported; write NOT COLUMNS\(\*\)"),
        ("select columns(lambda c: c = 'a') from t", r"COLUMNS of a lambda is not supported; COLUMNS\('regex'\)"),
        ("select * like b from t", r"a pattern of \* that is computed"),
        ("select concat(*columns('a')) from t", "as arguments is not supported"),
        ("select columns('a') + columns('b') from t", "choose different columns"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


TABLES = {
    "t": pa.table(
        {"i": pa.array([1, 2, 3, None], pa.int64()), "g": ["a", "b", None, "b"], "f": [1.5, None, -3.0, 0.0]}
    ),
    "u": pa.table({"i": pa.array([1, 2, 2, 9, None], pa.int64()), "n": [10, 20, 30, 40, 50]}),
}


@pytest.mark.parametrize(
    "query",
    [
        "select columns('^[ig]$') from t",
        "select columns(*) from u",
        "select min(columns(*)) from u",
        "select min(columns('i|n')), max(columns('i|n')) from u",
        "select columns('i|f') + 1 from t",
        "select columns('i|f') + columns('i|f') from t",
        "select columns('i|f') as k from t",
        "select columns(['f', 'i'])::varchar, g from t",
        "select columns(* exclude (g)), columns(t.*) from t",
        "select i from t where columns(['i', 'f']) > 0 and g is not null",
        "select * from (select columns('i|n') + 1 from u) where i > 2",
        "with c as (select * from u) select max(columns(*)) from c",
        "select columns('^i$'), n from t full join u using (i)",
        "select distinct columns('g') from t",
        "select * rename (i as k) from u",
        "select * exclude (n) rename (i as k) from u",
        "select t.* exclude (g) replace (1 as i) rename (f as k) from t",
        "select * replace (i * 2 as i) from t full join u using (i)",
        "select * exclude (g) replace (f * 2 as f) from t left join u using (i)",
        "select t.* exclude (i) from t full join u using (i)",
        "select u.* exclude (i) replace (u.n + 1 as n), t.g from t right join u using (i)",
        "select * like '_' from t",
        "select * not like 'i%' from t, (select 1 as iz, 2 as z)",
        "select t.* ilike 'I' from t",
        "select * exclude (g) not ilike 'G' from t",
        "select * similar to '[ig]' from t",
        "select * not similar to '[ig]' from t",
        "select * glob '[if]' from t",
        "select * like 'i', g as i2 from t where g like 'b'",
        "select * exclude i from u union all by name select n from u",
    ],
)
def test_stars_and_columns(query: str) -> None:
    """Q1: the same rows under the same names."""
    database, session = duckdb.connect(), qcore.Session(threads=2)
    for name, table in TABLES.items():
        database.register(name, table)
        session.register(name, table)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table(), check_names=True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * like 'zz' from t", "no column's name matches the pattern of"),
        ("select * similar to '(' from t", "SIMILAR TO"),
        ("select columns('zz') from t", "matches no column; there are i, g, f"),
        ("select columns('(') from t", "COLUMNS"),
        ("select columns(['zz']) from t", "unknown column 'zz' in COLUMNS"),
        ("select columns(1) from t", "COLUMNS takes "),
        ("select columns('i') + columns('f') from t", "choose different columns"),
        ("select concat(*columns('i')) from t", "as arguments is not supported"),
        ("select columns('i') from t join u on t.i = u.i", "COLUMNS chooses 'i' of several tables"),
        ("select i from t order by columns('i')", "is only allowed in a select list or in WHERE"),
        ("select * rename (zz as k) from t", "unknown column 'zz'"),
        ("select * rename (i as k) from t join u on t.i = u.i", "'i' of several tables"),
        ("select * replace (1 as zz) from t full join u using (i)", "unknown column 'zz'"),
    ],
)
def test_stars_without_columns(query: str, said: str) -> None:
    """Q1: an error names the expression."""
    with pytest.raises(qcore.PlanError, match=said):
        qcore.sql(query, TABLES)
