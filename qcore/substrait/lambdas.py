"""Lambdas of Substrait: calls of a function for each element of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Column, Expr, Lambda, Literal, close_lambda, substitute
from qcore.expression.types import TypeMismatch, plain
from qcore.functions.catalogue import expr_type
from qcore.functions.nested import element_type
from qcore.plan.nodes import PlanNode
from qcore.substrait.dialect_functions import REDUCES

_OF_ELEMENTS = {
    "array_transform": "list_transform",
    "list_transform": "list_transform",
    "array_filter": "list_filter",
    "list_filter": "list_filter",
}


@dataclass
class Scope:
    """The meaning of an expression's field references: `columns` has the column of `node` for each position, and
    `parameters` those of the enclosing lambdas, the outermost first.

    Reading a scalar subquery joins its value to `node`. It adds no position.
    """

    node: PlanNode
    columns: list[str]
    parameters: list[pa.Field] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the node, which includes subqueries' values, and of the parameters."""
        schema = self.node.schema
        return pa.schema([*schema, *self.parameters]) if self.parameters else schema


def lambda_parameter(steps_out: int, position: int, scope: Scope) -> Expr:
    """The parameter of the lambda that is so many steps out. PlanError if there is none."""
    if position != 0 or not 0 <= steps_out < len(scope.parameters):
        raise PlanError(f"parameter {position} of the lambda {steps_out} steps out is referred to, but does not exist")
    return Column(scope.parameters[-1 - steps_out].name)


def check_not_in_lambda(name: str, scope: Scope) -> None:
    """PlanError inside a lambda, for a function that has one value for each row."""
    if scope.parameters:
        raise PlanError(f"{name}() in a lambda would have one value for all elements of a row; make rows with unnest")


def read_list_call(name: str, messages: Sequence[Any], scope: Scope, read: Callable[[Any, Scope], Expr]) -> Expr:
    """A call whose second argument is a lambda.

    Raises
    ------
    PlanError
        Another function, another number of arguments or parameters, or the first is no list.
    """
    own = _OF_ELEMENTS.get(name)
    if own is None:
        raise PlanError(f"the function {name} is not supported yet")
    if len(messages) != 2 or len(getattr(messages[1].value, "lambda").parameters.types) != 1:
        raise PlanError(f"{name} takes a list and a lambda of one parameter")
    lists = read(messages[0].value, scope)
    try:
        of = plain(element_type(expr_type(lists, scope.schema)))
    except TypeMismatch as reason:
        raise PlanError(f"{name}: {reason}") from None
    element = f"$element{len(scope.parameters)}"
    scope.parameters.append(pa.field(element, of))
    try:
        body = read(getattr(messages[1].value, "lambda").body, scope)
    finally:
        scope.parameters.pop()
    reduce_call = _read_reduce(lists, element, body)
    return _lambda_call(own, (lists,), (element,), body) if reduce_call is None else reduce_call


def _lambda_call(name: str, arguments: tuple[Expr, ...], elements: tuple[str, ...], body: Expr) -> Call:
    function, others = close_lambda(body, elements)
    return Call(name, (arguments[0], function, *arguments[1:], *others))


def _read_reduce(lists: Expr, element: str, body: Expr) -> Expr | None:
    """The call of list_reduce or list_fold that the body marks, in a list of one element. None for another body."""
    if not isinstance(body, Call) or body.function != "list_extract":
        return None
    inner, mark = body.arguments
    if not isinstance(mark, Call) or mark.function != REDUCES or not isinstance(inner, Call):
        return None
    begins, function, *others = inner.arguments
    if not isinstance(function, Lambda) or not isinstance(begins, Call) or not isinstance(mark.arguments[0], Literal):
        raise PlanError("the lambda of list_reduce is not understood")
    sofar = f"{element} so far"
    values = dict(zip(function.parameters, (Column(sofar), *others), strict=True))
    name, first = ("list_fold", begins.arguments) if mark.arguments[0].value else ("list_reduce", ())
    reduce_call = _lambda_call(name, (lists, *first), (sofar, element), substitute(function.body, values))
    return Call("list_value", (reduce_call,))
