"""The benchmark runs, compares answers, and says so when an engine fails (SPEC B2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
pytest.importorskip("polars")
pytest.importorskip("datafusion")
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

PEERS = {"duckdb", "polars", "polars memory", "datafusion"}


def run(tmp_path: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    """Run the benchmark with small tables; what it prints, and the rows that it keeps."""
    figures = tmp_path / "figures.json"
    command = [sys.executable, str(BENCH / "run.py"), "--scale", "0.01", "--rows", "5000", "--rounds", "1"]
    command += ["--json", str(figures), *arguments]
    environment = {**os.environ, "QCORE_DATA": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=170, env=environment, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, {row["name"]: row for row in json.loads(figures.read_text())["rows"]}


@pytest.mark.sweep
def test_queries_beside_other_engines(tmp_path: Path) -> None:
    """B2: all engines give DuckDB's answers to TPC-H from tables in memory, from files, and on other writers' files."""
    only = ("tpch arrow q1", "tpch parquet q0", "plan cache", "written by pyarrow")
    text, rows = run(tmp_path, "--only", *only, "--chart", str(tmp_path / "chart.svg"))
    assert len(rows) == 10 + 9 + 1 + 2
    assert not any(row["failures"] for row in rows.values())
    assert all(set(row["seconds"]) >= PEERS for name, row in rows.items() if name != "plan cache hit")
    assert {"qcore, plan not cached", "qcore, 1 thread"} <= set(rows["tpch arrow q11"]["seconds"])
    assert all(len(times) == 1 for row in rows.values() for times in row["seconds"].values())
    assert "TPC-H, tables in memory           10" in text
    shown = list(xml.etree.ElementTree.parse(tmp_path / "chart.svg").getroot().itertext())
    assert {"TPC-H, tables in memory (10)", "TPC-H, Parquet (9)", "TPC-H Q1, Q6 by six writers (2)"} <= set(shown)


@pytest.mark.sweep
def test_single_operators_beside_other_engines(tmp_path: Path) -> None:
    """B2: every row of the table runs, with equal answers, and has its target beside it."""
    only = ("join", "group", "text", "two", "filter", "scan", "sort", "top", "partition")
    text, rows = run(tmp_path, "--only", *only)
    assert len(rows) == 10 + 5 + 2 + 2 + 3 + 1 + 3 + 1 + 3
    assert not any(row["failures"] for row in rows.values())
    assert all(row["targets"] for row in rows.values())
    assert all(set(row["seconds"]) == {"qcore", *PEERS} for name, row in rows.items() if "partition" not in name)
    assert set(rows["partition 64"]["seconds"]) == {"qcore", "polars memory", "memcpy"}
    assert "single operators                  27" in text


@pytest.mark.sweep
def test_rows_are_kept_and_measured_again(tmp_path: Path) -> None:
    """A second run adds rows to the file and replaces those it measures; with --missing it leaves out what is there."""
    run(tmp_path, "--only", "join 1K", "--engines", "duckdb")
    text, rows = run(tmp_path, "--only", "join 1", "--engines", "duckdb", "--missing")
    assert list(rows)[:4] == ["join 1K", "join 100K", "join 1M", "join 10M"] and len(rows) == 7
    assert "join 1K " not in text and "join 10M " in text
    assert set(rows["join 1K"]["seconds"]) == {"qcore", "duckdb"}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's module of measurements."""
    monkeypatch.syspath_prepend(str(BENCH))
    import measurement

    return measurement


def measure_engines(bench: Any, row: Any, **answers: Callable[[], pa.Table]) -> Any:
    """Measure engines with these answers beside DuckDB's."""
    engines = {name: bench.Engine(lambda row, answer=answer: answer()) for name, answer in answers.items()}
    with duckdb.connect() as connection:
        return bench.measure(row, engines, connection, SimpleNamespace(threads=2, rounds=3))


def test_a_wrong_answer_has_no_time(bench: Any) -> None:
    """An engine whose answer differs, or that fails, is named with the reason and is not timed."""
    right, wrong = pa.table({"x": [1, 2]}), pa.table({"x": [1, 3]})

    def fails() -> pa.Table:
        raise ValueError("no such function\nat line 1")

    for row in (
        bench.Row("whole", "select * from (values (1), (2)) t(x)"),
        bench.Row("summed", "select * from (values (1), (2)) t(x)", summed=True),
        bench.Row("ordered", "select * from (values (1), (2)) t(x) order by x", ordered=True),
    ):
        found = measure_engines(bench, row, qcore=lambda: right, one=lambda: wrong, two=fails)
        assert set(found.seconds) == {"qcore"} and len(found.seconds["qcore"]) == 3
        assert set(found.failures) == {"one", "two"}
        assert found.failures["one"].startswith("AssertionError")
        assert found.failures["two"] == "ValueError: no such function"


