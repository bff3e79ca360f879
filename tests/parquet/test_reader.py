"""Row groups, batches, and columns that the file lacks (SPEC P1, V10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dropped_rows import scan_figures
from parquet.reading_natively import read_natively, rows_of

import qcore
from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable
from qcore.connectors.parquet.native import NativeStream
from qcore.errors import ExecutionError
from qcore_ext.ground.memory import Account
from qcore_testing.units import GivenRows
from random_tables import random_table

TYPES = {"a": pa.int64(), "s": pa.string(), "b": pa.bool_(), "d": pa.decimal128(12, 2)}


@pytest.mark.parametrize("batch_rows", [8, 100, 1000, 100_000])
def test_row_groups_in_batches(tmp_path: Path, batch_rows: int) -> None:
    table = random_table(1, 3500, TYPES, 0.1)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1000)
    found = read_natively(tmp_path / "t.parquet", batch_rows)
    assert found.equals(table)
    assert all(len(chunk) <= max(8, batch_rows & ~7) for chunk in found.column("a").chunks)


def test_columns_in_another_order_and_none(tmp_path: Path) -> None:
    table = random_table(2, 100, TYPES, 0.1)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=30)
    for names in (("d", "a"), ("s",), ("b", "s", "a")):
        assert read_natively(tmp_path / "t.parquet", columns=names).equals(table.select(names))
    stream = FileTable(str(tmp_path / "t.parquet")).open(FileSplit(str(tmp_path / "t.parquet")), (), None, 1000)
    assert sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(stream)) == 100
    stream.close()


def test_columns_of_folders_and_columns_that_a_file_lacks(tmp_path: Path) -> None:
    (tmp_path / "k=5").mkdir()
    pq.write_table(pa.table({"a": [1, 2, None]}), tmp_path / "k=5" / "t.parquet")
    pq.write_table(pa.table({"a": [3], "s": ["x"]}), tmp_path / "k=5" / "u.parquet")
    table = FileTable(str(tmp_path))
    rows = []
    for split in table.splits(("s", "a", "k"), None, 1):
        stream = table.open(split, ("s", "a", "k"), None, 1000)
        assert isinstance(stream, NativeStream)
        rows += pa.RecordBatchReader.from_stream(stream).read_all().to_pylist()
        stream.close()
    assert rows == [{"s": None, "a": a, "k": 5} for a in (1, 2, None)] + [{"s": "x", "a": 3, "k": 5}]


@pytest.mark.parametrize("batch_rows", [8, 100, 1000])
def test_columns_that_pyarrow_decodes_beside_others(tmp_path: Path, batch_rows: int) -> None:
    """pyarrow decodes a column because of its type, its encoding, or a wider declared type."""
    path = tmp_path / "t.parquet"
    types = {"l": pa.list_(pa.int32()), "a": pa.int64(), "t": pa.string(), "s": pa.string(), "i": pa.int32()}
    table = random_table(4, 2500, types, 0.1)
    pq.write_table(table, path, row_group_size=700, use_dictionary=["s"], column_encoding={"t": "DELTA_BYTE_ARRAY"})
    file = FileTable(str(path))
    assert file.columns_of_pyarrow(("s", "t", "a", "l")) == ["t", "l"]
    assert read_natively(path, batch_rows).equals(table)
    assert read_natively(path, batch_rows, ("i", "l")).equals(table.select(["i", "l"]))
    wide = FileTable(str(path), schema=pa.schema([("i", pa.int64()), ("a", pa.int64()), ("none", pa.string())]))
    stream = wide.open(FileSplit(str(path)), ("none", "i", "a"), None, batch_rows)
    assert isinstance(stream, NativeStream)
    found = rows_of(stream)
    stream.close()
    assert found.column("i").to_pylist() == table.column("i").to_pylist()
    assert found.column("a").equals(table.column("a"))
    assert found.column("none").null_count == 2500


def test_explain_names_the_columns_that_pyarrow_decodes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "l": [[1]]}), tmp_path / "t.parquet")
    session = qcore.Session()
    session.register("t", str(tmp_path / "t.parquet"))
    assert "Scan t [a, l] by pyarrow [l]" in str(session.sql("select a, l from t").explain())
    assert "by pyarrow" not in str(session.sql("select a from t").explain())


def test_a_row_group_may_end_early(tmp_path: Path) -> None:
    """Closing a stream before its end also closes pyarrow's reader."""
    pq.write_table(random_table(5, 3000, {"a": pa.int64(), "l": pa.list_(pa.int8())}), tmp_path / "t.parquet")
    file = FileTable(str(tmp_path / "t.parquet"))
    stream = file.open(FileSplit(str(tmp_path / "t.parquet")), ("a", "l"), None, 100)
    assert isinstance(stream, NativeStream)
    assert len(stream.batch_reader.read_batch(Account()) or ()) == 96
    stream.close()


