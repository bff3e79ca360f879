"""Whether an expression gives equal results over columns of wider types.

A query whose columns widened has computed rows with the narrower types. It may go on if the wider types give equal
results for these rows: a sum or a product of integers, a comparison, a function of floats over integers. It may not if
rows computed before have another result: a sum of float32, which is rounded, a text, which shows the type, or a
division, which is of integers or of floats.

By a call's signature before and after the change:

- conversions to the same types, of which both give the same values: any function does;
- conversions that lose nothing: comparisons do, and functions that return arguments, or elements of lists;
- integers and decimals: their sums, products, and what has one argument and is exact;
- integers that became floats: sums and products of columns. The result is checked when it becomes a float.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from qcore.errors import PlanError, SchemaChangeError
from qcore.expression.tree import (
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    In,
    Lambda,
    Literal,
    children,
    column_names,
    walk,
)
from qcore.expression.types import as_decimal, common_type, is_list_of_any_layout, plain
from qcore.functions import catalogue as functions
from qcore.functions.arrow.list_statistics import LIST_STATISTICS
from qcore.functions.signatures import Signature
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas

# Functions for which it does not matter what the values are, or of which type.
_BLIND = frozenset({
    "is_null", "is_not_null", "and", "or", "not", "length", "list_length", "list_count", "widening_bytes",
})  # fmt: skip
# Functions that compare two values, and return null if one of them is null.
_ORDERING = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
# Functions that compare their arguments.
_COMPARING = _ORDERING | {
    "is_distinct_from", "is_not_distinct_from", "list_count_distinct", "list_contains", "list_position",
    "list_has_any", "list_has_all", "list_grade_up", "list_entropy",
}  # fmt: skip
# Functions that return arguments, or elements of lists.
_CHOOSING = frozenset({
    "coalesce", "nullif", "least", "greatest", "list_extract", "list_slice", "list_append", "list_prepend",
    "list_remove", "list_concat", "list_intersect", "list_except", "list_any_value", "list_resize", "list_distinct",
    "list_reverse", "list_sort", "list_min", "list_max", "list_value", "flatten",
})  # fmt: skip
# Functions of one number that are exact for every type, and of several that are exact for integers and decimals.
_EXACT_OF_ONE = frozenset({"negate", "abs", "sign", "floor", "ceil", "trunc", "round"})
_EXACT = frozenset({"add", "subtract", "multiply", "list_sum"})
# Functions that are exact for integers alone.
_OF_INTEGERS = frozenset({"divide", "modulo"})
# Integers up to here are exact floats.
_FLOAT_EXACT = 1 << 53
# Digits of decimals whose conversion to a float gives the nearest one.
_FLOAT_DIGITS = 15


def check_results(expressions: Sequence[Expr], before: pa.Schema, after: pa.Schema) -> None:
    """Raise SchemaChangeError if an expression gives other results for rows of `before` with the types of `after`.

    The message names the columns, their types, the expression and what to do.
    """
    changed = changed_types(before, after)
    if not changed:
        return
    for expr in expressions:
        try:
            _Comparison(expr, before, after, changed).check(expr)
        except PlanError:
            return  # an expression that has no type now: compiling it says so


def changed_types(declared: pa.Schema, given: pa.Schema) -> dict[str, tuple[pa.DataType, pa.DataType]]:
    """The declared and the given type of each column where they differ in more than layout."""
    changed = {}
    for field in given:
        index = declared.get_field_index(field.name)
        if index >= 0 and _plain(declared.field(index).type) != _plain(field.type):
            changed[field.name] = (plain(declared.field(index).type), plain(field.type))
    return changed


def describe_changes(changed: dict[str, tuple[pa.DataType, pa.DataType]]) -> str:
    """Columns with both of their types, as text."""
    return ", ".join(f"column {name!r} changed from {old} to {new}" for name, (old, new) in changed.items())


class _Comparison:
    """One expression, with the types of its columns before and after a change."""

    def __init__(
        self,
        whole: Expr,
        before: pa.Schema,
        after: pa.Schema,
        changed: dict[str, tuple[pa.DataType, pa.DataType]],
        in_rounds: bool = False,
    ) -> None:
        self.whole = whole
        self.before = before
        self.after = after
        self.changed = changed
        # What a lambda comes to in one round is its argument in the next.
        self.in_rounds = in_rounds

    def check(self, expr: Expr) -> None:
        """Raise SchemaChangeError if the results differ."""
        if isinstance(expr, (Column, Literal)) or not self.is_changed(expr):
            return
        parts = children(expr)
        for part in parts:
            if not isinstance(part, Lambda):
                self.check(part)
        old, new = (self.types([expr], schema)[0] for schema in (self.before, self.after))
        if not _widens(old, new) or not self.is_same(expr, parts):
            names = sorted(_columns(expr) & self.changed.keys())
            raise SchemaChangeError(
                f"{describe_changes({name: self.changed[name] for name in names})}: rows computed before have another "
                f"result of {expr!r} than the wider type gives; declare the wider type at the source, or cast there"
            )

    def is_changed(self, expr: Expr) -> bool:
        return not _columns(expr).isdisjoint(self.changed)

    def types(self, parts: Sequence[Expr], schema: pa.Schema) -> list[pa.DataType]:
        return [_plain(functions.expr_type(part, schema)) for part in parts]

    def is_same(self, expr: Expr, parts: Sequence[Expr]) -> bool:
        """Whether results are equal if those of the parts are."""
        if isinstance(expr, Call):
            return self.is_same_call(functions.canonical(expr))
        pairs = [
            (old, new) for old, new in zip(*(self.types(parts, s) for s in (self.before, self.after)), strict=True)
        ]
        if all(old == new for old, new in pairs) or isinstance(expr, Alias):
            return True
        if isinstance(expr, Cast):
            return _casts_alike(*pairs[0], plain(expr.to))
        if isinstance(expr, In):
            return self.is_same_choice("in", parts)
        assert isinstance(expr, Case)
        values = [value for _, value in expr.branches] + ([] if expr.otherwise is None else [expr.otherwise])
        return self.is_same_choice("case", values)

    def is_same_choice(self, name: str, values: Sequence[Expr]) -> bool:
        """Whether the same one of the values is the result, and its conversion to the result's type loses nothing."""
        old, new = (self.suit_types(name, values, schema) for schema in (self.before, self.after))
        pairs = list(zip(old, new, strict=True))
        return _loses_nothing(values, pairs, [common_type(old)] * len(old), [common_type(new)] * len(new))

    def suit_types(self, name: str, arguments: Sequence[Expr], schema: pa.Schema) -> list[pa.DataType]:
        _, types = functions.suit_literals(name, arguments, self.types(arguments, schema))
        return types

    def is_same_call(self, expr: Call) -> bool:
        name, arguments = expr.function, expr.arguments
        if name in functions.LIST_LAMBDAS:
            return self.is_same_lambda(expr)
        old, new = (self.suit_types(name, arguments, schema) for schema in (self.before, self.after))
        pairs = list(zip(old, new, strict=True))
        if name in _BLIND or all(one == other for one, other in pairs):
            return True
        try:
            first, second = (functions.resolve(name, types, arguments) for types in (old, new))
        except PlanError:
            return True  # compiling it says so
        if name in _CHOOSING and not self.constants_suit(arguments, pairs):
            return False
        if first == second and self.are_alike(arguments, pairs, first):
            return True
        if name in LIST_STATISTICS and name not in _COMPARING:
            return first.result == second.result and all(_same_floats(_leaf(one), _leaf(other)) for one, other in pairs)
        if name in _ORDERING and any(map(pa.types.is_null, old)):
            return True  # of rows computed before the result is null, whatever the other value is
        if name in _COMPARING or name in _CHOOSING:
            return _loses_nothing(arguments, pairs, first.arguments, second.arguments)
        changed = [pair for pair in pairs if pair[0] != pair[1]]
        if all(pa.types.is_null(one) for one, _ in changed):
            return True  # nulls are the same values of every type
        is_of_one = name in _EXACT_OF_ONE and len(arguments) == 1 and _is_number(old[0])
        if is_of_one and _is_lossless(old[0], first.arguments[0]) and _is_lossless(old[0], second.arguments[0]):
            return True
        kinds = [_leaf(type_) for type_ in (*first.arguments, *second.arguments)]
        if name in _EXACT and all(map(_is_exact, kinds)):
            return True
        if name in _OF_INTEGERS:
            return all(map(pa.types.is_integer, kinds))
        is_sum = is_of_one or (name in _EXACT and not any(map(pa.types.is_nested, old)))
        return is_sum and not self.in_rounds and self.is_checked_sum(expr, old, first, second)

    def are_alike(
        self, arguments: Sequence[Expr], pairs: Sequence[tuple[pa.DataType, pa.DataType]], to: Signature
    ) -> bool:
        """Whether the conversions of both types of each argument to one type give the same values."""
        return all(
            _converts_alike(old, new, wanted, isinstance(argument, Column))
            for argument, (old, new), wanted in zip(arguments, pairs, to.arguments, strict=True)
        )

    def constants_suit(self, arguments: Sequence[Expr], pairs: Sequence[tuple[pa.DataType, pa.DataType]]) -> bool:
        """Whether a column that was null became of a type that widens with the constants of the same choice."""
        constants = [part.type for part in arguments if isinstance(part, Literal) and part.value is not None]
        return not any(
            pa.types.is_null(old) and not all(_widens(new, constant) for constant in constants)
            for argument, (old, new) in zip(arguments, pairs, strict=True)
            if old != new and isinstance(argument, Column)
        )

    def is_checked_sum(self, expr: Call, old: Sequence[pa.DataType], first: Signature, second: Signature) -> bool:
        """Whether integers became floats in a sum or product that is the expression's result.

        Its values up to 2**53 are exact in both. Larger ones are an error when they become floats.
        """
        root = self.whole
        while isinstance(root, Alias):
            root = root.argument
        if root is not expr or not all(map(pa.types.is_integer, first.arguments)):
            return False
        if any(type_ != pa.float64() for type_ in second.arguments):
            return False
        return all(
            isinstance(part.value, int) and abs(part.value) <= _FLOAT_EXACT
            if isinstance(part, Literal)
            else (isinstance(part, Column) and part.name in self.changed) or _same_floats(type_, pa.float64())
            for part, type_ in zip(expr.arguments, old, strict=True)
        )

    def is_same_lambda(self, expr: Call) -> bool:
        """Whether a function of elements gives equal results for the elements' types before and after."""
        lists, function, *more = expr.arguments
        if not isinstance(function, Lambda) or _columns(function) & self.changed.keys():
            return False
        made = []
        for schema in (self.before, self.after):
            of, *others = self.types([lists, *more], schema)
            made.append(functions.list_call(expr.function, [of, pa.null(), *others], function))
        before, after = made[0].parameters, made[1].parameters
        in_rounds = functions.LIST_LAMBDAS[expr.function] > 1
        inner = _Comparison(made[0].body, before, after, changed_types(before, after), in_rounds)
        try:
            inner.check(made[0].body)
        except SchemaChangeError:
            return False
        # What elements come to is cast to the type of the first value in each round.
        return not in_rounds or _is_lossless(made[0].result, made[1].result)


