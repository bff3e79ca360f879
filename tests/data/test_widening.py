"""The widening lattice: the type with the values of two types, and the schema for rows of two schemas (SPEC D6)."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pyarrow as pa
import pytest

from qcore.errors import SchemaChangeError
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

US, NS = pa.timestamp("us"), pa.timestamp("ns")
JOINS = [
    (pa.null(), pa.int8(), pa.int8()),
    (pa.null(), pa.list_(pa.int8()), pa.list_(pa.int8())),
    (pa.int8(), pa.int64(), pa.int64()),
    (pa.uint8(), pa.uint32(), pa.uint32()),
    (pa.int8(), pa.uint8(), pa.int16()),
    (pa.int64(), pa.uint8(), pa.int64()),
    (pa.int32(), pa.uint32(), pa.int64()),
    (pa.int8(), pa.uint64(), pa.decimal128(20, 0)),
    (pa.int16(), pa.float32(), pa.float32()),
    (pa.int32(), pa.float32(), pa.float64()),
    (pa.int64(), pa.float64(), pa.float64()),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.int32(), pa.decimal128(5, 2), pa.decimal128(12, 2)),
    (pa.uint64(), pa.decimal128(38, 18), pa.decimal128(38, 18)),
    (pa.decimal128(9, 2), pa.decimal128(9, 4), pa.decimal128(11, 4)),
    (pa.decimal128(38, 0), pa.decimal128(38, 1), pa.decimal128(38, 1)),
    (pa.decimal128(20, 0), pa.float32(), pa.float64()),
    (pa.date32(), US, US),
    (US, NS, NS),
    (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("ms", "UTC")),
    (pa.time32("s"), pa.time64("us"), pa.time64("us")),
    (pa.duration("s"), pa.duration("ns"), pa.duration("ns")),
    (pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.string()),
    (pa.list_(pa.int8()), pa.list_(pa.int16()), pa.list_(pa.int16())),
    (pa.list_(pa.list_(pa.null())), pa.list_(pa.list_(pa.decimal128(5, 2))), pa.list_(pa.list_(pa.decimal128(5, 2)))),
]
CONFLICTS = [
    (pa.int32(), pa.string()),
    (pa.bool_(), pa.int8()),
    (pa.string(), pa.binary()),
    (pa.decimal128(9, 2), pa.float64()),
    (pa.date32(), pa.int32()),
    (pa.date32(), pa.timestamp("us", "UTC")),
    (pa.timestamp("us", "UTC"), US),
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Paris")),
    (pa.time32("s"), pa.duration("s")),
    (pa.list_(pa.int8()), pa.list_(pa.string())),
    (pa.list_(pa.int8()), pa.large_list(pa.int16())),
    (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
]


def join(*schemas: pa.Schema) -> pa.Schema:
    return pa.schema(widen_schemas(*map(Schema, schemas)))


def column(type: pa.DataType) -> pa.Schema:
    return pa.schema([("x", type)])


@pytest.mark.parametrize(("a", "b", "wide"), JOINS, ids=str)
def test_types_that_widen(a: pa.DataType, b: pa.DataType, wide: pa.DataType) -> None:
    """D6: in either order; the wide type and either of the two widen to the wide type."""
    assert join(column(a), column(b)).field("x").type == wide
    assert join(column(b), column(a)).field("x").type == wide
    assert join(column(wide), column(a)).field("x").type == wide


@pytest.mark.parametrize(("a", "b"), CONFLICTS, ids=str)
def test_types_in_conflict(a: pa.DataType, b: pa.DataType) -> None:
    """D6: the error names the column and both types."""
    for one, other in ((a, b), (b, a)):
        with pytest.raises(
            SchemaChangeError, match=r"column 'x' changed from \S[\s\S]* to \S[\s\S]*: they do not widen"
        ):
            join(column(one), column(other))


def test_any_order_ends_in_a_type_that_holds_all() -> None:
    """D6: drivers meet schemas in any order. Without unsigned integers all orders end with the same type."""
    types = [pa.null(), pa.int8(), pa.int32(), pa.uint8(), pa.uint32(), pa.decimal128(7, 2), pa.decimal128(12, 0)]
    for a, b, c in itertools.product(types, repeat=3):
        left = join(join(column(a), column(b)), column(c))
        right = join(column(a), join(column(b), column(c)))
        for wide, type in itertools.product((left, right), (a, b, c)):
            assert join(wide, column(type)) == wide, (a, b, c)
        assert left == right or any(map(pa.types.is_unsigned_integer, (a, b, c))), (a, b, c)


def test_columns_go_by_name() -> None:
    """D6: columns of the first schema in its order, then those of the second alone. Schemas are compared by value."""
    first = pa.schema([("a", pa.int32()), ("b", pa.string())])
    second = pa.schema([("c", pa.int8()), ("b", pa.large_string()), ("a", pa.int64())])
    assert join(first, second) == pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int8())])
    assert join(first, pa.schema(list(first))) == first


def test_values_of_every_conversion() -> None:
    """D6: an operator gets every batch under the widest schema so far; pyarrow's casts are the oracle."""
    values = [None, 0, 1, 7, 100, None, 127]
    for a, b, wide in JOINS:
        if pa.types.is_nested(wide) or pa.types.is_dictionary(b):
            continue
        source = pa.array(values, pa.int8())
        if pa.types.is_time(wide):
            source = source.cast(pa.int32()).cast(pa.time32("s"))
        batches = []
        for type in (a, b, a):
            base = source.cast(pa.int64()) if pa.types.is_duration(type) or pa.types.is_timestamp(type) else source
            base = base.cast(pa.int32()) if pa.types.is_date(type) else base
            batches.append(pa.record_batch([pa.nulls(7) if pa.types.is_null(type) else base.cast(type)], names=["x"]))
        given = run_chain([Limit("limit", Account(), LimitState(None))], batches)
        assert [batch.schema.field("x").type for batch in given[1:]] == [wide, wide]
        for before, after in zip(batches[1:], given[1:], strict=True):
            assert after.column(0).equals(before.column(0).cast(wide)), (a, b)


