"""Rule: filters are pushed down, and equalities between the sides of a join become its keys."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.expression.tree import (
    Call,
    Column,
    Expr,
    In,
    Literal,
    children,
    col,
    column_names,
    conjuncts,
    same,
    substitute,
)
from qcore.optimizer.cast_comparisons import COMPARISONS
from qcore.optimizer.nodes import rebuilt, renames, schema_of_join
from qcore.optimizer.or_filters import imply_conditions
from qcore.optimizer.simplify import simplify
from qcore.plan.disjunctions import factor_condition
from qcore.plan.joins import KeyPair, compute_keys, conjunction, split_conditions
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import (
    Aggregate,
    Filter,
    HashJoin,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    UnionAll,
    Unnest,
    Values,
    Window,
)
from qcore.plan.schema import MARK_KINDS, same_type

Join = HashJoin | NestedLoopJoin
Predicates = list[Expr]

_KEEPS_LEFT = frozenset({"inner", "left", "left_semi", "left_anti", "null_aware_anti", *MARK_KINDS})
_KEEPS_RIGHT = frozenset({"inner", "right", "right_semi", "right_anti"})
# Join kinds for which a condition on the left (right) input can be applied below the join.
_CONDITION_ON_LEFT = frozenset({"inner", "right", "left_semi", "right_semi", "right_anti"})
_CONDITION_ON_RIGHT = frozenset({"inner", "left", "left_semi", "left_anti", "right_semi", "mark"})
_STRICT = frozenset({"add", "subtract", "multiply", "divide", "modulo", "negate", "abs", "upper", "lower", "substring"})
_NULL_REJECTING = COMPARISONS | {"like", "not_like", "ilike", "not_ilike", "is_not_null", "is_true", "is_false"}


def push_filters(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """Return the plan with every condition applied as early as possible."""
    return _Pusher(ids).push(plan, [])


class _Pusher:
    def __init__(self, ids: NodeIds) -> None:
        self.ids = ids

    def push(self, node: PlanNode, predicates: Predicates) -> PlanNode:
        """Return `node` with `predicates` applied to its output, at the node or below it."""
        if isinstance(node, Filter):
            return self.push(node.child, _union(conjuncts(node.predicate), predicates))
        if isinstance(node, Project):
            return self._through_project(node, predicates)
        if isinstance(node, Aggregate):
            return self._through_aggregate(node, predicates)
        if isinstance(node, (HashJoin, NestedLoopJoin)):
            return self._through_join(node, predicates)
        if isinstance(node, Unnest):
            return self._through_unnest(node, predicates)
        if isinstance(node, Window):
            return self._through_window(node, predicates)
        if isinstance(node, (OrderBy, LocalPartition)):
            return rebuilt(node, [self.push(node.child, predicates)], self.ids)
        if isinstance(node, UnionAll):
            inputs = []
            for child in node.inputs:
                by_name: dict[str, Expr] = {
                    of: col(name) for of, name in zip(node.schema.names, child.schema.names, strict=True)
                }
                inputs.append(self.push(child, [substitute(part, by_name) for part in predicates]))
            return rebuilt(node, inputs, self.ids)
        below = [self.push(child, []) for child in node.children]
        return self._filter(rebuilt(node, below, self.ids) if below else node, predicates)

    def _filter(self, node: PlanNode, predicates: Predicates) -> PlanNode:
        predicates = [part for part in predicates if not _is_true(part)]
        if any(isinstance(part, Literal) for part in predicates):
            # The columns that it read are constants of a projection, such as one of the inputs of a union.
            return Values(self.ids.new(), node.schema, pa.Table.from_batches([], node.schema))
        predicate = conjunction(predicates)
        return node if predicate is None else Filter(self.ids.new(), node.schema, node, predicate)

    def _through_project(self, node: Project, predicates: Predicates) -> PlanNode:
        by_name = renames(node)
        below: Predicates = []
        for part in predicates:
            below = _union(below, _below(part, by_name, node.child.schema))
        return rebuilt(node, [self.push(node.child, below)], self.ids)

    def _through_unnest(self, node: Unnest, predicates: Predicates) -> PlanNode:
        # All rows made of one input row have its values, so a condition on these keeps all of them or none.
        made = {name for _, name in node.lists} | {node.ordinality}
        above: Predicates = []
        below: Predicates = []
        for part in predicates:
            names = column_names(part)
            (below if names and not names & made else above).append(part)
        return self._filter(rebuilt(node, [self.push(node.child, below)], self.ids), above)

    def _through_window(self, node: Window, predicates: Predicates) -> PlanNode:
        # A condition on the partition keys of a window keeps or drops whole partitions.
        keys = set(node.partition_by)
        above: Predicates = []
        below: Predicates = []
        for part in predicates:
            names = column_names(part)
            (below if names and names <= keys else above).append(part)
        return self._filter(rebuilt(node, [self.push(node.child, below)], self.ids), above)

    def _through_aggregate(self, node: Aggregate, predicates: Predicates) -> PlanNode:
        keys = dict(node.keys)
        if node.grouping_sets is not None:
            # Only a key that is in every set has the value of the input rows in all groups.
            common = set(range(len(node.keys))).intersection(*node.grouping_sets)
            keys = {name: key for i, (name, key) in enumerate(node.keys) if i in common}
        above: Predicates = []
        below: Predicates = []
        for part in predicates:
            names = column_names(part)
            if names and names <= keys.keys():
                below.append(substitute(part, keys))
            else:
                above.append(part)
        return self._filter(rebuilt(node, [self.push(node.child, below)], self.ids), above)

    # --- joins ---

    def _through_join(self, node: Join, predicates: Predicates) -> PlanNode:
        node = _without_null_rows(node, predicates)
        left_names, right_names = set(node.left.schema.names), set(node.right.schema.names)
        on_left: Predicates = []
        on_right: Predicates = []
        inside: Predicates = []
        above: Predicates = []
        for part in predicates:
            read = column_names(part)
            if read <= left_names and node.kind in _KEEPS_LEFT:
                on_left.append(part)
            elif read <= right_names and node.kind in _KEEPS_RIGHT:
                on_right.append(part)
            elif node.kind == "inner":
                inside.append(part)
            else:
                above.append(part)
        for part in [] if node.condition is None else conjuncts(node.condition):
            read = column_names(part)
            if read and read <= left_names and node.kind in _CONDITION_ON_LEFT:
                on_left = _union(on_left, [part])
            elif read and read <= right_names and node.kind in _CONDITION_ON_RIGHT:
                on_right = _union(on_right, [part])
            else:
                inside = _union(inside, [part])
        for part, on_input, names, kinds in (
            *((part, on_left, left_names, _CONDITION_ON_LEFT) for part in inside),
            *((part, on_right, right_names, _CONDITION_ON_RIGHT) for part in inside),
            *((part, on_left, left_names, _KEEPS_LEFT) for part in above),
            *((part, on_right, right_names, _KEEPS_RIGHT) for part in above),
        ):
            if node.kind in kinds:
                on_input[:] = _union(on_input, imply_conditions(part, names))
        pairs, rest = split_conditions(inside, node.left.schema, node.right.schema)
        self._across_keys(node, _key_columns(node, pairs), on_left, on_right)
        left, right = self.push(node.left, on_left), self.push(node.right, on_right)
        joined = self._rebuild_join(node, left, right, pairs, rest if pairs else inside)
        return self._filter(joined, above)

    def _across_keys(
        self, node: Join, keys: Sequence[tuple[str, str]], on_left: Predicates, on_right: Predicates
    ) -> None:
        """Copy conditions on a key to the equal key of the other side, if the join drops rows without a match."""
        to_right = node.kind in ("inner", "left", "left_semi", "left_anti", "right_semi", "mark")
        to_left = node.kind in ("inner", "right", "left_semi", "right_semi", "right_anti")
        moved_left: Predicates = []
        moved_right: Predicates = []
        for left_key, right_key in keys:
            if to_right:
                moved_right += [substitute(p, {left_key: col(right_key)}) for p in on_left if _is_about(p, left_key)]
            if to_left:
                moved_left += [substitute(p, {right_key: col(left_key)}) for p in on_right if _is_about(p, right_key)]
        on_left[:] = _union(on_left, moved_left)
        on_right[:] = _union(on_right, moved_right)

    def _rebuild_join(
        self, node: Join, left: PlanNode, right: PlanNode, new: Sequence[KeyPair], rest: Predicates
    ) -> PlanNode:
        """Return the join over new inputs, with additional keys, and `rest` as its condition."""
        if not new:
            condition = conjunction(rest)
            node = node if _same_condition(node.condition, condition) else node.with_fields(condition=condition)
            return rebuilt(node, [left, right], self.ids)
        keys: list[KeyPair] = []
        if isinstance(node, HashJoin):
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            keys = [(col(left_key), col(right_key)) for left_key, right_key in pairs]
        left, right, left_keys, right_keys = compute_keys(self.ids, left, right, [*keys, *new])
        schema = schema_of_join(node, left.schema, right.schema)
        return HashJoin(node.id, schema, left, right, node.kind, left_keys, right_keys, conjunction(rest), node.build)


def _key_columns(node: Join, pairs: Sequence[KeyPair]) -> list[tuple[str, str]]:
    """The pairs of key columns, with new keys that are columns of one type. Between columns of different types a
    condition can be true for one and false for the other: 2**53 + 1 is equal to the double 2**53.
    """
    columns = list(zip(node.left_keys, node.right_keys, strict=True)) if isinstance(node, HashJoin) else []
    for a, b in pairs:
        if isinstance(a, Column) and isinstance(b, Column):
            types = node.left.schema.field(a.name).type, node.right.schema.field(b.name).type
            if same_type(*types):
                columns.append((a.name, b.name))
    return columns


def _below(predicate: Expr, by_name: dict[str, Expr], schema: pa.Schema) -> Predicates:
    """Return the predicate over the input of a projection. It is simplified, because the projection's expressions may
    be casts, constants or conditions.
    """
    made = substitute(predicate, by_name)
    if all(isinstance(by_name[name], Column) for name in column_names(predicate)):
        return [made]
    simpler = simplify(factor_condition(made), schema)
    return [part for part in conjuncts(simpler) if not _is_true(part)]


def _is_true(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is True


def _union(a: Sequence[Expr], b: Sequence[Expr]) -> Predicates:
    """The predicates of both lists, without repetitions."""
    result = list(a)
    result += [part for part in b if not any(same(part, other) for other in result)]
    return result


def _same_condition(a: Expr | None, b: Expr | None) -> bool:
    return a is b or (a is not None and b is not None and same(a, b))


def _is_about(predicate: Expr, name: str) -> bool:
    """Whether the predicate compares only this column with constants. It is then cheap enough to apply twice."""
    if isinstance(predicate, In):
        return _is_about_operands((predicate.argument, *predicate.values), name)
    if isinstance(predicate, Call) and predicate.function in COMPARISONS:
        return _is_about_operands(predicate.arguments, name)
    return False


def _is_about_operands(operands: Sequence[Expr], name: str) -> bool:
    columns = [part for part in operands if isinstance(part, Column)]
    literals = [part for part in operands if isinstance(part, Literal)]
    return len(columns) == 1 and columns[0].name == name and len(columns) + len(literals) == len(operands)


def _without_null_rows(node: Join, predicates: Predicates) -> Join:
    """Return the kind without an outer side whose null rows the conditions drop."""
    if node.kind not in ("left", "right", "full"):
        return node
    left_names, right_names = set(node.left.schema.names), set(node.right.schema.names)
    needs_left = any(_rejects_nulls(part, left_names) for part in predicates)
    needs_right = any(_rejects_nulls(part, right_names) for part in predicates)
    keep_left_rows = node.kind in ("left", "full") and not needs_right
    keep_right_rows = node.kind in ("right", "full") and not needs_left
    kinds = {(True, True): "full", (True, False): "left", (False, True): "right", (False, False): "inner"}
    kind = kinds[keep_left_rows, keep_right_rows]
    return node if kind == node.kind else node.with_fields(kind=kind)


def _rejects_nulls(predicate: Expr, names: set[str]) -> bool:
    """Whether the predicate is never true when all columns `names` are null."""
    if isinstance(predicate, Call):
        if predicate.function == "and":
            return any(_rejects_nulls(part, names) for part in predicate.arguments)
        if predicate.function == "or":
            return all(_rejects_nulls(part, names) for part in predicate.arguments)
        if predicate.function in _NULL_REJECTING:
            return any(_is_null_with(part, names) for part in predicate.arguments)
    return isinstance(predicate, In) and _is_null_with(predicate.argument, names)


def _is_null_with(expr: Expr, names: set[str]) -> bool:
    """Whether the value is null when all columns `names` are."""
    if isinstance(expr, Column):
        return expr.name in names
    if isinstance(expr, Call) and expr.function in _STRICT:
        return any(_is_null_with(part, names) for part in children(expr))
    return False
