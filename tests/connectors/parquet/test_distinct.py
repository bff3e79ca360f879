"""How many values a Parquet column has, without reading it; SPEC Q2 (estimates). Counted by NumPy and pyarrow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from qcore.connectors.files import FileTable

N_ROWS = 40_000
GROUP_ROWS = 2_500


def columns() -> dict[str, pa.Array]:
    rng = np.random.default_rng(1)
    return {
        "few": pa.array(rng.integers(0, 7, N_ROWS)),
        "text": pa.array([f"a text of some length {i}" for i in rng.integers(0, 30, N_ROWS)]),
        "key": pa.array(np.arange(N_ROWS)),
        "in order": pa.array(np.arange(N_ROWS) // 8),
        "drawn from many": pa.array(rng.integers(0, 5_000, N_ROWS)),
        "every seventh": pa.array(rng.integers(0, 100, N_ROWS) * 7),
        "with nulls": pa.array(rng.integers(0, 12, N_ROWS), mask=rng.random(N_ROWS) < 0.3),
        "days": pa.array(rng.integers(0, 400, N_ROWS).astype("int32")).cast(pa.date32()),
        "unlike text": pa.array([f"text {i}" for i in range(N_ROWS)]),
        "null": pa.nulls(N_ROWS, pa.int64()),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("distinct") / "t.parquet"
    pq.write_table(pa.table(columns()), path, row_group_size=GROUP_ROWS)
    return path


@pytest.mark.parametrize("name", columns())
def test_values_are_counted_by_dictionaries(name: str, path: Path) -> None:
    """Q2: an estimate differs from the real number by at most a fifth, from two row groups or from all."""
    truth = len(pc.unique(columns()[name].drop_null()))
    found = FileTable(path).statistics().column(name).distinct_count
    assert found is not None
    assert 0.8 * truth <= found <= 1.2 * truth


def test_not_known_without_dictionaries(path: Path, tmp_path: Path) -> None:
    """Q2: there is no estimate from plain pages, nor from dictionaries that the writer gave up for their size."""
    table = pa.table(columns()).select(["few", "key", "unlike text"])
    plain, grown = tmp_path / "plain.parquet", tmp_path / "grown.parquet"
    pq.write_table(table, plain, use_dictionary=False)
    pq.write_table(table, grown, dictionary_pagesize_limit=1000)
    assert FileTable(plain).statistics().column("few").distinct_count is None
    assert FileTable(grown).statistics().column("few").distinct_count == 7
    assert FileTable(grown).statistics().column("unlike text").distinct_count is None


def test_files_together(tmp_path: Path) -> None:
    """Q2: values that all files have count once; values of one file each are added up."""
    values = np.random.default_rng(2).integers(0, 50, 5_000)
    for i in range(2):
        pq.write_table(pa.table({"same": values, "apart": values + i * 50}), tmp_path / f"{i}.parquet")
    statistics = FileTable([str(tmp_path / f"{i}.parquet") for i in range(2)]).statistics()
    assert [statistics.column(name).distinct_count for name in ("same", "apart")] == [50, 100]
