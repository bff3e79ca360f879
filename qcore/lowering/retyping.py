"""Compiling an expression again for columns of wider types than its plan declares.

Some rows were computed with the narrower type, so the wider type must not change the meaning of the expression. The
types of exact values do not matter for a comparison, nor for a sum or a product of integers and decimals. They do
matter for a division, a sum of floats or a conversion to text. An integer may become a wider integer everywhere, and
null may become any type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field as dataclass_field
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError, SchemaChangeError
from qcore.expression.tree import Alias, Call, Case, Cast, Column, Expr, In, Literal, children
from qcore.expression.types import plain
from qcore.record import record
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas

# Functions whose result, and its type, are the same for a value in a wider type.
_EXACT = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_distinct_from", "is_not_distinct_from",
    "is_null", "is_not_null", "and", "or", "not", "widening_bytes",
})  # fmt: skip
# Functions that return one of their arguments.
_CHOICES = frozenset({"coalesce", "nullif", "least", "greatest"})
# Functions that are exact for integers and decimals, but not for floats.
_ARITHMETIC = frozenset({"add", "subtract", "multiply", "negate", "abs"})


@record
class _Meaning:
    """The columns on whose types an expression depends.

    The types of columns in `typed` decide its type. Its values depend on the types of columns in `exact`, unless these
    are integers and decimals, and always on the types of columns in `any`.
    """

    typed: set[str] = dataclass_field(default_factory=set)
    exact: set[str] = dataclass_field(default_factory=set)
    any: set[str] = dataclass_field(default_factory=set)


class Programs:
    """Programs of the same expressions, by the schema of their input. They are kept with a lowered plan: its runs and
    their drivers share them.

    Parameters
    ----------
    compile : callable
        From a pyarrow.Schema to a Program of `expressions`.
    expressions : sequence of Expr
        The expressions to check for a change of meaning.
    declared : pyarrow.Schema
        The input's schema in the plan.
    """

    def __init__(self, compile: Callable[[pa.Schema], Any], expressions: Sequence[Expr], declared: pa.Schema) -> None:
        self._compile = compile
        self._expressions = expressions
        self._declared = declared
        self._programs: dict[pa.Schema, Any] = {}

    def of_run(self) -> Callable[[Any], Any]:
        """A function from an engine schema to a Program, for one run. It raises SchemaChangeError if the run has
        computed rows of another schema, for which the expressions mean something else.
        """
        met: dict[pa.Schema, Any] = {}

        def program_for(schema: Any) -> Any:
            arrow_schema = pa.schema(schema)
            program = met.get(arrow_schema)
            if program is None:
                for other in [self._declared, *met]:
                    # A column declared null may have had rows of several types.
                    check_retyping(self._expressions, changed_types(other, arrow_schema))
                program = met[arrow_schema] = self._program_for(arrow_schema)
            return program

        return program_for

    def _program_for(self, schema: pa.Schema) -> Any:
        program = self._programs.get(schema)
        if program is None:
            try:
                program = self._compile(schema)
            except PlanError as error:
                changed = changed_types(self._declared, schema)
                if not changed:
                    raise
                raise SchemaChangeError(f"{describe_changes(changed)}: {error}") from error
            program = self._programs.setdefault(schema, program)
        return program


def changed_types(declared: pa.Schema, given: pa.Schema) -> dict[str, tuple[pa.DataType, pa.DataType]]:
    """The declared and the given type of each column where they differ in more than layout."""
    changed = {}
    for field in given:
        index = declared.get_field_index(field.name)
        if index >= 0 and plain(declared.field(index).type) != plain(field.type):
            changed[field.name] = (plain(declared.field(index).type), plain(field.type))
    return changed


def describe_changes(changed: dict[str, tuple[pa.DataType, pa.DataType]]) -> str:
    """Columns with both of their types, as text."""
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
                    f"{describe_changes({name: changed[name]})}: {expr!r} was computed for rows of the first type "
                    "and may mean something else for the second; declare the wider type at the source"
                )


def _check_choices(expr: Expr, changed: dict[str, tuple[pa.DataType, pa.DataType]]) -> None:
    """SchemaChangeError for a column that was null and is now of another kind than a constant of the same choice."""
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
                widen_schemas(*schemas)
            except SchemaChangeError:
                raise SchemaChangeError(
                    f"{describe_changes({child.name: changed[child.name]})}: {expr!r} was computed for nulls as "
                    f"{constant}; declare the type at the source"
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
    meaning = _Meaning()
    for child in children(expr):
        part = _meaning(child)
        meaning.typed |= part.typed
        meaning.exact |= part.exact
        meaning.any |= part.any
    if isinstance(expr, Case):
        # Conditions do not decide the type.
        values = [value for _, value in expr.branches] + ([] if expr.otherwise is None else [expr.otherwise])
        meaning.typed = set().union(*(_meaning(value).typed for value in values))
        return meaning
    function = expr.function if isinstance(expr, Call) else None
    if isinstance(expr, Alias) or function in _CHOICES:
        return meaning
    if function in _ARITHMETIC:
        meaning.exact |= meaning.typed
        return meaning
    if isinstance(expr, Cast) and not _shows_type(expr.to):
        # The cast of a value does not depend on the value's type.
        return _Meaning(set(), meaning.exact, meaning.any)
    if not isinstance(expr, In) and function not in _EXACT:
        meaning.any |= meaning.typed
        # The type of the result may change too, so `typed` stays.
        return meaning
    meaning.typed = set()
    return meaning


def _shows_type(type_: pa.DataType) -> bool:
    """Whether a cast to this type may depend on the type of the value: 5 and 5.00 are different texts."""
    return not (pa.types.is_primitive(type_) or pa.types.is_decimal(type_))
