"""TPC-DS 99 and SSB 13 from Parquet equal DuckDB's answers, with any number of drivers and batch size (SPEC Q4, V4).

`make tpc` runs the same, and TPC-H, at scale 1. Queries over tables in memory are compared with those over files.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import qcore
from answers_of import Answer, assert_answers
from qcore.lowering.runtime_filters import RowFilters
from sweeps import every

BENCH = Path(__file__).parents[2] / "bench" / "tpc"
TPCDS = [f"q{number:02}" for number in range(1, 100)]
SSB = ["q1.1", "q1.2", "q1.3", "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2", "q4.3"]
FAIR_PART = TPCDS[1::3]
# Queries that do not read fact tables many times, because batches of one row take a thousand times longer.
ROW_BY_ROW = ["q08", "q20", "q32", "q41", "q44", "q50", "q53", "q62", "q68", "q86", "q89", "q92", "q95"]
TPCH = [f"q{number:02}" for number in range(1, 23)]
RACED = [("tpch", TPCH), ("ssb", SSB), ("tpcds", TPCDS)]
# Rows that may be read in addition: an empty input is noticed after some thousand rows of the other one.
ROWS_NOT_COUNTED = 10_000
BATCHES = [*((1, query) for query in ROW_BY_ROW), *((rows, query) for rows in (7, 1024) for query in FAIR_PART)]


class Suite:
    """Tables and queries of a suite, with DuckDB's answers remembered."""

    def __init__(self, tables: dict[str, str], queries: dict[str, str]) -> None:
        self.tables = tables
        self.queries = queries
        self.connection = duckdb.connect(config={"threads": 1})
        for name, path in tables.items():
            self.connection.execute(f"create view {name} as from read_parquet('{path}')")
        self.answers: dict[str, Answer] = {}
        self.sessions: dict[tuple[int, int | None], qcore.Session] = {}

    def check(self, query: str, drivers: int, batch_rows: int | None = None) -> None:
        if query not in self.answers:
            self.answers[query] = Answer.of(self.connection, self.queries[query])
        assert_answers(self.session(drivers, batch_rows).sql(self.queries[query]).to_arrow(), self.answers[query])

    def session(self, drivers: int, batch_rows: int | None) -> qcore.Session:
        key = (drivers, batch_rows)
        if key not in self.sessions:
            session = self.sessions[key] = qcore.Session(threads=drivers, batch_rows=batch_rows, timeout=60)
            for name, path in self.tables.items():
                session.register(name, path)
        return self.sessions[key]


@pytest.fixture(scope="module")
def suites() -> Iterator[object]:
    """The benchmark's module of suites."""
    sys.path.insert(0, str(BENCH))
    try:
        import suites

        yield suites
    finally:
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generated tables go to a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QCORE_DATA", str(tmp_path_factory.mktemp("suites")))
        yield


def tpcds(suites: object, scale: float) -> Suite:
    try:
        made = suites.tpcds(scale)  # type: ignore[attr-defined]
    except subprocess.CalledProcessError as error:
        if "pip" not in map(str, error.cmd):
            raise
        pytest.skip(f"TPC-DS data needs packages that cannot be installed here: {error.stderr.decode()[-300:]}")
    return Suite(made.tables, made.queries)


@pytest.fixture(scope="module")
def small_tpcds(suites: object, data: None) -> Suite:
    return tpcds(suites, 0.01)


@pytest.fixture(scope="module")
def larger_tpcds(suites: object, data: None) -> Suite:
    return tpcds(suites, 0.1)


@pytest.fixture(scope="module")
def ssb(suites: object, data: None, tpch_dir: Path) -> Suite:
    import ssb_data

    tpch = {path.stem: str(path) for path in tpch_dir.glob("*.parquet")}
    folder = ssb_data.ssb_folder(0.01, tpch)
    texts = suites.query_texts(BENCH / "ssb_queries")  # type: ignore[attr-defined]
    return Suite(suites.parquet_paths(folder), texts)  # type: ignore[attr-defined]


def test_there_are_99_and_13(small_tpcds: Suite, ssb: Suite) -> None:
    assert list(small_tpcds.queries) == TPCDS
    assert list(ssb.queries) == SSB


@pytest.mark.parametrize("query", every(8, TPCDS))
def test_tpcds(query: str, larger_tpcds: Suite) -> None:
    larger_tpcds.check(query, drivers=2)


@pytest.mark.parametrize(("drivers", "query"), every(12, [*((1, q) for q in FAIR_PART), *((8, q) for q in TPCDS[::2])]))
def test_tpcds_with_drivers(query: str, drivers: int, small_tpcds: Suite) -> None:
    small_tpcds.check(query, drivers)


@pytest.mark.parametrize(("batch_rows", "query"), every(12, BATCHES))
def test_tpcds_with_batch_sizes(query: str, batch_rows: int, small_tpcds: Suite) -> None:
    small_tpcds.check(query, 2, batch_rows)


@pytest.mark.each_value
@pytest.mark.parametrize("query", SSB)
@pytest.mark.parametrize(("drivers", "batch_rows"), [(1, None), (2, None), (8, None), (2, 7), (2, 1024)])
def test_ssb(query: str, drivers: int, batch_rows: int | None, ssb: Suite) -> None:
    ssb.check(query, drivers, batch_rows)


def rows_in_joins(result: qcore.Result) -> int:
    """Run a query and count the rows that its joins read and gave."""
    for _ in result:
        pass
    operators = [counters for pipeline in result.stats()["pipelines"] for counters in pipeline["operators"]]
    builds = [counters for counters in operators if counters["name"] in ("HashBuild", "NestedLoopBuild")]
    probes = [counters for counters in operators if counters["name"] in ("HashProbe", "NestedLoopJoin")]
    assert (len(builds) > 0) == (len(probes) > 0) == ("Join" in result.explain())
    return sum(counters["input_rows"] for counters in builds + probes) + sum(c["output_rows"] for c in probes)


@pytest.fixture(scope="module")
def racers(suites: object, data: None) -> Callable[[str], tuple[qcore.Session, qcore.Session, dict[str, str]]]:
    """A session with a suite's tables in memory, one with its files, and its queries, by the suite's name."""
    made: dict[str, tuple[qcore.Session, qcore.Session, dict[str, str]]] = {}

    def of(name: str) -> tuple[qcore.Session, qcore.Session, dict[str, str]]:
        if name not in made:
            suite = tpcds(suites, 0.1) if name == "tpcds" else suites.SUITES[name](0.1)  # type: ignore[attr-defined]
            in_memory, in_files = (qcore.Session(threads=1, timeout=60) for _ in range(2))
            for table, path in suite.tables.items():
                in_memory.register(table, pq.read_table(path))
                in_files.register(table, path)
            made[name] = in_memory, in_files, suite.queries
        return made[name]

    return of


@pytest.mark.parametrize(
    ("suite", "query"), every(20, [(suite, query) for suite, queries in RACED for query in queries])
)
def test_plans_of_tables_in_memory(
    suite: str,
    query: str,
    racers: Callable[[str], tuple[qcore.Session, qcore.Session, dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Q4: joins read and give at most three times the rows of the plan from Parquet, whose footers count values."""
    # Row filters drop rows of files alone. The plans are compared without them.
    monkeypatch.setattr(RowFilters, "of_driver", lambda filters, run: [])
    in_memory, in_files, queries = racers(suite)
    rows, rows_of_files = (rows_in_joins(session.sql(queries[query])) for session in (in_memory, in_files))
    assert rows <= 3 * max(rows_of_files, ROWS_NOT_COUNTED), in_memory.sql(queries[query]).explain()
