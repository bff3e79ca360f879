"""Expressions of one row: operators, CASE, casts, IN lists, rows, nested values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Literal
from qcore.functions.calls import bind_call
from qcore.functions.casts import bind_case, bind_cast, bind_in
from qcore.functions.tables.lists import any_of
from qcore.plan.schema import unknown
from qcore.sql.binder import Binder, ExpressionReader
from qcore.sql.columns import bind_column
from qcore.sql.literals import constant, number
from qcore.sql.reading import NotBound, clause_name, get, identifier, take
from qcore.sql.scope import BindContext
from qcore.sql.text_arguments import bind_written, check_pattern
from qcore.sql.types import read_type

_BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "IntDiv": "//", "Mod": "modulo",
    "Pow": "power", "DPipe": "||", "EQ": "equal", "NEQ": "not_equal", "LT": "less", "LTE": "less_equal",
    "GT": "greater", "GTE": "greater_equal", "NullSafeEQ": "is_not_distinct_from",
    "NullSafeNEQ": "is_distinct_from", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "BitwiseLeftShift": "bitwise_shift_left",
    "BitwiseRightShift": "bitwise_shift_right", "ArrayContainsAll": "list_has_all",
"ArrayOverlaps": "list_has_any", "StartsWith": "starts_with",
}  # fmt: skip
# Precedence of bit operators if ^ is exclusive or. The parser gives all the same precedence, as DuckDB does.
_BIT_RANKS = {
    "BitwiseOr": 1, "BitwiseXor": 2, "BitwiseAnd": 3, "BitwiseLeftShift": 4, "BitwiseRightShift": 4, "DPipe": 5,
}  # fmt: skip
# Precedence of arithmetic operators. Older versions of sqlglot give % the precedence of + and -.
_RANKS = {"Add": 6, "Sub": 6, "Mul": 7, "Div": 7, "IntDiv": 7, "Mod": 7}
_FACTORS = frozenset({"Mul", "Div", "IntDiv"})
# Arguments that the parser sets for its dialect. They do not depend on the text.
_IGNORED = {"Div": ("typed", "safe"), "DPipe": ("safe",), "Cast": ("safe", "_type"), "IntDiv": ("typed", "safe")}
_COMPARISONS = frozenset({"EQ", "NEQ", "LT", "LTE", "GT", "GTE"})
_PATTERNS = {
    "Like": "like",
    "ILike": "ilike",
    "SimilarTo": "similar_to",
    "Glob": "glob",
    "RegexpLike": "~",
    "RegexpFullMatch": "~",
}


def bind_paren(binder: Binder, node: Any, context: BindContext) -> Bound:
    """An expression in brackets."""
    (inner,) = take(node, "this")
    return binder.expression(inner, context)


def bind_connected(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A chain of AND or OR."""
    function = "and" if type(node).__name__ == "And" else "or"
    return connect(function, [binder.expression(part, context) for part in chain(node)], binder)


def connect(function: str, parts: list[Bound], binder: Binder) -> Bound:
    """The conditions connected by AND or OR."""
    flat: list[Bound] = []
    for part in parts:
        if isinstance(part.expr, Call) and part.expr.function == function:
            flat += [Bound(argument, pa.bool_()) for argument in part.expr.arguments]
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else bind_call(function, flat, binder.dialect)


def chain(node: Any) -> list[Any]:
    """The operands of a chain of one connective, in order; brackets around parts of the chain are dropped."""
    kind = type(node).__name__
    result, waiting = [], [node]
    while waiting:
        part = waiting.pop()
        while type(part).__name__ == "Paren":
            (part,) = take(part, "this")
        if type(part).__name__ == kind:
            left, right = take(part, "this", "expression")
            waiting += [right, left]
        else:
            result.append(part)
    return result


