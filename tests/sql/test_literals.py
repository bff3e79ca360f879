"""Constants, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check, rows

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select 1, 1.5, 0.05, 1e3, -3, 'x', '', null, true, false",
        "select x'41', 1_000, $$q$$, e'a\\tb'",
        "select timestamp '2024-01-01' + interval '90.5 minutes', date '2024-01-01' + interval '1.5 hours'",
        "select -9223372036854775808, 9223372036854775807",
        "select typeof(1.5), typeof(0.05), typeof(-1.25), typeof(1e3)",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select interval 3 bananas", "(?i)bananas"),
        ("select x'4'", "not an even number of digits"),
        (r"select e'a\0'", "is not a text"),
        (r"select e'\xff'", "must be UTF-8"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_numbers_in_base_16() -> None:
    assert rows("select 0x1F, 0xff") == [(31, 255)]


@pytest.mark.parametrize("text", [r"a\tb\'c\\d", r"\x41\101\18\x4", r"\xc3\xa9", r"\q\9\x", "it''s", "é\\n"])
def test_escapes_are_duckdbs(text: str) -> None:
    check(f"select e'{text}'")


def test_underscores_between_digits() -> None:
    check("select 2_000_000 as a, 1_0.2_5 as b, typeof(2_000_000) = typeof(7) as c")


def test_texts_in_pieces_are_one() -> None:
    assert rows("select 'a' 'b'") == [("ab",)]
