"""Statements read from tokens: their ends and their parts (SPEC Q1)."""

from __future__ import annotations

from typing import Any

import pytest

from qcore.errors import PlanError
from qcore.functions.dialect import QCORE
from qcore.sql.parse import _sqlglot_dialect, tokens_of
from qcore.sql.statements import (
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    SetSetting,
    ShowTables,
    Summarize,
    quote_name,
    read_statement,
    split_statements,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("select 1", ["select 1"]),
        ("select 1;", ["select 1"]),
        ("a; b ;c", ["a", " b ", "c"]),
        (";; a ;; b; ;", [" a ", " b"]),
        ("select ';', \";\" -- ;\n/* ; */; b", ["select ';', \";\" -- ;\n/* ; */", " b"]),
        (";", [""]),
    ],
)
def test_statements_end_at_semicolons(text: str, parts: list[str]) -> None:
    assert split_statements(text, QCORE) == parts


@pytest.mark.parametrize(
    "text", ["select a -- ;\n from t;", "select ';' as \";\" /* ; */ ;-- end", "\nselect 1 ; ;", "select $$;$$;"]
)
def test_tokens_before_a_semicolon_are_read_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the tokens of the statement alone."""
    (part,) = split_statements(text, QCORE)
    reader = _sqlglot_dialect(QCORE.syntax, QCORE.null_order)
    alone = reader.tokenize(part)
    monkeypatch.setattr(type(reader), "tokenize", None)
    kept = tokens_of(part, QCORE)
    assert [token_parts(token) for token in kept] == [token_parts(token) for token in alone]


def token_parts(token: Any) -> tuple[Any, ...]:
    return token.token_type, token.text, token.line, token.col, token.start, token.end


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("select 1", None),
        ("copy (select 1) to 'x.parquet'", None),
        ("(select 1)", None),
        ("", None),
        ("-- a note\n /* another */ explain select 1", Explain("select 1", False)),
        ("EXPLAIN ANALYZE select ';'", Explain("select ';'", True)),
        ("describe t", Describe("SELECT * FROM t")),
        ("desc (select 1)", Describe("(select 1)")),
        ("show t", Describe("SELECT * FROM t")),
        ("show tables", ShowTables()),
        ("summarize from t", Summarize("from t")),
        ("set threads = 2", SetSetting("threads", 2)),
        ("set global Timeout to 0.5", SetSetting("timeout", 0.5)),
        ("set memory_limit = '1GB'", SetSetting("memory_limit", "1GB")),
        ("reset threads", SetSetting("threads", None)),
        ("create table T as select 1", CreateTable("t", "select 1", False, False)),
        (
            'create or replace temp table if not exists "T" (a int, "b c" decimal(3, 1))',
            CreateTable(
                "T", 'SELECT CAST(NULL AS int) AS "a", CAST(NULL AS decimal(3, 1)) AS "b c" LIMIT 0', True, True
            ),
        ),
        (
            "create view v(a, b) as select 1, (2)",
            CreateView("v", 'SELECT * FROM (select 1, (2)) AS "$made"(a, b)', False, False),
        ),
        ('insert into t (A, "B") values (1, 2)', Insert("t", ("a", "B"), "values (1, 2)")),
        ("insert into t (select 1)", Insert("t", (), "(select 1)")),
        ("drop view if exists v", Drop("v", True, True)),
    ],
)
def test_statements(text: str, statement: object) -> None:
    assert read_statement(text, QCORE) == statement


def test_names_in_quotes() -> None:
    assert quote_name('a"b') == '"a""b"'


@pytest.mark.parametrize("text", ["describe 'a", 'create table "x as select 1', "show /* t"])
def test_unclosed_texts_and_comments(text: str) -> None:
    with pytest.raises(PlanError, match="does not end"):
        read_statement(text, QCORE)
