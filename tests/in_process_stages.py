"""Runs the stages of a query without Spark: all tasks run in this process, one after another."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from qcore.config import Settings
from qcore.lowering.runtime_filters import source_filter
from qcore.plan import nodes as p
from qcore.session.result import Result
from qcore.spark.file_assignment import assign_splits, group_partitions
from qcore.spark.fragments import Limits, Stage, estimated_rows, next_stages, with_output
from qcore.spark.page_files import PagesTable, QueryFolder
from qcore.spark.plan_bytes import plan_to_bytes
from qcore.spark.worker import TaskInput, TaskOutput, run_plan, run_task
from qcore.writing.key_filter_file import write_key_filter

STAGES_MAX = 200


@dataclass
class StagesRun:
    """Runs queries by stages.

    Attributes
    ----------
    parent : str
        The folder for the queries' folders.
    limits : Limits
        How plans are cut.
    n_tasks : int
        Tasks of a stage whose splits are divided.
    order : random.Random, optional
        Decides which of the stages that run at the same time ends first; by default the first that was started.
    stages : list of (Stage, PagesTable)
        What ran for the last query.
    """

    parent: str
    limits: Limits = field(default_factory=Limits)
    n_tasks: int = 2
    threads: int = 1
    memory_limit: int | None = None
    order: random.Random | None = None
    stages: list[tuple[Stage, PagesTable]] = field(default_factory=list)

    def rows(self, plan: p.PlanNode) -> pa.Table:
        """The rows of an optimized plan."""
        with QueryFolder(self.parent) as folder:
            left = self.rest(plan, folder)
            return Result(left, Settings.make(self.threads, None, None, None)).to_arrow()

    def rest(self, plan: p.PlanNode, folder: QueryFolder) -> p.PlanNode:
        """The plan after all its stages have run."""
        self.stages = []
        under_way: list[Stage] = []
        planned = estimated_rows(plan)
        while True:
            n_started = len(self.stages) + len(under_way)
            under_way += next_stages(
                plan, self.limits, n_started + 1, {stage.replaces for stage in under_way}, planned
            )
            if not under_way:
                return plan
            assert len({stage.number for stage in under_way}) == len({stage.replaces for stage in under_way})
            assert len(self.stages) < STAGES_MAX, "the plan does not come to an end"
            # The stage that ends first. Other stages still run.
            stage = under_way.pop(0 if self.order is None else self.order.randrange(len(under_way)))
            table = self.run(stage, folder)
            self.stages.append((stage, table))
            plan = with_output(plan, stage, table)

    def run(self, stage: Stage, folder: QueryFolder) -> PagesTable:
        """Run a stage's tasks, and return what they wrote."""
        if stage.filtered_by is not None:
            stage = stage.with_key_filter(write_key_filter(stage.filtered_by.files, folder.new_file()))
        outputs = [self.task(stage, given) for given in self.inputs(stage, folder)]
        files = [output.file for output in outputs]
        return PagesTable(stage.plan.schema, files, stage.n_partitions, stage.keys)

    def inputs(self, stage: Stage, folder: QueryFolder) -> list[TaskInput]:
        """The inputs of a stage's tasks."""
        groups = group_partitions(stage.partition_bytes(), self.n_tasks, self.limits.partition_bytes)
        n_tasks = len(groups) or stage.n_tasks or self.n_tasks
        splits: list[dict[str, Any]] = [{} for _ in range(n_tasks)]
        for scan, how in stage.reads.items():
            node = stage.scans[scan]
            if how == "partition":
                for task, group in enumerate(groups):
                    splits[task][scan] = node.source.splits_of(*group)
                continue
            listed = list(node.source.splits(node.columns, source_filter(node), 8 * n_tasks))
            shares = assign_splits(listed, n_tasks)
            for task in range(n_tasks):
                splits[task][scan] = listed if how == "all" else shares[task]
        plan = b"" if stage.on_driver else plan_to_bytes(stage.plan)
        return [
            TaskInput(plan, splits[task], task, folder.new_file(), self.threads, self.memory_limit)
            for task in range(n_tasks)
        ]

    def task(self, stage: Stage, given: TaskInput) -> TaskOutput:
        """Run one task as a worker does: its input and output are pickled."""
        if stage.on_driver:
            return run_plan(stage.plan, given)
        output = pickle.dumps(run_task(pickle.loads(pickle.dumps(given))))
        return cast(TaskOutput, pickle.loads(output))