def test_values_of_other_rows_are_a_wrong_answer(bench: Any) -> None:
    """A summary tells rows apart whose columns have the same sums."""
    row = bench.Row("summed", "select * from (values (1, 5), (2, 7)) t(x, y)", summed=True)
    found = measure_engines(bench, row, one=lambda: pa.table({"x": [2, 1], "y": [5, 7]}))
    assert "one" in found.failures


def test_only_other_engines_may_round(bench: Any) -> None:
    """Averages of other engines may have fewer digits than DuckDB's, qcore's may not."""
    row = bench.Row("mean", "select 0.12345678::decimal(9, 8) as x")
    short = pa.table({"x": [0.123456]})
    found = measure_engines(bench, row, qcore=lambda: short, one=lambda: short)
    assert set(found.seconds) == {"one"}


def test_targets_are_met_by_medians(bench: Any) -> None:
    """A target is a share of the best peer that it names, or of all peers; qcore's variants are peers by name only."""
    seconds = {
        "qcore": [(0.1, 0.4), (0.2, 0.4), (9.0, 0.4)],
        "qcore, 1 thread": [(0.05, 0.1)] * 3,
        "duckdb": [(0.5, 0.8)] * 3,
        "polars": [(0.4, 0.2)] * 3,
    }
    found = bench.Measured("row", [bench.Target(0.5)], 2, seconds=seconds)
    assert found.ratio(found.targets[0]) == pytest.approx(0.5) and found.ratio(found.targets[0], 1) == pytest.approx(2)
    assert found.is_met() is True
    assert found.ratio(bench.Target(1, ("duckdb",))) == pytest.approx(0.4)
    assert found.ratio(bench.Target(1, ("qcore, 1 thread",))) == pytest.approx(4)
    assert found.ratio(bench.Target(1, ("datafusion",))) is None
    assert bench.Measured.of(json.loads(json.dumps(found.kept()))).is_met() is True
    found.targets.append(bench.Target(0.3, ("duckdb",)))
    assert found.is_met() is False
    assert bench.Measured("row", [], 2, millis_max=300, seconds=seconds).is_met() is False
    assert bench.Measured("row", [], 2, seconds=seconds).is_met() is None


def test_engines_take_turns_at_going_first(bench: Any) -> None:
    """Each round begins with another engine."""
    order: list[str] = []

    def answering(name: str) -> Callable[[], pa.Table]:
        return lambda: order.append(name) or pa.table({"x": [1]})

    measure_engines(bench, bench.Row("one", "select 1"), a=answering("a"), b=answering("b"), c=answering("c"))
    assert "".join(order[3:]) == "abcbcacab"


@pytest.mark.sweep
def test_memory_is_that_of_a_process_of_its_own(bench: Any, tmp_path: Path) -> None:
    """A query that keeps more rows has more memory at once, with either engine."""
    import peak_memory

    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": range(3_000_000)}), path)
    for engine in peak_memory.ENGINES:
        few, many = (
            peak_memory.peak_bytes(engine, f"select x from t{end}", {"t": path}, 2) for end in (" limit 1", "")
        )
        assert many - few > 12_000_000
    found = bench.Measured("row", [], 2, memory={"qcore": 2, "duckdb": 1})
    assert found.is_met() is False and bench.Measured.of(json.loads(json.dumps(found.kept()))) == found


def run_kernels(name: str, folder: Path) -> list[str]:
    """The lines that a script of bench/kernels prints for 20,000 rows."""
    command = [sys.executable, str(BENCH / "kernels" / f"{name}.py"), "20000"]
    # Where the tests run against the installed wheel, a script's own folder is not on the path.
    environment = {**os.environ, "PYTHONPATH": str(BENCH / "kernels")}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, env=environment, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["group_by", "join", "parquet", "partitioning"])
def test_kernels_run(tmp_path: Path, name: str) -> None:
    assert len(run_kernels(name, tmp_path)) >= 6


def test_kernels_tell_their_share_of_the_limits(tmp_path: Path) -> None:
    """B2: GB/s, and the share of memcpy's, which is measured in the same run."""
    first, _, *lines = run_kernels("expressions", tmp_path)
    copied = float(first.partition("memcpy ")[2].partition(" GB/s")[0])
    assert "random lines, ns: " in first and len(lines) == 24
    for line in lines:
        *_, rate, share = line.split()
        assert float(share) == pytest.approx(float(rate) / copied, abs=0.05 + float(rate) / copied / 20)
