"""Calls of functions: the choice of the reader, and calls in clauses that do not allow them. SPEC Q1."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS, check, context_of_rows, parse_expression, rows

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.functions.dialect import Dialect
from qcore.sql.bind import plan_query
from qcore.sql.function_calls import READERS, bind_function
from qcore.sql.scope import Named

COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int64()))])
AT = context_of_rows({"t": tuple(Named(name, name) for name in COLUMNS.names)}, COLUMNS)


def assert_refuses(query: str, said: str, dialect: str = "qcore") -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        plan_query(query, SCHEMAS, Dialect.find(dialect))


@pytest.mark.parametrize(
    ("call", "type"),
    [
        ("lower(b)", pa.string()),
        ("LENGTH(b)", pa.int64()),
        ("coalesce(a, 1)", pa.int64()),
        ("position('x' in b)", pa.int64()),
        ("overlay(b placing 'x' from 2)", pa.string()),
        ("substring(b from 2 for 3)", pa.string()),
        ("current_date", pa.date32()),
        ("today()", pa.date32()),
        ("random()", pa.float64()),
        ("list_transform(l, x -> x > 1)", pa.list_(pa.bool_())),
        ("struct_pack(x := a)", pa.struct([("x", pa.int64())])),
    ],
)
def test_q1_scalar_functions(call: str, type: pa.DataType) -> None:
    made, node = parse_expression(call)
    assert bind_function(made, node, AT).type == type


@pytest.mark.parametrize(
    "query",
    [
        "select count(*), count(), count(a), count(distinct b), sum(a) filter (where c > 0) from t",
        "select string_agg(b, ',' order by b desc), max(a order by b) from t",
        "select percentile_cont(0.5) within group (order by a) from t",
        "select b, grouping(b), count(*) from t group by rollup(b)",
        "select array(select d from u where u.a = t.a order by d) from t",
        "select extract(year from date '2020-02-03') + a from t",
        "select trim(both 'x' from b), trim(leading 'x' from b), trim(trailing from b), trim('z' from b) from t",
        "select a, unnest(l) from t",
        "select a, generate_subscripts(l, 1) from t",
        "select sum(a) over (order by c) from t",
    ],
)
def test_q1_answers_are_duckdb_s(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "select lower(distinct b) from t",
            "lower is not an aggregate function, so it takes no DISTINCT, ORDER BY or FILTER",
        ),
        ("select lower(b order by a) from t", "lower is not an aggregate function"),
        ("select abs(a) filter (where a > 1) from t", "abs is not an aggregate function"),
        ("select row_number() from t", "the window function row_number needs OVER"),
        ("select ntile(2) from t", "the window function ntile needs OVER"),
        ("select lag(a) from t", "the window function lag needs OVER"),
        ("select a from t order by columns('a')", "COLUMNS(…) is only allowed in a select list or in WHERE"),
        ("select lower(*) from t", "* is an argument of count only; name the columns"),
        ("select lower(t.*) from t", "* is an argument of count only; name the columns"),
        ("select no_such_function(a) from t", "no_such_function"),
    ],
)
def test_q1_calls_that_are_refused(query: str, said: str) -> None:
    assert_refuses(query, said)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "select a from t where sum(a) > 1",
            "sum: an aggregate function cannot be in WHERE; HAVING filters",
        ),
        ("select sum(count(*)) from t", "an aggregate function cannot be in the arguments of an aggregate"),
        ("select a from t join u on sum(t.a) = u.a", "sum: an aggregate function cannot be in"),
        (
            "select a from t where a in (select d from u where sum(t.a) > 1)",
            "sum: an aggregate function cannot be in WHERE",
        ),
        ("select a from t where unnest(l) > 1", "unnest cannot be in WHERE; write it in a select list or in FROM"),
        ("select unnest(unnest(l)) from t", "unnest cannot be in"),
        ("select unnest(l, 1) from t", "unnest in a select list takes one list or map and no options"),
        ("select a from t where generate_subscripts(l, 1) = 1", "generate_subscripts cannot be in WHERE"),
        ("select generate_subscripts(l) from t", "generate_subscripts takes a list and its dimension, 1"),
        ("select generate_subscripts(l, 2) from t", "generate_subscripts: a list has one dimension, 1"),
        ("select generate_subscripts(l, a) from t", "generate_subscripts: a list has one dimension, 1"),
    ],
)
def test_q1_calls_where_none_may_be(query: str, said: str) -> None:
    assert_refuses(query, said)


def test_q1_an_aggregate_of_outer_columns_alone_is_the_outer_query_s() -> None:
    """As in the SQL standard, the subquery reads one value for each outer group."""
    got = rows("select b, (select max(t.a) from u where d = 10) from t where a is not null group by b")
    assert dict(got) == {"x": 1, "y": 2, None: 5}
    check("select b, (select sum(t.a) + count(*) from u) from t group by b")
    # An aggregate that reads a column of the subquery belongs to the subquery.
    check("select t.a, (select sum(t.a + u.d) from u) from t")


def test_q1_explode_is_unnest_in_spark_s_dialect_alone() -> None:
    table = pa.table({"l": [[1, 2], [], [3]]})
    found = qcore.sql("select explode(l) as x from t", {"t": table}, dialect="spark").to_arrow()
    assert sorted(found["x"].to_pylist()) == [1, 2, 3]
    assert_refuses("select explode(l) from t", "explode")


def test_q1_a_moment_is_one_in_the_whole_query() -> None:
    text = "select count(distinct x) n from (select now() x from t union all select current_timestamp from t)"
    assert rows(text) == [(1,)]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("trim(leading 'x' from b)", "ltrim"),
        ("trim(trailing 'x' from b)", "rtrim"),
        ("trim(both 'x' from b)", "trim"),
        ("trim('x' from b)", "trim"),
        ("trim(leading from b)", "ltrim"),
    ],
)
def test_q1_sides_of_trim(call: str, name: str) -> None:
    made, node = parse_expression(call)
    assert type(node).__name__ == "Trim"
    expr: Any = READERS["Trim"](made, node, AT).expr
    assert expr.function == name
    assert len(expr.arguments) == (1 if call == "trim(leading from b)" else 2)


def test_q1_extract() -> None:
    table = pa.table({"d": pa.array([18_295, None], pa.date32())})
    query = "select extract(year from d) y, extract(dow from d) w, extract(day from d) d from t"
    wanted = duckdb.from_arrow(table).query("t", query).to_arrow_table()
    assert_same_rows(qcore.sql(query, {"t": table}).to_arrow(), wanted)
