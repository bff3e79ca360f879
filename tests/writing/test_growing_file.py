"""Files whose schema grows while they are written (SPEC D6)."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import MemoryLimitError, SchemaChangeError
from qcore.writing.file_sets import StagingFolder
from qcore.writing.growing_file import ArrowFormat, GrowingFile, GrowingSchema, WriteFormat, union_of, widen_rows
from qcore.writing.table_write import ParquetFormat
from qcore_ext.ground.memory import Account

SCHEMA = pa.schema([("a", pa.int32()), ("s", pa.string())])
FORMATS = {"arrow": ArrowFormat(), "parquet": ParquetFormat("snappy", 100)}


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


FIRST = batch(a=pa.array([1, None], pa.int32()), s=["x", None])
WIDER = batch(a=pa.array([2**40]), s=pa.array(["a text of more than twelve bytes"], pa.string_view()), b=[True])
NARROW = batch(s=pa.array(["y"], pa.large_string()), a=pa.array([3], pa.int8()))
WIDEST = batch(a=[Decimal("1.25")])
ROWS = [
    {"a": 1, "s": "x", "b": None},
    {"a": None, "s": None, "b": None},
    {"a": 2**40, "s": "a text of more than twelve bytes", "b": True},
    {"a": 3, "s": "y", "b": None},
    {"a": Decimal("1.25"), "s": None, "b": None},
]


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_rows_keep_their_order(format: WriteFormat, tmp_path: Path) -> None:
    """D6: narrower rows go to the file as it is, wider rows to a new segment. The final file has all rows in order."""
    staging, schema, account = StagingFolder(str(tmp_path / "out")), GrowingSchema(SCHEMA), Account()
    file = GrowingFile(staging, "one", schema, format, account)
    for given, n_segments in ((FIRST, 0), (FIRST, 0), (WIDER, 1), (NARROW, 1), (FIRST, 1), (WIDEST, 2)):
        file.write(given)
        assert len(os.listdir(f"{staging.path}/segments")) if n_segments else True
    other = GrowingFile(staging, "two", schema, format, account)
    other.write(NARROW)
    file.close()
    other.close()
    empty = GrowingFile(staging, "none", schema, format, account)
    for each, expected in (
        (file, [*ROWS[:2], *ROWS[:2], *ROWS[2:4], *ROWS[:2], ROWS[4]]),
        (other, [ROWS[3]]),
        (empty, []),
    ):
        n_bytes = each.complete()
        path = staging.file(each._name)
        assert n_bytes == os.path.getsize(path)
        assert each.n_rows == len(expected)
        found = list(format.read(path))
        assert [row for rows in found for row in rows.to_pylist()] == expected
        assert all(rows.schema.equals(schema.now) for rows in found)
    assert [str(type_) for type_ in schema.now.types] == ["decimal128(21, 2)", "string", "bool"]
    assert sorted(os.listdir(f"{staging.path}/files")) == ["none", "one", "two"]
    assert os.listdir(f"{staging.path}/segments") == []
    assert account.reserved_bytes == 0
    staging.remove()


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_a_file_is_closed_when_its_segments_cannot_be_read(format: WriteFormat, tmp_path: Path) -> None:
    """D9: the error is raised, and the file that was begun is closed."""
    staging, schema = StagingFolder(str(tmp_path / "out")), GrowingSchema(SCHEMA)
    file = GrowingFile(staging, "one", schema, format, Account())
    for given in (FIRST, WIDER):
        file.write(given)
    file.close()
    Path(file._segments[1][0]).write_bytes(b"damaged")
    with pytest.raises(pa.ArrowException):
        file.complete()
    assert file._writer is None
    staging.remove()
    assert os.listdir(tmp_path) == []


def test_rows_that_wait_for_their_row_group_are_charged(tmp_path: Path) -> None:
    """D6, V7: rows of the file that is written from segments, and texts converted from views."""
    text = ["x" * 1000] * 1000
    parts = [batch(a=pa.array(range(1000), type_), s=pa.array(text)) for type_ in (pa.int32(), pa.int64())]
    views = parts[0].set_column(1, "s", pa.array(text, pa.string_view()))
    staging, format = StagingFolder(str(tmp_path / "out")), ParquetFormat("none", 1 << 20)
    for first, charged in ((parts[0], 0), (views, 1_000_000)):
        account = Account()
        file = GrowingFile(staging, str(first.schema.field("s").type), GrowingSchema(first.schema), format, account)
        file.write(first)
        assert charged <= account.reserved_bytes < charged + 50_000
        file.write(parts[1])
        file.complete()
        assert 2_000_000 <= account.peak_bytes < 3_500_000
        assert account.reserved_bytes == 0
    account = Account(limit=1_500_000)
    file = GrowingFile(staging, "limit", GrowingSchema(parts[0].schema), format, account)
    for part in parts:
        file.write(part)
    with pytest.raises(MemoryLimitError):
        file.complete()
    assert file._writer is None and account.reserved_bytes == 0
    staging.remove()


def test_schemas_grow() -> None:
    """D6: other layouts of text leave the schema as it is.

    An error of types in conflict names the column and both types.
    """
    assert union_of(SCHEMA, NARROW.schema) is SCHEMA
    assert union_of(SCHEMA, pa.schema({"s": pa.dictionary(pa.int8(), pa.string())})) is SCHEMA
    coded = pa.schema({"s": pa.dictionary(pa.int8(), pa.string())})
    assert union_of(coded, SCHEMA).field("s").type == pa.string(), "a dictionary may be too small"
    schema = GrowingSchema(SCHEMA)
    with pytest.raises(SchemaChangeError, match="column 'a' changed from int32 to string"):
        schema.grow(pa.schema({"a": pa.string()}))
    assert schema.now is SCHEMA


def test_rows_are_charged_while_they_are_converted() -> None:
    """D6, V7: rows that are read again are charged to the query."""
    account = Account()
    wide = pa.schema([("a", pa.int64()), ("s", pa.string())])
    rows = widen_rows(FIRST, wide, account, payer=account)
    assert rows.to_pylist() == FIRST.to_pylist() and rows.schema == wide
    assert account.peak_bytes > 0
    assert account.reserved_bytes == 0
    assert widen_rows(FIRST, SCHEMA, account) is FIRST
