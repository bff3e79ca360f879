"""Lists, structs and maps in SQL: literals, elements, functions, against DuckDB. SPEC Q2, Q3."""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest

import qcore
from qcore.errors import PlanError
from qcore.expression.tree import call, col

TABLE = pa.table({
    "i": [1, 2, None, 3],
    "s": ["a", " b ", None, "xcx"],
    "l": [[1, 2], [], None, [3, None]],
    "st": [{"a": 1, "b": "x"}, None, {"a": 2, "b": "y"}, {"a": None, "b": None}],
    "ls": pa.array([["a"], None, ["y", "z"], []], pa.large_list(pa.string())),
    "d": [datetime.date(2024, 1, 31), datetime.date(2024, 2, 29), None, datetime.date(2024, 3, 1)],
})  # fmt: skip


def rows(text, **settings):
    result = qcore.sql(text, {"t": TABLE}, **settings).to_arrow()
    return sorted(map(repr, zip(*(column.to_pylist() for column in result.columns), strict=True)))


def expected(text):
    connection = duckdb.connect()
    connection.register("t", TABLE)
    return sorted(map(repr, connection.sql(text).fetchall()))


LITERALS = [
    "select [1, 2] as a",
    "select array[1, 2] as a",
    "select [1, null, 3] as a",
    "select [] as a",
    "select [1, 2.5] as a",
    "select [[1], [2, 3]][2][1] as a",
    "select [1, i] as a from t",
    "select list_value(i, 2) as a from t",
    "select [s, 'x'] as a from t",
    "select [d, date '2024-01-01'] as a from t",
    "select {'a': 1} as a",
    "select {'a': i, 'b': s} as a from t",
    "select {'a': {'b': [1, 2]}} as x",
    "select {'a': {'b': [1, 2]}}.a.b[2] as x",
    "select struct_pack(a := 1, b := i) as a from t",
    "select struct_pack(a := i, b := l).b[1] as a from t",
    "select unnest([1, 2]) as a",
    "select i, unnest([i, 5]) as a from t",
    "select * from unnest([1, 2]) as u(a)",
    "select range(3) as a, generate_series(1, 3) as b",
    "select range(2, i + 3) as a from t where i is not null",
    "select * from range(3) r(a)",
    "select r.range, i from range(1, 3) r, t",
    "select a, i from t join generate_series(1, 2) as g(a) on a = i",
    "select string_split(s, 'c') as a from t",
]
ELEMENTS = [
    "select l[1] as a from t",
    "select l[-1] as a, l[0] as b, l[9] as c from t",
    "select l[i] as a from t",
    "select ls[1] as a from t",
    "select l[1:1] as a, l[2:] as b, l[:1] as c, l[-1:] as d from t",
    "select list_extract(l, 1) as a from t",
    "select list_slice(l, 1, 1) as a from t",
    "select st.a as a, t.st.b as b, st['a'] as c, struct_extract(st, 'b') as d from t",
    "select map {'k': i}['k'] as a, map {'k': i}['z'] as b from t",
    "select i from t where l[1] = 1",
    "select i from t where st.a = 1 or list_contains(l, 3)",
    "select st.b, count(*) from t group by st.b",
    "select i from t where st.b is not null order by st.a desc",
    "select array_agg(i order by i)[1] as a, array_agg(i order by i)[-1] as b from t where i > 0",
]
FUNCTIONS = [
    "select len(l) as a, len(s) as b, length(l) as c, array_length(l) as d from t",
    "select len([1, 2]) as a",
    "select list_contains([i, null], 3) as a, array_has([1, null], i) as b, list_has([1], null) as c from t",
    "select i = any(l) as a, 3 <> all(l) as b, 7 = some(l) as c, 7 <> all(l) as d from t where l is not null",
    "select i = all([i, 2]) as a, s in ls as b, s not in ls as c from t where i is not null",
    "select count(*) as n from t where 'y' in t.ls or (i in l and 7 <> l[1])",
    "select list_contains(l, 1) as a, array_contains(ls, s) as b, list_position(l, 2) as c from t",
    "select i in [1, 2] as a, i not in [1, 2] as b from t",
    "select list_concat(l, [9]) as a from t where l is not null",
    "select l || [4] as a from t where l is not null",
    "select list_append(l, i) as a, list_prepend(i, l) as b from t where l is not null",
    "select list_sort(l) as a, list_sort(l, 'desc') as b, list_reverse_sort([1, null, 3]) as c from t",
    "select list_reverse(l) as a from t",
    "select list_sum(l) as a, list_min(l) as b, list_max(ls) as c from t",
    "select array_to_string(ls, '-') as a from t",
    "select flatten([l, [7]]) as a from t",
    "select list_has_any(l, [3]) as a, list_has_all(l, [1]) as b from t",
    "select map_keys(map {'k': i}) as a, map_values(map {'k': i}) as b from t",
]
CONDITIONS = [
    "select l = [1, 2] as a, l <> [1, 2] as b from t",
    "select st = {'a': 1, 'b': 'x'} as a from t",
    "select l is distinct from [1, 2] as a, l is not distinct from null as b from t",
    "select l is null as a, st is not null as b from t",
    "select coalesce(l, [0]) as a, coalesce(st, {'a': 9, 'b': 'q'}) as b from t",
    "select case when i = 1 then [7] when i = 2 then null else l end as a from t",
    "select nullif(l, [1, 2]) as a from t",
]


