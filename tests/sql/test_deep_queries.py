"""Long chains of operators, deep nesting and long lists give an answer or a PlanError. SPEC Q1, Q2."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import qcore
from qcore import PlanError
from qcore.expression.tree import col, depth, lit
from qcore.lowering.compile import compile_projection

T = pa.table({"a": [1, 2, None, 4], "s": ["x", "yz", None, ""], "b": [True, False, None, True]})


def chain(operator, n, term):
    return operator.join(map(term, range(n)))


def nest_text(opens, n, closes, inner="a"):
    return opens * n + inner + closes * n


def answer(text):
    return qcore.sql(text, {"t": T}).to_arrow().to_pydict()


def expected(text):
    connection = duckdb.connect()
    connection.register("t", T)
    connection.execute("set max_expression_depth to 20000")
    return connection.sql(text).to_arrow_table().to_pydict()


@pytest.mark.parametrize(
    "text",
    [
        f"select {chain(' + ', 600, lambda i: f'a * {i}')} as x from t",
        f"select {chain(' - ', 300, lambda i: f'a % {i + 1}')} as x from t",
        f"select {chain(' * ', 300, lambda i: 'a' if i < 9 else '1')} as x from t",
        f"select {chain('||', 300, lambda i: 's')} as x from t",
        f"select a from t where {chain(' and ', 700, lambda i: f'a <> {i + 9}')}",
        f"select a from t where not b or {chain(' or ', 300, lambda i: f'a between {i + 3} and {i + 4} and b')}",
        f"select case {chain(' ', 300, lambda i: f'when a = {i + 2} then {i}')} end as x from t",
        f"select a from t where a in ({chain(', ', 10_000, str)})",
        f"select a from t where s not in ({chain(', ', 10_000, lambda i: chr(39) + str(i) + chr(39))})",
        f"select {nest_text('(1 + ', 60, ')')} as x from t",
        f"select {nest_text('case when b then 1 else ', 60, ' end')} as x from t",
        f"select a from {nest_text('(select a from ', 60, ')', 't')}",
        f"select a from t where {nest_text('not ', 60, '', 'b')}",
        f"with c0 as (select a from t), {chain(', ', 300, lambda i: f'c{i + 1} as (select a + 1 as a from c{i})')} "
        "select a from c300",
    ],
    ids=lambda text: f"{text[:30]}…",
)  # fmt: skip
def test_long_and_deep_ones_have_answers(text):
    assert answer(text) == expected(text)


@pytest.mark.parametrize(
    ("opens", "closes"), [("(", ")"), ("abs(", ")"), ("case when b then 1 else ", " end"), ("- ", "")]
)
def test_deep_ones_have_answers(opens, closes):
    text = f"select {nest_text(opens, 300, closes)} as x from t"
    assert answer(text) == expected(text)


@pytest.mark.parametrize(("opens", "closes"), [("(", ")"), ("abs(", ")"), ("case when b then 1 else ", " end")])
def test_deep_nesting_is_refused(opens, closes):
    with pytest.raises(PlanError, match="nested too deeply"):
        answer(f"select {nest_text(opens, 3000, closes)} as x from t")


def test_deep_subqueries_and_long_chains_of_divisions_have_answers():
    text = f"select a from {nest_text('(select a from ', 300, ') as q', 't')}"
    assert answer(text) == expected(text)
    text = f"select {chain(' / ', 300, lambda i: 'a')} as x from t"
    assert answer(text) == expected(text)


def test_an_expression_too_deep_for_any_stack_is_refused():
    expr = col("a")
    for _ in range(5000):
        expr = expr + lit(1)
    assert depth(expr) == 5001
    with pytest.raises(PlanError, match="nested too deeply"):
        compile_projection([("x", expr)], T.schema)


def _terms(rng, kind):
    if kind == "condition":
        return rng.choice(
            ["x = 1", "x between 1 and 3", "not x = 2", "x in (1, 2)", "y is null", "x + 1 > y - 2", "(x = 1 or y = 2)",
             "case when x = 1 or y = 2 and x = 3 then true else false end", "x not between 2 and y", "y = x"]
        )  # fmt: skip
    return rng.choice(
        [str(rng.randint(1, 9)), f"(1-{rng.randint(1, 9)})", "(-2)", "case when 1=1 and x<>1 then 3 + 4 else 1 end",
         "2*3-1", "length('a+b - c')", "cast(1e0 as int)", "coalesce(x, 1 - 2, y)", "(- -3)"]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_long_chains_of_mixed_operators(seed):
    rng = random.Random(seed)
    n = rng.choice([35, 70, 120])
    kind = rng.choice(["condition", "number"])
    operators = [" + ", "-", " - ", "+"] if kind == "number" else rng.choice([[" and "], [" or "], [" and ", " or "]])
    text = "".join(_terms(rng, kind) + rng.choice(operators) for _ in range(n)) + _terms(rng, kind)
    query = f"select {text} as v from (values (1, 2), (2, null), (3, 3)) w(x, y)"
    connection = duckdb.connect()
    connection.execute("set max_expression_depth to 20000")
    found = qcore.sql(query, {}).to_arrow().column(0).to_pylist()
    assert found == [value for (value,) in connection.sql(query).fetchall()]
