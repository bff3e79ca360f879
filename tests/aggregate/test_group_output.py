"""Output batches of groups: keys and results or states by row, and results without rows. SPEC Q2, D6."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from grouped import Call, check, present

from qcore_ext.aggregate.aggregation import HashAggregation, partial_schema
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import SIZES, random_table

ORDER = (((False, False),), None)


def total(values: list[Any]) -> Any:
    return sum(present(values)) if present(values) else None


@pytest.mark.parametrize("n_rows", [*SIZES, 70_000])
def test_q2_keys_and_results_stand_in_their_places(n_rows: int) -> None:
    """70,000 groups are more than one output batch."""
    types = {"a": pa.int32(), "b": pa.string(), "x": pa.int16(), "f": pa.float64()}
    table = random_table(65, n_rows, types, null_share=0.1)
    calls = [
        Call("sum", 2, pa.decimal128(38, 0), total),
        Call("regr_count", (3, 3), pa.int64(), lambda pairs: sum(None not in pair for pair in pairs)),
        Call("last_ordered", (1, 2), pa.string(), lambda pairs: pairs[-1][0], more=ORDER),
        Call("min", 1, pa.string(), lambda values: min(present(values), default=None)),
    ]
    check(
        table.append_column("row", pa.array(range(n_rows), pa.int64())), 5, calls, ["single"], radix_groups_min=1 << 40
    )
    check(table, 2, [call for call in calls if not call.more], ["both"], radix_groups_min=1 << 40)


def test_q2_results_without_rows() -> None:
    """Counts are 0, other results are null."""
    kinds: dict[str, tuple[Any, pa.DataType, Any]] = {
        "count": (-1, pa.int64(), 0),
        "count_null": (0, pa.int64(), 0),
        "regr_count": ((0, 0), pa.int64(), 0),
        "regr_avgx": ((0, 0), pa.float64(), None),
        "sum": (0, pa.float64(), None),
        "avg": (0, pa.float64(), None),
        "min": (0, pa.float64(), None),
        "var_pop": (0, pa.float64(), None),
    }
    tuples: list[Any] = [(name, argument, -1, False) for name, (argument, _, _) in kinds.items()]
    tuples.append(("mode", (0,), -1, False, ((), None)))
    schema = Schema(pa.schema([*((name, type) for name, (_, type, _) in kinds.items()), ("mode", pa.float64())]))
    rows = run_chain([HashAggregation("a", Account(), None, 0, tuples, "single", schema)], [], None)
    assert [row for batch in rows for row in batch.to_pylist()] == [
        {**{name: value for name, (_, _, value) in kinds.items()}, "mode": None}
    ]
    assert run_chain([HashAggregation("a", Account(), None, 0, [], "partial", Schema(pa.schema([])))], [], None) == []


TUPLES: list[Any] = [
    ("min", 1, -1, False),
    ("sum", 1, -1, False),
    ("avg", 1, -1, False),
    ("count", 1, -1, False),
    ("sum", 2, -1, False),
]


@pytest.mark.parametrize("step", ["single", "partial"])
def test_d6_output_types_follow_their_arguments(step: str) -> None:
    """Keys, extremes and sums of decimals widen. Averages, counts and a sum that is wide enough keep their types."""

    def make_batch(k: pa.DataType, x: pa.DataType) -> pa.RecordBatch:
        return pa.record_batch({"k": pa.array([1], k), "x": pa.array([2], x), "i": pa.array([3], x)})

    batches = [make_batch(pa.int16(), pa.int32()), make_batch(pa.int64(), pa.int64())]
    results = Schema(pa.schema([
        ("k", pa.int16()), ("lo", pa.int32()), ("t", pa.decimal128(38, 0)), ("m", pa.float64()), ("n", pa.int64()),
        ("s", pa.int64()),
    ]))  # fmt: skip
    schema = results if step == "single" else partial_schema(Schema(batches[0].schema), 1, TUPLES, results)
    got = run_chain([HashAggregation("a", Account(), None, 1, TUPLES, step, schema)], batches)
    wide = pa.decimal128(38, 0)
    assert (
        got[-1].schema.types
        == {
            "single": [pa.int64(), pa.int64(), wide, pa.float64(), pa.int64(), pa.int64()],
            "partial": [pa.int64(), pa.int64(), wide, pa.int64(), wide],
        }[step]
    )


def test_d6_lists_of_values_are_widened() -> None:
    calls = [("array_agg", (1, 1), -1, False, ORDER)]
    batches = [pa.record_batch({"k": [1], "x": pa.array([x], type)}) for x, type in ((2, pa.int32()), (1, pa.int64()))]
    schema = Schema(pa.schema([("k", pa.int64()), ("a", pa.list_(pa.int32()))]))
    got = run_chain([HashAggregation("a", Account(), None, 1, calls, "single", schema)], batches)
    assert got[-1].schema.field("a").type == pa.list_(pa.int64())
    assert got[-1].to_pylist() == [{"k": 1, "a": [1, 2]}]
