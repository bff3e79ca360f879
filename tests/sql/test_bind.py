"""SQL to plans (SPEC Q1).

The plan is run, and also written as SQL and run by DuckDB. Errors, and plans without statistics.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from plan_as_sql import plan_sql_text

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.optimizer import optimize
from qcore.plan import nodes as p
from qcore.sql.bind import plan_query

QUERIES = Path(__file__).parents[2] / "bench" / "tpch" / "queries"
DAY = datetime.date
T = pa.table(
    {
        "a": pa.array([1, 2, 3, None, 5, 2, None, -7], pa.int64()),
        "b": pa.array([10, None, 30, 40, 2, 2, None, 1], pa.int64()),
        "i": pa.array([1, 2, None, 4, 5, 6, 7, 8], pa.int32()),
        "s": pa.array(["x", "yy", None, "special x requests", "", "abc", "x", "ABC"]),
        "d": pa.array([DAY(1994, 1, 1), DAY(1994, 12, 31), None, DAY(1995, 1, 31), DAY(2000, 2, 29)] + [None] * 3),
        "f": pa.array([0.5, -1.25, None, 2.0, 3.5, 0.0, 1e10, -3.0], pa.float64()),
        "dec": pa.array([Decimal("1.25"), Decimal("-3.10"), None] + [Decimal("0.05")] * 5, pa.decimal128(15, 2)),
    }
)
U = pa.table(
    {
        "a": pa.array([1, 2, 2, None, 9], pa.int64()),
        "b": pa.array([10, 20, None, 2, 5], pa.int64()),
        "s": pa.array(["x", None, "abc", "q", "yy"]),
    }
)
SCHEMAS = {"t": T.schema, "u": U.schema}

MEANING = [
    "select * from t",
    "select a + 1 as x, -b as y, a * b as z from t",
    "select a, b from t where a > 1 and b < 35 or s = 'x'",
    "select a from t where not (a = 2) and s is not null",
    "select a from t where a in (1, 2, 3, 4, 5, 6) and b not in (10, 20, 30, 40, 50)",
    "select a from t where a = 1 or a = 5 or a = 2",
    "select s from t where s like '%special%requests%' or s like 'a%'",
    "select s from t where s not like 'x%' and s ilike 'abc'",
    "select a from t where a is not distinct from b",
    "select case when a > 1 then s when b = 2 then 'two' else 'none' end as c from t",
    "select case a when 1 then 'one' when 2 then 'two' end as c from t",
    "select coalesce(a, b, 0) as c, nullif(a, 2) as n from t",
    "select a from t where d >= date '1994-01-01' and d < date '1994-01-01' + interval '1' year",
    "select extract(year from d) as y, extract(month from d) as m from t",
    "select substring(s from 1 for 2) as p, upper(s) as u, length(s) as n from t",
    "select s || '!' as e, trim(s) as t from t",
    "select dec * (1 - dec) as x, dec + i as y, dec * 2 as z from t",
    "select a from t where dec between 0.06 - 0.01 and 0.06 + 0.01",
    "select f / b as q, dec / 3 as x, a % 3 as r from t where b > 0",
    "select cast(i as bigint) as x, cast(a as double) as y, cast(b as varchar) as z from t",
    "select count(*) as n, count(a) as c, sum(a) as s, min(s) as lo, max(d) as hi, avg(dec) as v from t",
    "select count(*) as n from t where a > 100",
    "select sum(a) as s from t where a > 100",
    "select s, count(*) as n, sum(dec) as t from t group by s",
    "select a % 2 as k, count(distinct b) as n from t group by a % 2",
    "select count(distinct a) as x, sum(distinct b) as y from t",
    "select count(*) filter (where a > 1) as n, sum(a) filter (where b > 3) as s from t",
    "select a, sum(b) as s from t group by a having sum(b) > 1",
    "select distinct a from t",
    "select t.a, u.b from t join u on t.a = u.a",
    "select t.a, u.b from t join u on t.a = u.a and t.b < u.b",
    "select t.a, u.b from t left join u on t.a = u.a and u.b > 5",
    "select t.a, u.b from t left join u on t.a = u.a and t.b > 5",
    "select t.a, u.b from t left join u on t.a = u.a where u.b is null",
    "select t.a, u.b from t left join u on t.a = u.a where u.b > 5",
    "select t.a, u.b from t right join u on t.a = u.a where u.b > 5",
    "select t.a, u.b from t full join u on t.a = u.a",
    "select t.a as x, u.a as y from t, u where t.a < u.a",
    "select t.a as x, u.a as y from t cross join u",
    "select a from t where a in (select a from u)",
    "select a from t where a in (select a from u where u.b > t.b)",
    "select a from t where not exists (select 1 from u where u.a = t.a)",
    "select a from t where a not in (select b from u where b is not null)",
    "select a from t where a not in (select b from u)",
    "select a from t where exists (select 1 from u where u.b > 5)",
    "select a from t where b > (select avg(b) from u)",
    "select a from t where b > (select max(b) from u where u.a = t.a)",
    "select a, (select max(b) from u where u.a = t.a) as m from t",
    "select a, (select max(b) from u) as m from t",
    "select a from t where b = (select b from u where a = 1)",
    "select a from t where b = (select b from u where a = 77)",
    "select a, b from t union all select a, b from u",
    "select a from t union select a from u",
    "select a from t intersect select a from u",
    "select a from t except select a from u",
    "select i from t union all select a from u",
    "select a from t order by a desc",
    "select a, b from t order by a nulls first, b desc limit 3",
    "select a from t order by b, a limit 3 offset 2",
    "select a from t order by a + b, a",
    "select count(*) as n from t, u",
    "select 1 as x, 'y' as y, null as z",
    "select * from (values (1, 'x'), (2, null)) as v(p, q)",
    "select x.a as p, y.a as q from t x join t y on x.a = y.b join u on u.a = y.a",
    "select a from t where false",
    "select a from t where null",
    "with w as (select a, sum(b) as s from t group by a) select w.a, w.s, u.b from w join u on w.a = u.a where w.a > 1",
]  # fmt: skip


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with numbers that compare across types."""
    return [tuple(round(float(v), 6) if isinstance(v, (float, Decimal)) else v for v in row) for row in rows]


