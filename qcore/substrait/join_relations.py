"""Substrait's joins, logical and physical → plan nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
from qcore.plan.schema import LEFT_ONLY, RIGHT_ONLY, join_schema
from qcore.substrait.expressions import ExpressionReader
from qcore.substrait.lambdas import Scope
from qcore.substrait.relation import Relation

# What sql.py writes into the hint of a join that comes from NOT IN or IN, which Substrait cannot tell from EXISTS.
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
# Physical joins number their kinds otherwise.
_PHYSICAL_KINDS = {
    **_KINDS,
    6: "right_semi",
    7: "left_anti",
    8: "right_anti",
    9: "left_single",
    10: "right_single",
}
_COMPARISONS = {0: "equal", 1: "equal", 2: "is_not_distinct_from"}


class JoinRelations:
    """The part of RelationReader for joins."""

    if TYPE_CHECKING:
        ids: NodeIds
        names: ColumnNames
        expressions: ExpressionReader

        def read(self, message: Any) -> Relation: ...
        def _filter_node(self, node: PlanNode, predicate: Expr) -> PlanNode: ...
        def _project_node(self, node: PlanNode, names: Sequence[str], expressions: Sequence[Expr]) -> PlanNode: ...

    def _join(self, message: Any) -> Relation:
        left, right = self.read(message.left), self.read(message.right)
        both = self._both(left, right)
        joined = both.node
        conditions: list[Expr] = []
        if message.HasField("expression"):
            conditions = self._conditions(message.expression, both)
        kind = _KINDS.get(message.type, f"type {message.type}")
        sides = self._with_values(left.node, right.node, both.node, joined)
        if sides is None:
            return self._after(message, self._join_of_pairs(kind, left, right, (joined, both.node), conditions))
        left, right = Relation(sides[0], left.columns), Relation(sides[1], right.columns)
        if message.common.hint.alias == NULL_AWARE:
            return self._null_aware(message, kind, left, right, conditions)
        return self._after(message, self._joined(kind, left, right, conditions))

    def _physical_join(self, message: Any) -> Relation:
        """Hash and merge joins on keys, with what else must hold."""
        left, right = self.read(message.left), self.read(message.right)
        both = self._both(left, right)
        joined = both.node
        conditions: list[Expr] = []
        for key in message.keys:
            comparison = key.comparison.simple
            if key.comparison.WhichOneof("inner_type") == "custom_function_reference" or (
                comparison not in _COMPARISONS
            ):
                raise PlanError("join keys that are not simply equal or not distinct are not supported")
            fields = (self.expressions.field(key.left, left.scope()), self.expressions.field(key.right, right.scope()))
            conditions.append(Call(_COMPARISONS[comparison], fields))
        if not conditions:
            raise PlanError("a hash or merge join needs a key; older plans' left_keys and right_keys are not read")
        if message.HasField("residual_expression"):
            conditions += self._conditions(message.residual_expression, both)
        kind = _PHYSICAL_KINDS.get(message.type, f"type {message.type}")
        sides = self._with_values(left.node, right.node, both.node, joined)
        if sides is None:
            return self._after(message, self._join_of_pairs(kind, left, right, (joined, both.node), conditions))
        left, right = Relation(sides[0], left.columns), Relation(sides[1], right.columns)
        return self._after(message, self._joined(kind, left, right, conditions))

    def _nested_loop_join(self, message: Any) -> Relation:
        left, right = self.read(message.left), self.read(message.right)
        both = self._both(left, right)
        joined = both.node
        conditions = self._conditions(message.expression, both) if message.HasField("expression") else []
        kind = _PHYSICAL_KINDS.get(message.type, f"type {message.type}")
        sides = self._with_values(left.node, right.node, both.node, joined)
        if sides is None:
            return self._join_of_pairs(kind, left, right, (joined, both.node), conditions)
        left, right = Relation(sides[0], left.columns), Relation(sides[1], right.columns)
        return self._joined(kind, left, right, conditions)

    def _conditions(self, message: Any, both: Scope) -> list[Expr]:
        parts = conjuncts(self.expressions.read(message, both))
        return [part for part in parts if not (isinstance(part, Literal) and part.value is True)]

    def _joined(self, kind: str, left: Relation, right: Relation, conditions: Sequence[Expr]) -> Relation:
        if kind == "right_mark":
            return self._joined("mark", right, left, conditions)
        if kind not in _KINDS.values() or kind.endswith("single"):
            raise PlanError(f"{kind.replace('_', ' ')} joins are not supported yet")
        mark = self.names.new("mark") if kind == "mark" else ""
        node = make_join(self.ids, kind, left.node, right.node, conditions, mark)
        if kind in ("left_semi", "left_anti"):
            return Relation(node, left.columns)
        if kind in ("right_semi", "right_anti"):
            return Relation(node, right.columns)
        return Relation(node, left.columns + ([mark] if kind == "mark" else right.columns))

    def _after(self, message: Any, joined: Relation) -> Relation:
        """The join's rows that its post_join_filter leaves."""
        if not message.HasField("post_join_filter"):
            return joined
        scope = joined.scope()
        predicate = self.expressions.read(message.post_join_filter, scope)
        return Relation(self._filter_node(scope.node, predicate), joined.columns)

    def _null_aware(
        self, message: Any, kind: str, left: Relation, right: Relation, conditions: Sequence[Expr]
    ) -> Relation:
        """An anti or mark join made of NOT IN or IN: its first condition is that of IN, whose unknown counts; others
        tell which rows of the right input a row of the left is compared with.
        """
        found, *others = conditions or [Literal(True, pa.bool_())]
        is_in = isinstance(found, Call) and found.function == "equal" and right.columns[0] in column_names(found)
        if not is_in or right.columns[0] in set().union(*map(column_names, others)):
            raise PlanError("IN (subquery) over nullable columns cannot be planned here; use EXISTS")
        assert isinstance(found, Call)
        unknown = Call("or", tuple(Call("is_null", (side,)) for side in found.arguments))
        mark = self.names.new("mark")
        if kind == "left_anti" and not others:
            return Relation(make_join(self.ids, "null_aware_anti", left.node, right.node, [found]), left.columns)
        if kind == "left_anti":
            either = [*others, Call("or", (found, *unknown.arguments))]
            return Relation(make_join(self.ids, kind, left.node, right.node, either), left.columns)
        if not others:
            node = make_join(self.ids, "null_aware_mark", left.node, right.node, [found], mark)
            return Relation(node, [*left.columns, mark])
        node = make_join(self.ids, "mark", left.node, right.node, conditions, mark)
        # The second mark has the right input anew, under names of its own.
        again = self.read(message.right)
        names: dict[str, Expr] = {a: col(b) for a, b in zip(right.columns, again.columns, strict=True)}
        unknown_mark, value = self.names.new("mark"), self.names.new("mark")
        compared = [substitute(part, names) for part in (*others, unknown)]
        node = make_join(self.ids, "mark", node, again.node, compared, unknown_mark)
        truth = Case(
            ((col(mark), Literal(True, pa.bool_())), (col(unknown_mark), Literal(None, pa.bool_()))),
            Literal(False, pa.bool_()),
        )
        kept = left.node.schema.names
        return Relation(self._project_node(node, [*kept, value], [*map(col, kept), truth]), [*left.columns, value])

    def _with_values(
        self, left: PlanNode, right: PlanNode, above: PlanNode, joined: PlanNode
    ) -> tuple[PlanNode, PlanNode] | None:
        """The inputs with the values of a join condition's subqueries beside the rows of that which they read, `above`
        being what reading them made of the `joined` inputs; None where one reads both.
        """
        if above is joined:
            return left, right
        sides = self._with_values(left, right, above.children[0], joined)
        if sides is None:
            return None
        if isinstance(above, NestedLoopJoin):
            schema = join_schema("inner", sides[0].schema, above.right.schema)
            return replace(above, left=sides[0], schema=schema), sides[1]
        if isinstance(above, Project):
            return self._with_computed(sides, above)
        if not isinstance(above, DependentJoin):
            raise PlanError("IN (subquery) inside a join condition is not supported yet; put it into WHERE")
        for i, side in enumerate(sides):
            if {column for _, column in above.arguments} <= set(side.schema.names):
                made = replace(above, left=side, schema=join_schema("inner", side.schema, above.right.schema))
                return (made, sides[1]) if i == 0 else (sides[0], made)
        return None

    def _with_computed(self, sides: tuple[PlanNode, PlanNode], above: Project) -> tuple[PlanNode, PlanNode] | None:
        """The inputs with what a projection adds to both, each value computed where its columns are."""
        changed = list(sides)
        for name, expr in zip(above.schema.names, above.expressions, strict=True):
            if name in above.child.schema.names:
                continue
            place = next((i for i in (0, 1) if column_names(expr) <= set(changed[i].schema.names)), None)
            if place is None:
                return None
            kept = changed[place].schema.names
            changed[place] = self._project_node(changed[place], [*kept, name], [*map(col, kept), expr])
        return changed[0], changed[1]

    def _join_of_pairs(
        self,
        kind: str,
        left: Relation,
        right: Relation,
        pairs: tuple[PlanNode, PlanNode],
        conditions: Sequence[Expr],
    ) -> Relation:
        """A join whose condition asks subqueries about pairs of rows: of all pairs, and what reading the subqueries
        made of these. Which pairs match is found first, as numbers of rows; the inputs are joined by those.
        """
        condition = conjunction(conditions)
        if kind == "inner":
            node = pairs[1] if condition is None else self._filter_node(pairs[1], condition)
            return Relation(node, left.columns + right.columns)
        if kind == "right_mark":
            return self._join_of_pairs("mark", right, left, pairs, conditions)
        if kind not in _KINDS.values() or kind.endswith("single"):
            raise PlanError(f"{kind.replace('_', ' ')} joins are not supported yet")
        of_left, of_right = self._numbered(left), self._numbered(right)
        schema = join_schema("inner", of_left.rows.schema, of_right.rows.schema)
        numbered = NestedLoopJoin(self.ids.new(), schema, of_left.rows, of_right.rows, "inner")
        node = _over(pairs[1], pairs[0], numbered)
        if condition is not None:
            node = self._filter_node(node, condition)
        numbers = [of_left.number, of_right.number]
        node = self._project_node(node, numbers, [*map(col, numbers)])
        in_left = [call("equal", col(of_left.own_number), col(of_left.number))]
        in_right = [call("equal", col(of_right.number), col(of_right.own_number))]
        again = of_left.again, of_right.again
        if kind in RIGHT_ONLY:
            return Relation(make_join(self.ids, kind, node, again[1].node, in_right), again[1].columns)
        if kind in LEFT_ONLY:
            return Relation(make_join(self.ids, kind, again[0].node, node, in_left), again[0].columns)
        if kind == "mark":
            mark = self.names.new("mark")
            node = make_join(self.ids, kind, again[0].node, node, in_left, mark)
            return Relation(node, [*again[0].columns, mark])
        node = make_join(self.ids, "inner" if kind == "right" else "left", again[0].node, node, in_left)
        node = make_join(self.ids, kind, node, again[1].node, in_right)
        return Relation(node, again[0].columns + again[1].columns)

    def _numbered(self, relation: Relation) -> _Numbered:
        below, number = relation.node, self.names.new("row_number")
        schema = below.schema.append(pa.field(number, pa.int64()))
        counted = WindowCall(number, "row_number", frame=WindowFrame("rows", None, None))
        window = Window(self.ids.new(), schema, below, (), (), (counted,))
        shared = Shared(self.ids.numbered("rows"), schema, window)
        new = {name: self.names.new(name) for name in schema.names}
        renamed = pa.schema([schema.field(name).with_name(new[name]) for name in schema.names])
        read = SharedRead(self.ids.new(), renamed, shared.id, tuple(schema.names), shared)
        return _Numbered(shared, number, Relation(read, [new[name] for name in relation.columns]), new[number])

    def _cross(self, message: Any) -> Relation:
        left, right = self.read(message.left), self.read(message.right)
        return Relation(self._both(left, right).node, left.columns + right.columns)

    def _both(self, left: Relation, right: Relation) -> Scope:
        """The columns of both inputs, for a join's expressions."""
        schema = join_schema("inner", left.node.schema, right.node.schema)
        node = NestedLoopJoin(self.ids.new(), schema, left.node, right.node, "inner")
        return Scope(node, left.columns + right.columns)


@dataclass(frozen=True)
class _Numbered:
    """An input's rows with their number, and the same `again`, under other names."""

    rows: Shared
    number: str
    again: Relation
    own_number: str


def _over(above: PlanNode, joined: PlanNode, bottom: PlanNode) -> PlanNode:
    """What was made of the `joined` inputs made of `bottom`, which has more columns."""
    if above is joined:
        return bottom
    child = _over(above.children[0], joined, bottom)
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
