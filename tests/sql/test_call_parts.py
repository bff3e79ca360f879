"""Calls in a text: the name, the arguments and the keywords around them."""

from __future__ import annotations

from typing import Any

import pytest

from qcore.errors import PlanError
from qcore.functions.dialect import QCORE
from qcore.sql.call_parts import CallParts, read_call
from qcore.sql.parse import parse


def call(text: str) -> CallParts:
    """The parts of the first call of a select list. Reading them needs no binder."""
    (statement,), _ = parse(f"select {text} from t", QCORE)
    binder: Any = None
    return read_call(statement.args["expressions"][0], binder)


@pytest.mark.parametrize(
    ("text", "name", "n_arguments"),
    [
        ("f()", "f", 0),
        ("SUM(a + 1)", "SUM", 1),
        ("count(*)", "count", 1),
        ("count()", "count", 0),
        ("coalesce(a, b, 3)", "coalesce", 3),
        ("substring(a from 2 for 3)", "substring", 3),
        ("substring(a, 2)", "substring", 2),
        ("position('x' in a)", "strpos", 2),
        ("overlay(a placing 'x' from 2)", "overlay", 3),
        ("current_date", "current_date", 0),
    ],
)
def test_q1_names_and_arguments(text: str, name: str, n_arguments: int) -> None:
    parts = call(text)
    assert (parts.name.lower(), len(parts.arguments)) == (name.lower(), n_arguments)
    assert not parts.has_modifiers


def test_q1_the_order_of_arguments_is_that_of_the_function() -> None:
    """position('x' in a) becomes strpos(a, 'x')."""
    assert [part.name for part in call("position('x' in a)").arguments] == ["a", "x"]


def test_q1_modifiers_of_an_aggregate() -> None:
    parts = call("string_agg(distinct a, ',' order by b desc, c) filter (where b > 1)")
    assert parts.distinct and parts.filter is not None and parts.has_modifiers and not parts.within_group
    assert (len(parts.arguments), len(parts.order)) == (2, 2)


def test_q1_within_group() -> None:
    parts = call("percentile_cont(0.5) within group (order by a desc) filter (where b)")
    assert parts.within_group and len(parts.order) == 1 and len(parts.arguments) == 1 and parts.filter is not None


@pytest.mark.parametrize("text", ["first(a ignore nulls)", "first(a) ignore nulls"])
def test_q1_nulls_are_ignored_by_words_inside_and_behind_the_brackets(text: str) -> None:
    parts = call(text)
    assert parts.ignore_nulls and len(parts.arguments) == 1
    assert not call(text.replace("ignore", "respect")).ignore_nulls


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("array_agg(a order by b limit 2)", "LIMIT among arguments is not supported; take the rows in a subquery"),
        ("any_value(a having max b)", r"HAVING MAX and MIN among arguments.*arg_max\(x, y\)"),
    ],
)
def test_q1_unsupported_syntax_is_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        call(text)
