"""The plans that run over a mutated table. Together they compute something on each of its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import qcore
from qcore.expression.tree import Expr, call

N_QUESTIONS = 4


def question(number: int, source: Any) -> Any:
    """A plan over the source: one of N_QUESTIONS, in turn."""
    rows = qcore.PlanBuilder().scan("t", source=source)
    return _QUESTIONS[number % N_QUESTIONS](rows, source.schema)


def _sort(rows: qcore.PlanBuilder, schema: pa.Schema) -> Any:
    return rows.order_by(schema.names[::-1]).build()


def _distinct(rows: qcore.PlanBuilder, schema: pa.Schema) -> Any:
    return rows.distinct().build()


def _aggregate(rows: qcore.PlanBuilder, schema: pa.Schema) -> Any:
    aggregates: dict[str, tuple[str, ...]] = {"n": ("count",)}
    for i, field in enumerate(schema):
        function = "count" if pa.types.is_nested(field.type) else "min" if i % 2 else "max"
        aggregates[f"a{i}"] = (function, field.name)
    return rows.aggregate(schema.names[:1], aggregates).build()


def _compute(rows: qcore.PlanBuilder, schema: pa.Schema) -> Any:
    """A filter, for which a file's statistics are read, and an expression of each column."""
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    if numbers:
        rows = rows.filter((qcore.col(numbers[0]) > 3) | (qcore.col(numbers[-1]) == 7))
    made: list[Any] = [_expression(field).alias(f"x{i}") for i, field in enumerate(schema)]
    lists = [field.name for field in schema if pa.types.is_list(field.type) or pa.types.is_large_list(field.type)]
    if not lists:
        return rows.project(made).build()
    return rows.project([*made, qcore.col(lists[0]).alias("elements")]).unnest("elements").build()


def _expression(field: pa.Field) -> Expr:
    value = qcore.col(field.name)
    type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return call("upper", value)
    if pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type):
        return value + value
    return value.is_null()


_QUESTIONS: tuple[Callable[[qcore.PlanBuilder, pa.Schema], Any], ...] = (_sort, _distinct, _aggregate, _compute)
