"""Row groups whose values of a column have only bounds in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcore.connectors.files import FileTable
from qcore.connectors.parquet import row_order
from qcore.plan.row_order import RowOrder

I64 = pa.int64()


def order_of(folder: Path, *files: Sequence[Sequence[Any]], type: pa.DataType = I64, **options: Any) -> RowOrder | None:
    """The order of a table of files, each a sequence of row groups."""
    schema = pa.schema([("k", type)])
    for i, groups in enumerate(files):
        with pq.ParquetWriter(folder / f"{i}.parquet", schema, **options) as writer:
            for group in groups:
                writer.write_table(pa.table({"k": pa.array(group, type)}))
    return FileTable(str(folder)).row_order("k")


@pytest.mark.parametrize(
    ("files", "fences"),
    [
        ([[[1, 3], [4, 9]]], (1, 3, 4, 9)),
        ([[[3, 1], [9, 3]]], (1, 3, 9)),
        ([[[1, 3], [3, 3], [3, 4]]], (1, 3, 4)),
        ([[[7, 9]], [[1, 3], [5, 6]]], (1, 3, 5, 6, 7, 9)),
        ([[[1, 9]]], (1, 9)),
        ([[[1, 4], [3, 9]]], None),
        ([[[1, 4]], [[2, 3]]], None),
        ([[[1, 4], [1, 4]]], None),
        ([[[1, 4], [5, None]]], None),
        ([[[1, 1]]], None),
    ],
    ids=["apart", "touching", "one value", "files", "one row group", "overlap", "within", "equal", "a null", "one key"],
)
def test_bounds_are_fences(files: list[list[list[int | None]]], fences: tuple[int, ...] | None, tmp_path: Path) -> None:
    found = order_of(tmp_path, *files)
    assert (None if found is None else found.fences) == fences


@pytest.mark.parametrize("type", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()], ids=str)
def test_integers_of_each_width(type: pa.DataType, tmp_path: Path) -> None:
    low = -(2 ** (type.bit_width - 1)) if pa.types.is_signed_integer(type) else 0
    high = low + 2**type.bit_width - 1
    assert order_of(tmp_path, [[low, 5], [6, high]], type=type) == RowOrder((low, 5, 6, high))


def test_other_columns_have_no_order(tmp_path: Path) -> None:
    for i, (type, values) in enumerate([(pa.uint64(), [1, 2]), (pa.float64(), [1.0, 2.0]), (pa.string(), ["a", "b"])]):
        folder = tmp_path / str(i)
        folder.mkdir()
        assert order_of(folder, [values], type=type) is None


def test_files_without_bounds_have_no_order(tmp_path: Path) -> None:
    assert order_of(tmp_path, [[1, 2], [3, 4]], write_statistics=False) is None


def test_files_of_other_types_and_formats_have_no_order(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([1, 2], pa.int32())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"k": pa.array([3, 4], I64)}), tmp_path / "2.parquet")
    assert FileTable(str(tmp_path), on_schema_change="evolve").row_order("k") is None
    (tmp_path / "t.csv").write_text("k\n1\n2\n")
    assert FileTable(str(tmp_path / "t.csv")).row_order("k") is None


def test_a_column_of_the_path_has_no_order(tmp_path: Path) -> None:
    for key in (1, 2):
        (tmp_path / f"k={key}").mkdir()
        pq.write_table(pa.table({"x": [key, 3]}), tmp_path / f"k={key}" / "0.parquet")
    table = FileTable(str(tmp_path))
    assert table.row_order("k") is None


def test_too_many_row_groups_have_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [[i, i] for i in range(5)]
    assert order_of(tmp_path, groups) == RowOrder((0, 1, 2, 3, 4))
    monkeypatch.setattr(row_order, "GROUPS_MAX", 4)
    assert FileTable(str(tmp_path)).row_order("k") is None
