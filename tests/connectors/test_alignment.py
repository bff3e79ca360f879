"""The conversion of a file's columns to a scan's; SPEC D6 and V10."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qcore.connectors.alignment import (
    Alignment,
    logical_schema,
    logical_type,
    match_name,
    passes,
    require_same,
    unify_schemas,
    widen,
)
from qcore.errors import ExecutionError, PlanError, SchemaChangeError, SchemaConflictError


def fields(**types: pa.DataType) -> list[pa.Field]:
    return [pa.field(name, type) for name, type in types.items()]


def align_rows(rows: dict[str, Any], wanted: list[pa.Field], **options: Any) -> dict[str, list[Any]]:
    """The aligned columns of a table and of a batch of the same rows, which must be equal."""
    table = pa.table(rows)
    alignment = Alignment(table.schema, wanted, "the file", **options)
    converted = alignment.table(table)
    assert converted.schema.equals(alignment.schema)
    assert pa.Table.from_batches([alignment.batch(table.to_batches()[0])]).equals(converted)
    assert alignment.no_rows().schema.equals(converted.schema)
    return converted.to_pydict()


def test_columns_are_found_by_name_and_converted() -> None:
    rows = {
        "b": pa.array([1, None], pa.int32()),
        "a": pa.array(["x", None]).dictionary_encode(),
        "r": pa.array(["7", "8"]),
        "d": pa.array([Decimal("1.5"), None], pa.decimal32(5, 1)),
        "unused": [1, 2],
    }
    wanted = fields(a=pa.string(), b=pa.int64(), r=pa.int16(), d=pa.decimal128(10, 2), c=pa.int8(), n=pa.string())
    assert align_rows(rows, wanted, constants={"c": 3, "n": None}) == {
        "a": ["x", None],
        "b": [1, None],
        "r": [7, 8],
        "d": [Decimal("1.50"), None],
        "c": [3, 3],
        "n": [None, None],
    }
    assert Alignment.names(list(rows), wanted, {"c": 3, "n": None}, False) == ["a", "b", "r", "d"]


@pytest.mark.parametrize(
    ("viewed", "declared"),
    [
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal32(5, 2), pa.decimal128(9, 2)),
        (pa.decimal32(5, 2), pa.decimal128(10, 2)),
        (pa.decimal64(15, 2), pa.decimal128(18, 2)),
        (pa.decimal64(15, 2), pa.decimal128(19, 2)),
        (pa.decimal64(15, 2), pa.decimal128(20, 4)),
        (pa.decimal64(15, 2), pa.float64()),
    ],
)
def test_integers_that_are_decimals(viewed: pa.DataType, declared: pa.DataType) -> None:
    """Integers become narrow decimals without a copy if the declared precision holds them."""
    held = pa.int32() if viewed.bit_width == 32 else pa.int64()
    rows = {"d": pa.array([12345, -1, None], held)}
    (found,) = align_rows(rows, fields(d=declared), decimals={"d": viewed}).values()
    expected = pa.array([Decimal("123.45"), Decimal("-0.01"), None], pa.decimal128(20, 2))
    assert found == expected.cast(declared).to_pylist()


def test_values_that_do_not_go_into_the_declared_type() -> None:
    with pytest.raises(ExecutionError, match="column 'a' of the file is string and cannot be converted to the"):
        align_rows({"a": ["x"]}, fields(a=pa.int64()))
    with pytest.raises(ExecutionError, match="column 'a' of the file is int64"):
        align_rows({"a": [1 << 40]}, fields(a=pa.int32()))


def test_d6_policies_of_other_types() -> None:
    """D6: 'evolve' accepts types that widen to the declared type; 'error' accepts the declared type only."""
    narrow, wide = {"a": pa.array([1], pa.int32())}, {"a": pa.array([1], pa.int64())}
    assert align_rows(narrow, fields(a=pa.int64()), on_schema_change="evolve") == {"a": [1]}
    with pytest.raises(SchemaChangeError, match="the scan declares int32: declare a type that holds both"):
        align_rows(wide, fields(a=pa.int32()), on_schema_change="evolve")
    with pytest.raises(SchemaChangeError, match="is int32, the scan declares int64: on_schema_change is 'error'"):
        align_rows(narrow, fields(a=pa.int64()), on_schema_change="error")
    assert align_rows({"s": ["x"]}, fields(s=pa.string_view()), on_schema_change="error") == {"s": ["x"]}


def test_absent_columns() -> None:
    assert align_rows({"a": [1]}, fields(b=pa.int8()), absent_is_null=True) == {"b": [None]}
    with pytest.raises(ExecutionError, match=r"the file has no column 'ab' \(int8\); did you mean 'ab1'"):
        align_rows({"ab1": [1]}, fields(ab=pa.int8()))
    with pytest.raises(SchemaChangeError, match="has no column 'b'"):
        align_rows({"a": [1]}, fields(b=pa.int8()), on_schema_change="error")


def test_names_without_regard_to_case() -> None:
    assert match_name(["A", "a"], "a", True) == "a"
    assert match_name(["B"], "b", True) == "B"
    assert match_name(["B"], "b", False) is None
    with pytest.raises(ExecutionError, match="column 'ab' could be any of Ab, AB"):
        match_name(["Ab", "AB"], "ab", True)


def test_one_schema_of_several() -> None:
    first = pa.schema([pa.field("a", pa.int8(), False), pa.field("b", pa.string(), False)])
    second = pa.schema([pa.field("c", pa.null()), pa.field("a", pa.int32(), False)])
    assert unify_schemas([("x", first), ("y", second)]).equals(
        pa.schema([pa.field("a", pa.int32(), False), ("b", pa.string()), ("c", pa.null())])
    )
    with pytest.raises(SchemaConflictError, match="column 'a' is int8 in x and string in y: no type holds the values"):
        unify_schemas([("x", first), ("y", pa.schema({"a": pa.string()}))])


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"a": pa.int8()}, r"column 'b' \(string\) of x is not in y"),
        ({"a": pa.int16(), "b": pa.string()}, "column 'a' is int8 in x and int16 in y"),
        ({"b": pa.string(), "a": pa.int8()}, r"in the order \['a', 'b'\] in x and \['b', 'a'\] in y"),
    ],
)
def test_schemas_that_must_be_the_same(second: dict[str, pa.DataType], words: str) -> None:
    first = pa.schema({"a": pa.int8(), "b": pa.string()})
    assert require_same([("x", first), ("y", pa.schema({"a": pa.int8(), "b": pa.large_string()}))]) is first
    with pytest.raises(SchemaConflictError, match=words):
        require_same([("x", first), ("y", pa.schema(second))])


def test_types_that_widen() -> None:
    assert widen(pa.int32(), pa.int64()) == pa.int64()
    assert widen(pa.list_(pa.int8()), pa.list_(pa.int16())).value_type == pa.int16()
    struct = widen(pa.struct([("x", pa.int8())]), pa.struct([("y", pa.string())]))
    assert struct == pa.struct([("x", pa.int8()), ("y", pa.string())])
    assert widen(pa.decimal128(10, 2), pa.float64()) is None
    assert widen(pa.int32(), pa.string()) is None


def test_types_that_queries_see() -> None:
    assert logical_type(pa.dictionary(pa.int8(), pa.decimal64(12, 2))) == pa.decimal128(12, 2)
    assert logical_type(pa.run_end_encoded(pa.int32(), pa.date32())) == pa.date32()
    assert logical_type(pa.dictionary(pa.int8(), pa.uuid())) == pa.uuid()
    assert logical_type(pa.bool8()) == pa.int8()


def test_uuids_are_read_from_bytes_and_not_from_text() -> None:
    stored = [b"0123456789abcdef", None]
    made = align_rows({"u": pa.array(stored, pa.binary(16))}, fields(u=pa.uuid()))["u"]
    assert [value and value.bytes for value in made] == stored
    assert align_rows({"u": pa.array(made, pa.uuid())}, fields(u=pa.binary()))["u"] == stored
    with pytest.raises(ExecutionError, match=r"'u' of the file is string and .* declare it as text"):
        align_rows({"u": ["0123456789abcdef"]}, fields(u=pa.uuid()))
    with pytest.raises(SchemaConflictError, match=r"extension<arrow.uuid> in a and fixed_size_binary"):
        unify_schemas([("a", pa.schema({"u": pa.uuid()})), ("b", pa.schema({"u": pa.binary(16)}))])
    with pytest.raises(PlanError, match="the file has two columns named 'a'"):
        logical_schema(pa.schema([("a", pa.int8()), ("a", pa.int8())]), "the file")
    assert passes(pa.dictionary(pa.int8(), pa.large_string()), pa.string())
    assert passes(pa.decimal32(5, 2), pa.decimal128(5, 2))
    assert not passes(pa.decimal32(5, 2), pa.decimal128(6, 2))
    assert not passes(pa.dictionary(pa.int8(), pa.int64()), pa.int64())
