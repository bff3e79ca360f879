"""Schemas of joins: the fields of both sides, also with equal names and metadata. SPEC D4."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.plan.schema import join_schema

LEFT = pa.schema([("a", pa.int64()), pa.field("b", pa.int32(), nullable=False)])
RIGHT = pa.schema([("c", pa.string()), pa.field("d", pa.int8(), metadata={"x": "y"})])
TWICE = pa.schema([("x", pa.int8()), ("x", pa.int16())])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (LEFT, RIGHT),
        (LEFT, LEFT),
        (LEFT, pa.schema([("a", pa.string())])),
        (LEFT, pa.schema([("a", pa.null())])),
        (LEFT, TWICE),
        (TWICE, RIGHT),
        (LEFT, pa.schema([])),
        (pa.schema([]), LEFT),
        (LEFT.with_metadata({"k": "v"}), RIGHT),
        (LEFT, RIGHT.with_metadata({"k": "v"})),
    ],
    ids=lambda schema: " ".join(schema.names) or "none",
)
def test_a_join_has_the_fields_of_both_sides(left: pa.Schema, right: pa.Schema) -> None:
    expected = pa.schema([*left, *right])
    assert join_schema("inner", left, right).equals(expected, check_metadata=True)
