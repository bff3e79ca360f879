"""Lists, structs and maps cast to text in DuckDB's format. SPEC Q3."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.lowering.nested_text import nested_text

LETTERS = [chr(code) for code in (*range(1, 128), 0xE9, 0x3000)]
WORDS = ["", "NULL", "nUll", "null ", "plain", "two words", "it's", 'say "x"', *LETTERS]
WORDS += [f"a{letter}" for letter in LETTERS] + [f"a{letter}b" for letter in LETTERS]
N = len(WORDS)
T = pa.table({
    "s": [None if i % 17 == 3 else word for i, word in enumerate(WORDS)],
    "i": pa.array([None if i % 5 == 2 else i * 37 for i in range(N)], pa.int64()),
    "f": [None if i % 7 == 1 else i / 4 for i in range(N)],
    "d": [None if i % 9 == 4 else Decimal(i) / 100 for i in range(N)],
    "b": [None if i % 4 == 2 else i % 2 == 0 for i in range(N)],
    "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(N)],
    "ts": [datetime.datetime(2024, 1, 1) + datetime.timedelta(milliseconds=i * 1250) for i in range(N)],
    "l": [None if i % 6 == 5 else [["x y"], [], None, ["a,b", None]][: i % 5] for i in range(N)],
    "m": pa.array(
        [None if i % 8 == 7 else [(f"k{j}", j or None) for j in range(i % 4)] for i in range(N)],
        pa.map_(pa.string(), pa.int64()),
    ),
    "st": [None if i % 10 == 9 else {"it's": i, "b c": {"x": [i, None]}} for i in range(N)],
})  # fmt: skip
QUERIES = [
    "select cast([s, 'b c', null, '', 'x,y'] as varchar) as a from t",
    "select cast({'k': s, 'n': i} as varchar) as a from t",
    "select cast(map {coalesce(s, 'x'): i} as varchar) as a, cast(map {1: s} as varchar) as b from t",
    "select cast([i, null] as varchar) as a, [i]::text || 'x' as b from t",
    "select cast([f, 1.0] as varchar) as a, cast([d, 1.5] as varchar) as b, cast([b] as varchar) as c from t",
    "select cast([day] as varchar) as a, cast([ts] as varchar) as b, cast([to_hours(i)] as varchar) as c from t",
    "select cast(l as varchar) as a, cast(m as varchar) as b, cast(st as varchar) as c from t",
    "select cast(l as varchar) as a, cast(m as varchar) as b, cast(st as varchar) as c from t where i % 3 = 1",
    "select cast([1, 2, 3] as varchar) as a, cast(['a', '', null, 'x\\y', 'q\"q'] as varchar) as b",
    "select cast({'a': [1, 2], 'b': 'x y'} as varchar) as a, cast([]::int[] as varchar) as b",
    "select cast(array_agg(i order by i) as varchar) as a from t where i < 400",
    "select try_cast([i] as varchar) as a from t",
]


@pytest.mark.parametrize("query", QUERIES)
def test_q3_as_duckdb(query: str) -> None:
    duck = duckdb.connect()
    duck.register("t", T)
    actual = qcore.sql(query, {"t": T}, dialect="duckdb").to_arrow()
    assert_same_rows(actual, duck.sql(query).to_arrow_table())


@pytest.mark.parametrize("literal", [
    "timestamp '2024-01-01 10:00:00'", "timestamp '2024-01-01 10:00:00.5'", "time '10:00:00'", "date '2024-01-01'",
    "1e20::double", "1.5e-7::double", "1.50", "true", "42",
])  # fmt: skip
def test_q3_a_constant_is_written_as_a_column_is(literal: str) -> None:
    query = f"select cast(c as varchar) as a, cast({literal} as varchar) as b, {literal} || '' as d from x"
    table = qcore.sql(f"select {literal} as c", {}).to_arrow()
    (row,) = qcore.sql(query, {"x": table}).to_arrow().to_pylist()
    (expected,) = duckdb.sql(f"select {literal} || ''").fetchall()
    assert set(row.values()) == set(expected)


@pytest.mark.parametrize(
    "whole",
    [
        pa.array([[(1, 5)], None, [(2, 6), (3, None)], [(4, 7)]], pa.map_(pa.int64(), pa.int64())),
        pa.array([[1], None, [2, None], [4]], pa.list_(pa.int64())),
        pa.array([[1], None, [2, None], [4]], pa.large_list(pa.int64())),
    ],
)
def test_a_slice_costs_its_own_rows_only(whole: pa.Array) -> None:
    """A long batch is formatted in slices, which all share the buffers of the batch."""
    written = 0

    def leaf_text(values: pa.Array) -> pa.Array:
        nonlocal written
        written += len(values)
        return values.cast(pa.string())

    expected = nested_text(whole, leaf_text)
    in_all, written = written, 0
    assert [text for row in range(len(whole)) for text in nested_text(whole[row : row + 1], leaf_text)] == expected
    assert written == in_all
    assert [text for start in (0, 2) for text in nested_text(whole[start : start + 2], leaf_text)] == expected
