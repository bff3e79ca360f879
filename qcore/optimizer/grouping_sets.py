"""Rule: coarse grouping sets are made of fine ones' groups, not of the rows again.

ROLLUP (a, b, c) groups the rows by (a, b, c), those groups by (a, b), and so on: each set reads the fewest groups it
can be made of, which are computed once (Shared) where several want them. What is carried up are the aggregates' own
sums and counts. Sets of which none holds all keys are made of the groups by all keys, if those are few.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Cast, Expr, Literal, col
from qcore.expression.types import compares_by_bytes
from qcore.functions.catalogue import expr_type
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.merged_aggregates import MergedAggregates, is_mergeable
from qcore.optimizer.nodes import transformed
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, PlanNode, Project, Shared, SharedRead, UnionAll
from qcore.plan.schema import aggregate_schema, project_schema
from qcore.record import record

# Groups by all keys, as part of the rows, at most, where no set asks for them.
UNASKED_GROUPS_MAX = 0.2
# Each set is a pipeline or two; past so many, repeating rows costs less than threads going round.
SETS_MAX = 64


def roll_up_grouping_sets(plan: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    """The plan with aggregates of several grouping sets as unions of aggregates of one each."""

    def rule(node: PlanNode) -> PlanNode:
        if not isinstance(node, Aggregate) or node.grouping_sets is None or not _is_mergeable(node):
            return node
        return _RollUp(node, ids, estimator).plan() or node

    return transformed(plan, rule, ids)


def _is_mergeable(node: Aggregate) -> bool:
    """Whether an aggregate of groups can be told from aggregates of their parts, and keys be null columns."""
    if any(compares_by_bytes(node.schema.field(name).type) for name, _ in node.keys):
        return False
    return all(map(is_mergeable, node.aggregates))


@record
class _Level:
    """The groups by one set of keys, and how many other sets are made of them."""

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
        # The node's aggregates in terms of those that are carried up.
        self.outputs: list[Expr] = []

    def plan(self) -> PlanNode | None:
        """The union of the sets; None where the rows had better be repeated."""
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
        """Groups made of the groups of `parent`; what those are read from is put below later."""
        names = [self.node.keys[i][0] for i in sorted(keys)]
        kept = [(name, col(name)) for name in names]
        calls = tuple(self.merged.merging())
        schema = aggregate_schema(kept, calls, parent.node.schema)
        return Aggregate(self.ids.new(), schema, parent.node, tuple(kept), calls)

    def _groups(
        self, keys: frozenset[int], levels: dict[frozenset[int], _Level], parents: dict[frozenset[int], _Level]
    ) -> PlanNode:
        """A set's groups for one more reader: computed in the first's place."""
        level = levels[keys]
        if level.shared is not None:
            shared = level.shared
            return SharedRead(self.ids.new(), shared.schema, shared.id, tuple(shared.schema.names), shared)
        node = level.node
        if keys in parents:
            node = node.with_fields(child=self._groups(parents[keys].keys, levels, parents))
        if level.n_readers == 1:
            return node
        level.shared = Shared(self.ids.numbered("groups"), node.schema, node)
        return level.shared

    def _set(self, groups: PlanNode, position: int) -> PlanNode:
        """The node's columns of one set."""
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
