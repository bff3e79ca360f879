"""Aggregates of lists, text and ranks read the values of each group in order. Python's sort is the oracle. SPEC Q2."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from grouped import Call, check

from random_tables import KEY_TYPES, SIZES, random_table

Order = tuple[tuple[bool, bool], ...]


def order_rows(rows: list[Any], order: Order) -> list[Any]:
    """Sort rows by all arguments after the first. The sort is stable."""
    rows = [row if isinstance(row, tuple) else (row,) for row in rows]
    for at in range(len(order), 0, -1):
        descending, nulls_first = order[at - 1]
        some = sorted((row for row in rows if row[at] is not None), key=lambda row: row[at], reverse=descending)
        none = [row for row in rows if row[at] is None]
        rows = none + some if nulls_first else some + none
    return [row[0] for row in rows]


def without_nulls(result: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def compute(values: list[Any]) -> Any:
        values = [value for value in values if value is not None]
        return result(values) if values else None

    return compute


def between(values: list[Any], fraction: float) -> float:
    at = fraction * (len(values) - 1)
    low, high = values[math.floor(at)], values[math.ceil(at)]
    return float(low + (high - low) * (at - math.floor(at)))


def call(
    function: str, arguments: tuple[int, ...], type: pa.DataType, order: Order, parameter: Any, filter: int
) -> Call:
    results: dict[str, Callable[[list[Any]], Any]] = {
        "string_agg": without_nulls(lambda values: str(parameter).join(values)),
        "array_agg": lambda values: values or None,
        "first_ordered": lambda values: values[0] if values else None,
        "last_ordered": lambda values: values[-1] if values else None,
        "quantile_cont": without_nulls(lambda values: between(values, parameter)),
        "quantile_disc": without_nulls(lambda values: values[max(math.ceil(parameter * len(values)) - 1, 0)]),
        "mode": without_nulls(lambda values: Counter(values).most_common(1)[0][0]),
    }
    return Call(
        function,
        arguments,
        type,
        lambda rows: results[function](order_rows(rows, order)),
        filter,
        more=(order, parameter),
    )


# Columns: k, x (argument), o (few values, nulls), row, p.
DIRECTIONS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n_keys", [0, 1])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_q2_every_kind(n_rows: int, n_keys: int, direction: tuple[bool, bool]) -> None:
    types = {"k": pa.int16(), "f": pa.float64(), "s": pa.string(), "o": pa.int8(), "p": pa.bool_()}
    table = random_table(24, n_rows, types, null_share=0.3, n_distinct={"k": 40, "s": 6, "o": 5, "f": 90})
    table = table.append_column("row", pa.array(range(n_rows), pa.int64()))
    table = table if n_keys else table.drop(["k"])
    f, s, o, p, row = (n_keys + i for i in range(5))
    order = (direction, (False, False))
    calls = [
        made
        for filter in (-1, p)
        for made in (
            call("string_agg", (s, o, row), pa.string(), order, ", and then ", filter),
            call("string_agg", (s, o, row), pa.string(), order, "", filter),
            call("array_agg", (s, o, row), pa.list_(pa.string()), order, None, filter),
            call("first_ordered", (f, o, row), pa.float64(), order, None, filter),
            call("last_ordered", (f, o, row), pa.float64(), order, None, filter),
            call("mode", (s, o, row), pa.string(), order, None, filter),
            *(call("quantile_cont", (f, f), pa.float64(), (direction,), x, filter) for x in (0.0, 0.3, 1.0)),
            *(call("quantile_disc", (f, f), pa.float64(), (direction,), x, filter) for x in (0.0, 0.5, 1.0)),
        )
    ]
    check(table, n_keys, calls, ["single"])


@pytest.mark.parametrize("type", KEY_TYPES, ids=str)
def test_q2_values_of_every_type(type: pa.DataType) -> None:
    table = random_table(25, 2500, {"k": pa.int16(), "x": type}, null_share=0.3, n_distinct={"k": 50, "x": 20})
    table = table.append_column("row", pa.array(range(2500), pa.int64()))
    order = ((True, False),)
    check(table, 1, [
        call("array_agg", (1, 2), pa.list_(type), order, None, -1),
        call("first_ordered", (1, 2), type, order, None, -1),
        call("quantile_disc", (1, 2), type, order, 0.4, -1),
        call("mode", (1, 2), type, order, None, -1),
    ], ["single"])  # fmt: skip


def test_q2_equal_neighbours_need_no_difference() -> None:
    x = pa.array([math.inf, math.inf, -math.inf, 1.0])
    table = pa.table({"k": [1, 1, 2, 2], "x": x})
    check(
        table.slice(0, 2),
        1,
        [Call("quantile_cont", (1, 1), pa.float64(), lambda values: math.inf, more=(((False, False),), 0.5))],
        ["single"],
    )
