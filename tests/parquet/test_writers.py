"""Files of several writers, compared with pyarrow's decoder (SPEC P1)."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet.reading_natively import assert_reads_alike

from random_tables import random_table

TYPES = {
    "i8": pa.int8(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u16": pa.uint16(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "day": pa.date32(),
    "moment": pa.timestamp("us"),
    "truth": pa.bool_(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "d4": pa.decimal128(4, 1),
    "d9": pa.decimal128(9, 2),
    "d15": pa.decimal128(15, 2),
    "d30": pa.decimal128(30, 5),
}
N_ROWS = 7_000


def rows(null_share: float, n_distinct: int | None) -> pa.Table:
    few = {} if n_distinct is None else dict.fromkeys(TYPES, n_distinct)
    return random_table(1, N_ROWS, TYPES, null_share, n_distinct=few)


@pytest.mark.each_value
@pytest.mark.parametrize("n_distinct", [None, 30])
@pytest.mark.parametrize("null_share", [0.0, 0.15])
@pytest.mark.parametrize("version", ["V1", "V2"])
@pytest.mark.parametrize("codec", ["snappy", "zstd", "uncompressed", "gzip", "lz4_raw", "brotli"])
def test_duckdb(tmp_path: Path, codec: str, version: str, null_share: float, n_distinct: int | None) -> None:
    path = tmp_path / "t.parquet"
    table = rows(null_share, n_distinct)
    with duckdb.connect() as connection:
        connection.register("t", table)
        options = f"format parquet, codec '{codec}', parquet_version {version}, row_group_size 2048"
        connection.execute(f"copy (from t) to '{path}' ({options})")
    assert pq.read_metadata(path).num_row_groups > 1
    # pyarrow cannot read short runs of integers that DuckDB wrote in format V2.
    assert_reads_alike(path, expected=table)


@pytest.mark.parametrize("n_distinct", [None, 30])
@pytest.mark.parametrize("null_share", [0.0, 0.15])
@pytest.mark.parametrize("codec", ["snappy", "zstd", "uncompressed", "gzip", "lz4", "brotli"])
def test_polars(tmp_path: Path, codec: str, null_share: float, n_distinct: int | None) -> None:
    path = tmp_path / "t.parquet"
    pl.from_arrow(rows(null_share, n_distinct)).write_parquet(path, compression=codec, row_group_size=3_000)
    assert_reads_alike(path)


@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_pyarrow(tmp_path: Path, version: str, page_version: str) -> None:
    path = tmp_path / "t.parquet"
    table = rows(0.15, None).drop_columns(["u64"] if version == "1.0" else [])
    pq.write_table(table, path, version=version, data_page_version=page_version, row_group_size=3_000)
    assert_reads_alike(path)
