"""Rows of nested columns are taken by number and exported, for every type (SPEC H2)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import col
from qcore.lowering.compile import compile_predicate
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.nested import take_rows, without_views
from qcore_ext.ground.memory import Account

TEXT = "a text of more than twelve bytes"
VALUES = {
    "list": pa.array([[1], None, [2, 3], [], [4]] * 500),
    "large": pa.array([[1], None, [2, 3], [], [4]] * 500, pa.large_list(pa.int8())),
    "fixed": pa.array([[1, 2], None, [3, 4], [5, 6], [7, 8]] * 500, pa.list_(pa.int16(), 2)),
    "map": pa.array([[("a", 1)], None, [], [("b", None)], [("c", 2)]] * 500, pa.map_(pa.string(), pa.int32())),
    "struct": pa.array([{"p": 1, "q": "x"}, None, {"p": None, "q": TEXT}, {"p": 3, "q": ""}, {"p": 4, "q": "y"}] * 500),
    "views": pa.array([[TEXT], None, ["x", None], [], ["y"]] * 500, pa.list_(pa.string_view())),
    "runs": pa.RunEndEncodedArray.from_arrays([1000, 2500], pa.array([7, None])),
}


@pytest.mark.parametrize("name", VALUES)
def test_rows_by_number(name: str) -> None:
    values = VALUES[name]
    rows = [4, 0, None, 2, 2, 1, 2499, 3]
    taken = take_rows(values, pa.array(rows, pa.int64()))
    assert taken.type == values.type
    plain = values.to_pylist()
    assert taken.to_pylist() == [None if row is None else plain[row] for row in rows]


@pytest.mark.each_value
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("offset", [0, 3, 1001])
@pytest.mark.parametrize("keep", ["all", "some", "none"])
def test_selected_rows_come_out(name: str, offset: int, keep: str) -> None:
    """H2: whole columns, selections and offsets."""
    n = len(VALUES[name])
    numbers = pa.array([row % 7 for row in range(n)])
    batch = pa.record_batch({"v": VALUES[name], "k": numbers}).slice(offset)
    if keep == "all":
        got = pa.record_batch(PyBatch.from_arrow(batch))
    else:
        condition = col("k") == (3 if keep == "some" else 100)
        got = pa.record_batch(Evaluator(compile_predicate(condition, batch.schema), Account()).select_batch(batch))
    wanted = [
        value
        for value, number in zip(batch["v"].to_pylist(), batch["k"].to_pylist(), strict=True)
        if keep == "all" or (keep == "some" and number == 3)
    ]
    got.validate(full=True)
    assert got.schema.field("v").type == batch.schema.field("v").type
    assert got["v"].to_pylist() == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.int8(), pa.int8()),
        (pa.string_view(), pa.large_string()),
        (pa.binary_view(), pa.large_binary()),
        (pa.list_(pa.string_view()), pa.list_(pa.large_string())),
        (pa.large_list(pa.binary_view()), pa.large_list(pa.large_binary())),
        (pa.list_(pa.string_view(), 3), pa.list_(pa.large_string(), 3)),
        (pa.map_(pa.string_view(), pa.string_view()), pa.map_(pa.large_string(), pa.large_string())),
        (pa.struct({"a": pa.string_view(), "b": pa.int8()}), pa.struct({"a": pa.large_string(), "b": pa.int8()})),
    ],
    ids=str,
)
def test_types_without_views(given: pa.DataType, wanted: pa.DataType) -> None:
    assert without_views(given) == wanted
