"""Every kind of object that a user may pass as a table (DESIGN 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from reading import read_table

from oracle import assert_same_rows
from qcore.connectors.arrow import ArrowTable, DatasetTable, StreamTable
from qcore.connectors.files import FileTable
from qcore.connectors.sources import table_from
from qcore.errors import PlanError

ROWS = pa.table({"a": [1, 2, None], "s": ["x", None, "z"]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_files(path: Path) -> None:
    local = pafs.LocalFileSystem()
    for source in (path, str(path), [path], (str(path),), str(path.parent / "*.parquet"), (str(path), local)):
        table = table_from(source)
        assert isinstance(table, FileTable)
        assert_same_rows(read_table(table), ROWS)
    assert table_from([path, path]).statistics().row_count == 6


def test_arrow_data(path: Path) -> None:
    kinds: list[tuple[Any, type]] = [
        (ROWS, ArrowTable),
        (ROWS.to_batches()[0], ArrowTable),
        (ROWS.to_batches() * 1, ArrowTable),
        (ROWS.to_reader(), StreamTable),
        (pads.dataset(path), FileTable),
        (pads.dataset(ROWS), DatasetTable),
    ]
    for source, kind in kinds:
        table = table_from(source)
        assert isinstance(table, kind)
        assert_same_rows(read_table(table), ROWS)


def test_frames() -> None:
    polars = pytest.importorskip("polars", reason="polars is missing: pip install polars")
    table = table_from(polars.from_arrow(ROWS))
    assert isinstance(table, ArrowTable)
    assert_same_rows(read_table(table), ROWS)


def test_pandas_frames() -> None:
    pytest.importorskip("pandas", reason="pandas is missing: pip install pandas")
    table = table_from(ROWS.select(["s"]).to_pandas())
    assert isinstance(table, ArrowTable)
    assert read_table(table).column("s").to_pylist() == ["x", None, "z"]


def test_partitioned_dataset(tmp_path: Path) -> None:
    pads.write_dataset(ROWS, tmp_path, partitioning=["s"], partitioning_flavor="hive", format="parquet")
    table = table_from(pads.dataset(tmp_path, partitioning="hive"))
    assert isinstance(table, FileTable)
    assert_same_rows(read_table(table, ("a", "s")), ROWS)


def test_a_table_stays_itself() -> None:
    table = ArrowTable(ROWS)
    assert table_from(table) is table


@pytest.mark.parametrize("source", [5, None, [], (), [1, 2], object(), {"a": [1]}])
def test_anything_else_is_refused(source: Any) -> None:
    with pytest.raises(PlanError, match="is not a table source; use a path"):
        table_from(source)