def comparable(rows: list[tuple[Any, ...]], ordered: bool) -> list[Any]:
    return plain(rows) if ordered else sorted(plain(rows), key=repr)


@pytest.fixture
def tables(duck: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    duck.register("t", T)
    duck.register("u", U)
    return duck


@pytest.mark.parametrize("query", MEANING)
def test_plans_mean_what_the_query_means(query: str, tables: duckdb.DuckDBPyConnection) -> None:
    """The plan as bound, optimized once and optimized twice has DuckDB's rows for the query."""
    planned = plan_query(query, SCHEMAS)
    ordered = "order by" in query
    expected = comparable(tables.sql(query).fetchall(), ordered)
    plan = planned.plan
    for _ in range(3):
        assert len(planned.output_names) == len(plan.schema)
        assert comparable(tables.sql(plan_sql_text(plan)).fetchall(), ordered) == expected
        plan = optimize(plan)


@pytest.mark.parametrize("number", range(1, 23))
def test_tpch_plans(number: int, tpch_dir: Path, duck: duckdb.DuckDBPyConnection) -> None:
    """All 22 queries are planned, and the optimized plan has DuckDB's rows (SPEC Q4, planning half)."""
    from qcore.connectors.sources import table_from

    sources = {path.stem: table_from(str(path)) for path in tpch_dir.glob("*.parquet")}
    for name in sources:
        duck.sql(f"create view {name} as from '{tpch_dir}/{name}.parquet'")
    text = (QUERIES / f"q{number:02}.sql").read_text()
    planned = plan_query(text, {name: source.schema for name, source in sources.items()})
    plan = optimize(planned.plan, lambda scan: sources[scan.table].statistics())
    assert plain(duck.sql(plan_sql_text(plan)).fetchall()) == plain(duck.sql(text).fetchall())


def test_scans_read_needed_columns_and_know_their_filter() -> None:
    """SPEC V10."""
    plan = optimize(plan_query("select sum(a) as s from t where b > 3 and s like 'x%'", SCHEMAS).plan)
    (scan,) = [node for node in plan.walk() if isinstance(node, p.Scan)]
    assert (scan.table, scan.source) == ("t", None)
    assert set(scan.columns) == {"a", "b", "s"}
    assert "b > 3" in repr(scan.filter)
    assert any(isinstance(node, p.Filter) for node in plan.walk())


def test_names_are_the_querys() -> None:
    planned = plan_query("select t.a, u.a, t.b is null as w from t, u", SCHEMAS)
    assert planned.output_names == ["a", "a", "w"]
    assert len(set(planned.plan.schema.names)) == 3
    assert plan_query("select count(*), sum(t.a * 2) from t", SCHEMAS).output_names == ["count(*)", "sum(t.a * 2)"]
    assert plan_query('select a as "A b", s as c from t order by c', SCHEMAS).plan.schema.names == ["A b", "c"]


def test_not_in_over_nullable_columns_is_null_aware() -> None:
    query = "select a from t where a not in (select b from u) and not exists (select 1 from u where u.a = t.a)"
    kinds = [node.kind for node in plan_query(query, SCHEMAS).plan.walk() if isinstance(node, p.HashJoin)]
    assert sorted(kinds) == ["left_anti", "null_aware_anti"]


ERRORS = {
    "select aa from t": "unknown column 'aa' in the query; did you mean 'a'",
    "select t.ss from t": "unknown column 'ss'",
    "select a from tt": "unknown table 'tt' in the query; did you mean 't'",
    "select a frm t where": "syntax error at 't', line 1, column 14",
    "select a from": "syntax error at the end",
    "select nosuch(a) from t": "nosuch",
    "select a + s from t where a + d > 1": "cannot be planned|not defined",
    "select rank(order by a) over () from t": "rank with an ORDER BY among its arguments is not supported",
    "select lag(a order by a) over () from t": "lag with an ORDER BY among its arguments is not supported",
    "drop table t": "DROP TABLE is not supported",
    "create table x as select 1": "CREATE TABLE is not supported",
    "insert into t select * from t": "INSERT is not supported",
    "select 1; select 2": "more than one statement",
    "": "cannot be planned",
}


@pytest.mark.parametrize("query", ERRORS)
def test_errors(query: str) -> None:
    with pytest.raises(PlanError, match=ERRORS[query]):
        plan_query(query, SCHEMAS)


def test_constructs_in_strings_and_comments_are_not_mistaken() -> None:
    plan_query("select 'except all' as x, a /* tablesample */ from t -- intersect all", SCHEMAS)


def test_sort_nulls_last_both_ways() -> None:
    """Nulls are last in both directions, as in DuckDB and in plan.SortKey."""
    plan = plan_query("select a, b from t order by a desc, b", SCHEMAS).plan
    (order,) = [node for node in plan.walk() if isinstance(node, p.OrderBy)]
    assert [(key.descending, key.nulls_first) for key in order.keys] == [(True, False), (False, False)]


def test_decimal_constants_stay_narrow() -> None:
    """The constant of 1 - dec has only the digits it needs, so that 64-bit arithmetic stays 64-bit."""
    plan = plan_query("select dec * (1 - dec) as x from t", SCHEMAS).plan
    assert plan.schema.field("x").type.precision <= 32


def test_names_with_capitals_need_no_quotes() -> None:
    """Columns of Spark often have capitals."""
    schema = pa.schema([("orderKey", pa.int64()), ("Amount", pa.float64())])
    tables = {"Sales": schema}
    for query in (
        "select orderKey, sum(Amount) as x from Sales group by orderKey",
        'select "orderKey", "Amount" from "Sales"',
    ):
        assert len(plan_query(query, tables).plan.schema) == 2
    with pytest.raises(PlanError, match="unknown column 'Amont' in the query; did you mean 'Amount'"):
        plan_query("select Amont from Sales", tables)


def test_metadata_and_nullability_make_no_other_tables() -> None:
    field = pa.field("a", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
    plan = plan_query("select a from m", {"m": pa.schema([field], metadata={"x": "y"})}).plan
    assert plan.schema == pa.schema([("a", pa.int64())])
    assert not plan.schema.metadata and not plan.schema.field("a").metadata


def test_types_that_substrait_has_not() -> None:
    """Q3: null and 16-bit floats keep the types of the table."""
    schemas = {"t": pa.schema([("h", pa.float16()), ("c", pa.null())])}
    for query, types in (
        ("select h, c from t where false", [pa.float16(), pa.null()]),
        ("select c, h from t where false", [pa.null(), pa.float16()]),
        ("select cast(null as double) as x, null as y from t", [pa.float64(), pa.null()]),
    ):
        assert plan_query(query, schemas).plan.schema.types == types


REPEATED = "select u.b from u where u.b = t.a"
CONFUSED = [
    "select a from t where exists (select 1 from u as x join u as y on x.b = y.b where x.a = t.a and y.a = t.b)",
    "select a from t where b in (select x.a from u as x join u as y on x.b = y.b where y.a = t.a)",
    "select a, (select max(x.b) from u as x, u as y where x.a = t.a and y.a < t.b) as m from t",
    f"select a from t where (a in ({REPEATED})) is not null",
    f"select a from t where (a in ({REPEATED})) is null",
    f"select a from t where a not in ({REPEATED})",
    f"select a from t where not a in ({REPEATED})",
]


@pytest.mark.parametrize("query", CONFUSED)
def test_equal_names_are_not_confused(query: str, tables: duckdb.DuckDBPyConnection) -> None:
    """Q1: a correlated subquery reads two columns with one name, or IN is next to an equal condition."""
    actual = qcore.sql(query, {"t": T, "u": U}, threads=2).to_arrow()
    assert_same_rows(actual, tables.sql(query))


def test_renamed_columns_are_not_confused(tables: duckdb.DuckDBPyConnection) -> None:
    """Subqueries whose column names differ."""
    for query in (
        "select a from t where exists (select 1 from u as x join (select a as c, b from u) as y on x.b = y.b "
        "where x.a = t.a and y.c = t.a)",
        "select a from t where exists (select 1 from u as x join u as y on x.a = y.a where y.a = t.a and y.s = t.s)",
        "select a from t where a in (select x.a from u as x join u as y on x.a = y.a where x.b = t.b)",
    ):
        assert comparable(tables.sql(plan_sql_text(plan_query(query, SCHEMAS).plan)).fetchall(), False) == comparable(
            tables.sql(query).fetchall(), False
        )


TABLES = {
    "t": pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int64()))]),
    "u": pa.schema([("a", pa.int64()), ("c", pa.string())]),
}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select x from t", "unknown column 'x' in the query; there are a, b, l"),
        ("select * from nosuch", "unknown table 'nosuch' in the query; there are t, u"),
        ("select a from t, u", "the column 'a' is in more than one table; write t.a or u.a, line 1, column 8"),
        ("select uper(b) from t", "unknown function 'uper' in the query; did you mean 'upper'"),
        ("select qqqqq(b) from t", "unknown function 'qqqqq' in the query; see the list of functions"),
        ("select row_number() from t", "the window function row_number needs OVER (…)"),
        (
            "select * from u right join lateral (select u.a + 1 as m) x on true",
            "a RIGHT JOIN of a table that reads the tables before it (LATERAL) is not possible: its rows depend on "
            "them; use JOIN or LEFT JOIN",
        ),
        (
            "select a + b from t",
            "add(int64, string) is not defined: it takes numbers; cast the text, as in cast(x as double)",
        ),
        ("select l + 1 from t", "add(list<item: int64>, int64) is not defined: it takes numbers"),
        ("select sum(b) from t", "sum(string) is not defined: it takes numbers"),
        ("select upper(a) from t", "upper(int64) is not defined: it takes text"),
        ("select i from t", "unknown column 'i' in the query; there are a, b, l"),
        ("select a", "unknown column 'a': no table is named before it"),
        (
            "select x.a from t",
            "unknown column 'x.a' in the query: there is no table 'x' at that place; did you mean 't.a'",
        ),
        ("select b from t group by rollup (b) order by nope", "nope"),
        ("select b from t group by rollup (b) having nope > 1", "unknown column 'nope'"),
        ("select t.a from t as x, u", "there is no table 't' at that place; did you mean 'x.a' or 'u.a'?"),
        ("select c from (select a from t)", "unknown column 'c' in the query; there are a"),
        (
            "select a, sum(a) from t",
            "column 'a' is neither in GROUP BY nor inside an aggregate; add it to GROUP BY, or write any_value(a), "
            "line 1, column 8",
        ),
        ("select sum(a) from t group by b having a > 1", "any_value(a), line 1, column 40"),
        ("select a from t having a > 1", "any_value(a), line 1, column 24"),
        (
            "select a from t where sum(a) > 1",
            "sum: an aggregate function cannot be in WHERE; HAVING filters groups, line 1, column 23",
        ),
        (
            "select sum(sum(a)) from t",
            "sum: an aggregate function cannot be in the arguments of an aggregate, line 1, column 12",
        ),
        ("select abs(b) from t", "abs(string) is not defined: it takes numbers; cast the text"),
        ("select sqrt(b) from t", "sqrt(string) is not defined: it takes numbers; cast the text"),
        ("select date '2024-01-01' * a from t", "multiply(date32[day], int64) is not defined"),
        ("select not a from t", "not(int64) is not defined: it takes conditions"),
        ("select a and true from t", "and(int64, bool) is not defined: it takes conditions"),
        ("select true = a from t", "equal(bool, int64) is not defined: bool and int64 have nothing in common"),
        ("select a like 'x' from t", "LIKE takes text, not int64; cast the value"),
        (
            "select coalesce(date '2024-01-01', a) from t",
            "coalesce(date32[day], int64) is not defined: date32[day] and int64 have nothing in common",
        ),
        ("select max() from t", "max does not take 0 arguments, line 1, column 8"),
        ("select coalesce() from t", "coalesce takes at least 1 argument, not 0"),
        ("select interval '1 fortnight'", "'1 fortnight' is not an interval; write numbers with units"),
        ("select cast(a as nosuch) from t", "there is no type 'nosuch', line 1"),
        ("select (select a, b from t)", "a scalar subquery must give one column, not 2"),
        ("select a from t union select a, b from t", "the inputs of UNION have 1 and 2 columns; give both the same"),
        ("select a from t order by 5", "ORDER BY 5: the select list has 1 column, line 1, column 26"),
        (
            "select distinct a from t order by b",
            "ORDER BY of a SELECT DISTINCT takes expressions of its select list; add the expression to it, line 1, "
            "column 35",
        ),
        ("select a from t where a = ?", "parameters in the text of a query are not supported"),
        ("select a from t where a = $1", "parameters in the text of a query are not supported"),
        ("select grouping(a) from t group by b", "GROUPING takes expressions of GROUP BY, line 1, column 8"),
        ("select 1; select 2", "the text has more than one statement"),
        ("alter table t add column x int", "ALTER TABLE is not supported"),
        ("select a from t limit -1", "LIMIT -1: a number of rows cannot be negative"),
        ("select a from t limit 1 offset -1", "OFFSET -1: a number of rows cannot be negative"),
        ("insert into t values (1)", "INSERT is not supported"),
        ("  Delete from t", "DELETE is not supported"),
        ("drop table t", "DROP TABLE is not supported"),
        ("select 'abc", 'syntax error at "\'", line 1, column 8: a text in quotes begins here and does not end'),
        (
            "selec a from t",
            "syntax error at 'selec', line 1, column 1: a query begins with SELECT, WITH, VALUES or FROM; did you "
            "mean SELECT?",
        ),
        (
            "select a from t where b",
            "the condition is of type string, not boolean; compare it with something, line 1, column 23",
        ),
    ],
)
def test_q1_a_query_that_cannot_be_planned(query: str, message: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan_query(query, TABLES)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "select a\nfrom t\nwhere a > 1 and\n",
            "at the end of the query, line 3, column 16: an expression was expected",
        ),
        ("select a frm t", "at 't', line 1, column 14: this was not expected here"),
        ("select a,\n  b bb bbb\nfrom t", "at 'bbb', line 2, column 8"),
        ("select * from t full join u using (a) where a > 1 ordr by a", "at 'ordr', line 1, column 51"),
        ("with recursive r as (select 1 as n union all select n + 1 from r where n < 3)\nselect n form r", "line 2"),
        ("select a from t order by all where a > 1", "at 'where', line 1, column 30"),
        (
            "select sum(a) over (order by a rows beween 1 preceding and current row) from t",
            "at '1', line 1, column 44: ) was expected",
        ),
    ],
)
def test_q1_a_syntax_error_has_its_place_in_the_text_as_written(query: str, message: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan_query(query, TABLES)
    assert message in str(raised.value)
