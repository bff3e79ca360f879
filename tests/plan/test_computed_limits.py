"""Limits with computed numbers become filters on row numbers. SPEC Q2."""

from __future__ import annotations

import pyarrow as pa
import pytest

import qcore
from qcore.plan.computed_limits import limit_by_rows
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import OrderBy, SortKey, Values

ROWS = pa.table({"a": list(range(10))})


@pytest.mark.parametrize(
    ("count", "offset", "is_share", "expected"),
    [
        (3, None, False, [9, 8, 7]),
        (3, 8, False, [1, 0]),
        (None, 7, False, [2, 1, 0]),
        (0, 0, False, []),
        (25.0, None, True, [9, 8]),
        (100.0, 9, True, [0]),
    ],
)
def test_rows(count: float | None, offset: int | None, is_share: bool, expected: list[int]) -> None:
    ids, names = NodeIds(), ColumnNames(["a"])
    node = OrderBy(ids.new(), ROWS.schema, Values(ids.new(), ROWS.schema, ROWS), (SortKey("a", descending=True),))
    kind = pa.float64() if is_share else pa.int64()
    given = pa.table({"count": pa.array([count], kind), "offset": pa.array([offset], pa.int64())})
    numbers = Values(ids.new(), given.schema, given)
    limited = limit_by_rows(ids, names, node, numbers, is_share)
    assert limited.schema == ROWS.schema
    assert qcore.Session(threads=2).execute(limited).to_arrow()["a"].to_pylist() == expected
