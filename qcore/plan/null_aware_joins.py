"""Joins of IN and of comparisons with ANY or ALL. Their result is null if it is unknown whether there is a match."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.expression.tree import Call, Case, Expr, Literal, call, col, substitute
from qcore.plan.joins import conjunction, make_join, split_conditions
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Shared, SharedRead
from qcore.plan.projections import project

NULL_AWARE_KINDS = frozenset({"null_aware_mark", "null_aware_anti"})
_TRUE = Literal(True, pa.bool_())
_NULL = Literal(None, pa.bool_())


def make_null_aware_join(
    ids: NodeIds,
    names: ColumnNames,
    kind: str,
    left: PlanNode,
    right: PlanNode,
    where: Sequence[Expr],
    compared: Sequence[Expr],
    mark: str = "",
) -> PlanNode:
    """A null_aware_mark or null_aware_anti join. `where` selects the right rows with which a left row is compared; null
    counts as false there. `compared` are the conditions of a match, which may be null. The output may have more columns
    than such a join.

    The engine's null-aware joins take one pair of keys. For more keys one mark join finds matches, and another one
    finds comparisons that are null. A single anti join finds both.
    """
    pairs, rest = split_conditions(compared, left.schema, right.schema)
    if not where and not rest and len(pairs) == len(compared) == 1:
        return make_join(ids, kind, left, right, compared, mark)
    condition = conjunction(compared)
    if kind == "null_aware_anti":
        possible = [] if condition is None else [Call("coalesce", (condition, _TRUE))]
        return make_join(ids, "left_anti", left, right, [*where, *possible])
    if condition is None:
        return make_join(ids, "mark", left, right, where, mark)
    shared = Shared(ids.number_word("compared"), right.schema, right)
    new = {name: names.new(name) for name in right.schema.names}
    schema = pa.schema([right.schema.field(name).with_name(new[name]) for name in right.schema.names])
    again = SharedRead(ids.new(), schema, shared.id, tuple(new), shared)
    renamed = {name: col(to) for name, to in new.items()}
    found, unknown = names.new(mark), names.new(mark)
    node = make_join(ids, "mark", left, shared, [*where, *compared], found)
    doubts = [substitute(part, renamed) for part in (*where, call("is_null", condition))]
    node = make_join(ids, "mark", node, again, doubts, unknown)
    truth = Case(((col(found), _TRUE), (col(unknown), _NULL)), Literal(False, pa.bool_()))
    kept = left.schema.names
    return project(ids.new(), node, [*kept, mark], [*map(col, kept), truth])
