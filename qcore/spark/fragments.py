"""Divides a plan into stages: the parts that tasks can run now, and the rest, which needs their output.

The rows that a stage's tasks wrote become a table (qcore.spark.page_files.PagesTable). A Scan of it replaces the part
of the plan that was computed. Every stage is an ordinary plan over tables. When next_stages() returns no more stages,
the rest of the plan runs in the driver process.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from qcore.connectors.arrow import ArrowTable
from qcore.connectors.base import Table
from qcore.lowering.grouping_sets import expand_grouping_sets
from qcore.optimizer import Estimator, source_statistics
from qcore.plan import nodes as p
from qcore.session.scans import expand_views
from qcore.spark.page_files import PagesTable
from qcore.spark.stage_parts import Cutter, Limits, Stage, bytes_of_rows, is_gathered

__all__ = ["Limits", "Stage", "estimated_rows", "next_stages", "with_output"]


class StagedEstimator(Estimator):
    """Estimates for a plan of which stages have computed parts.

    Tables of stages have no statistics of their columns. So the numbers of rows are those that were estimated for the
    whole plan, times the numbers of rows that stages wrote to those that were estimated for them.

    Parameters
    ----------
    planned : mapping of str to float
        The value of estimated_rows() for the whole plan.
    """

    def __init__(self, planned: Mapping[str, float]) -> None:
        super().__init__(source_statistics())
        self._planned = planned

    def _count(self, node: p.PlanNode) -> float:
        planned = self._planned.get(node.id)
        is_written = isinstance(node, p.Scan) and isinstance(node.source, PagesTable)
        return super()._count(node) if planned is None or is_written else planned * self._correction(node)

    def _correction(self, node: p.PlanNode) -> float:
        if isinstance(node, p.Scan) and isinstance(node.source, PagesTable) and node.id in self._planned:
            return self.rows(node) / self._planned[node.id]
        return math.prod(map(self._correction, node.children))


def estimated_rows(plan: p.PlanNode) -> dict[str, float]:
    """Return the estimated numbers of rows of a plan's nodes, by their ids."""
    estimator = Estimator(source_statistics())
    return {node.id: estimator.rows(node) for node in prepare_plan(plan).walk()}


def next_stages(
    plan: p.PlanNode,
    limits: Limits | None = None,
    first_number: int = 1,
    under_way: Collection[str] = (),
    planned: Mapping[str, float] | None = None,
) -> list[Stage]:
    """Return the stages of a plan that can run now, in any order or at the same time.

    If no stage is under way, an empty list means that the plan runs in this process: it reads only what stages wrote
    and what this process holds.

    Parameters
    ----------
    plan : PlanNode
        An optimized plan whose scans have sources, or a plan that with_output() returned.
    limits : Limits, optional
        The limits of sizes, by default Limits().
    first_number : int
        The number of the first stage.
    under_way : collection of str
        `Stage.replaces` of the stages that run now. Parts of the plan that need their rows wait.
    planned : mapping of str to float, optional
        The value of estimated_rows() for the plan before its first stage. Without it, estimates are made of this plan.

    Raises
    ------
    PlanError
        A node can run in this process only, such as an operator written in Python. The message names it.
    """
    limits = limits or Limits()
    plan = prepare_plan(plan)
    cutter = Cutter(limits, StagedEstimator(planned or {}), first_number, under_way)
    cutter.check(plan)
    if _fits_here(plan, limits) or _is_rest(plan):
        return []
    part = cutter.ready(plan)
    if part is not None and not cutter.stages:
        cutter.write(plan, part)
    return cutter.stages


def with_output(plan: p.PlanNode, stage: Stage, table: PagesTable | Table) -> p.PlanNode:
    """Return the plan with the rows that a stage wrote in place of the part that the stage computed."""

    def fill_scan(node: p.PlanNode) -> p.PlanNode:
        if isinstance(node, p.Scan):
            return node.with_fields(source=table) if node.id == stage.scan else node
        return _over(node, {id(child): fill_scan(child) for child in node.children})

    above = fill_scan(stage.above)

    def replace_reads(node: p.PlanNode) -> p.PlanNode:
        if node.id == stage.replaces:
            return above
        if isinstance(node, p.SharedRead) and node.of == stage.replaces:
            return p.Scan(node.id, node.schema, stage.scan, table, node.columns)
        return _over(node, {id(child): replace_reads(child) for child in node.children})

    return replace_reads(prepare_plan(plan))


def _over(node: p.PlanNode, children: Mapping[int, p.PlanNode]) -> p.PlanNode:
    """The node over other inputs, given by the ids of the objects that they replace."""
    if all(children[id(child)] is child for child in node.children):
        return node
    return node.with_children(*(children[id(child)] for child in node.children))


def prepare_plan(plan: p.PlanNode) -> p.PlanNode:
    """Return the plan with views and grouping sets as the nodes that they stand for. Doing it again changes nothing."""
    return _expand_node(expand_views(plan))


def _expand_node(node: p.PlanNode) -> p.PlanNode:
    node = _over(node, {id(child): _expand_node(child) for child in node.children})
    if not isinstance(node, p.Aggregate) or node.grouping_sets is None:
        return node
    output = expand_grouping_sets(node)
    assert isinstance(output, p.Project)
    (grouped,) = output.children
    (repeated,) = grouped.children
    (below,) = repeated.children
    # Each node needs an id of its own, because parts of a plan are replaced by their ids.
    below = below.with_fields(id=f"{node.id}.columns")
    repeated = repeated.with_fields(id=f"{node.id}.sets", child=below)
    grouped = grouped.with_fields(id=f"{node.id}.groups", child=repeated)
    return output.with_fields(child=grouped)


def _fits_here(plan: p.PlanNode, limits: Limits) -> bool:
    """Whether all leaves are few rows, which stages wrote or this process holds."""
    n_bytes = 0
    for node in plan.walk():
        if isinstance(node, p.Values):
            n_bytes += node.data.nbytes
        elif isinstance(node, p.Scan):
            if isinstance(node.source, PagesTable):
                n_bytes += node.source.n_bytes
            elif isinstance(node.source, ArrowTable):
                n_bytes += bytes_of_rows(node.source.statistics().row_count or 0, node.schema)
            else:
                return False
        if n_bytes > limits.driver_bytes:
            return False
    return True


def _is_rest(plan: p.PlanNode) -> bool:
    """Whether the plan is a chain of nodes over one partition, so that one task would do all of its work."""
    node = plan
    while not isinstance(node, p.Scan):
        if len(node.children) != 1:
            return False
        node = node.children[0]
    return is_gathered(node)
