"""Import and export of Arrow data: every layout, offset and size comes back unchanged (SPEC H2)."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError, PlanError
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from random_tables import ALL_TYPES, SIZES, random_table

NARROW_DECIMALS = [pa.decimal32(9, 2), pa.decimal64(15, 2)]


def round_trip(batch: pa.RecordBatch) -> pa.RecordBatch:
    out = pa.record_batch(PyBatch.from_arrow(batch))
    out.validate(full=True)
    return out


def one_batch(seed: int, n_rows: int, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    return random_table(seed, n_rows, types, null_share=0.3).combine_chunks().to_batches()[0] if n_rows else (
        pa.RecordBatch.from_pylist([], schema=pa.schema(list(types.items())))
    )


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("offset", [0, 3, 8, 64])
def test_every_type_comes_back(n_rows: int, offset: int) -> None:
    """H2, Q3."""
    types = {f"c{i}": type_ for i, type_ in enumerate(ALL_TYPES)}
    batch = one_batch(1, n_rows + offset, types).slice(offset)
    out = round_trip(batch)
    for name in types:
        assert out[name].to_pylist() == batch[name].to_pylist(), (name, types[name])


@pytest.mark.parametrize("type_", NARROW_DECIMALS, ids=str)
def test_narrow_decimals_come_back_as_decimal128(type_: pa.DataType) -> None:
    numbers = [Decimal("0.01"), None, Decimal("-2.50"), Decimal("999.99")]
    values = pa.array(numbers, pa.decimal128(type_.precision, type_.scale))
    out = round_trip(pa.record_batch({"d": values.cast(type_)}))
    assert out.schema.field("d").type == pa.decimal128(type_.precision, type_.scale)
    assert out["d"].to_pylist() == values.to_pylist()


def test_dictionary_index_widths() -> None:
    words = pa.array(["x", "a string beyond twelve bytes", None, "x", ""])
    for index in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()):
        encoded = words.dictionary_encode().cast(pa.dictionary(index, pa.string()))
        assert round_trip(pa.record_batch({"s": encoded}))["s"].to_pylist() == words.to_pylist()


WIDE_INDICES = {
    pa.int8(): 128, pa.uint8(): 256, pa.int16(): 32_768, pa.uint16(): 65_536, pa.int32(): 70_000, pa.uint32(): 70_000,
    pa.int64(): 70_000, pa.uint64(): 70_000,
}


@pytest.mark.parametrize(("index", "n"), WIDE_INDICES.items(), ids=str)
@pytest.mark.parametrize("offset", [0, 3])
def test_dictionary_indices_up_to_the_largest_of_their_type(index: pa.DataType, n: int, offset: int) -> None:
    """H2: indices of unsigned types are read as unsigned."""
    at = [None if i % 7 == 3 else i for i in range(n)]
    encoded = pa.DictionaryArray.from_arrays(pa.array(at, index), pa.array(range(n), pa.int32())).slice(offset)
    assert round_trip(pa.record_batch({"s": encoded}))["s"].to_pylist() == at[offset:]


@pytest.mark.parametrize(("index", "bad"), [
    (pa.int8(), -1), (pa.uint8(), 255), (pa.int16(), -1), (pa.uint16(), 65_535), (pa.int32(), -1),
    (pa.uint32(), 2**32 - 1), (pa.int64(), -1), (pa.int64(), 2**32),
    (pa.uint64(), 2**32), (pa.uint64(), 2**63), (pa.uint64(), 2**64 - 1),
], ids=str)
def test_index_outside_its_dictionary_is_refused_for_every_type(index: pa.DataType, bad: int) -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, bad], index), pa.array(["a"]), safe=False)
    with pytest.raises(ExecutionError, match="outside its dictionary"):
        PyBatch.from_arrow(pa.record_batch({"s": encoded}))
    hidden = pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(index, 2, [pa.py_buffer(b"\x01"), pa.array([0, bad], index).buffers()[1]]),
        pa.array(["a"]), safe=False,
    )
    assert round_trip(pa.record_batch({"s": hidden}))["s"].to_pylist() == ["a", None]


def test_a_dictionary_without_values_is_all_null() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], pa.string()))
    assert round_trip(pa.record_batch({"s": encoded}))["s"].to_pylist() == [None, None]


def test_index_outside_its_dictionary_is_refused() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["a"]), safe=False)
    with pytest.raises(ExecutionError, match="outside its dictionary"):
        PyBatch.from_arrow(pa.record_batch({"s": encoded}))


def test_struct_offset_adds_to_the_children() -> None:
    struct = pa.array([{"a": i, "s": str(i)} for i in range(100)]).slice(37, 20)
    out = pa.record_batch(PyBatch.from_arrow(pa.RecordBatch.from_struct_array(struct)))
    assert out.to_pylist() == struct.to_pylist()


def test_schema_compares_by_value() -> None:
    """D6."""
    schema = pa.schema([("a", pa.int64()), ("d", pa.decimal128(15, 2)), ("t", pa.timestamp("us", "UTC"))])
    assert Schema(schema) == Schema(schema.remove_metadata())
    assert Schema(schema) != Schema(schema.set(0, pa.field("a", pa.int32())))
    assert Schema(schema) != Schema(schema.set(2, pa.field("t", pa.timestamp("us"))))
    assert pa.schema(Schema(schema)) == schema


def test_unknown_type_names_the_column() -> None:
    with pytest.raises(PlanError, match="'wide'"):
        Schema(pa.schema([("wide", pa.decimal256(50, 2))]))
