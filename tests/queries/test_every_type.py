"""Every Arrow type in every kind of operator, compared with DuckDB (SPEC Q3)."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from sweeps import every

NAN, INF = math.nan, math.inf
NUMBERS = [Decimal("1.5"), None, Decimal("-9.9"), Decimal("1.5"), Decimal(0), Decimal(2)]
TEXTS = ["a", None, "", "é日本", "a", "longer than twelve bytes"]
BYTES = [b"a", None, b"", b"\x00\xff", b"a", b"longer than twelve bytes"]
DATES = [
    dt.date(2020, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 1, 1), dt.date(1969, 12, 31)
]  # fmt: skip
LISTS = [[1], None, [], [1, None], [1], [2, 3]]


def whole(bits: int, signed: bool) -> pa.Array:
    type_ = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return pa.array([1, None, low, high, 1, 5], type_)


def ticks(type_: pa.DataType, last: int, unit: int = 1) -> pa.Array:
    return pa.array([unit, None, -unit if last > 86_400_000_000_000 else 0, last, unit, 5 * unit], type_)


# Each column has six rows: two are equal, one is null.
COLUMNS: dict[str, pa.Array] = {
    "bool": pa.array([True, None, False, True, False, None]),
    **{f"int{bits}": whole(bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": whole(bits, False) for bits in (8, 16, 32, 64)},
    "float16": pa.array(np.array([1, 0, -2.5, 65504, 1, 0], np.float16)),
    "float32": pa.array([1.5, None, NAN, -0.0, 0.0, INF], pa.float32()),
    "float64": pa.array([1.5, None, NAN, -0.0, 0.0, -INF], pa.float64()),
    "decimal32": pa.array(NUMBERS, pa.decimal32(5, 1)),
    "decimal64": pa.array(NUMBERS, pa.decimal64(12, 1)),
    "decimal128": pa.array(NUMBERS, pa.decimal128(38, 2)),
    "string": pa.array(TEXTS),
    "large_string": pa.array(TEXTS, pa.large_string()),
    "string_view": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of integers": pa.array([1, None, 3, 5, 1, 9]).dictionary_encode(),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4, 6], pa.int32()), pa.array([1, None, 3])),
    "binary": pa.array(BYTES),
    "large_binary": pa.array(BYTES, pa.large_binary()),
    "binary_view": pa.array(BYTES, pa.binary_view()),
    "fixed_size_binary": pa.array([b"abcd", None, b"\0\0\0\0", b"zzzz", b"abcd", b"abce"], pa.binary(4)),
    "date32": pa.array(DATES),
    "date64": pa.array(DATES, pa.date64()),
    "time32 s": ticks(pa.time32("s"), 86_399),
    "time32 ms": ticks(pa.time32("ms"), 86_399_999),
    "time64 us": ticks(pa.time64("us"), 86_399_999_999),
    "time64 ns": ticks(pa.time64("ns"), 86_399_999_999_000, 1000),
    "timestamp s": ticks(pa.timestamp("s"), 10**9),
    "timestamp ms": ticks(pa.timestamp("ms"), 10**12),
    "timestamp us": ticks(pa.timestamp("us"), 10**15),
    "timestamp ns": ticks(pa.timestamp("ns"), 10**18, 1000),
    "timestamp of a zone": ticks(pa.timestamp("us", "Europe/Berlin"), 10**15),
    "duration us": ticks(pa.duration("us"), 10**14),
    "duration ns": ticks(pa.duration("ns"), 10**15, 1000),
    "interval": pa.array(
        [(1, 2, 3000), None, (0, 0, 0), (13, 1, 0), (1, 2, 3000), (0, 1, 0)], pa.month_day_nano_interval()
    ),
    "null": pa.nulls(6),
    "list": pa.array(LISTS),
    "large_list": pa.array(LISTS, pa.large_list(pa.int64())),
    "fixed_size_list": pa.array([[1, 2], None, [0, 0], [1, None], [1, 2], [2, 3]], pa.list_(pa.int64(), 2)),
    "list_view": pa.array(LISTS, pa.list_view(pa.int64())),
    "list of string views": pa.array([["a"], None, [], ["a", None], ["a"], TEXTS], pa.list_(pa.string_view())),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 2, "b": None}, {"a": 1, "b": "x"}, {"a": 0, "b": ""}]
    ),
    "map": pa.array([[("a", 1)], None, [], [("b", None)], [("a", 1)], [("c", 3)]], pa.map_(pa.string(), pa.int64())),
    "list of structs": pa.array([[{"a": 1}], None, [], [{"a": None}], [{"a": 1}], [{"a": 3}]]),
}  # fmt: skip

QUERIES = {
    "scan": "select i, x from t order by i",
    "is null": "select i, x is null n from t where x is not null or i < 3 order by i",
    "group by": "select x, count(*) n from t group by x",
    "distinct": "select distinct x from t",
    "count": "select count(x) c, count(distinct x) n, count(x) filter (where i > 1) f from t",
    "min": "select min(x) a, max(x) b from t",
    "order by": "select i, x from t order by x desc nulls last, i",
    "top n": "select i, x from t order by x nulls first, i limit 3",
    "join": "select t.i a, u.i b from t join u on t.x = u.x",
    "full join": "select t.i a, u.i b from t full join u on t.x = u.x and t.i < 3",
    "in": "select i from t where x in (select x from u where i > 2)",
    "not in": "select i from t where x not in (select x from u where i > 2)",
    "union": "select x from t union select x from u",
    "except": "select x from t except select x from u where i > 2",
    "intersect": "select x from t intersect select x from u where i > 0",
    "scalar": "select i from t where x = (select x from u where i = 0)",
    "less": "select t.i a, u.i b from t, u where t.x < u.x",
    "distinct from": "select t.i a, u.i b from t, u where t.x is distinct from u.x",
    "lag": "select i, lag(x) over (order by i) l, first_value(x) over (order by i desc) f from t",
    "partition": "select i, count(*) over (partition by x) c from t",
    "rank": "select i, rank() over (order by x) r, count(*) over (order by x) c from t",
    "case": "select i, case when i > 2 then x end y, coalesce(x, x) z from t",
    "text": "select i, cast(x as varchar) s from t",
    "kept": "select any_value(x) a, array_agg(x order by i) l from t",
}
SUMS = "select sum(x) s, avg(x) a from t"

NESTED = {
    "list",
    "large_list",
    "fixed_size_list",
    "list_view",
    "struct",
    "map",
    "list of structs",
    "list of string views",
}
# Unsupported combinations and their messages.
REFUSED: dict[tuple[str, str], str] = {}


@pytest.mark.parametrize("name", every(4, COLUMNS))
def test_q3_a_type_goes_everywhere(name: str) -> None:
    """Q3: the answer is DuckDB's, or the type is refused and listed above."""
    column = COLUMNS[name]
    table = pa.table({"i": range(6), "x": column})
    session = qcore.Session()
    oracle = duckdb.connect()
    oracle.execute("set timezone = 'Europe/Berlin'")
    # DuckDB has no float16. float32 holds all of its values.
    known_there = table.set_column(1, "x", column.cast(pa.float32())) if name == "float16" else table
    for alias in ("t", "u"):
        session.register(alias, table)
        oracle.register(alias, known_there)
    for query, text in QUERIES.items():
        if query == "text" and "binary" in name:
            continue  # below
        refused = REFUSED.get((name, query))
        if refused is not None:
            with pytest.raises(qcore.QcoreError, match=refused):
                session.sql(text).to_arrow()
            continue
        ordered = query in ("scan", "is null", "order by", "top n")
        assert_same_rows(session.sql(text), oracle.sql(text), ordered=ordered, rel_tol=0, abs_tol=0)


