"""The time zone of a session: it becomes the zone of all timestamp types with a time zone in a plan.

A timestamp with a time zone is an instant. The zone of its type decides the local time that the engine uses for parts,
truncation, casts, text, and sums with months and days.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import zoneinfo
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError, QcoreError
from qcore.expression.tree import Call, Cast, Expr, Lambda
from qcore.functions.catalogue import expr_type
from qcore.plan.nodes import AggregateCall, PlanNode, SortKey, WindowCall

_OFFSET = re.compile(r"[-+]\d\d:\d\d")


def check_zone(zone: str | None) -> str | None:
    """A time zone's name or offset from UTC (+05:30), checked; None stays None. PlanError if it is unknown."""
    if zone is None:
        return None
    try:
        if isinstance(zone, str) and (_OFFSET.fullmatch(zone) or zoneinfo.ZoneInfo(zone)):
            # The engine computes local times with Arrow, which may know other zones than Python.
            pa.scalar(0, pa.timestamp("s")).cast(pa.timestamp("s", zone)).as_py()
            return zone
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, pa.ArrowException):
        pass
    close = difflib.get_close_matches(str(zone), zoneinfo.available_timezones(), 1)
    hint = f"; did you mean {close[0]!r}?" if close else "; zones have names such as 'Europe/Paris'"
    raise PlanError(f"there is no time zone {zone!r}{hint}")


def type_in_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    """The type with this zone in its timestamps with a time zone, nested ones too. The same object if it has none."""
    if pa.types.is_timestamp(type_):
        return type_ if type_.tz in (None, zone) else pa.timestamp(type_.unit, zone)
    if pa.types.is_struct(type_):
        fields = [field_in_zone(field, zone) for field in type_]
        return type_ if all(new is old for new, old in zip(fields, type_, strict=True)) else pa.struct(fields)
    if pa.types.is_map(type_):
        key, item = type_in_zone(type_.key_type, zone), field_in_zone(type_.item_field, zone)
        return type_ if key.equals(type_.key_type) and item.equals(type_.item_field) else pa.map_(key, item)
    if not pa.types.is_nested(type_) or not hasattr(type_, "value_field"):
        return type_
    element = field_in_zone(type_.value_field, zone)
    if element.equals(type_.value_field):
        return type_
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(element, type_.list_size)
    makers = {pa.LargeListType: pa.large_list, pa.ListViewType: pa.list_view, pa.LargeListViewType: pa.large_list_view}
    return makers.get(type(type_), pa.list_)(element)


def field_in_zone(field: pa.Field, zone: str) -> pa.Field:
    """The field with its type in the zone."""
    type_ = type_in_zone(field.type, zone)
    return field if type_.equals(field.type) else field.with_type(type_)


def schema_in_zone(schema: pa.Schema, zone: str) -> pa.Schema:
    """The schema with its types in the zone. The same object if nothing changes."""
    fields = [field_in_zone(field, zone) for field in schema]
    return schema if all(new.equals(old) for new, old in zip(fields, schema, strict=True)) else pa.schema(fields)


def plan_in_zone(plan: PlanNode, zone: str) -> PlanNode:
    """The plan with this zone in all its timestamps with a time zone: columns, constants, casts and functions."""
    return _Plan(zone).node(plan)


def expr_in_zone(expr: Expr, columns: pa.Schema, zone: str) -> Expr:
    """The same of an expression over these columns."""
    return _Plan(zone).expr(expr, columns)


class _Plan:
    """Changes the zone of the nodes of one plan. A node with two parents stays one node."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._known: dict[int, tuple[PlanNode, PlanNode]] = {}

    def node(self, node: PlanNode) -> PlanNode:
        if id(node) not in self._known:
            below = [field for child in node.children for field in child.schema]
            names = [field.name for field in below]
            columns = pa.schema([field for field in below if names.count(field.name) == 1])
            fields = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
            changed = {name: self.value(value, columns) for name, value in fields.items()}
            self._known[id(node)] = (node, node.with_fields(**changed))
        return self._known[id(node)][1]

    def value(self, value: Any, columns: pa.Schema) -> Any:
        """A field of a node, of a part of one, or of an expression over `columns`."""
        if isinstance(value, PlanNode):
            return self.node(value)
        if isinstance(value, Expr):
            return self.expr(value, columns)
        if isinstance(value, pa.DataType):
            return type_in_zone(value, self._zone)
        if isinstance(value, pa.Schema):
            return schema_in_zone(value, self._zone)
        if isinstance(value, (pa.Table, pa.RecordBatch)):
            return value.cast(schema_in_zone(value.schema, self._zone))
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self.value(part, columns) for part in value)
        if isinstance(value, (AggregateCall, WindowCall, SortKey)):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return dataclasses.replace(value, **{name: self.value(part, columns) for name, part in fields.items()})
        return value

    def expr(self, expr: Expr, columns: pa.Schema) -> Expr:
        if isinstance(expr, Lambda):
            # Parameters hide columns with the same name.
            columns = pa.schema([field for field in columns if field.name not in expr.parameters])
        given: Any = expr  # All kinds of expressions are dataclasses, but Expr is not.
        fields = {field.name: getattr(expr, field.name) for field in dataclasses.fields(given)}
        changed: Expr = dataclasses.replace(given, **{name: self.value(part, columns) for name, part in fields.items()})
        if isinstance(expr, Call) and expr.function == "at_time_zone":
            # The result is an instant, which gets the session's zone too.
            type_ = _type_of(expr, columns)
            if type_ is not None and type_.tz is not None:
                return Cast(changed, pa.timestamp(type_.unit, self._zone))
        return changed


def _type_of(expr: Expr, columns: pa.Schema) -> pa.DataType | None:
    try:
        return expr_type(expr, columns)
    except (QcoreError, KeyError):
        return None
