"""PIVOT and UNPIVOT, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import sys
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

TABLES = {
    "m": pa.table({"name": ["a", "b"], "jan": [1, None], "feb": [2, 5], "mar": [None, 6]}),
    "w": pa.table({"a": [1, 2], "b": [None, 3], "c": [None, 5], "d": [7.5, None]}),
    "s": pa.table(
        {
            "y": [2000, 2000, 2001, 2001, 2001, None],
            "c": ["x", "y", "x", "x", None, "y"],
            "q": [1, 1, 2, 2, 2, 1],
            "v": [1.5, 2.0, 3.0, 4.0, 7.0, 9.0],
        }
    ),
    "none": pa.table({"c": pa.array([], pa.string()), "v": pa.array([], pa.int64())}),
}


@pytest.mark.parametrize(
    "query",
    [
        "pivot s on c in ('x','y') using sum(v)",
        "pivot s on c in ('x','y') using sum(v) group by y;",
        "pivot s on c in ('x','y') using sum(v), count(*) as n group by y",
        "pivot s on c in ('x','y') using sum(v) as t group by y order by y limit 1",
        "pivot s on y in (2000, 2001), c in ('x') using sum(v)",
        "pivot s on c in ('x','y') group by y",
        "pivot s on c in ('x', 'zz', null) using count(*) group by y, q",
        "pivot (select y, c, v from s) on c in ('x','y') using sum(v)",
        "pivot none on c in ('x') using sum(v)",
        "pivot none on c in ('x') using sum(v) group by v",
        "select * from s pivot (sum(v) for c in ('x','y') group by y)",
        "select * from s pivot (sum(v) as t for y in (2000 as a, 2001) group by c)",
        "select * from s pivot (sum(v), max(q) for c in ('x','y') y in (2000))",
        "select p.x + 1 as k from s pivot (sum(v) for c in ('x','y')) p where p.x > 2",
        'select * from (pivot s on y in (2000, 2001) using min(v) group by c) p where "2000" > 1',
        "with p as (pivot s on c in ('x') using sum(v) group by y) from p",
        "with r as (select * from s where y is not null) pivot r on c in ('x') using sum(v) group by y",
        "unpivot m on jan, feb, mar",
        "unpivot m on jan, feb into name k value v",
        "unpivot m on * exclude (name)",
        "unpivot m on columns('^.a')  into name k value v",
        "unpivot m on (jan+1) as x, feb",
        "select * from (unpivot m on jan, feb into name k value v) where v > 1",
        "select * from m unpivot (v for k in (jan, feb))",
        "select u.k, sum(u.v) as n from m unpivot include nulls (v for k in (jan as 'J', feb)) u group by u.k",
        "unpivot (select jan, feb from m where feb > 100) on jan, feb",
        "unpivot w on (a, b), (c, d) into name k value p, q",
        "from w unpivot ((p, q) for k in ((a, b), (c, d) as 'last'))",
        "from w unpivot include nulls ((p, q) for k in ((a, b), (c, d)))",
        "unpivot m on jan + 1, feb",
        "pivot s on (y % 2) in (0, 1) using sum(v) group by q",
        "pivot s on c in ('x') using coalesce(sum(v), 0) group by q",
        "pivot s on c in ('x') using sum(v) + 1 as more, max(v) group by q order by q limit 2",
        "from s pivot (sum(v) for (y, c) in ((2000, 'x'), (2001, 'x') as b) group by q)",
        "from s pivot (sum(v) for c in ('x') group by y) pivot (sum(x) for y in (2000))",
        "from s pivot (sum(v) for c in ('x', 'y')) p(a, b)",
        "from (select true as b, date '2000-01-01' as d, 1.50 as e) "
        "pivot (count(*) for b in (true, false, null) d in (date '2000-01-01') e in (1.50, -1))",
        "select name, (select sum(x) from (pivot (select * from s where v > jan) on c in ('x') using sum(v))) as t "
        "from m",
    ],
)
def test_pivot_and_unpivot(query: str) -> None:
    """Q1: the same rows and names. Values to pivot on include null and values that no row has."""
    database, session = duckdb.connect(), qcore.Session(threads=2)
    for name, table in TABLES.items():
        database.register(name, table)
        session.register(name, table)
    if "columns(" in query:
        wanted = database.sql(query.replace("columns('^.a')", "jan, mar")).to_arrow_table()
        query = query.replace("'^.a'", "'^.a[nr]'")
    else:
        wanted = database.sql(query).to_arrow_table()
    assert_same_rows(session.sql(query).to_arrow(), wanted, check_names=True)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("sum(v) filter (v > 1.5)", "sum(v) filter (c = 'x' and v > 1.5)"),
        ("sum((select max(jan) from m) + v)", "sum(1 + v) filter (c = 'x')"),
    ],
)
def test_aggregates_that_duckdb_does_not_pivot(call: str, wanted: str) -> None:
    """Q1: DuckDB ignores the FILTER, and allows no subqueries here."""
    session, database = qcore.Session(threads=2), duckdb.connect()
    for name, table in TABLES.items():
        session.register(name, table)
        database.register(name, table)
    rows = session.sql(f"pivot s on c in ('x') using {call} group by q").to_arrow()
    assert_same_rows(rows, database.sql(f"select q, {wanted} as x from s group by q").to_arrow_table())


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("pivot s on c using sum(v)", "known only when the query runs; the syntax is PIVOT t ON c IN"),
        ("pivot s on c in (select c from s) using sum(v)", "known only when the query runs"),
        ("pivot s on y % 2 in (0, 1) using sum(v)", "PIVOT takes columns"),
        ("pivot s on c in (y) using sum(v)", "the list takes constants"),
        ("pivot s on c in ('x') using v", "USING v: USING takes aggregates"),
        ("pivot s on c in ('x') using abs(1)", "USING abs.*: USING takes aggregates"),
        ("pivot s on c in ('x', 'x') using sum(v)", "'x' is in the list twice"),
        ("pivot s on c in ('x') using sum(v) group by y % 2", "GROUP BY y % 2: it takes columns"),
        (f"pivot s on c in ({', '.join(f'{chr(39)}{n}{chr(39)}' for n in range(5000))}) using sum(v)", "5000 columns"),
        ("unpivot m on name, jan", "jan is int64 and name is string; cast one"),
        ("select * from m join s on true pivot (sum(v) for c in ('x'))", "after a join is not supported"),
        ("select * from m unpivot ((a, b) for k in (jan, feb))", "UNPIVOT of 1 columns together, 'jan', needs as many"),
        ("unpivot m on (jan, feb), (feb, mar)", "UNPIVOT of 2 columns together, 'jan_feb', needs as many names"),
        ("unpivot m", "PIVOT"),
        ("pivot s on nosuch in (1) using sum(v) group by y", "unknown column 'nosuch'"),
    ],
)
def test_unsupported_pivots(query: str, said: str) -> None:
    """Q1: an error names it."""
    with pytest.raises(qcore.PlanError, match=said):
        qcore.sql(query, TABLES)


def _calls_of(n: int, session: qcore.Session) -> int:
    """The number of Python calls of a PIVOT with n values."""
    query = f"pivot s on q in ({', '.join(map(str, range(n)))}) using sum(v)"
    n_calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        session.sql(query).to_arrow()
    finally:
        sys.setprofile(None)
    return n_calls


def test_the_work_grows_with_the_columns() -> None:
    """Twice as many values take about twice as many calls.

    If each condition were compared with all others, it were four times.
    """
    session = qcore.Session(threads=1)
    session.register("s", TABLES["s"])
    _calls_of(1, session)
    assert _calls_of(800, session) < 2.5 * _calls_of(400, session)


def test_a_table_may_be_called_pivot() -> None:
    """Q1."""
    tables = {"pivot": TABLES["m"], "unpivot": TABLES["m"]}
    rows = qcore.sql("select pivot.name from pivot join unpivot on pivot.name = unpivot.name", tables).to_arrow()
    assert sorted(rows["name"].to_pylist()) == ["a", "b"]
