"""Unnest: lists and maps to rows (SPEC Q2, Q3, V13)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, col
from qcore_ext.basic.unnest import Unnest
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import SIZES


def lists(n_rows: int, seed: int = 1, longest: int = 5) -> list[list[int | None] | None]:
    rng = random.Random(seed)
    return [
        None
        if rng.random() < 0.2
        else [None if rng.random() < 0.2 else rng.randrange(1000) for _ in range(rng.randrange(longest))]
        for _ in range(n_rows)
    ]


def table_of(n_rows: int, type_: pa.DataType | None = None) -> pa.Table:
    values = lists(n_rows)
    type_ = type_ or pa.list_(pa.int64())
    if pa.types.is_fixed_size_list(type_):
        values = [None if value is None else (value * 3 + [7, 8, 9])[:3] for value in values]
    return pa.table({"id": pa.array(range(n_rows), pa.int64()), "l": pa.array(values, type_), "s": ["x"] * n_rows})


def run(builder: PlanBuilder, threads: int = 2) -> pa.Table:
    return qcore.Session(threads=threads).execute(builder.build()).to_arrow()


def expected(table: pa.Table, outer: bool = False) -> pa.Table:
    """The expected rows, computed in Python, for ids and one list column l."""
    rows = [
        (id, element)
        for id, values in zip(table["id"].to_pylist(), table["l"].to_pylist(), strict=True)
        for element in (values or ([None] if outer else []))
    ]
    return pa.table(
        {
            "id": pa.array([id for id, _ in rows], pa.int64()),
            "l": pa.array([element for _, element in rows], pa.int64()),
            "s": ["x"] * len(rows),
        }
    )


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("outer", [False, True])
def test_sizes_and_empty_lists(n_rows: int, outer: bool) -> None:
    """Q2: rows are in order. An empty or null list gives no row, or with `outer` one row with null."""
    table = table_of(n_rows)
    assert_same_rows(run(PlanBuilder().values(table).unnest("l", outer=outer)), expected(table, outer), ordered=True)


def test_equals_duckdb(duck: Any) -> None:
    """Q2."""
    table = table_of(3000)
    duck.register("t", table)
    assert_same_rows(run(PlanBuilder().values(table).unnest("l")), duck.sql("select id, unnest(l), s from t"))


@pytest.mark.parametrize(
    "type_",
    [
        pa.large_list(pa.int64()),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
        pa.list_(pa.int64(), 3),
        pa.list_(pa.decimal128(20, 0)),
        pa.list_(pa.uint16()),
    ],
    ids=str,
)
def test_layouts_of_lists(type_: pa.DataType) -> None:
    """Q3: offsets of 32 and 64 bits, list views and lists of fixed size, also sliced."""
    table = table_of(3000, type_)
    for part in (table, table.slice(7, 1500), table.slice(2999)):
        assert_same_rows(run(PlanBuilder().values(part).unnest("l")), expected(part))


def test_list_views_out_of_order() -> None:
    values = pa.array([10, 20, 30, 40], pa.int64())
    views = pa.ListViewArray.from_arrays(pa.array([2, 0, 1], pa.int32()), pa.array([2, 0, 3], pa.int32()), values)
    table = pa.table({"id": [1, 2, 3], "l": views})
    found = run(PlanBuilder().values(table).unnest("l"))
    assert found.to_pydict() == {"id": [1, 1, 3, 3, 3], "l": [30, 40, 20, 30, 40]}


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.string(), [["a", "longer than a view holds", None], [], ["b"]]),
        (pa.string_view(), [["a", "longer than a view holds", None], [], ["b"]]),
        (pa.bool_(), [[True, None, False], [], [True] * 9]),
        (pa.float32(), [[0.5, None], None, [1.5]]),
        (pa.dictionary(pa.int8(), pa.string()), [["a", "b", None], [], ["b"]]),
        (pa.null(), [[None, None], [], [None]]),
        (pa.date32(), [[None], [], []]),
        (
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
            [[{"a": 1, "b": "x"}, None], None, [{"a": None, "b": "y"}]],
        ),
        (pa.list_(pa.int32()), [[[1, 2], None, []], [], [[3]]]),
        (pa.list_(pa.struct([("a", pa.list_(pa.int8()))])), [[[{"a": [1]}], None], [], [[None]]]),
    ],
    ids=str,
)
def test_types_of_elements(type_: pa.DataType, values: list[Any]) -> None:
    """Q3: elements may be structs and lists."""
    times = 400
    table = pa.table({"id": range(3 * times), "l": pa.array(values * times, pa.list_(type_))})
    found = run(PlanBuilder().values(table).unnest("l"))
    wanted = [element for value in values * times for element in value or []]
    assert found["l"].to_pylist() == wanted
    kept = run(PlanBuilder().values(table.slice(1)).filter(col("id") % 3 != 0).unnest("l", outer=True))
    wanted = [element for i, value in enumerate(values * times) if i % 3 for element in value or [None]]
    assert kept["l"].to_pylist() == wanted


def test_maps() -> None:
    """Q3: a map is unnested as a list of entries."""
    type_ = pa.map_(pa.string(), pa.int32())
    table = pa.table({"id": [1, 2, 3], "m": pa.array([[("a", 1), ("b", None)], None, [("c", 3)]], type_)})
    found = run(PlanBuilder().values(table).unnest({"m": "entry"}))
    assert found.to_pylist() == [
        {"id": 1, "entry": {"key": "a", "value": 1}},
        {"id": 1, "entry": {"key": "b", "value": None}},
        {"id": 3, "entry": {"key": "c", "value": 3}},
    ]


def test_lists_side_by_side() -> None:
    """Shorter lists are extended with nulls. Elements are numbered."""
    table = pa.table({"a": [[1, 2, 3], None, [], [4]], "k": [1, 2, 3, 4], "b": [["x"], ["y", "z"], None, []]})
    builder = PlanBuilder().values(table)
    assert run(builder.unnest({"a": "x", "b": "y"}, ordinality="n")).to_pydict() == {
        "x": [1, 2, 3, None, None, 4],
        "k": [1, 1, 1, 2, 2, 4],
        "y": ["x", None, None, "y", "z", None],
        "n": [1, 2, 3, 1, 2, 1],
    }
    outer = run(builder.unnest(["a", "b"], outer=True, ordinality="n")).to_pydict()
    assert outer["k"] == [1, 1, 1, 2, 2, 3, 4] and outer["n"] == [1, 2, 3, 1, 2, None, 1]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_within_a_plan(threads: int, duck: Any) -> None:
    """Q2: above joins and filters, below aggregates, and next to nested columns."""
    table = table_of(2000).append_column("t", pa.array(lists(2000, 2), pa.list_(pa.int64())))
    names = pa.table({"id": range(0, 2000, 3), "name": [f"name {i}" for i in range(0, 2000, 3)]})
    plan = PlanBuilder().values(table).local_partition().hash_join(PlanBuilder().values(names), "id", suffix="_2")
    unnested = plan.filter(col("id") % 2 == 0).unnest("l").filter((col("l") > 100) & (col("id") > 50))
    duck.register("t", table)
    duck.register("names", names)
    inner = "select id, unnest(l) as l, t, name from t join names using (id) where id % 2 = 0"
    base = f"from ({inner}) where l > 100 and id > 50"
    assert_same_rows(
        run(unnested.project(["id", "l", "t", "name"]), threads), duck.sql(f"select id, l, t, name {base}")
    )
    assert_same_rows(
        run(unnested.aggregate(["name"], {"s": ("sum", "l"), "n": ("count",)}), threads),
        duck.sql(f"select name, sum(l), count(*) {base} group by name"),
    )
    assert_same_rows(run(unnested.aggregate(aggs={"n": ("count",)}), threads), duck.sql(f"select count(*) {base}"))
    twice = PlanBuilder().values(table).unnest("l").unnest({"t": "u"})
    assert_same_rows(
        run(twice, threads),
        duck.sql("select id, l, s, unnest(t) as u from (select id, unnest(l) as l, s, t from t)"),
    )


def test_a_long_list_in_bounded_memory() -> None:
    """V13: a row with a million elements is returned in batches of bounded size."""
    table = pa.table({"id": [1, 2, 3], "l": pa.array([[0], list(range(1_000_000)), [5]])})

    builder = PlanBuilder().values(table).unnest("l")
    batches = list(qcore.Task(builder.build(), drivers=1).batches())
    assert max(batch.num_rows for batch in batches) <= 32_768
    assert pa.Table.from_batches(batches)["l"].to_pylist() == [0, *range(1_000_000), 5]
    task = qcore.Task(builder.aggregate(aggs={"s": ("sum", "l"), "i": ("sum", "id")}).build(), drivers=1)
    assert next(task.batches()).to_pylist() == [{"s": 499_999_500_005, "i": 2_000_004}]
    (counters,) = [one for one in task.stats()["pipelines"][0]["operators"] if one["name"] == "Unnest"]
    assert counters["peak_bytes"] < 2_000_000 and counters["output_rows"] == 1_000_002


def test_a_limit_stops_it() -> None:
    """V8."""
    table = pa.table({"l": [list(range(100_000))] * 50})
    assert run(PlanBuilder().values(table).unnest("l").limit(10)).num_rows == 10


def test_filters_on_other_columns_go_below() -> None:
    plan = PlanBuilder().values(table_of(100)).unnest("l").filter((col("id") > 3) & (col("l") > 5))
    text = qcore.Session(threads=1).execute(plan.build()).explain()
    lines = [line.strip("│└├─ ").split("  ")[0] for line in text.splitlines()[1:]]
    assert [line.split()[0] for line in lines] == ["Filter", "Unnest", "Filter", "Values"], text
    assert "Unnest [l]" in text


def test_unused_columns_are_left_out() -> None:
    plan = PlanBuilder().values(table_of(100)).unnest({"l": "e"}).project(["e"])
    assert "Values 100 rows [l]" in qcore.Session(threads=1).execute(plan.build()).explain()


def test_a_schema_that_changes() -> None:
    """D6: columns in another order, and elements of another type."""
    first = pa.record_batch({"id": [1], "l": pa.array([[1, 2]], pa.list_(pa.int64()))})
    second = pa.record_batch({"l": pa.array([[3]], pa.list_(pa.int64())), "id": [2]})
    plan = PlanBuilder().values(pa.Table.from_batches([first])).unnest("l").build()

    def compile(schema: Any) -> Any:
        from qcore.lowering.pipelines import compile_unnest

        return compile_unnest(plan, pa.schema(schema))

    batches = run_chain([Unnest("1", Account(), compile)], [first, second])
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {"id": 1, "l": 1},
        {"id": 1, "l": 2},
        {"id": 2, "l": 3},
    ]
    text = pa.record_batch({"id": [1], "l": [["a"]]})
    with pytest.raises(qcore.SchemaChangeError, match=r"Unnest \(node 1\): column 'l'"):
        run_chain([Unnest("1", Account(), compile)], [first, text])
    dropped = run_chain([Unnest("1", Account(), compile)], [first, pa.record_batch({"l": [[9]]})])
    assert dropped[-1].to_pylist() == [{"id": None, "l": 9}]


def test_offsets_past_the_elements_are_an_error() -> None:
    """Bad input: memory after the elements is not read."""
    offsets = np.array([0, 2, 3], np.int32)
    values = pa.array([1, 2, 3], pa.int64())
    broken = pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, pa.py_buffer(offsets)], children=[values])
    builder = PlanBuilder().values(pa.table({"l": broken})).unnest("l")
    offsets[2] = 9
    message = r"Unnest \(node 0\): an Arrow list array names elements it does not have"
    with pytest.raises(qcore.ExecutionError, match=message):
        run(builder)


def test_wrong_use_is_refused() -> None:
    builder = PlanBuilder().values(table_of(3))
    for message, call in {
        "column 'id' is int64; only lists and maps": lambda: builder.unnest("id"),
        "unknown column 'z'": lambda: builder.unnest("z"),
        "1 to 16 lists, not 0": lambda: builder.unnest([]),
        "two columns are named 'id'": lambda: builder.unnest({"l": "id"}),
        "two columns are named 's'": lambda: builder.unnest("l", ordinality="s"),
        "two columns are named 'l'": lambda: builder.unnest(["l", "l"]),
    }.items():
        with pytest.raises(qcore.PlanError, match=message):
            call()


# --- SQL ---

PEOPLE = pa.table(
    {
        "id": [1, 2, 3, 4],
        "name": ["ann", "bob", "cyd", None],
        "l": [[3, 1], [], None, [7, None, 3]],
        "m": [["x"], ["y", "z"], None, ["w"]],
        "Tags": [["p"], None, ["q", "r"], []],
    }
)
QUERIES = [
    "select id, unnest(l) as e from t",
    "select unnest(l) from t",
    "select id as k, name n, unnest(l) * 2 + 1 as e, unnest(m) as s from t where id <> 3",
    "select *, unnest(l) as e from t",
    "select distinct unnest(l) as e from t",
    "select unnest(l) as e from t order by e desc nulls last limit 2",
    "select e, count(*) as n, sum(id) as s from (select id, unnest(l) as e from t) where e > 1 group by e",
    "select count(*) from (select unnest(l) from t)",
    "with x as (select id, unnest(m) as s from t) select x.s, t.name from x join t on x.id = t.id",
    "select name, unnest(array_agg(id)) as i from t group by name",
    "select unnest(l) as e from t union all select id from t",
    "select unnest(l) as e from t except select 3",
    "select t.id, u.e from t, unnest(t.l) as u(e)",
    "select id, e from t cross join unnest(l) as u(e) where e > 2 and t.id > 0",
    "select u.e + t.id as s, t.name from t, unnest(l) u(e) where u.e is not null order by u.e, t.id",
    "select a.id, u.e from (select id, l from t where id > 1) as a, unnest(a.l) as u(e)",
    "select t.id, u.e from t left join unnest(t.l) as u(e) on true",
    "select sum(u.e) from t, unnest(t.l) as u(e) group by t.name having sum(u.e) > 4",
    "select id from t where id in (select unnest(l) from t)",
    'select id, unnest("Tags") as tag from t',
]


@pytest.mark.parametrize("query", QUERIES)
def test_sql(query: str, duck: Any) -> None:
    """Q1, Q2: UNNEST in the select list and among the tables, against DuckDB."""
    duck.register("t", PEOPLE)
    expected = duck.sql(query).to_arrow_table()
    session = qcore.Session(threads=2)
    session.register("t", PEOPLE)
    found = session.sql(query).to_arrow()
    assert_same_rows(found, expected, ordered="order by" in query)
    if "count(*) from" not in query and "sum(u.e) from" not in query:
        assert found.column_names == expected.column_names


def test_sql_with_ordinality() -> None:
    """WITH ORDINALITY of PostgreSQL, which DuckDB lacks."""
    session = qcore.Session(threads=1)
    session.register("t", PEOPLE)
    query = "select t.id, u.e, u.n from t, unnest(t.l) with ordinality as u(e, n) order by t.id, u.n"
    assert [tuple(row.values()) for row in session.sql(query).to_arrow().to_pylist()] == [
        (1, 3, 1),
        (1, 1, 2),
        (4, 7, 1),
        (4, None, 2),
        (4, 3, 3),
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select unnest(id) from t", "unnest takes a list or a map, not int64, line 1"),
        ("select unnest(nosuch) from t", "unknown column 'nosuch'"),
        ("select id from t where unnest(l) > 1", "unnest cannot be in WHERE; write it in a select list or"),
        ("select unnest(l, m) from t", "unnest in a select list takes one list or map and no options"),
        ("select unnest() from t", "unnest in a select list takes one list or map and no options"),
        ("select id from t, unnest(l) as u(a, b)", "'u' has 1 columns, and 2 names are given"),
        ("select id from t right join unnest(l) as u(a) on true", "joined by a comma, CROSS JOIN or LEFT JOIN"),
        ("select id from t left join unnest(l) as u(a) on a > 1", "takes ON TRUE"),
    ],
)
def test_sql_that_is_refused(query: str, message: str) -> None:
    """Bad input: a PlanError with the reason."""
    with pytest.raises(qcore.PlanError, match=message):
        qcore.sql(query, {"t": PEOPLE})
