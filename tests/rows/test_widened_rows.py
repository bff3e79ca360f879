"""Kept rows of a sort and of a top-N whose columns widen. SPEC D6."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from oracle import assert_same_rows
from qcore_ext.ground.memory import Account
from qcore_ext.sort.order_by import OrderBy
from qcore_ext.sort.top_n import TopN
from qcore_testing.operators import run_chain

KEYS = [("i", False, False)]
STEPS: dict[str, list[tuple[pa.DataType, Any]]] = {
    "integers": [(pa.int8(), 5), (pa.int16(), 300), (pa.int64(), 2**40)],
    "decimals": [(pa.int32(), 7), (pa.decimal128(12, 2), Decimal("1.25")), (pa.decimal128(24, 4), Decimal("1.0625"))],
    "floats": [(pa.float32(), 0.5), (pa.float64(), 0.1)],
    "nulls": [(pa.null(), None), (pa.string(), "a text of more than twelve bytes")],
    "dates": [
        (pa.date32(), datetime.date(2020, 1, 3)),
        (pa.timestamp("us"), datetime.datetime(2020, 1, 3, 4, 5, 6, 7)),
    ],
}


def batches(name: str, n_rows: int) -> list[pa.RecordBatch]:
    made = []
    for at, (type, value) in enumerate(STEPS[name]):
        rows = range(at * n_rows, (at + 1) * n_rows)
        x = pa.array([None if i % 5 == 4 else value for i in rows]).cast(type)
        made.append(pa.record_batch({"i": pa.array(rows, pa.int64()), "x": x}))
    return made


@pytest.mark.parametrize("n_rows", [1, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("name", STEPS)
def test_d6_rows_kept_take_the_wider_type(name: str, n_rows: int) -> None:
    given = batches(name, n_rows)
    widest = given[-1].schema
    wanted = pa.concat_tables([pa.Table.from_batches([batch]).cast(widest) for batch in given])
    for operator in (OrderBy("o", Account(), KEYS), TopN("t", Account(), KEYS, len(wanted))):
        got = pa.Table.from_batches(run_chain([operator], given))
        assert_same_rows(got, wanted, ordered=True)
        assert got.schema.types == widest.types


def test_d6_a_new_column_is_null_in_rows_kept_and_lists_stay() -> None:
    first = pa.record_batch({"i": pa.array([2, 1]), "l": pa.array([[1], None])})
    second = pa.record_batch({"i": pa.array([0]), "l": pa.array([[2, 3]]), "x": ["new"]})
    got = pa.Table.from_batches(run_chain([OrderBy("o", Account(), KEYS)], [first, second]))
    assert got.select(["i", "x"]).to_pylist() == [{"i": i, "x": "new" if i == 0 else None} for i in range(3)]
    assert got["l"].to_pylist() == [[2, 3], None, [1]]


NESTED: dict[str, tuple[pa.DataType, Any]] = {
    "list": (pa.list_(pa.int64()), [2, 3]),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.string())]), {"x": 1, "y": None}),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
}


@pytest.mark.parametrize("n_rows", [0, 1, 2048, 5000])
@pytest.mark.parametrize("name", NESTED)
def test_d6_new_nested_columns_are_null_in_rows_kept(name: str, n_rows: int) -> None:
    """Kept rows without nested columns, with an earlier nested column, and with a null of another type."""
    type_, value = NESTED[name]
    old = range(n_rows)
    first = pa.record_batch([pa.array(old, pa.int64()), pa.nulls(n_rows)], ["i", "x"])
    lists = pa.array([[i, None] for i in old], pa.list_(pa.int64()))
    second = pa.record_batch([pa.array(old, pa.int64()), pa.nulls(n_rows), lists], ["i", "x", "x"])
    values = pa.array([value, None], type_)
    third = pa.record_batch([pa.array([-1, -2]), values, pa.nulls(2, lists.type)], ["i", "x", "x"])
    table = pa.Table.from_batches(run_chain([OrderBy("o", Account(), KEYS)], [first, second, third]))
    assert table.schema == third.schema
    made = sorted([(i, row) for i in old for row in (None, [i, None])], key=lambda pair: pair[0])
    given = list(zip(table.column(0).to_pylist(), table.column(2).to_pylist(), strict=True))
    assert sorted(given[2:], key=str) == sorted(made, key=str)
    assert given[:2] == [(-2, None), (-1, None)]
    assert table.column(1).to_pylist() == [None, values[0].as_py()] + [None] * (2 * n_rows)