def bind_binary(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A chain of operators, which group from the left."""
    steps: list[tuple[Any, Any]] = []
    while type(node).__name__ in _BINARY:
        left, right = _operands(node)
        if steps and type(node).__name__ in _COMPARISONS:
            break
        while type(node).__name__ == "Mod" and type(right).__name__ in _FACTORS:
            # a % (b * c) has brackets; without them it is (a % b) * c.
            inner, last = _operands(right)
            steps.append((right, last))
            right = inner
        steps.append((node, right))
        node = left
    value = binder.expression(node, context)
    ranks = {**_RANKS, **_BIT_RANKS} if binder.dialect.caret == "xor" else _RANKS
    waiting: list[tuple[Any, Bound]] = []
    for step, right in reversed(steps):
        rank = ranks.get(type(step).__name__, 0)
        while waiting and ranks[type(waiting[-1][0]).__name__] >= rank:
            operator, left = waiting.pop()
            value = _of_two(binder, operator, left, value)
        operand = binder.expression(right, context)
        if rank:
            waiting.append((step, value))
            value = operand
        else:
            value = _of_two(binder, step, value, operand)
    for operator, left in reversed(waiting):
        value = _of_two(binder, operator, left, value)
    return value


def _operands(node: Any) -> tuple[Any, Any]:
    left, right, *_ = take(node, "this", "expression", *_IGNORED.get(type(node).__name__, ()))
    return left, right


def _of_two(binder: Binder, node: Any, left: Bound, right: Bound) -> Bound:
    try:
        return bind_written(_BINARY[type(node).__name__], [left, right], binder.dialect)
    except PlanError:
        binder.blame(node)
        raise


def bind_not(binder: Binder, node: Any, context: BindContext) -> Bound:
    """NOT, and IS NOT."""
    (inner,) = take(node, "this")
    if type(inner).__name__ in _PATTERNS and type(get(inner, "expression")).__name__ in ("Any", "All"):
        raise _negated_quantifier(inner)
    value = binder.expression(inner, context)
    if isinstance(value.expr, Call) and value.expr.function in _OPPOSITES:
        return Bound(Call(_OPPOSITES[value.expr.function], value.expr.arguments), pa.bool_())
    return bind_call("not", [value], binder.dialect)


_OPPOSITES = {
    "is_null": "is_not_null", "is_true": "is_not_true", "is_false": "is_not_false", "like": "not_like",
    "ilike": "not_ilike", "is_not_distinct_from": "is_distinct_from", "is_distinct_from": "is_not_distinct_from",
}  # fmt: skip


def bind_negated(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A minus sign. Before a number it is part of the number."""
    (inner,) = take(node, "this")
    if type(inner).__name__ == "Literal" and not inner.is_string:
        found = number(inner.this)
        value = found.expr.value  # type: ignore[attr-defined]
        if found.type == pa.uint64() and value == 1 << 63:
            return constant(-value, pa.int64())
        if found.type != pa.uint64():
            return constant(-value, found.type)
    return bind_written("negate", [binder.expression(inner, context)], binder.dialect)


def bind_bits(binder: Binder, node: Any, context: BindContext) -> Bound:
    """~x."""
    (inner,) = take(node, "this")
    return bind_call("~", [binder.expression(inner, context)], binder.dialect)


def bind_between(binder: Binder, node: Any, context: BindContext) -> Bound:
    """BETWEEN, and BETWEEN SYMMETRIC."""
    value, low, high, symmetric = take(node, "this", "low", "high", "symmetric")
    parts = [binder.expression(part, context) for part in (value, low, high)]
    result = _within(parts[0], parts[1], parts[2], binder)
    if symmetric:
        return connect("or", [result, _within(parts[0], parts[2], parts[1], binder)], binder)
    return result


def _within(value: Bound, low: Bound, high: Bound, binder: Binder) -> Bound:
    return connect(
        "and",
        [
            bind_call("greater_equal", [value, low], binder.dialect),
            bind_call("less_equal", [value, high], binder.dialect),
        ],
        binder,
    )


def bind_is(binder: Binder, node: Any, context: BindContext) -> Bound:
    """IS NULL, IS TRUE, IS FALSE, IS DISTINCT FROM."""
    value, what = take(node, "this", "expression")
    negated = type(what).__name__ == "Not"
    if negated:
        (what,) = take(what, "this")
    bound = binder.expression(value, context)
    kind = type(what).__name__
    if kind == "Null":
        name = "is_null"
    elif kind == "Boolean":
        name = "is_true" if take(what, "this")[0] else "is_false"
    else:
        raise NotBound(node, f"IS {clause_name(what)}", "x IS NOT DISTINCT FROM y compares with any value")
    if negated:
        name = name.replace("is_", "is_not_")
    return bind_call(name, [bound], binder.dialect)


def bind_pattern(binder: Binder, node: Any, context: BindContext) -> Bound:
    """LIKE, ILIKE, SIMILAR TO, GLOB, also with NOT."""
    return _pattern(binder, node, context, None)


def bind_escape(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A pattern with ESCAPE."""
    pattern, escape = take(node, "this", "expression")
    if type(pattern).__name__ == "Not":
        (pattern,) = take(pattern, "this")
        matched = _pattern(binder, pattern, context, escape)
        return bind_call("not", [matched], binder.dialect)
    if type(pattern).__name__ not in _PATTERNS:
        raise NotBound(node, f"{clause_name(pattern)} with ESCAPE", "only LIKE and ILIKE have it")
    return _pattern(binder, pattern, context, escape)


def _pattern(binder: Binder, node: Any, context: BindContext, escape: Any) -> Bound:
    value, pattern, negate = take(node, "this", "expression", "negate")
    name = _PATTERNS[type(node).__name__]
    quantifier = type(pattern).__name__ if type(pattern).__name__ in ("Any", "All") else None
    patterns = [pattern] if quantifier is None else _patterns(node, pattern)
    if negate and quantifier is not None:
        raise _negated_quantifier(node)
    results = []
    for one in patterns:
        parts = [binder.expression(part, context) for part in (value, one, escape) if part is not None]
        check_pattern(name.upper().replace("_", " "), parts, binder.dialect)
        results.append(bind_call(name, parts, binder.dialect))
    result = connect("and" if quantifier == "All" else "or", results, binder)
    if not negate:
        return result
    if isinstance(result.expr, Call) and result.expr.function in _OPPOSITES:
        return Bound(Call(_OPPOSITES[result.expr.function], result.expr.arguments), pa.bool_())
    return bind_call("not", [result], binder.dialect)


def _patterns(node: Any, quantifier: Any) -> list[Any]:
    """The patterns of LIKE ANY or LIKE ALL: (a, b), or a list of them."""
    (held,) = take(quantifier, "this")
    while type(held).__name__ == "Paren":
        (held,) = take(held, "this")
    if type(held).__name__ == "Tuple":
        return list(take(held, "expressions")[0])
    if type(held).__name__ == "Array" and held.expressions:
        return list(take(held, "expressions", "bracket_notation", "value_constructor")[0])
    if type(held).__name__ == "Literal":
        return [held]
    word = f"{clause_name(node)} {clause_name(quantifier)}"
    raise NotBound(
        node, f"{word} of {clause_name(held)}", f"write the patterns, x {word} ('a%', 'b%'), or EXISTS of a subquery"
    )


def _negated_quantifier(node: Any) -> NotBound:
    """The error for NOT LIKE ANY. sqlglot gives NOT x LIKE ANY (…) and x NOT LIKE ANY (…) the same tree."""
    word = clause_name(node)
    return NotBound(node, f"NOT with {word} ANY or ALL", f"write NOT (x {word} ANY (…)) or NOT (x {word} ALL (…))")


def bind_case_when(binder: Binder, node: Any, context: BindContext) -> Bound:
    """CASE, with conditions or with values to compare."""
    compared, branches, default = take(node, "this", "ifs", "default")
    value = None if compared is None else binder.expression(compared, context)
    bound = []
    for branch in branches or ():
        condition, result = take(branch, "this", "true")
        when = binder.expression(condition, context)
        if value is not None:
            when = bind_call("equal", [value, when], binder.dialect)
        bound.append((when, binder.expression(result, context)))
    return bind_case(bound, None if default is None else binder.expression(default, context))


def bind_if(binder: Binder, node: Any, context: BindContext) -> Bound:
    """IF(condition, value, other)."""
    condition, result, other = take(node, "this", "true", "false")
    if other is None:
        raise PlanError("if takes a condition and two values: if(x > 0, a, b); CASE WHEN x > 0 THEN a END takes one")
    branch = (binder.expression(condition, context), binder.expression(result, context))
    return bind_case([branch], binder.expression(other, context))


def bind_conversion(binder: Binder, node: Any, context: BindContext) -> Bound:
    """CAST, TRY_CAST, x::type, and DATE 'text'."""
    # For Spark, sqlglot has one class for CAST and TRY_CAST; the argument distinguishes them.
    value, to, safe, _ = take(node, "this", "to", "safe", "_type")
    return bind_cast(binder.expression(value, context), read_type(to, binder.dialect), binder.dialect, bool(safe))


def bind_in_list(binder: Binder, node: Any, context: BindContext) -> Bound:
    """x IN (a, b, …), and x IN a list."""
    value, values, field = take(node, "this", "expressions", "field")
    bound = binder.expression(value, context)
    if field is not None:
        return any_of("equal", bound, binder.expression(field, context))
    return bind_in(bound, [binder.expression(part, context) for part in values])


def bind_row(binder: Binder, node: Any, context: BindContext) -> Bound:
    """(a, b)."""
    (values,) = take(node, "expressions")
    return bind_call("row", [binder.expression(value, context) for value in values or ()], binder.dialect)


def bind_list(binder: Binder, node: Any, context: BindContext) -> Bound:
    """[a, b]."""
    values, _ = take(node, "expressions", "bracket_notation")
    if values and type(values[0]).__name__ == "Comprehension":
        return binder.expression(values[0], context)
    return bind_call("list_value", [binder.expression(value, context) for value in values or ()], binder.dialect)


def bind_struct(binder: Binder, node: Any, context: BindContext) -> Bound:
    """{'a': x, b: y}."""
    (fields,) = take(node, "expressions")
    arguments: list[Bound] = []
    for part in fields or ():
        if type(part).__name__ not in ("PropertyEQ", "Slice", "Alias"):
            raise NotBound(part, f"{clause_name(part)} in a struct", "write {'a': x, 'b': y}")
        name, value = (
            take(part, "this", "expression") if type(part).__name__ != "Alias" else take(part, "alias", "this")
        )
        arguments += [constant(name.name, pa.string()), binder.expression(value, context)]
    return bind_call("struct_pack", arguments, binder.dialect)


def bind_map(binder: Binder, node: Any, context: BindContext) -> Bound:
    """MAP {k: v}."""
    (inner,) = take(node, "this")
    if type(inner).__name__ == "Bracket":
        # The parser reads the subscript of MAP {…}['k'] as a subscript of the braces.
        held, positions, *_ = take(inner, "this", "expressions", "offset", "safe", "returns_list_for_maps")
        value = _map_of(binder, held, context)
        for position in positions:
            value = element_of(value, binder.expression(position, context), binder)
        return value
    return _map_of(binder, inner, context)


def _map_of(binder: Binder, inner: Any, context: BindContext) -> Bound:
    (fields,) = take(inner, "expressions")
    keys, values = [], []
    for part in fields or ():
        key, value = take(part, "this", "expression")
        keys.append(binder.expression(key, context))
        values.append(binder.expression(value, context))
    lists = [bind_call("list_value", part, binder.dialect) for part in (keys, values)]
    return bind_call("map", lists, binder.dialect)


def bind_subscript(binder: Binder, node: Any, context: BindContext) -> Bound:
    """l[1], l[1:2], m['k'], s['field'], text[1]."""
    value, positions, *_ = take(node, "this", "expressions", "offset", "safe", "returns_list_for_maps")
    if len(positions) != 1:
        raise PlanError(f"a subscript has one position, not {len(positions)}")
    held, (position,) = binder.expression(value, context), positions
    if type(position).__name__ == "Slice":
        begin, end, step = take(position, "this", "expression", "step")
        if _is_open_end(end):
            end = None
        ends = [None if part is None else binder.expression(part, context) for part in (begin, end, step)]
        return slice_of(held, ends[0], ends[1], ends[2], binder)
    return element_of(held, binder.expression(position, context), binder)


def _is_open_end(node: Any) -> bool:
    """Whether an end was written as -. Older versions of sqlglot read it as a -1 without a position in the text."""
    return type(node).__name__ == "Neg" and type(node.this).__name__ == "Literal" and "start" not in node.this.meta


def element_of(held: Bound, position: Bound, binder: Binder) -> Bound:
    """One element of a list, letter of a text, field of a struct, value of a map."""
    return bind_call("[]", [held, position], binder.dialect)


def slice_of(held: Bound, begin: Bound | None, end: Bound | None, step: Bound | None, binder: Binder) -> Bound:
    """A part of a list or a text; each n-th element of it."""
    ends = [constant(1, pa.int64()), constant(-1, pa.int64())]
    if step is not None and (begin is None or end is None):
        size = step.expr.value if isinstance(step.expr, Literal) else None
        if not isinstance(size, int):
            raise PlanError("a slice with a computed step needs both of its ends: l[1:-1:n]")
        ends = ends[::-1] if size < 0 else ends
    ends = [begin or ends[0], end or ends[1]]
    return bind_call("[:]", [held, *ends, *([] if step is None else [step])], binder.dialect)


def bind_dot(binder: Binder, node: Any, context: BindContext) -> Bound:
    """(struct).field, and a call in a schema."""
    value, field = take(node, "this", "expression")
    if type(field).__name__ != "Identifier":
        raise PlanError(f"{field.sql()} is called with a dot; write the value as an argument")
    held = binder.expression(value, context)
    name, _ = identifier(field)
    if not pa.types.is_struct(held.type):
        raise PlanError(f"cannot read field {name!r} of {held.type}, which has no fields; only structs have fields")
    if all(part.name.lower() != name.lower() for part in held.type):
        raise unknown("field", name, [part.name for part in held.type], "the struct")
    return bind_call("struct_extract", [held, constant(name, pa.string())], binder.dialect)


def bind_zoned(binder: Binder, node: Any, context: BindContext) -> Bound:
    """x AT TIME ZONE 'Z'."""
    value, zone = take(node, "this", "zone")
    return bind_call("at_time_zone", [binder.expression(part, context) for part in (value, zone)], binder.dialect)


def bind_collated(binder: Binder, node: Any, context: BindContext) -> Bound:
    """x COLLATE "C"."""
    value, order = take(node, "this", "expression")
    name = order.name.upper()
    if name not in ("C", "POSIX", "BINARY"):
        raise PlanError(
            f"COLLATE {name} is not supported: text is compared by code points; to ignore case, use lower(x) = "
            "lower(y), ORDER BY lower(x) or x ILIKE 'pattern'"
        )
    return binder.expression(value, context)


def bind_named(binder: Binder, node: Any, context: BindContext) -> Bound:
    """An argument with a name, f(x := 1), of a function whose arguments have none."""
    raise NotBound(node, "an argument with a name", "write the arguments without names, in the function's order")


def bind_aliased(binder: Binder, node: Any, context: BindContext) -> Bound:
    """An alias inside an expression."""
    raise NotBound(node, "an alias inside an expression", "give the alias to a whole item of a select list")


READERS: dict[str, ExpressionReader] = {
    "Column": bind_column,
    "Paren": bind_paren,
    "And": bind_connected,
    "Or": bind_connected,
    **dict.fromkeys(_BINARY, bind_binary),
    "Not": bind_not,
    "Neg": bind_negated,
    "BitwiseNot": bind_bits,
    "Between": bind_between,
    "Is": bind_is,
    **dict.fromkeys(_PATTERNS, bind_pattern),
    "Escape": bind_escape,
    "Case": bind_case_when,
    "If": bind_if,
    "Cast": bind_conversion,
    "TryCast": bind_conversion,
    "In": bind_in_list,
    "Tuple": bind_row,
    "Array": bind_list,
    "Struct": bind_struct,
    "ToMap": bind_map,
    "Bracket": bind_subscript,
    "Dot": bind_dot,
    "AtTimeZone": bind_zoned,
    "Collate": bind_collated,
    "PropertyEQ": bind_named,
    "Kwarg": bind_named,
    "Alias": bind_aliased,
}
