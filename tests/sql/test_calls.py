"""Calls with named arguments, and operators that have their own class in the parser. SPEC Q1."""

from __future__ import annotations

import re
from datetime import date

import pyarrow as pa
import pytest
from bound_queries import context_of_rows, parse_expression

import qcore
from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, col, same
from qcore.functions.current_moment import current_moment
from qcore.functions.dialect import QCORE, Dialect
from qcore.sql.calls import READERS, bind_special
from qcore.sql.scope import Named

SCHEMA = pa.schema([("s", pa.struct([("a", pa.int64())])), ("d", pa.date32()), ("t", pa.string()), ("i", pa.int64())])
AT = context_of_rows({"t": tuple(Named(name, name) for name in SCHEMA.names)}, SCHEMA)
ROW = pa.table({"s": [{"a": 1}], "d": [date(2020, 2, 29)], "t": ["abC"], "i": [-7]}, schema=SCHEMA)


def special(call: str, dialect: Dialect = QCORE) -> Bound | None:
    """The expression for a call that the parser does not know."""
    made, node = parse_expression(call, dialect)
    return bind_special(made, node.name, node.expressions, AT)


def answer(expression: str) -> object:
    return qcore.sql(f"select {expression} as x from t", {"t": ROW}, threads=1).to_arrow()["x"][0].as_py()


@pytest.mark.parametrize("call", ["lower(t)", "age(d, d)", "coalesce_all(t)", "row(i)"])
def test_q1_calls_of_plain_values_are_left_to_others(call: str) -> None:
    assert special(call) is None


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("struct_pack(x := i, y := t)", {"x": -7, "y": "abC"}),
        ("STRUCT_PACK(x := i)", {"x": -7}),
        ("struct_pack(x := struct_pack(y := i + 1))", {"x": {"y": -6}}),
        ("struct_insert(s, b := t, c := i)", {"a": 1, "b": "abC", "c": -7}),
        ("struct_update(s, a := t, b := i)", {"a": "abC", "b": -7}),
    ],
)
def test_q1_arguments_with_names(call: str, expected: dict[str, object]) -> None:
    value = special(call)
    assert value is not None and [field.name for field in value.type] == list(expected)
    assert answer(call) == expected


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("struct_pack(i)", "struct_pack takes names and values: struct_pack(a := 1, b := 'x')"),
        ("struct_pack(a := 1, i)", "struct_pack takes names and values: struct_pack(a := 1, b := 'x')"),
        ("struct_insert(s, i)", "struct_insert takes names and values: struct_insert(s, a := 1, b := 'x')"),
        ("struct_update(s, a := 1, 2)", "struct_update takes names and values: struct_update(s, a := 1, b := 'x')"),
    ],
)
def test_q1_arguments_without_names_are_refused(call: str, said: str) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        special(call)


def test_q1_age_of_one_date_is_counted_from_the_day_of_the_query() -> None:
    """All ages of a query are computed from the moment when its planning began."""
    made, node = parse_expression("age(d)")
    value = bind_special(made, node.name, node.expressions, AT)
    assert value is not None and isinstance(value.expr, Call)
    today, day = value.expr.arguments
    assert same(today, current_moment("current_date", made.ids.began_nanos)) and same(day, col("d"))
    assert answer("age(d) = age(current_date, d)") is True


@pytest.mark.parametrize(
    ("expression", "node", "expected"),
    [
        ("t ~* 'ABC'", "RegexpILike", True),
        ("t ~* '^b'", "RegexpILike", False),
        ("@ i", "Abs", 7),
        ("map([t, 'k'], [i, 2])", "Anonymous", [("abC", -7), ("k", 2)]),
    ],
)
def test_q1_operators_with_a_class_of_their_own(expression: str, node: str, expected: object) -> None:
    made, parsed_node = parse_expression(expression)
    assert type(parsed_node).__name__ == node
    if node in READERS:
        assert READERS[node](made, parsed_node, AT).type == (pa.bool_() if node == "RegexpILike" else pa.int64())
    assert answer(expression) == expected


@pytest.mark.parametrize("operator", ["->", "->>"])
def test_q1_paths_into_json_are_refused_by_name(operator: str) -> None:
    made, node = parse_expression(f"t {operator} 'a'")
    with pytest.raises(PlanError, match=r"-> and ->> read JSON, which is not supported; s\['field'\]"):
        READERS[type(node).__name__](made, node, AT)