def _columns(expr: Expr) -> frozenset[str]:
    """The names of the columns that an expression reads, those of lambdas too."""
    bodies = [_columns(part.body) for part in walk(expr) if isinstance(part, Lambda)]
    return column_names(expr).union(*bodies)


# --- types -----------------------------------------------------------------------------------------------------------


def _plain(type_: pa.DataType) -> pa.DataType:
    """The logical type, of lists that of their elements too."""
    if is_list_of_any_layout(type_):
        return pa.list_(_plain(type_.value_type))
    return plain(type_)


def _leaf(type_: pa.DataType) -> pa.DataType:
    """The type of what lists, or lists of lists, hold; other types themselves."""
    while is_list_of_any_layout(type_):
        type_ = plain(type_.value_type)
    return type_


def _is_exact(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_null(type_)


def _is_number(type_: pa.DataType) -> bool:
    return _is_exact(type_) or pa.types.is_floating(type_)


def _widens(one: pa.DataType, other: pa.DataType) -> bool:
    try:
        widen_schemas(*(Schema(pa.schema([("x", type_)])) for type_ in (one, other)))
    except SchemaChangeError:
        return False
    return True


def _is_lossless(type_: pa.DataType, to: pa.DataType) -> bool:
    """Whether the conversion of each value of a type gives the same value of another one."""
    if is_list_of_any_layout(type_) and is_list_of_any_layout(to):
        return _is_lossless(plain(type_.value_type), plain(to.value_type))
    if type_ == to or pa.types.is_null(type_):
        return True
    if pa.types.is_floating(to):
        return (
            _same_floats(type_, to) if to == pa.float64() else type_ in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())
        )
    if pa.types.is_nested(type_) or pa.types.is_nested(to) or pa.types.is_floating(type_):
        return False
    if _is_exact(type_) and _is_exact(to):
        return _holds_digits(type_, to)
    try:
        wide = widen_schemas(*(Schema(pa.schema([("x", one)])) for one in (to, type_)))
    except SchemaChangeError:
        return False
    return bool(pa.schema(wide).field(0).type == to)


