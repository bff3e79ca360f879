"""Translate conditions of Spark's plans to qcore's expressions of exactly the same meaning.

The trees are in the JVM and are read through py4j, at 0.1 to 0.3 ms a call. A part without an exact counterpart raises
Untranslated, and Spark then computes the DataFrame.
"""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Cast, Column, Expr, In, Literal, call
from qcore.spark.types import arrow_type

COMPARISONS = {
    "EqualTo": "equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
}
TURNED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
LIKE_PATTERNS = {"StartsWith": "{}%", "EndsWith": "%{}", "Contains": "%{}%"}
EPOCH_DAY = datetime.date(1970, 1, 1)
EPOCH = datetime.datetime(1970, 1, 1)


class Untranslated(Exception):
    """A part of a Spark plan has no counterpart in qcore; the message is the reason."""


class Conditions:
    """Translates conditions over attributes with known columns.

    Parameters
    ----------
    columns : dict
        The scan's columns by Spark's expression id.
    types : dict
        Their Arrow types by column.
    """

    def __init__(self, columns: dict[int, str], types: dict[str, pa.DataType]) -> None:
        self._columns = columns
        self._types = types

    def condition(self, node: Any) -> Expr:
        """Translate a boolean expression."""
        kind = node.getClass().getSimpleName()
        if kind in ("And", "Or"):
            return call(kind.lower(), self.condition(node.left()), self.condition(node.right()))
        if kind == "Not":
            return call("not", self.condition(node.child()))
        if kind in ("IsNull", "IsNotNull"):
            value, _ = self.operand(node.child())
            return call("is_null" if kind == "IsNull" else "is_not_null", value)
        if kind in COMPARISONS:
            return self._compare(COMPARISONS[kind], node.left(), node.right())
        if kind in ("In", "InSet"):
            return self._membership(kind, node)
        if kind in LIKE_PATTERNS:
            return self._like(LIKE_PATTERNS[kind], node)
        if kind in ("AttributeReference", "Literal"):
            value, type = self.operand(node)
            if pa.types.is_boolean(type):
                return value
        raise Untranslated(f"the condition {node.sql()}")

    def operand(self, node: Any) -> tuple[Expr, pa.DataType]:
        """Translate a column, a literal, or a cast of one that changes no value; return it with its type."""
        kind = node.getClass().getSimpleName()
        if kind == "AttributeReference":
            name = self._columns.get(node.exprId().id())
            if name is None:
                raise Untranslated(f"the column {node.sql()}, which is not read from the files")
            return Column(name), self._types[name]
        type = self._type(node)
        if kind == "Literal":
            return Literal(plain_value(node.value(), type), type), type
        if kind == "Cast":
            inner, held = self.operand(node.child())
            if widens(held, type):
                return Cast(inner, type), type
        raise Untranslated(f"the expression {node.sql()}")

    def _type(self, node: Any) -> pa.DataType:
        try:
            return arrow_type(json.loads(node.dataType().json()), node.sql())
        except PlanError as error:
            raise Untranslated(str(error)) from error

    def _compare(self, function: str, left: Any, right: Any) -> Expr:
        a, a_type = self.operand(left)
        b, b_type = self.operand(right)
        if not a_type.equals(b_type) or pa.types.is_nested(a_type):
            both_decimal = pa.types.is_decimal(a_type) and pa.types.is_decimal(b_type)
            if not both_decimal:
                raise Untranslated(f"a comparison of {a_type} with {b_type}")
        if not pa.types.is_floating(a_type):
            return call(function, a, b)
        return self._compare_floats(function, a, b)

    @staticmethod
    def _compare_floats(function: str, a: Expr, b: Expr) -> Expr:
        """In Spark NaN is equal to itself and greater than all other values; in IEEE 754 it is neither."""
        if isinstance(a, Literal) and not isinstance(b, Literal):
            function, a, b = TURNED.get(function, function), b, a
        if not isinstance(b, Literal) or (b.value is not None and b.value != b.value):
            raise Untranslated("a comparison of two floating-point columns, or with NaN")
        plain = call(function, a, b)
        if function in ("greater", "greater_equal") and b.value is not None:
            return call("or", plain, call("not_equal", a, a))
        return plain

    def _membership(self, kind: str, node: Any) -> Expr:
        if kind == "InSet":
            value, type = self.operand(node.child())
            items = node.hset().toSeq()
            literals = [Literal(plain_value(items.apply(i), type), type) for i in range(items.length())]
        else:
            value, type = self.operand(node.value())
            listed = node.list()
            literals = []
            for i in range(listed.length()):
                item, item_type = self.operand(listed.apply(i))
                if not isinstance(item, Literal) or not item_type.equals(type):
                    raise Untranslated(f"the condition {node.sql()}")
                literals.append(item)
        if pa.types.is_nested(type) or any(item.value != item.value for item in literals):
            raise Untranslated(f"the condition {node.sql()}")
        return In(value, tuple(literals))

    def _like(self, form: str, node: Any) -> Expr:
        value, type = self.operand(node.left())
        part, _ = self.operand(node.right())
        text = part.value if isinstance(part, Literal) else None
        if not pa.types.is_string(type) or not isinstance(text, str) or set(text) & set("%_\\"):
            raise Untranslated(f"the condition {node.sql()}")
        return Call("like", (value, Literal(form.format(text), pa.string())))


def widens(source: pa.DataType, to: pa.DataType) -> bool:
    """Whether a cast keeps every value and never fails."""
    if source.equals(to):
        return True
    if pa.types.is_integer(source) and pa.types.is_integer(to):
        return bool(to.bit_width >= source.bit_width)
    if pa.types.is_decimal(source) and pa.types.is_decimal(to):
        return bool(to.scale >= source.scale and to.precision - to.scale >= source.precision - source.scale)
    return bool(pa.types.is_float32(source) and pa.types.is_float64(to))


def plain_value(value: Any, type: pa.DataType) -> Any:
    """Convert a value of Spark's internal rows, as py4j returns it, to a Python value of the Arrow type. None stays."""
    if value is None:
        return None
    if pa.types.is_decimal(type):
        return decimal.Decimal(value.toString())
    if pa.types.is_string(type):
        return value if isinstance(value, str) else value.toString()
    if pa.types.is_date32(type):
        return EPOCH_DAY + datetime.timedelta(days=value)
    if pa.types.is_timestamp(type):
        moment = EPOCH + datetime.timedelta(microseconds=value)
        return moment if type.tz is None else moment.replace(tzinfo=datetime.UTC)
    if pa.types.is_binary(type):
        return bytes(value)
    if pa.types.is_boolean(type) or pa.types.is_integer(type) or pa.types.is_floating(type):
        return value
    raise Untranslated(f"a constant of type {type}")
