"""DistinctRows returns each row once, in the batch where it first occurs. SPEC Q2, D6."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from grouped import hashable
from sorted_rows import take_rows

from oracle import assert_same_rows
from qcore.errors import PlanError, SchemaChangeError
from qcore_ext.aggregate.distinct_rows import DistinctRows
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import import_batches
from random_tables import KEY_TYPES, SIZES, random_table


def fresh(table: pa.Table, met: set[Any]) -> list[int]:
    """Return the numbers of the rows that are not in `met`, and add these rows to it."""
    out = []
    for i, row in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True)):
        key = tuple(map(hashable, row))
        if key not in met:
            met.add(key)
            out.append(i)
    return out


@pytest.mark.each_value
@pytest.mark.parametrize("type", KEY_TYPES, ids=str)
@pytest.mark.parametrize("n_distinct", [5, 700, None])
def test_q2_batches_of_all_sizes(type: pa.DataType, n_distinct: int | None) -> None:
    types = {"a": type, "b": pa.int16()}
    rows, met = DistinctRows(Schema(pa.schema(list(types.items()))), Account()), set()
    for seed, n_rows in enumerate((*SIZES, 5000, 5000)):
        table = random_table(60 + seed, n_rows, types, null_share=0.2, n_distinct=n_distinct, extremes=True)
        for batch in import_batches(table):
            got = pa.record_batch(rows.add(batch))
            assert_same_rows(got, take_rows(table, fresh(table, met)), ordered=True)


def test_q2_a_batch_that_came_before_gives_no_row() -> None:
    table = pa.table({"a": range(5000)})
    rows = DistinctRows(Schema(table.schema), Account())
    (batch,) = import_batches(table)
    first, again = rows.add(batch), rows.add(batch)
    assert (len(first), len(again)) == (5000, 0)


def test_d6_rows_met_are_known_under_wider_types() -> None:
    narrow = pa.table({"a": pa.array([*range(3000), None], pa.int32())})
    wide = pa.table({"a": pa.array([None, 2999, 3000, 2**40, 0, 3000])})
    rows = DistinctRows(Schema(narrow.schema), Account())
    rows.add(*import_batches(narrow))
    with pytest.raises(SchemaChangeError, match="schema of a recursive query's rows changed; cast"):
        rows.add(*import_batches(wide))
    rows.widen(Schema(wide.schema))
    assert pa.record_batch(rows.add(*import_batches(wide))).to_pydict() == {"a": [3000, 2**40]}


def test_q2_nested_columns_are_named() -> None:
    with pytest.raises(PlanError, match="nested column 'l'"):
        DistinctRows(Schema(pa.schema([("l", pa.list_(pa.int8()))])), Account())
