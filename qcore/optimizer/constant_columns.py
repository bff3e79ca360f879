"""Rule: expressions over a column that a projection sets to a constant use the constant itself.

Other rules can then fold it, collect it into IN and compare it with statistics. Two subplans also become equal if only
one of them had the constant as a column. The column is dropped if nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Alias, Call, Case, Column, Expr, Literal, children, column_names, rebuild
from qcore.functions.catalogue import expr_type
from qcore.optimizer.common_conditions import factor_conditions
from qcore.optimizer.nodes import rebuilt, renames
from qcore.optimizer.simplify import simplify_plan
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    HashJoin,
    Limit,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    TopN,
    Unnest,
    Window,
)
from qcore.plan.planning_time import check_planning
from qcore.plan.schema import LEFT_ONLY, MARK_KINDS, RIGHT_ONLY

# The constant of each column that has the same value in all rows, by name.
Constants = dict[str, Literal]

_KEEPS_LEFT = frozenset({"inner", "left", *LEFT_ONLY, *MARK_KINDS})
_KEEPS_RIGHT = frozenset({"inner", "right", *RIGHT_ONLY})


def replace_constant_columns(plan: PlanNode) -> PlanNode:
    """Return the plan with constants in place of constant columns in expressions, and these expressions simplified."""
    replaced, _ = _replace_columns(plan)
    return plan if replaced is plan else simplify_plan(factor_conditions(replaced))


def _replace_columns(node: PlanNode) -> tuple[PlanNode, Constants]:
    check_planning()
    below = [_replace_columns(child) for child in node.children]
    node = rebuilt(node, [child for child, _ in below]) if below else node
    known = [constants for _, constants in below]
    if isinstance(node, Project):
        return _project(node, known[0])
    if isinstance(node, Aggregate):
        return _aggregate(node, known[0])
    if isinstance(node, (HashJoin, NestedLoopJoin)):
        return _join(node, *known)
    if isinstance(node, Filter):
        predicate = _with_constants(node.predicate, known[0], node.child.schema)
        return node if predicate is node.predicate else node.with_fields(predicate=predicate), known[0]
    if isinstance(node, Unnest):
        made = {name for _, name in node.lists} | {name for name, _ in node.lists}
        return node, {name: constant for name, constant in known[0].items() if name not in made}
    if isinstance(node, (Limit, LocalPartition, OrderBy, TopN, Window)):
        return node, known[0]
    return node, {}


def _project(node: Project, known: Constants) -> tuple[PlanNode, Constants]:
    expressions = tuple(_with_constants(expr, known, node.child.schema) for expr in node.expressions)
    if any(a is not b for a, b in zip(expressions, node.expressions, strict=True)):
        node = node.with_fields(expressions=expressions)
    found = {name: _bare(expr) for name, expr in renames(node).items()}
    return node, {name: expr for name, expr in found.items() if isinstance(expr, Literal)}


def _bare(expr: Expr) -> Expr:
    while isinstance(expr, Alias):
        expr = expr.argument
    return expr


def _aggregate(node: Aggregate, known: Constants) -> tuple[PlanNode, Constants]:
    calls = tuple(_call(call, known, node.child.schema) for call in node.aggregates)
    if any(a is not b for a, b in zip(calls, node.aggregates, strict=True)):
        node = node.with_fields(aggregates=calls)
    if node.grouping_sets is not None:
        return node, {}
    keys = {name: known.get(key.name) for name, key in node.keys if isinstance(key, Column)}
    return node, {name: constant for name, constant in keys.items() if constant is not None}


def _call(call: AggregateCall, known: Constants, schema: pa.Schema) -> AggregateCall:
    """Return the call with constants inside its expressions. An argument that is only a column is not replaced."""
    arguments = tuple(
        argument if isinstance(argument, Column) else _with_constants(argument, known, schema)
        for argument in call.arguments
    )
    where = None if call.filter is None else _with_constants(call.filter, known, schema)
    if where is call.filter and all(a is b for a, b in zip(arguments, call.arguments, strict=True)):
        return call
    return replace(call, arguments=arguments, filter=where)


def _join(node: HashJoin | NestedLoopJoin, left: Constants, right: Constants) -> tuple[PlanNode, Constants]:
    if node.condition is not None and (left or right):
        # The condition is evaluated over rows of the inputs, before an outer join adds nulls.
        both = pa.schema([*node.left.schema, *node.right.schema])
        inside = {name: literal for name, literal in {**left, **right}.items() if both.get_field_index(name) >= 0}
        condition = _with_constants(node.condition, inside, both)
        node = node if condition is node.condition else node.with_fields(condition=condition)
    known = dict(left) if node.kind in _KEEPS_LEFT else {}
    if node.kind in _KEEPS_RIGHT:
        known.update(right)
    return node, known


def _with_constants(expr: Expr, known: Constants, schema: pa.Schema) -> Expr:
    """Return the expression with constants in place of columns. Parts whose type a constant would change are kept: next
    to decimals the constant 1 is a decimal(1, 0), and a column of integers is not.
    """
    if not known or column_names(expr).isdisjoint(known):
        return expr
    return _inner(expr, known, schema)


def _inner(expr: Expr, known: Constants, schema: pa.Schema) -> Expr:
    if isinstance(expr, Column):
        return known.get(expr.name, expr)
    parts = children(expr)
    new: Sequence[Expr] = tuple(_inner(part, known, schema) for part in parts)
    if all(a is b for a, b in zip(new, parts, strict=True)):
        return expr
    made = rebuild(expr, tuple(new))
    return made if not isinstance(expr, (Call, Case)) or _is_of_same_type(made, expr, schema) else expr


def _is_of_same_type(made: Expr, expr: Expr, schema: pa.Schema) -> bool:
    try:
        return bool(expr_type(made, schema) == expr_type(expr, schema))
    except PlanError:
        return False
