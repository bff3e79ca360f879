"""Rule: simpler expressions.

- The engine's kernels compute expressions of constants.
- Nested AND and OR are flattened, and NOT is moved into comparisons.
- Equalities of one column with constants become IN.
- Casts that only widen are removed from comparisons with constants.

All rewrites are correct in SQL's three-valued logic.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import (
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    In,
    Literal,
    children,
    conjuncts,
    rebuild,
    same,
)
from qcore.expression.types import is_numeric, is_temporal, plain
from qcore.functions.catalogue import expr_type
from qcore.lowering.compile import constant_value
from qcore.optimizer.cast_comparisons import COMPARISONS, keeps_every_value, without_cast
from qcore.optimizer.nodes import transform_plan
from qcore.plan.joins import conjunction
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    HashJoin,
    NestedLoopJoin,
    PlanNode,
    Project,
    Scan,
    Values,
)
from qcore.plan.planning_time import check_planning
from qcore.plan.schema import join_schema

TRUE = Literal(True, pa.bool_())
FALSE = Literal(False, pa.bool_())

_INVERSE = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
    "like": "not_like",
    "not_like": "like",
    "ilike": "not_ilike",
    "not_ilike": "ilike",
    "is_null": "is_not_null",
    "is_not_null": "is_null",
    "is_distinct_from": "is_not_distinct_from",
    "is_not_distinct_from": "is_distinct_from",
}
# Up to this many parts of AND and OR are compared in pairs to find repetitions.
_FEW = 16


def simplify_plan(plan: PlanNode) -> PlanNode:
    """Return the plan with simplified expressions and without constant filters."""
    return transform_plan(plan, _simplify_node)


def _simplify_node(node: PlanNode) -> PlanNode:
    if isinstance(node, Filter):
        return _filter(node)
    if isinstance(node, Project):
        kept = tuple(_of_same_type(expr, node.child.schema) for expr in node.expressions)
        return _make_if_changed(node, node.expressions, kept, lambda: node.with_fields(expressions=kept))
    if isinstance(node, Aggregate):
        return _aggregate(node)
    if isinstance(node, Scan) and node.filter is not None:
        pruning = simplify(node.filter, node.schema)
        return node if pruning is node.filter or isinstance(pruning, Literal) else node.with_fields(filter=pruning)
    if isinstance(node, (HashJoin, NestedLoopJoin)) and node.condition is not None:
        both = join_schema("inner", node.left.schema, node.right.schema)
        condition = conjunction([part for part in conjuncts(simplify(node.condition, both)) if not _is(part, True)])
        return node if condition is node.condition else node.with_fields(condition=condition)
    return node


def _make_if_changed(
    node: PlanNode, old: Sequence[object], new: Sequence[object], make: Callable[[], PlanNode]
) -> PlanNode:
    return node if all(map(operator.is_, old, new)) else make()


def _filter(node: Filter) -> PlanNode:
    predicate = simplify(node.predicate, node.child.schema)
    if _is(predicate, True):
        return node.child
    if any(isinstance(part, Literal) for part in conjuncts(predicate)):
        return Values(node.id, node.schema, pa.Table.from_batches([], node.schema))
    return node if predicate is node.predicate else node.with_fields(predicate=predicate)


def _aggregate(node: Aggregate) -> PlanNode:
    schema = node.child.schema
    calls = tuple(_call(call, schema) for call in node.aggregates)
    keys = tuple(_of_same_type(key, schema) for _, key in node.keys)
    named = tuple((name, key) for (name, _), key in zip(node.keys, keys, strict=True))
    old = [*(key for _, key in node.keys), *node.aggregates]
    return _make_if_changed(node, old, [*keys, *calls], lambda: node.with_fields(keys=named, aggregates=calls))


def _call(call: AggregateCall, schema: pa.Schema) -> AggregateCall:
    where = None if call.filter is None else simplify(call.filter, schema)
    arguments = tuple(_of_same_type(argument, schema) for argument in call.arguments)
    if where is call.filter and all(a is b for a, b in zip(arguments, call.arguments, strict=True)):
        return call
    return replace(call, arguments=arguments, filter=where)


def _of_same_type(expr: Expr, schema: pa.Schema) -> Expr:
    """Return the simplified expression if it has the same type. A node's schema must not change."""
    simpler = simplify(expr, schema)
    return simpler if simpler is expr or expr_type(simpler, schema) == expr_type(expr, schema) else expr


