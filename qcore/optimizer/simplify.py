"""Rule: simpler expressions.

Constants are computed, nested and/or flattened, not() moved into comparisons, equalities with constants gathered
into IN.
Everything keeps SQL's three-valued logic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from qcore.errors import PlanError
from qcore.expression.tree import Call, Case, Cast, Column, Expr, In, Literal, children, conjuncts, rebuild, same
from qcore.expression.types import common_type, is_instant, is_numeric, is_temporal, is_text, is_zoned, plain
from qcore.functions.catalogue import expr_type
from qcore.optimizer.nodes import transformed
from qcore.plan.joins import conjunction
from qcore.plan.nodes import Aggregate, AggregateCall, Filter, HashJoin, NestedLoopJoin, PlanNode, Project, Values
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
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
# Parts of and, or that are compared with one another.
_FEW = 16
_FOLDED: dict[str, Callable[..., pa.Scalar]] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "equal": pc.equal,
    "not_equal": pc.not_equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
}


def simplify_plan(plan: PlanNode) -> PlanNode:
    """All expressions of a plan simplified; filters that are constant gone."""
    return transformed(plan, _simplify_node)


def _simplify_node(node: PlanNode) -> PlanNode:
    if isinstance(node, Filter):
        return _filter(node)
    if isinstance(node, Project):
        kept = tuple(_of_same_type(expr, node.child.schema) for expr in node.expressions)
        return _changed(node, node.expressions, kept, lambda: replace(node, expressions=kept))
    if isinstance(node, Aggregate):
        calls = tuple(_call(call, node.child.schema) for call in node.aggregates)
        return _changed(node, node.aggregates, calls, lambda: replace(node, aggregates=calls))
    if isinstance(node, (HashJoin, NestedLoopJoin)) and node.condition is not None:
        both = join_schema("inner", node.left.schema, node.right.schema)
        condition = conjunction([part for part in conjuncts(simplify(node.condition, both)) if not _is(part, True)])
        return node if condition is node.condition else replace(node, condition=condition)
    return node


def _changed(node: PlanNode, old: Sequence[object], new: Sequence[object], make: Callable[[], PlanNode]) -> PlanNode:
    return node if all(a is b for a, b in zip(old, new, strict=True)) else make()


def _filter(node: Filter) -> PlanNode:
    predicate = simplify(node.predicate, node.child.schema)
    if _is(predicate, True):
        return node.child
    if isinstance(predicate, Literal):
        return Values(node.id, node.schema, pa.Table.from_batches([], node.schema))
    return node if predicate is node.predicate else replace(node, predicate=predicate)


def _call(call: AggregateCall, schema: pa.Schema) -> AggregateCall:
    where = None if call.filter is None else simplify(call.filter, schema)
    arguments = tuple(_of_same_type(argument, schema) for argument in call.arguments)
    if where is call.filter and all(a is b for a, b in zip(arguments, call.arguments, strict=True)):
        return call
    return replace(call, arguments=arguments, filter=where)


def _of_same_type(expr: Expr, schema: pa.Schema) -> Expr:
    """The expression simplified, unless a folded constant changed its type: node schemas stand."""
    simpler = simplify(expr, schema)
    return simpler if simpler is expr or expr_type(simpler, schema) == expr_type(expr, schema) else expr


def _is(expr: Expr, value: bool) -> bool:
    return isinstance(expr, Literal) and expr.value is value


def simplify(expr: Expr, schema: pa.Schema) -> Expr:
    """A simpler expression of the same value."""
    parts = children(expr)
    if not parts:
        return expr
    new = tuple(simplify(part, schema) for part in parts)
    if any(a is not b for a, b in zip(new, parts, strict=True)):
        expr = rebuild(expr, new)
    if isinstance(expr, Call):
        return _simplify_call(expr, schema)
    if isinstance(expr, Cast) and isinstance(expr.argument, Literal):
        return _first(_cast_literal(expr.argument, expr.to), expr)
    if isinstance(expr, In):
        return _simplify_in(expr, schema)
    if isinstance(expr, Case):
        return _simplify_case(expr)
    return expr


def _simplify_call(expr: Call, schema: pa.Schema) -> Expr:
    name, arguments = expr.function, expr.arguments
    if name in ("and", "or"):
        return _simplify_junction(name, expr)
    if name == "not":
        return _first(_negated(arguments[0]), expr)
    if name in COMPARISONS and len(arguments) == 2:
        expr = _typed_comparison(expr, schema)
        arguments = expr.arguments
    if name in _FOLDED and all(isinstance(argument, Literal) for argument in arguments):
        return _first(_folded(expr, schema), expr)
    return expr


def _first(made: Expr | None, otherwise: Expr) -> Expr:
    return otherwise if made is None else made


def _negated(argument: Expr) -> Expr | None:
    if isinstance(argument, Call):
        if argument.function == "not":
            return argument.arguments[0]
        inverse = _INVERSE.get(argument.function)
        if inverse is not None:
            return Call(inverse, argument.arguments)
    if isinstance(argument, Literal) and isinstance(argument.value, bool):
        return FALSE if argument.value else TRUE
    return None


def _simplify_junction(name: str, expr: Call) -> Expr:
    """and, or: flat, each part once, constants gone."""
    absorbing, neutral = (False, True) if name == "and" else (True, False)
    flat: list[Expr] = []
    # By how they are written, since a long list would be compared with itself.
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
        flat = _gathered(flat)
    if len(flat) == 1:
        return flat[0]
    if len(flat) == len(expr.arguments) and all(a is b for a, b in zip(flat, expr.arguments, strict=True)):
        return expr
    return Call(name, tuple(flat))


def _gathered(parts: list[Expr]) -> list[Expr]:
    """Parts of an or: x = 1 or x = 2 becomes x in (1, 2)."""
    result: list[Expr] = []
    places: dict[str, int] = {}
    for part in parts:
        found = _equality(part)
        if found is None:
            result.append(part)
            continue
        name, values = found
        if name not in places:
            places[name] = len(result)
            result.append(part)
        else:
            _, earlier = _equality(result[places[name]])  # type: ignore[misc]
            result[places[name]] = In(Column(name), (*earlier, *values))
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
    """A text constant beside a date, time or number becomes one itself, so that statistics can be compared with it."""
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
    return _first(_cast_literal(expr, type_), expr)


def _simplify_in(expr: In, schema: pa.Schema) -> Expr:
    if len(expr.values) == 1:
        return _simplify_call(Call("equal", (expr.argument, expr.values[0])), schema)
    values = tuple(_literal_like(value, expr.argument, schema) for value in expr.values)
    return expr if all(a is b for a, b in zip(values, expr.values, strict=True)) else In(expr.argument, values)


def _simplify_case(expr: Case) -> Expr:
    branches = [branch for branch in expr.branches if not _is(branch[0], False)]
    if len(branches) == len(expr.branches) or not branches:
        return expr
    return Case(tuple(branches), expr.otherwise)


def _cast_literal(literal: Literal, to: pa.DataType) -> Literal | None:
    """The constant as another type; None where only running it shows what happens."""
    if literal.value is None:
        return Literal(None, to)
    if _reads_otherwise(literal, to):
        return None
    if is_text(to) and (is_temporal(literal.type) or is_numeric(literal.type)):
        return None  # the engine writes times and numbers otherwise than pyarrow
    if pa.types.is_decimal(literal.type) and pa.types.is_floating(to):
        return _float(literal, to)
    try:
        scalar = pa.scalar(literal.value, literal.type).cast(to)
        return Literal(scalar.as_py(), to)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def _reads_otherwise(literal: Literal, to: pa.DataType) -> bool:
    """Whether pyarrow may make another value of the constant than the engine makes of a column's."""
    of = literal.type
    if pa.types.is_nested(to) or pa.types.is_interval(to):
        return True
    if (is_zoned(of) or is_zoned(to)) and not (is_instant(of) and is_instant(to)):
        # It takes every clock for one of UTC.
        return True
    if is_text(of):
        # It takes 0x1F for an integer.
        return pa.types.is_integer(to) and not literal.value.strip().lstrip("+-").isdecimal()
    if is_temporal(of) or is_temporal(to):
        return not (is_temporal(of) and is_temporal(to))
    return is_text(to) or (pa.types.is_floating(of) and pa.types.is_decimal(to))


