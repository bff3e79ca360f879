"""When an expression may be compiled anew for columns of wider types than its plan declares. SPEC D6.

Rows of the narrower type have been computed already, so the wider type must not change what the expression means. A
comparison of exact values does not depend on how they are typed, nor does a sum or a product of integers and decimals;
a division, a sum of floats or a text does. An integer may become a wider integer anywhere, and null any type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import field as made_by
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError, SchemaChangeError
from qcore.expression.tree import Alias, Call, Case, Cast, Column, Expr, In, Literal, children
from qcore.expression.types import plain
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widened

# Functions whose result is the same for a value and for the same value in a wider type, and of one type.
_EXACT = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_distinct_from", "is_not_distinct_from",
    "is_null", "is_not_null", "and", "or", "not",
})  # fmt: skip
# Those that give one of their arguments.
_CHOICES = frozenset({"coalesce", "nullif", "least", "greatest"})
# Those that are exact for integers and decimals, not for floats.
_ARITHMETIC = frozenset({"add", "subtract", "multiply", "negate", "abs"})


@dataclass
class _Meaning:
    """What an expression depends on.

    `typed` are the columns whose types decide what type it is of. Its values depend on the types of columns `exact`
    unless those are of integers and decimals, and on those of columns `any` in any case.
    """

    typed: set[str] = made_by(default_factory=set)
    exact: set[str] = made_by(default_factory=set)
    any: set[str] = made_by(default_factory=set)


def once_per_schema(
    compile: Callable[[pa.Schema], Any], expressions: Sequence[Expr], declared: pa.Schema
) -> Callable[[Any], Any]:
    """Compile for an engine schema, once for all drivers that see the same one.

    Parameters
    ----------
    compile : callable
        From a pyarrow.Schema to a Program of `expressions`.
    expressions : sequence of Expr
        What is compiled.
    declared : pyarrow.Schema
        The input's schema in the plan.
    """
    programs: dict[pa.Schema, Any] = {}

    def compiled(schema: Any) -> Any:
        arrow_schema = pa.schema(schema)
        program = programs.get(arrow_schema)
        if program is None:
            changed = changed_types(declared, arrow_schema)
            for other in [declared, *programs]:
                # Of a column declared null, rows of several types may have been computed.
                check_retyping(expressions, changed_types(other, arrow_schema))
            try:
                program = compile(arrow_schema)
            except PlanError as error:
                if not changed:
                    raise
                raise SchemaChangeError(f"{described(changed)}: {error}") from error
            program = programs.setdefault(arrow_schema, program)
        return program

    return compiled


def changed_types(declared: pa.Schema, given: pa.Schema) -> dict[str, tuple[pa.DataType, pa.DataType]]:
    """By column: the type declared and the one given, where they differ by more than layout."""
    changed = {}
    for field in given:
        index = declared.get_field_index(field.name)
        if index >= 0 and plain(declared.field(index).type) != plain(field.type):
            changed[field.name] = (plain(declared.field(index).type), plain(field.type))
    return changed


def described(changed: dict[str, tuple[pa.DataType, pa.DataType]]) -> str:
    """Columns with both their types."""
    return ", ".join(f"column {name!r} changed from {old} to {new}" for name, (old, new) in changed.items())


def check_retyping(expressions: Iterable[Expr], changed: dict[str, tuple[pa.DataType, pa.DataType]]) -> None:
    """SchemaChangeError for a column whose new type would change what an expression means."""
    for expr in expressions if changed else ():
        _check_choices(expr, changed)
        meaning = _meaning(expr)
        for name in sorted((meaning.exact | meaning.any) & changed.keys()):
            old, new = changed[name]
            is_exact = name not in meaning.any and _is_exact(old) and _is_exact(new)
            if not is_exact and not _same_everywhere(old, new):
                raise SchemaChangeError(
                    f"{described({name: changed[name]})}: {expr!r} was computed for rows of the first type and may "
                    "mean something else for the second; declare the wider type at the source"
                )


def _check_choices(expr: Expr, changed: dict[str, tuple[pa.DataType, pa.DataType]]) -> None:
    """SchemaChangeError for a column that was null beside a constant, in a choice, and is now of another kind."""
    for child in children(expr):
        _check_choices(child, changed)
    if not isinstance(expr, Call) or expr.function not in _CHOICES:
        return
    constants = [child.type for child in expr.arguments if isinstance(child, Literal) and child.value is not None]
    for child in expr.arguments:
        if not isinstance(child, Column) or child.name not in changed or not pa.types.is_null(changed[child.name][0]):
            continue
        for constant in constants:
            schemas = [Schema(pa.schema([(child.name, type_)])) for type_ in (constant, changed[child.name][1])]
            try:
                widened(*schemas)
            except SchemaChangeError:
                raise SchemaChangeError(
                    f"{described({child.name: changed[child.name]})}: {expr!r} was computed for nulls as {constant}; "
                    "declare the type at the source"
                ) from None


def _is_exact(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_decimal(type_)


def _same_everywhere(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_null(old) or pa.types.is_null(new):
        return True
    return pa.types.is_integer(old) and pa.types.is_integer(new)


def _meaning(expr: Expr) -> _Meaning:
    if isinstance(expr, Column):
        return _Meaning({expr.name})
    made = _Meaning()
    for child in children(expr):
        part = _meaning(child)
        made.typed |= part.typed
        made.exact |= part.exact
        made.any |= part.any
    if isinstance(expr, Case):
        # Whether a branch is taken does not decide of what type it is.
        values = [value for _, value in expr.branches] + ([] if expr.otherwise is None else [expr.otherwise])
        made.typed = set().union(*(_meaning(value).typed for value in values))
        return made
    function = expr.function if isinstance(expr, Call) else None
    if isinstance(expr, Alias) or function in _CHOICES:
        return made
    if function in _ARITHMETIC:
        made.exact |= made.typed
        return made
    if isinstance(expr, Cast) and not _shows_type(expr.to):
        # Of the same value it is the same.
        return _Meaning(set(), made.exact, made.any)
    if not isinstance(expr, In) and function not in _EXACT:
        made.any |= made.typed
        # Its own type may be another one as well.
        return made
    made.typed = set()
    return made


def _shows_type(type_: pa.DataType) -> bool:
    """Whether what is cast to this type may tell of what type it was: 5 and 5.00 are different texts."""
    return not (pa.types.is_primitive(type_) or pa.types.is_decimal(type_))
