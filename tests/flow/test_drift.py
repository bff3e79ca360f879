"""Schema drift: allowed differences of a source's batches from the declared schema. The driver converts the batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import SchemaChangeError
from qcore_ext.basic.scan import TableScan
from qcore_ext.data.schema import Schema
from qcore_ext.flow.drift import Drift, explain_difference
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

DECLARED = pa.schema([("a", pa.int32()), ("b", pa.string())])
SAME = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]})
NARROWER = pa.table({"a": pa.array([2, None], pa.int8()), "b": ["y", "z"]})
FEWER = pa.table({"b": ["w"]})
WIDER = pa.table({"a": pa.array([1 << 40]), "b": ["v"]})
MORE = pa.table({"c": [True], "b": ["u"], "a": pa.array([3], pa.int32())})


def scan(drift: Drift, *splits: pa.Table, batch_rows: int = 65_536) -> list[pa.RecordBatch]:
    """The batches that reach the operator after a scan of these splits."""
    queue = SplitQueue("1")
    for split in splits:
        queue.add(split)
    queue.no_more()
    return run_chain([TableScan("1", Account(), queue, Schema(DECLARED), lambda split: split, batch_rows, drift)])


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("drift", Drift)
def test_d6_the_declared_schema_passes(drift: Drift) -> None:
    got = scan(drift, SAME, SAME)
    assert rows(got) == SAME.to_pylist() * 2
    assert {batch.schema for batch in got} == {DECLARED}


@pytest.mark.parametrize("first", [NARROWER, FEWER], ids=["narrower", "fewer"])
@pytest.mark.parametrize("drift", [Drift.DRIFT_WITHIN, Drift.DRIFT_WIDENS])
def test_d6_narrower_batches_are_converted_to_the_declared_schema(drift: Drift, first: pa.Table) -> None:
    """Also if no batch of the declared schema came before: the next operator is bound to the declared schema."""
    got = scan(drift, first, SAME)
    assert {batch.schema for batch in got} == {DECLARED}
    assert rows(got) == [{"a": None} | row for row in first.to_pylist()] + SAME.to_pylist()


def test_d6_within_leaves_undeclared_columns_out() -> None:
    got = scan(Drift.DRIFT_WITHIN, MORE)
    assert {batch.schema for batch in got} == {DECLARED}
    assert rows(got) == [{"a": 3, "b": "u"}]


def test_d6_widens_to_wider_types_and_more_columns() -> None:
    got = scan(Drift.DRIFT_WIDENS, SAME, WIDER, MORE, SAME)
    assert [[str(field.type) for field in batch.schema] for batch in got] == [
        ["int32", "string"],
        ["int64", "string"],
        ["int64", "string", "bool"],
        ["int64", "string", "bool"],
    ]
    assert rows(got)[1:] == [
        {"a": 1 << 40, "b": "v"},
        {"a": 3, "b": "u", "c": True},
        {"a": 1, "b": "x", "c": None},
    ]


@pytest.mark.parametrize("n_rows", [0, 1])
@pytest.mark.parametrize(
    ("drift", "split", "message"),
    [
        (Drift.DRIFT_NONE, NARROWER, "column 'a' is int8, declared as int32"),
        (Drift.DRIFT_WITHIN, WIDER, "column 'a' changed from int32 to int64: the scan declares the first type"),
        (Drift.DRIFT_WITHIN, pa.table({"a": ["x"]}), "column 'a' changed from int32 to string: they do not widen"),
        (Drift.DRIFT_WIDENS, pa.table({"a": ["x"]}), "column 'a' changed from int32 to string: they do not widen"),
    ],
)
def test_d6_a_split_that_may_not_come_is_refused_before_it_is_read(
    drift: Drift, split: pa.Table, message: str, n_rows: int
) -> None:
    """The error names the scan and the split."""
    with pytest.raises(SchemaChangeError, match=message) as caught:
        scan(drift, SAME, split.slice(0, n_rows))
    assert "TableScan (node 1) reading split pyarrow.Table" in str(caught.value)


def test_d6_a_value_that_the_declared_type_does_not_hold_names_the_split() -> None:
    money = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}).set_column(0, "a", pa.array([(1 << 53) + 1]))
    queue = SplitQueue("1")
    queue.add(money)
    queue.no_more()
    declared = pa.schema([("a", pa.float64()), ("b", pa.string())])
    operator = TableScan("1", Account(), queue, Schema(declared), lambda split: split, 64, Drift.DRIFT_WITHIN)
    with pytest.raises(SchemaChangeError, match=str((1 << 53) + 1)) as caught:
        run_chain([operator])
    assert "TableScan (node 1) reading split" in str(caught.value)


def test_d6_each_piece_of_a_large_batch_is_converted() -> None:
    large = pa.table({"a": pa.array(range(-100, 100), pa.int16()).cast(pa.int8()), "b": ["x"] * 200})
    got = scan(Drift.DRIFT_WITHIN, large, batch_rows=64)
    assert [batch.num_rows for batch in got] == [64, 64, 64, 8]
    assert [row["a"] for row in rows(got)] == list(range(-100, 100))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([*DECLARED, ("c", pa.int8())], "column 'c' (int8) is not declared"),
        ([("a", pa.int64()), ("b", pa.string())], "column 'a' is int64, declared as int32"),
        ([("a", pa.int32())], "column 'b', declared as string, is missing; it has 'a'"),
        ([("b", pa.string()), ("a", pa.int32())], "columns come in the order ['b', 'a'], declared as ['a', 'b']"),
    ],
)
def test_d6_a_difference_is_explained(fields: list[Any], message: str) -> None:
    assert explain_difference(Schema(DECLARED), Schema(pa.schema(fields))) == message
