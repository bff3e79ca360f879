"""Conditions that a scan asks before it reads other columns, against DuckDB (SPEC P1, V9)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dropped_rows import scan_figures

import qcore
from oracle import assert_same_rows
from qcore.errors import ExecutionError
from random_tables import random_table

TYPES = {
    "i": pa.int32(),
    "l": pa.int64(),
    "d": pa.decimal128(12, 2),
    "s": pa.string(),
    "b": pa.bool_(),
    "v": pa.int64(),
}
# By condition, whether rows are dropped before other columns are read.
CONDITIONS = {
    "i = 3": True,
    "i = 3 or i is null": True,
    "i = 3 and l > 5": True,
    "l > 5 and i = 3 and s is not null": True,
    "i + l > 17": True,
    "s like '%a%' and i < 4": True,
    "s in ('x', 'y')": True,
    "b and i < 3": True,
    "d between 1 and 2.5": True,
    "case when i > 5 then l > 5 else d > 3 end": True,
    "i is not null": False,
    "i > 8": True,
    "regexp_matches(s, 'a.*b')": False,
    "regexp_matches(s, 'a.*b') and i = 4": True,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("conditions") / "t.parquet"
    table = random_table(1, 30_000, TYPES, 0.1, n_distinct={"s": 300})
    rng = np.random.default_rng(2)
    for name in ("i", "l", "d"):
        few = [None if n == 10 else Decimal(n) if name == "d" else n for n in rng.integers(0, 11, 30_000).tolist()]
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(few, TYPES[name]))
    pq.write_table(table, path, row_group_size=9000)
    return str(path)


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_of_conditions(condition: str, threads: int, path: str, duck: duckdb.DuckDBPyConnection) -> None:
    text = f"select * from t where {condition}"
    result = qcore.sql(text, {"t": path}, threads=threads)
    actual = result.to_arrow()
    duck.execute(f"create view t as from read_parquet('{path}')")
    assert_same_rows(actual, duck.sql(text).to_arrow_table())
    figures = scan_figures(result)
    assert (figures["rows_cut"] > 0) == CONDITIONS[condition], figures
    assert figures["rows_cut"] <= 30_000 - actual.num_rows


def write_texts(path: Path, texts: list[Any]) -> str:
    pq.write_table(pa.table({"s": texts, "i": range(len(texts)), "v": range(len(texts))}), path)
    return str(path)


def test_a_row_that_fails_is_reported_by_the_filter(tmp_path: Path) -> None:
    """The error has the operator of the plan, as without a row filter."""
    path = write_texts(tmp_path / "t.parquet", ["1"] * 2000 + ["no number"] + ["2"] * 3000)
    with pytest.raises(ExecutionError, match="Filter") as raised:
        qcore.sql("select v from t where s::int = 2", {"t": path}).to_arrow()
    assert "no number" in str(raised.value)


def test_a_row_that_fails_but_is_excluded_is_no_error(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "t.parquet", [str(i % 40) if i % 7 else "no number" for i in range(20_000)])
    text = "select v from t where s::int = 12 and s <> 'no number' and i > 10"
    expected = [i for i in range(11, 20_000) if i % 7 and i % 40 == 12]
    assert sorted(qcore.sql(text, {"t": path}).to_arrow()["v"].to_pylist()) == expected


def test_conditions_over_columns_of_other_names(tmp_path: Path) -> None:
    """The scan reads the source's names, the filter those of the query."""
    path = write_texts(tmp_path / "t.parquet", ["x"] * 5000)
    text = "select a.v + b.v as w from t as a join t as b on a.i = b.i where a.i < 10 and b.i > 5"
    result = qcore.sql(text, {"t": path})
    assert sorted(result.to_arrow()["w"].to_pylist()) == [12, 14, 16, 18]
    assert scan_figures(result)["rows_cut"] > 9000


def test_no_filter_without_another_column(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "t.parquet", ["x"] * 5000)
    result = qcore.sql("select i from t where i < 10", {"t": path})
    assert result.to_arrow().num_rows == 10
    assert scan_figures(result)["rows_cut"] == 0