def _holds_digits(type_: pa.DataType, to: pa.DataType) -> bool:
    """Whether a type of integers or decimals has all values of another one."""
    if pa.types.is_integer(to):
        return pa.types.is_integer(type_) and common_type([type_, to]) == to
    one = as_decimal(type_)
    return bool(one.scale <= to.scale and one.precision - one.scale <= to.precision - to.scale)


def _same_floats(*types: pa.DataType) -> bool:
    """Whether equal values of types become equal floats of 64 bits, and lose nothing."""
    return all(
        type_ in (pa.float32(), pa.float64())
        or pa.types.is_null(type_)
        or (pa.types.is_integer(type_) and type_.bit_width <= 32)
        or (pa.types.is_decimal(type_) and type_.precision <= _FLOAT_DIGITS)
        for type_ in types
    )


def _loses_nothing(
    arguments: Sequence[Expr],
    pairs: Sequence[tuple[pa.DataType, pa.DataType]],
    first: Sequence[pa.DataType],
    second: Sequence[pa.DataType],
) -> bool:
    """Whether the values of each argument before the change are the same in the types that they become, before and
    after.
    """
    for argument, (one, other), wanted, later in zip(arguments, pairs, first, second, strict=True):
        if one == other == wanted == later or (isinstance(argument, Literal) and _is_exact_literal(argument)):
            continue
        if not _is_lossless(one, wanted):
            return False
        # A large integer in a column that is a float now is an error where the column is converted.
        is_checked = isinstance(argument, Column) and one != other == later == pa.float64() and _is_exact(one)
        if not is_checked and not _is_lossless(one, later):
            return False
    return True


