"""Names of one to four parts: their meaning, precedence, and errors for unknown names. SPEC Q1."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from bound_queries import binder, context_of_rows, parse_expression

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, OuterColumn, col, lit, same
from qcore.sql.columns import bind_column, column_parts, resolve
from qcore.sql.grouping import Grouping
from qcore.sql.read_columns import NeedsAllColumns
from qcore.sql.reading import NotBound
from qcore.sql.scope import BindContext, Level, Named, Part

INNER = pa.struct([("h", pa.string())])
# The tables t(a, r, u) and u(a). The struct column u has the name of the second table.
SCHEMA = pa.schema([
    ("a", pa.int64()), ("r", pa.struct([("f", pa.int32()), ("g", INNER)])), ("u", pa.struct([("a", pa.string())])),
    ("a_1", pa.float64()),
])  # fmt: skip
TABLES = {"t": (Named("a", "a"), Named("r", "r"), Named("u", "u")), "u": (Named("a", "a_1"),)}


def context(level: Level | None = None, **what: Any) -> BindContext:
    return context_of_rows(TABLES, SCHEMA, level, **what)


def find_column(name: str, at: BindContext) -> Bound | None:
    made, node = parse_expression(name)
    return resolve(made, at, column_parts(node))


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("a", [("a", False)]),
        ('"A b"', [("A b", True)]),
        ("t.a", [("t", False), ("a", False)]),
        ('s."T".a', [("s", False), ("T", True), ("a", False)]),
        ("c.s.t.a", [("c", False), ("s", False), ("t", False), ("a", False)]),
    ],
)
def test_q1_the_parts_of_a_name(written: str, parts: list[Part]) -> None:
    assert column_parts(parse_expression(written)[1]) == parts


def test_q1_a_star_is_no_value() -> None:
    made, node = parse_expression("t.*")
    with pytest.raises(PlanError, match=r"t\.\* is only allowed in a select list"):
        bind_column(made, node, context())


def test_q1_a_column_has_a_name() -> None:
    _, node = parse_expression("a")
    node.set("this", parse_expression("1")[1])
    with pytest.raises(NotBound, match="a column has a name"):
        column_parts(node)


@pytest.mark.parametrize(
    ("written", "expected", "type"),
    [
        ("t.a", col("a"), pa.int64()),
        ("u.a", col("a_1"), pa.float64()),  # the table u, before the field of the column u
        ("T.A", col("a"), pa.int64()),
        ("r", col("r"), SCHEMA.field("r").type),
    ],
)
def test_q1_columns(written: str, expected: Column, type: pa.DataType) -> None:
    value = find_column(written, context())
    assert value is not None and isinstance(value.expr, Column)
    assert (value.expr.name, value.type) == (expected.name, type)


@pytest.mark.parametrize(
    ("written", "type"),
    [("r.f", pa.int32()), ("t.r.f", pa.int32()), ("r.g.h", pa.string()), ("t.r.g", INNER), ("t.u.a", pa.string())],
)
def test_q1_fields_of_structs(written: str, type: pa.DataType) -> None:
    value = find_column(written, context())
    assert value is not None and not isinstance(value.expr, Column)
    assert value.type == type


@pytest.mark.parametrize("written", ["b", "t.b", "v.a", "s.t.a"])
def test_q1_names_without_parts(written: str) -> None:
    assert find_column(written, context()) is None


@pytest.mark.parametrize("written", ["a", "a.f.g"])
def test_q1_a_column_of_two_tables_is_refused(written: str) -> None:
    with pytest.raises(PlanError, match=r"'a' is in more than one table; write t\.a or u\.a"):
        find_column(written, context())


def test_q1_a_table_s_name_is_its_row() -> None:
    value = find_column("t", context())
    assert value is not None
    assert value.type == pa.struct([("a", pa.int64()), ("r", SCHEMA.field("r").type), ("u", SCHEMA.field("u").type)])


def test_q1_a_table_s_row_needs_all_columns_of_the_table() -> None:
    made, node = parse_expression("t")
    made.is_narrowed = True
    with pytest.raises(NeedsAllColumns):
        resolve(made, context(), column_parts(node))


def test_q1_a_lambda_s_parameter_is_before_a_column() -> None:
    at = context(parameters={"a": Bound(lit("p"), pa.string()), "r": Bound(lit(None), INNER)})
    value, field = find_column("A", at), find_column("r.h", at)
    assert value is not None and value.type == pa.string()
    assert field is not None and field.type == pa.string()


class _Aliases:
    """A select list with the aliases r, which is also a column, and s."""

    def find(self, part: Part, context: BindContext) -> Bound | None:
        return Bound(lit(True), pa.bool_()) if part[0] in ("r", "s") else None


@pytest.mark.parametrize(("aliases_first", "of_r"), [(False, SCHEMA.field("r").type), (True, pa.bool_())])
def test_q1_aliases_come_first_or_last(aliases_first: bool, of_r: pa.DataType) -> None:
    at = context(aliases=_Aliases(), aliases_first=aliases_first)
    types = [value and value.type for value in (find_column("r", at), find_column("s", at), find_column("t.r", at))]
    assert types == [of_r, pa.bool_(), SCHEMA.field("r").type]


def test_q1_the_column_of_a_group_is_before_an_alias() -> None:
    grouping = Grouping(binder())
    at = context(aliases=_Aliases(), aliases_first=True, grouping=grouping)
    assert getattr(find_column("r", at), "type", None) == pa.bool_()
    grouping.keys.append(("r", Bound(col("r"), SCHEMA.field("r").type)))
    assert getattr(find_column("r", at), "type", None) == SCHEMA.field("r").type


def outer_and_inner(ceiling: int | None = None) -> tuple[BindContext, BindContext]:
    """Contexts of a query over t(a, …) and u(a), and of a subquery over v(b)."""
    outer = context()
    level = Level(outer, 1) if ceiling is None else Level(outer, 1, ceiling=ceiling)
    return outer, context_of_rows({"v": (Named("b", "b"),)}, pa.schema([("b", pa.int16())]), level)


def test_q1_a_name_of_the_query_around_is_captured_once() -> None:
    _, inner = outer_and_inner()
    own, outer, again = find_column("b", inner), find_column("t.a", inner), find_column("T.A", inner)
    assert own is not None and isinstance(own.expr, Column)
    assert outer is not None and isinstance(outer.expr, OuterColumn) and outer.type == pa.int64()
    assert again is not None and same(again.expr, outer.expr)
    level = inner.scope.level
    assert [repr(value.expr) for value in level.captured.values()] == [repr(col("a"))]
    assert find_column("r.f", inner) is not None and len(level.captured) == 2
    assert find_column("nothing", inner) is None and len(level.captured) == 2


def test_q1_levels_below_a_ceiling_alone_are_seen() -> None:
    _, inner = outer_and_inner(ceiling=0)
    assert find_column("b", inner) is not None
    assert find_column("t.a", inner) is None
    made, node = parse_expression("b")
    assert resolve(made, inner, column_parts(node), below=1) is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("bb", r"unknown column 'bb'.*\bb\b"),
        ("v.c", r"unknown column 'c' in table 'v'.*\bb\b"),
        ("t.aa", r"unknown column 'aa' in table 't'.*\ba\b"),
        ("w.b", r"unknown column 'w\.b' in the query: there is no table 'w' at that place.*v\.b"),
    ],
)
def test_q1_an_unknown_name_is_told_those_there_are(written: str, said: str) -> None:
    _, inner = outer_and_inner()
    made, node = parse_expression(written)
    with pytest.raises(PlanError, match=said):
        bind_column(made, node, inner)


def test_q1_an_unknown_name_without_any_table() -> None:
    made, node = parse_expression("a")
    with pytest.raises(PlanError, match="unknown column 'a': no table is named before it"):
        bind_column(made, node, context_of_rows({}, pa.schema([])))