@pytest.mark.parametrize("type", [pa.int64(), pa.uint64()], ids=str)
def test_an_integer_that_a_float_would_round(type: pa.DataType) -> None:
    """D6: the error names the value. 2**53 itself is exact."""
    floats = pa.record_batch({"x": pa.array([0.5])})
    chain = lambda: [Limit("limit", Account(), LimitState(None))]  # noqa: E731
    exact = pa.record_batch({"x": pa.array([2**53, None], type)})
    assert run_chain(chain(), [floats, exact])[1].column(0).to_pylist() == [2.0**53, None]
    rounded = pa.record_batch({"x": pa.array([1, 2**53 + 1], type)})
    with pytest.raises(
        SchemaChangeError, match=rf"Limit \(node limit\): column 'x' is {type} .* double .*9007199254740993"
    ):
        run_chain(chain(), [floats, rounded])


def test_a_batch_under_a_selection_is_widened() -> None:
    """D6: only the selected rows, in their order."""
    from qcore.expression.tree import col
    from qcore.lowering.compile import compile_predicate
    from qcore_ext.basic.filter import Filter

    memory = Account()
    narrow = pa.record_batch({"a": pa.array(range(5000), pa.int32()), "d": pa.array([Decimal("1.5")] * 5000)})
    wide = pa.record_batch({"d": pa.array([Decimal("2.25")]), "a": pa.array([2**40])})
    keep = Filter("f", memory, lambda schema: compile_predicate(col("a") % 3 == 0, pa.schema(schema)))
    given = run_chain([keep, Limit("l", memory, LimitState(None))], [wide, narrow])
    rows = [row for batch in given for row in batch.to_pylist()]
    expected = [i for i in range(5000) if i % 3 == 0]
    assert [row["a"] for row in rows] == [a for a in (2**40,) if a % 3 == 0] + expected
    assert {row["d"] for row in rows[-len(expected) :]} == {Decimal("1.50")}
