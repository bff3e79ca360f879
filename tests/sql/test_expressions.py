"""Operators, CASE, casts, patterns and nested values, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import random

import pytest
from bound_queries import SCHEMAS, check, rows

from qcore.errors import PlanError, QcoreError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select -2 ^ 2, 2 ** 3, 7 // 2, 7 % 3, 1 << 3, ~5, 5 & 3, 5 | 3, xor(5, 3)",
        "select a between 1 and 2, a is null, a is not distinct from 2, a is distinct from 2 from t",
        "select b like 'x%', b not like 'x%', b ilike 'X', b glob 'x*', b like 'x!%' escape '!' from t",
        "select case a when 1 then 'one' when 2 then 'two' else 'x' end, case when a is null then 1 end from t",
        "select l[1:2:2], l[:-:2], l[1:3:1], l[-1:1:-1], l[:-:-1], l[2:1:-2], l[:1:-1] from t",
        "select l[1], l[-1], l[1:2], {'a': 1, 'b': 'x'}, {'a': 1}.a, [1, 2], map {'k': 1}['k'] from t",
        "select cast(a as varchar), a::double, try_cast(b as int) from t",
        "select extract(year from date '2020-02-03'), trim(both 'x' from 'xax'), substring('abc' from 2 "
        "for 1), position('b' in 'abc')",
        "select (a, b) = (1, 'x'), (a, b) in ((1, 'x'), (2, 'z')) from t where a is not null",
        "select a in (1, 2), a not in (1, null) from t where l is not null",
        "select nullif(a, 2), coalesce(a, 0), greatest(a, 3), if(a > 1, 'p', 'q'), ifnull(a, 9) from t",
        "select not a = 1 and (b = 'y' or c > 1) from t",
        "select ceil(c), floor(c), round(c), abs(-a), a || b from t",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select b + c from t where b > date '2020-01-01' and zz", "unknown column 'zz'"),
        ("select nosuch(a) from t", "unknown function 'nosuch'"),
        ("select a collate nocase from t", "COLLATE"),
        ("select b[1:2:1] from t", "a slice of a text has no step"),
        ("select l[:2:a] from t", "a slice with a computed step needs both of its ends"),
        ("select b not like any ('x%', 'y%') from t", r"NOT with LIKE ANY or ALL is not supported; write NOT \(x LIKE"),
        ("select not b like all ('x%', 'y%') from t", "NOT with LIKE ANY or ALL is not supported"),
        ("select b like any (select b from u) from t", "LIKE ANY of SUBQUERY is not supported; write the patterns"),
        ("select b ilike all (l) from t", "ILIKE ALL of COLUMN is not supported"),
        ("select a is 3 from t", "IS LITERAL is not supported; x IS NOT DISTINCT FROM y"),
        ("select substr(b, start := 1) from t", r"an argument with a name is not supported.*line 1, column 18"),
        ("select round(c, places => 1) from t", "an argument with a name is not supported"),
        ("select cast(a as nosuchtype) from t", "(?i)nosuchtype"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_like_any_and_all() -> None:
    """DuckDB lacks them. The oracle has chains of OR and AND."""
    for word, connective, listed in (
        ("like any", "or", "('x%', 'Y%', null)"), ("like all", "and", "(['x%', '%x'])"),
        ("ilike any", "or", "(array['X', 'q'])"), ("ilike all", "and", "('%')"),
    ):  # fmt: skip
        operator = word.split()[0]
        patterns = listed.strip("(ary[])").split(", ")
        chain = f" {connective} ".join(f"b {operator} {pattern}" for pattern in patterns)
        assert rows(f"select b {word} {listed} from t") == rows(f"select {chain} from t")
        assert rows(f"select not (b {word} {listed}) from t") == rows(f"select not ({chain}) from t")
    assert rows("select b like any ('x!%', 'y!%') escape '!' from t where a = 1") == [(False,)]


def test_long_chains_and_deep_nesting() -> None:
    """They give an answer or a PlanError."""
    assert rows(f"select count(*) from t where {' or '.join(f'a = {n}' for n in range(500))}") == [(4,)]
    assert rows(f"select {'(' * 500}1{')' * 500}") == [(1,)]
    assert rows(f"select {' + '.join(['a'] * 300)} from t where a = 1") == [(300,)]
    assert rows(f"select {'abs(' * 300}a{')' * 300} from t where a = 1") == [(1,)]
    assert rows(f"select {' + '.join(['a'] * 1500)} from t where a = 1") == [(1500,)]
    for query in (
        f"select {' + '.join(['a'] * 6000)} from t where a = 1",
        f"select {'case when a = 1 then ' * 3000}1{' end' * 3000} from t",
        f"select {'abs(' * 3000}a{')' * 3000} from t",
        f"select {'(select ' * 3000}1{')' * 3000}",
    ):
        with pytest.raises(QcoreError, match=r"nested too deeply|RecursionError"):
            rows(query)


@pytest.mark.parametrize("seed", range(25))
def test_operators_bind_as_duckdbs(seed: int) -> None:
    """The precedence of % differs between versions of sqlglot."""
    rng = random.Random(seed)
    operators = ["+", "-", "*", "//", "%", "%", "%"]
    chains = []
    for _ in range(20):
        terms = [rng.choice(["7", "a", "(5 - a)", "-3", "13", "a % 2"]) for _ in range(rng.randint(2, 6))]
        chains.append("".join(f"{term} {rng.choice(operators)} " for term in terms) + "11")
    check(f"select {', '.join(f'{chain} as c{n}' for n, chain in enumerate(chains))} from u where a is not null")
