"""Calls whose arguments have names, and operators for which the parser has special classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.functions.calls import bind_call
from qcore.functions.current_moment import current_moment
from qcore.functions.typed import constant
from qcore.sql.binder import Binder, ExpressionReader
from qcore.sql.reading import take
from qcore.sql.scope import BindContext

# Functions whose arguments have names, and how many come before these.
_WITH_NAMES = {"struct_pack": 0, "struct_insert": 1, "struct_update": 1}


def bind_special(binder: Binder, name: str, arguments: Sequence[Any], context: BindContext) -> Bound | None:
    """A call by its name and the nodes of its arguments; None for one whose arguments are plain values."""
    lower = name.lower()
    if lower in _WITH_NAMES:
        return _with_names(binder, name, arguments, context)
    if lower == "age" and len(arguments) == 1:
        today = current_moment("current_date", binder.ids.began_nanos)
        values = [Bound(today, pa.date32()), binder.expression(arguments[0], context)]
        return bind_call(name, values, binder.dialect)
    return None


def _with_names(binder: Binder, name: str, arguments: Sequence[Any], context: BindContext) -> Bound:
    """struct_pack(a := 1, b := 2), struct_insert(s, a := 1)."""
    n_values = _WITH_NAMES[name.lower()]
    parts = [binder.expression(argument, context) for argument in arguments[:n_values]]
    for argument in arguments[n_values:]:
        if type(argument).__name__ not in ("PropertyEQ", "Kwarg"):
            raise PlanError(f"{name} takes names and values: {name}({'s, ' * n_values}a := 1, b := 'x')")
        field, value = take(argument, "this", "expression")
        parts += [constant(field.name, pa.string()), binder.expression(value, context)]
    return bind_call(name, parts, binder.dialect)


def _call_of(name: str, *keys: str) -> ExpressionReader:
    """A reader of nodes that are calls of the function `name`. The keys select the node's arguments."""

    def read(binder: Binder, node: Any, context: BindContext) -> Bound:
        values = [part for part in take(node, *keys) if part is not None]
        return bind_call(name, [binder.expression(value, context) for value in values], binder.dialect)

    return read


def bind_path(binder: Binder, node: Any, context: BindContext) -> Bound:
    """x -> 'path' outside a lambda."""
    raise PlanError("the operators -> and ->> read JSON, which is not supported; s['field'] reads a struct or a map")


READERS: dict[str, ExpressionReader] = {
    "Map": _call_of("map", "keys", "values"),
    "RegexpILike": _call_of("~*", "this", "expression"),
    "Abs": _call_of("abs", "this"),
    **dict.fromkeys(("JSONExtract", "JSONExtractScalar", "JSONBExtract", "JSONBExtractScalar"), bind_path),
}
