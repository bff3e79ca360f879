"""Malformed Arrow types are errors before anything follows their pointers (SPEC H2)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from c_arrays import Producer, part_of

from qcore.errors import ExecutionError, PlanError
from qcore_ext.data.checked_stream import CheckedStream
from qcore_ext.data.schema import Schema

BATCH = pa.record_batch({"number": pa.array([1, None, 3, 4]), "list": pa.array([[1], None, [2, 3], []])})
# Faults that the check finds. The import of the schema finds unknown formats.
FAULTS = [
    ({"format": None}, "no format"),
    ({"n_children": -1}, "an impossible number of children"),
    ({"n_children": 1 << 40}, "an impossible number of children"),
    ({"name": b"\xff\xfe"}, "UTF-8"),
    ({"format": b"+w:-3"}, "negative"),
    ({"format": b"+w"}, "no length"),
]


@pytest.mark.parametrize(("schema", "says"), FAULTS, ids=str)
@pytest.mark.parametrize("inside", [False, True], ids=["column", "element"])
def test_faults_of_types_are_named(schema: dict[str, Any], says: str, inside: bool) -> None:
    """H2: at the top and inside a list."""
    part = part_of(BATCH)
    target = part.children[1].children[0] if inside else part.children[0]
    target.schema.update(schema)
    with pytest.raises(ExecutionError, match=f"type is malformed: .*{says}"):
        pa.RecordBatchReader.from_stream(CheckedStream(Producer(part)))


@pytest.mark.parametrize("depth", [10, 60, 70, 200])
def test_types_nested_too_deeply_are_malformed(depth: int) -> None:
    deep = pa.int8()
    for _ in range(depth):
        deep = pa.list_(deep)
    if depth <= 60:
        assert pa.schema(Schema(pa.schema([("deep", deep)]))).field("deep").type == deep
        return
    with pytest.raises(PlanError, match="too deeply"):
        Schema(pa.schema([("deep", deep)]))


def test_sound_types_pass() -> None:
    part = part_of(BATCH)
    read = pa.RecordBatchReader.from_stream(CheckedStream(Producer(part)))
    assert read.schema.names == ["number", "list"]
