"""INTERSECT and EXCEPT, distinct and ALL, as joins on whole rows in which nulls are equal.

For ALL each row gets its number among equal rows. With the numbers no two rows of an input are equal, and the second
(1, 'a') of one input matches the second of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Cast, call, col
from qcore.expression.types import common_type
from qcore.plan.joins import make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, PlanNode, UnionAll, Window, WindowCall, WindowFrame
from qcore.plan.projections import project, rename_columns, select_columns
from qcore.plan.schema import same_type

KINDS = ("intersect", "intersect_all", "except", "except_all")


def make_set_operation(ids: NodeIds, names: ColumnNames, kind: str, left: PlanNode, right: PlanNode) -> PlanNode:
    """The distinct rows of `left` that occur in `right` (intersect) or do not (except). With `_all`, a row that occurs
    m times in `left` and n times in `right` occurs min(m, n) times (intersect_all) or max(m - n, 0) times (except_all).

    Columns match by position and are cast to common types; names are the left's. PlanError if the inputs differ in
    their number of columns or have types that cannot be compared.
    """
    left, right = cast_to_common_types(ids, kind.replace("_", " ").upper(), [left, right])
    columns = left.schema.names
    new_names = [names.new(name) for name in columns]
    right = right if right.schema.names == new_names else rename_columns(ids.new(), right, new_names)
    if kind.endswith("_all"):
        left, right = _number_equal_rows(ids, names, left), _number_equal_rows(ids, names, right)
    else:
        left = distinct(ids, left)
    conditions = [
        call("is_not_distinct_from", col(a), col(b)) for a, b in zip(left.schema.names, right.schema.names, strict=True)
    ]
    joined = make_join(ids, "left_semi" if kind.startswith("intersect") else "left_anti", left, right, conditions)
    if joined.schema.names == columns:
        return joined
    return select_columns(ids.new(), joined, columns)


def distinct(ids: NodeIds, node: PlanNode) -> PlanNode:
    """Each distinct row once."""
    keys = tuple((name, col(name)) for name in node.schema.names)
    return Aggregate(ids.new(), node.schema, node, keys, ())


def union_all(ids: NodeIds, inputs: Sequence[PlanNode]) -> PlanNode:
    """All rows of all inputs. Their types must be equal."""
    return inputs[0] if len(inputs) == 1 else UnionAll(ids.new(), inputs[0].schema, tuple(inputs))


def cast_to_common_types(ids: NodeIds, what: str, inputs: Sequence[PlanNode]) -> list[PlanNode]:
    """The inputs with their columns cast, by position, to common types. `what` names the operation in errors."""
    widths = sorted({len(node.schema) for node in inputs})
    if len(widths) > 1:
        raise PlanError(f"the inputs of {what} have {' and '.join(map(str, widths))} columns; give both the same")
    types = []
    for i in range(widths[0]):
        given = [node.schema.field(i).type for node in inputs]
        is_one = all(same_type(type_, given[0]) for type_ in given)
        types.append(given[0] if is_one else common_type(given))
    return [cast_columns(ids, node, types) for node in inputs]


def cast_columns(ids: NodeIds, node: PlanNode, types: Sequence[pa.DataType]) -> PlanNode:
    """The node with its columns cast to `types`."""
    if all(same_type(field.type, type_) for field, type_ in zip(node.schema, types, strict=True)):
        return node
    expressions = [
        col(field.name) if same_type(field.type, type_) else Cast(col(field.name), type_)
        for field, type_ in zip(node.schema, types, strict=True)
    ]
    return project(ids.new(), node, node.schema.names, expressions)


def _number_equal_rows(ids: NodeIds, names: ColumnNames, node: PlanNode) -> PlanNode:
    """The node's rows, each with its number among equal rows."""
    number = names.new("occurrence")
    schema = node.schema.append(pa.field(number, pa.int64()))
    row_number = WindowCall(number, "row_number", frame=WindowFrame("rows", None, None))
    return Window(ids.new(), schema, node, tuple(node.schema.names), (), (row_number,))