def _folded(expr: Call, schema: pa.Schema) -> Literal | None:
    literals = [argument for argument in expr.arguments if isinstance(argument, Literal)]
    if any(not is_numeric(a.type) and not pa.types.is_date(a.type) for a in literals):
        return _moved_date(expr.function, literals)
    if any(isinstance(a.value, float) and math.isnan(a.value) for a in literals):
        return None  # equal to itself here, to nothing there
    try:
        result = expr_type(expr, schema)
        scalars = [pa.scalar(literal.value, literal.type) for literal in _as_floats(literals)]
        if pa.types.is_integer(result) and any(pa.types.is_date(a.type) for a in literals):
            # Between dates there are days here, and seconds there.
            scalars = [scalar.cast(pa.date32()).cast(pa.int32()) for scalar in scalars]
        return Literal(_FOLDED[expr.function](*scalars).cast(result).as_py(), result)
    except (pa.ArrowException, PlanError, ValueError, TypeError, OverflowError):
        return None


def _as_floats(literals: Sequence[Literal]) -> Sequence[Literal]:
    """Numbers as floats where one of them is a float."""
    if not any(pa.types.is_floating(literal.type) for literal in literals):
        return literals
    type_ = common_type([literal.type for literal in literals])
    return [_float(literal, type_) for literal in literals]


def _float(literal: Literal, type_: pa.DataType) -> Literal:
    """The nearest float, which pyarrow's cast of a decimal of many digits does not give."""
    return Literal(None if literal.value is None else pa.scalar(float(literal.value), type_).as_py(), type_)


def _moved_date(function: str, literals: Sequence[Literal]) -> Literal | None:
    """A date constant plus or minus a constant interval of months and days."""
    date, interval = literals
    if function not in ("add", "subtract") or not pa.types.is_date32(date.type) or date.value is None:
        return None
    if not pa.types.is_interval(interval.type) or interval.value is None:
        return None
    months, days, nanos = interval.value
    if nanos:
        return None
    sign = 1 if function == "add" else -1
    count = date.value.year * 12 + date.value.month - 1 + sign * months
    year, month = divmod(count, 12)
    try:
        first_of_next = date.value.replace(year=year + (month + 1) // 12, month=(month + 1) % 12 + 1, day=1)
        last_day = (first_of_next - (first_of_next.resolution)).day
        moved = date.value.replace(year=year, month=month + 1, day=min(date.value.day, last_day))
        return Literal(moved + sign * days * moved.resolution, pa.date32())
    except (ValueError, OverflowError):
        return None
