"""INTERSECT and EXCEPT, distinct and ALL, as joins on whole rows in which nulls are equal. SPEC Q2.

ALL counts how often a row occurs. So each occurrence gets a number among its equals: the second (1, 'a') of one input
then meets the second of the other, and rows with numbers are a set.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Cast, Expr, call, col
from qcore.expression.types import common_type
from qcore.plan.joins import make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, PlanNode, Project, UnionAll, Window, WindowCall, WindowFrame
from qcore.plan.schema import project_schema, same_type

KINDS = ("intersect", "intersect_all", "except", "except_all")


def make_set_operation(ids: NodeIds, names: ColumnNames, kind: str, left: PlanNode, right: PlanNode) -> PlanNode:
    """The rows of `left` that occur in `right` (intersect), or do not (except); of equal rows one, or with `_all` as
    many as both inputs have (intersect_all) or as `left` has more (except_all).

    Columns go by position, names are the left's; types are those both have in common. PlanError when the inputs differ
    in their number of columns or have types that cannot be compared.
    """
    left, right = with_common_types(ids, kind.replace("_", " ").upper(), [left, right])
    columns = left.schema.names
    right = renamed(ids, right, [names.new(name) for name in columns])
    if kind.endswith("_all"):
        left, right = _numbered(ids, names, left), _numbered(ids, names, right)
    else:
        left = distinct(ids, left)
    conditions = [
        call("is_not_distinct_from", col(a), col(b)) for a, b in zip(left.schema.names, right.schema.names, strict=True)
    ]
    joined = make_join(ids, "left_semi" if kind.startswith("intersect") else "left_anti", left, right, conditions)
    if joined.schema.names == columns:
        return joined
    return _projected(ids, joined, columns, list(map(col, columns)))


def distinct(ids: NodeIds, node: PlanNode) -> PlanNode:
    """Each row once."""
    keys = tuple((name, col(name)) for name in node.schema.names)
    return Aggregate(ids.new(), node.schema, node, keys, ())


def union_all(ids: NodeIds, inputs: Sequence[PlanNode]) -> PlanNode:
    """All rows of all inputs, which have equal types."""
    return inputs[0] if len(inputs) == 1 else UnionAll(ids.new(), inputs[0].schema, tuple(inputs))


def with_common_types(ids: NodeIds, what: str, inputs: Sequence[PlanNode]) -> list[PlanNode]:
    """The inputs with their columns cast, by position, to what their types have in common."""
    widths = sorted({len(node.schema) for node in inputs})
    if len(widths) > 1:
        raise PlanError(f"the inputs of {what} have {' and '.join(map(str, widths))} columns; give both the same")
    types = []
    for i in range(widths[0]):
        given = [node.schema.field(i).type for node in inputs]
        is_one = all(same_type(type_, given[0]) for type_ in given)
        types.append(given[0] if is_one else common_type(given))
    return [typed(ids, node, types) for node in inputs]


def typed(ids: NodeIds, node: PlanNode, types: Sequence[pa.DataType]) -> PlanNode:
    """The node with its columns cast to `types`."""
    if all(same_type(field.type, type_) for field, type_ in zip(node.schema, types, strict=True)):
        return node
    expressions = [
        col(field.name) if same_type(field.type, type_) else Cast(col(field.name), type_)
        for field, type_ in zip(node.schema, types, strict=True)
    ]
    return _projected(ids, node, node.schema.names, expressions)


def renamed(ids: NodeIds, node: PlanNode, names: Sequence[str]) -> PlanNode:
    """The node with other names for its columns."""
    if node.schema.names == list(names):
        return node
    return _projected(ids, node, names, list(map(col, node.schema.names)))


def _numbered(ids: NodeIds, names: ColumnNames, node: PlanNode) -> PlanNode:
    """The node's rows, each with its number among its equals."""
    number = names.new("occurrence")
    schema = node.schema.append(pa.field(number, pa.int64()))
    counted = WindowCall(number, "row_number", frame=WindowFrame("rows", None, None))
    return Window(ids.new(), schema, node, tuple(node.schema.names), (), (counted,))


def _projected(ids: NodeIds, node: PlanNode, names: Sequence[str], expressions: Sequence[Expr]) -> PlanNode:
    return Project(ids.new(), project_schema(names, expressions, node.schema), node, tuple(expressions))
