"""Plan → cheaper plan of the same rows. Floor P3."""

from __future__ import annotations

from collections.abc import Callable

from qcore.naming import NodeIds
from qcore.optimizer.aggregate_reduction import reduce_aggregates
from qcore.optimizer.build_sides import choose_build_sides
from qcore.optimizer.cardinality import Estimator, StatisticsOf
from qcore.optimizer.columns import prune_columns
from qcore.optimizer.filters import push_filters
from qcore.optimizer.join_order import order_joins
from qcore.optimizer.limits import push_limits
from qcore.optimizer.nodes import renumbered
from qcore.optimizer.projections import merge_projections
from qcore.optimizer.scan_filters import give_filters_to_scans
from qcore.optimizer.semi_joins import push_semi_joins
from qcore.optimizer.simplify import simplify_plan
from qcore.plan import PlanNode, Scan

__all__ = ["Estimator", "StatisticsOf", "optimize"]

Rule = Callable[[PlanNode], PlanNode]


def optimize(plan: PlanNode, statistics: StatisticsOf | None = None) -> PlanNode:
    """A plan that gives the same columns and rows with less work.

    Ids of scans and ids the user chose stay; the others are numbered anew.

    Parameters
    ----------
    plan : PlanNode
        Any plan.
    statistics : callable, optional
        TableStatistics of a Scan, or None where nothing is known. By default each scan's source is asked.
    """
    ids = NodeIds.of_plan(plan)
    output = plan.schema.names
    estimator = Estimator(statistics or source_statistics)
    rules: list[Rule] = [
        simplify_plan,
        lambda node: push_filters(node, ids),
        lambda node: push_limits(node, ids),
        lambda node: merge_projections(node),
        lambda node: reduce_aggregates(node, ids, estimator),
        lambda node: push_semi_joins(node, estimator),
        lambda node: order_joins(node, ids, estimator),
        lambda node: choose_build_sides(node, estimator),
        lambda node: prune_columns(node, output, ids),
        lambda node: merge_projections(node),
        give_filters_to_scans,
        renumbered,
    ]
    for rule in rules:
        plan = rule(plan)
    return plan


def source_statistics(scan: Scan) -> object:
    """What the scan's own source knows."""
    return None if scan.source is None else scan.source.statistics()
