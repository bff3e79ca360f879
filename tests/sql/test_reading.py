"""Every node class and argument of the parse tree is read, or is an error that names it."""

from __future__ import annotations

from typing import Any

import pytest
from bound_queries import SCHEMAS
from sqlglot import exp

from qcore.errors import PlanError
from qcore.functions.dialect import QCORE
from qcore.sql.bind import READERS, plan_query
from qcore.sql.binder import Binder
from qcore.sql.parse import parse
from qcore.sql.reading import NotBound, clause_name, take
from qcore.sql.scope import BindContext, Environment, Level, Rows, Scope
from qcore.sql.single_row import one_row


def _classes(base: type) -> set[type]:
    return {base}.union(*(_classes(one) for one in base.__subclasses__()))


CLASSES = sorted(_classes(exp.Expression), key=lambda one: one.__name__)


def _binder() -> Binder:
    _, source = parse("select 1", QCORE)
    return Binder(SCHEMAS, {}, QCORE, source, READERS.expressions, READERS.queries, READERS.tables)


@pytest.mark.parametrize("base", CLASSES, ids=lambda base: base.__name__)
def test_a_class_is_read_or_refused_by_name(base: type) -> None:
    """Each class is tried as an expression, a query and a table."""
    binder = _binder()
    context = BindContext(Scope(Rows(one_row(binder), [], []), Environment(Level(), {}), QCORE), "the select list")
    node: Any = base()
    name = base.__name__
    if name not in READERS.expressions:
        with pytest.raises(NotBound, match=clause_name(node)):
            binder.expression(node, context)
    if name not in READERS.queries:
        with pytest.raises(NotBound, match=clause_name(node)):
            binder.query(node, context.scope.environment)
    if name not in READERS.tables:
        with pytest.raises(NotBound, match=clause_name(node)):
            binder.table(node, context)


def test_readers_are_for_existing_classes() -> None:
    """A class that another version of sqlglot renames would be an error."""
    names = {base.__name__ for base in CLASSES}
    known = {*READERS.expressions, *READERS.queries, *READERS.tables}
    assert known - names <= {"VarMap", "JSONBExtract", "JSONBExtractScalar", "RawString", "ByteString"}


def test_an_argument_that_is_not_read_is_refused() -> None:
    node = exp.Like(this=exp.column("a"), expression=exp.Literal.string("x"), negate=True)
    with pytest.raises(NotBound, match="LIKE with negate"):
        take(node, "this", "expression")
    assert take(node, "this", "expression", "negate")[2] is True
    assert take(exp.Select(from_=exp.From(this=exp.to_table("t"))), "from")[0].name == "t"
    assert take(exp.Select(expressions=[], distinct=None, kind=False)) == ()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select a from t limit 1 by a", "LIMIT"),
        ("select a from t cluster by a", "cluster"),
        ("select a from t for update", "locks"),
        ("select a from t order by a fetch first 1 rows with ties", "WITH TIES"),
        ("select a from t match_recognize (pattern (a) define a as true)", "MATCH RECOGNIZE|match"),
        ("select a from t group by a with rollup", "WITH ROLLUP is not supported; write GROUP BY ROLLUP"),
        ("select a from t order by a with fill", "WITH FILL is not supported"),
        ("select as struct a from t", "SELECT AS STRUCT"),
        ("select sum(a order by a limit 2) from t", "LIMIT among arguments"),
        ("select any_value(a having max c) from t", "HAVING MAX"),
        ("select a as (x, y) from t", "several aliases"),
        ("select abs(a as x) from t", "an alias inside an expression"),
        ("select a.1 from t", "'1' as a column"),
        ("select a from t tablesample (bucket 1 out of 4)", "a sample is n, n ROWS"),
    ],
)
def test_clauses_that_are_not_read(query: str, said: str) -> None:
    """An error, because ignoring them would give wrong rows."""
    with pytest.raises(PlanError, match=f"(?i)({said}|syntax error).*line 1, column"):
        plan_query(query, SCHEMAS)
