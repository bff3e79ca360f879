"""Lambdas and list comprehensions. Their parameters are names within the body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, column_names
from qcore.functions.lambdas import LAMBDA_CALLS, BindBody, bind_comprehension, bind_lambda
from qcore.plan.schema import unknown
from qcore.sql.binder import Binder, ExpressionReader
from qcore.sql.random_columns import RandomValue
from qcore.sql.reading import identifier, take
from qcore.sql.scope import BindContext


def is_lambda_call(name: str, arguments: Sequence[Any]) -> bool:
    """Whether a call has a lambda."""
    return name.lower() in LAMBDA_CALLS and len(arguments) > 1 and type(arguments[1]).__name__ == "Lambda"


def bind_lambda_call(binder: Binder, name: str, arguments: Sequence[Any], context: BindContext) -> Bound:
    """list_transform(l, lambda x: x + 1) and the like."""
    lists, function, *rest = arguments
    body, parameters, _ = take(function, "this", "expressions", "colon")
    names = [_name(parameter) for parameter in parameters]
    first = [binder.expression(one, context) for one in rest]
    if len(first) > 1:
        raise PlanError(f"{name} takes a list, a lambda and, for list_reduce, an optional first value")
    return bind_lambda(
        name,
        binder.expression(lists, context),
        len(names),
        _body(binder, body, names, context),
        lambda: binder.names.new("$element"),
        first[0] if first else None,
    )


def bind_list_comprehension(binder: Binder, node: Any, context: BindContext) -> Bound:
    """[value for element in l if condition]."""
    value, element, position, iterator, condition = take(
        node, "this", "expression", "position", "iterator", "condition"
    )
    names = [_name(one) for one in (element, position) if one is not None]
    return bind_comprehension(
        binder.expression(iterator, context),
        len(names),
        None if condition is None else _body(binder, condition, names, context),
        _body(binder, value, names, context),
        lambda: binder.names.new("$element"),
    )


def _name(node: Any) -> str:
    if type(node).__name__ == "Column":
        (node,) = take(node, "this")
    return identifier(node)[0]


def _body(binder: Binder, body: Any, names: Sequence[str], context: BindContext) -> BindBody:
    def bind(values: Sequence[Bound]) -> Bound:
        inner = context.with_parameters(dict(zip(names, values, strict=True)))
        waiting = len(inner.subqueries)
        calls = 0 if inner.grouping is None else len(inner.grouping.calls)
        inner = replace(inner, clause="a lambda")
        bound = binder.expression(body, inner)
        own = {value.expr.name for value in values if isinstance(value.expr, Column)}
        for one in inner.subqueries[waiting:]:
            if isinstance(one, RandomValue):
                raise PlanError("random() cannot be in a lambda; its value would be the same for all elements")
            exprs = [*(value.expr for value in one.captured.values()), *one.conditions]
            if any(own & column_names(expr) for expr in exprs):
                raise PlanError("a subquery in a lambda cannot read the lambda's parameters; unnest the list instead")
        for one in [] if inner.grouping is None else inner.grouping.calls[calls:]:
            if any(own & column_names(expr) for expr in one.arguments):
                raise PlanError(f"{one.function} in a lambda cannot read its parameters; use list_{one.function}")
        if inner.windows is not None and inner.windows.reads(own):
            raise PlanError("a window function in a lambda cannot read the lambda's parameters")
        return bound

    return bind


def bind_parameter(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A name in a lambda's body that the parser reads as a parameter."""
    name, _ = identifier(node)
    found = context.parameters.get(name.lower())
    if found is None:
        raise unknown("column", name, list(context.parameters), "the lambda")
    return found


READERS: dict[str, ExpressionReader] = {"Comprehension": bind_list_comprehension, "Identifier": bind_parameter}