def _is_exact_literal(literal: Literal) -> bool:
    """Whether a constant is the same value as a number of any type that it meets."""
    value = literal.value
    if isinstance(value, float):
        return bool(np.float32(value) == value)
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        nearest = Decimal(float(np.float32(float(value))))
        return abs(nearest) <= _FLOAT_EXACT and nearest == value
    return not pa.types.is_nested(literal.type)


def _converts_alike(old: pa.DataType, new: pa.DataType, to: pa.DataType, is_column: bool) -> bool:
    """Whether a value of `old` becomes the same value of `to` from both types.

    `is_column`: the value was given. One that was computed may have been rounded where the types differ.
    """
    if old == new or pa.types.is_null(old):
        return True
    if pa.types.is_string(to):
        return _shows_alike(old, new)
    if pa.types.is_integer(old) and pa.types.is_integer(new):
        return True
    if to == pa.float64():
        # A decimal's digits are divided: more than 15 might not give the nearest float.
        from_column = is_column and pa.types.is_integer(old) and new == pa.float64()
        return from_column or _same_floats(old, new)
    return _is_lossless(old, to)


def _casts_alike(old: pa.DataType, new: pa.DataType, to: pa.DataType) -> bool:
    if pa.types.is_null(old) or old == new:
        return True
    if is_list_of_any_layout(old) and is_list_of_any_layout(new) and is_list_of_any_layout(to):
        return _casts_alike(plain(old.value_type), plain(new.value_type), plain(to.value_type))
    if pa.types.is_temporal(old):
        # As a number, a moment is counted in its own unit.
        return pa.types.is_temporal(to)
    if pa.types.is_primitive(to) or pa.types.is_decimal(to):
        # The cast of a value does not depend on the value's type.
        return True
    return _shows_alike(old, new)


def _shows_alike(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether equal values of both types have the same text: 5 and 5.00 are different texts."""
    if pa.types.is_null(old):
        return True
    if not pa.types.is_integer(old):
        return False
    return pa.types.is_integer(new) or (pa.types.is_decimal(new) and new.scale == 0)
