"""The sums of the counters of a stage's tasks, as values and as text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from qcore.plan import nodes as p
from qcore.record import record
from qcore.spark.page_files import PagesTable
from qcore.spark.stage_parts import Stage
from qcore.spark.stage_task import TaskReport
from qcore.text_table import render_cells

# Counters for which the largest value of all tasks is shown.
LARGEST = frozenset({"peak_bytes", "reserved_bytes"})
WORDS_MAX = 6


@record
class StageRun:
    """One stage of a query, while it runs and afterwards.

    Attributes
    ----------
    stage : Stage
        The stage.
    n_tasks : int
        The number of its tasks.
    on_driver : bool
        Whether the driver process runs it, as one task.
    reports : list of TaskReport
        The reports of its tasks, by partition. Empty while they run.
    table : PagesTable or None
        The rows that they wrote. None while they run.
    wall_seconds : float
        How long the stage ran.
    started : float
        The time.monotonic() of its start.
    """

    stage: Stage
    n_tasks: int
    on_driver: bool
    reports: list[TaskReport] = field(default_factory=list)
    table: PagesTable | None = None
    wall_seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)

    @property
    def hosts(self) -> str:
        """Where the stage ran: hosts with the number of tasks of each, or "driver process"."""
        if self.on_driver:
            return "driver process"
        counts = Counter(report.host for report in self.reports)
        return ", ".join(f"{host} × {n}" for host, n in sorted(counts.items()))

    def stats(self) -> dict[str, Any]:
        """The stage as SparkResult.stats() shows it."""
        table = self.table
        return {
            "number": self.stage.number,
            "description": describe(self.stage),
            "on_driver": self.on_driver,
            "tasks": self.n_tasks,
            "tasks_done": len(self.reports),
            "partitions": self.stage.n_partitions,
            "rows": 0 if table is None else table.n_rows,
            "bytes": 0 if table is None else table.n_bytes,
            "wall_nanos": int(self.wall_seconds * 1e9),
            "hosts": dict(Counter(report.host for report in self.reports)),
            "attempts": sum(report.attempt + 1 for report in self.reports),
            **merged_stats([report.stats for report in self.reports]),
        }


def merged_stats(of_tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the counters of tasks of one plan, added up: the pipelines, and the time of all tasks together."""
    pipelines: list[dict[str, Any]] = []
    for stats in of_tasks:
        for number, pipeline in enumerate(stats["pipelines"]):
            if number == len(pipelines):
                pipelines.append({"operators": []})
            _add(pipelines[number], pipeline)
    task_nanos = sum(int(stats["wall_nanos"]) for stats in of_tasks)
    peak = max((int(stats["peak_bytes"]) for stats in of_tasks), default=0)
    return {"task_wall_nanos": task_nanos, "peak_bytes": peak, "pipelines": pipelines}


def _add(total: dict[str, Any], counters: Mapping[str, Any]) -> None:
    for name, value in counters.items():
        if isinstance(value, Mapping):
            _add(total.setdefault(name, {}), value)
        elif isinstance(value, list):
            held = total.setdefault(name, [])
            for number, item in enumerate(value):
                if number == len(held):
                    held.append({})
                _add(held[number], item)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            held = total.get(name, 0)
            total[name] = max(held, value) if name in LARGEST else held + value
        else:
            total[name] = value


def describe(stage: Stage) -> str:
    """Describe a stage in a few words, for Spark's UI and for EXPLAIN."""
    words = list(_words(stage.plan.child))
    shown = " ← ".join(words[:WORDS_MAX]) + (" ← …" if len(words) > WORDS_MAX else "")
    if not stage.keys:
        return shown
    return f"{shown} → {stage.n_partitions} partitions by {', '.join(stage.keys)}"


def _words(node: p.PlanNode) -> Iterator[str]:
    for one in node.walk():
        if isinstance(one, p.Scan):
            yield one.table
        elif isinstance(one, (p.HashJoin, p.NestedLoopJoin)):
            yield f"{one.kind} join"
        elif isinstance(one, p.AggregateStep):
            yield f"{one.step} aggregate"
        elif not isinstance(one, (p.Project, p.Filter)):
            yield type(one).__name__


def stages_text(runs: Sequence[StageRun]) -> str:
    """Return a text table of stages, one line a stage."""
    columns = [
        [str(run.stage.number) for run in runs],
        [describe(run.stage) for run in runs],
        [str(run.n_tasks) for run in runs],
        [f"{run.table.n_rows:,}" if run.table is not None else "" for run in runs],
        [f"{run.table.n_bytes:,}" if run.table is not None else "" for run in runs],
        [f"{1000 * run.wall_seconds:,.0f}" if run.table is not None else "" for run in runs],
        [run.hosts for run in runs],
    ]
    headers = ["stage", "computes", "tasks", "rows", "bytes", "ms", "ran on"]
    return render_cells(headers, columns, [True, False, True, True, True, True, False])
