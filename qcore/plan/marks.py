"""Mark joins below a filter that keeps only rows with a match, or only rows without: semi and anti joins."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Call, Column, Expr, Literal, col, conjuncts
from qcore.plan.joins import conjunction
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import DependentJoin, Filter, HashJoin, NestedLoopJoin, PlanNode, Project
from qcore.plan.schema import MARK_KINDS

# Kinds for the rows whose mark is true, and for those whose mark is false.
_WITH = {"mark": "left_semi", "null_aware_mark": "left_semi"}
_WITHOUT = {"mark": "left_anti", "null_aware_mark": "null_aware_anti"}


def without_mark(node: Filter, ids: NodeIds) -> PlanNode:
    """Replace a mark join by a semi or anti join if the filter's predicate requires one value of its mark.

    The mark is then a constant. Otherwise return the node unchanged.
    """
    join = node.child
    if not isinstance(join, (HashJoin, NestedLoopJoin, DependentJoin)) or join.kind not in MARK_KINDS:
        return node
    mark = join.schema.names[-1]
    parts = conjuncts(node.predicate)
    wanted = [_require_mark(part, mark, join.kind == "mark") for part in parts]
    truth = next((value for value in wanted if value is not None), None)
    if truth is None:
        return node
    kinds = _WITH if truth else _WITHOUT
    names = join.left.schema.names
    kept = join.with_fields(kind=kinds[join.kind], schema=join.left.schema)
    values: tuple[Expr, ...] = (*map(col, names), Literal(truth, pa.bool_()))
    made = Project(ids.new(), join.schema, kept, values)
    rest = conjunction([part for part, value in zip(parts, wanted, strict=True) if value is not truth])
    return made if rest is None else node.with_fields(child=made, predicate=rest)


def _require_mark(part: Expr, mark: str, is_known: bool) -> bool | None:
    """The value of the mark that a condition requires; None for another condition. With `is_known` the mark is never
    null.
    """
    if isinstance(part, Column):
        return True if part.name == mark else None
    if not isinstance(part, Call):
        return None
    name, argument = part.function, part.arguments[0]
    if name == "not":
        # NOT of a condition that treats null as false requires true or null.
        turns = is_known or isinstance(argument, Column) or (isinstance(argument, Call) and argument.function == "not")
        found = _require_mark(argument, mark, is_known) if turns else None
        return None if found is None else not found
    if name == "is_false":
        found = _require_mark(argument, mark, is_known) if isinstance(argument, Column) else None
        return None if found is None else not found
    if name == "is_true" or (name == "coalesce" and _is_false(part.arguments[1:])):
        return _require_mark(argument, mark, is_known)
    return None


def _is_false(arguments: tuple[Expr, ...]) -> bool:
    return all(isinstance(argument, Literal) and argument.value is False for argument in arguments)
