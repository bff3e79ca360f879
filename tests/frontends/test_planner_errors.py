"""What a query that cannot be planned is told: the planner's findings in the words of who wrote the query (SPEC Q1)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore import PlanError
from qcore.frontends.sql import plan_sql

TABLES = {
    "t": pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int64()))]),
    "u": pa.schema([("a", pa.int64()), ("c", pa.string())]),
}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select x from t", "unknown column 'x' in the query; there are a, b, l"),
        ("select * from nosuch", "unknown table 'nosuch' in the query; there are t, u"),
        ("select a from t, u", "column 'a' is in more than one table of the query; say in which, as in t.a"),
        ("select uper(b) from t", "unknown function 'uper' in the query; did you mean 'upper'"),
        ("select qqqqq(b) from t", "unknown function 'qqqqq' in the query; docs/FUNCTIONS.md lists what there is"),
        ("select row_number() from t", "row_number is a window function; write row_number(…) OVER (…)"),
        (
            "select * from u right join lateral (select u.a + 1 as m) x on true",
            "LATERAL that reads other tables is joined by a comma, CROSS JOIN, JOIN or LEFT JOIN",
        ),
        ("select a + b from t", "bigint + varchar is not defined; cast one side to a type that goes with the other"),
        ("select l + 1 from t", "list(bigint) + bigint is not defined"),
        ("select sum(b) from t", "not varchar; cast the argument"),
        ("select upper(a) from t", "upper() takes varchar, not bigint; cast the argument"),
        ("select i from t", "unknown column 'i' in the query; there are a, b, l"),
        ("select a", "column 'a' cannot be used at that place in the query; no table is named before it"),
        (
            "select x.a from t",
            "unknown column 'x.a' in the query: there is no table 'x' at that place; did you mean 't.a'",
        ),
        (
            "select date '2024-01-01' + a from t group by rollup (date '2024-01-01' + a)",
            "ROLLUP and CUBE by a date and a number of days are not supported yet",
        ),
        (
            "select x.b from t as x full join t as y on false group by rollup (x.b, date '2024-01-01' - y.a)",
            "ROLLUP and CUBE by a date and a number of days are not supported yet",
        ),
        ("select b from t group by rollup (b) order by nope", "nope"),
        ("select b from t group by rollup (b) having nope > 1", "unknown column 'nope'"),
        ("select t.a from t as x, u", "there is no table 't' at that place, but x, u"),
        ("select c from (select a from t)", "column 'c' cannot be used at that place in the query; there are a"),
        ("select a, sum(a) from t", "column t.a stands in SELECT outside of every aggregate function"),
        ("select sum(a) from t group by b having a > 1", "column t.a stands in HAVING outside of every aggregate"),
        ("select a from t having a > 1", "HAVING stands without GROUP BY and without an aggregate"),
        ("select a from t where sum(a) > 1", "an aggregate function stands in WHERE; conditions on aggregates go into"),
        ("select sum(sum(a)) from t", "an aggregate function stands inside another, sum(sum(t.a))"),
        ("select abs(b) from t", "abs() takes a number, not varchar; cast the argument"),
        ("select sqrt(b) from t", "sqrt() does not take (varchar)"),
        ("select date '2024-01-01' * a from t", "date * bigint is not defined"),
        ("select not a from t", "NOT takes a condition, not bigint"),
        ("select a and true from t", "AND takes conditions, not bigint and boolean"),
        ("select true = a from t", "boolean = bigint is not defined"),
        ("select a like 'x' from t", "LIKE takes texts, not bigint and varchar"),
        (
            "select coalesce(date '2024-01-01', a) from t",
            "the arguments of coalesce(date, bigint) have no type in common",
        ),
        ("select max() from t", "max() takes 1 argument, not 0"),
        ("select coalesce() from t", "coalesce() takes an argument"),
        ("select interval '1 fortnight'", "'1 fortnight' is no interval; write numbers with units"),
        ("select cast(a as nosuch) from t", "unknown type nosuch"),
        ("select (select a, b from t)", "a subquery used as a value gives several columns (t.a, t.b)"),
        ("select a from t union select a, b from t", "UNION joins queries of different numbers of columns"),
        ("select a from t order by 5", "ORDER BY 5 names a place in the select list, which has 1"),
        ("select distinct a from t order by b", "SELECT DISTINCT is ordered by t.b, which it does not select"),
        ("select a from t where a = ?", "parameters in the text of a query are not supported"),
        ("select a from t where a = $1", "parameters in the text of a query are not supported"),
        ("select grouping(a) from t group by b", "grouping() takes what GROUP BY has: t.b"),
        ("select 1; select 2", "the text has more than one statement"),
        ("alter table t add column x int", "ALTER is not supported: qcore runs queries"),
        ("select a from t limit -1", "LIMIT must be >= 0, '-1' was provided"),
        ("select a from t limit 1 offset -1", "OFFSET must be >=0, '-1' was provided"),
        ("insert into t values (1)", "INSERT is not supported: qcore runs queries"),
        ("  Delete from t", "DELETE is not supported"),
        ("drop table t", "DROP TABLE is not supported"),
        ("select 'abc", 'syntax error at "\'", line 1, column 8: a text in quotes begins here and does not end'),
        (
            "selec a from t",
            "syntax error at 'selec', line 1, column 1: a query begins with SELECT, WITH, VALUES or FROM; did you "
            "mean SELECT?",
        ),
        ("select a from t where b", "the condition t.b is varchar, not boolean; compare it with something"),
    ],
)
def test_q1_a_query_that_cannot_be_planned(query: str, message: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan_sql(query, TABLES)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("select a\nfrom t\nwhere a > 1 and\n", "at the end of the query: an expression was expected"),
        ("select a frm t", "at 't', line 1, column 14: nothing more was expected"),
        ("select a,\n  b bb bbb\nfrom t", "at 'bbb', line 2, column 8"),
        # What is written otherwise for the planner stands before the error.
        ("select * from t full join u using (a) where a > 1 ordr by a", "at 'ordr', line 1, column 51"),
        ("with recursive r as (select 1 as n union all select n + 1 from r where n < 3)\nselect n form r", "line 2"),
        ("select a from t order by all where a > 1", "at 'where', line 1, column 30"),
        (
            "select sum(a) over (order by a rows beween 1 preceding and current row) from t",
            "at '1', line 1, column 44: PRECEDING or",
        ),
    ],
)
def test_q1_a_syntax_error_has_its_place_in_the_text_as_written(query: str, place: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan_sql(query, TABLES)
    assert place in str(raised.value)
