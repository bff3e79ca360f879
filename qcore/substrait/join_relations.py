"""Substrait's joins, logical and physical → plan nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Case, Expr, Literal, call, col, column_names, conjuncts, substitute
from qcore.plan.joins import conjunction, make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import (
    DependentJoin,
    HashJoin,
    NestedLoopJoin,
    PlanNode,
    Project,
    Shared,
    SharedRead,
    Window,
    WindowCall,
    WindowFrame,
)
from qcore.plan.projections import add_columns, project, select_columns
from qcore.plan.schema import LEFT_ONLY, RIGHT_ONLY, join_schema
from qcore.substrait.expressions import ExpressionReader
from qcore.substrait.lambdas import Scope
from qcore.substrait.relation import Relation, filter_rows

# The hint that sql.py gives a join that comes from NOT IN or IN. Substrait does not distinguish these from EXISTS.
NULL_AWARE = "null_aware"

_KINDS = {
    1: "inner",
    2: "full",
    3: "left",
    4: "right",
    5: "left_semi",
    6: "left_anti",
    7: "left_single",
    8: "right_semi",
    9: "right_anti",
    10: "right_single",
    11: "mark",
    12: "right_mark",
}
# Kinds of physical joins where their numbers differ.
_PHYSICAL_KINDS = {
    **_KINDS,
    6: "right_semi",
    7: "left_anti",
    8: "right_anti",
    9: "left_single",
    10: "right_single",
}
_COMPARISONS = {0: "equal", 1: "equal", 2: "is_not_distinct_from"}


@dataclass
class _Inputs:
    """The inputs of a join, and their columns as the scope of its conditions.

    Subqueries in the conditions put nodes above `pairs`, the cross product of the inputs, in `scope`.
    """

    left: Relation
    right: Relation
    scope: Scope
    pairs: PlanNode


class JoinReader:
    """Reads the joins of one plan. `read` reads an input."""

    def __init__(
        self, ids: NodeIds, names: ColumnNames, expressions: ExpressionReader, read: Callable[[Any], Relation]
    ) -> None:
        self._ids = ids
        self._names = names
        self._expressions = expressions
        self._read = read

    def join(self, message: Any) -> Relation:
        """The relation of a JoinRel."""
        inputs = self._inputs(message)
        conditions: list[Expr] = []
        if message.HasField("expression"):
            conditions = self._conditions(message.expression, inputs)
        kind = _KINDS.get(message.type, f"type {message.type}")
        sides = self._sides(inputs) if message.common.hint.alias == NULL_AWARE else None
        if sides is not None:
            return self._null_aware_join(message, kind, *sides, conditions)
        return self._apply_post_filter(message, self._join(kind, inputs, conditions))

    def physical_join(self, message: Any) -> Relation:
        """The relation of a HashJoinRel or MergeJoinRel: keys, and further conditions."""
        inputs = self._inputs(message)
        conditions: list[Expr] = []
        for key in message.keys:
            comparison = key.comparison.simple
            if key.comparison.WhichOneof("inner_type") == "custom_function_reference" or (
                comparison not in _COMPARISONS
            ):
                raise PlanError("join keys that are not simply equal or not distinct are not supported")
            left = self._expressions.field(key.left, inputs.left.scope())
            right = self._expressions.field(key.right, inputs.right.scope())
            conditions.append(Call(_COMPARISONS[comparison], (left, right)))
        if not conditions:
            raise PlanError("a hash or merge join needs a key; older plans' left_keys and right_keys are not read")
        if message.HasField("residual_expression"):
            conditions += self._conditions(message.residual_expression, inputs)
        kind = _PHYSICAL_KINDS.get(message.type, f"type {message.type}")
        return self._apply_post_filter(message, self._join(kind, inputs, conditions))

    def nested_loop_join(self, message: Any) -> Relation:
        """The relation of a NestedLoopJoinRel."""
        inputs = self._inputs(message)
        conditions = self._conditions(message.expression, inputs) if message.HasField("expression") else []
        return self._join(_PHYSICAL_KINDS.get(message.type, f"type {message.type}"), inputs, conditions)

    def cross(self, message: Any) -> Relation:
        """The relation of a CrossRel."""
        inputs = self._inputs(message)
        return Relation(inputs.pairs, inputs.scope.columns)

    def _inputs(self, message: Any) -> _Inputs:
        left, right = self._read(message.left), self._read(message.right)
        schema = join_schema("inner", left.node.schema, right.node.schema)
        pairs = NestedLoopJoin(self._ids.new(), schema, left.node, right.node, "inner")
        return _Inputs(left, right, Scope(pairs, left.columns + right.columns), pairs)

    def _conditions(self, message: Any, inputs: _Inputs) -> list[Expr]:
        parts = conjuncts(self._expressions.read(message, inputs.scope))
        return [part for part in parts if not (isinstance(part, Literal) and part.value is True)]

    def _join(self, kind: str, inputs: _Inputs, conditions: Sequence[Expr]) -> Relation:
        sides = self._sides(inputs)
        if sides is None:
            return self._join_over_pairs(kind, inputs, conditions)
        left, right = sides
        if kind == "right_mark":
            kind, left, right = "mark", right, left
        _check_kind(kind)
        mark = self._names.new("mark") if kind == "mark" else ""
        node = make_join(self._ids, kind, left.node, right.node, conditions, mark)
        if kind in ("left_semi", "left_anti"):
            return Relation(node, left.columns)
        if kind in ("right_semi", "right_anti"):
            return Relation(node, right.columns)
        return Relation(node, left.columns + ([mark] if kind == "mark" else right.columns))

    def _sides(self, inputs: _Inputs) -> tuple[Relation, Relation] | None:
        """The inputs with the values of the conditions' subqueries as columns. None if a subquery reads both."""
        sides = _move_subqueries(self._ids, inputs.left.node, inputs.right.node, inputs.scope.node, inputs.pairs)
        if sides is None:
            return None
        return Relation(sides[0], inputs.left.columns), Relation(sides[1], inputs.right.columns)

    def _apply_post_filter(self, message: Any, joined: Relation) -> Relation:
        if not message.HasField("post_join_filter"):
            return joined
        scope = joined.scope()
        predicate = self._expressions.read(message.post_join_filter, scope)
        return Relation(filter_rows(self._ids, scope.node, predicate), joined.columns)

    def _null_aware_join(
        self, message: Any, kind: str, left: Relation, right: Relation, conditions: Sequence[Expr]
    ) -> Relation:
        """An anti or mark join that comes from NOT IN or IN. The first condition is IN's comparison, which may be
        unknown. The other conditions select the rows of the right input with which a left row is compared.
        """
        found, *others = conditions or [Literal(True, pa.bool_())]
        is_in = isinstance(found, Call) and found.function == "equal" and right.columns[0] in column_names(found)
        if not is_in or right.columns[0] in set().union(*map(column_names, others)):
            raise PlanError("IN (subquery) over nullable columns cannot be planned here; use EXISTS")
        assert isinstance(found, Call)
        unknown = Call("or", tuple(Call("is_null", (side,)) for side in found.arguments))
        mark = self._names.new("mark")
        if kind == "left_anti" and not others:
            return Relation(make_join(self._ids, "null_aware_anti", left.node, right.node, [found]), left.columns)
        if kind == "left_anti":
            either = [*others, Call("or", (found, *unknown.arguments))]
            return Relation(make_join(self._ids, kind, left.node, right.node, either), left.columns)
        if not others:
            node = make_join(self._ids, "null_aware_mark", left.node, right.node, [found], mark)
            return Relation(node, [*left.columns, mark])
        node = make_join(self._ids, "mark", left.node, right.node, conditions, mark)
        # The second mark join reads the right input again, under new column names.
        again = self._read(message.right)
        names: dict[str, Expr] = {a: col(b) for a, b in zip(right.columns, again.columns, strict=True)}
        unknown_mark, value = self._names.new("mark"), self._names.new("mark")
        compared = [substitute(part, names) for part in (*others, unknown)]
        node = make_join(self._ids, "mark", node, again.node, compared, unknown_mark)
        truth = Case(
            ((col(mark), Literal(True, pa.bool_())), (col(unknown_mark), Literal(None, pa.bool_()))),
            Literal(False, pa.bool_()),
        )
        kept = left.node.schema.names
        node = project(self._ids.new(), node, [*kept, value], [*map(col, kept), truth])
        return Relation(node, [*left.columns, value])

    def _join_over_pairs(self, kind: str, inputs: _Inputs, conditions: Sequence[Expr]) -> Relation:
        """A join with subqueries in its conditions that read both inputs. The cross product with the subqueries' values
        is filtered first, which gives the row numbers of matching pairs. The inputs are then joined by these numbers.
        """
        left, right, condition = inputs.left, inputs.right, conjunction(conditions)
        if kind == "inner":
            node = inputs.scope.node
            node = node if condition is None else filter_rows(self._ids, node, condition)
            return Relation(node, inputs.scope.columns)
        if kind == "right_mark":
            kind, left, right = "mark", right, left
        _check_kind(kind)
        a, b = self._number_rows(left), self._number_rows(right)
        pairs = NestedLoopJoin(
            self._ids.new(), join_schema("inner", a.rows.schema, b.rows.schema), a.rows, b.rows, "inner"
        )
        node = _replace_bottom(inputs.scope.node, inputs.pairs, pairs)
        if condition is not None:
            node = filter_rows(self._ids, node, condition)
        node = select_columns(self._ids.new(), node, [a.number, b.number])
        on_left = [call("equal", col(a.copy_number), col(a.number))]
        on_right = [call("equal", col(b.number), col(b.copy_number))]
        left, right = a.copy, b.copy
        if kind in RIGHT_ONLY:
            return Relation(make_join(self._ids, kind, node, right.node, on_right), right.columns)
        if kind in LEFT_ONLY:
            return Relation(make_join(self._ids, kind, left.node, node, on_left), left.columns)
        if kind == "mark":
            mark = self._names.new("mark")
            return Relation(make_join(self._ids, kind, left.node, node, on_left, mark), [*left.columns, mark])
        node = make_join(self._ids, "inner" if kind == "right" else "left", left.node, node, on_left)
        node = make_join(self._ids, kind, node, right.node, on_right)
        return Relation(node, left.columns + right.columns)

    def _number_rows(self, relation: Relation) -> _NumberedRows:
        node, number = relation.node, self._names.new("row_number")
        schema = node.schema.append(pa.field(number, pa.int64()))
        row_number = WindowCall(number, "row_number", frame=WindowFrame("rows", None, None))
        window = Window(self._ids.new(), schema, node, (), (), (row_number,))
        shared = Shared(self._ids.numbered("rows"), schema, window)
        new = {name: self._names.new(name) for name in schema.names}
        renamed = pa.schema([schema.field(name).with_name(new[name]) for name in schema.names])
        read = SharedRead(self._ids.new(), renamed, shared.id, tuple(schema.names), shared)
        return _NumberedRows(shared, number, Relation(read, [new[name] for name in relation.columns]), new[number])


