"""Rule: aggregates that differ only in which groups they want become the same, with filters above them.

A common table expression that a query names for this year and for the last one is planned twice, each copy with its own
condition on the year far below. Where such conditions are on keys of the groups, every copy gets the rows that any of
them wants, and picks its groups from those; so that the rule for equal subplans finds one to compute once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from qcore.expression.tree import Call, Column, Expr, col, column_names, conjuncts, same, substitute
from qcore.optimizer.nodes import rebuilt, renames
from qcore.optimizer.shared_plans import Meanings, TablesBelow
from qcore.plan.joins import conjunction
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Aggregate, Filter, HashJoin, NestedLoopJoin, PlanNode, Project, RecursiveUnion
from qcore.record import record

# Copies of a subplan at most: each adds a condition to be tested for every row.
COPIES_MAX = 8

Predicates = list[Expr]
# Conditions on group keys, and the columns that those are where the conditions stand, to what shall stand there.
Instead = Callable[[Predicates, dict[str, str]], Predicates]


def join_similar_plans(plan: PlanNode, ids: NodeIds, meanings: Meanings) -> PlanNode:
    """The plan with aggregates made equal that differ in conditions on their keys."""
    tables = TablesBelow(plan)
    if not tables.repeat:
        return plan
    groups: dict[int, list[_Copy]] = {}
    for copy in _copies(plan, tables):
        meaning = meanings.meaning(copy.core)
        if meaning is not None:
            copy.numbers = {name: meaning.columns[name] for name, _ in copy.node.keys}
            groups.setdefault(meaning.rows, []).append(copy)
    equal: dict[PlanNode, PlanNode] = {}
    for copies in groups.values():
        if 1 < len(copies) <= COPIES_MAX:
            equal |= _made_equal(copies, meanings, ids)
    return _replaced(plan, equal) if equal else plan


class _Copy:
    """An aggregate, and what is left of it without conditions on its keys: `wanted`, in terms of the keys' names."""

    def __init__(self, node: Aggregate) -> None:
        self.node = node
        self.wanted: Predicates = []
        self.numbers: dict[str, int] = {}
        self.core = self.with_conditions(self._without)

    def with_conditions(self, instead: Instead) -> Aggregate:
        """The aggregate with other conditions on its keys."""
        keys = {expr.name: name for name, expr in self.node.keys if isinstance(expr, Column)}
        return replace(self.node, child=_with_conditions(self.node.child, keys, instead))

    def _without(self, parts: Predicates, keys: dict[str, str]) -> Predicates:
        self.wanted += [substitute(part, {name: col(key) for name, key in keys.items()}) for part in parts]
        return []


def _copies(node: PlanNode, tables: TablesBelow) -> list[_Copy]:
    """Aggregates with keys whose tables are read again."""
    if isinstance(node, RecursiveUnion):
        return []
    below = [copy for child in node.children for copy in _copies(child, tables)]
    if isinstance(node, Aggregate) and node.grouping_sets is None and node.keys and tables.are_read_again(node):
        return [_Copy(node), *below]
    return below


def _with_conditions(node: PlanNode, keys: dict[str, str], instead: Instead) -> PlanNode:
    """`node`, columns of which are the group keys `keys`, with other conditions on those at the same places."""
    if not keys:
        return node
    if isinstance(node, Filter):
        parts = conjuncts(node.predicate)
        on_keys = [part for part in parts if column_names(part) and column_names(part) <= keys.keys()]
        others = [part for part in parts if not any(part is one for one in on_keys)]
        child = _with_conditions(node.child, keys, instead)
        predicate = conjunction([*others, *(instead(on_keys, keys) if on_keys else [])])
        return child if predicate is None else node.with_fields(child=child, predicate=predicate)
    if isinstance(node, Project):
        by_name = renames(node)
        below = {expr.name: key for name, key in keys.items() if isinstance(expr := by_name[name], Column)}
        return rebuilt(node, [_with_conditions(node.child, below, instead)])
    if isinstance(node, (HashJoin, NestedLoopJoin)) and node.kind in ("inner", "left", "left_semi", "left_anti"):
        sides = [node.left, node.right] if node.kind == "inner" else [node.left]
        children = [
            _with_conditions(side, {name: key for name, key in keys.items() if name in side.schema.names}, instead)
            for side in sides
        ]
        return rebuilt(node, [*children, *node.children[len(children) :]])
    return node


def _made_equal(copies: Sequence[_Copy], meanings: Meanings, ids: NodeIds) -> dict[PlanNode, PlanNode]:
    """Each copy with what all want below it, and what it wants itself above; empty where that cannot be done."""
    first = copies[0]
    wanted = [_translated(copy.wanted, copy, first) for copy in copies]
    common = [part for part in wanted[0] if all(_has(parts, part) for parts in wanted[1:])]
    own = [[part for part in parts if not _has(common, part)] for parts in wanted]
    if not any(own):
        return {}
    equal: dict[PlanNode, PlanNode] = {}
    loosened = []
    for copy, parts in zip(copies, own, strict=True):
        node = copy.with_conditions(_Loosened(copy, first, common, own).instead)
        loosened.append(meanings.meaning(node))
        predicate = conjunction(_translated(parts, first, copy))
        equal[copy.node] = node if predicate is None else Filter(ids.new(), node.schema, node, predicate)
    known = [meaning for meaning in loosened if meaning is not None]
    if len(known) < len(loosened) or len({meaning.rows for meaning in known}) > 1:
        return {}
    # One of them must give what all others do, or they would not be computed together.
    columns = [set(meaning.columns.values()) for meaning in known]
    return equal if set().union(*columns) in columns else {}


@record(frozen=True)
class _Loosened:
    """What stands below one copy: conditions common to all, and that a row is wanted by one of them at least."""

    copy: _Copy
    first: _Copy
    common: Predicates
    own: list[Predicates]

    def instead(self, parts: Predicates, keys: dict[str, str]) -> Predicates:
        held = {key: col(name) for name, key in reversed(keys.items())}
        there = set(held)
        result = []
        for part in _translated(self.common, self.first, self.copy):
            if column_names(part) <= there and _has(parts, substitute(part, held)):
                result.append(substitute(part, held))
        either: Predicates = []
        for own in self.own:
            here = [part for part in _translated(own, self.first, self.copy) if column_names(part) <= there]
            predicate = conjunction([substitute(part, held) for part in here])
            if predicate is None:
                return result
            if not _has(either, predicate):
                either.append(predicate)
        return [*result, either[0] if len(either) == 1 else Call("or", tuple(either))]


def _translated(parts: Sequence[Expr], copy: _Copy, to: _Copy) -> Predicates:
    """Conditions on one copy's keys as such on another's."""
    names = {number: name for name, number in to.numbers.items()}
    by_name: dict[str, Expr] = {name: col(names[number]) for name, number in copy.numbers.items()}
    return [substitute(part, by_name) for part in parts]


def _has(parts: Sequence[Expr], wanted: Expr) -> bool:
    return any(same(part, wanted) for part in parts)


def _replaced(node: PlanNode, equal: dict[PlanNode, PlanNode]) -> PlanNode:
    found = equal.get(node)
    if found is not None:
        return found
    children = [_replaced(child, equal) for child in node.children]
    return rebuilt(node, children) if children else node
