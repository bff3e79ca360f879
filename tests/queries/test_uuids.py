"""The type UUID in SQL, in Arrow tables and in Parquet files, against DuckDB. SPEC Q2, Q3."""

from __future__ import annotations

import uuid
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore

A = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
FIVE = "00000000-0000-0000-0000-000000000005"
VALUES = [uuid.UUID(A), None, uuid.UUID(FIVE), uuid.UUID(int=2**128 - 1), uuid.UUID(A)]
T = pa.table({
    "u": pa.array(VALUES, pa.uuid()),
    "v": pa.array(VALUES[::-1], pa.uuid()),
    "s": [None if value is None else str(value) for value in VALUES],
    "i": [1, 2, 3, 4, 5],
})  # fmt: skip


def rows(text: str, **settings: object) -> list[str]:
    made = qcore.sql(text, {"t": T}, **settings).to_arrow()
    return sorted(map(repr, zip(*(column.to_pylist() for column in made.columns), strict=True)))


def expected(text: str) -> list[str]:
    connection = duckdb.connect()
    connection.register("t", T)
    return sorted(map(repr, connection.sql(text).fetchall()))


SINGLE = [
    f"select uuid '{A.upper()}' as a, '{{{A}}}'::uuid as b, cast('{A.replace('-', '')}' as uuid) as c",
    "select u, u::varchar as a, s::uuid as b, s::uuid::varchar as c, u::blob as d, u::blob::uuid as e from t",
    "select try_cast(s || 'x' as uuid) as a, try_cast('x' as uuid) as b, null::uuid as c from t",
    "select u = s as a, u < v as b, u >= v as c, u <> v as d, u is distinct from v as e from t",
    f"select u = '{A}' as a, u > '{FIVE}' as b, u in ('{A}', '{FIVE}') as c, u not in ('{A}', null) as d from t",
    f"select u in (v, '{FIVE}') as a, u between '{FIVE}' and v as b, u in ('{FIVE}') as c from t",
    f"select coalesce(u, '{FIVE}') as a, case when i > 2 then u else v end as b, nullif(u, v) as c from t",
    "select greatest(u, v) as a, least(u, v) as b, ifnull(u, v) as c, if(i > 2, u, v) as d from t",
    f"select case u when v then 1 when '{A}' then 2 end as a from t",
    "select typeof(u) as a, typeof([u]) as b, typeof(null::uuid) as c, typeof(uuid()) as d from t",
    "select u || 'x' as a, u || v as b, concat(u, 1, v) as c, concat_ws('/', u, v) as d, format('{}', u) as e from t",
    f"select * from (values ('{A}'::uuid), (null)) as x(u)",
    "select u from t union select v from t",
    "select u from t union all select s from t",
    "select u from t except select v from t where i > 3",
    "select u from t intersect select v from t",
]
WHOLE = [
    "select min(u) as a, max(v) as b, count(distinct u) as c, mode(u) as d, quantile_disc(u, 0.5) as e from t",
    "select arg_max(i, u) as a, arg_min(u, v) as b, string_agg(u, ',' order by u) as c, max(u, 2) as d from t",
    "select u, v, count(*) as n, sum(i) as s from t group by u, v",
    "select u, grouping(u) as g, count(*) as n from t group by rollup (u)",
    "select distinct u from t order by u desc nulls last limit 3",
    "select a.u, b.v as w, a.i from t a join t b on a.u = b.v",
    "select a.u, b.v as w from t a full join t b on a.u = b.v and a.i < b.i",
    "select a.u, b.v as w from t a asof join t b on a.u >= b.v",
    "select a.u from t a anti join t b on a.u = b.v",
    "select count(*) as n from t a, t b where a.u < b.v",
    "select u from t where u = any(select v from t)",
    "select (select max(v) from t b where b.v <= t.u) as a from t",
    "select u, i, rank() over (partition by u order by i) as r, lag(u) over (order by i) as a from t",
    "select max(u) over (order by i rows 1 preceding) as a, lead(u, 1, v) over (order by i) as b from t",
    f"select * from t pivot (count(i) for u in ('{A}'))",
]
NESTED = [
    "select [u, v] as a, {'a': u, 'b': [v]} as b, [u]::varchar as c, [u, v]::varchar[] as d from t",
    f"select ['{A}']::uuid[] as a, [u, '{A}'] as b from t",
    "select [u, v][1] as a, {'a': u}.a as b, list_sort([u, v]) as c, list_contains([u, v], u) as d from t",
    "select [u] || [v] as a, list_append([u], v) as b, list_position([u, v], v) as c, flatten([[u], [v]]) as d from t",
    f"select map([u], [i])['{A}'] as a, map_keys(map([u], [i])) as b from t where u is not null",
    "select list_transform([u, v], lambda x: x::varchar) as a from t",
    f"select list_filter([u, v], lambda x: x > '{FIVE}') as a from t",
    "select coalesce([u], [v]) as a, case when i > 1 then [u] else [v] end as b, [u] = [v] as c from t",
    "select list(u order by i) as a, array_agg(distinct u order by u) as b, map_keys(histogram(u)) as c from t",
    "select unnest([u, v]) as a, i from t",
    "select [u, v] as l, count(*) as n from t group by l",
    "select max([u]) as a, min({'a': u}) as b from t",
    "select lag([u]) over (order by i) as a, array_agg(u) over (order by i) as b from t",
    "select (u, i) in (select v, i from t) as a, row(u, i) = row(v, i) as b from t",
    "select a.u from t a join t b on [a.u] = [b.v]",
]