def _is(expr: Expr, value: bool) -> bool:
    return isinstance(expr, Literal) and expr.value is value


def simplify(expr: Expr, schema: pa.Schema) -> Expr:
    """Return a simpler expression with the same value."""
    parts = children(expr)
    if not parts:
        return expr
    new = [simplify(part, schema) for part in parts]
    if not all(map(operator.is_, new, parts)):
        expr = rebuild(expr, tuple(new))
    if isinstance(expr, Call):
        expr = _simplify_call(expr, schema)
    elif isinstance(expr, In):
        expr = _simplify_in(expr, schema)
    elif isinstance(expr, Case):
        expr = _if_of_same_type(_simplify_case(expr), expr, schema)
    elif isinstance(expr, Cast):
        expr = _simplify_cast(expr, schema)
    return _first(_fold_constants(expr, schema), expr) if _is_of_constants(expr) else expr


def _is_of_constants(expr: Expr) -> bool:
    """Whether the expression computes a value from constants alone."""
    parts = children(expr)
    if not parts or isinstance(expr, Alias):
        return False
    return all(type(part) is Literal for part in parts)


def _simplify_call(expr: Call, schema: pa.Schema) -> Expr:
    name, arguments = expr.function, expr.arguments
    if name in ("and", "or"):
        return simplify_junction(expr)
    if name == "not":
        return _first(_find_negated(arguments[0]), expr)
    if name == "coalesce":
        return _if_of_same_type(_simplify_coalesce(expr), expr, schema)
    if name in COMPARISONS and len(arguments) == 2:
        expr = _typed_comparison(expr, schema)
    return without_cast(expr, schema)


def _first(made: Expr | None, otherwise: Expr) -> Expr:
    return otherwise if made is None else made


def _find_negated(argument: Expr) -> Expr | None:
    if isinstance(argument, Call):
        if argument.function == "not":
            return argument.arguments[0]
        inverse = _INVERSE.get(argument.function)
        if inverse is not None:
            return Call(inverse, argument.arguments)
    if isinstance(argument, Literal) and isinstance(argument.value, bool):
        return FALSE if argument.value else TRUE
    return None


def simplify_junction(expr: Call) -> Expr:
    """Simplify an AND or an OR: flatten it, drop repetitions and constants, and collect equalities into IN."""
    name = expr.function
    absorbing, neutral = (False, True) if name == "and" else (True, False)
    flat: list[Expr] = []
    # Parts by their repr, because comparing all pairs of a long list is slow.
    known: dict[str, list[Expr]] = {}
    for part in expr.arguments:
        inner = part.arguments if isinstance(part, Call) and part.function == name else (part,)
        for one in inner:
            if _is(one, absorbing):
                return FALSE if name == "and" else TRUE
            alike = flat if len(expr.arguments) <= _FEW else known.setdefault(repr(one), [])
            if not _is(one, neutral) and not any(same(one, other) for other in alike):
                flat.append(one)
                if alike is not flat:
                    alike.append(one)
    if not flat:
        return TRUE if name == "and" else FALSE
    if name == "or":
        flat = _collect_equalities(flat)
    if len(flat) == 1:
        return flat[0]
    if len(flat) == len(expr.arguments) and all(a is b for a, b in zip(flat, expr.arguments, strict=True)):
        return expr
    return Call(name, tuple(flat))


