"""One task of a stage: run its plan over its splits, write one page file. Needs neither pyspark nor the frontends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.connectors.base import BatchStream, Split, Table, TableStatistics
from qcore.errors import PlanError, QcoreError
from qcore.expression.tree import Expr
from qcore.lowering.recursion import with_ordered_unions
from qcore.plan import nodes as p
from qcore.session.task import Task
from qcore.spark.plan_bytes import plan_from_bytes
from qcore.writing.page_file import PageFile


@dataclass(frozen=True)
class TaskInput:
    """The input of a task. It can be pickled.

    Attributes
    ----------
    plan : bytes
        The stage's plan (qcore.spark.plan_bytes), which ends in PartitionedOutput.
    splits : dict of str to list of Split
        The splits of each Scan by its id.
    partition : int
        The number of the task within its stage.
    output : str
        The page file to write, in a folder that exists. It must not exist.
    threads : int
        Number of drivers.
    memory_limit : int or None
        Bytes that the task may use; None: no limit.
    batch_rows : int or None
        Rows of a batch that sources aim at; None: the default.
    """

    plan: bytes
    splits: dict[str, list[Split]]
    partition: int
    output: str
    threads: int = 1
    memory_limit: int | None = None
    batch_rows: int | None = None


@dataclass(frozen=True)
class TaskOutput:
    """The report of a successful task. It can be pickled.

    Attributes
    ----------
    file : PageFile
        The file that it wrote.
    stats : dict
        The value of Task.stats().
    """

    file: PageFile
    stats: dict[str, Any] = field(default_factory=dict)


class GivenSplits:
    """A table of which a task reads the splits that it was given, and no others."""

    def __init__(self, table: Table, splits: Sequence[Split]) -> None:
        self._table = table
        self._splits = list(splits)
        self.schema: pa.Schema = table.schema

    def statistics(self) -> TableStatistics:
        """Return the statistics of the whole table."""
        return self._table.statistics()

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> list[Split]:
        """List the given splits."""
        return list(self._splits)

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Open a split of the table."""
        return self._table.open(split, columns, filter, batch_rows)


def run_task(task_input: TaskInput, watch: Callable[[Task], None] | None = None, in_order: bool = False) -> TaskOutput:
    """Run a task in this process. After an error its file does not exist.

    `watch` is called with the task before its splits are listed. From then on another thread may cancel the task. With
    `in_order` unions read their inputs one after another: a task with one driver then writes the same pages each time.

    Raises
    ------
    QcoreError
        The task failed. PlanError if its plan cannot run here.
    """
    plan = plan_from_bytes(task_input.plan)
    return run_plan(with_ordered_unions(plan) if in_order else plan, task_input, watch)


def run_plan(plan: p.PlanNode, task_input: TaskInput, watch: Callable[[Task], None] | None = None) -> TaskOutput:
    """Run a task whose plan this process has, so that `task_input.plan` does not count. The rest is as in run_task."""
    if not isinstance(plan, p.PartitionedOutput):
        raise PlanError(f"the plan of a task ends in PartitionedOutput, not in {type(plan).__name__}")
    plan = plan.with_fields(path=task_input.output, single_file=True)
    settings = Settings.make(task_input.threads, task_input.memory_limit, task_input.batch_rows, None)
    task = Task.of_plan(with_splits(plan, task_input.splits), settings)
    try:
        if watch is not None:
            watch(task)
        task.start()
        task.wait()
        file = task.page_file
        if file is None:
            raise QcoreError(f"the task ended without the file {task_input.output}")
    except BaseException:
        stop(task)
        with contextlib.suppress(OSError):
            os.unlink(task_input.output)
        raise
    return TaskOutput(file, task.stats())


def stop(task: Task) -> None:
    """Cancel a task that still runs, and wait for its end."""
    if task.state in ("created", "running"):
        task.cancel()
        with contextlib.suppress(QcoreError):
            task.wait()


def with_splits(node: p.PlanNode, splits: dict[str, list[Split]]) -> p.PlanNode:
    """Return the plan with the given splits in place of those that the tables of its scans list.

    Raises
    ------
    PlanError
        A scan has no table, or no splits were given for it.
    """
    if isinstance(node, p.Scan):
        if node.source is None or node.id not in splits:
            raise PlanError(f"the task was given no splits for the scan {node.id!r} of {node.table}")
        return node.with_fields(source=GivenSplits(node.source, splits[node.id]))
    if not node.children:
        return node
    return node.with_children(*(with_splits(child, splits) for child in node.children))
