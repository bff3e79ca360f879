"""Brackets are added where the parser would otherwise choose another precedence. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import check

from qcore.functions.dialect import QCORE
from qcore.sql.parse import tokens_of
from qcore.sql.token_brackets import with_brackets


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("select array(select 1)[1]", "select ( array ( select 1 ) ) [ 1 ]"),
        ("select list(x)[1][2]", "select ( list ( x ) ) [ 1 ] [ 2 ]"),
        ("select f(x)[1], (x)[1]", "select f ( x ) [ 1 ] , ( x ) [ 1 ]"),
        ("pivot t on a using sum(b) limit 1", "FROM ( pivot t on a using sum ( b ) ) limit 1"),
        ("pivot t on a using sum(b) + 1 as s", "pivot t on a using ( sum ( b ) + 1 ) as s"),
        ("from t pivot (sum(b) for a in (1)) limit 1", "from t pivot ( sum ( b ) for a in ( 1 ) ) limit 1"),
        ("select date '2020-01-01'::text", "select ( date 2020-01-01 ) :: text"),
        (
            "select timestamp with time zone '2020-01-01'::date",
            "select ( timestamp with time zone 2020-01-01 ) :: date",
        ),
        ("select decimal(3, 1) '1.5'::int, a::int", "select ( decimal ( 3 , 1 ) 1.5 ) :: int , a :: int"),
        ("select x in ('a')::bool, '1'::int", "select x in ( a ) :: bool , 1 :: int"),
    ],
)
def test_tokens(written: str, read: str) -> None:
    assert " ".join(token.text for token in with_brackets(tokens_of(written, QCORE))) == read


@pytest.mark.parametrize(
    "query",
    [
        "select array(select d from u order by d)[2] as x",
        "select list(a order by a)[1] as x, array_agg(d order by d)[2:3] as y from u",
        "pivot u on b in ('x', 'q') using sum(d) + 1 as s group by a order by a nulls first",
        "select typeof(date '2020-01-01'::varchar) as x, timestamp '2020-01-01 23:00:00'::date as y",
        "select timestamp '2020-01-01 00:00:00.0006'::timestamp_ms::varchar as x, time '01:00:00'::varchar as y",
        "select decimal(3, 1) '1.5'::int as x, '5'::int + date '2020-01-01'::date as y",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)
