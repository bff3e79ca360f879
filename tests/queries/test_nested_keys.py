"""Lists, structs and maps as keys of orders, groups and joins, against DuckDB. SPEC Q2, Q3."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.functions.arrow.nested_values import decode_value, encode_value

_random = random.Random(9)
STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
NESTED = pa.list_(pa.list_(pa.int16()))


def _value(make: Any) -> Any:
    return None if _random.random() < 0.2 else make()


def _list() -> list[Any]:
    return [_value(lambda: _random.randrange(-2, 3)) for _ in range(_random.randrange(4))]


def table(n_rows: int) -> pa.Table:
    columns = {
        "id": (pa.int64(), [*range(n_rows)]),
        "l": (pa.list_(pa.int32()), [_value(_list) for _ in range(n_rows)]),
        "n": (NESTED, [_value(lambda: [_value(_list) for _ in range(_random.randrange(3))]) for _ in range(n_rows)]),
        "s": (STRUCT, [
            _value(lambda: {"x": _value(lambda: _random.randrange(3)), "y": _value(lambda: _random.choice("ab"))})
            for _ in range(n_rows)
        ]),
    }  # fmt: skip
    return pa.table({name: pa.array(values, type_) for name, (type_, values) in columns.items()})


T = table(300)
U = T.set_column(1, "l", T["l"].cast(pa.large_list(pa.int32())))
QUERIES = [
    "select id from t order by l nulls last, id",
    "select id, n from t order by n desc nulls first, id limit 20 offset 3",
    "select id, s from t order by s nulls last, l desc nulls last, id",
    "select l, count(*), sum(id) from t group by l",
    "select s, n, min(id) from t group by s, n",
    "select count(*) from t group by s",
    "select a.id, b.id as other from t a join t b on a.s = b.s and a.id < b.id",
    "select a.id from t a where exists (select 1 from t b where b.l = a.l and b.id > a.id)",
    "select distinct l from t",
    "select a.id, b.id as other from t a join u b on a.l = b.l and a.id < b.id",
    # Only whether the value is null matters.
    "select count(l), count(s) filter (where n is null), count(*) from t where s is not null or l is null",
    # The most frequent value, or the first of several.
    "select mode(l order by id), mode(s order by id desc), mode(n order by id) filter (where id > 20) from t",
    "select id % 7, mode(l order by id), mode(s order by id) filter (where l is null) from t group by 1 order by 1",
    "select id % 7 as k, id % 3 as j, mode(l order by id) from t group by rollup (1, 2) order by 1, 2",
    # Windows return them, and partition and sort by them.
    "select id, l, s, rank() over (partition by l order by id) from t",
    "select id, s, sum(id) over (order by s nulls last, id rows 9 preceding) from t",
    "select id, lag(l) over (order by id), last_value(n ignore nulls) over (order by id rows 3 preceding) from t",
    "select id, count(s) over (order by id rows between 2 preceding and current row) from t",
    # Compared within frames.
    "select id, min(l) over p lo, max(l) over p hi, min(s) over p x, max(n) over p y from t "
    "window p as (partition by id % 7 order by id rows between 3 preceding and 1 following)",
    "select id, count(distinct l) over (partition by s), max(l) filter (where id % 3 = 0) over (partition by s) from t",
    "select id, first(id order by l desc nulls last, id) over (partition by id % 5) from t",
]


@pytest.mark.parametrize("query", QUERIES)
def test_as_duckdb(query: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    duck.register("u", U)
    for threads in (1, 3):
        actual = qcore.sql(query, {"t": T, "u": U}, threads=threads).to_arrow()
        assert_same_rows(actual, duck.sql(query), ordered="order by" in query and "over" not in query)


VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.float64()), [[], [-1.5], [0.0], [1e300], [float("inf")], [None]]),
    (pa.list_(pa.string()), [[], [""], ["", "a"], ["a"], ["a\x00"], ["a\x00b"], ["ab"], ["é"], [None]]),
    (pa.list_(pa.binary()), [[b""], [b"\x00"], [b"\x00\x00"], [b"\x00\xff"], [b"\xff"]]),
    (pa.list_(pa.bool_()), [[False], [False, False], [True], [None]]),
    (pa.list_(pa.decimal128(20, 2)), [[Decimal("-1.50")], [Decimal("0.00")], [Decimal("123456789012345678.25")]]),
    (pa.list_(pa.date32()), [[datetime.date(1, 1, 1)], [datetime.date(1970, 1, 1)], [datetime.date(2024, 2, 29)]]),
    (pa.list_(pa.timestamp("us")), [[datetime.datetime(1960, 1, 1, 2)], [datetime.datetime(2024, 1, 1, 1, 2, 3, 4)]]),
    (pa.list_(pa.time64("us")), [[datetime.time(0)], [datetime.time(1, 2, 3, 4)], [datetime.time(23, 59, 59)]]),
    (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", 2)], [("a", None)], [("b", -5)]]),
    (STRUCT, [{"x": -1, "y": "z"}, {"x": 0, "y": ""}, {"x": 0, "y": None}, {"x": None, "y": "a"}]),
    (pa.list_(pa.uint64()), [[0], [2**63], [2**64 - 1]]),
]


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=lambda part: str(part)[:30])
def test_bytes_compare_as_values_do(type_: pa.DataType, values: list[Any]) -> None:
    """The values are given in their order. Their bytes have the same order, and decode to the values."""
    keys = [encode_value(value, type_) for value in values]
    assert keys == sorted(set(keys))
    for value, key in zip(values, keys, strict=True):
        assert decode_value(key, 0, type_) == (value, len(key))


def test_refused() -> None:
    with pytest.raises(qcore.PlanError, match=r"list|nested"):
        qcore.sql("select 1 from t a join t b on a.l = b.n", {"t": T}).to_arrow()


@pytest.mark.parametrize("over", ["", " over ()"])
def test_the_mode_of_intervals_counts_all_spellings_of_a_length(over: str) -> None:
    """Q2: a month equals 30 days, a day 24 hours. The result is one of the equal values."""
    for spans in (["2 days", "1 month", "1 day", "720 hours"], ["3 days", "-1 month 5 seconds", "-30 days 5 seconds"]):
        values = ", ".join(f"(interval '{span}')" for span in spans)
        query = f"select distinct mode(v){over} = interval '{spans[1]}' as same from (values {values}, (null)) t(v)"
        for threads in (1, 4):
            assert qcore.sql(query, {}, threads=threads).to_arrow().to_pylist() == [{"same": True}]
