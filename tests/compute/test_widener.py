"""Widened batches: types, missing columns, order of columns, and values without an exact conversion. SPEC D6."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from qcore.errors import SchemaChangeError
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from random_tables import SIZES, random_table

WIDER = [
    (pa.int8(), pa.int64()),
    (pa.uint8(), pa.int16()),
    (pa.uint32(), pa.int64()),
    (pa.int16(), pa.float32()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.int32(), pa.decimal128(12, 2)),
    (pa.decimal128(9, 2), pa.decimal128(11, 4)),
    (pa.decimal128(9, 2), pa.decimal128(30, 4)),
    (pa.date32(), pa.timestamp("us")),
    (pa.timestamp("s"), pa.timestamp("us")),
    (pa.time32("ms"), pa.time64("us")),
]


def widen_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch(Widener(Account()).widen(PyBatch.from_arrow(batch), Schema(target)))


def only_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("given", "wanted"), WIDER, ids=str)
def test_values_stay_the_same(given: pa.DataType, wanted: pa.DataType, n: int) -> None:
    """D6."""
    batch = only_batch(random_table(6, n, {"v": given}, 0.2))
    got = widen_batch(batch, pa.schema([("v", wanted)]))
    assert got.schema.field("v").type == wanted
    assert got.column("v").equals(batch.column("v").cast(wanted))


def test_columns_are_found_by_name_and_missing_ones_are_null() -> None:
    """D6."""
    batch = pa.record_batch({"b": ["x", None], "a": pa.array([1, 2], pa.int32()), "n": pa.nulls(2)})
    target = pa.schema([("a", pa.int64()), ("new", pa.float64()), ("b", pa.string()), ("n", pa.int8())])
    assert widen_batch(batch, target).to_pylist() == [
        {"a": 1, "new": None, "b": "x", "n": None},
        {"a": 2, "new": None, "b": None, "n": None},
    ]


EDGE = 1 << 53
DIGITS = pa.decimal128(38, 18)


@pytest.mark.parametrize(
    ("given", "value", "wanted", "fits"),
    [
        (pa.int64(), EDGE, pa.float64(), True),
        (pa.int64(), EDGE + 1, pa.float64(), False),
        (pa.int64(), -EDGE, pa.float64(), True),
        (pa.int64(), -EDGE - 1, pa.float64(), False),
        (pa.uint64(), (1 << 64) - 1, DIGITS, True),
        (pa.decimal128(38, 0), Decimal(10) ** 20 - 1, DIGITS, True),
        (pa.decimal128(38, 0), Decimal(10) ** 20, DIGITS, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("row", [0, 2047, 2048, 2999])
def test_a_value_that_does_not_go_in_is_an_error(
    given: pa.DataType, value: object, wanted: pa.DataType, fits: bool, row: int
) -> None:
    """D6: the error names the column, both types and the value, in any vector."""
    values: list[object] = [None if i % 5 == 1 else 3 for i in range(3000)]
    values[row] = value
    batch = pa.record_batch({"v": pa.array(values, given)})
    target = pa.schema([("v", wanted)])
    if fits:
        assert widen_batch(batch, target).column("v").to_pylist() == pa.array(values, given).cast(wanted).to_pylist()
        return
    with pytest.raises(SchemaChangeError, match=rf"column 'v' is .* does not hold its value {value} exactly"):
        widen_batch(batch, target)


def test_one_widener_for_several_schemas() -> None:
    """The schema may change with every batch. Memory of the program before is released."""
    account = Account()
    widener = Widener(account)
    target = Schema(pa.schema([("v", pa.int64())]))
    for type_ in (pa.int8(), pa.int32(), pa.int8(), pa.int64()):
        batch = PyBatch.from_arrow(pa.record_batch({"v": pa.array([1, None, 3], type_)}))
        assert pa.record_batch(widener.widen(batch, target)).column("v").to_pylist() == [1, None, 3]
    del widener, batch
    assert account.reserved_bytes == 0


def test_elements_of_lists() -> None:
    """Nested lists, null lists above values, empty lists, and a slice. Values below a null list cause no error."""
    inner = pa.ListArray.from_arrays([0, 2, 2, 5, 6], pa.array([1, None, 3, 4, 5, 6], pa.int32()))
    given = pa.ListArray.from_arrays([0, 1, 3, 3, 4], inner, mask=pa.array([False, True, False, False]))
    batch = pa.record_batch({"v": given}).slice(1)
    wanted = pa.list_(pa.list_(pa.decimal128(12, 2)))
    assert widen_batch(batch, pa.schema([("v", wanted)])).column("v").to_pylist() == [None, [], [[Decimal(6)]]]
    whole = widen_batch(pa.record_batch({"v": given}), pa.schema([("v", wanted)]))
    assert whole.column("v").to_pylist() == [[[Decimal(1), None]], None, [], [[Decimal(6)]]]
    assert whole.schema.field("v").type == wanted
    hidden = pa.ListArray.from_arrays([0, 1, 2], pa.array([EDGE + 1, 5]), mask=pa.array([True, False]))
    target = pa.schema([("v", pa.list_(pa.float64()))])
    assert widen_batch(pa.record_batch({"v": hidden}), target).column("v").to_pylist() == [None, [5.0]]
    with pytest.raises(SchemaChangeError, match=rf"column 'v' is .* does not hold its value {EDGE + 1} exactly"):
        widen_batch(pa.record_batch({"v": [[5], [1, EDGE + 1]]}), target)


@pytest.mark.parametrize("n", SIZES)
def test_lists_beside_other_columns(n: int) -> None:
    rows = {"k": list(range(n)), "v": [None if i % 3 == 0 else [i] * (i % 4) for i in range(n)]}
    given = pa.schema([("k", pa.int32()), ("v", pa.list_(pa.int32()))])
    target = pa.schema([("k", pa.int64()), ("v", pa.list_(pa.int64())), ("new", pa.list_(pa.string()))])
    batch = only_batch(pa.table(rows, schema=given))
    assert widen_batch(batch, target).to_pydict() == {**rows, "new": [None] * n}
