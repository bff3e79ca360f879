"""Outer columns: those that the nodes of a subquery read, and their replacement in expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from qcore.expression.tree import Expr, OuterColumn, children, rebuild, walk
from qcore.plan.nodes import (
    Aggregate,
    DependentJoin,
    Filter,
    HashJoin,
    NestedLoopJoin,
    PlanNode,
    Project,
    RecursiveUnion,
    SharedRead,
    WorkingTable,
)

_NONE: frozenset[str] = frozenset()


class OuterReads:
    """Finds the outer columns that a node and the nodes below it read from enclosing queries. Each node is visited
    once.
    """

    def __init__(self) -> None:
        # The node is kept, so that no other gets its id.
        self._known: dict[int, tuple[PlanNode, frozenset[str]]] = {}

    def of(self, node: PlanNode) -> frozenset[str]:
        """The names. A working table counts as one: see working_name()."""
        known = self._known.get(id(node))
        if known is not None:
            return known[1]
        found = outer_names(*node_expressions(node))
        if isinstance(node, DependentJoin):
            found |= self.of(node.left) | self.of(node.right).difference(name for name, _ in node.arguments)
        elif isinstance(node, RecursiveUnion):
            found |= frozenset().union(*map(self.of, node.inputs)) - {working_name(node.key)}
        elif isinstance(node, SharedRead):
            found |= self.of(node.like)
        elif isinstance(node, WorkingTable):
            found |= {working_name(node.key)}
        else:
            for child in node.children:
                found |= self.of(child)
        self._known[id(node)] = node, found
        return found


def working_name(key: str) -> str:
    """The name that represents the working table of a recursive query among the names of outer columns."""
    return f"working table {key}"


def outer_names(*expressions: Expr) -> frozenset[str]:
    """The names of the outer columns that the expressions read."""
    found = {part.name for expr in expressions for part in walk(expr) if isinstance(part, OuterColumn)}
    return frozenset(found) if found else _NONE


def replace_outer(expr: Expr, by_name: Mapping[str, Expr]) -> Expr:
    """Return the expression with others in place of outer columns. Columns that are not in `by_name` are kept."""
    if isinstance(expr, OuterColumn):
        return by_name.get(expr.name, expr)
    parts = children(expr)
    if not parts:
        return expr
    new = tuple(replace_outer(part, by_name) for part in parts)
    return expr if all(a is b for a, b in zip(new, parts, strict=True)) else rebuild(expr, new)


def node_expressions(node: PlanNode) -> Iterator[Expr]:
    """The expressions of a node that may read outer columns."""
    if isinstance(node, Filter):
        yield node.predicate
    elif isinstance(node, Project):
        yield from node.expressions
    elif isinstance(node, Aggregate):
        for _, key in node.keys:
            yield key
        for one in node.aggregates:
            yield from one.arguments
            yield from _present(one.filter)
    elif isinstance(node, (HashJoin, NestedLoopJoin)):
        yield from _present(node.condition)
    elif isinstance(node, DependentJoin):
        yield from node.conditions


def _present(*expressions: Expr | None) -> Iterable[Expr]:
    return (expr for expr in expressions if expr is not None)
