"""Floats compared and combined with decimals (SPEC Q3).

A constant with a point is a decimal. A float may be NaN, or outside of the range of decimals. Both are converted to
floats, as in DuckDB.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

T = pa.table({
    "f": [0.1, math.nan, 1e300, None, 1e-20, 2.5],
    "r": pa.array([0.1, 1, 2, None, 5, math.nan], pa.float32()),
    "d": pa.array([None if text is None else Decimal(text) for text in ("1.1", None, "2.5", "0.1", "2.5", "1.1")],
                  pa.decimal128(10, 2)),
    "b": [True, False, None, True, True, False],
    "g": ["a", "b", "a", "b", "c", "a"],
})  # fmt: skip
EXPRESSIONS = [
    "f = 0.1", "f <> 2.5", "f > d", "f between 0.05 and 2.5", "f is distinct from 0.1", "f in (0.1, 2.5)",
    "f in (d, 1.0)",
    "f not in (0.1)", "r = 0.1", "r in (0.1, 5)", "r < d", "coalesce(f, 0.0)", "coalesce(f, d, 0.5)", "coalesce(r, d)",
    "coalesce(r, 0.5)", "greatest(f, 1.0)", "least(f, d)", "nullif(f, 0.1)", "ifnull(f, 0.5)", "if(b, f, 0.5)",
    "case when b then f else 1.5 end", "case when b then 1.5 else f end", "case when b then d else f end",
    "case f when 0.1 then 'x' when 2.5 then 'y' end", "(f, d) in ((0.1, 1.10), (2.5, 1.10))", "(f, 1) = (0.1, 1)",
    "[f, 0.5]", "lag(f, 1, 0.0) over (order by g, d)", "sum(f) filter (where f < 0.5) over ()", "f = (select 0.1)",
    "3e0 in (1.5, 3.0)", "0.3e0 = 0.3", "cast(0.1 as real) = 0.1",
    "string_agg('a', ',') filter (where 3e0 not in (1.5, 3.0)) over ()",
    "f in (select d from t)", "f + 1.5", "f * d", "round(coalesce(f, 0.25), 1)",
]  # fmt: skip
QUERIES = [
    "select f from t union all select d from t",
    "select f from t union select 1.5",
    "select f from t except select 2.5",
    "select a.f, b.d from t a join t b on a.f = b.d",
    "select a.f, b.d from t a left join t b on a.f = b.d",
    "select g from t where exists (select 1 from t u where u.d = t.f)",
    "select g, sum(case when f > 1.0 then 1.5 else f end) as x from t where f < 1e200 group by g",
    "select coalesce(f, 0.3) as k, count(*) from t group by 1",
    "select x / 3 as x from (select f as x from t where f < 5 union all select 1)",
    "select g from t where f > 1e-21 and f < 0.2",
    "select f::decimal(5, 2) as x, f::decimal(30, 15) as y, f::decimal(30, 15) = 0.1 as z from t where f < 100",
    "select try_cast(f as decimal(5, 2)) as x from t",
]


@pytest.mark.parametrize("query", [*(f"select {expression} as x from t" for expression in EXPRESSIONS), *QUERIES])
def test_floats_beside_decimals(query: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    session = qcore.Session(threads=1, dialect="duckdb")
    session.register("t", T)
    found, expected = session.sql(query).to_arrow(), duck.sql(query).to_arrow_table()
    assert_same_rows(found, expected)
    if not pa.types.is_nested(expected.schema.types[0]):
        assert found.schema.types == expected.schema.types


def test_a_constant_is_the_float_it_is_written_as() -> None:
    """In one of six cases, the 17 digits divided by a power of ten are a neighbouring float."""
    draw = random.Random(11)
    values = [draw.uniform(-(10.0**n), 10.0**n) for n in range(-3, 15) for _ in range(4)]
    session = qcore.Session(threads=1)
    session.register("t", pa.table({"f": values}))
    written = [format(Decimal(repr(value)), "f") for value in values]
    found = session.sql(f"select count(*) as n from t where f in ({', '.join(written)})").to_arrow()
    assert found["n"].to_pylist() == [len(values)]
    tests = ", ".join(f"count(*) filter (where f = {text}) as c{i}" for i, text in enumerate(written[::5]))
    assert set(session.sql(f"select {tests} from t").to_arrow().to_pylist()[0].values()) == {1}


def test_elements_that_are_nan(duck: duckdb.DuckDBPyConnection) -> None:
    """In functions of lists NaN equals NaN, and is the largest value."""
    lists = [[1.0, math.nan, None], [math.nan, -0.0], [], None, [math.nan, math.nan], None]
    others = [[math.nan], [0.0], [math.nan], [1.0], None, [1.0]]
    table = pa.table({"l": lists, "m": others, "x": [math.nan, 0.0, 1.0, None, math.nan, 1.0]})
    duck.register("t", table)
    query = (
        "select list_position(l, x), list_contains(l, x), list_contains(m, x), list_has_any(l, m), list_has_all(l, m), "
        "list_max(l), list_min(l), list_sort(l), list_sort(l, 'DESC'), list_contains([m], m), list_position([m, l], l) "
        "from t"
    )
    session = qcore.Session(threads=1, dialect="duckdb")
    session.register("t", table)
    assert_same_rows(session.sql(query).to_arrow(), duck.sql(query))
