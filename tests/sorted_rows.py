"""OrderBy over a table, and the same rows sorted in plain Python. Used by tests of the units of sorting."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from oracle import assert_same_rows
from qcore_ext.ground.memory import Account
from qcore_ext.sort.order_by import OrderBy
from qcore_ext.sort.shared_sort import SortState
from qcore_testing.operators import run_chain

Key = tuple[str, bool, bool]
DIRECTIONS = [(False, False), (False, True), (True, False), (True, True)]


def comparable(value: Any) -> Any:
    """A sort key: NaN is the largest float, and text compares by its bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def order_rows(table: pa.Table, keys: list[Key]) -> list[int]:
    """The row numbers in sorted order. Rows with equal keys keep their order."""
    rows = list(range(table.num_rows))
    for name, descending, nulls_first in reversed(keys):
        values = table[name].to_pylist()
        some = [row for row in rows if values[row] is not None]
        some.sort(key=lambda row: comparable(values[row]), reverse=descending)
        none = [row for row in rows if values[row] is None]
        rows = none + some if nulls_first else some + none
    return rows


def take_rows(table: pa.Table, rows: list[int]) -> pa.Table:
    """The rows in this order, of every type."""
    columns = [column.to_pylist() for column in table.columns]
    arrays = [
        pa.array([values[row] for row in rows], field.type) for values, field in zip(columns, table.schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def sort(table: pa.Table, keys: list[Key], n_drivers: int = 1) -> pa.Table:
    """Sort with operators that share a state, each with a part of the rows. The last operator returns all rows."""
    state = SortState(n_drivers)
    share = table.num_rows // n_drivers // 8 * 8
    given: list[pa.RecordBatch] = []
    for driver in range(n_drivers):
        assert not sum(batch.num_rows for batch in given)
        part = table.slice(driver * share, share if driver < n_drivers - 1 else None)
        given = run_chain([OrderBy("sort", Account(), keys, state)], part, table.schema)
    return pa.Table.from_batches(given, table.schema)


def check(table: pa.Table, keys: list[Key], n_drivers: int = 1) -> None:
    """Fail unless the keys are in order and the rows are those of the table."""
    names = [name for name, _, _ in keys]
    got = sort(table, keys, n_drivers)
    wanted = take_rows(table, order_rows(table, keys))
    assert_same_rows(got.select(names), wanted.select(names), ordered=True, rel_tol=0, abs_tol=0)
    assert_same_rows(got, wanted, rel_tol=0, abs_tol=0)
