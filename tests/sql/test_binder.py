"""The binder: its tables of readers, positions of errors in the text, and what it caches for a text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from bound_queries import context_of_rows, parse_expression

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import lit
from qcore.functions.dialect import QCORE
from qcore.plan.nodes import Values
from qcore.sql.binder import Binder, span_of
from qcore.sql.parse import Source, parse
from qcore.sql.read_columns import read_columns
from qcore.sql.reading import NotBound
from qcore.sql.scope import Environment, Level, Named, Relation, Rows

AT = context_of_rows({}, pa.schema([]))
DATA = pa.table({"a": [1, 2], "b": ["x", "y"]})


class Node:
    """A node of the parse tree with a position in the text, or none."""

    def __init__(self, position: tuple[int, int] | None = None, *children: Node) -> None:
        self.meta = {} if position is None else {"start": position[0], "end": position[1]}
        self.children = children
        self.args: dict[str, Any] = {}
        self.comments: list[str] = []

    def walk(self) -> list[Node]:
        return [self, *(below for child in self.children for below in child.walk())]


class Outer(Node):
    pass


class Inner(Node):
    pass


class UnknownThing(Node):
    pass


def read_outer(binder: Binder, node: Any, context: Any) -> Any:
    return binder.expression(node.children[0], context)


def binder_with(inner: Any) -> Binder:
    source = Source("outer inner", [])
    readers = {"Outer": read_outer, "Inner": inner}
    return Binder({}, {}, QCORE, source, readers, readers, readers)


def test_each_kind_of_node_has_its_table_of_readers() -> None:
    """One class, such as that of brackets, may be an expression, a query or a table."""
    value = Bound(lit(1), pa.int64())
    relation = Relation(Values("1", DATA.schema, DATA), [])
    rows = Rows(relation.node, [], [])
    seen: list[object] = []

    def reader(result: object) -> Any:
        def read(binder: Binder, node: Any, around: object) -> object:
            seen.append((node, around))
            return result

        return read

    made = Binder(
        {}, {}, QCORE, Source("", []),
        {"Node": reader(value)}, {"Node": reader(relation)}, {"Node": reader(rows)},
    )  # fmt: skip
    node, environment = Node(), Environment(Level(), {})
    assert made.expression(node, AT) is value
    assert made.query(node, environment) is relation
    assert made.table(node, AT) is rows
    assert seen == [(node, AT), (node, environment), (node, AT)]


@pytest.mark.parametrize("ask", ["expression", "query", "table"])
def test_a_class_without_a_reader_is_refused_by_name(ask: str) -> None:
    made = binder_with(None)
    with pytest.raises(NotBound, match="UNKNOWN THING is not supported"):
        getattr(made, ask)(UnknownThing((3, 5)), AT)
    assert made.fault == ((3, 5), made.source)


def test_an_error_is_about_the_innermost_node_that_has_a_place() -> None:
    def refuse(binder: Binder, node: Any, context: Any) -> Any:
        raise PlanError("no")

    for inner, expected in (((6, 10), (6, 10)), (None, (0, 4))):
        made = binder_with(refuse)
        with pytest.raises(PlanError, match="no"):
            made.expression(Outer((0, 4), Inner(inner)), AT)
        assert made.fault == (expected, made.source)


def test_an_error_about_another_node_is_about_that_one() -> None:
    other = Node((8, 9))

    def refuse(binder: Binder, node: Any, context: Any) -> Any:
        raise NotBound(other, "THAT")

    made = binder_with(refuse)
    with pytest.raises(PlanError):
        made.expression(Outer((0, 4), Inner((6, 10))), AT)
    assert made.fault == ((8, 9), made.source)


def test_other_errors_have_no_position() -> None:
    def fail(binder: Binder, node: Any, context: Any) -> Any:
        raise ZeroDivisionError

    made = binder_with(fail)
    with pytest.raises(ZeroDivisionError):
        made.expression(Outer((0, 4), Inner((6, 10))), AT)
    assert made.fault is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select a + b from t", "a"),  # the first name
        ("select interval 3 day", "3"),  # no part has a position: the first constant that occurs once in the text
        ("select interval 3 day + interval 3 day", "select"),  # no constant occurs once: SELECT
        ("select null", "select"),
    ],
)
def test_the_span_of_a_query(text: str, expected: str) -> None:
    (statement,), source = parse(text, QCORE)
    position = span_of(statement, source)
    assert position is not None and text[position[0] : position[1] + 1] == expected


def test_only_nodes_have_a_span() -> None:
    _, source = parse("select 1", QCORE)
    assert span_of("select", source) is None
    assert span_of(Node(), source) is None


def test_columns_of_a_text_are_read_once() -> None:
    """The binder of a query also binds the texts of its views."""
    made, _ = parse_expression("a, b from t")
    assert made.read_columns is made.read_columns
    assert made.read_columns == read_columns(made.source.tokens)
    assert not made.has_columns_calls
    first = made.read_columns
    _, made.source = parse("select Columns('x') from t", QCORE)
    assert made.has_columns_calls and made.read_columns is not first


def test_an_exact_node_has_the_columns_of_the_relation() -> None:
    """The columns are in order. A repeated column gets a new name."""
    made, _ = parse_expression("1")
    assert [made.names.new(name) for name in ("a", "b")] == ["a", "b"]
    node = Values("v", DATA.schema, DATA)
    same_columns = made.exact(Relation(node, [Named("p", "a"), Named("q", "b")]))
    assert same_columns is node
    turned = made.exact(Relation(node, [Named("p", "b"), Named("q", "a"), Named("r", "b")]))
    assert turned.schema.types == [pa.string(), pa.int64(), pa.string()]
    assert turned.schema.names[:2] == ["b", "a"] and len(set(turned.schema.names)) == 3
