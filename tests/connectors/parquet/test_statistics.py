"""Statistics of tables of several Parquet files, against the rows themselves; SPEC Q2 (estimates)."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcore.connectors.parquet.statistics import FooterStatistics
from qcore.connectors.storage import locate

FILES: list[dict[str, Any]] = [
    {"k": [5, 1, None], "only here": ["a", "b", "c"], "mixed": [1, 2, 3]},
    {"k": [9, 9, 9], "mixed": [None, None, 4]},
    {"k": [None, None], "mixed": [0, 1]},
]
CONSTANTS = [("x", 1), ("x", 3), ("x", None)]


def statistics_of(folder: Path, **types: pa.DataType) -> FooterStatistics:
    files = []
    for number, (columns, constant) in enumerate(zip(FILES, CONSTANTS, strict=True)):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()}), path)
        files.append((locate(str(path)), (constant,)))
    names = ["k", "only here", "mixed", "x", "nowhere"]
    return FooterStatistics(pa.schema([(name, pa.int64()) for name in names]), files)


def values_of(name: str) -> list[Any]:
    return [value for columns in FILES for value in columns.get(name, [None] * len(columns["k"]))]


@pytest.mark.parametrize("name", ["k", "only here", "mixed"])
def test_columns_over_all_files(tmp_path: Path, name: str) -> None:
    """A file without the column, or with nulls only, has no bounds, and its rows count as nulls."""
    found = statistics_of(tmp_path, k=pa.int64())[name]
    values = [value for value in values_of(name) if value is not None]
    assert (found.min, found.max) == (min(values), max(values))
    assert found.null_count == values_of(name).count(None)


def test_constants_and_columns_that_no_file_has(tmp_path: Path) -> None:
    statistics = statistics_of(tmp_path, k=pa.int64())
    constant = statistics["x"]
    assert (constant.min, constant.max, constant.null_count, constant.distinct_count) == (1, 3, 2, None)
    absent = statistics["nowhere"]
    assert (absent.min, absent.max, absent.null_count) == (None, None, 8)
    assert list(statistics) == ["k", "only here", "mixed", "x", "nowhere"]
    with pytest.raises(KeyError):
        statistics["another"]


def test_a_file_without_statistics_leaves_no_bounds(tmp_path: Path) -> None:
    known, unknown = tmp_path / "known.parquet", tmp_path / "unknown.parquet"
    pq.write_table(pa.table({"k": [1, 2]}), known)
    pq.write_table(pa.table({"k": [3, None]}), unknown, write_statistics=False)
    files = [(locate(str(path)), ()) for path in (known, unknown)]
    found = FooterStatistics(pa.schema({"k": pa.int64()}), files)["k"]
    assert (found.min, found.max, found.null_count) == (None, None, None)


def test_names_without_regard_to_case(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"Key": [1, 2]}), path)
    schema = pa.schema({"key": pa.int64()})
    files = [(locate(str(path)), ())]
    assert FooterStatistics(schema, files, ignore_case=True)["key"].max == 2
    assert FooterStatistics(schema, files)["key"].null_count == 2


def test_types_that_python_does_not_order(tmp_path: Path) -> None:
    paths = [tmp_path / "date.parquet", tmp_path / "timestamp.parquet"]
    day = datetime.date(2024, 1, 1)
    pq.write_table(pa.table({"d": [day]}), paths[0])
    pq.write_table(pa.table({"d": [datetime.datetime(2024, 1, 2)]}), paths[1])
    found = FooterStatistics(pa.schema({"d": pa.timestamp("us")}), [(locate(str(path)), ()) for path in paths])["d"]
    assert (found.min, found.max, found.null_count, found.distinct_count) == (None, None, None, None)


def test_row_groups_without_rows_do_not_count(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2, 3, 4], "j": [None, 1, 2, 3]})
    with pq.ParquetWriter(tmp_path / "some.parquet", table.schema) as writer:
        for part in (table.slice(0, 2), table.slice(0, 0), table.slice(2)):
            writer.write_table(part)
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=2)
    assert pq.read_metadata(tmp_path / "some.parquet").num_row_groups == 3

    def read_statistics(*names: str) -> list[object]:
        files = [(locate(str(tmp_path / f"{name}.parquet")), ()) for name in names]
        statistics = FooterStatistics(table.schema, files)
        return [(one.min, one.max, one.null_count, one.distinct_count, one.is_clustered) for one in statistics.values()]

    assert read_statistics("some") == read_statistics("one") == read_statistics("some", "none")
    assert read_statistics("some")[0] == (1, 4, 0, 4, True)


def test_a_column_is_clustered_if_the_row_groups_of_each_file_are_in_its_order(tmp_path: Path) -> None:
    up, down = tmp_path / "up.parquet", tmp_path / "down.parquet"
    pq.write_table(pa.table({"k": [1, 2, 3, 4], "j": [1, 9, 2, 8]}), up, row_group_size=2)
    pq.write_table(pa.table({"k": [4, 4, 2, 1], "j": [4, 3, 2, 1]}), down, row_group_size=2)
    schema = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("x", pa.int64())])
    files = [(locate(str(path)), (("x", 1),)) for path in (up, down)]
    statistics = FooterStatistics(schema, files)
    assert [statistics[name].is_clustered for name in schema.names] == [True, False, False]
    assert not FooterStatistics(schema, [])["k"].is_clustered
