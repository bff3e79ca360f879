"""Rows of a table in memory, read by row numbers without the GIL (SPEC V10, H2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.connectors.arrow import ArrowTable
from qcore.errors import ExecutionError
from qcore_ext.basic.scan import TableScan
from qcore_ext.data.row_check import RowChecks
from qcore_ext.data.schema import Schema
from qcore_ext.data.stored_rows import StoredRows
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, random_table


@dataclass
class Rows:
    start: int
    length: int


def never(split: Any) -> Any:
    raise AssertionError(f"split {split} was opened")


def read(
    stored: StoredRows, schema: pa.Schema, splits: list[Any], batch_rows: int = 65_536, open_split: Any = never
) -> list[pa.RecordBatch]:
    queue = SplitQueue("1")
    operator = TableScan("1", Account(), queue, Schema(schema), open_split, batch_rows, stored=stored)
    for split in splits:
        queue.add(split)
    queue.no_more()
    batches = run_chain([operator])
    assert queue.n_finished == len(splits)
    return batches


@pytest.mark.each_value
@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
@pytest.mark.parametrize(("offset", "chunk_rows"), [(0, None), (3, 700), (5, 9)])
def test_every_type_from_every_row(type_: pa.DataType, offset: int, chunk_rows: int | None) -> None:
    table = random_table(1, 3000, {"a": type_, "b": pa.int32()}, 0.2, offset=offset, chunk_rows=chunk_rows)
    splits = [Rows(0, 1), Rows(1, 998), Rows(999, 1), Rows(1000, 2000), Rows(3000, 0)]
    batches = read(StoredRows(table), table.schema, splits, batch_rows=512)
    assert all(0 < batch.num_rows <= 512 for batch in batches)
    expected = table
    if pa.types.is_dictionary(type_):
        expected = table.set_column(0, "a", table["a"].cast(type_.value_type))
    assert_same_rows(pa.Table.from_batches(batches), expected, ordered=True)


def test_no_rows_and_chunks_without_rows() -> None:
    schema = pa.schema([("a", pa.int64())])
    empty = StoredRows(schema.empty_table())
    assert empty.n_rows == 0
    assert read(empty, schema, [Rows(0, 0)]) == []
    parts = pa.chunked_array([[], [1, 2], [], [3], []], pa.int64())
    stored = StoredRows(pa.table({"a": parts}))
    assert stored.n_rows == 3
    assert [b["a"].to_pylist() for b in read(stored, schema, [Rows(1, 2)])] == [[2], [3]]


@pytest.mark.parametrize("split", [Rows(-1, 2), Rows(2, 2), Rows(0, -1), "a split", Rows("0", 1)], ids=str)  # type: ignore[arg-type]
def test_other_splits_are_opened(split: Any) -> None:
    """The connector opens other splits, and ranges outside of the rows, for which it has the better error."""
    table = pa.table({"a": [1, 2, 3]})
    opened: list[Any] = []

    def open_split(given: Any) -> Any:
        opened.append(given)
        return table

    batches = read(StoredRows(table), table.schema, [Rows(2, 1), split], open_split=open_split)
    assert opened == [split]
    assert [b["a"].to_pylist() for b in batches] == [[3], [1, 2, 3]]


def test_rows_of_another_schema_are_not_used() -> None:
    narrow, wide = pa.table({"a": pa.array([1], pa.int32())}), pa.table({"a": [1]})
    assert read(StoredRows(narrow), wide.schema, [Rows(0, 1)], open_split=lambda _: wide)[0]["a"].to_pylist() == [1]


def make_damaged_text() -> pa.Array:
    """Strings whose text of the row before the last is not UTF-8."""
    texts = pa.array([f"text {n:010d}" for n in range(5000)])
    offsets, data = texts.buffers()[1:]
    raw = bytearray(data)
    raw[15 * 4998] = 0xFF
    return pa.Array.from_buffers(pa.string(), 5000, [None, offsets, pa.py_buffer(raw)])


def test_rows_are_checked_when_they_are_loaded() -> None:
    table = pa.table({"n": range(5000), "s": make_damaged_text()})
    checks = [[], [RowChecks("s", table["s"].chunk(0), table["s"].chunk(0).buffers()[2].size)]]
    stored = StoredRows(table, checks)
    assert sum(b.num_rows for b in read(stored, table.schema, [Rows(0, 2000)])) == 2000
    with pytest.raises(ExecutionError, match="column 's'"):
        read(stored, table.schema, [Rows(4900, 100)])


def test_rows_over_other_arrays_than_those_of_the_checks_are_not_used() -> None:
    one, other = pa.array(["a", "b"]), pa.array(["c", "d"])
    table = pa.table({"s": pa.chunked_array([one, other])})
    checks = [RowChecks("s", array, array.buffers()[2].size) for array in (one, other)]
    assert StoredRows(table, [checks]).is_checked
    assert StoredRows(table).is_checked
    for given in (checks[:1], checks[1:], checks[::-1]):
        assert not StoredRows(table, [given]).is_checked


def test_every_chunk_of_strings_is_checked() -> None:
    """Also after chunks that were checked before or have no rows, and if pyarrow drops a bitmap without nulls."""
    texts = pa.array([f"text {n:010d}" for n in range(100)])
    bitmap = pa.py_buffer(b"\xff" * 13)
    without_validity = pa.Array.from_buffers(pa.string(), 5000, [None, *make_damaged_text().buffers()[1:]])
    for last in (make_damaged_text(), without_validity):
        whole = pa.Array.from_buffers(pa.string(), 100, [bitmap, *texts.buffers()[1:]])
        chunks = [*(texts.slice(n, 1) for n in range(100)), texts.slice(0, 0), whole, last]
        table = pa.table({"s": pa.chunked_array(chunks)})
        held = ArrowTable(table)
        assert held._sound is not None
        held._sound.require(table, ["s"], 0, 50)
        assert whole.null_count == 0
        session = qcore.Session(threads=1)
        session.register("t", held)
        with pytest.raises(ExecutionError, match="column 's' of an Arrow batch is malformed"):
            session.sql("select max(s) from t").to_arrow()


def test_a_query_finds_damaged_rows_of_a_table() -> None:
    session = qcore.Session(threads=2)
    session.register("t", pa.table({"n": range(5000), "s": make_damaged_text()}))
    assert session.sql("select sum(n) as n from t").to_arrow().to_pydict() == {"n": [sum(range(5000))]}
    with pytest.raises(ExecutionError, match="column 's' of an Arrow batch is malformed"):
        session.sql("select max(s) from t").to_arrow()


def test_a_stream_that_fails() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise ValueError("no more")

    schema = pa.schema([("a", pa.int64())])
    with pytest.raises(ExecutionError, match="failed"):
        StoredRows(pa.RecordBatchReader.from_batches(schema, batches()))


def test_tables_store_what_drivers_read_as_it_is() -> None:
    codes = pa.array(["x", "y"]).dictionary_encode()
    table = ArrowTable(pa.table({"n": [1, 2], "s": ["a", "b"], "l": [[1], [2]], "c": codes}))
    stored = table.stored_rows(("s", "n"))
    assert stored is not None and stored is table.stored_rows(("s", "n"))
    for columns in ((), ("l",), ("n", "c"), ("unknown",)):
        assert table.stored_rows(columns) is None


def test_scans_of_tables_read_stored_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowering calls stored_rows of a StoredTable, and opens the splits of other tables."""
    given: list[StoredRows | None] = []
    plain = ArrowTable.stored_rows

    def keep(table: ArrowTable, columns: tuple[str, ...]) -> StoredRows | None:
        given.append(plain(table, columns))
        return given[-1]

    monkeypatch.setattr(ArrowTable, "stored_rows", keep)
    result = qcore.sql("select n from t where n > 1", {"t": pa.table({"n": [1, 2]})})
    assert result.to_arrow().to_pylist() == [{"n": 2}]
    assert given and None not in given


def test_few_selections_are_kept() -> None:
    table = ArrowTable(pa.table({f"c{n}": [n] for n in range(200)}))
    for n in range(200):
        assert table.stored_rows((f"c{n}",)) is not None
    assert len(table._stored) <= 64
