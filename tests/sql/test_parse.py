"""Parsing: corrected tokens, and syntax errors that quote the text of the user. SPEC Q1."""

from __future__ import annotations

import pytest

from qcore.errors import PlanError
from qcore.functions.dialect import QCORE, Dialect
from qcore.sql.parse import locate_message, parse

ERRORS = {
    "select a frm t where": "syntax error at 't', line 1, column 14",
    "select a\nfrom t\nwhere a = = 1": "line 3, column 11",
    "select (1": "syntax error at the end of the query",
    "select 'abc": "line 1, column 8: a text in quotes begins here and does not end",
    "select concat(*columns('a')) from t": "as arguments is not supported",
}


@pytest.mark.parametrize("query", ERRORS)
def test_syntax_errors_have_a_place(query: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse(query, QCORE)
    assert ERRORS[query] in str(caught.value)


def test_a_caret_stands_below_the_place() -> None:
    assert locate_message("wrong", "select foo\nfrom bar", 16, 18) == "wrong, line 2, column 6\n  from bar\n       ^^^"
    long = f"select {' ' * 300}foo from t"
    message, shown, pointer = locate_message("wrong", long, 307, 309).split("\n")
    assert message == "wrong, line 1, column 308"
    assert shown[pointer.index("^") :].startswith("foo") and len(shown) < 130


def test_calls_stay_as_written() -> None:
    (select,), _ = parse("select date_diff('day', a, b), max(a, 2), len(x), map(a, b, c)", QCORE)
    calls = [(type(one).__name__, one.name.removeprefix("$"), len(one.expressions)) for one in select.expressions]
    assert calls == [
        ("Anonymous", "date_diff", 3), ("Anonymous", "max", 2), ("Anonymous", "len", 1), ("Anonymous", "map", 3),
    ]  # fmt: skip


def test_nulls_come_first_where_the_dialect_says_so() -> None:
    (select,), _ = parse("select a from t order by a, b desc, c desc nulls last", Dialect(null_order="nulls_first"))
    keys = select.args["order"].expressions
    assert [bool(key.args.get("nulls_first")) for key in keys] == [True, True, False]