def test_memory_is_charged_and_freed(tmp_path: Path) -> None:
    pq.write_table(random_table(3, 50_000, TYPES), tmp_path / "t.parquet", compression="none", use_dictionary=False)
    table = FileTable(str(tmp_path / "t.parquet"))
    stream = table.open(FileSplit(str(tmp_path / "t.parquet")), ("a", "s"), None, 10_000)
    assert isinstance(stream, NativeStream)
    account = Account()
    batch = stream.batch_reader.read_batch(account)
    assert batch is not None and len(batch) == 10_000
    assert account.reserved_bytes >= 10_000 * (8 + 16)
    stream.close()
    assert stream.batch_reader.read_batch(account) is None
    del batch, stream
    assert account.reserved_bytes == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2], None]),
        pa.array([{"x": 1}, None]),
        pa.array([b"abcd", None], pa.binary(4)),
        pa.array([1, None], pa.float16()),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_pyarrow_decodes(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": column}), path)
    table = FileTable(str(path))
    stream = table.open(FileSplit(str(path)), ("c",), None, 1000)
    assert not isinstance(stream, NativeStream)
    assert pa.RecordBatchReader.from_stream(stream).read_all().column("c").to_pylist() == column.to_pylist()
    stream.close()


def write_in_pages(path: Path, n_rows: int, **options: Any) -> pa.Table:
    """Write a table in pages of 1,000 rows."""
    table = pa.table({
        "a": pa.array(range(n_rows), pa.int64()),
        "b": pa.array([i * 7 for i in range(n_rows)], pa.int64()),
        "s": [f"text {i}" if i % 5 else None for i in range(n_rows)],
    })  # fmt: skip
    pq.write_table(table, path, use_dictionary=False, data_page_size=1, write_batch_size=1000, **options)
    return table


def damage_chunk(path: Path, group: int, column: int, share: float = 0.0) -> None:
    """Overwrite the bytes of a column chunk behind this share of it."""
    held = pq.read_metadata(path).row_group(group).column(column)
    data = bytearray(path.read_bytes())
    start = held.data_page_offset + int(held.total_compressed_size * share)
    end = held.data_page_offset + held.total_compressed_size
    data[start:end] = b"\xff" * (end - start)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_pages_without_chosen_rows_are_not_read(tmp_path: Path, compression: str) -> None:
    """P1: of the columns behind a filter only pages with rows that it left are decoded, and no page of a row group
    without any is looked at.
    """
    path = tmp_path / "t.parquet"
    table = write_in_pages(path, 30_000, row_group_size=10_000, compression=compression)
    damage_chunk(path, 0, 1, 0.6)
    damage_chunk(path, 1, 2)
    damage_chunk(path, 2, 1, 0.75)
    wanted = [*range(3000, 3010), 4999, *range(20_000, 20_500, 3)]

    passed = 0

    def choose(n_rows: int) -> np.ndarray:
        nonlocal passed
        passed += n_rows
        return np.array([i - passed + n_rows for i in wanted if passed - n_rows <= i < passed], np.uint32)

    file = FileTable(str(path))
    stream = file.open(FileSplit(str(path)), ("a", "b", "s"), None, 5000)
    assert isinstance(stream, NativeStream)
    stream.batch_reader.filter_rows([GivenRows([0], choose)])
    assert rows_of(stream).equals(table.take(wanted))
    stream.close()
    figures = stream.batch_reader.figures
    assert figures["rows_cut"] == 30_000 - len(wanted)
    # Of b and s: 3 pages before row 3,000, and in the last row group none, because the file is not read past a match.
    assert figures["pages_skipped"] == 6
    with pytest.raises(ExecutionError, match=r"row group 0: column 'b'"):
        read_natively(path, 5000)


def test_filters_over_constants_and_beside_columns_of_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "k=5").mkdir()
    table = pa.table({"a": range(6000), "b": range(6000), "l": [[i] for i in range(6000)]})
    pq.write_table(table, tmp_path / "k=5" / "t.parquet", row_group_size=2500)
    session = qcore.Session()
    session.register("t", str(tmp_path))
    for columns in ("a, b, k", "a, b, k, l"):
        result = session.sql(f"select {columns} from t where k = 5 and a % 100 = 3")
        found = result.to_arrow()
        assert sorted(found["b"].to_pylist()) == list(range(3, 6000, 100))
        assert set(found["k"].to_pylist()) == {5}
        # Beside columns that pyarrow decodes, filters are not asked.
        assert (scan_figures(result)["rows_cut"] > 5000) == ("l" not in found.column_names)


def test_large_dictionaries_of_several_columns(tmp_path: Path) -> None:
    """Their pages are decompressed two at a time. A damaged one is reported for its own column."""
    n = 40_000
    columns = {
        name: pa.array([(i * 7919 + shift) % 9001 * 1_000_003 for i in range(n)]) for shift, name in enumerate("abc")
    }
    table = pa.table(columns | {"s": [f"the text {i % 3000}" for i in range(n)]})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=n // 2)
    assert read_natively(path, 3000).equals(table)
    held = pq.read_metadata(path).row_group(1).column(1)
    data = bytearray(path.read_bytes())
    at = held.dictionary_page_offset + 2000
    data[at : at + 200] = b"\xff" * 200
    path.write_bytes(bytes(data))
    with pytest.raises(ExecutionError, match=r"row group 1: column 'b'"):
        read_natively(path, 3000)
    assert read_natively(path, 3000, ["a", "c", "s"]).equals(table.select(["a", "c", "s"]))
