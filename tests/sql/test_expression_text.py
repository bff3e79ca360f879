"""Expressions of PlanBuilder that are written as text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.errors import PlanError
from qcore.expression.tree import col
from qcore.sql.expression_text import parse_aggregate, parse_expression, split_alias

SCHEMA = pa.schema([("km", pa.int64()), ("Two words", pa.string()), ("replace", pa.string()), ("D", pa.date32())])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("km > 4", col("km") > 4),
        ("Two words", col("Two words")),
        ('"Two words"', col("Two words")),
        ("d", col("D")),
        ("replace", col("replace")),
        ("input.km + 1 -- one more", col("km") + 1),
    ],
)
def test_expressions(text: str, expected: object) -> None:
    assert repr(parse_expression(text, SCHEMA, "filter()")) == repr(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kk > 4", r"filter\(\): 'kk > 4': unknown column 'kk'"),
        ("input", r"unknown column 'input' in filter\(\)"),
        ("km +", r"filter\(\): 'km \+': syntax error"),
        ("sum(km) > 1", "'sum.km. > 1' is an aggregate; use aggregate"),
        ("row_number() over ()", "is not a single expression over the input's columns"),
        ("km in (select 1)", "is not a single expression over the input's columns"),
        ("random()", "is not a single expression over the input's columns"),
        ("km, km", "it must be one expression, without a name"),
        ("km as x", "it must be one expression, without a name"),
        ("km; km", "it must be one expression, without a name"),
        ("", "it must be one expression, without a name"),
        ("km from t", "is not supported"),
        ("*", "is not supported"),
    ],
)
def test_texts_that_are_no_expression(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_expression(text, SCHEMA, "filter()")


def test_aggregates() -> None:
    call = parse_aggregate("sum(distinct km) filter (where d is not null)", "n", SCHEMA, "aggregate()")
    assert (call.name, call.function, call.distinct) == ("n", "sum", True)
    assert repr(call.arguments) == repr((col("km"),))
    assert repr(call.filter) == repr(col("D").is_not_null())
    call = parse_aggregate("string_agg(replace, ',' order by km desc)", "n", SCHEMA, "aggregate()")
    assert call.order == ((True, False),)
    assert parse_aggregate("count(*)", "n", SCHEMA, "aggregate()").arguments == ()
    assert parse_aggregate("count_if(km > 1)", "n", SCHEMA, "aggregate()").function == "sum"


@pytest.mark.parametrize("text", ["km", "sum(km) + 1", "sum(km) / sum(km)", "sum(km) over ()"])
def test_texts_that_are_no_aggregate(text: str) -> None:
    with pytest.raises(PlanError, match=r"aggregate\(\): .* must be one aggregate, such as sum.x."):
        parse_aggregate(text, "n", SCHEMA, "aggregate()")


def test_names_behind_as() -> None:
    assert split_alias("a + 1 as b") == ("a + 1", "b")
    assert split_alias('a AS "two ""words"""') == ("a", 'two "words"')
    assert split_alias("cast(a as int)") == ("cast(a as int)", None)
