"""Expressions: immutable trees over the columns of one input. They get types when they are compiled for a schema."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qcore.expression.scalars import type_of
from qcore.record import record


class Expr:
    """An expression over the columns of a plan node's input. Build with col() and lit(); combine with operators."""

    #: A cache of the names of the columns.
    __slots__ = ("_names",)
    _names: frozenset[str]
    # __eq__ builds an expression, so hashing goes by identity.
    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return call("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return call("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return call("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return call("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return call("divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return call("modulo", self, other)

    def __neg__(self) -> Expr:
        return call("negate", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return call("equal", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return call("not_equal", self, other)

    def __lt__(self, other: Any) -> Expr:
        return call("less", self, other)

    def __le__(self, other: Any) -> Expr:
        return call("less_equal", self, other)

    def __gt__(self, other: Any) -> Expr:
        return call("greater", self, other)

    def __ge__(self, other: Any) -> Expr:
        return call("greater_equal", self, other)

    def __and__(self, other: Any) -> Expr:
        return call("and", self, other)

    def __rand__(self, other: Any) -> Expr:
        return call("and", other, self)

    def __or__(self, other: Any) -> Expr:
        return call("or", self, other)

    def __ror__(self, other: Any) -> Expr:
        return call("or", other, self)

    def __invert__(self) -> Expr:
        return call("not", self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value; combine conditions with &, | and ~, not and, or and not")

    def is_null(self) -> Expr:
        """True where the value is null."""
        return call("is_null", self)

    def is_not_null(self) -> Expr:
        """True where the value is not null."""
        return call("is_not_null", self)

    def between(self, low: Any, high: Any) -> Expr:
        """low <= self and self <= high."""
        return call("and", call("greater_equal", self, low), call("less_equal", self, high))

    def isin(self, values: list[Any]) -> Expr:
        """True where the value equals one of `values` (literals)."""
        return In(self, tuple(lit(value) for value in values))

    def like(self, pattern: str) -> Expr:
        """SQL LIKE: % for any run of characters, _ for one."""
        return call("like", self, pattern)

    def cast(self, to: pa.DataType) -> Expr:
        """The value as another type. A value that does not fit is an ExecutionError."""
        return Cast(self, to)

    def alias(self, name: str) -> Alias:
        """The expression with a name, for project()."""
        return Alias(self, name)


@record(frozen=True, eq=False, slots=True)
class Column(Expr):
    """A column of the input, by name; names are unique within a node's schema."""

    name: str

    def __repr__(self) -> str:
        return self.name


@record(frozen=True, eq=False, slots=True)
class Literal(Expr):
    """A constant: the value of pa.scalar(value, type). None is null."""

    value: Any
    type: pa.DataType

    def __repr__(self) -> str:
        return "null" if self.value is None else repr(self.value) if isinstance(self.value, str) else str(self.value)


@record(frozen=True, eq=False, slots=True)
class Call(Expr):
    """A scalar function of qcore.functions.catalogue applied to arguments."""

    function: str
    arguments: tuple[Expr, ...]

    def __repr__(self) -> str:
        symbol = _SYMBOLS.get(self.function)
        if symbol and len(self.arguments) == 2:
            return f"({self.arguments[0]!r} {symbol} {self.arguments[1]!r})"
        return f"{self.function}({', '.join(map(repr, self.arguments))})"


@record(frozen=True, eq=False, slots=True)
class Cast(Expr):
    """`argument` as type `to`. A value that does not fit is an error, or null if not `safe` (TRY_CAST)."""

    argument: Expr
    to: pa.DataType
    safe: bool = True

    def __repr__(self) -> str:
        return f"cast({self.argument!r} as {self.to})"


@record(frozen=True, eq=False, slots=True)
class Case(Expr):
    """The value of the first branch whose condition is true; else `otherwise`, or null."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None

    def __repr__(self) -> str:
        body = " ".join(f"when {condition!r} then {value!r}" for condition, value in self.branches)
        return f"case {body} else {self.otherwise!r} end"


@record(frozen=True, eq=False, slots=True)
class In(Expr):
    """True if `argument` equals one of `values`. Otherwise null if it or one of them is null, else false."""

    argument: Expr
    values: tuple[Expr, ...]

    def __repr__(self) -> str:
        return f"{self.argument!r} in ({', '.join(map(repr, self.values))})"


@record(frozen=True, eq=False, slots=True)
class Alias(Expr):
    """A named expression. The name only matters at the top of a projection."""

    argument: Expr
    name: str

    def __repr__(self) -> str:
        return f"{self.argument!r} as {self.name}"


@record(frozen=True, eq=False, slots=True)
class Lambda(Expr):
    """A function of a list's elements, the second argument of calls such as list_transform. `body` is an expression
    over columns named `parameters` and reads no other columns: values of the input are further arguments of the call.
    Code that finds or replaces columns of the input can therefore ignore the body.
    """

    parameters: tuple[str, ...]
    body: Expr

    def __repr__(self) -> str:
        return f"lambda {', '.join(self.parameters)}: {self.body!r}"


@record(frozen=True, eq=False, slots=True)
class OuterColumn(Expr):
    """A column of the outer query that a correlated subquery reads. Frontends replace it by a column of the subquery
    (qcore.plan.dependent_joins). No plan that runs has one.
    """

    name: str
    type: pa.DataType

    def __repr__(self) -> str:
        return f"outer({self.name})"


_SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "modulo": "%",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "and",
    "or": "or",
    "like": "like",
}


def col(name: str) -> Expr:
    """The column `name` of the input."""
    return Column(name)


def lit(value: Any, type: pa.DataType | None = None) -> Expr:
    """A constant. The default type is bool, int64, float64, string, binary, date32, timestamp[us], or a decimal type
    with the digits of the value. An Expr is returned unchanged.
    """
    if isinstance(value, Expr):
        return value
    if type is None:
        type = _literal_type(value)
    return Literal(value, type)


def _literal_type(value: Any) -> pa.DataType:
    if isinstance(value, decimal.Decimal):
        _, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise TypeError(f"the decimal {value} is not a finite number")
        scale = max(0, -exponent)
        return pa.decimal128(max(len(digits) + max(0, exponent), scale, 1), scale)
    if isinstance(value, datetime.datetime):
        return pa.timestamp("us", tz="UTC" if value.tzinfo else None)
    return type_of(value)


def call(function: str, *arguments: Any) -> Expr:
    """A call of a scalar function. Arguments that are not expressions become literals."""
    return Call(function, tuple(lit(argument) for argument in arguments))


# In the functions below expressions are Any where their class is asked by identity: that takes a third of the time of
# isinstance, and type checkers do not follow it. Classes of expressions have no derived classes.


def children(expr: Any) -> tuple[Expr, ...]:
    """Direct sub-expressions."""
    kind = type(expr)
    if kind is Column or kind is Literal:
        return ()
    if kind is Call:
        return expr.arguments
    if kind is Cast or kind is Alias:
        return (expr.argument,)
    if kind is In:
        return (expr.argument, *expr.values)
    if kind is Case:
        parts = tuple([part for branch in expr.branches for part in branch])
        return parts if expr.otherwise is None else (*parts, expr.otherwise)
    return ()


def rebuild(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same expression over other sub-expressions, in children()'s order."""
    if isinstance(expr, Call):
        return Call(expr.function, parts)
    if isinstance(expr, Cast):
        return Cast(parts[0], expr.to, expr.safe)
    if isinstance(expr, Alias):
        return Alias(parts[0], expr.name)
    if isinstance(expr, In):
        return In(parts[0], parts[1:])
    if isinstance(expr, Case):
        count = len(expr.branches)
        branches = tuple((parts[2 * i], parts[2 * i + 1]) for i in range(count))
        return Case(branches, None if expr.otherwise is None else parts[-1])
    return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its parts, parents first."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(children(part)))


def depth(expr: Expr) -> int:
    """The number of levels of an expression. A column or a constant has one."""
    n_levels, level = 0, [expr]
    while level:
        n_levels += 1
        level = [child for parent in level for child in children(parent)]
    return n_levels


def column_names(expr: Expr) -> frozenset[str]:
    """The names of the columns that an expression reads."""
    known = getattr(expr, "_names", None)
    if known is not None:
        return known
    names: set[str] = set()
    waiting: list[Any] = [expr]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind is Column:
            names.add(part.name)
        elif kind is Literal:
            pass
        elif (known := getattr(part, "_names", None)) is not None:
            names |= known
        else:
            waiting.extend(children(part))
    found = frozenset(names)
    object.__setattr__(expr, "_names", found)
    return found


def substitute(expr: Expr, by_name: dict[str, Expr]) -> Expr:
    """Replace the columns in `by_name` by expressions."""
    if isinstance(expr, Column):
        return by_name.get(expr.name, expr)
    parts = children(expr)
    if not parts or column_names(expr).isdisjoint(by_name):
        return expr
    # Loops and list comprehensions use no C stack at each level; map() and generators do.
    return rebuild(expr, tuple([substitute(part, by_name) for part in parts]))


def close_lambda(body: Expr, names: tuple[str, ...]) -> tuple[Lambda, tuple[Expr, ...]]:
    """A Lambda with `body`, and the columns whose values are passed as its further parameters.

    The first parameters are the columns `names`. The body's other columns become further parameters.
    """
    numbers: dict[str, int] = {name: number for number, name in enumerate(names)}
    others: list[Expr] = []

    def number_columns(part: Expr) -> Expr:
        if isinstance(part, (Column, OuterColumn)):
            if part.name not in numbers:
                numbers[part.name] = len(numbers)
                others.append(part)
            return Column(f"${numbers[part.name]}")
        parts = children(part)
        return rebuild(part, tuple([number_columns(part) for part in parts])) if parts else part

    body = number_columns(body)
    return Lambda(tuple(f"${number}" for number in range(len(numbers))), body), tuple(others)


def conjuncts(expr: Expr) -> list[Expr]:
    """The parts of an AND, in order."""
    if type(expr) is Call and expr.function == "and":
        return [part for argument in expr.arguments for part in conjuncts(argument)]
    return [expr]


def same(a: Any, b: Any) -> bool:
    """Structural equality (== builds an expression)."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is Column or kind is OuterColumn:
        return bool(a.name == b.name)
    if kind is Literal:
        return type(a.value) is type(b.value) and bool(a.value == b.value) and bool(a.type == b.type)
    if kind is Call:
        if a.function != b.function:
            return False
    elif kind is Cast:
        if a.safe != b.safe or a.to != b.to:
            return False
    elif kind is Alias:
        if a.name != b.name:
            return False
    elif kind is Lambda:
        return a.parameters == b.parameters and same(a.body, b.body)
    elif kind is Case and (a.otherwise is None) != (b.otherwise is None):
        return False
    left, right = children(a), children(b)
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):  # noqa: SIM110 - all() would take of the C stack at each level
        if not same(one, other):
            return False
    return True