@pytest.mark.parametrize("text", [*LITERALS, *ELEMENTS, *FUNCTIONS, *CONDITIONS])
def test_as_duckdb(text):
    assert rows(text, threads=2) == expected(text)


def test_names_of_fields_come_through_constants_and_subqueries():
    result = qcore.sql("select q.x as x, q.x.b as y from (select {'A': 1, 'b': i} as x from t) q", {"t": TABLE})
    assert result.schema.field("x").type == pa.struct([("A", pa.int64()), ("b", pa.int64())])
    constant = qcore.sql("select {'A': 1, 'b': [{'c': 2}]} as x", {}).to_arrow()
    assert constant["x"].to_pylist() == [{"A": 1, "b": [{"c": 2}]}]


def test_a_null_list_adds_nothing():
    """|| with a null list returns the other list. In DuckDB it is null, but list_concat is not."""
    assert rows("select l || [4] as a from t where l is null") == ["([4],)"]


def test_rows_that_do_not_count_are_not_computed():
    """The expression would fail for rows that the filter below removes."""
    text = "select map([l[1], l[2]], [1, 2]) as a from t where i = 1"
    assert rows(text) == ["([(1, 1), (2, 2)],)"]


def test_many_batches_and_drivers():
    many = pa.table({"i": range(20_000), "l": [[n % 7, n % 3] for n in range(20_000)]})
    text = (
        "select sum(l[1] * len(l)) as a, count(*) as n from t where list_contains([i % 5, 9], 3) and {'k': l[2]}.k > 0"
    )
    wanted = duckdb.connect().register("t", many).sql(text).fetchall()
    session = qcore.Session(threads=4, batch_rows=700)
    got = session.sql(text, {"t": many}).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in got] == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select st.zz from t", "zz"),
        ("select i[1] from t", "it takes a list, not int64"),
        ("select struct_pack(1, 2)", "struct_pack takes names and values"),
        ("select l < {'a': 1} from t", "cannot|nothing in common|defined"),
        ("select greatest(l, [1]) from t", "does not take lists"),
        ("select list_sum(ls) from t", "numbers"),
        ("select [i, s] from t", "cast|common|text"),
        ("select if(i = 1, 2) from t", "if takes a condition and two values"),
        ("select arg_max(i) from t", "arg_max does not take 1 argument, line 1, column 8"),
    ],
)
def test_errors_name_the_fault(text, words):
    with pytest.raises(qcore.QcoreError, match=words):
        qcore.sql(text, {"t": TABLE}).to_arrow()


def test_a_map_with_a_key_twice_is_an_error():
    with pytest.raises(qcore.QcoreError, match="cannot have a key twice"):
        qcore.sql("select map([i, i], [1, 2]) from t where i = 1", {"t": TABLE}).to_arrow()


def test_plans_take_nested_functions():
    """The same functions by call() of PlanBuilder."""
    length, field = call("list_length", col("l")), call("struct_extract", col("st"), "b")
    plan = qcore.PlanBuilder().values(TABLE).project([length.alias("n"), field.alias("f")]).build()
    got = qcore.Session().execute(plan).to_arrow()
    assert got.to_pydict() == {"n": [2, 0, None, 2], "f": ["x", None, "y", None]}
    with pytest.raises(PlanError, match="no field 'c'"):
        qcore.PlanBuilder().values(TABLE).project([call("struct_extract", col("st"), "c").alias("f")])
