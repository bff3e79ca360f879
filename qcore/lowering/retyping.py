"""When an expression may be compiled anew for columns of wider types than its plan declares. Floor P2. SPEC D6.

Rows of the narrower type have been computed already, so the wider type must not change what the expression means. A
comparison of exact values does not depend on how they are typed; a division, a sum of floats or a text does. An integer
may become a wider integer anywhere, and null any type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError, SchemaChangeError
from qcore.language.data_types import plain
from qcore.language.expression import Alias, Call, Column, Expr, In, children, column_names

# Functions whose result is the same for a value and for the same value in a wider type.
_EXACT = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_distinct_from", "is_not_distinct_from",
    "is_null", "is_not_null", "and", "or", "not",
})  # fmt: skip


def once_per_schema(
    compile: Callable[[pa.Schema], Any], expressions: Sequence[Expr], declared: pa.Schema, pinned: bool = False
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
    pinned : bool
        What the expressions give must stay of the types that the plan knows.
    """
    programs: dict[pa.Schema, Any] = {}

    def compiled(schema: Any) -> Any:
        arrow_schema = pa.schema(schema)
        program = programs.get(arrow_schema)
        if program is None:
            changed = changed_types(declared, arrow_schema)
            if pinned:
                check_pinned(expressions, changed)
            check_retyping(expressions, changed)
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
        for name in sorted(_type_dependent(expr)):
            if name in changed and not _same_everywhere(*changed[name]):
                raise SchemaChangeError(
                    f"{described({name: changed[name]})}: {expr!r} was computed for rows of the first type and may "
                    "mean something else for the second; declare the wider type at the source"
                )


def check_pinned(expressions: Iterable[Expr], changed: dict[str, tuple[pa.DataType, pa.DataType]]) -> None:
    """SchemaChangeError for a column that any of the expressions reads."""
    for expr in expressions if changed else ():
        for name in sorted(column_names(expr)):
            if name in changed:
                raise SchemaChangeError(
                    f"{described({name: changed[name]})}: groups are made for the first type; declare the wider one "
                    "at the source"
                )


def _same_everywhere(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_null(old) or pa.types.is_null(new):
        return True
    return pa.types.is_integer(old) and pa.types.is_integer(new)


def _type_dependent(expr: Expr) -> set[str]:
    """Columns whose type the value may depend on; a plain column is passed on as it is."""
    if isinstance(expr, Alias):
        return _type_dependent(expr.argument)
    if isinstance(expr, Column):
        return set()
    if isinstance(expr, In) or (isinstance(expr, Call) and expr.function in _EXACT):
        return set().union(*map(_type_dependent, children(expr)))
    return column_names(expr)
