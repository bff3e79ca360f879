"""Syntax and functions of the Spark dialect, compared with Spark's documentation and Spark. SPEC Q1, S1."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from conftest import spark_obstacle
from oracle import assert_same_rows
from qcore.errors import PlanError

VALUES = [
    ("7 div 2", 3),
    ("-7 div 2", -3),
    ("pmod(-7, 3)", 2),
    ("pmod(7, -3)", 1),
    ("pmod(-7.5, 2)", Decimal("0.5")),
    ("'abc' rlike 'b.'", True),
    ("'abc' regexp 'b.'", True),
    ("'abc' not rlike 'z'", True),
    ("not 'abc' rlike 'z'", True),
    ("! true", False),
    ('"double"', "double"),
    ("'a' = \"a\"", True),
    ("'it\\'s \"x\"'", 'it\'s "x"'),
    ('"it\'s"', "it's"),
    ("'a\\tb\\u0041'", "a\tbA"),
    ("'axb' like 'a\\_b'", False),
    ("'a_b' like 'a\\_b'", True),
    ("months_between('1997-02-28 10:30:00', '1996-10-30')", 3.94959677),
    ("months_between(date '2024-03-31', date '2024-02-29')", 1.0),
    ("months_between('2024-03-15 12:00:00', '2024-01-15 06:00:00')", 2.0),
    ("months_between('2024-02-29', '2024-01-31')", 1.0),
    ("months_between('2024-01-01', '2024-03-31 23:59:59')", -2.99999963),
    ("unix_timestamp('2016-04-08', 'yyyy-MM-dd')", 1460073600),
    ("unix_timestamp(timestamp '2016-04-08 00:00:00')", 1460073600),
    ("to_unix_timestamp('2016-04-08', 'yyyy-MM-dd')", 1460073600),
    ("from_unixtime(0, 'yyyy-MM-dd HH:mm:ss')", "1970-01-01 00:00:00"),
    ("from_unixtime(0)", "1970-01-01 00:00:00"),
    ("unix_date(date '1970-01-02')", 1),
    ("date_from_unix_date(1)", dt.date(1970, 1, 2)),
    ("locate('bar', 'foobarbar')", 4),
    ("locate('bar', 'foobarbar', 5)", 7),
    ("locate('a', 'banana', 0)", 0),
    ("locate('z', 'banana', 3)", 0),
    ("locate('a', 'banana', 3)", 4),
    ("position('bar', 'foobarbar')", 4),
    ("trunc(date '2019-08-04', 'MM')", dt.date(2019, 8, 1)),
    ("trunc(date '2019-08-04', 'week')", dt.date(2019, 7, 29)),
    ("trunc('2009-02-12', 'year')", dt.date(2009, 1, 1)),
    ("trunc(date '2024-05-04', 'quarter')", dt.date(2024, 4, 1)),
    ("date_trunc('MM', timestamp '2015-03-05 09:32:05')", dt.datetime(2015, 3, 1, 0, 0)),
    ("date_sub('2016-07-30', 1)", dt.date(2016, 7, 29)),
    ("date_add(date '2024-02-28', 2)", dt.date(2024, 3, 1)),
    ("dateadd(date '2016-07-30', 1)", dt.date(2016, 7, 31)),
    ("date_diff(date '2009-07-31', date '2009-07-30')", 1),
    ("next_day(date '2015-01-14', 'TU')", dt.date(2015, 1, 20)),
    ("next_day('2015-01-14', 'tuesday')", dt.date(2015, 1, 20)),
    ("next_day('2024-03-03', 'Sun')", dt.date(2024, 3, 10)),
    ("next_day(date '2024-03-04', 'MON')", dt.date(2024, 3, 11)),
    ("weekday(date '2009-07-30')", 3),
    ("weekday(date '2024-03-03')", 6),
    ("regexp_extract('100-200', '(\\\\d+)-(\\\\d+)', 1)", "100"),
    ("regexp_extract('100-200', '(\\\\d+)-(\\\\d+)')", "100"),
    ("regexp_extract('100-200', r'(\\d+)-(\\d+)', 2)", "200"),
    ("regexp_extract('foo', '(\\\\d+)', 1)", ""),
    ("regexp_replace('100-200', '(\\\\d+)', 'num')", "num-num"),
    ("regexp_replace('100-200', '(\\\\d)(\\\\d+)', '$2$1')", "001-002"),
    ("regexp_replace('a.b', '\\\\.', '\\\\$')", "a$b"),
    ("split('oneAtwoBthreeC', '[ABC]')", ["one", "two", "three", ""]),
    ("split('a.b', '.')", ["", "", "", ""]),
    ("array(1, 2, 3)", [1, 2, 3]),
    ("array()", []),
    ("size(array(1,2,3))", 3),
    ("element_at(array(1, 2, 3), 2)", 2),
    ("element_at(map(1, 'a', 2, 'b'), 2)", "b"),
    ("array_contains(array(1, 2, 3), 2)", True),
    ("array_distinct(array(1, 2, 3, null, 3))", [1, 2, 3, None]),
    ("array_join(array('hello', null ,'world'), ' ', ',')", "hello , world"),
    ("array_position(array(3, 2, 1), 1)", Decimal("3")),
    ("array_position(array(1, 2), 5)", Decimal("0")),
    ("array_remove(array(1, 2, 3, null, 3), 3)", [1, 2, None]),
    ("array_sort(array('b', 'd', null, 'c', 'a'))", ["a", "b", "c", "d", None]),
    ("sort_array(array('b', 'd', null, 'c', 'a'), true)", [None, "a", "b", "c", "d"]),
    ("sort_array(array(2, 1, 3), false)", [3, 2, 1]),
    ("array_except(array(1, 2, 3), array(1, 3, 5))", [2]),
    ("arrays_overlap(array(1, 2, 3), array(3, 4, 5))", True),
    ("sequence(1, 5)", [1, 2, 3, 4, 5]),
    ("sequence(5, 1)", [5, 4, 3, 2, 1]),
    ("sequence(1, 9, 4)", [1, 5, 9]),
    ("slice(array(1, 2, 3, 4), 2, 2)", [2, 3]),
    ("slice(array(1, 2, 3, 4), -2, 2)", [3, 4]),
    ("slice(array(1, 2, 3, 4), -1, 3)", [4]),
    ("slice(array(1, 2, 3, 4), 1, 0)", []),
    ("char(65)", "A"),
    ("e()", 2.718281828459045),
    ("negative(1)", -1),
    ("positive(1)", 1),
    ("isnull(1)", False),
    ("isnotnull(1)", True),
    ("space(2) || '1'", "  1"),
    ("try_divide(3, 0)", None),
    ("zeroifnull(null)", 0),
    ("nullifzero(0)", None),
    ("string(10)", "10"),
    ("int('3')", 3),
    ("double('1.5')", 1.5),
    ("date('2020-01-01')", dt.date(2020, 1, 1)),
    ("timestamp('2020-01-01')", dt.datetime(2020, 1, 1, 0, 0)),
    ("boolean('true')", True),
    ("2 <=> 2", True),
    ("null <=> null", True),
    ("initcap('sPark sql')", "Spark Sql"),
    ("substring_index('www.apache.org', '.', -2)", "apache.org"),
    ("lpad('hi', 5, '??')", "???hi"),
    ("nvl2(null, 2, 1)", 1),
    ("if(1 < 2, 'a', 'b')", "a"),
    ("to_date('2016-12-31', 'yyyy-MM-dd')", dt.date(2016, 12, 31)),
    ("6 & 3 ^ 1 | 8", 11),
    ("1 ^ 3 & 2", 3),
    ("8 | 1 ^ 3", 10),
    ("7 div 2 + 1", 4),
    ("! false and false", False),
    ("array_except(array(1, null, 1, 2), array(2))", [1, None]),
    ("array_except(array(1, null), array(null))", [1]),
    ("size(map(1, 'a', 2, 'b'))", 2),
]
QUERIES = [
    ("select collect_list(x) from values (1),(null),(3) t(x)", [([1, 3],)]),
    (
        "select g, sort_array(collect_set(x)) from values ('a',1),('a',1),('b',null),('a',2) t(g,x) "
        "group by g order by g",
        [("a", [1, 2]), ("b", [])],
    ),
    ("select sort_array(collect_list(x) filter (where x > 1)) from values (1),(null),(3) t(x)", [([3],)]),
    ("select percentile(x, 0.25) from values (1),(2),(10) t(x)", [(1.5,)]),
    ("select any(x > 1), every(x > 1), some(x > 1) from values (1),(2) t(x)", [(True, False, True)]),
    ("select `x` from values (1),(2) t(`x`) order by x", [(1,), (2,)]),
    ("select a.x from values (1),(2) a(x) left semi join values (2),(3) b(x) on a.x = b.x", [(2,)]),
    ("select x from (select explode(array(1, 2)) as x) u order by x", [(1,), (2,)]),
    (
        "select id, x from (select 1 as id, array(10, 20) as l) t lateral view explode(l) e as x order by x",
        [(1, 10), (1, 20)],
    ),
    ("select id, x from (select 1 as id, array() as l) t lateral view outer explode(t.l) e as x", [(1, None)]),
    (
        "select id, col from (select 1 as id, array(10, 20) as l) t lateral view explode(t.l) e order by col",
        [(1, 10), (1, 20)],
    ),
    (
        "select x, y from (select array(1, 2) as l, array(3, 4) as m) t lateral view explode(l) e as x "
        "lateral view explode(m) f as y order by x, y",
        [(1, 3), (1, 4), (2, 3), (2, 4)],
    ),
    ("select count(*) from values (1),(2) t(x) where x div 2 = 1 and string(x) not rlike '7'", [(1,)]),
    ("select x, collect_list(x) over (order by x) from values (1),(2) t(x) order by x", [(1, [1]), (2, [1, 2])]),
]


@pytest.fixture(scope="module")
def session() -> qcore.Session:
    return qcore.Session(threads=1, dialect="spark")


@pytest.mark.parametrize(("expression", "expected"), VALUES)
def test_values(session: qcore.Session, expression: str, expected: Any) -> None:
    (found,) = session.sql(f"select {expression} as r").to_arrow()["r"].to_pylist()
    assert found == expected


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_queries(session: qcore.Session, query: str, expected: list[tuple[Any, ...]]) -> None:
    assert [tuple(row.values()) for row in session.sql(query).to_arrow().to_pylist()] == expected


@pytest.mark.sweep
@pytest.mark.skipif(spark_obstacle() is not None, reason=str(spark_obstacle()))
def test_spark_gives_the_same(spark: Any, conf: Any) -> None:
    conf("spark.sql.session.timeZone", "UTC")
    wrong = {}
    for query, expected in [*((f"select {text} as r", [(value,)]) for text, value in VALUES), *QUERIES]:
        found = [tuple(row) for row in spark.sql(query).collect()]
        if found != expected:
            wrong[query] = found, expected
    assert not wrong


def test_statements() -> None:
    """Q1: the text of a view is unescaped once."""
    session = qcore.Session(threads=1, dialect="spark")
    session.sql(r'create or replace temp view v as select 1 as x, "a\\b" as `my s`').to_arrow()
    assert session.sql(r'select `my s`, `my s` rlike "a\\\\b" as r from v').to_arrow().to_pylist() == [
        {"my s": "a\\b", "r": True}
    ]
    assert session.sql("select pmod(x - 4, 2), -- it's\n x /* \" */ from v").to_arrow().column_names == [
        "pmod(x - 4, 2)",
        "x",
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select percentile_approx(x, 0.5) from values (1) t(x)", "percentile(x, share) and median(x) are exact"),
        (
            "select x[0] from (select array(1) as x) t",
            "Spark counts from 0 here; write element_at(x, n), which counts from 1",
        ),
        ("select next_day(date '2024-01-01', 'XX')", "the name of a day as a text literal"),
        ("select x from (select array(1) as l) t lateral view posexplode(l) e as p, x", "posexplode is not supported"),
        ("select map(1, 2, 3)", "map takes pairs of a key and a value, so an even number of arguments, not 3"),
        ("select trunc(date '2024-01-01', x) from values ('month') t(x)", "trunc takes the part as a text literal"),
    ],
)
def test_unsupported_syntax_is_an_error(session: qcore.Session, query: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        session.sql(query).to_arrow()
    assert said in str(caught.value)


def test_other_dialects_are_as_they_were() -> None:
    """Q1: double quotes enclose names, and a backslash is a plain character."""
    (row,) = qcore.sql(r"""select 'a\\n' as "b", position('b' in 'ab') as p""").to_arrow().to_pylist()
    assert row == {"b": r"a\\n", "p": 2}


TABLES = {
    "t": pa.table({"i": [1, 2, None, 3, 2], "s": ["a", "b_c", None, "B_c", "x"], "b": [True, False, None, True, True]}),
    "d": pa.table({"d": pa.array([0, -500, None, 1_735_516_800_000_123], pa.timestamp("us"))}),
    "u": pa.table({"i": [2, 3, 3, None], "s": ["b_c", "x", "B_c", None]}),
}


def answer(text: str) -> pa.Table:
    return qcore.sql(text, TABLES).to_arrow()


def expected(text: str) -> pa.Table:
    connection = duckdb.connect()
    for name, table in TABLES.items():
        connection.register(name, table)
    return connection.sql(text).to_arrow_table()


@pytest.mark.parametrize(
    "text",
    [
        "select 1_000 as a, 1_0.2_5 as b",
        "select 1e3 as a, 1.5e-3 as b, .5E+2 as c, 1e300 as d, i * 1e1 as e from t",
        "select i, s from t semi join u on t.i = u.i",
        "select i, s from t anti join u on t.i = u.i and t.s = u.s",
        "select i from t order by i nulls first fetch first 2 rows only",
        "select i from t order by i nulls first offset 1 rows fetch next row only",
        "with a as materialized (select i from t), c as not materialized (select 2 as i) from a join c using (i)",
        "select count(*) as n from t group by ()",
        "select count(*) filter (b) as n, sum(i) filter (i > 1 or s = 'a') as m from t",
        "select b isnull as a, s notnull and i = 1 as c, count(*) over () as n from t where i notnull",
        "select approx_quantile(i * 1.0e0, 0.5) > 0 as q from t",
        "select s ~~ 'B%' as a, s !~~ '%c' as b, s ~~* 'B%' as c, s !~~* 'b%' as d from t",
        "select (i, s) in ((1, 'a'), (2, 'x')) as a, (i, s) not in ((1, 'a'), (i, 'x')) as b from t",
        "select i from t where (i, s) in ((1, 'a'), (2, null), (i + 0, 'x')) and not (s, i) in (('x', 2))",
        "select i from t where (i, b) in (((1), true)) or (i, upper(s)) in ((3, concat('B', '_C')))",
        "select cast(i as hugeint) as a, i::int1 as b, i::dec(9, 2) as c, cast(i as utinyint) as d from t",
        "select cast(i as uinteger) as a, try_cast(s as ubigint) as b, 'x'::blob as c, cast(b as logical) as d from t",
        "select '2024-01-01 10:00:00.5'::datetime as a, cast('2024-01-01' as timestamp_s) as b",
        "select count_if(b) as a, countif(i > 1) filter (where b) as c, count_if(false) over () as d from t group by b",
        "select approx_count_distinct(i) as a, approx_count_distinct(s) filter (where b) as b from t",
        "select timezone('Asia/Tokyo', timestamp '2024-07-01 08:00:00') = timestamptz '2024-06-30 23:00:00Z' as a",
        "select extract('year' from date '2024-05-06') as a, extract('epoch' from timestamp '2024-05-06') as b",
        "select timestamp '2024-01-01' + interval '1 month 2 days 04:05:06.5' as a",
        "select timestamp '2024-01-01' - interval '-0:30' as a, interval '1 day -04:05' as b",
        "select epoch_ms(d) as a, epoch_us(d) as b, epoch_ns(d) as c, yearweek(d) as e from d",
        "select unicode(s) as a, ord('') as b, unicode('ß') as c, hamming(s, reverse(s)) as d from t",
        "select string_split_regex(s, '[_c]') as a, regexp_split_to_array('a1b22c', '[0-9]+') as b from t",
        "select group_concat(s, '+' order by s) as a, listagg(s, '' order by s desc) as b from t",
    ],
)
def test_as_duckdb(text: str) -> None:
    assert_same_rows(answer(text), expected(text), ordered="order by" in text)


def test_expressions_that_duckdb_reads_otherwise() -> None:
    # As in PostgreSQL. DuckDB reads 0x1F as 0 with the alias x1F.
    assert answer("select 0x1F as a, 0Xff as b").to_pylist() == [{"a": 31, "b": 255}]
    assert answer("select b is unknown as a, every(b) as c from t group by b order by b").to_pylist() == [
        {"a": False, "c": False}, {"a": False, "c": True}, {"a": True, "c": None},
    ]  # fmt: skip


def test_names_that_are_words() -> None:
    """A column may have the name of a type or of a kind of join."""
    table = {"semi": pa.table({"dec": [1], "blob": [2], "long": [4]})}
    text = "select dec, blob as long, semi.long as binary from semi where dec in (1) and (blob) in (2)"
    assert qcore.sql(text, table).to_arrow().to_pylist() == [{"dec": 1, "long": 2, "binary": 4}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select * from t positional join u", "POSITIONAL JOIN: the rows of its left side have no order"),
        ("select i from t order by i fetch first 2 rows with ties", "WITH TIES"),
        ("select i from t where (i, s) in ((1, 'a'), (1, 2, 3))", "a row of 2 values with a row of 3 values, line 1"),
    ],
)
def test_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        answer(text)
