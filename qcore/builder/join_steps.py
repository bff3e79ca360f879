"""Joins of PlanBuilder: the nodes of hash_join() and nested_loop_join()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from qcore.builder.arguments import Expression, as_list, in_step, read_condition, read_expression
from qcore.errors import PlanError
from qcore.expression.tree import Expr, col, conjuncts, substitute
from qcore.plan.joins import join_on_keys
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Project
from qcore.plan.schema import JOIN_KINDS, LEFT_ONLY, MARK, MARK_KINDS, check_unique, join_schema, unknown
from qcore.record import record

_HOW = {"semi": "left_semi", "anti": "left_anti", "outer": "full", "cross": "inner"}


@record(frozen=True)
class JoinStep:
    """The arguments of a join. `where` names the step in errors; `on` has the left and right keys, or None."""

    where: str
    how: str
    on: tuple[Sequence[Expression] | Expression, Sequence[Expression] | Expression | None] | None
    condition: Expression | None
    suffix: str | None
    id: str | None


def join_node(step: JoinStep, left: PlanNode, right: PlanNode) -> PlanNode:
    """The node of a join. The inputs share no node id."""
    kind = _HOW.get(step.how, step.how)
    if kind not in JOIN_KINDS:
        raise unknown("kind of join", step.how, (*JOIN_KINDS, *_HOW), step.where)
    left_keys, right_keys = _read_keys(step, left, right)
    right, names = _rename_shared(step, kind, left, right)
    right_keys = [_rename_columns(key, names) for key in right_keys]
    rest: list[Expr] = []
    if step.condition is not None:
        both = join_schema("inner", left.schema, right.schema)
        rest = conjuncts(read_condition(step.condition, both, f"{step.where}, condition"))
    mark = MARK
    while mark in left.schema.names:
        mark += "_1"
    ids = NodeIds(node.id for root in (left, right) for node in root.walk())
    if step.id is not None and not ids.take(step.id):
        raise PlanError(f"two nodes of the plan have the id {step.id!r}; give one another id")
    wanted = join_schema(kind, left.schema, right.schema, mark)
    pairs = list(zip(left_keys, right_keys, strict=True))
    node: PlanNode = in_step("join()", lambda: join_on_keys(ids, kind, left, right, pairs, rest, mark, step.id))
    if node.schema.names == wanted.names:
        return node
    # Computed keys are columns of the join's inputs, and so of its output; the projection drops them.
    return Project(ids.new(), wanted, node, tuple(map(col, wanted.names)))


def _read_keys(step: JoinStep, left: PlanNode, right: PlanNode) -> tuple[list[Expr], list[Expr]]:
    if step.on is None:
        return [], []
    where = step.where
    left_on = as_list(step.on[0])
    right_on = left_on if step.on[1] is None else as_list(step.on[1])
    if len(left_on) != len(right_on):
        raise PlanError(f"{where} has {len(left_on)} left keys and {len(right_on)} right keys")
    if not left_on:
        raise PlanError(f"{where} needs a key; nested_loop_join() takes any condition")
    left_keys = [read_expression(key, left.schema, f"{where}, left_on") for key in left_on]
    return left_keys, [read_expression(key, right.schema, f"{where}, right_on") for key in right_on]


def _rename_columns(expr: Expr, names: Mapping[str, str]) -> Expr:
    return substitute(expr, {old: col(new) for old, new in names.items()}) if names else expr


def _rename_shared(step: JoinStep, kind: str, left: PlanNode, right: PlanNode) -> tuple[PlanNode, dict[str, str]]:
    """The right input with new names for the columns that the left has too, and the new names by the old ones."""
    shared = [name for name in right.schema.names if name in left.schema.names]
    if not shared:
        return right, {}
    is_hidden = kind in LEFT_ONLY or kind in MARK_KINDS
    if step.suffix is None and (step.condition is not None or not is_hidden):
        raise PlanError(
            f"{step.where}: both inputs have a column {shared[0]!r}; give suffix=…, or rename one with project()"
        )
    new_names = ColumnNames([*left.schema.names, *right.schema.names])
    names = {name: name + step.suffix if step.suffix is not None else new_names.new(name) for name in shared}
    renamed = [names.get(name, name) for name in right.schema.names]
    check_unique([*left.schema.names, *renamed], step.where)
    schema = pa.schema([field.with_name(name) for field, name in zip(right.schema, renamed, strict=True)])
    ids = NodeIds(node.id for root in (left, right) for node in root.walk())
    return Project(ids.new(), schema, right, tuple(map(col, right.schema.names))), names