@dataclass(frozen=True)
class _NumberedRows:
    """An input's rows with a column of row numbers; and a copy of them with other column names."""

    rows: Shared
    number: str
    copy: Relation
    copy_number: str


def _check_kind(kind: str) -> None:
    if kind not in _KINDS.values() or kind.endswith("single"):
        raise PlanError(f"{kind.replace('_', ' ')} joins are not supported yet")


def _move_subqueries(
    ids: NodeIds, left: PlanNode, right: PlanNode, above: PlanNode, pairs: PlanNode
) -> tuple[PlanNode, PlanNode] | None:
    """Move the nodes between `above` and `pairs`, which subqueries in a condition have added, into the input whose
    columns they read. None if one reads columns of both.
    """
    if above is pairs:
        return left, right
    sides = _move_subqueries(ids, left, right, above.children[0], pairs)
    if sides is None:
        return None
    if isinstance(above, NestedLoopJoin):
        schema = join_schema("inner", sides[0].schema, above.right.schema)
        return replace(above, left=sides[0], schema=schema), sides[1]
    if isinstance(above, Project):
        return _move_projection(ids, sides, above)
    if not isinstance(above, DependentJoin):
        raise PlanError("IN (subquery) inside a join condition is not supported yet; put it into WHERE")
    for i, side in enumerate(sides):
        if {column for _, column in above.arguments} <= set(side.schema.names):
            moved = replace(above, left=side, schema=join_schema("inner", side.schema, above.right.schema))
            return (moved, sides[1]) if i == 0 else (sides[0], moved)
    return None


