"""Conditions on outer columns, pulled up out of a subquery.

SELECT … FROM u WHERE u.k = outer.k AND u.x > outer.x becomes the rows of u, and conditions over them and the outer
columns. A dependent join of such rows is an ordinary join on these conditions. This is far cheaper than the general
method, which joins the subquery with all values of the outer columns first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from qcore.expression.tree import Call, Column, Expr, col, column_names, conjuncts, same, substitute
from qcore.plan.disjunctions import factor_condition
from qcore.plan.joins import conjunction
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import (
    Aggregate,
    DependentJoin,
    Filter,
    HashJoin,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    Unnest,
)
from qcore.plan.outer_columns import OuterReads, outer_names
from qcore.plan.schema import MARK_KINDS, aggregate_schema, join_schema, project_schema, unnest_schema
from qcore.record import record

# Join kinds whose output rows each contain one left row, unchanged.
_OF_LEFT_ROWS = frozenset({"left", "left_semi", "left_anti", "null_aware_anti", *MARK_KINDS})


@record(frozen=True)
class Pulled:
    """A subquery without its conditions on outer columns. `node` reads no outer column.

    The rows of the subquery are those rows of `node` for which `conditions` are true. `node` has the subquery's
    columns, and possibly more, except for those in `computed`. These are, by name, expressions over the node's columns
    and outer columns. Conditions are such expressions too.
    """

    node: PlanNode
    conditions: tuple[Expr, ...] = ()
    computed: tuple[tuple[str, Expr], ...] = ()


@record
class ConditionPuller:
    """Pulls conditions on outer columns out of subqueries. `without_dependent` replaces a dependent join inside a
    subquery by an ordinary join; it returns None if that needs a domain.
    """

    ids: NodeIds
    names: ColumnNames
    outer: OuterReads
    without_dependent: Callable[[DependentJoin], PlanNode | None]

    def pull(self, node: PlanNode, names: Collection[str]) -> Pulled | None:
        """Return the node without the outer columns `names`. None if it must be computed for each of their values."""
        if self.outer.of(node).isdisjoint(names):
            return Pulled(node)
        if isinstance(node, Filter):
            return self._filter(node, names)
        if isinstance(node, Project):
            return self._project(node, names)
        if isinstance(node, (HashJoin, NestedLoopJoin)):
            return self._join(node, names)
        if isinstance(node, Aggregate):
            return self._aggregate(node, names)
        if isinstance(node, DependentJoin):
            made = self.without_dependent(node)
            return None if made is None else self.pull(made, names)
        if isinstance(node, OrderBy):
            return self.pull(node.child, names)
        return self._unnest(node, names) if isinstance(node, Unnest) else None

    def _filter(self, node: Filter, names: Collection[str]) -> Pulled | None:
        below = self.pull(node.child, names)
        if below is None:
            return None
        computed = dict(below.computed)
        own: list[Expr] = []
        pulled = list(below.conditions)
        for part in conjuncts(factor_condition(node.predicate)):
            part = substitute(part, computed) if computed else part
            (own if outer_names(part).isdisjoint(names) else pulled).append(part)
        predicate = conjunction(own)
        child = below.node
        if predicate is not None:
            child = Filter(self.ids.new(), child.schema, child, predicate)
        return Pulled(child, tuple(pulled), below.computed)

    def _project(self, node: Project, names: Collection[str]) -> Pulled | None:
        below = self.pull(node.child, names)
        if below is None:
            return None
        computed_below = dict(below.computed)
        own: dict[str, Expr] = {}
        computed: dict[str, Expr] = {}
        for name, expr in zip(node.schema.names, node.expressions, strict=True):
            expr = substitute(expr, computed_below) if computed_below else expr
            (own if outer_names(expr).isdisjoint(names) else computed)[name] = expr
        # Conditions and computed columns read columns below the projection, so the projection must pass them on.
        given = {expr.name: name for name, expr in own.items() if isinstance(expr, Column)}
        passed: dict[str, Expr] = {}
        for part in (*below.conditions, *computed.values()):
            for name in sorted(column_names(part)):
                if name in passed:
                    continue
                to = given.get(name)
                if to is None:
                    to = name if name not in own and name not in computed else self.names.new(name)
                    own[to] = col(name)
                passed[name] = col(to)
        schema = project_schema(list(own), list(own.values()), below.node.schema)
        made = Project(self.ids.new(), schema, below.node, tuple(own.values()))
        conditions = tuple(substitute(part, passed) for part in below.conditions)
        return Pulled(made, conditions, tuple((name, substitute(expr, passed)) for name, expr in computed.items()))

    def _join(self, node: HashJoin | NestedLoopJoin, names: Collection[str]) -> Pulled | None:
        if node.kind != "inner" and (
            node.kind not in _OF_LEFT_ROWS
            or not self.outer.of(node.right).isdisjoint(names)
            or (node.condition is not None and not outer_names(node.condition).isdisjoint(names))
        ):
            return None
        left, right = self.pull(node.left, names), self.pull(node.right, names)
        if left is None or right is None:
            return None
        computed = dict((*left.computed, *right.computed))
        keys = (*node.left_keys, *node.right_keys) if isinstance(node, HashJoin) else ()
        condition = [] if node.condition is None else conjuncts(node.condition)
        if not computed.keys().isdisjoint(keys):
            return None
        if node.kind != "inner" and any(not computed.keys().isdisjoint(column_names(part)) for part in condition):
            return None
        own: list[Expr] = []
        pulled = [*left.conditions, *right.conditions]
        for part in condition:
            part = substitute(part, computed) if computed else part
            (own if outer_names(part).isdisjoint(names) else pulled).append(part)
        mark = node.schema.names[-1] if node.kind in MARK_KINDS else ""
        schema = join_schema(node.kind, left.node.schema, right.node.schema, mark)
        made = node.with_fields(
            id=self.ids.new(), schema=schema, left=left.node, right=right.node, condition=conjunction(own)
        )
        return Pulled(made, tuple(pulled), tuple(computed.items()))

    def _aggregate(self, node: Aggregate, names: Collection[str]) -> Pulled | None:
        """Pull conditions above an aggregate. They must be true for all rows of a group or for none. That holds for
        conditions on keys, and for equalities with outer columns, whose other sides become keys.
        """
        if not node.keys or node.grouping_sets is not None:
            return None
        grouped = self.group_by_outer(node, names)
        return None if grouped is None else Pulled(*grouped)

    def group_by_outer(self, node: Aggregate, names: Collection[str]) -> tuple[Aggregate, tuple[Expr, ...]] | None:
        """Return the aggregate with the values that equalities compare with outer columns as further keys, and these
        conditions over the groups.
        """
        below = self.pull(node.child, names)
        if below is None:
            return None
        computed = dict(below.computed)
        own = [*(expr for _, expr in node.keys)]
        for call in node.aggregates:
            own += [*call.arguments, *([] if call.filter is None else [call.filter])]
        if any(not computed.keys().isdisjoint(column_names(e)) or not outer_names(e).isdisjoint(names) for e in own):
            return None
        keys = list(node.keys)
        conditions: list[Expr] = []
        for part in below.conditions:
            made = self._condition_of_groups(part, keys, names)
            if made is None:
                return None
            conditions.append(made)
        schema = aggregate_schema(keys, node.aggregates, below.node.schema)
        made_node = node.with_fields(id=self.ids.new(), schema=schema, child=below.node, keys=tuple(keys))
        return made_node, tuple(conditions)

    def _condition_of_groups(self, part: Expr, keys: list[tuple[str, Expr]], names: Collection[str]) -> Expr | None:
        """Return the condition over the keys of groups. An equality adds a key. None if the condition may be true for
        some rows of a group and false for others.
        """
        sides = equality_sides(part, names)
        if sides is not None:
            assert isinstance(part, Call)
            inner, outer = sides
            known = next((name for name, key in keys if same(key, inner)), None)
            if known is None:
                known = self.names.new(inner.name if isinstance(inner, Column) else "key")
                keys.append((known, inner))
            return Call(part.function, (col(known), outer))
        by_column: dict[str, Expr] = {key.name: col(name) for name, key in keys if isinstance(key, Column)}
        return substitute(part, by_column) if column_names(part) <= by_column.keys() else None

    def _unnest(self, node: Unnest, names: Collection[str]) -> Pulled | None:
        below = self.pull(node.child, names)
        if below is None:
            return None
        lists = {name for name, _ in node.lists}
        parts = (*below.conditions, *(expr for _, expr in below.computed))
        if any(name in lists for name, _ in below.computed) or any(column_names(part) & lists for part in parts):
            return None
        schema = unnest_schema(below.node.schema, node.lists, node.ordinality)
        return Pulled(
            node.with_fields(id=self.ids.new(), schema=schema, child=below.node), below.conditions, below.computed
        )


def equality_sides(part: Expr, names: Collection[str]) -> tuple[Expr, Expr] | None:
    """The two sides of an equality between a value of the subquery and a value of the outer columns `names`, in this
    order; None for another condition.
    """
    if not isinstance(part, Call) or part.function not in ("equal", "is_not_distinct_from"):
        return None
    a, b = part.arguments
    for inner, outer in ((a, b), (b, a)):
        if column_names(inner) and not outer_names(inner) and not column_names(outer):
            found = outer_names(outer)
            if found and found <= frozenset(names):
                return inner, outer
    return None
