"""A task with one driver writes the same pages each time: Spark's shuffle may need them twice (SPEC S2).

Unions are left out: which of their inputs comes next depends on time. If pages of such a task are lost, a query fails.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process_stages import StagesRun

import qcore
from qcore.plan import nodes as p
from qcore.spark.fragments import Limits, Stage
from qcore.spark.stage_stats import describe
from qcore.spark.worker import TaskInput, TaskOutput

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

QUERIES = Path(__file__).parents[2] / "bench" / "tpch" / "queries"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


class RunTwice(StagesRun):
    """Runs each task of executors twice, and compares what it wrote. `n_tasks_run` counts them."""

    n_tasks_run = 0

    def task(self, stage: Stage, given: TaskInput) -> TaskOutput:
        """Run a task twice."""
        output = super().task(stage, given)
        if not stage.on_driver and not any(
            isinstance(node, (p.UnionAll, p.RecursiveUnion)) for node in stage.plan.walk()
        ):
            again = super().task(stage, TaskInput(given.plan, given.splits, given.partition, f"{given.output}.again"))
            assert again.file.pages == output.file.pages, describe(stage)
            self.n_tasks_run += 1
        return output


def check(session: qcore.Session, text: str, folder: Path) -> None:
    run = RunTwice(str(folder), Limits(3, 0, 0), 3)
    run.rows(session.sql(text).plan)
    assert run.n_tasks_run > 0, text


@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(number: int, tpch_dir: Path, tmp_path: Path) -> None:
    session = qcore.Session(threads=1)
    for name in TABLES:
        session.register(name, str(tpch_dir / f"{name}.parquet"))
    check(session, (QUERIES / f"q{number:02}.sql").read_text(), tmp_path)


@pytest.mark.sweep
def test_tpcds(tpcds_at: Callable[[float], Any], tmp_path: Path) -> None:
    suite = tpcds_at(0.1)
    session = qcore.Session(threads=1)
    for name, path in suite.tables.items():
        session.register(name, str(path))
    for text in suite.queries.values():
        check(session, text, tmp_path)
