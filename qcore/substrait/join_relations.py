"""Translation of Substrait's logical and physical joins to plan nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Expr, Literal, column_names, conjuncts
from qcore.functions.calls import bind_call
from qcore.plan.joins import conjunction, make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import DependentJoin, Filter, NestedLoopJoin, PlanNode, UserOperator
from qcore.plan.schema import join_schema
from qcore.record import record
from qcore.substrait.expressions import ExpressionReader
from qcore.substrait.scope import FieldScope, ReadRelation, filter_rows

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


@record
class _Inputs:
    """The inputs of a join, and their columns as the scope of its conditions.

    Subqueries in the conditions put nodes above `pairs`, the cross product of the inputs, in `scope`.
    """

    left: ReadRelation
    right: ReadRelation
    scope: FieldScope
    pairs: PlanNode


class JoinReader:
    """Reads the joins of one plan. `read` reads an input."""

    def __init__(
        self, ids: NodeIds, names: ColumnNames, expressions: ExpressionReader, read: Callable[[Any], ReadRelation]
    ) -> None:
        self._ids = ids
        self._names = names
        self._expressions = expressions
        self._read = read

    def join(self, message: Any) -> ReadRelation:
        """The relation of a JoinRel."""
        inputs = self._inputs(message)
        conditions = self._conditions(message.expression, inputs) if message.HasField("expression") else []
        kind = _KINDS.get(message.type, f"type {message.type}")
        return self._apply_post_filter(message, self._join(kind, inputs, conditions))

    def physical_join(self, message: Any) -> ReadRelation:
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
            conditions.append(bind_call(_COMPARISONS[comparison], [left, right]).expr)
        if not conditions:
            raise PlanError("a hash or merge join needs a key; older plans' left_keys and right_keys are not read")
        if message.HasField("residual_expression"):
            conditions += self._conditions(message.residual_expression, inputs)
        kind = _PHYSICAL_KINDS.get(message.type, f"type {message.type}")
        return self._apply_post_filter(message, self._join(kind, inputs, conditions))

    def nested_loop_join(self, message: Any) -> ReadRelation:
        """The relation of a NestedLoopJoinRel."""
        inputs = self._inputs(message)
        conditions = self._conditions(message.expression, inputs) if message.HasField("expression") else []
        return self._join(_PHYSICAL_KINDS.get(message.type, f"type {message.type}"), inputs, conditions)

    def cross(self, message: Any) -> ReadRelation:
        """The relation of a CrossRel."""
        inputs = self._inputs(message)
        return ReadRelation(inputs.pairs, inputs.scope.columns)

    def _inputs(self, message: Any) -> _Inputs:
        left, right = self._read(message.left), self._read(message.right)
        schema = join_schema("inner", left.node.schema, right.node.schema)
        pairs = NestedLoopJoin(self._ids.new(), schema, left.node, right.node, "inner")
        return _Inputs(left, right, FieldScope(pairs, left.columns + right.columns), pairs)

    def _conditions(self, message: Any, inputs: _Inputs) -> list[Expr]:
        predicate: Bound = self._expressions.read(message, inputs.scope)
        return [part for part in conjuncts(predicate.expr) if not (isinstance(part, Literal) and part.value is True)]

    def _join(self, kind: str, inputs: _Inputs, conditions: Sequence[Expr]) -> ReadRelation:
        if kind not in _KINDS.values() or kind.endswith("single"):
            raise PlanError(f"{kind.replace('_', ' ')} joins are not supported yet")
        if kind == "inner" and inputs.scope.node is not inputs.pairs:
            node, condition = inputs.scope.node, conjunction(conditions)
            node = node if condition is None else Filter(self._ids.new(), node.schema, node, condition)
            return ReadRelation(node, inputs.scope.columns)
        left_node, right_node = _with_subqueries(inputs.scope.node, inputs)
        left, right = ReadRelation(left_node, inputs.left.columns), ReadRelation(right_node, inputs.right.columns)
        if kind == "right_mark":
            kind, left, right = "mark", right, left
        mark = self._names.new("mark") if kind == "mark" else ""
        joined = make_join(self._ids, kind, left.node, right.node, conditions, mark)
        if kind in ("left_semi", "left_anti"):
            return ReadRelation(joined, left.columns)
        if kind in ("right_semi", "right_anti"):
            return ReadRelation(joined, right.columns)
        return ReadRelation(joined, left.columns + ([mark] if kind == "mark" else right.columns))

    def _apply_post_filter(self, message: Any, joined: ReadRelation) -> ReadRelation:
        if not message.HasField("post_join_filter"):
            return joined
        scope = joined.scope()
        predicate = self._expressions.read(message.post_join_filter, scope)
        return ReadRelation(filter_rows(self._ids, scope.node, predicate), joined.columns)


def _with_subqueries(above: PlanNode, inputs: _Inputs) -> tuple[PlanNode, PlanNode]:
    """The inputs, each with those subqueries of a condition, the nodes from `above` down to the pairs, that read its
    columns. PlanError if one reads columns of both.
    """
    if above is inputs.pairs:
        return inputs.left.node, inputs.right.node
    left, right = _with_subqueries(above.children[0], inputs)
    if isinstance(above, UserOperator):
        raise PlanError("random() and uuid() in the condition of an outer join are not supported")
    assert isinstance(above, DependentJoin)
    read = {column for _, column in above.arguments}.union(*map(column_names, above.conditions))
    read -= set(above.right.schema.names)
    for side, is_left in ((left, True), (right, False)):
        if read <= set(side.schema.names):
            added = [field for field in above.schema if field.name not in above.left.schema.names]
            schema = side.schema
            for one in added:
                schema = schema.append(one)
            moved = above.with_fields(left=side, schema=schema)
            return (moved, right) if is_left else (left, moved)
    raise PlanError("a subquery in a join condition that reads both inputs is not supported; put it into WHERE")
