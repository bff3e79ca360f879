"""Whole queries: TPC-H from tables in memory and from Parquet, on files of several writers; SSB; TPC-DS; planning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.parquet as pq

import polars_tpch
from engines import PEERS, Tables, open_engines
from measurement import Engine, Row, Target, Workload
from peak_memory import ENGINES as MEMORY_ENGINES
from peak_memory import peak_bytes
from suites import SUITES, Suite
from written_files import WRITERS, written_file

DUCKDB = ("duckdb",)
CACHED = ("qcore", "qcore, plan not cached")
# At most this share of DuckDB's time: each query of TPC-H, unless named below, and lineitem by each writer.
QUERY_TARGET = 1.0
WRITER_TARGET = 0.8
ARROW_TARGETS = {
    "q01": 0.2,
    "q04": 0.45,
    "q05": 0.4,
    "q06": 0.4,
    "q08": 0.45,
    "q09": 0.35,
    "q17": 0.4,
    "q18": 0.35,
    "q20": 0.4,
    "q21": 0.4,
}
PARQUET_TARGETS = {"q01": 0.4, "q06": 0.55}
# Processor time of a text whose plan is kept, up to a task that can start.
HIT_MILLIS_MAX = 0.3
WRITER_QUERIES = ("q01", "q06")


def workloads(options: Any) -> Iterator[Workload]:
    """All workloads of queries. Nothing is read or generated before one is used."""
    suites: dict[str, Callable[[], Suite]] = {name: partial(SUITES[name], options.scale) for name in SUITES}
    tpch = suites["tpch"]
    yield whole_suite("tpch arrow", tpch, (*CACHED, "qcore, 1 thread", *PEERS), ARROW_TARGETS, in_memory=True)
    hit = Row("plan cache hit", millis_max=HIT_MILLIS_MAX)
    yield Workload("plan cache", lambda: [hit], partial(open_planning, tpch))
    yield whole_suite("tpch parquet", tpch, (*CACHED, *PEERS), PARQUET_TARGETS)
    for writer in WRITERS:
        yield of_writer(writer, tpch, options)
    for name in ("ssb", "tpcds"):
        yield whole_suite(f"{name} parquet", suites[name], (*CACHED, "duckdb", "datafusion"))
    if options.sf10:
        large = partial(SUITES["tpch"], 10)
        sf10 = whole_suite("sf10 parquet", large, ("qcore", "duckdb"))
        yield replace(sf10, memory=partial(memory_of, large))


def whole_suite(
    name: str,
    suite: Callable[[], Suite],
    engines: Sequence[str],
    targets: Mapping[str, float] | None = None,
    in_memory: bool = False,
) -> Workload:
    """The queries of a suite; with `targets`, their shares of DuckDB's time, where they differ from QUERY_TARGET."""

    def rows() -> list[Row]:
        found = suite()
        limits = {} if targets is None else dict.fromkeys(found.queries, QUERY_TARGET) | dict(targets)
        return [
            Row(
                f"{name} {query}",
                text,
                polars_tpch.QUERIES.get(query) if found.name == "tpch" else None,
                (Target(limits[query], DUCKDB),) if query in limits else (),
            )
            for query, text in found.queries.items()
        ]

    def tables() -> Tables:
        paths = suite().tables
        return {table: pq.read_table(path) for table, path in paths.items()} if in_memory else dict(paths)

    return Workload(name, rows, partial(open_engines, tables, engines))


def memory_of(suite: Callable[[], Suite], row: Row, options: Any) -> dict[str, int]:
    """The most memory of a process that runs a query, by engine."""
    return {engine: peak_bytes(engine, row.sql, suite().tables, options.threads) for engine in MEMORY_ENGINES}


def of_writer(writer: str, tpch: Callable[[], Suite], options: Any) -> Workload:
    """Two queries of lineitem over the file that a library wrote."""

    def rows() -> list[Row]:
        if written_file(writer, options.scale) is None:
            return []
        target = (Target(WRITER_TARGET, DUCKDB),)
        queries = tpch().queries
        return [Row(f"{name} {query}", queries[query], polars_tpch.QUERIES[query], target) for query in WRITER_QUERIES]

    def tables() -> Tables:
        return {"lineitem": written_file(writer, options.scale)}

    name = f"written by {writer}"
    return Workload(name, rows, partial(open_engines, tables, ("qcore", *PEERS)))


def open_planning(tpch: Callable[[], Suite], options: Any) -> tuple[dict[str, Engine], None]:
    """The mean of all texts of TPC-H whose plans are kept, from the text to a task that can start."""
    import qcore

    suite = tpch()
    session = qcore.Session(threads=options.threads)
    for table, path in suite.tables.items():
        session.register(table, path)
    texts = list(suite.queries.values())
    for text in texts:
        session.sql(text).to_arrow()

    def run(row: Row) -> None:
        for text in texts:
            result = session.sql(text)
            assert result.is_reused
            _ = result.task

    return {"qcore": Engine(run, times=len(texts))}, None
