"""What a query that cannot be planned is told: the planner's findings in the words of who wrote the query (SPEC Q1)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore import PlanError
from qcore.sql.bind import plan_query

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
        ("select qqqqq(b) from t", "unknown function 'qqqqq' in the query; docs/FUNCTIONS.md lists what there is"),
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
            "sum: an aggregate function stands in WHERE, where none may be; HAVING filters groups, line 1, column 23",
        ),
        (
            "select sum(sum(a)) from t",
            "sum: an aggregate function stands in the arguments of an aggregate, where none may be, line 1, column 12",
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
        ("select interval '1 fortnight'", "'1 fortnight' is no interval; write numbers with units"),
        ("select cast(a as nosuch) from t", "there is no type 'nosuch', line 1"),
        ("select (select a, b from t)", "a scalar subquery must give one column, not 2"),
        ("select a from t union select a, b from t", "the inputs of UNION have 1 and 2 columns; give both the same"),
        ("select a from t order by 5", "ORDER BY 5: the select list has 1 column"),
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
    ("query", "place"),
    [
        ("select a\nfrom t\nwhere a > 1 and\n", "at the end of the query: an expression was expected"),
        ("select a frm t", "at 't', line 1, column 14: this was not expected here"),
        ("select a,\n  b bb bbb\nfrom t", "at 'bbb', line 2, column 8"),
        # What is written otherwise for the planner stands before the error.
        ("select * from t full join u using (a) where a > 1 ordr by a", "at 'ordr', line 1, column 51"),
        ("with recursive r as (select 1 as n union all select n + 1 from r where n < 3)\nselect n form r", "line 2"),
        ("select a from t order by all where a > 1", "at 'where', line 1, column 30"),
        (
            "select sum(a) over (order by a rows beween 1 preceding and current row) from t",
            "at '1', line 1, column 44: ) was expected",
        ),
    ],
)
def test_q1_a_syntax_error_has_its_place_in_the_text_as_written(query: str, place: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan_query(query, TABLES)
    assert place in str(raised.value)
