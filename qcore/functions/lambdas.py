"""Functions of a list's elements by their names in SQL: list_transform, list_filter, list_reduce.

The frontend binds the body: `bind` returns its value for the values of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Column, call, close_lambda
from qcore.expression.types import BOOL, DECIMAL_DIGITS_MAX, TypeMismatch, common_type, plain
from qcore.functions.catalogue import resolve
from qcore.functions.nested import element_type
from qcore.functions.typed import constant, derive_expr, engine_call

#: The value of a lambda's body, from the values of its parameters.
BindBody = Callable[[Sequence[Bound]], Bound]
#: The engine's functions by their names in SQL.
LAMBDA_CALLS = {
    **{
        f"{kind}_{name}": own
        for kind in ("list", "array")
        for name, own in {
            "transform": "list_transform", "apply": "list_transform", "filter": "list_filter", "reduce": "list_reduce",
        }.items()
    },
    "transform": "list_transform", "apply": "list_transform", "filter": "list_filter", "reduce": "list_reduce",
}  # fmt: skip


def bind_lambda(
    name: str, lists: Bound, n_parameters: int, bind: BindBody, new_name: Callable[[], str], first: Bound | None = None
) -> Bound:
    """A call of a function of LAMBDA_CALLS.

    Parameters
    ----------
    name : str
        As the query has it.
    lists : Bound
    n_parameters : int
        The number of the lambda's parameters: an element, or the result so far and an element, then optionally the
        element's position.
    bind : callable
        Returns the body's value.
    new_name : callable
        Returns a name that no column has.
    first : Bound, optional
        The first value of a reduction.

    Raises
    ------
    PlanError
        The first argument is not a list, or the lambda has another number of parameters or a value of the wrong type.
    """
    own = LAMBDA_CALLS[name.lower()]
    try:
        element = plain(element_type(plain(lists.type)))
    except TypeMismatch as reason:
        raise PlanError(f"{name}: {reason}") from None
    if own == "list_reduce":
        if n_parameters != 2:
            raise PlanError(
                f"{name} takes a lambda of two parameters: lambda sofar, x: sofar + x; "
                "a list of elements and positions is list_zip(l, range(1, len(l) + 1))"
            )
        return _bind_reduce(name, lists, element, bind, new_name, first)
    if not 1 <= n_parameters <= 2 or first is not None:
        raise PlanError(f"{name} takes a list and a lambda of an element and, optionally, its position")
    if n_parameters == 1:
        return _bind_with_position(own, lists, element, lambda value: bind([value]), new_name)
    return _bind_with_pairs(own, lists, bind, new_name)


def _bind_with_position(
    own: str, lists: Bound, element: pa.DataType, bind: Callable[[Bound], Bound], new: Callable[[], str]
) -> Bound:
    name = new()
    body = bind(Bound(Column(name), element))
    if own == "list_filter":
        resolve("not", [BOOL if pa.types.is_integer(body.type) else body.type])
    function, others = close_lambda(body.expr, (name,))
    result = pa.list_(body.type if own == "list_transform" else element)
    return Bound(Call(own, (lists.expr, function, *others)), result)


def _bind_with_pairs(own: str, lists: Bound, bind: BindBody, new: Callable[[], str]) -> Bound:
    """Bind a lambda whose second parameter is the element's position. Elements and positions are zipped."""
    pairs = _zip_positions(lists)
    pair = plain(element_type(pairs.type))
    made = _bind_with_position(own, pairs, pair, lambda value: bind(_parts(value)), new)
    if own == "list_filter":
        made = _bind_with_position("list_transform", made, pair, lambda value: _parts(value)[0], new)
    return derive_expr(lambda of, result: Case(((call("is_not_null", of), result),)), lists, made)


def bind_comprehension(
    lists: Bound, n_parameters: int, condition: BindBody | None, value: BindBody, new_name: Callable[[], str]
) -> Bound:
    """[value for element, position in lists if condition]. PlanError as bind_lambda."""
    if n_parameters == 2 and condition is not None:
        pairs = _zip_positions(lists)

        def of_pair(bind: BindBody) -> BindBody:
            return lambda pair: bind(_parts(pair[0]))

        made = bind_comprehension(pairs, 1, of_pair(condition), of_pair(value), new_name)
        return derive_expr(lambda of, result: Case(((call("is_not_null", of), result),)), lists, made)
    if condition is not None:
        lists = bind_lambda("list_filter", lists, n_parameters, condition, new_name)
    return bind_lambda("list_transform", lists, n_parameters, value, new_name)


def _zip_positions(lists: Bound) -> Bound:
    """The list of pairs of elements and their positions."""
    positions = engine_call("generate_series", constant(1), engine_call("list_length", lists))
    return engine_call("list_zip", lists, positions)


def _parts(pair: Bound) -> list[Bound]:
    return [engine_call("struct_extract", pair, constant(key)) for key in ("1", "2")]


def _bind_reduce(
    name: str, lists: Bound, element: pa.DataType, bind: BindBody, new: Callable[[], str], first: Bound | None
) -> Bound:
    columns = (new(), new())
    start = element if first is None else plain(first.type)
    body = bind([Bound(Column(columns[0]), start), Bound(Column(columns[1]), element)])
    if not pa.types.is_null(body.type) and pa.types.is_string(start) != pa.types.is_string(plain(body.type)):
        raise PlanError(f"{name}: the first value is {start}, and the lambda returns {body.type}; cast one of them")
    result = common_type([start, body.type])
    if pa.types.is_decimal(result):
        # Each step might need a digit more.
        result = pa.decimal128(DECIMAL_DIGITS_MAX, result.scale)
    function, others = close_lambda(body.expr, columns)
    begin = () if first is None else (first.expr,)
    return Bound(Call("list_reduce" if first is None else "list_fold", (lists.expr, function, *begin, *others)), result)
