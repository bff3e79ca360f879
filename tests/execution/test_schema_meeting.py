"""A batch of another schema than the bound one: the driver widens the batch, binds again, or both (SPEC D6).

Checked mode, which all tests use, refuses a batch of another schema than the bound one and a second bind to one schema.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import SchemaChangeError
from qcore_ext.execution.task import Task
from qcore_ext.ground.memory import Account
from qcore_testing.operators import BatchSource, FakeOperator, import_batches, run_chain


def batch(**columns: tuple[pa.DataType, list[Any]]) -> pa.RecordBatch:
    arrays = {name: pa.array(values, type) for name, (type, values) in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def sink_input(*batches: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The batches that the sink gets for these batches of a source."""
    return run_chain([], list(batches))


def n_binds(*batches: pa.RecordBatch) -> int:
    """How often the sink is bound while it gets these batches."""
    log: list[tuple[str, str]] = []
    source = BatchSource(import_batches(list(batches)), Account())
    Task([[[source, FakeOperator("sink", log=log)]]]).run_on_caller(timeout=20)
    return log.count(("sink", "bind"))


NARROW = batch(x=(pa.int32(), [1, None]))
WIDE = batch(x=(pa.int64(), [1 << 40, None]))


def test_equal_schemas_are_bound_once() -> None:
    again = batch(x=(pa.int32(), [7]))
    assert n_binds(NARROW, again, NARROW) == 1
    assert sink_input(NARROW, again) == [NARROW, again]


def test_a_narrower_batch_is_widened_and_nothing_is_bound() -> None:
    assert n_binds(WIDE, NARROW, NARROW) == 1
    assert sink_input(WIDE, NARROW) == [WIDE, batch(x=(pa.int64(), [1, None]))]


def test_a_wider_batch_binds_the_operator_again_and_stays_as_it_is() -> None:
    assert n_binds(NARROW, WIDE, WIDE) == 2
    assert sink_input(NARROW, WIDE) == [NARROW, WIDE]


def test_schemas_only_grow() -> None:
    assert n_binds(NARROW, WIDE, NARROW, WIDE, NARROW) == 2
    assert [got.schema.field("x").type for got in sink_input(NARROW, WIDE, NARROW)] == [
        pa.int32(),
        pa.int64(),
        pa.int64(),
    ]


def test_a_batch_with_more_columns_of_narrower_types_does_both() -> None:
    both = batch(x=(pa.int32(), [1, None]), y=(pa.string(), ["a", "b"]))
    assert n_binds(WIDE, both) == 2
    assert sink_input(WIDE, both) == [WIDE, batch(x=(pa.int64(), [1, None]), y=(pa.string(), ["a", "b"]))]


def test_columns_are_matched_by_name_and_missing_ones_are_null() -> None:
    first = batch(x=(pa.int32(), [1]), y=(pa.string(), ["a"]))
    assert sink_input(first, batch(y=(pa.string(), ["b"]), x=(pa.int32(), [2])), batch(y=(pa.string(), ["c"]))) == [
        first,
        batch(x=(pa.int32(), [2]), y=(pa.string(), ["b"])),
        batch(x=(pa.int32(), [None]), y=(pa.string(), ["c"])),
    ]


def test_each_narrower_schema_in_turn_is_widened() -> None:
    kinds = [pa.int64(), pa.int8(), pa.int16(), pa.int8(), pa.null()]
    batches = [batch(x=(kind, [None if kind == pa.null() else 5])) for kind in kinds]
    got = sink_input(*batches)
    assert [each.column(0).to_pylist() for each in got] == [[5], [5], [5], [5], [None]]
    assert {each.schema.field("x").type for each in got} == {pa.int64()}


def test_types_in_conflict_are_refused_with_column_and_operator() -> None:
    told = r"^Collector \(node sink\): column 'x' changed from int32 to string: they do not widen into one type; "
    with pytest.raises(SchemaChangeError, match=told):
        sink_input(NARROW, batch(x=(pa.string(), ["a"])))


def test_a_value_that_the_wider_type_does_not_hold_is_refused() -> None:
    """A float64 column holds 64-bit integers only up to 2**53."""
    floats = batch(x=(pa.float64(), [0.5]))
    assert sink_input(floats, batch(x=(pa.int64(), [1 << 53])))[1].column(0).to_pylist() == [float(1 << 53)]
    with pytest.raises(SchemaChangeError, match=str((1 << 53) + 1)):
        sink_input(floats, batch(x=(pa.int64(), [(1 << 53) + 1])))


def test_converted_columns_are_charged_to_the_operator_and_freed() -> None:
    """The fixture of every test asserts that nothing stays reserved."""
    money = batch(x=(pa.decimal128(20, 2), [Decimal("1.25")]))
    whole = batch(x=(pa.int32(), list(range(5000))))
    assert sink_input(money, whole)[1].column(0).to_pylist() == [Decimal(i) for i in range(5000)]