def _move_projection(
    ids: NodeIds, sides: tuple[PlanNode, PlanNode], above: Project
) -> tuple[PlanNode, PlanNode] | None:
    """Compute each new column of a projection over both inputs in the input whose columns it reads."""
    result = list(sides)
    for name, expr in zip(above.schema.names, above.expressions, strict=True):
        if name in above.child.schema.names:
            continue
        side = next((i for i in (0, 1) if column_names(expr) <= set(result[i].schema.names)), None)
        if side is None:
            return None
        result[side] = add_columns(ids.new(), result[side], {name: expr})
    return result[0], result[1]


def _replace_bottom(above: PlanNode, old: PlanNode, new: PlanNode) -> PlanNode:
    """The nodes from `above` down to `old` over `new` instead, which has more columns."""
    if above is old:
        return new
    child = _replace_bottom(above.children[0], old, new)
    if isinstance(above, Project):
        known = set(above.schema.names)
        more = [name for name in child.schema.names if name not in known]
        schema = pa.schema([*above.schema, *(child.schema.field(name) for name in more)])
        return replace(above, schema=schema, child=child, expressions=(*above.expressions, *map(col, more)))
    if not isinstance(above, HashJoin | NestedLoopJoin | DependentJoin):
        raise PlanError("such a subquery inside a join condition is not supported; put it into WHERE")
    kind = "inner" if isinstance(above, DependentJoin) else above.kind
    schema = join_schema(kind, child.schema, above.right.schema, above.schema.names[-1])
    return replace(above, schema=schema, left=child)
