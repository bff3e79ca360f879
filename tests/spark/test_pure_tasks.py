"""A task with one driver and ordered unions writes the same pages each time, as Spark's shuffle needs it (SPEC S2)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process_stages import StagesRun

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.lowering.recursion import can_order, with_ordered_unions
from qcore.plan import nodes as p
from qcore.spark.fragments import Limits, Stage
from qcore.spark.stage_stats import describe
from qcore.spark.worker import GivenSplits, TaskInput, TaskOutput, run_task
from sweeps import every

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

QUERIES = Path(__file__).parents[2] / "bench" / "tpch" / "queries"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


class RunTwice(StagesRun):
    """Runs each task of executors twice, in `turn` 0 and 1, and compares what it wrote. `n_tasks_run` counts them."""

    n_tasks_run = 0
    turn = 0

    def task(self, stage: Stage, given: TaskInput) -> TaskOutput:
        """Run a task twice."""
        output = super().task(stage, given)
        if not stage.on_driver and can_order(stage.plan):
            files = []
            for self.turn in range(2):
                path = f"{given.output}.{self.turn}"
                again = run_task(TaskInput(given.plan, given.splits, given.partition, path), in_order=True)
                files.append(again.file)
            assert files[0].pages == files[1].pages, describe(stage)
            assert files[0].n_rows == output.file.n_rows, describe(stage)
            self.n_tasks_run += 1
        return output


def check(session: qcore.Session, text: str, folder: Path) -> None:
    run = RunTwice(str(folder), Limits(3, 0, 0), 3)
    run.rows(session.sql(text).plan)
    assert run.n_tasks_run > 0, text


@pytest.mark.parametrize("number", every(8, range(1, 23)))
def test_tpch(number: int, tpch_dir: Path, tmp_path: Path) -> None:
    session = qcore.Session(threads=1)
    for name in TABLES:
        session.register(name, str(tpch_dir / f"{name}.parquet"))
    check(session, (QUERIES / f"q{number:02}.sql").read_text(), tmp_path)


@pytest.mark.parametrize(
    "text",
    every(
        5,
        [
            "select x, s from a union all select y, s from b",
            "select x, s from (select * from a union all select * from b) "
            "union all (select x, s from a where x % 2 = 0)",
            "select k, min(s), array_agg(x) from "
            "(select x, x % 100 as k, s from a union all select y, y % 100, s from b) group by k",
            "select c.x, u.x, u.s from a c join (select x, s from a union all select y, s from b) u on c.x = u.x",
            "with recursive r as (select x from a where x < 3 union all (select r.x + 500 as x from r join "
            "(select x from a union all select y + 1 from b) u on u.x = r.x where r.x < 2000)) select x from r",
        ],
    ),
    ids=["rows", "nested", "groups", "join", "recursion"],
)
def test_unions(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one turn the splits of one input take long to open, in the other those of the other."""
    session = qcore.Session(threads=1)
    for name, key in (("a", "x"), ("b", "y")):
        rows = {key: list(range(40_000)), "s": [f"{name}{i % 77}" for i in range(40_000)]}
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet", row_group_size=2_000)
        session.register(name, str(tmp_path / f"{name}.parquet"))
    run = RunTwice(str(tmp_path), Limits(2, 0, 0), 2)
    opened = GivenSplits.open

    def open_slowly(self: GivenSplits, split: Any, columns: tuple[str, ...], *more: Any) -> Any:
        if ("x" in self.schema.names) == (run.turn == 0):
            time.sleep(0.03)
        return opened(self, split, columns, *more)

    monkeypatch.setattr(GivenSplits, "open", open_slowly)
    found = run.rows(session.sql(text).plan)
    assert run.n_tasks_run > 0
    if "array_agg" not in text:
        assert_same_rows(found, session.sql(text).to_arrow())


def test_a_union_whose_inputs_share_a_subplan() -> None:
    """They cannot be read one after another. The process of the query runs such a stage."""
    rows = p.Values("v", pa.schema([("x", pa.int64())]), pa.table({"x": [1, 2]}))
    shared = p.Shared("s", rows.schema, rows)
    plan = p.UnionAll("u", rows.schema, (shared, p.SharedRead("r", rows.schema, "s", ("x",), shared)))
    assert not can_order(plan)
    with pytest.raises(PlanError, match=r"^the inputs of UnionAll \(node u\) share a subplan"):
        with_ordered_unions(plan)


@pytest.mark.nightly
def test_tpcds(tpcds_at: Callable[[float], Any], tmp_path: Path) -> None:
    suite = tpcds_at(0.1)
    session = qcore.Session(threads=1)
    for name, path in suite.tables.items():
        session.register(name, str(path))
    for text in suite.queries.values():
        check(session, text, tmp_path)
