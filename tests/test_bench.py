"""The benchmark runs, compares answers, and says so when an engine fails (SPEC B2)."""

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
