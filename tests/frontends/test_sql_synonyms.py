"""Words, signs and numbers of other dialects, against DuckDB. SPEC Q1, Q2."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

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


def test_what_duckdb_reads_otherwise() -> None:
    # As in PostgreSQL: DuckDB takes 0x1F for a 0 called x1F.
    assert answer("select 0x1F as a, 0Xff as b").to_pylist() == [{"a": 31, "b": 255}]
    assert answer("select b is unknown as a, every(b) as c from t group by b order by b").to_pylist() == [
        {"a": False, "c": False}, {"a": False, "c": True}, {"a": True, "c": None},
    ]  # fmt: skip


def test_names_that_are_words() -> None:
    """A column may be called as a type or a join is."""
    table = {"semi": pa.table({"dec": [1], "blob": [2], "long": [4]})}
    text = "select dec, blob as long, semi.long as binary from semi where dec in (1) and (blob) in (2)"
    assert qcore.sql(text, table).to_arrow().to_pylist() == [{"dec": 1, "long": 2, "binary": 4}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select * from t positional join u", "POSITIONAL JOIN is not supported"),
        ("select i from t order by i fetch first 2 rows with ties", "WITH TIES"),
        ("select i from t where (i, s) in ((1, 'a'), (1, 2, 3))", "a row of 2 values with a row of 3 values, line 1"),
    ],
)
def test_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        answer(text)
