"""The kernels of this folder under pytest-benchmark, which keeps figures and compares runs: make kernels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from expressions import LOADS, PREDICATES, lineitem
from join import cases
from join import run as run_join

from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.data.capsule import PyBatch
from qcore_ext.ground.memory import Account

ROWS = 1 << 18
JOINS = {case.name: case for case in cases(ROWS)}


@pytest.fixture(scope="module")
def batch() -> Any:
    return lineitem(ROWS)


@pytest.mark.benchmark(group=f"filter, {ROWS} rows")
@pytest.mark.parametrize("name", PREDICATES)
def test_filter(benchmark: Any, batch: Any, name: str) -> None:
    evaluator = Evaluator(compile_predicate(PREDICATES[name], batch.schema), Account())
    benchmark(evaluator.select_batch, PyBatch.from_arrow(batch))


@pytest.mark.benchmark(group=f"expressions, {ROWS} rows")
@pytest.mark.parametrize("name", LOADS)
def test_expressions(benchmark: Any, batch: Any, name: str) -> None:
    named = [(str(position), expr) for position, expr in enumerate(LOADS[name])]
    evaluator = Evaluator(compile_projection(named, batch.schema), Account())
    benchmark(evaluator.load_batch, PyBatch.from_arrow(batch))


@pytest.mark.benchmark(group=f"hash join, {ROWS} probe rows")
@pytest.mark.parametrize("name", JOINS)
def test_hash_join(benchmark: Any, name: str) -> None:
    benchmark.pedantic(run_join, args=(JOINS[name],), rounds=5, warmup_rounds=1)
