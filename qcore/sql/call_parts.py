"""The parts of a call as it is written: its name, its arguments, and the clauses around them."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from qcore.record import record
from qcore.sql.binder import Binder
from qcore.sql.parse import PREFIX
from qcore.sql.reading import NotBound, clause_name, is_set, take


@record
class CallParts:
    """A call. `order` are elements of an ORDER BY among the arguments or of WITHIN GROUP."""

    node: Any
    name: str = ""
    arguments: list[Any] = field(default_factory=list)
    distinct: bool = False
    order: list[Any] = field(default_factory=list)
    filter: Any = None
    ignore_nulls: bool = False
    within_group: bool = False

    @property
    def has_modifiers(self) -> bool:
        """Whether the call has clauses that only aggregates and window functions can have."""
        return self.distinct or bool(self.order) or self.filter is not None or self.ignore_nulls or self.within_group


def read_call(node: Any, binder: Binder) -> CallParts:
    """The parts of a call node, which may be inside FILTER, WITHIN GROUP and IGNORE NULLS."""
    parts = CallParts(node)
    while True:
        kind = type(node).__name__
        if kind == "Filter":
            node, condition = take(node, "this", "expression")
            (parts.filter,) = take(condition, "this")
        elif kind == "WithinGroup":
            node, order = take(node, "this", "expression")
            (parts.order,) = take(order, "expressions")
            parts.within_group = True
        elif kind in ("IgnoreNulls", "RespectNulls"):
            (node,) = take(node, "this")
            parts.ignore_nulls = kind == "IgnoreNulls"
        else:
            break
    parts.node = node
    parts.name, arguments = _name_and_arguments(node)
    parts.arguments = list(arguments)
    _read_argument_modifiers(parts)
    return parts


def _name_and_arguments(node: Any) -> tuple[str, list[Any]]:
    kind = type(node).__name__
    if kind == "Anonymous":
        name, arguments = take(node, "this", "expressions")
        if not isinstance(name, str):
            name = name.name
        return name.removeprefix(PREFIX), arguments or []
    if kind not in _TYPED:
        raise NotBound(node, clause_name(node))
    name, keys = _TYPED[kind]
    arguments = []
    for value in take(node, *keys):
        arguments += value if isinstance(value, list) else [value] if is_set(value) else []
    return name, arguments


# Calls that the parser turns into special classes, although the binder needs them as written: the name, and the
# arguments of the class that are the call's arguments, in order.
_TYPED: dict[str, tuple[str, tuple[str, ...]]] = {
    "Count": ("count", ("this", "expressions")),
    "Coalesce": ("coalesce", ("this", "expressions")),
    "Substring": ("substring", ("this", "start", "length")),
    "StrPosition": ("strpos", ("this", "substr")),
    "Overlay": ("overlay", ("this", "expression", "from", "for")),
    "CurrentDate": ("current_date", ()),
    "CurrentTimestamp": ("current_timestamp", ()),
    "CurrentTime": ("current_time", ()),
    "Localtimestamp": ("now", ()),
}


def _read_argument_modifiers(parts: CallParts) -> None:
    """Take DISTINCT, ORDER BY and IGNORE NULLS out of the arguments."""
    arguments: list[Any] = []
    for argument in parts.arguments:
        arguments += _plain(argument, parts)
    parts.arguments = arguments


def _plain(node: Any, parts: CallParts) -> list[Any]:
    kind = type(node).__name__
    if kind == "Order":
        inner, order = take(node, "this", "expressions")
        parts.order = order
        return [] if inner is None else _plain(inner, parts)
    if kind == "Distinct":
        (values,) = take(node, "expressions")
        parts.distinct = True
        return [part for value in values for part in _plain(value, parts)]
    if kind in ("IgnoreNulls", "RespectNulls"):
        (inner,) = take(node, "this")
        parts.ignore_nulls = kind == "IgnoreNulls"
        return _plain(inner, parts)
    if kind == "HavingMax":
        raise NotBound(node, "HAVING MAX and MIN among arguments", "arg_max(x, y) is x where y is greatest")
    if kind == "Limit":
        raise NotBound(node, "LIMIT among arguments", "take the rows in a subquery first")
    return [node]
