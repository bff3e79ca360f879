"""Groups, states and kept values that widen in mid-stream equal those of rows that were always wide. SPEC D6."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, groups_of, present
from hash_model import colliding_pair, hash_row

from oracle import assert_same_rows
from qcore.errors import SchemaChangeError
from qcore_ext.aggregate.aggregation import HashAggregation, partial_schema
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

STEPS: dict[str, list[tuple[pa.DataType, list[Any]]]] = {
    "integers": [(pa.int8(), [1, 2, None]), (pa.int16(), [1, 300]), (pa.int64(), [2, 2**40, None])],
    "decimals": [(pa.int32(), [1, 2]), (pa.decimal128(12, 2), [Decimal(1), Decimal("1.25"), None])],
    "wide decimals": [(pa.int64(), [1, 2**40, None]), (pa.decimal128(30, 4), [Decimal(1), Decimal(10**20)])],
    "floats": [(pa.float32(), [0.5, 1.0]), (pa.float64(), [0.5, 0.1, None])],
    "nulls": [(pa.null(), [None]), (pa.int32(), [1, None, 7])],
}


def total(values: list[Any]) -> Any:
    return sum(present(values)) if present(values) else None


def last(values: list[Any]) -> Any:
    return next(reversed(present(values)), None)


def order_pairs(pairs: list[Any]) -> Any:
    return next((x for x, i in sorted(pairs, key=lambda pair: -pair[1])), None)


def batches(name: str, n_groups: int) -> list[pa.RecordBatch]:
    """Key k has the given type, x the same. Key g has n_groups values."""
    made, row = [], 0
    for type, values in STEPS[name]:
        n = 3 * n_groups
        x = pa.array([values[(row + i) % len(values)] for i in range(n)], type)
        made.append(pa.record_batch({"k": x, "g": [i % n_groups for i in range(n)], "x": x, "i": range(row, row + n)}))
        row += n
    return made


def calls(type: pa.DataType) -> list[Call]:
    """Calls over x (column 2) and i (column 3)."""
    sums = pa.float64() if pa.types.is_floating(type) else pa.decimal128(38, getattr(type, "scale", 0))
    return [
        Call("count", 2, pa.int64(), lambda values: len(present(values))),
        Call("sum", 2, sums, total),
        Call("min", 2, type, lambda values: min(present(values), default=None)),
        Call("last", 2, type, last),
        Call("max", 3, pa.int64(), max),
    ]


KEPT = [
    Call("count", 2, pa.int64(), lambda values: len(set(present(values))), distinct=True),
    Call(
        "last_ordered",
        (2, 3),
        pa.int64(),
        lambda pairs: max(pairs, key=lambda pair: pair[1])[0],
        more=(((False, False),), None),
    ),
]


@pytest.mark.each_value
@pytest.mark.parametrize("n_groups", [1, 2047, 2049, 9000])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_d6_whatever_a_group_has_widens(name: str, kept: bool, n_groups: int) -> None:
    """A plain table, a partitioned table, and rows that pass the partial step without a table."""
    given = batches(name, n_groups)
    first, widest = given[0].schema, given[-1].schema
    narrow, wide = (calls(schema.field("x").type) for schema in (first, widest))
    if kept:
        narrow = [
            *narrow,
            KEPT[0],
            Call("last_ordered", (2, 3), first.field("x").type, KEPT[1].oracle, more=KEPT[1].more),
        ]
        wide = [*wide, KEPT[0], Call("last_ordered", (2, 3), widest.field("x").type, KEPT[1].oracle, more=KEPT[1].more)]
    tuples = [call.as_tuple() for call in narrow]
    table = pa.concat_tables(pa.Table.from_batches([batch]).cast(widest) for batch in given)
    rows = [(*rows[0][:2], *(call.expected(rows) for call in wide)) for rows in groups_of(table, 2).values()]
    fields = [*list(widest)[:2], *(pa.field(f"a{i}", call.type) for i, call in enumerate(wide))]
    wanted = pa.Table.from_arrays(
        [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(fields)], schema=pa.schema(fields)
    )
    output = pa.schema([*list(first)[:2], *(pa.field(f"a{i}", call.type) for i, call in enumerate(narrow))])
    for radix_groups_min in (1 << 40, 1000):
        operator = HashAggregation(
            "a", Account(), None, 2, tuples, "single", Schema(output), radix_groups_min=radix_groups_min
        )
        got = pa.Table.from_batches(run_chain([operator], given))
        assert_same_rows(got, wanted, ordered=radix_groups_min == 1 << 40)
        assert got.schema.types == wanted.schema.types
    if not kept:
        middle = partial_schema(Schema(first), 2, tuples, Schema(output))
        partial = HashAggregation("p", Account(), None, 2, tuples, "partial", middle, partial_groups_max=2048)
        final = HashAggregation("f", Account(), None, 2, tuples, "final", Schema(output), input_schema=middle)
        got = pa.Table.from_batches(run_chain([final], run_chain([partial], given)))
        assert_same_rows(got, wanted)


def test_d6_groups_of_one_hash_keep_their_numbers() -> None:
    """Values met and kept know their group by its number, also if its key is compared with another one of its hash."""
    pairs = [(1, 2), colliding_pair(1, 2, 77), (3, 4)]
    assert hash_row(pairs[0]) == hash_row(pairs[1])
    wide = pa.table({
        "a": [a for a, _ in pairs] * 2,
        "b": [b for _, b in pairs] * 2,
        "c": pa.array([10**30] * 6, pa.decimal128(38, 0)),
        "w": pa.array([7] * 6, pa.int64()),
        "x": [10, 20, 30, 10, 20, 30],
        "i": range(6),
    })
    narrow = wide.set_column(3, "w", wide["w"].cast(pa.int32()))
    kept = [replace(call, argument=tuple(at + 2 for at in np.atleast_1d(call.argument).tolist())) for call in KEPT]
    tuples = [call.as_tuple() for call in kept]
    output = pa.schema([*list(narrow.schema)[:4], ("n", pa.int64()), ("last", pa.int64())])
    operator = HashAggregation("a", Account(), None, 4, tuples, "single", Schema(output))
    # The narrow keys come one at a time, so that they are numbered in this order.
    given = [*narrow.slice(0, 3).to_batches(max_chunksize=1), *wide.slice(3).to_batches()]
    got = pa.Table.from_batches(run_chain([operator], given))
    assert got["a"].to_pylist() == wide["a"].to_pylist()[:3]
    assert got["n"].to_pylist() == [1, 1, 1]
    assert got["last"].to_pylist() == [10, 20, 30]


def test_d6_types_that_do_not_widen_are_named() -> None:
    given = [pa.record_batch({"k": pa.array([1], pa.int32())}), pa.record_batch({"k": ["a"]})]
    operator = HashAggregation("a", Account(), None, 1, [], "single", Schema(given[0].schema))
    with pytest.raises(SchemaChangeError, match=r"'k' changed from int32 to string.*cast it to one type"):
        run_chain([operator], given)
