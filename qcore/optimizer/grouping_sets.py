"""Rule: coarse grouping sets are computed from the groups of finer sets, not from the rows.

ROLLUP (a, b, c) groups the rows by (a, b, c), then those groups by (a, b), and so on. Each set reads the smallest finer
set. Groups that several sets read are computed once (Shared). Sums and counts are combined from set to set. If no set
has all keys, the rows are first grouped by all keys, provided that this makes few groups.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Cast, Expr, Literal, col
from qcore.expression.types import compares_by_bytes
from qcore.functions.catalogue import expr_type
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.merged_aggregates import MergedAggregates, is_mergeable
from qcore.optimizer.nodes import transform_plan
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, PlanNode, Project, Shared, SharedRead, UnionAll
from qcore.plan.schema import aggregate_schema, project_schema
from qcore.record import record

# If no set has all keys: the most groups by all keys, as a fraction of the rows.
UNASKED_GROUPS_MAX = 0.2
# Each set takes one or two pipelines. With more sets than this, repeating the rows costs less than switching pipelines.
SETS_MAX = 64


def roll_up_grouping_sets(plan: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    """Return the plan with an aggregate of several grouping sets as a union of aggregates with one set each."""

    def rule(node: PlanNode) -> PlanNode:
        if not isinstance(node, Aggregate) or node.grouping_sets is None or not _is_mergeable(node):
            return node
        return _RollUp(node, ids, estimator).plan() or node

    return transform_plan(plan, rule, ids)


def _is_mergeable(node: Aggregate) -> bool:
    """Whether the aggregates of a group can be computed from those of its parts, and keys can be null columns."""
    if any(compares_by_bytes(node.schema.field(name).type) for name, _ in node.keys):
        return False
    return all(map(is_mergeable, node.aggregates))


@record
class _Level:
    """The groups by one set of keys, and the number of their readers."""

    keys: frozenset[int]
    node: Aggregate
    n_readers: int = 0
    shared: Shared | None = None


class _RollUp:
    def __init__(self, node: Aggregate, ids: NodeIds, estimator: Estimator) -> None:
        assert node.grouping_sets is not None
        self.node = node
        self.sets = node.grouping_sets
        self.ids = ids
        self.estimator = estimator
        self.names = ColumnNames(node.schema.names)
        self.merged = MergedAggregates(node.child.schema, self.names)
        # The node's aggregates as expressions over those that are combined from set to set.
        self.outputs: list[Expr] = []

    def plan(self) -> PlanNode | None:
        """Return the union of the sets; None if repeating the rows is cheaper."""
        everything = frozenset(range(len(self.node.keys)))
        sets = list(map(frozenset, self.sets))
        is_asked = everything in sets
        if len(sets) > SETS_MAX or not sets:
            return None
        for aggregate in self.node.aggregates:
            self.outputs.append(self.merged.add(aggregate, is_asked))
        finest = _Level(everything, self._finest())
        few = self.estimator.rows(finest.node) <= UNASKED_GROUPS_MAX * self.estimator.rows(self.node.child)
        if not is_asked and not few:
            return None
        levels = {everything: finest}
        parents: dict[frozenset[int], _Level] = {}
        for keys in sorted(set(sets) - {everything}, key=len, reverse=True):
            fine = [level for held, level in levels.items() if keys < held]
            parents[keys] = min(fine, key=lambda level: (self.estimator.rows(level.node), len(level.keys)))
            levels[keys] = _Level(keys, self._coarser(parents[keys], keys))
        for keys in sets:
            levels[keys].n_readers += 1
        for parent in parents.values():
            parent.n_readers += 1
        inputs = [self._set(self._groups(keys, levels, parents), i) for i, keys in enumerate(sets)]
        if len(inputs) == 1:
            return inputs[0]
        return UnionAll(self.node.id, self.node.schema, tuple(inputs))

    # --- sets ---

    def _finest(self) -> Aggregate:
        node = self.node
        calls = tuple(self.merged.carried)
        schema = aggregate_schema(node.keys, calls, node.child.schema)
        return Aggregate(self.ids.new(), schema, node.child, node.keys, calls)

    def _coarser(self, parent: _Level, keys: frozenset[int]) -> Aggregate:
        """Return groups computed from the groups of `parent`. Their final input is set later."""
        names = [self.node.keys[i][0] for i in sorted(keys)]
        kept = [(name, col(name)) for name in names]
        calls = tuple(self.merged.merging())
        schema = aggregate_schema(kept, calls, parent.node.schema)
        return Aggregate(self.ids.new(), schema, parent.node, tuple(kept), calls)

    def _groups(
        self, keys: frozenset[int], levels: dict[frozenset[int], _Level], parents: dict[frozenset[int], _Level]
    ) -> PlanNode:
        """Return a set's groups for the next reader. The first reader computes them."""
        level = levels[keys]
        if level.shared is not None:
            shared = level.shared
            return SharedRead(self.ids.new(), shared.schema, shared.id, tuple(shared.schema.names), shared)
        node = level.node
        if keys in parents:
            node = node.with_fields(child=self._groups(parents[keys].keys, levels, parents))
        if level.n_readers == 1:
            return node
        level.shared = Shared(self.ids.number_word("groups"), node.schema, node)
        return level.shared

    def _set(self, groups: PlanNode, position: int) -> PlanNode:
        """Return the node's columns for one set."""
        node = self.node
        keys = self.sets[position]
        expressions: dict[str, Expr] = {}
        for i, (name, _) in enumerate(node.keys):
            expressions[name] = col(name) if i in keys else Literal(None, node.schema.field(name).type)
        if node.grouping_id is not None:
            expressions[node.grouping_id] = Literal(node.set_number(position), pa.int64())
        for aggregate, output in zip(node.aggregates, self.outputs, strict=True):
            wanted = node.schema.field(aggregate.name).type
            has_type = expr_type(output, groups.schema) == wanted
            expressions[aggregate.name] = output if has_type else Cast(output, wanted)
        names = node.schema.names
        values = [expressions[name] for name in names]
        return Project(self.ids.new(), project_schema(names, values, groups.schema), groups, tuple(values))
