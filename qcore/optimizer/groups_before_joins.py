"""Rule: rows are grouped before joins that only add columns to group by.

TPC-H Q10 groups 115,000 rows of line items by seven columns of customers and nations, five of them text. Grouped by the
customer's number, and then joined with customers and nations, a third of these rows is left to be grouped by text:

    Aggregate by T.k, T.x: sum(C.v)            Aggregate by T.k, T.x: sum(s)
    └─ C ⋈ T on C.r = T.k                 →    └─ (Aggregate by C.r: s = sum(C.v) of C) ⋈ T on C.r = T.k

This is right for every T. The rows of a group of C match the same rows of T, and the aggregate above merges the partial
results. T.k need not be unique.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from qcore.expression.tree import Call, Cast, Column, Expr, Literal, col, column_names
from qcore.expression.types import common_type, compares_by_bytes, is_numeric
from qcore.functions.catalogue import expr_type
from qcore.optimizer.cardinality import Estimator, count_combinations
from qcore.optimizer.join_order import is_inner_join, take_apart
from qcore.optimizer.merged_aggregates import MergedAggregates, is_mergeable
from qcore.optimizer.nodes import transform_plan
from qcore.plan.joins import make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, Filter, PlanNode, Project, Scan
from qcore.plan.projections import project
from qcore.plan.schema import aggregate_schema, same_type

# Nanoseconds a row to group by a key of text and by another one, and to look a row up in a join table. Text is hashed,
# gathered from a join's input, compared and copied (TPC-H Q10, by profile). The caches hold a column of few values.
TEXT_KEY_COST = 40.0
FEW_TEXTS_COST = 12.0
FEW_TEXTS = 65_536.0
KEY_COST = 8.0
LOOK_UP_COST = 10.0
# The estimated cost, as part of that of the plan as it is, at most. Of fewer rows it does not matter.
COST_MAX = 0.9
ROWS_MIN = 10_000.0
# Matches of a row in the tables joined later, at least and at most.
MATCHES_MIN, MATCHES_MAX = 0.9, 1.1
# Functions that fail on no number: rows that a join would have dropped are computed too.
_SAFE = frozenset({"add", "subtract", "multiply", "negate"})


def group_before_joins(plan: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    """The plan with aggregates of joins as aggregates of joined groups, where that costs less."""

    def rule(node: PlanNode) -> PlanNode:
        if not isinstance(node, Aggregate) or node.grouping_sets is not None or not node.keys:
            return node
        if not is_inner_join(node.child) or not _is_safe(node):
            return node
        return _Joins(node, ids, estimator).best() or node

    return transform_plan(plan, rule, ids)


def _is_safe(node: Aggregate) -> bool:
    """Whether the aggregates can be merged, and be computed for more rows without an error of these rows."""
    schema = node.child.schema

    def is_safe(expr: Expr) -> bool:
        if isinstance(expr, Call):
            type_ = expr_type(expr, schema)
            known = expr.function in _SAFE or (expr.function == "divide" and _is_not_zero(expr.arguments[1]))
            return known and (pa.types.is_decimal(type_) or pa.types.is_floating(type_)) and all(
                map(is_safe, expr.arguments)
            )
        if isinstance(expr, Cast):
            return _holds_all_values(expr.to, expr_type(expr.argument, schema)) and is_safe(expr.argument)
        return isinstance(expr, (Column, Literal))

    return all(is_mergeable(one) and one.filter is None and all(map(is_safe, one.arguments)) for one in node.aggregates)


def _is_not_zero(expr: Expr) -> bool:
    while isinstance(expr, Cast):
        expr = expr.argument
    return isinstance(expr, Literal) and isinstance(expr.value, (int, float, Decimal)) and expr.value != 0


def _holds_all_values(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a cast of numbers fails for none."""
    return is_numeric(narrow) and is_numeric(wide) and same_type(common_type([narrow, wide]), wide)


