"""Rule: only columns that are used are read, computed and kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from qcore.expression.tree import Column, Expr, column_names
from qcore.optimizer.nodes import keep_columns, rebuilt, renames, schema_of_join, transform_plan, window_over
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateStep,
    EnforceSingleRow,
    Filter,
    HashJoin,
    Limit,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    RecursiveUnion,
    Scan,
    Shared,
    SharedRead,
    Sink,
    TableWrite,
    TopN,
    UnionAll,
    Unnest,
    UserOperator,
    UserSource,
    Values,
    Window,
    WorkingTable,
)
from qcore.plan.schema import LEFT_ONLY, MARK_KINDS


def prune_columns(plan: PlanNode, output: Sequence[str], ids: NodeIds) -> PlanNode:
    """Return the plan without unused columns. Its output has the columns `output`, in this order."""
    pruner = _Pruner(ids)
    return keep_columns(pruner.prune_shared(pruner.prune(plan, set(output))), output, ids)


class _Pruner:
    def __init__(self, ids: NodeIds) -> None:
        self.ids = ids
        # For each shared subplan the columns that the readers pruned so far use.
        self.wanted: dict[str, set[str]] = {}

    def prune(self, node: PlanNode, wanted: set[str]) -> PlanNode:
        """Return a node with at least the `wanted` columns of `node`. Others remain if removing them has a cost."""
        if isinstance(node, Scan):
            return self._scan(node, wanted)
        if isinstance(node, Values):
            return self._values(node, wanted)
        if isinstance(node, Project):
            return self._project(node, wanted)
        if isinstance(node, Aggregate):
            return self._aggregate(node, wanted)
        if isinstance(node, (HashJoin, NestedLoopJoin)):
            return self._join(node, wanted)
        if isinstance(node, Filter):
            return rebuilt(node, [self.prune(node.child, wanted | column_names(node.predicate))])
        if isinstance(node, Limit):
            return rebuilt(node, [self.prune(node.child, wanted)])
        if isinstance(node, (OrderBy, TopN)):
            return rebuilt(node, [self.narrow(node.child, wanted | {key.column for key in node.keys})])
        if isinstance(node, Window):
            return self._window(node, wanted)
        if isinstance(node, LocalPartition):
            return rebuilt(node, [self.narrow(node.child, wanted | set(node.keys))])
        if isinstance(node, Unnest):
            lists = {name for name, _ in node.lists}
            beside = {name for name in node.child.schema.names if name not in lists}
            return rebuilt(node, [self.narrow(node.child, (wanted & beside) | lists)])
        if isinstance(node, UnionAll):
            return self._union(node, wanted)
        if isinstance(node, (UserSource, WorkingTable)):
            return node
        if isinstance(node, (Shared, SharedRead)):
            return self._prune_shared(node, wanted)
        if isinstance(node, RecursiveUnion):
            return rebuilt(node, [self.exact(child, child.schema.names) for child in node.inputs])
        assert isinstance(node, (AggregateStep, EnforceSingleRow, UserOperator, TableWrite, Sink))
        return rebuilt(node, [self.exact(node.child, node.child.schema.names)])

    def narrow(self, node: PlanNode, wanted: set[str]) -> PlanNode:
        """Return a node with exactly the wanted columns, for inputs that are kept or copied."""
        pruned = self.prune(node, wanted)
        kept = [name for name in pruned.schema.names if name in wanted]
        return keep_columns(pruned, kept, self.ids) if kept else pruned

    def exact(self, node: PlanNode, names: Iterable[str]) -> PlanNode:
        """A node with these columns in this order."""
        names = list(names)
        return keep_columns(self.prune(node, set(names)), names, self.ids)

    def _scan(self, node: Scan, wanted: set[str]) -> PlanNode:
        if node.filter is not None:
            wanted = wanted | column_names(node.filter)
        kept = [i for i, name in enumerate(node.schema.names) if name in wanted]
        if len(kept) == len(node.columns):
            return node
        schema = pa.schema([node.schema.field(i) for i in kept])
        return node.with_fields(schema=schema, columns=tuple(node.columns[i] for i in kept))

    def _values(self, node: Values, wanted: set[str]) -> PlanNode:
        kept = [name for name in node.schema.names if name in wanted]
        if len(kept) == len(node.schema) or not kept:
            return node
        data = node.data.select(kept)
        return node.with_fields(schema=data.schema, data=data)

    def _project(self, node: Project, wanted: set[str]) -> PlanNode:
        expressions = {name: expr for name, expr in renames(node).items() if name in wanted}
        if not expressions:
            # Only the number of rows counts.
            return self.prune(node.child, set())
        child = self.prune(node.child, _names_of(expressions.values()))
        if all(isinstance(expr, Column) and expr.name == name for name, expr in expressions.items()):
            # The projection only drops or reorders columns. Parents that need this order add a projection themselves.
            return child
        if len(expressions) == len(node.expressions):
            return rebuilt(node, [child])
        schema = pa.schema([node.schema.field(name) for name in expressions])
        return node.with_fields(schema=schema, child=child, expressions=tuple(expressions.values()))

    def _aggregate(self, node: Aggregate, wanted: set[str]) -> PlanNode:
        calls = tuple(call for call in node.aggregates if call.name in wanted)
        if not calls and not node.keys:
            calls = node.aggregates[:1]
        used = _names_of(expr for _, expr in node.keys) | _names_of_calls(calls)
        child = self.prune(node.child, used)
        if len(calls) == len(node.aggregates):
            return rebuilt(node, [child])
        kept = [name for name in node.schema.names if name not in {call.name for call in node.aggregates}]
        kept += [call.name for call in calls]
        schema = pa.schema([node.schema.field(name) for name in kept])
        return node.with_fields(schema=schema, child=child, aggregates=calls)

    def _window(self, node: Window, wanted: set[str]) -> PlanNode:
        calls = tuple(call for call in node.calls if call.name in wanted)
        if not calls:
            return self.prune(node.child, wanted)
        used = wanted - {call.name for call in node.calls}
        used |= {*node.partition_by, *(key.column for key in node.order_by)}
        used |= {name for call in calls for name in call.columns}
        return window_over(node.with_fields(calls=calls), self.narrow(node.child, used))

    def _join(self, node: HashJoin | NestedLoopJoin, wanted: set[str]) -> PlanNode:
        used = set(wanted)
        if node.condition is not None:
            used |= column_names(node.condition)
        left_used, right_used = set(used), set(used)
        if isinstance(node, HashJoin):
            left_used |= set(node.left_keys)
            right_used |= set(node.right_keys)
        if node.kind in LEFT_ONLY or node.kind in MARK_KINDS:
            right_used -= wanted - _condition_names(node) - _right_keys(node)
        if node.kind in ("right_semi", "right_anti"):
            left_used -= wanted - _condition_names(node) - _left_keys(node)
        left = self.narrow(node.left, _used_of(node.left, left_used))
        right = self.narrow(node.right, _used_of(node.right, right_used))
        if left is node.left and right is node.right:
            return node
        return node.with_fields(left=left, right=right, schema=schema_of_join(node, left.schema, right.schema))

    def _prune_shared(self, node: Shared | SharedRead, wanted: set[str]) -> PlanNode:
        """Prune a reader of a shared subplan.

        The subplan is pruned later, when the columns of all readers are known.
        """
        kept = [i for i, name in enumerate(node.schema.names) if name in wanted] or [0][: len(node.schema)]
        schema = pa.schema([node.schema.field(i) for i in kept])
        if isinstance(node, Shared):
            self.wanted.setdefault(node.id, set()).update(schema.names)
            return node.with_fields(schema=schema)
        columns = tuple(node.columns[i] for i in kept)
        self.wanted.setdefault(node.of, set()).update(columns)
        return node.with_fields(schema=schema, columns=columns)

    def prune_shared(self, plan: PlanNode) -> PlanNode:
        """Return the plan with each shared subplan pruned to the columns that its readers use."""
        if not self.wanted:
            return plan
        waiting = {node.id: node for node in plan.walk() if isinstance(node, Shared)}
        while waiting:
            reads = [
                below.id if isinstance(below, Shared) else below.of
                for node in waiting.values()
                for below in node.child.walk()
                if isinstance(below, (Shared, SharedRead))
            ]
            ready = next(name for name in waiting if name not in reads)
            plan = self._with_subplan(plan, ready, self.narrow(waiting.pop(ready).child, self.wanted[ready]))
            waiting = {node.id: node for node in plan.walk() if isinstance(node, Shared) and node.id in waiting}
        return plan

    def _with_subplan(self, plan: PlanNode, shared: str, child: PlanNode) -> PlanNode:
        def rule(node: PlanNode) -> PlanNode:
            return node.with_fields(child=child) if isinstance(node, Shared) and node.id == shared else node

        return transform_plan(plan, rule, self.ids)

    def _union(self, node: UnionAll, wanted: set[str]) -> PlanNode:
        # If only the number of rows is used, the union keeps one column.
        kept = [i for i, name in enumerate(node.schema.names) if name in wanted] or [0]
        inputs = [self.exact(child, [child.schema.names[i] for i in kept]) for child in node.inputs]
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return node
        return node.with_fields(schema=pa.schema([node.schema.field(i) for i in kept]), inputs=tuple(inputs))


def _names_of(expressions: Iterable[Expr]) -> set[str]:
    return set().union(*(column_names(expr) for expr in expressions))


def _names_of_calls(calls: Iterable[AggregateCall]) -> set[str]:
    names: set[str] = set()
    for call in calls:
        names |= _names_of(call.arguments)
        if call.filter is not None:
            names |= column_names(call.filter)
    return names


def _used_of(side: PlanNode, used: set[str]) -> set[str]:
    """The columns of a join's input that are used. If only the number of rows is used, and the input is a projection,
    its first column: the columns below the projection may have the same names as those of the other input.
    """
    found = used & set(side.schema.names)
    below = side
    while isinstance(below, Limit):
        below = below.child
    return {side.schema.names[0]} if not found and isinstance(below, Project) and side.schema.names else found


def _condition_names(node: HashJoin | NestedLoopJoin) -> frozenset[str]:
    return frozenset() if node.condition is None else column_names(node.condition)


def _left_keys(node: HashJoin | NestedLoopJoin) -> set[str]:
    return set(node.left_keys) if isinstance(node, HashJoin) else set()


def _right_keys(node: HashJoin | NestedLoopJoin) -> set[str]:
    return set(node.right_keys) if isinstance(node, HashJoin) else set()
