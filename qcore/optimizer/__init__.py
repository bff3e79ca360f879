"""The optimizer: rewrites a plan to a cheaper plan that returns the same rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field
from typing import Any

from qcore.connectors.base import TableStatistics
from qcore.expression.recursion import bounded_depth
from qcore.expression.tree import Alias, Literal
from qcore.optimizer.aggregate_reduction import reduce_aggregates
from qcore.optimizer.anti_joins import make_anti_joins
from qcore.optimizer.build_sides import choose_build_sides
from qcore.optimizer.cardinality import Estimator, StatisticsOf
from qcore.optimizer.columns import prune_columns
from qcore.optimizer.common_conditions import factor_conditions
from qcore.optimizer.conditional_aggregates import filter_aggregates
from qcore.optimizer.constant_columns import replace_constant_columns
from qcore.optimizer.distinct_aggregates import group_distinct_values
from qcore.optimizer.empty_relations import drop_empty_relations, is_empty
from qcore.optimizer.existence_joins import make_existence_joins
from qcore.optimizer.filters import push_filters
from qcore.optimizer.grouping_sets import roll_up_grouping_sets
from qcore.optimizer.groups_before_joins import group_before_joins
from qcore.optimizer.join_order import order_joins
from qcore.optimizer.kept_shares import keep_shares
from qcore.optimizer.limits import push_limits
from qcore.optimizer.marks import replace_marks
from qcore.optimizer.nodes import renumber_nodes
from qcore.optimizer.ordered_rows import mark_ordered_rows
from qcore.optimizer.outer_joins import lift_outer_joins
from qcore.optimizer.partitioned_rows import partition_rows_first
from qcore.optimizer.projections import merge_projections
from qcore.optimizer.scan_filters import give_filters_to_scans
from qcore.optimizer.semi_joins import push_semi_joins
from qcore.optimizer.series import scan_series
from qcore.optimizer.shared_plans import Meanings, share_subplans
from qcore.optimizer.similar_plans import join_similar_plans
from qcore.optimizer.simplify import simplify_plan
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Aggregate, HashJoin, Limit, NestedLoopJoin, PlanNode, Project, Scan, TopN
from qcore.plan.planning_time import check_planning
from qcore.plan.schema import LEFT_ONLY, MARK_KINDS
from qcore.record import record

__all__ = ["RULES", "Estimator", "StatisticsOf", "optimize", "source_statistics"]


@record(frozen=True)
class _Context:
    """The arguments of rules beside the plan: new node ids, the output columns, estimates of rows, node meanings."""

    ids: NodeIds
    output: list[str]
    estimator: Estimator
    meanings: Meanings = field(default_factory=Meanings)


_ORDERED_RULES: tuple[tuple[str, Callable[[PlanNode, _Context], PlanNode]], ...] = (
    ("common_conditions", lambda node, context: factor_conditions(node)),
    ("simplify", lambda node, context: simplify_plan(node)),
    ("constant_columns", lambda node, context: replace_constant_columns(node)),
    ("series", lambda node, context: scan_series(node)),
    ("filters", lambda node, context: push_filters(node, context.ids)),
    ("marks", lambda node, context: replace_marks(node, context.ids)),
    ("anti_joins", lambda node, context: make_anti_joins(node, context.ids)),
    ("limits", lambda node, context: push_limits(node, context.ids)),
    ("empty_relations", lambda node, context: drop_empty_relations(node, context.ids)),
    ("projections", lambda node, context: merge_projections(node)),
    ("similar_plans", lambda node, context: join_similar_plans(node, context.ids, context.meanings)),
    ("shared_plans", lambda node, context: share_subplans(node, context.estimator, context.meanings)),
    ("grouping_sets", lambda node, context: roll_up_grouping_sets(node, context.ids, context.estimator)),
    ("aggregate_reduction", lambda node, context: reduce_aggregates(node, context.ids, context.estimator)),
    ("semi_joins", lambda node, context: push_semi_joins(node, context.estimator)),
    ("outer_joins", lambda node, context: lift_outer_joins(node, context.ids, context.estimator)),
    ("groups_before_joins", lambda node, context: group_before_joins(node, context.ids, context.estimator)),
    ("join_order", lambda node, context: order_joins(node, context.ids, context.estimator)),
    ("build_sides", lambda node, context: choose_build_sides(node, context.estimator, context.ids)),
    ("distinct_aggregates", lambda node, context: group_distinct_values(node, context.ids)),
    ("ordered_rows", lambda node, context: mark_ordered_rows(node, context.estimator, context.ids)),
    ("partitioned_rows", lambda node, context: partition_rows_first(node, context.estimator, context.ids)),
    ("conditional_aggregates", lambda node, context: filter_aggregates(node)),
    ("columns", lambda node, context: prune_columns(node, context.output, context.ids)),
    ("existence_joins", lambda node, context: make_existence_joins(node)),
    ("projections", lambda node, context: merge_projections(node)),
    ("scan_filters", lambda node, context: give_filters_to_scans(node)),
)
# A rule runs only if the plan has one of these nodes, kinds of joins, or properties that `_parts` names.
_NEEDS: dict[str, frozenset[str]] = {
    "constant_columns": frozenset({"constant column"}),
    "series": frozenset({"Unnest"}),
    "marks": MARK_KINDS,
    "anti_joins": frozenset({"left"}),
    "limits": frozenset({"Limit"}),
    "empty_relations": frozenset({"no rows"}),
    "similar_plans": frozenset({"table again"}),
    "shared_plans": frozenset({"table again"}),
    "grouping_sets": frozenset({"grouping sets"}),
    "aggregate_reduction": frozenset({"Aggregate"}),
    "distinct_aggregates": frozenset({"distinct"}),
    "groups_before_joins": frozenset({"Aggregate"}),
    "ordered_rows": frozenset({"Aggregate"}),
    "partitioned_rows": frozenset({"Aggregate"}),
    "conditional_aggregates": frozenset({"Aggregate"}),
    "semi_joins": frozenset({"left_semi", "left_anti"}),
    "outer_joins": frozenset({"left", "left_anti"}),
    "existence_joins": frozenset({*LEFT_ONLY, *MARK_KINDS, "distinct rows"}),
}
_CONSTANTS = frozenset({Literal, Alias})
# Rules before which the plan is searched again for what they need, because the rules before them may have added it.
# Other rules at most remove such parts. They are run in vain if a part was removed.
_SEARCHED_AGAIN = frozenset({"constant_columns", "anti_joins", "empty_relations", "semi_joins"})
# Rules that may drop a subplan that other parts of the plan read. They precede the rule that adds SharedReads.
_DROPPING = frozenset({"simplify", "constant_columns", "filters", "anti_joins", "limits", "empty_relations"})
# Names of the rules, in the order in which they are first applied.
RULES = tuple(dict.fromkeys(name for name, _ in _ORDERED_RULES))


def optimize(plan: PlanNode, statistics: StatisticsOf | None = None, without: Collection[str] = ()) -> PlanNode:
    """Return a plan that computes the same columns and rows with less work.

    Ids of scans and ids that the user chose are kept. Other nodes are renumbered.

    Parameters
    ----------
    plan : PlanNode
        Any plan.
    statistics : callable, optional
        Returns the TableStatistics of a Scan, or None if they are unknown. By default those of the scan's source.
    without : collection of str
        Names of RULES to omit. No rule changes the result of a plan; tests check this by omitting rules.
    """
    context = _Context(NodeIds.of_plan(plan), plan.schema.names, Estimator(statistics or source_statistics()))
    with bounded_depth():
        known, parts = plan, _parts(plan)
        has_shares = "SharedRead" in parts
        for name, rule in _ORDERED_RULES:
            check_planning()
            if name in without:
                continue
            if name in _NEEDS:
                if plan is not known and name in _SEARCHED_AGAIN:
                    known, parts = plan, _parts(plan)
                if parts.isdisjoint(_NEEDS[name]):
                    continue
            before, plan = plan, rule(plan, context)
            if has_shares and name in _DROPPING and plan is not before:
                plan = keep_shares(plan, context.ids)
        return renumber_nodes(plan)


def _parts(plan: PlanNode) -> set[str]:
    """The types of the plan's nodes, the kinds of its joins, and other properties that rules need."""
    found: set[str] = set()
    tables: set[str] = set()
    node: Any
    for node in plan.walk():
        kind = type(node)
        found.add(kind.__name__)
        if kind is Scan:
            if node.table in tables:
                found.add("table again")
            tables.add(node.table)
        elif kind is HashJoin or kind is NestedLoopJoin:
            found.add(node.kind)
            if type(node.condition) is Literal:
                found.add("no rows")
        elif kind is Project:
            if not _CONSTANTS.isdisjoint(map(type, node.expressions)):
                found.add("constant column")
        elif kind is Aggregate:
            if node.grouping_sets is not None:
                found.add("grouping sets")
            if any(one.distinct for one in node.aggregates):
                found.add("distinct")
            elif not node.aggregates:
                found.add("distinct rows")
        elif (kind in (Limit, TopN) and node.count == 0) or is_empty(node):
            found.add("no rows")
    return found


def source_statistics() -> StatisticsOf:
    """Return a function that returns the statistics of a scan's source. It calls each source once."""
    known: dict[int, TableStatistics] = {}

    def of_scan(scan: Scan) -> TableStatistics | None:
        if scan.source is None:
            return None
        key = id(scan.source)
        if key not in known:
            known[key] = scan.source.statistics()
        return known[key]

    return of_scan
