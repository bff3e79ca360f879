"""TPC-H from Parquet equals DuckDB's answers, with any number of drivers (SPEC Q1, Q4, V1, V4, V15)."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from oracle import assert_same_rows

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = Path(__file__).parents[2] / "bench" / "tpch" / "queries"


def query(number: int) -> str:
    return (QUERIES / f"q{number:02}.sql").read_text()


def paths(folder: Path) -> dict[str, str]:
    return {name: str(folder / f"{name}.parquet") for name in TABLES}


@pytest.fixture
def oracle(duck: duckdb.DuckDBPyConnection, tpch_dir: Path) -> duckdb.DuckDBPyConnection:
    for name, path in paths(tpch_dir).items():
        duck.execute(f"create view {name} as select * from read_parquet('{path}')")
    return duck


@pytest.mark.each_value
@pytest.mark.parametrize("number", range(1, 23))
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_answers_from_parquet(number: int, threads: int, tpch_dir: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    """V4: 1, 2 and 4 drivers agree."""
    text = query(number)
    actual = qcore.sql(text, paths(tpch_dir), threads=threads, timeout=60).to_arrow()
    assert_same_rows(actual, oracle.sql(text).to_arrow_table(), rel_tol=1e-9)


@pytest.mark.parametrize("number", [1, 3, 6, 13, 21])
def test_answers_from_memory(number: int, tpch_dir: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    """H2: Arrow tables in, with chunks of odd sizes."""
    tables = {name: cut_anywhere(pq.read_table(path)) for name, path in paths(tpch_dir).items()}
    text = query(number)
    actual = qcore.sql(text, tables, threads=2, timeout=60).to_arrow()
    assert_same_rows(actual, oracle.sql(text).to_arrow_table(), rel_tol=1e-9)


@pytest.mark.parametrize("batch_rows", [100, 4097])
def test_batch_size_does_not_matter(batch_rows: int, tpch_dir: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    session = qcore.Session(threads=2, batch_rows=batch_rows, timeout=60)
    for name, path in paths(tpch_dir).items():
        session.register(name, path)
    for number in (1, 3, 6, 16):
        text = query(number)
        assert_same_rows(session.sql(text).to_arrow(), oracle.sql(text).to_arrow_table(), rel_tol=1e-9)


def cut_anywhere(table: pa.Table) -> pa.Table:
    """The same rows in chunks that end anywhere within bytes, words and vectors."""
    parts, start, step = [], 0, 1
    while start < table.num_rows:
        parts.append(table.slice(start, step))
        start += step
        step = step * 3 + 1
    return pa.concat_tables(parts)


def test_ordered_results_come_in_order(tpch_dir: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    text = "select o_orderkey, o_totalprice from orders order by o_totalprice desc, o_orderkey"
    actual = qcore.sql(text, paths(tpch_dir), threads=4).to_arrow()
    assert_same_rows(actual, oracle.sql(text).to_arrow_table(), ordered=True)
