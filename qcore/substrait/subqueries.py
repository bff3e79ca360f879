"""Substrait's subqueries: a value, EXISTS, IN, ANY and ALL. Each becomes a dependent join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, column_names
from qcore.functions.calls import bind_call
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import DependentJoin, PlanNode
from qcore.plan.schema import join_schema
from qcore.substrait.expressions import ExpressionReader
from qcore.substrait.scope import FieldScope, OpenSubquery, ReadRelation

_EXISTS = 1
_ANY, _ALL = 1, 2
# Comparisons by number, and their opposites.
_COMPARISONS = {1: "equal", 2: "not_equal", 3: "less", 4: "greater", 5: "less_equal", 6: "greater_equal"}
_OPPOSITES = {
    "equal": "not_equal", "not_equal": "equal", "less": "greater_equal", "greater": "less_equal",
    "less_equal": "greater", "greater_equal": "less",
}  # fmt: skip


class SubqueryReader:
    """Reads the subqueries of one plan. `read_relation` reads a relation, and `exact` makes a node of its columns."""

    def __init__(
        self, ids: NodeIds, names: ColumnNames, read_relation: Callable[[Any], ReadRelation],
        exact: Callable[[ReadRelation], PlanNode],
    ) -> None:  # fmt: skip
        self._ids = ids
        self._names = names
        self._read_relation = read_relation
        self._exact = exact

    def read(self, message: Any, scope: FieldScope, expressions: ExpressionReader) -> Bound:
        """The value of a Subquery message, a column of the scope's node."""
        kind = message.WhichOneof("subquery_type")
        if kind == "scalar":
            query, node = self._inner(message.scalar.input, scope, expressions)
            if len(node.schema) != 1:
                raise PlanError(f"a scalar subquery must give one column, not {len(node.schema)}")
            self._join("scalar", scope, query, node)
            return Bound(Column(node.schema.names[0]), node.schema.types[0])
        if kind == "set_predicate":
            if message.set_predicate.predicate_op != _EXISTS:
                raise PlanError("UNIQUE (subquery) is not supported yet; compare count(*) with count(distinct …)")
            query, node = self._inner(message.set_predicate.tuples, scope, expressions)
            return self._join("mark", scope, query, node)
        if kind == "in_predicate":
            values = [expressions.read(needle, scope) for needle in message.in_predicate.needles]
            query, node = self._inner(message.in_predicate.haystack, scope, expressions)
            return self._compare_values("equal", values, scope, query, node)
        if kind == "set_comparison":
            return self._set_comparison(message.set_comparison, scope, expressions)
        raise PlanError(f"a subquery of kind {kind or 'none'} is not supported")

    def _set_comparison(self, message: Any, scope: FieldScope, expressions: ExpressionReader) -> Bound:
        """A comparison with ANY or ALL. ALL is that the opposite comparison is true for no row."""
        function = _COMPARISONS.get(message.comparison_op)
        if function is None or message.reduction_op not in (_ANY, _ALL):
            raise PlanError("a comparison with a subquery is one of =, <>, <, >, <=, >= with ANY or ALL")
        value = expressions.read(message.left, scope)
        query, node = self._inner(message.right, scope, expressions)
        if message.reduction_op == _ANY:
            return self._compare_values(function, [value], scope, query, node)
        return bind_call("not", [self._compare_values(_OPPOSITES[function], [value], scope, query, node)])

    def _inner(self, message: Any, scope: FieldScope, expressions: ExpressionReader) -> tuple[OpenSubquery, PlanNode]:
        query = OpenSubquery(scope)
        expressions.subqueries.append(query)
        try:
            return query, self._exact(self._read_relation(message))
        finally:
            expressions.subqueries.pop()

    def _compare_values(
        self, function: str, values: Sequence[Bound], scope: FieldScope, query: OpenSubquery, node: PlanNode
    ) -> Bound:
        """Whether the comparison is true for a row of the subquery: true, false, or unknown among nulls."""
        if len(values) != len(node.schema):
            raise PlanError(f"{len(values)} values cannot be compared with a subquery of {len(node.schema)} columns")
        held = [Bound(Column(field.name), field.type) for field in node.schema]
        conditions = [bind_call(function, pair).expr for pair in zip(values, held, strict=True)]
        return self._join("null_aware_mark", scope, query, node, conditions)

    def _join(
        self, kind: str, scope: FieldScope, query: OpenSubquery, node: PlanNode, conditions: Sequence[Expr] = ()
    ) -> Bound:
        """Join the subquery to the scope's node. The value is the mark; a scalar subquery has its own."""
        left, mark = scope.node, ""
        known = {*left.schema.names, *node.schema.names}
        if not set().union(*map(column_names, conditions)) <= known:
            raise PlanError("a subquery that is compared with a window function is not supported; use a join")
        if kind == "scalar":
            schema = join_schema("inner", left.schema, node.schema)
        else:
            mark = self._names.new("mark")
            schema = left.schema.append(pa.field(mark, pa.bool_()))
        outer = tuple((name, column) for column, name in query.captured.items())
        scope.node = DependentJoin(self._ids.new(), schema, left, node, outer, kind, tuple(conditions))
        return Bound(Column(mark), pa.bool_())