@pytest.mark.parametrize(
    "name", [name for name in COLUMNS if name.startswith(("int", "uint", "float", "decimal")) and name != "interval"]
)
def test_q3_sums_and_averages(name: str) -> None:
    """Q3: sums of integers and decimals are exact. A sum that does not fit in 64 bits is an error."""
    table = pa.table({"x": COLUMNS[name]})
    session = qcore.Session()
    session.register("t", table)
    if name == "uint64":
        # The largest value and two ones.
        with pytest.raises(qcore.ExecutionError, match="sum does not fit its result type"):
            session.sql(SUMS).to_arrow()
        text = "select avg(x) a from t"
    else:
        text = SUMS
    oracle = duckdb.connect()
    oracle.register("t", table.set_column(0, "x", table["x"].cast(pa.float32())) if name == "float16" else table)
    assert_same_rows(session.sql(text), oracle.sql(text), rel_tol=0, abs_tol=0)


@pytest.mark.parametrize("name", ["binary", "large_binary", "binary_view", "fixed_size_binary"])
def test_q3_bytes_are_text_where_they_are_utf8(name: str) -> None:
    """Q3: bytes that are not UTF-8 are an error in a cast to text, and null in try_cast."""
    column = COLUMNS[name]
    session = qcore.Session()
    session.register("t", pa.table({"x": column}))
    try:
        wanted = [None if value is None else value.decode() for value in column.to_pylist()]
    except UnicodeDecodeError:
        with pytest.raises(qcore.ExecutionError, match=r"cast\(b'.x00.xff'\): Invalid UTF8"):
            session.sql("select cast(x as varchar) s from t").to_arrow()
        wanted = ["a", None, "", None, "a", "longer than twelve bytes"]
    assert session.sql("select try_cast(x as varchar) s from t").to_arrow()["s"].to_pylist() == wanted


def test_q3_columns_that_a_window_passes_on_keep_their_bits() -> None:
    """Q3: -0.0 in a list equals 0.0 in a key, and is not changed in a value."""
    session = qcore.Session()
    session.register("t", pa.table({"i": [0, 1], "x": [[-0.0], [0.0]]}))
    query = "select i, x, lag(x) over (order by i) l, count(*) over (partition by x) n from t order by i"
    first, second = session.sql(query).to_arrow().to_pylist()
    assert [math.copysign(1, value) for value in (*first["x"], *second["l"], *second["x"])] == [-1, -1, 1]
    assert (first["n"], second["n"]) == (2, 2)
