"""PIVOT and UNPIVOT, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from oracle import assert_same_rows
from qcore.session.result import Result

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
    "query",
    [
        "pivot s on c using sum(v)",
        "pivot s on c using sum(v) group by y",
        "pivot s on y using sum(v), count(*) as n group by c order by c limit 2",
        "pivot s on y, c using sum(v) group by q",
        "pivot s on c in ('x'), y using max(v) group by q",
        "pivot s on c",
        "pivot s on v using count(v) group by c",
        "pivot s on y + q using sum(v)",
        "pivot s on upper(c) || '-' || y using sum(v) group by q",
        "pivot (select y > 2000 as b, date '2000-01-31' as d, c, 1.50 as e from s) on b, d, e using max(c)",
        "pivot s on y in (select y from s order by y desc) using sum(v) group by c",
        "pivot s on y in (select 1999 union select 2000 order by 1) using sum(v) group by c",
        "pivot s on y in (select y::varchar from s where y > 2000) using sum(v) group by c",
        "with p as (pivot s on y using sum(v) group by c) from p",
        "with r as (select * from s where y is not null) pivot r on c using sum(v) group by y",
        'select x + 1 as k from (pivot s on c using sum(v) group by y) p where p.x > 2 and "y" > 0',
        "from (pivot s on c using sum(v) group by y) pivot (sum(x) for y in (2000))",
        "select name, (select count(*) from (pivot s on c using sum(v))) as n from m",
        "from s pivot (sum(v) for c in ('x')) union all by name from (pivot s on c using sum(v))",
        "pivot (select * from s where exists (select 1 from m where jan = q)) on c using sum(v) group by y",
        "with u as (select * from s where v > 1) select count(*) as n from (pivot u on c using sum(v)) union all "
        + " union all ".join(["select count(*) from u"] * 20),
        " union all ".join(["with u as (select * from s where v > 1) select count(*) as n from u"]
                           + ["select count(*) from u"] * 20 + ["select count(*) from (pivot u on c using sum(v))"]),
    ],
)  # fmt: skip
def test_values_from_the_table(query: str) -> None:
    """Q1: a PIVOT without a list has a column for each value but null, sorted by its text or in a query's order."""
    database, session = duckdb.connect(), qcore.Session(threads=2)
    for name, table in TABLES.items():
        database.register(name, table)
        session.register(name, table)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table(), check_names=True)


def test_a_table_without_values() -> None:
    """Q1: only the other columns remain. DuckDB returns no result."""
    assert qcore.sql("pivot none on c using sum(v) group by v", TABLES).to_arrow().column_names == ["v"]


def test_values_of_a_changed_table() -> None:
    """Q1: the columns are those of the rows at the time of the query."""
    session = qcore.Session()
    session.sql("create table t as select 'a' as k, 1 as v").to_arrow()
    session.sql("create view w as pivot t on k using sum(v)").to_arrow()
    for query in ("pivot t on k using sum(v)", "from w"):
        assert session.sql(query).to_arrow().column_names[0] == "a"
    session.sql("insert into t values ('b', 2), ('0', 3)").to_arrow()
    for query in ("pivot t on k using sum(v)", "from w"):
        assert session.sql(query).to_arrow().to_pylist() == [{"0": 3, "a": 1, "b": 2}]


def test_values_of_a_changed_file(tmp_path: Path) -> None:
    """Q1: also of a file that the pivot's plan does not read."""
    path = tmp_path / "values.parquet"
    session = qcore.Session()
    session.register("s", TABLES["s"])
    pq.write_table(pa.table({"c": ["x"]}), path)
    session.register("chosen", str(path))
    query = "pivot s on c in (select c from chosen) using sum(v) group by q"
    assert session.sql(query).to_arrow().column_names == ["q", "x"]
    pq.write_table(pa.table({"c": ["x", "y"]}), path)
    assert session.sql(query).to_arrow().column_names == ["q", "x", "y"]


def test_values_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q1: also if the query of a LATERAL is bound twice, because it reads earlier and outer tables."""
    read: list[object] = []
    collect = Result.collect_charged
    monkeypatch.setattr(Result, "collect_charged", lambda self, what: read.append(what) or collect(self, what))
    query = (
        "select (select max(p.n) from s, lateral (select m.jan + s.v as n, * from (pivot s on c using sum(v))) p) as n "
        "from m"
    )
    assert qcore.sql(query, TABLES).to_arrow().num_rows == 2
    assert read.count("PIVOT without a list of values") == 1


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
        ("pivot s on c in v using sum(v)", r"PIVOT by 'c': its values are a list, IN \('a', 'b'\), or a query"),
        ("pivot s on c in (select c, y from s) using sum(v)", "the query has 2 columns; it must have one"),
        ("pivot s on (y, c) using sum(v)", "several columns in brackets needs a list"),
        ("pivot s on (select max(y) from s) using sum(v)", "a subquery or a random value needs a list"),
        ("pivot (select range as r from range(5000)) on r", "more than 4096 columns"),
        ("from m, lateral (pivot (select c, jan from s) on c using sum(jan)) p", "columns of an outer or recursive"),
        (
            "with recursive r as (select 1 as n union all "
            "select n + 1 from (pivot (select n, 'a' as k from r where n < 3) on k)) from r",
            "columns of an outer or recursive query",
        ),
        ("pivot s on y % 2 in (0, 1) using sum(v)", "PIVOT takes columns"),
        ("pivot s on c in (y) using sum(v)", "the list takes constants"),
        ("pivot s on c in ('x') using v", "USING v: USING takes aggregates"),
        ("pivot s on c in ('x') using abs(1)", "USING abs.*: USING takes aggregates"),
        ("pivot s on c in ('x', 'x') using sum(v)", "'x' is in the list twice"),
        ("pivot s on c in ('x') using sum(v) group by y % 2", "GROUP BY y % 2: it takes columns"),
        (f"pivot s on y in ({', '.join(map(str, range(5000)))}) using sum(v)", "more than 4096 columns"),
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
