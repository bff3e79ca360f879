"""Stand-ins for the function catalogue, until it has these functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Case, Cast, Expr, In, Literal, OuterColumn, call, children, rebuild
from qcore.expression.types import common_type, plain
from qcore.functions.aggregates import aggregate_type, is_aggregate
from qcore.functions.catalogue import expr_type, suit_literals
from qcore.functions.dialect import QCORE, Dialect
from qcore.plan.schema import same_type
from qcore.substrait.functions import _SAME_AGGREGATE, is_known_scalar, scalar_call
from qcore.substrait.type_names import type_name

_EMPTY = pa.schema([])
AddAggregate = Callable[..., Bound]


def bind_call(name: str, arguments: Sequence[Bound], dialect: Dialect = QCORE) -> Bound:
    name = name.lower()
    name = {"//": "int_divide", "^": "power", "**": "power", "||": "str_concat", "%": "modulo"}.get(name, name)
    if name == "typeof":
        text = type_name(arguments[0].type)
        return Bound(Literal(text, pa.string()), pa.string())
    stand: list[Expr] = []
    for n, argument in enumerate(arguments):
        literal = isinstance(argument.expr, Literal)
        stand.append(argument.expr if literal else OuterColumn(f"${n}", argument.type))
    types = [plain(argument.type) for argument in arguments]
    if name == "divide" and dialect.division == "float" and all(map(pa.types.is_integer, types)):
        stand = [Cast(one, pa.float64()) for one in stand]
    if name == "int_divide":
        name = "divide"
    if name == "round" and len(stand) == 1 and pa.types.is_floating(types[0]) and dialect.round_half == "even":
        from qcore.substrait.dialect_calls import round_to_even
        from qcore.expression.tree import Call

        expr: Expr = round_to_even(Call("round", tuple(stand)))
    else:
        expr = scalar_call(name, tuple(stand), dialect)
    type_ = expr_type(expr, _EMPTY)
    values = {f"${n}": argument.expr for n, argument in enumerate(arguments)}
    return Bound(_filled(expr, values), type_)


def _filled(expr: Expr, values: dict[str, Expr]) -> Expr:
    if isinstance(expr, OuterColumn) and expr.name in values:
        return values[expr.name]
    parts = children(expr)
    return rebuild(expr, tuple(_filled(part, values) for part in parts)) if parts else expr


def is_function(name: str, dialect: Dialect) -> bool:
    return is_known_scalar(name.lower())


def is_volatile(name: str) -> bool:
    return name.lower() in ("random", "uuid", "gen_random_uuid")


def is_moment(name: str) -> bool:
    return name.lower() in ("now", "current_timestamp", "current_date", "today", "current_time")


def bind_cast(value: Bound, to: pa.DataType, dialect: Dialect = QCORE, or_null: bool = False) -> Bound:
    if same_type(value.type, to) and not or_null:
        return Bound(value.expr, to)
    if isinstance(value.expr, Literal) and value.expr.value is None:
        return Bound(Literal(None, to), to)
    return Bound(Cast(value.expr, to, not or_null), to)


def bind_case(branches: Sequence[tuple[Bound, Bound]], otherwise: Bound | None) -> Bound:
    values = [value for _, value in branches] + ([] if otherwise is None else [otherwise])
    _, types = suit_literals("case", [value.expr for value in values], [value.type for value in values])
    expr = Case(tuple((a.expr, b.expr) for a, b in branches), None if otherwise is None else otherwise.expr)
    return Bound(expr, common_type(types))


def bind_in(value: Bound, values: Sequence[Bound]) -> Bound:
    common_type([value.type, *(one.type for one in values)])
    return Bound(In(value.expr, tuple(one.expr for one in values)), pa.bool_())


def _own(name: str) -> str:
    return _SAME_AGGREGATE.get(name.lower(), name.lower())


def is_aggregate_name(name: str, dialect: Dialect) -> bool:
    return is_aggregate(_own(name)) or name.lower() in ("count_if", "countif")


def bind_aggregate(
    name: str,
    arguments: Sequence[Bound],
    *,
    distinct: bool,
    filter: Bound | None,
    order: Sequence[tuple[Bound, bool, bool]],
    within_group: bool,
    add: AddAggregate,
    dialect: Dialect,
) -> Bound:
    if within_group and order and name.lower() != "listagg":
        arguments = [*(key[0] for key in order), *arguments]
    own = _own(name)
    if own in ("count_if", "countif"):
        return add("count", [], False, arguments[0], [])
    if own == "count" and not distinct and arguments and isinstance(arguments[0].expr, Literal):
        arguments = [one for one in arguments if one.expr.value is None]  # type: ignore[attr-defined]
    return add(own, list(arguments), distinct, filter, list(order))


_TYPES = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINT": pa.uint32(), "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(),
    "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "TIMESTAMPNTZ": pa.timestamp("us"), "VARBINARY": pa.binary(),
    "TIME": pa.time64("us"), "INTERVAL": pa.month_day_nano_interval(), "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_S": pa.timestamp("s"), "TIMESTAMP_MS": pa.timestamp("ms"), "TIMESTAMP_NS": pa.timestamp("ns"),
}  # fmt: skip


def read_type(node: Any, dialect: Dialect) -> pa.DataType:
    from sqlglot import exp

    kind = node.this
    name = kind.name if hasattr(kind, "name") else str(kind)
    inner = node.expressions
    if name == "INTERVAL" or isinstance(kind, exp.Interval):
        return pa.month_day_nano_interval()
    if name == "DECIMAL":
        digits = [int(one.this.this if isinstance(one, exp.DataTypeParam) else one.this) for one in inner]
        return pa.decimal128(*(digits or [18, 3])) if len(digits) != 1 else pa.decimal128(digits[0], 0)
    if name in ("ARRAY", "LIST"):
        return pa.list_(read_type(inner[0], dialect))
    if name not in _TYPES:
        raise PlanError(f"the type {name} is not supported")
    return _TYPES[name]