def _collect_equalities(parts: list[Expr]) -> list[Expr]:
    """Parts of an OR: x = 1 or x = 2 becomes x in (1, 2). Constants of different types are not collected together,
    because each is compared with x in the common type of both, and these types may differ.
    """
    result: list[Expr] = []
    positions: dict[tuple[str, pa.DataType], int] = {}
    for part in parts:
        found = _equality(part)
        types = set() if found is None else {value.type for value in found[1] if isinstance(value, Literal)}
        if found is None or len(types) != 1:
            result.append(part)
            continue
        name, values = found
        key = (name, *types)
        if key not in positions:
            positions[key] = len(result)
            result.append(part)
        else:
            _, earlier = _equality(result[positions[key]])  # type: ignore[misc]
            result[positions[key]] = In(Column(name), (*earlier, *values))
    return result


def _equality(part: Expr) -> tuple[str, tuple[Expr, ...]] | None:
    """(column, constants) of x = constant and x in (constants)."""
    if isinstance(part, Call) and part.function == "equal":
        a, b = part.arguments
        if isinstance(a, Literal):
            a, b = b, a
        if isinstance(a, Column) and isinstance(b, Literal) and b.value is not None:
            return a.name, (b,)
    if isinstance(part, In) and isinstance(part.argument, Column):
        return part.argument.name, part.values
    return None


def _typed_comparison(expr: Call, schema: pa.Schema) -> Call:
    """Convert a text constant that is compared with a date, time or number to that type, to compare statistics too."""
    a, b = expr.arguments
    new_a = _literal_like(a, b, schema)
    new_b = _literal_like(b, a, schema)
    return expr if new_a is a and new_b is b else Call(expr.function, (new_a, new_b))


def _literal_like(expr: Expr, other: Expr, schema: pa.Schema) -> Expr:
    if not isinstance(expr, Literal) or not isinstance(expr.value, str):
        return expr
    type_ = plain(expr_type(other, schema))
    if not (is_temporal(type_) or is_numeric(type_)):
        return expr
    return _first(_fold_constants(Cast(expr, type_), schema), expr)


def _simplify_in(expr: In, schema: pa.Schema) -> Expr:
    if len(expr.values) == 1:
        return _simplify_call(Call("equal", (expr.argument, expr.values[0])), schema)
    values = tuple(_literal_like(value, expr.argument, schema) for value in expr.values)
    typed = expr if all(a is b for a, b in zip(values, expr.values, strict=True)) else In(expr.argument, values)
    return without_cast(typed, schema)


def _simplify_case(expr: Case) -> Expr:
    """Drop branches that are never taken, and those after a branch that is always taken."""
    branches: list[tuple[Expr, Expr]] = []
    for condition, value in expr.branches:
        if _is(condition, True):
            return Case(tuple(branches), value) if branches else value
        if not isinstance(condition, Literal):
            branches.append((condition, value))
    if not branches:
        return _first(expr.otherwise, expr)
    return expr if len(branches) == len(expr.branches) else Case(tuple(branches), expr.otherwise)


def _simplify_cast(expr: Cast, schema: pa.Schema) -> Cast:
    """Drop the inner of two casts if its type has every value of its argument."""
    inner = expr.argument
    if not isinstance(inner, Cast) or not inner.safe:
        return expr
    given, between = plain(expr_type(inner.argument, schema)), plain(inner.to)
    if not keeps_every_value(given, between):
        return expr
    integers = pa.types.is_integer(given) and pa.types.is_integer(between) and is_numeric(plain(expr.to))
    return Cast(inner.argument, expr.to, expr.safe) if integers or plain(expr.to) == given else expr


def _simplify_coalesce(expr: Call) -> Expr:
    """Drop the arguments after a constant."""
    first = expr.arguments[0]
    return first if len(expr.arguments) == 1 or (isinstance(first, Literal) and first.value is not None) else expr


def _if_of_same_type(made: Expr, expr: Expr, schema: pa.Schema) -> Expr:
    """Return `made` if it has the type of `expr`, else `expr`: CASE WHEN true THEN 1 ELSE 2.5 END is 1.0, not 1."""
    return made if made is expr or expr_type(made, schema) == expr_type(expr, schema) else expr


def _fold_constants(expr: Expr, schema: pa.Schema) -> Literal | None:
    """The value of an expression of constants; None if only a run can compute it."""
    check_planning()
    try:
        return constant_value(expr, expr_type(expr, schema))
    except PlanError:
        return None
