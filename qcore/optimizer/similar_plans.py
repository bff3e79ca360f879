"""Rule: aggregates that differ only in conditions on their group keys become equal, with filters above them.

A query may use a common table expression once for this year and once for the last year. It is then planned twice, and
each copy has a condition on the year below the aggregate. If such conditions are on group keys, the rule gives all
copies the union of the conditions below the aggregate, and each copy a filter above it. The rule shared_plans then
computes the aggregate once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from qcore.expression.tree import Call, Column, Expr, col, column_names, conjuncts, same, substitute
from qcore.optimizer.nodes import rebuilt, renames
from qcore.optimizer.shared_plans import Meanings, TablesBelow
from qcore.plan.joins import conjunction
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Aggregate, Filter, HashJoin, NestedLoopJoin, PlanNode, Project, RecursiveUnion
from qcore.record import record

# The most copies of a subplan. Each copy adds a condition that is tested for every row.
COPIES_MAX = 8

Predicates = list[Expr]
# From the conditions on group keys in a filter, and the group keys by the names of the filter's columns, to the
# conditions that replace them.
Instead = Callable[[Predicates, dict[str, str]], Predicates]


def join_similar_plans(plan: PlanNode, ids: NodeIds, meanings: Meanings) -> PlanNode:
    """Return the plan with aggregates made equal that differ only in conditions on their keys."""
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
            equal |= _equalize(copies, meanings, ids)
    return _replace_equal(plan, equal) if equal else plan


class _Copy:
    """An aggregate, and the same aggregate without conditions on its keys (`core`). `wanted` are these conditions over
    the names of the keys.
    """

    def __init__(self, node: Aggregate) -> None:
        self.node = node
        self.wanted: Predicates = []
        self.numbers: dict[str, int] = {}
        self.core = self.with_conditions(self._without)

    def with_conditions(self, instead: Instead) -> Aggregate:
        """Return the aggregate with other conditions on its keys."""
        keys = {expr.name: name for name, expr in self.node.keys if isinstance(expr, Column)}
        return replace(self.node, child=_with_conditions(self.node.child, keys, instead))

    def _without(self, parts: Predicates, keys: dict[str, str]) -> Predicates:
        self.wanted += [substitute(part, {name: col(key) for name, key in keys.items()}) for part in parts]
        return []


def _copies(plan: PlanNode, tables: TablesBelow) -> list[_Copy]:
    """Aggregates with as many keys as another one that reads the same tables."""
    found = _aggregates(plan, tables)
    counts = Counter((tables.of(node), len(node.keys)) for node in found)
    return [_Copy(node) for node in found if counts[tables.of(node), len(node.keys)] > 1]


def _aggregates(node: PlanNode, tables: TablesBelow) -> list[Aggregate]:
    """Aggregates with keys whose tables other nodes read too."""
    if isinstance(node, RecursiveUnion):
        return []
    below = [found for child in node.children for found in _aggregates(child, tables)]
    if isinstance(node, Aggregate) and node.grouping_sets is None and node.keys and tables.are_read_again(node):
        return [node, *below]
    return below


def _with_conditions(node: PlanNode, keys: dict[str, str], instead: Instead) -> PlanNode:
    """Return `node` with the conditions on group keys in its filters replaced. `keys` are the keys by column name."""
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


def _equalize(copies: Sequence[_Copy], meanings: Meanings, ids: NodeIds) -> dict[PlanNode, PlanNode]:
    """For each aggregate its replacement: the conditions of all copies below, its own above. Empty if impossible."""
    first = copies[0]
    wanted = [_translate_conditions(copy.wanted, copy, first) for copy in copies]
    common = [part for part in wanted[0] if all(_has(parts, part) for parts in wanted[1:])]
    own = [[part for part in parts if not _has(common, part)] for parts in wanted]
    if not any(own):
        return {}
    equal: dict[PlanNode, PlanNode] = {}
    loosened = []
    for copy, parts in zip(copies, own, strict=True):
        node = copy.with_conditions(_Loosened(copy, first, common, own).instead)
        loosened.append(meanings.meaning(node))
        predicate = conjunction(_translate_conditions(parts, first, copy))
        equal[copy.node] = node if predicate is None else Filter(ids.new(), node.schema, node, predicate)
    known = [meaning for meaning in loosened if meaning is not None]
    if len(known) < len(loosened) or len({meaning.rows for meaning in known}) > 1:
        return {}
    # One copy must have the columns of all others. Otherwise they could not be computed once.
    columns = [set(meaning.columns.values()) for meaning in known]
    return equal if set().union(*columns) in columns else {}


@record(frozen=True)
class _Loosened:
    """The conditions below one copy: those common to all copies, and that at least one copy uses the row."""

    copy: _Copy
    first: _Copy
    common: Predicates
    own: list[Predicates]

    def instead(self, parts: Predicates, keys: dict[str, str]) -> Predicates:
        held = {key: col(name) for name, key in reversed(keys.items())}
        there = set(held)
        result = []
        for part in _translate_conditions(self.common, self.first, self.copy):
            if column_names(part) <= there and _has(parts, substitute(part, held)):
                result.append(substitute(part, held))
        either: Predicates = []
        for own in self.own:
            here = [part for part in _translate_conditions(own, self.first, self.copy) if column_names(part) <= there]
            predicate = conjunction([substitute(part, held) for part in here])
            if predicate is None:
                return result
            if not _has(either, predicate):
                either.append(predicate)
        return [*result, either[0] if len(either) == 1 else Call("or", tuple(either))]


def _translate_conditions(parts: Sequence[Expr], copy: _Copy, to: _Copy) -> Predicates:
    """Translate conditions on one copy's keys to the keys of another copy."""
    names = {number: name for name, number in to.numbers.items()}
    by_name: dict[str, Expr] = {name: col(names[number]) for name, number in copy.numbers.items()}
    return [substitute(part, by_name) for part in parts]


def _has(parts: Sequence[Expr], wanted: Expr) -> bool:
    return any(same(part, wanted) for part in parts)


def _replace_equal(node: PlanNode, equal: dict[PlanNode, PlanNode]) -> PlanNode:
    found = equal.get(node)
    if found is not None:
        return found
    children = [_replace_equal(child, equal) for child in node.children]
    return rebuilt(node, children) if children else node
