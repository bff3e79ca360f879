"""Lambdas and list comprehensions, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import datetime
import decimal
import functools

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS, check

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.expression.tree import Call, Lambda, close_lambda, col, lit, same
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select list_transform(l, lambda x: x + 1), list_filter(l, lambda x: x > 1), list_reduce([1, 2, "
        "3], lambda x, y: x + y) from t",
        "select [x * 2 for x in l if x > 1], list_transform(l, lambda x: x + a) from t",
        "select list_transform(l, lambda x, i: x * i) from t",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select list_transform(l, lambda x: random()) from t", "would be the same for all elements"),
        ("select list_transform(l, lambda x: sum(x)) from t", "cannot read its parameters"),
        ("select list_transform(a, lambda x: x) from t", "it takes a list, not int64"),
        ("select l -> 1 from t", "read JSON"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


_I = [1, 2, 3, 4, None, 6, 7]
T = pa.table({
    "i": pa.array(_I, pa.int64()),
    "g": ["a", "b", "a", None, "b", "a", "c"],
    "f": [1.5, 2.25, None, -3.0, 0.0, 7.5, 1e10],
    "d": pa.array([None if i is None else decimal.Decimal(i) / 4 for i in _I], pa.decimal128(10, 2)),
    "s": ["abc", "Hello World", "", "naïve", None, "x,y,z", "  pad "],
    "day": pa.array([None if i is None else datetime.date(2024, i, 28) for i in _I], pa.date32()),
    "b": [True, False, None, True, True, False, None],
    "l": pa.array([[1, 2], [], None, [None, 4], [5], [6, 7, 8], [9]], pa.list_(pa.int64())),
})  # fmt: skip
TABLES = {"t": T, "u": pa.table({"i": pa.array([1, 2, 2, 9, None]), "n": pa.array([10, 20, 30, 40, 50], pa.int32())})}

QUERIES = """
list_transform([1, 2, i], lambda x: x + i)
list_transform(l, lambda x: x + 1), list_apply(l, lambda x: x), apply(l, lambda x: -x), array_apply(l, lambda x: 1)
list_filter(l, lambda x: x > 1 and x <> i), array_filter(l, lambda x: null), filter(l, lambda x: x)
list_filter([1, null, i], lambda x: x is null or x > 1)
list_transform([s, g], lambda x: upper(x) || g), list_transform([s], lambda x: x like 'a%' or x ilike '%W%')
[x * 2 for x in l if x > 1], [x for x in []], [upper(x) for x in string_split(s, ' ') if len(x) > 2]
[x * n for x, n in [1, 2, i] if n <> 2], [x for x, n in ['a', 'b', 'c'] if n % 2 = 1], [n for x, n in l]
[[a * b for a in [1, i]] for b in [2, i]], [y + i for y in [x + 1 for x in l] if y > 2]
list_transform(l, lambda x, k: x + k), list_filter(l, lambda x, k: k > 1), list_transform(l, lambda x, k: [x, k])
list_reduce([1, 2, i], lambda a, x: a + x), list_reduce(l, lambda a, x: a * x, 1), reduce([i], lambda a, x: a - x)
list_reduce([g, s, 'z'], lambda a, x: a || coalesce(x, '-')), list_reduce(l, lambda a, x: a || coalesce(x, 0), '')
list_reduce([d, 1.5], lambda a, x: a + x), list_reduce([1, 2, 3], lambda a, x: a + x * 1.5)
list_reduce([1, 2], lambda a, x: a + x + i), list_reduce([[1, i], [2]], lambda a, x: a + list_sum(x), 0)
list_reduce([[1], [2, i]], lambda a, x: list_concat(a, x)), list_reduce([3, 1, i], lambda x, y: greatest(x, y))
list_reduce(list_filter(l, lambda x: x > 100), lambda a, b: a + b, 0), list_reduce(null::int[], lambda a, x: a + x)
list_reduce([]::int[], lambda a, x: a + x, 7) + list_reduce(list_value(i, 1), lambda a, b: a * b, 1)
list_transform([[1, 2], [i]], lambda x: list_transform(x, lambda y: y + len(x) + i))
list_transform([l, [i]], lambda x: [y + 1 for y in x]), list_transform([l], lambda x: list_filter(x, lambda x: x > i))
list_transform(null::int[], lambda x: x + 1), list_transform(case when i > 2 then [i] end, lambda x: x + 1)
list_transform([{'a': i, 'b': s}], lambda r: r.a + 1), list_transform([{'a': i, 'b': s}], lambda r: r['b'] || 'x')
list_transform([1, 2], lambda x: {'x': x, 'b': i}), list_transform([g], lambda x: struct_pack(x := x, b := i))
list_filter([{'k': i, 'v': s}], lambda x: x.v is not null)[1].k, list_transform([i], lambda x: map {'a': x})
list_transform([1, 2], lambda x: [x, i][1]), list_transform([s], lambda x: x[1:2])
list_transform([day], lambda x: extract(year from x)), list_transform([day], lambda x: cast(x + interval 1 day as date))
list_transform([i], lambda x: case when x > 2 then 'big' when i > 1 then g else 'small' end)
list_transform([s], lambda x: substring(x from 2 for 3)), list_transform([s], lambda x: position('b' in x))
list_transform([i], lambda x: x in (1, 2)), list_transform([i], lambda x: x between 1 and 3 and g = 'a')
list_transform([i, 2], lambda x: x / 2), list_transform([i, 2], lambda x: x // 2), list_transform([f], lambda x: x * 2)
list_transform([i], lambda x: cast(x as varchar)), list_transform(['1'], lambda x: x::int), [x::double for x in l]
list_transform([b], lambda x: not x), list_transform([d], lambda x: round(x * 2, 1))
["X" for "X" in l], [[x][1] for x in l]
list_sort([-x for x in l]), list_sum([x for x in l if x is not null]), list_contains([x * 2 for x in l], i)
i as x, list_transform([1, 2], lambda x: x + 1) as y, list_transform([1, 2], lambda i: i + 1) as z, x + 1 as w
list_transform(range(4), lambda x: x * 10)[2], list_transform(list_zip(l, ['a', 'b']), lambda z: z is null)
list_transform([i], lambda x: x + sum(i) over ()) as a, rank() over (order by [x + 1 for x in [i]]) as r
"""
SELECTS = """
select i from t where len(list_filter([1, 2, 3], lambda x: x < i)) > 1
select i from t order by list_transform([i], lambda x: -x), i
select g, list_transform(list(i order by i), lambda x: x * 2) as a from t group by g
select g, list_filter(list(i order by i), lambda x: x > max(i) - 2) as a from t group by g
select g, sum(i) as a from t group by g having len([x for x in list(i) if x > 2]) > 0
select sum(list_sum(list_transform([i, 1], lambda x: x * 2))) as a from t group by g
select (select list_transform(list(n order by n), lambda x: x + t.i) from u where u.i = t.i) as a from t
select a.i, list_transform([u.n], lambda n: n + a.i + u.n) as a from t a join u on a.i = u.i
with c as (select i, [i, i + 1] l from t) select a.i, [x + b.i for x in a.l] as z from c a join c b on a.i = b.i
select max(i) filter (where len(list_filter([1, 2, 3], lambda x: x = i)) = 1) as a from t
select unnest(list_transform([i, 2], lambda x: x + 1)) as a from t
select u2.z from t, unnest(list_transform([i, 2], lambda x: x + 1)) as u2(z)
select distinct list_transform([g], lambda x: upper(x)) as a from t
select i from t union select list_reduce([i, 1], lambda a, x: a + x) from t
select * exclude (l, b), [x for x in l] as z from t where len([x for x in [1, 2] if x = i]) > 0
select apply, filter from (select i as apply, g as filter from t)
"""
ALL = [*(f"select {text} from t" for text in QUERIES.split("\n") if text), *(q for q in SELECTS.split("\n") if q)]


def answer(text: str) -> pa.Table:
    return qcore.sql(text, TABLES, dialect="duckdb").to_arrow()


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    for name, table in TABLES.items():
        made.register(f"$given_{name}", table)
        made.execute(f'create table {name} as from "$given_{name}"')
    return made


def expected(text: str) -> pa.Table:
    return connection().sql(text).to_arrow_table()


@pytest.mark.parametrize("text", ALL)
def test_as_duckdb(text: str) -> None:
    table, right = answer(text), expected(text)
    assert_same_rows(table.rename_columns(right.column_names), right, ordered="order by list" in text)


def test_arrows() -> None:
    """Q1: the older syntax, which DuckDB will remove."""
    text = "select list_transform(l, x -> x + i) as a, list_reduce(l, (a, x) -> a + x, 0) as b, l->>1 as c from t"
    with pytest.raises(qcore.PlanError):
        answer(text)
    text = text.replace(", l->>1 as c", "")
    assert_same_rows(answer(text), expected(text.replace("x -> ", "lambda x: ").replace("(a, x) -> ", "lambda a, x: ")))


def test_many_rows_and_long_lists() -> None:
    """Q3: lists longer than a vector in some rows, over several batches."""
    text = (
        "select i, list_sum([x + i for x in r if x % 3 <> 0]) as a, list_reduce(r, lambda a, x: a + x, i) as b from "
        "(select i, range(case i % 70 when 6 then 3000 else i % 7 * 20 end) as r from range(5000) as q(i))"
    )
    assert_same_rows(qcore.sql(text, {}, threads=2).to_arrow(), duckdb.sql(text).to_arrow_table())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("list_transform(l)", "takes at least 2 arguments"),
        ("list_transform(i, lambda x: x)", "takes a list, not int64"),
        ("list_transform(l, lambda x, y, z: x)", "an element and, optionally, its position"),
        ("list_transform(l, lambda x)", "syntax error at|second argument is a lambda"),
        ("list_transform(l, lambda x:)", "syntax error at"),
        ("list_transform(l, lambda x: nosuch + x)", "unknown column 'nosuch'"),
        ("list_transform(l, lambda x: nosuch(x))", "unknown function 'nosuch'"),
        ("list_transform([1], lambda x: sum(x))", "cannot read its parameters"),
        ("list_transform(l, lambda x: random())", "would be the same for all elements"),
        ("list_reduce(l, lambda x: x)", "a lambda of two parameters"),
        ("list_reduce(l, lambda a, x, k: x)", "list_zip"),
        ("list_reduce(l, lambda a, x: 'b')", "first value is int64, and the lambda returns string"),
        ("list_reduce(l, lambda a, x: a, 1, 2)", "an optional first value"),
        ("[x for in l]", r"syntax error at '(for|\])', line 1, column 1\d"),
        ("list_filter([s], lambda x: x)", "it takes conditions"),
        ("list_transform(l, lambda x: 1 // (x - 1))", "division by zero"),
        ("list_reduce(l, lambda a, x: a + x)", "the list is empty"),
    ],
)
def test_wide_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(qcore.QcoreError, match=message):
        answer(f"select {text} from t")


def test_a_lambda_in_python() -> None:
    """Q1: the same expression built in Python. Columns that the body reads become arguments of the call."""
    function, others = close_lambda(col("x") + col("i") * 2, ("x",))
    assert [str(other) for other in others] == ["i"]
    call = Call("list_transform", (col("l"), function, *others))
    plan = qcore.PlanBuilder().values(T).project({"a": call}).build()
    made = pa.Table.from_batches(pa.record_batch(batch) for batch in qcore.Task(plan, drivers=1).batches())
    assert_same_rows(made, expected("select list_transform(l, lambda x: x + i * 2) as a from t"))


def test_the_same_lambda() -> None:
    """Q1: lambdas are equal if their bodies are, whatever the names of the parameters."""
    one, two, three = (close_lambda(col("x") + lit(n), (name,))[0] for name, n in (("x", 1), ("x", 2), ("x", 1)))
    assert same(one, three)
    assert not same(one, two)
    assert isinstance(one, Lambda) and str(one) == "lambda $0: ($0 + 1)"
    twice = "select list_transform(l, lambda x: x + 1) as a, list_transform(l, lambda x: x + 2) as b from t"
    assert_same_rows(answer(twice), expected(twice))


def test_shared_subplans() -> None:
    """Q2: subqueries that differ only in a lambda are not shared."""
    text = (
        "select a.n, b.n as m from (select sum(list_sum([x + 1 for x in l])) n, g from t group by g) a "
        "join (select sum(list_sum([x + 2 for x in l])) n, g from t group by g) b on a.g = b.g"
    )
    assert_same_rows(answer(text), expected(text))