@pytest.mark.parametrize("text", [*SINGLE, *WHOLE, *NESTED])
def test_answers_equal_duckdb(text: str) -> None:
    """Q3: with one driver and with several."""
    assert rows(text, threads=1) == expected(text)
    assert rows(text, threads=4) == expected(text)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("u", pa.uuid()),
        ("[u]", pa.list_(pa.uuid())),
        ("{'a': [u]}", pa.struct([("a", pa.list_(pa.uuid()))])),
        ("coalesce(u, s)", pa.uuid()),
        ("u || s", pa.string()),
        ("u::blob", pa.binary()),
    ],
)
def test_types_of_results(text: str, type_: pa.DataType) -> None:
    assert qcore.sql(f"select {text} as a from t", {"t": T}).to_arrow().schema.types == [type_]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u = 'x'", "cannot cast 'x' of type string to uuid"),
        ("u in ('x', 'y')", "cannot cast 'x' of type string to uuid"),
        ("'abcd'::blob::uuid", "cannot cast b'abcd' of type binary to uuid"),
        ("u = i", "uuid and int64 have nothing in common"),
        ("-u", r"negate\(uuid\) is not defined: it takes numbers"),
        ("sum(u)", r"sum\(uuid\) is not defined: it takes numbers"),
        ("length(u)", r"length\(uuid\) is not defined: it takes text"),
        ("u::date", "cannot cast uuid to date32"),
        ("u in (select s from t)", r"join keys u \(uuid\) and .* \(string\) cannot be compared; cast one"),
    ],
)
def test_other_types_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(qcore.QcoreError, match=message):
        qcore.sql(f"select {text} as a from t", {"t": T}).to_arrow()


def test_tables_of_uuids() -> None:
    session = qcore.Session()
    session.sql("create table m (u uuid, i int)")
    session.sql(f"insert into m values ('{A}', 1), (uuid '{FIVE}', 2), (null, 3)")
    session.register("t", T)
    session.sql("insert into m select s, i from t")
    assert session.sql("select u from m where i < 3 order by all").to_arrow()["u"].to_pylist() == [
        uuid.UUID(FIVE), uuid.UUID(A), uuid.UUID(A), None,
    ]  # fmt: skip
    described = session.sql("describe m").to_arrow().to_pylist()
    assert [(row["column_name"], row["column_type"]) for row in described] == [("u", "uuid"), ("i", "int32")]
    with pytest.raises(qcore.QcoreError, match="cannot cast 'x' of type string to uuid"):
        session.sql("insert into m values ('x', 1)")


def test_encoded_and_sliced_tables() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(VALUES[:2], pa.uuid()))
    made = qcore.sql("select u, count(*) as n from d group by u", {"d": pa.table({"u": encoded})}).to_arrow()
    assert {(row["u"], row["n"]) for row in made.to_pylist()} == {(VALUES[0], 2), (None, 1)}
    sliced = pa.concat_tables([T.slice(1, 3), T.slice(4)])
    assert qcore.sql("select u, [u] as l from d", {"d": sliced}).to_arrow().to_pylist() == [
        {"u": value, "l": [value]} for value in VALUES[1:]
    ]


@pytest.mark.parametrize("where", ["i > 9", "false", "u = v and u <> v"])
def test_no_rows(where: str) -> None:
    """Q3: pyarrow makes no empty arrays of lists of UUIDs."""
    result = qcore.sql(f"select u, [u] as l, {{'a': [u]}} as st from t where {where}", {"t": T})
    made = result.to_arrow()
    assert made.num_rows == 0
    assert made.schema.types == [pa.uuid(), pa.list_(pa.uuid()), pa.struct([("a", pa.list_(pa.uuid()))])]
    again = qcore.sql("select l, list(st) as a from r where l = [null] group by l", {"r": made}).to_arrow()
    assert again.num_rows == 0


@pytest.mark.parametrize("writer", ["duckdb", "qcore", "pyarrow"])
def test_parquet_files(writer: str, tmp_path: Path) -> None:
    """Q3: the files have the logical type, and each reads those of the others, also inside nested columns."""
    path, query = tmp_path / "u.parquet", "select u, i, [u] as l, {'a': v} as st from t"
    if writer == "duckdb":
        connection = duckdb.connect()
        connection.register("t", T)
        connection.sql(query).write_parquet(str(path))
    elif writer == "qcore":
        session = qcore.Session()
        session.register("t", T)
        session.sql(f"copy ({query}) to '{path}'").to_arrow()
    else:
        pq.write_table(qcore.sql(query, {"t": T}).to_arrow(), path)
    assert pq.read_metadata(path).schema.column(0).logical_type.type == "UUID"
    made = qcore.sql(f"select * from '{path}'", {}).to_arrow()
    assert made.schema.types[:2] == [pa.uuid(), pa.int64()]
    assert made.schema.field("l").type.value_type == made.schema.field("st").type.field(0).type == pa.uuid()
    for text in (
        f"select typeof(u) as a, typeof(l) as b, * from '{path}'",
        f"select u from '{path}' where u = '{A}'",
        f"select u, i from '{path}' where u between '{FIVE}' and '{A}' order by i limit 2",
        f"select u, count(*) as n from '{path}' group by u",
        f"select a.i from '{path}' a join t on a.u = t.v",
    ):
        assert rows(text, threads=1) == expected(text)
