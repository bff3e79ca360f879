"""The operators that may refuse a changed schema: the table in docs/ARCHITECTURE.md, node by node (SPEC D6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from qcore.expression.tree import Alias, Call, Cast, Column, Expr, In, children, column_names
from qcore.plan import nodes as p

# Aggregates whose result type depends on their argument's type.
FOLLOWING = frozenset({"sum", "min", "max", "first", "last", "any_value", "mode", "quantile_disc"})
# Aggregates that need the declared type: not every wider type has them.
TYPED = frozenset({"bit_and", "bit_or", "bit_xor", "array_agg", "string_agg"})
# Calls with the same result for a value in every type that holds it.
COMPARISONS = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_distinct_from", "is_not_distinct_from",
})  # fmt: skip
EXACT_CALLS = COMPARISONS | {"is_null", "is_not_null", "and", "or", "not"}
# Calls that are exact for integers and decimals.
ARITHMETIC = frozenset({"add", "subtract", "multiply", "negate", "abs"})
# A projection may compute the keys and arguments of an aggregation.
GROUPING = {"HashAggregation", "GroupingSets", "Project"}
KINDS = {"integer", "real", "wider", "from null"}
Changes = dict[str, str]


class Refusals:
    """Follows the changes through a plan: the columns of each node that may change, and the operators that refuse."""

    def __init__(self, plan: p.PlanNode) -> None:
        self.plan = plan
        self.found: set[str] = set()
        # Names of columns that are floats somewhere in the plan.
        self.floats = {field.name for node in plan.walk() for field in node.schema if pa.types.is_floating(field.type)}
        self.working: dict[str, list[str | None]] = {}
        self.shared = {node.id: node for node in plan.walk() if isinstance(node, p.Shared)}

    def operators(self) -> set[str]:
        """Classes of the operators that may refuse a batch."""
        self.changes(self.plan)
        return self.found

    def refuse(self, names: Iterable[str], changes: Changes, operators: set[str], kinds: set[str]) -> None:
        if any(changes.get(name) in kinds for name in names):
            self.found |= operators

    def compute(self, expr: Expr, changes: Changes, operator: str) -> None:
        """The change of an expression over changed columns. Wider types change the meaning of all but comparisons."""
        if isinstance(expr, Column):
            return
        if isinstance(expr, Cast) and pa.types.is_null(expr.to):
            self.refuse(column_names(expr), changes, {operator}, KINDS)  # no value is of this type
        numeric = isinstance(expr, Cast) and (pa.types.is_primitive(expr.to) or pa.types.is_decimal(expr.to))
        if numeric or isinstance(expr, (Alias, In)) or (isinstance(expr, Call) and expr.function in EXACT_CALLS):
            for child in children(expr):
                self.compute(child, changes, operator)
            if isinstance(expr, Call) and expr.function in COMPARISONS and len(column_names(expr)) > 1:
                # Beside a column of floats, large integers of the other column are rounded, and decimals otherwise.
                kinds = {"real"} if self.floats.isdisjoint(column_names(expr)) else {"real", "wider"}
                self.refuse(column_names(expr), changes, {operator}, kinds)
        elif isinstance(expr, Call) and expr.function in ARITHMETIC:
            for child in children(expr):
                self.compute(child, changes, operator)
            self.refuse(column_names(expr), changes, {operator}, {"real", "from null"})
        else:
            self.refuse(column_names(expr), changes, {operator}, {"real", "wider"})

    def changes(self, node: p.PlanNode) -> Changes:
        """The change of each output column that may change."""
        below = [self.changes(child) for child in node.children]
        method = getattr(self, f"of_{type(node).__name__}", None)
        changes: Changes = method(node, *below) if method is not None else dict(below[0]) if below else {}
        return {name: changes[name] for name in node.schema.names if name in changes}

    def of_UserSource(self, node: p.UserSource) -> Changes:  # noqa: N802 - named for the node
        epochs = getattr(node.factory, "epochs", None)
        if epochs is None:
            return {}
        if epochs.in_conflict:
            self.found |= {"ChangingSource", "IteratingSource", "PushingSource"}
        return dict(epochs.list_changes())

    def of_Filter(self, node: p.Filter, changes: Changes) -> Changes:  # noqa: N802
        self.compute(node.predicate, changes, "Filter")
        return changes

    def of_Project(self, node: p.Project, changes: Changes) -> Changes:  # noqa: N802
        made = {}
        for name, expr in zip(node.schema.names, node.expressions, strict=True):
            self.compute(expr, changes, "Project")
            kinds = {changes[column] for column in column_names(expr) if column in changes}
            type_ = node.schema.field(name).type
            if not kinds or isinstance(expr, Cast) or pa.types.is_boolean(type_):
                continue
            # An expression over nulls already has a type.
            made[name] = max(kinds) if max(kinds) != "from null" or pa.types.is_null(type_) else "wider"
        return made

    def of_Aggregate(self, node: p.Aggregate, changes: Changes) -> Changes:  # noqa: N802
        made = {}
        for name, expr in node.keys:
            made[name] = self.find_change(expr, changes)
        for call in node.aggregates:
            kinds = [self.find_change(expr, changes) for expr in call.arguments]
            if call.filter is not None:
                self.find_change(call.filter, changes)
            if call.function in TYPED:
                self.refuse(set().union(*map(column_names, call.arguments)), changes, GROUPING, KINDS)
            if call.function in FOLLOWING:
                made[call.name] = max(kinds)
        return {name: kind for name, kind in made.items() if kind}

    def find_change(self, expr: Expr, changes: Changes) -> str:
        """The change of an aggregation's key or argument; '' if it does not change."""
        for operator in GROUPING:
            self.compute(expr, changes, operator)
        return max((changes.get(name, "") for name in column_names(expr)), default="")

    def of_Window(self, node: p.Window, changes: Changes) -> Changes:  # noqa: N802
        made = dict(changes)
        for call in node.calls:
            if call.argument is None or call.argument not in changes:
                continue
            if call.function in TYPED:
                self.refuse([call.argument], changes, {"Window"}, KINDS)
            made[call.name] = changes[call.argument]
        return made

    def of_HashJoin(self, node: p.HashJoin, left: Changes, right: Changes) -> Changes:  # noqa: N802
        for a, b in zip(node.left_keys, node.right_keys, strict=True):
            kinds = {left.get(a), right.get(b)} - {None}
            # No type holds a decimal of one side and a float of the other.
            if kinds == {"real", "wider"} or (a in left and b in right and "from null" in kinds):
                self.found.add("HashProbe")
        return self.join_changes(node, left, right, "HashProbe")

    def of_NestedLoopJoin(self, node: p.NestedLoopJoin, left: Changes, right: Changes) -> Changes:  # noqa: N802
        return self.join_changes(node, left, right, "NestedLoopJoin")

    def join_changes(self, node: Any, left: Changes, right: Changes, operator: str) -> Changes:
        both = left | right
        if node.condition is not None:
            self.compute(node.condition, both, operator)
        return both

    def of_PartitionedOutput(self, node: p.PartitionedOutput, changes: Changes) -> Changes:  # noqa: N802
        return {}

    def of_TableWrite(self, node: p.TableWrite, changes: Changes) -> Changes:  # noqa: N802
        return {}

    def of_UnionAll(self, node: p.UnionAll, *inputs: Changes) -> Changes:  # noqa: N802
        made: Changes = {}
        for child, changes in zip(node.inputs, inputs, strict=True):
            for name, own in zip(node.schema.names, child.schema.names, strict=True):
                if own in changes:
                    made[name] = max(made.get(name, ""), changes[own])
        return made

    def of_RecursiveUnion(self, node: p.RecursiveUnion, *inputs: Changes) -> Changes:  # noqa: N802
        first, again = node.inputs
        self.working[node.key] = [inputs[0].get(name) for name in first.schema.names]
        later = self.changes(again)
        changes = zip(node.schema.names, self.working[node.key], again.schema.names, strict=True)
        return {name: max(kind or "", later.get(own, "")) for name, kind, own in changes if kind or own in later}

    def of_WorkingTable(self, node: p.WorkingTable) -> Changes:  # noqa: N802
        kinds = self.working.get(node.key, [])
        return {name: kind for name, kind in zip(node.schema.names, kinds, strict=False) if kind}

    def of_SharedRead(self, node: p.SharedRead) -> Changes:  # noqa: N802
        changes = self.changes(self.shared[node.of].child)
        pairs = zip(node.columns, node.schema.names, strict=True)
        return {name: changes[of] for of, name in pairs if of in changes}


def refusers(plan: p.PlanNode) -> set[str]:
    """Classes of the operators that may end the query with a SchemaChangeError."""
    return Refusals(plan).operators()
