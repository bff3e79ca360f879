"""The three suites of queries: TPC-H 22, SSB 13, TPC-DS 99, each with its tables as Parquet files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tpch")]

import ssb_data
import tpch_data
from tpcds_data import tpcds_folder


@dataclass(frozen=True)
class Suite:
    """Paths of the tables and texts of the queries, both by name."""

    name: str
    tables: dict[str, str]
    queries: dict[str, str]


def tpch(scale: float) -> Suite:
    """TPC-H, data by tpchgen-cli."""
    return Suite("tpch", tpch_data.table_paths(scale), query_texts(HERE.parent / "tpch" / "queries"))


def ssb(scale: float) -> Suite:
    """The Star Schema Benchmark over tables derived from TPC-H's."""
    return Suite("ssb", parquet_paths(ssb_data.ssb_folder(scale)), query_texts(HERE / "ssb_queries"))


def tpcds(scale: float) -> Suite:
    """TPC-DS, data and queries by DuckDB's generator."""
    folder = tpcds_folder(scale)
    return Suite("tpcds", parquet_paths(folder), query_texts(folder))


SUITES = {"tpch": tpch, "ssb": ssb, "tpcds": tpcds}


def query_texts(folder: Path) -> dict[str, str]:
    """The SQL files of a folder, in order: 'q01' → text."""
    return {path.stem: path.read_text() for path in sorted(folder.glob("q*.sql"))}


def parquet_paths(folder: Path) -> dict[str, str]:
    """The Parquet files of a folder by table."""
    return {path.stem: str(path) for path in sorted(folder.glob("*.parquet"))}
