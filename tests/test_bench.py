"""The benchmark runs, compares answers, and reports an engine that fails (SPEC B2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[1] / "bench" / "tpch" / "run.py"
pytest.importorskip("polars")
pytest.importorskip("sqlglot")


def test_a_small_round_of_all_engines(tmp_path: Path) -> None:
    """B2."""
    figures = tmp_path / "figures.json"
    command = [sys.executable, str(RUN), "--scale", "0.01", "--rounds", "1", "--json", str(figures)]
    environment = {**os.environ, "QCORE_DATA": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, env=environment, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert " failed: " not in done.stdout
    assert "to duckdb" in done.stdout
    cases = json.loads(figures.read_text())
    assert {case["engine"] for case in cases} == {"qcore", "duckdb", "polars"}
    assert all(len(case["seconds"]) == 1 for case in cases)


def test_single_operators_beside_other_engines(tmp_path: Path) -> None:
    """B2: every row of the table runs, with equal answers, and has a target."""
    figures = tmp_path / "figures.json"
    command = [sys.executable, str(RUN.parents[1] / "micro" / "run.py"), "--rows", "5000", "--rounds", "1"]
    command += ["--json", str(figures), "--only", "join 1K", "group", "filter", "scan", "sort", "top"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(figures.read_text())
    assert len(rows) == 13
    assert all(set(row["seconds"]) == {"qcore", "duckdb", "polars", "polars in memory"} for row in rows)
    assert "geometric mean" in done.stdout
