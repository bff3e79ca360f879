"""The tokens of a statement: words, names, brackets and parts between commas. SPEC Q1."""

from __future__ import annotations

import pytest

from qcore.errors import PlanError
from qcore.functions.dialect import QCORE
from qcore.sql.statement_text import StatementText, first_word


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("select 1", ("SELECT", " 1")),
        ("  -- a note\n\t/* more\n */Copy(x)", ("COPY", "(x)")),
        ("", ("", "")),
        ("(select 1)", ("", "(select 1)")),
        ("-- nothing", ("", "-- nothing")),
    ],
)
def test_the_first_word(text: str, found: tuple[str, str]) -> None:
    assert first_word(text) == found


def test_words_and_names() -> None:
    sql = StatementText("X", "Table \"Table\" 'table' T1;", QCORE)
    assert sql.end == 5
    assert [sql.is_word(at, "TABLE") for at in range(1, 6)] == [True, False, False, False, False]
    assert [sql.is_name(at) for at in range(1, 6)] == [True, True, False, True, False]
    assert [sql.name(at) for at in (1, 2, 4)] == ["table", "Table", "t1"]


def test_brackets_and_parts() -> None:
    sql = StatementText("X", "(a, (b), ',') TO [1, 2], {'x': 1}, f(1, 2)", QCORE)
    close = sql.close(1)
    assert sql.slice(2, close) == "a, (b), ','"
    assert [sql.slice(a, b) for a, b in sql.items(2, close)] == ["a", "(b)", "','"]
    assert [sql.slice(a, b) for a, b in sql.items(close + 2, sql.end)] == ["[1, 2]", "{'x': 1}", "f(1, 2)"]
    assert next(i for i in sql.level(1, sql.end) if sql.is_word(i, "TO")) == close + 1
    assert sql.query(close + 2, "usage").startswith("[1, 2]")


def test_statements_that_end_too_early() -> None:
    sql = StatementText("X", "(a, b", QCORE)
    with pytest.raises(PlanError, match="a bracket is not closed"):
        sql.close(1)
    with pytest.raises(PlanError, match="the statement ends too early; the syntax is X name"):
        sql.query(sql.end, "X name")
