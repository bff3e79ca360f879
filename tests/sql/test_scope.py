"""Names in a scope: the column or table that a name means, and the columns that a level captures for subqueries."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, OuterColumn
from qcore.functions.dialect import DIALECTS, QCORE, Dialect
from qcore.plan.naming import ColumnNames
from qcore.plan.nodes import Values
from qcore.sql.scope import BindContext, Environment, Level, Named, Rows, Scope, TableNames, choose

DATA = pa.table({"a": [1], "A": ["x"], "b": [1.5], "b_1": [True]})


def scope(dialect: Dialect = QCORE) -> Scope:
    """The tables t(a, A, b) and s.u(b), whose columns are a, A, b and b_1 of one node."""
    t = TableNames(("t",), (Named("a", "a"), Named("A", "A"), Named("b", "b")))
    u = TableNames(("s", "u"), (Named("b", "b_1"),))
    rows = Rows(Values("1", DATA.schema, DATA), [t, u], [*t.columns, *u.columns])
    return Scope(rows, Environment(Level(), {}), dialect)


def own(value: Bound | None) -> str | None:
    """The name that a found column has in the plan."""
    if value is None:
        return None
    assert isinstance(value.expr, Column)
    return value.expr.name


@pytest.mark.parametrize(("name", "expected"), [("a", "a"), ("A", "A"), ("c", None)])
def test_a_name_without_a_table(name: str, expected: str | None) -> None:
    found = scope().find((name, False))
    assert own(found) == expected
    assert found is None or found.type == DATA.schema.field(name).type


def test_a_name_of_two_tables_is_refused_with_both() -> None:
    with pytest.raises(PlanError, match=r"'b' is in more than one table; write t\.b or u\.b"):
        scope().find(("b", False))
    assert own(scope().table_column([("T", False)], ("b", False))) == "b"
    assert own(scope().table_column([("u", False)], ("b", False))) == "b_1"
    assert own(scope().table_column([("s", False), ("u", False)], ("b", False))) == "b_1"
    assert scope().table_column([("r", False), ("u", False)], ("b", False)) is None


def test_two_tables_of_one_name_are_refused() -> None:
    of = scope()
    of.rows.tables.append(TableNames(("u",), (Named("b", "b"),)))
    of.check_table([("t", False)])
    of.check_table([("s", False), ("u", False)])
    with pytest.raises(PlanError, match="two tables are named 'u'; give one an alias"):
        of.check_table([("u", False)])
    with pytest.raises(PlanError, match="two tables are named 'u'"):
        of.table_column([("u", False)], ("b", False))


@pytest.mark.parametrize(
    ("text", "quoted", "of_any", "of_lower"),
    [
        ("ab", False, ["ab"], ["ab"]),
        ("Ab", False, ["Ab"], ["ab"]),
        ("AB", False, ["ab"], ["ab"]),
        ("Ab", True, ["Ab"], ["Ab"]),
        ("AB", True, ["ab"], []),
    ],
)
def test_spellings(text: str, quoted: bool, of_any: list[str], of_lower: list[str]) -> None:
    """Columns Ab and ab: the exact spelling comes first, then lower case. PostgreSQL folds names without quotes."""
    for dialect, expected in ((QCORE, of_any), (DIALECTS["postgresql"], of_lower)):
        assert choose((text, quoted), ["Ab", "ab"], dialect, str) == expected
    assert choose(("AB", False), ["Ab", "aB"], QCORE, str) == ["Ab", "aB"]


def test_a_level_captures_each_outer_column_once() -> None:
    level, names = Level(), ColumnNames()
    first = level.capture(Bound(Column("a"), pa.int64()), names)
    again = level.capture(Bound(Column("a"), pa.int64()), names)
    other = level.capture(Bound(Column("b"), pa.float64()), names)
    assert isinstance(first.expr, OuterColumn) and isinstance(again.expr, OuterColumn)
    assert first.expr.name == again.expr.name == "outer_a"
    assert list(level.captured) == ["outer_a", "outer_b"]
    assert (first.type, other.type) == (pa.int64(), pa.float64())


def test_a_passing_level_hands_outer_columns_on() -> None:
    level = Level(is_passing=True)
    outer = Bound(OuterColumn("outer_a", pa.int64()), pa.int64())
    assert level.capture(outer, ColumnNames()) is outer
    assert level.has_passed and not level.captured


def test_parameters_of_lambdas_around_a_place_are_kept() -> None:
    context = BindContext(scope(), "the select list").with_parameters({"X": Bound(Column("x"), pa.int8())})
    inner = context.with_parameters({"y": Bound(Column("y"), pa.int16())})
    assert {name: value.type for name, value in inner.parameters.items()} == {"x": pa.int8(), "y": pa.int16()}
    assert list(context.parameters) == ["x"]
