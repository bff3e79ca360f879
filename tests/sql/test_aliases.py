"""Names of the select list that are used in the same SELECT, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

TABLES = {
    "t": pa.table({
        "i": pa.array([1, 2, 3, 4, None, 6, 6], pa.int64()),
        "g": ["a", "b", "a", None, "b", "a", "a"],
        "f": [1.5, 2.25, None, -3.0, 0.0, 7.5, 7.5],
    }),
    "u": pa.table({"i": pa.array([1, 2, 2, 9, None], pa.int64()), "n": [10, 20, 30, 40, 50]}),
    "none": pa.table({"i": pa.array([], pa.int64())}),
}  # fmt: skip


def _both(query: str) -> None:
    database = duckdb.connect()
    for name, table in TABLES.items():
        database.register(name, table)
    session = qcore.Session(threads=2, dialect="duckdb")
    for name, table in TABLES.items():
        session.register(name, table)
    wanted = database.sql(query).to_arrow_table()
    assert_same_rows(session.sql(query).to_arrow(), wanted, ordered="order by 1" in query, check_names=True)


@pytest.mark.parametrize(
    "query",
    [
        "select i+1 as a, a*2 as b from t",
        "select i+1 as a, a*2 as b from t where a>2",
        "select i+1 as a, a*2 as b, b-a as c from t where b > 5 and -c < 8 and a in (3, 4, 7)",
        "select i + 1 as a, a + 1 as b from none where b > 1",
        "select i+1 a, a*2 b from t where a > 2",
        "select sum(i) as q, q / 2 as h from t",
        "select avg(i) as m, m * 2 as k, g from t group by g having k > 4",
        "select i as x, sum(x) over (order by x rows 1 preceding) as r from t where x > 1",
        "select i as x, row_number() over w as r from t window w as (order by x desc nulls last, f) qualify r < 3",
        "select i as x from t qualify count(*) over (partition by x) > 1",
        "select 1 as a, a + 1 as b, b + 1 as c",
        'select i+1 as "X", x as y from t where x > 2',
        "select distinct i%2 as x, x+1 as y from t order by 1",
        "select i%2 as x, sum(i) as q, sum(x) as z from t group by all",
        "select i%2 as x, sum(i) as q, sum(x) as z from t group by x",
        "select q.x, q.y from (select i as x, x*2 as y from t where x is not null) q where y > 2",
        "with c as (select i as x, x*2 as y from t where x is not null) select y as z, z+x as k from c",
        "select t.i as x, x + n as y from t join u on t.i = u.i where y > 12",
        "select i as x, x + n as y from t full join u using (i)",
        "select i as x, x + n as y from t left join u using (i) where x is not null",
        "select case when i > 2 then 'big' else 'small' end as size, size || '!' as w from t where size = 'big'",
        "select i as x, x as y from t union all select n as p, p as q from u order by 1, 2",
        "select i as x, x in (1, 2) as y, x between 1 and 2 as z, x is distinct from 1 as d, x::double as v from t",
        "select day as dd, extract(day from dd) as n from (select date '2024-01-31' as day) where dd = day",
        "select i as x from t where exists (select 1 from u where u.i = t.i) and x = 1",
        "select i as a, a as b from t except all select i, i from u",
    ],
)
def test_an_alias_is_known_in_its_select(query: str) -> None:
    """Q1: in later items of the select list, in WHERE and in windows."""
    _both(query)


@pytest.mark.parametrize(
    "query",
    [
        "select i as f, f from t where f > 2",
        "select i * 2 as f from t where f > 2",
        "select -i as i from t group by i having i > 1",
        "select -i as f, row_number() over (order by f nulls last, i) as r from t where f is not null",
        "select i%2 as i, count(*) as n from t group by i",
        "select n as i, i + 1 as k from u",
    ],
)
def test_a_column_of_a_table_wins(query: str) -> None:
    """Q1."""
    _both(query.replace("select i as f, f from", "select i as f, f as g from"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select x + 1 as y, i as x from t", "unknown column 'x'"),
        ("select a + 1 as a from t where a > 1", "unknown column 'a'"),
        ("select b + 1 as a, a + 1 as b from t where b > 1", "unknown column 'b'"),
        ("select i as x, f as x, x + 1 as z from t", "two columns of the select list are named 'x'"),
        ("select sum(i) as s from t where s > 1", "an aggregate function cannot be in WHERE"),
        (
            "select 1 as a, " + ", ".join(f"{'+'.join(['a' * n] * 9)} as {'a' * (n + 1)}" for n in range(1, 8)),
            "too long",
        ),
    ],
)
def test_clauses_that_cannot_read_an_alias(query: str, said: str) -> None:
    """Q1: an error names the alias."""
    with pytest.raises(qcore.PlanError, match=said):
        qcore.sql(query, TABLES)
