"""Random SQL against DuckDB (SPEC Q2, Q3): some cases of the fuzzer, and every fault that it found, reduced.

`make fuzz-sql` runs more cases.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from qcore.optimizer import RULES
from sql_fuzz.cases import CASES_PER_TABLES, Fuzzer
from sql_fuzz.queries import Ordered
from sql_fuzz.run import Tables, Way, difference, expected_rows
from sql_fuzz.tables import TableData
from sql_fuzz.tree import Dialects, Listed, Tree, smaller
from sweeps import every

WAYS = (
    Way(threads=1),
    Way(threads=4, batch_rows=1, split_rows=1),
    Way(threads=2, batch_rows=7, split_rows=None),
    Way(threads=2, split_rows=3, without=RULES),
    *(Way(threads=3, split_rows=1, rewrites=seed) for seed in range(4)),
)


@pytest.mark.parametrize("group", every(8, range(16)))
def test_random_queries_answer_as_duckdb_does(group: int, tmp_path: Path) -> None:
    """Q2, Q3: queries over random tables, each in three equivalent ways."""
    fuzzer = Fuzzer(20_26, 2, tmp_path)
    first = group * CASES_PER_TABLES
    for number in range(first, first + CASES_PER_TABLES):
        found = fuzzer.case(number)
        assert found is None, fuzzer.explain_case(number, found)
    fuzzer.close()
    assert fuzzer.n_compared > CASES_PER_TABLES // 2


EMPTY = pa.table({"id": pa.array([], pa.int64()), "c": pa.array([], pa.int64())})
FOUND = {
    # The estimate of a join's condition read the estimate of the join's rows: an endless recursion.
    "unequal in a nested loop join": (
        "select 1 as o from t as a join t as b on a.c <> (case when b.c is null then 1 end)",
        {"t": EMPTY},
    ),
    "no rows of a null column": ("select c from t where false", {"t": pa.table({"c": pa.nulls(2)})}),
    # The planner pushes conditions without columns through aggregates that give a row for no rows.
    "a scalar subquery in HAVING without GROUP BY": (
        "select count(*) as o from t having (select max(id) from t) > 5",
        {"t": pa.table({"id": [1, 2, 3]})},
    ),
    "a condition that is null for an aggregate without keys": (
        "select o from (select min(id) as o from t where id > 7) as d where not (o = o)",
        {"t": pa.table({"id": [1, 2, 3]})},
    ),
    "a condition on a null beside an aggregate without keys": (
        "with w as (select cast(null as varchar) as a, count(*) as o from t) select o from w where 'a' = a",
        {"t": pa.table({"id": [1, 2, 3]})},
    ),
    "an anti join, on null, with the empty set of a cube": (
        (
            "select id from t left anti join (select 1 from t group by cube(id, c)) d on cast(null as boolean)",
            "select id from t anti join (select 1 from t group by cube(id, c)) d on cast(null as boolean)",
        ),
        {"t": pa.table({"id": [1, 2, 3], "c": [1, 1, 1]})},
    ),
    "a distinct sum by a key and its cast": (
        "select cast(sum(distinct d) as double) as o from t group by cast(c as decimal(15, 2)), c",
        {"t": pa.table({"c": pa.array([1, 1, None], pa.decimal128(5, 2)), "d": pa.array([1, 1, 2], pa.float32())})},
    ),
    "sets of two keys of one origin": (
        "select a, b, max(c) as m from (select id as a, id as b, c from t) as d group by rollup(a, b)",
        {"t": pa.table({"id": [1, 1, None], "c": [1, 2, 3]})},
    ),
    "a set of a key and what is simplified to it": (
        "select c as o from t group by grouping sets (((case when (false in (false)) then c else c end), c))",
        {"t": pa.table({"id": [1, 2, 3], "c": ["a", "a", None]})},
    ),
    # Subplans computed once: columns of one name of two tables on the right of joins were taken for one, …
    "two columns of one name in a shared subplan": (
        "with w as (select a.id as x, b.id as y, c.id as z, count(*) as n from t as a join u as b on a.c = b.c "
        "join v as c on a.c = c.c group by 1, 2, 3) "
        "select p.y as o1, p.z as o2, q.y as o3, q.z as o4 from w as p join w as q on p.x = q.x",
        {name: pa.table({"id": [n, 2 * n], "c": [1, 1]}) for name, n in (("t", 1), ("u", 10), ("v", 100))},
    ),
    # … a window function before and after a filter too, …
    "a window function twice in a shared subplan": (
        "with w as (select id, r, row_number() over (order by id) as s from "
        "(select id, row_number() over (order by id) as r from t) as d where r > 1) "
        "select p.r as o1, p.s as o2, q.r as o3, q.s as o4 from w as p join w as q on p.id = q.id",
        {"t": pa.table({"id": [1, 2, 3]})},
    ),
    # … and results of IN (subquery) had no column.
    "two marks in a shared subplan": (
        "with w as (select id, id in (select id from u) as m, id in (select c from u) as n from t) "
        "select p.id as o1, p.m as o2, p.n as o3, q.m as o4, q.n as o5 from w as p join w as q on p.id = q.id",
        {"t": pa.table({"id": [1, 2, 3]}), "u": pa.table({"id": [1, 7], "c": [2, None]})},
    ),
    # Values were written to memory that a first batch without values had not allocated.
    "a median of nothing at first": (
        "select median(c) as o, string_agg(s, ',') as p from t",
        {"t": pa.table({"c": pa.array([None], pa.float64()), "s": pa.array([None], pa.string())})},
    ),
    "the first of nothing": (
        (
            "select first_value(c order by id) filter (where id > 7) as o from t group by s",
            "select first(c order by id) filter (where id > 7) as o from t group by s",
        ),
        {"t": pa.table({"id": [1, 2], "c": [1, None], "s": ["a", None]})},
    ),
    "a median by sets of keys": (
        "select c as o, median(cast(id as double)) as p from t group by rollup(c)",
        {"t": pa.table({"id": [1, 2, 3], "c": [1, 1, None]})},
    ),
    "casts in VALUES beside lists of columns": (
        "select x as o from (values (cast(1.5 as double), date '1995-01-01'), (2, null)) as v(x, y) "
        "where x in (x, 3) and x in (2, 1.5)",
        {"t": EMPTY},
    ),
    "a frame by distance of a constant": (
        "select id as o, sum(cast(1 as decimal(5, 2))) over (order by id range between 3 preceding and 1 following) "
        "as p from t",
        {"t": pa.table({"id": pa.array([1, 2, 7, None], pa.int32())})},
    ),
    # The grouping set without keys returns a row of nulls, also for no input rows.
    "a list of the values of all rows": (
        "select s as o, array_agg(c order by id) as p from t group by rollup(s)",
        {"t": pa.table({"id": [1, 2, 3], "c": [1, None, 2], "s": ["a", None, "a"]})},
    ),
    "a list of no values of all rows": (
        "select s as o, array_agg(c order by id) as p from t group by rollup(s)",
        {"t": pa.table({"id": [1], "c": [1], "s": ["a"]}).slice(1)},
    ),
    "the first value of all rows": (
        (
            "select s as o, first_value(c order by c nulls first) as p from t group by rollup(s)",
            "select s as o, first(c order by c nulls first) as p from t group by rollup(s)",
        ),
        {"t": pa.table({"id": [1, 2], "c": [1, 5], "s": ["a", "a"]})},
    ),
    "days between constants": (
        "select (date '2000-02-29' - date '1970-01-01') as o, sum(distinct null::bigint) filter (where (null::bigint "
        "not in (c))) as p from t",
        {"t": EMPTY},
    ),
    "a constant that is not a number": (
        "select cast('nan' as double) = cast('nan' as double) as o, sum(distinct null::bigint) filter (where "
        "(null::bigint not in (c))) as p from t",
        {"t": EMPTY},
    ),
    # Groups without a value held truth values that were neither 0 nor 1.
    "or with bool_and of groups without a value": (
        "select id as o, null or bool_and(c) as p, null and bool_or(c) as q from t group by id",
        {"t": pa.table({"id": range(8), "c": [True, False, None, None, False, True, None, None]})},
    ),
    # The message of a plan may be nested deeper than protobuf's default limit.
    "a sum of many terms": (f"select {' + '.join(['id'] * 90)} as o from t", {"t": pa.table({"id": [1, 2, None]})}),
    "a null-safe join under a cross join": (
        "select a.id as o, b.id as p from t as a join t as b on (a.c is not distinct from b.c) cross join t as d",
        {"t": pa.table({"id": [1, 2, 3], "c": [1, None, None]})},
    ),
    "a null-safe join and an equality above it": (
        "select a.id as o, b.id as p from t as a left join t as b on (a.c is not distinct from b.c) where a.d = b.d",
        {"t": pa.table({"id": [1, 2, 3], "c": [1, None, None], "d": [None, None, 1]})},
    ),
    "the set of no keys twice, and nothing else": (
        "select 1 as o from t group by grouping sets ((c), (), ())",
        {"t": pa.table({"id": [1, 2, 3], "c": [1, None, None]})},
    ),
    "IS DISTINCT FROM behind a filter": (
        "select min(id) as o from t having min(c) filter (where id > 1) is not distinct from null or min(c) filter "
        "(where id = 1) is distinct from 2 and true",
        {"t": pa.table({"id": [1, 2, 3], "c": [1, None, 3]})},
    ),
    "a list of the side that a join never finds": (
        "select a.id as o, b.l as p, b.l is null as q, coalesce(b.l, a.l) as r from t as a left join t as b on "
        "null::boolean",
        {"t": pa.table({"id": [1, 2], "l": pa.array([[1], None], pa.large_list(pa.int64()))})},
    ),
    # The choice of the build side changes the order of columns, which matters to a set operation.
    "a cross join with its smaller side first in a union": (
        "select id as o, c as p from t where id < 0 union select a.id, b.c from (select * from t where id = 1) as a "
        "cross join u as b",
        {"t": pa.table({"id": [1, 2], "c": [True, None]}), "u": pa.table({"c": [True, False, None]})},
    ),
    # count of a constant counts rows, but not with DISTINCT.
    "a constant counted once in a window": (
        "select id as o, count(distinct 1) over (order by id) as p from t",
        {"t": pa.table({"id": [1, 2, 3]})},
    ),
    # The planner compared lists as sets of the written expressions.
    "a list of columns and a list of constants": (
        "select id as o from t where id not in (id, id, id, id) and id in (0, 3)",
        {"t": pa.table({"id": [0, 3, 5, None]})},
    ),
    "two lists with columns": (
        "select id as o, id in (id, id, 7, c) and id in (3, 5) as p from t",
        {"t": pa.table({"id": [0, 3, 5, None], "c": [0, None, 1, 1]})},
    ),
    # The planner simplified lists as if they had no nulls.
    "NOT IN a list or NOT IN another, which has a null": (
        "select id as o, c not in (10) or c not in (null) as p from t",
        {"t": pa.table({"id": [1, 2, 3], "c": [10, None, 7]})},
    ),
    # The planner used a key of one side of a join as a key of the joined rows.
    "an order by what is unique on one side of a join": (
        "select distinct b.o as x, a.id as y from t as a cross join (select c o from t group by c) b order by x, y",
        {"t": pa.table({"id": [3, 1, 2], "c": [1, 1, 2]})},
    ),
    # The planner did not combine binary values of two layouts.
    "bytes of several layouts merged": (
        "select k as o from (select id as k from t) as a full join (select c as k from t) as b using (k)",
        {"t": pa.table({"id": pa.array([b"a", None], pa.binary_view()), "c": pa.array([b"b", b"a"], pa.binary())})},
    ),
    "a window's own order beside a join by name": (
        "with w as (select id, mode(c order by c desc) over (order by id groups between 1 preceding and current row "
        "exclude group) as m from t) select * from w full join t using (id)",
        {"t": pa.table({"id": [1, 2, 3], "c": ["a", None, "b"]})},
    ),
    # The planner's star had the right side's column after the other columns of the left side.
    "a star over a join by a column of two types": (
        "select * from t as a(id, x) join u as b(id, y) using (id)",
        {
            "t": pa.table({"id": pa.array([0], pa.int64()), "c": ["1"]}),
            "u": pa.table({"id": pa.array([0], pa.int32()), "d": [0.5]}),
        },
    ),
    # Substrait's type of an instant has no zone.
    "an instant in a zone, of two branches": (
        "select cast(case when id > 1 then c else timestamp '2000-02-29 12:34:56' at time zone 'Europe/Berlin' end as "
        "timestamp) as o from t",
        {"t": pa.table({"id": [1, 2], "c": pa.array([10**15, 10**15], pa.timestamp("us", "Europe/Berlin"))})},
    ),
    # The planner compared with the first day of a year outside of the range of Python's dates.
    "the year -1": (
        "select c from t where cast(extract(year from c) as bigint) not in (-1)",
        {"t": pa.table({"c": pa.array([0, None], pa.timestamp("us"))})},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, tmp_path: Path) -> None:
    """Q2: a query that failed before, in every form."""
    query, data = FOUND[name]
    tables = Tables([TableData(of, table, {}) for of, table in data.items()], tmp_path)
    ordered = Ordered(Tree("query", query if isinstance(query, str) else Dialects(query[1], query[0])))
    expected = expected_rows(tables, ordered)
    assert expected is not None
    found = difference(tables, ordered, WAYS, expected)
    tables.close()
    assert found is None, found


def test_cases_are_the_same_every_time(tmp_path: Path) -> None:
    """The seed and the number alone determine a case."""
    one, other = Fuzzer(5, 3, tmp_path), Fuzzer(5, 3, tmp_path)
    other.query(3)
    assert one.query(60).sql("qcore") == other.query(60).sql("qcore")
    assert one.ways(60) == other.ways(60)
    # As text, in which NaN equals NaN.
    assert [repr(a.data.to_pylist()) for a in one.tables(60).tables] == [
        repr(b.data.to_pylist()) for b in other.tables(60).tables
    ]
    one.close()
    other.close()


def test_a_difference_is_seen(tmp_path: Path) -> None:
    """The comparison fails for other values, another order, and an error of one engine."""
    table = pa.table({"id": pa.array([1, 2, 3]), "c": pa.array([0.5, 1.5, None])})
    tables = Tables([TableData("t", table, {})], tmp_path)
    for here, there in (("id", "id + 1"), ("c", "c + 1e-3"), ("c", "coalesce(c, 0.5)"), ("1", "null"), ("1 // 0", "1")):
        query = Ordered(Tree("", "select ", Dialects(there, here), " as o from t"))
        expected = expected_rows(tables, query)
        assert expected is not None and difference(tables, query, [Way()], expected) is not None, here
    query = Ordered(Tree("", "select id as o from t order by id ", Dialects("desc", "")), (("o", False, False),))
    expected = tables.duck.sql("select id as o from t order by id desc").to_arrow_table()
    assert difference(tables, Ordered(Tree("", "select id as o from t"), query.keys), [Way()], expected) is not None
    tables.close()


def test_smaller_trees_are_smaller() -> None:
    """Each step of the reduction removes something, but not what must stay."""
    rng = random.Random(1)
    value = Tree("int", "(", Tree("int", "a"), " + ", Tree("int", "b"), ")")
    tree = Tree("query", "select ", Listed([value, Tree("", "c")]), Listed([Tree("", "d")], minimum=0, before=" by "))
    for _ in range(20):
        steps = list(smaller(tree))
        if not steps:
            break
        tree = rng.choice(steps)
    assert tree.sql("qcore") in ("select c", "select null::bigint", "select 1")


def test_an_answer_with_more_rows_than_the_limit_is_no_answer(tmp_path: Path) -> None:
    """DuckDB returned such rows. They are compared with nothing."""
    tables = Tables([TableData("t", pa.table({"id": [1, 2, 3]}), {})], tmp_path)
    ordered = Ordered(Tree("", "select id as o from t"), (("o", False, False),), " limit 2 offset 1")
    assert ordered.rows_max == 2
    assert expected_rows(tables, ordered).num_rows == 2
    ordered = replace(ordered, tree=Tree("", "select o from (select id as o from t) order by o limit 3 -- "), keys=())
    assert expected_rows(tables, ordered) is None