class _Joins:
    """The relations and conditions below an aggregate. Sets of relations are sets of positions in `leaves`."""

    def __init__(self, node: Aggregate, ids: NodeIds, estimator: Estimator) -> None:
        self.node = node
        self.ids = ids
        self.estimator = estimator
        self.leaves: list[PlanNode] = []
        self.conditions: list[Expr] = []
        take_apart(node.child, self.leaves, self.conditions)
        self.leaf_of = {name: i for i, leaf in enumerate(self.leaves) for name in leaf.schema.names}
        #: The relations that each condition reads.
        self.touched = [frozenset(self.leaf_of[name] for name in column_names(one)) for one in self.conditions]

    def best(self) -> PlanNode | None:
        """The cheapest plan that joins some relations with groups of the others, if it costs enough less."""
        names = [name for leaf in self.leaves for name in leaf.schema.names]
        if len(set(names)) != len(names):
            return None
        free = self._free()
        options = {free, *self._parts(free)} - {frozenset()}
        rows = self.estimator.rows(self.node.child)
        if not options or rows < ROWS_MIN or self.estimator.uncertainty(self.node.child) > 1.0:
            return None
        keys_cost = sum(self._key_cost(expr) for _, expr in self.node.keys)
        found: tuple[float, PlanNode] | None = None
        for late in sorted(options, key=sorted):
            priced = self._price_plan(late, rows, keys_cost)
            if priced is not None and (found is None or priced[0] < found[0]):
                found = priced
        return None if found is None or found[0] > COST_MAX * rows * keys_cost else found[1]

    def _key_cost(self, expr: Expr) -> float:
        type_ = expr_type(expr, self.node.child.schema)
        is_number = pa.types.is_primitive(type_) or pa.types.is_decimal(type_)
        if is_number or pa.types.is_null(type_):
            return KEY_COST
        few = isinstance(expr, Column) and self.estimator.column(self.node.child, expr.name).distinct < FEW_TEXTS
        return FEW_TEXTS_COST if few else TEXT_KEY_COST

    def _free(self) -> frozenset[int]:
        """Whole tables of which aggregates read nothing, that are joined by equal columns alone."""
        read = {name for one in self.node.aggregates for argument in one.arguments for name in column_names(argument)}
        free = {i for i, leaf in enumerate(self.leaves) if _is_whole(leaf) and read.isdisjoint(leaf.schema.names)}
        for condition, touched in zip(self.conditions, self.touched, strict=True):
            if not self._is_equality(condition):
                free -= touched
        if len(free) == len(self.leaves):
            # count(*): what it counts are rows of the largest.
            free.remove(max(free, key=lambda i: self.estimator.rows(self.leaves[i])))
        # What connects the others must come before the groups.
        while len(parts := self._parts(frozenset(range(len(self.leaves))) - free)) > 1:
            bridges = [i for i in free if sum(self._meets(i, part) for part in parts) > 1]
            bridges = bridges or [i for i in free if any(self._meets(i, part) for part in parts)]
            if not bridges:
                return frozenset()
            free.remove(min(bridges, key=lambda i: self.estimator.rows(self.leaves[i])))
        return frozenset(free)

    def _is_equality(self, condition: Expr) -> bool:
        """Whether the condition is that columns of two relations are equal. Equal values of their type are the same."""
        if not isinstance(condition, Call) or condition.function != "equal":
            return False
        if not all(isinstance(argument, Column) for argument in condition.arguments):
            return False
        a, b = (expr_type(argument, self.node.child.schema) for argument in condition.arguments)
        return same_type(a, b) and not pa.types.is_floating(a) and len(column_names(condition)) == 2

    def _meets(self, leaf: int, others: frozenset[int]) -> bool:
        return any(leaf in touched and touched & others for touched in self.touched)

    def _parts(self, leaves: frozenset[int]) -> list[frozenset[int]]:
        """The connected parts of a set of relations."""
        parts: list[frozenset[int]] = []
        left = set(leaves)
        while left:
            part = {left.pop()}
            while more := {i for i in left if self._meets(i, frozenset(part))}:
                part |= more
                left -= more
            parts.append(frozenset(part))
        return parts

    def _price_plan(self, late: frozenset[int], rows: float, keys_cost: float) -> tuple[float, PlanNode] | None:
        """Nanoseconds of the plan that joins these relations last, and the plan; None where rows would be in vain."""
        early = frozenset(range(len(self.leaves))) - late
        core = self._join_relations(sorted(early), {i: self.leaves[i] for i in early})
        core_rows = self.estimator.rows(core)
        if not MATCHES_MIN * core_rows <= rows <= MATCHES_MAX * core_rows:
            return None
        keys = self._keys(early)
        if not self._can_group(core, keys):
            return None
        distinct = 1.0
        for i in early:
            own = [name for name in keys if self.leaf_of[name] == i]
            distinct *= self._values(self.leaves[i], own) if own else 1.0
        # So many of the values come up when rows have any of them.
        groups = distinct * -math.expm1(-core_rows / distinct)
        joined_rows = groups * rows / core_rows
        first_cost = core_rows * sum(self._key_cost(col(name)) for name in keys)
        cost = first_cost + joined_rows * (keys_cost + LOOK_UP_COST * len(late)) - rows * LOOK_UP_COST * len(late)
        return cost, self._plan(late, core, keys)

    def _can_group(self, core: PlanNode, keys: Sequence[str]) -> bool:
        """Whether the rows of a group are alike to what reads the keys. Without keys, no rows would be a group."""
        types = {name: core.schema.field(name).type for name in keys}
        computed = [expr for _, expr in self.node.keys if not isinstance(expr, Column)]
        # 0.0 and -0.0 are one group, but not the same to each function.
        return bool(keys) and not any(
            compares_by_bytes(type_)
            or (pa.types.is_floating(type_) and any(name in column_names(expr) for expr in computed))
            for name, type_ in types.items()
        )

    def _values(self, leaf: PlanNode, names: Sequence[str]) -> float:
        """How many values some columns of a relation have together. A filter of them leaves as few as of the rows."""
        values = count_combinations([self.estimator.column(leaf, name) for name in names])
        if isinstance(leaf, Filter) and not column_names(leaf.predicate).isdisjoint(names):
            values *= self.estimator.rows(leaf) / self.estimator.rows(leaf.child)
        return max(1.0, min(values, self.estimator.rows(leaf)))

    def _keys(self, early: frozenset[int]) -> list[str]:
        """The columns to group the early relations by: what keys and later joins read of them."""
        read = {name for _, expr in self.node.keys for name in column_names(expr)}
        for condition, touched in zip(self.conditions, self.touched, strict=True):
            if not touched <= early:
                read |= column_names(condition)
        return [name for i in sorted(early) for name in self.leaves[i].schema.names if name in read]

    def _plan(self, late: frozenset[int], core: PlanNode, keys: Sequence[str]) -> PlanNode:
        node = self.node
        merged = MergedAggregates(core.schema, ColumnNames([*node.schema.names, *node.child.schema.names]))
        outputs = [merged.add(one, False) for one in node.aggregates]
        grouped = tuple((name, col(name)) for name in keys)
        calls = tuple(merged.carried)
        groups = Aggregate(self.ids.new(), aggregate_schema(grouped, calls, core.schema), core, grouped, calls)
        joined = self._join_relations([-1, *sorted(late)], {-1: groups, **{i: self.leaves[i] for i in late}})
        above = tuple(merged.merging())
        result = Aggregate(self.ids.new(), aggregate_schema(node.keys, above, joined.schema), joined, node.keys, above)
        expressions: list[Expr] = [col(name) for name, _ in node.keys]
        for one, output in zip(node.aggregates, outputs, strict=True):
            wanted = node.schema.field(one.name).type
            expressions.append(output if expr_type(output, result.schema) == wanted else Cast(output, wanted))
        return project(self.ids.new(), result, node.schema.names, expressions)

    def _join_relations(self, order: Sequence[int], relations: dict[int, PlanNode]) -> PlanNode:
        """The join of the relations on the conditions among them, each with a condition where there is one."""
        left = list(order)
        plan = relations[left.pop(0)]
        names = set(plan.schema.names)
        own = {name for relation in relations.values() for name in relation.schema.names}
        waiting = [
            one for one in self.conditions if column_names(one) <= own and not self._is_within_groups(one, relations)
        ]
        while left:
            position = next((i for i in left if self._is_connected(relations[i], names, waiting)), left[0])
            left.remove(position)
            names |= set(relations[position].schema.names)
            now = [one for one in waiting if column_names(one) <= names]
            waiting = [one for one in waiting if not column_names(one) <= names]
            plan = make_join(self.ids, "inner", plan, relations[position], now)
        return plan

    def _is_within_groups(self, condition: Expr, relations: dict[int, PlanNode]) -> bool:
        """Whether the groups' own joins had the condition."""
        return -1 in relations and column_names(condition) <= set(relations[-1].schema.names)

    def _is_connected(self, relation: PlanNode, names: set[str], conditions: Sequence[Expr]) -> bool:
        own = set(relation.schema.names)
        return any(
            not own.isdisjoint(read) and not names.isdisjoint(read) and read <= own | names
            for read in map(column_names, conditions)
        )


def _is_whole(leaf: PlanNode) -> bool:
    """Whether a relation is a table without a filter, which rows of other tables find their row in."""
    while isinstance(leaf, Project):
        leaf = leaf.child
    return isinstance(leaf, Scan)
