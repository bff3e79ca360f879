"""A group table with its states and kept values: rows added, sets merged, completed and emptied. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, present, run_calls

from random_tables import SIZES, random_table


def total(values: list[Any]) -> Any:
    return sum(present(values)) if present(values) else None


def n_present(values: list[Any]) -> int:
    return len(present(values))


def n_null(values: list[Any]) -> int:
    return len(values) - n_present(values)


def list_in_order(pairs: list[Any]) -> Any:
    return [x for x, _ in sorted(pairs, key=lambda pair: pair[1])] or None


STATES = [
    Call("count", -1, pa.int64(), len),
    Call("sum", 1, pa.decimal128(38, 0), total),
    Call("count_null", 1, pa.int64(), n_null),
    Call("max", 2, pa.int64(), lambda values: max(present(values), default=None)),
    Call("regr_count", (3, 3), pa.int64(), n_present),
    Call("count", 2, pa.int64(), n_present, 4),
    Call("count", 1, pa.int64(), n_present),
]
KEPT = [
    Call("array_agg", (1, 2), pa.list_(pa.int32()), list_in_order, more=(((False, False),), None)),
    Call(
        "last_ordered",
        (1, 2),
        pa.int32(),
        lambda pairs: (list_in_order(pairs) or [None])[-1],
        4,
        more=(((False, False),), None),
    ),
]


def make_table(n_rows: int, n_groups: int) -> pa.Table:
    types = {"k": pa.int16(), "x": pa.int32()}
    table = random_table(30, n_rows, types, null_share=0.2, n_distinct={"k": n_groups, "x": 50})
    rows = np.arange(n_rows)
    return (
        table.append_column("row", pa.array(rows))
        .append_column("f", pa.array(rows / 2))
        .append_column("p", pa.array(rows % 3 > 0))
    )


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n_groups", [1, 70, 1000])
def test_q2_states_and_kept_values_of_the_same_groups(n_rows: int, n_groups: int) -> None:
    table = make_table(n_rows, n_groups)
    check(table, 1, STATES)
    check(table, 1, [*STATES, *KEPT], ["single"])
    keyless = [
        Call(
            call.function,
            tuple(at - 1 for at in call.argument) if isinstance(call.argument, tuple) else max(call.argument - 1, -1),
            call.type,
            call.oracle,
            max(call.filter - 1, -1),
            more=call.more,
        )
        for call in (*STATES, *KEPT)
    ]
    check(table.drop(["k"]), 0, keyless[: len(STATES)])
    check(table.drop(["k"]), 0, keyless, ["single"])


def test_q2_a_set_that_is_emptied_between_two_fillings() -> None:
    """Output batches still point to strings of the first filling. Values of the second start from zero."""
    k = np.arange(30_000) // 4
    table = pa.table({"k": k, "x": k % 5, "row": np.arange(30_000), "f": k / 2, "p": k % 3 > 0})
    table = table.append_column("s", pa.array([f"a text of group {v}" for v in k]))
    calls = [*STATES, Call("min", 5, pa.string(), min)]
    check(table, 1, calls, ["both"], partial_groups_max=2048)


def test_q2_no_states_and_no_values_are_the_keys_alone() -> None:
    table = make_table(5000, 900).select(["k"])
    check(table, 1, [])
    assert run_calls(table, 1, []).num_rows == len(set(table["k"].to_pylist()))
