"""Schemas: names and all Arrow types are imported and exported (SPEC D6, H2)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.errors import PlanError
from qcore_ext.data.schema import Schema
from random_tables import ALL_TYPES

MORE_TYPES = [
    pa.large_binary(), pa.binary_view(), pa.binary(5), pa.float16(), pa.date64(), pa.time32("s"), pa.time64("ns"),
    pa.timestamp("ms"), pa.timestamp("ns", "Europe/Paris"), pa.duration("ns"), pa.large_list(pa.int8()),
    pa.list_(pa.int8(), 3), pa.dictionary(pa.uint64(), pa.large_string()), pa.decimal128(1, 0), pa.decimal128(38, 38),
    pa.uuid(), pa.list_(pa.uuid()), pa.dictionary(pa.int8(), pa.uuid()),
    pa.map_(pa.uuid(), pa.struct([("a", pa.uuid())])),
]  # fmt: skip


@pytest.mark.parametrize("type_", [*ALL_TYPES, *MORE_TYPES], ids=str)
def test_types_come_back(type_: pa.DataType) -> None:
    """H2: a type comes back as its plain type if the engine does not keep its encoding or variant."""
    made = Schema(pa.schema([("first", pa.int8()), ("v", type_)]))
    back = pa.schema(made)
    assert (len(made), made.names, back.names) == (2, ["first", "v"], ["first", "v"])
    given = type_.value_type if pa.types.is_dictionary(type_) else type_
    changed = {pa.date64(): pa.date32(), pa.float16(): pa.float32(), pa.binary(5): back.field("v").type}
    assert back.field("v").type == changed.get(given, given)
    assert Schema(back) == made


@pytest.mark.parametrize("position", range(4))
def test_schemas_are_equal_by_value(position: int) -> None:
    """D6: equal schemas have equal names and types, with their parameters, in the same order."""
    zone, list_ = pa.timestamp("us", "UTC"), pa.list_(pa.int8())
    fields = [("a", pa.int64()), ("d", pa.decimal128(15, 2)), ("t", zone), ("l", list_)]
    others = [("b", pa.int64()), ("d", pa.decimal128(15, 3)), ("t", pa.timestamp("us")), ("l", pa.list_(pa.int16()))]
    schema = pa.schema(fields)
    assert Schema(schema) == Schema(schema.with_metadata({"k": "v"}))
    changed = [*fields[:position], others[position], *fields[position + 1 :]]
    assert Schema(schema) != Schema(pa.schema(changed))
    assert Schema(schema) != Schema(pa.schema(fields[:-1]))
    assert Schema(schema) != Schema(pa.schema(fields[::-1]))


@pytest.mark.parametrize("type_", [pa.decimal256(50, 2), pa.decimal256(5, 2)], ids=str)
def test_an_unsupported_type_is_an_error_that_names_the_column(type_: pa.DataType) -> None:
    with pytest.raises(PlanError, match="'odd one'"):
        Schema(pa.schema([("odd one", type_)]))


def test_uuids_are_no_other_bytes() -> None:
    """H2: the type's name in a field's metadata makes the difference, also inside nested types."""
    for make in (lambda type_: type_, pa.list_, lambda type_: pa.struct([("a", type_)])):
        schema, stored = (Schema(pa.schema([("u", make(type_))])) for type_ in (pa.uuid(), pa.binary(16)))
        assert schema != stored
        assert schema == Schema(pa.schema([pa.field("u", make(pa.uuid()), metadata={"a": "b", "c": ""})]))
    other = pa.field("u", pa.binary(16), metadata={"ARROW:extension:name": "arrow.uuids"})
    assert Schema(pa.schema([other])) == Schema(pa.schema([("u", pa.binary(16))]))


def test_names_of_types_tell_their_parameters() -> None:
    names = Schema(pa.schema([("d", pa.decimal128(15, 2)), ("t", pa.timestamp("us", "UTC")), ("s", pa.string())])).types
    assert len(set(names)) == 3
    assert "15" in names[0]
    assert "UTC" in names[1]
    assert names[2] == "string"
    assert Schema(pa.schema([("u", pa.uuid())])).types == ["uuid"]
