"""Random correlated subqueries against DuckDB (SPEC Q2): some of those that `python -m sql_fuzz.correlated` makes."""

from __future__ import annotations

import random

import pytest

from sql_fuzz.correlated import Correlated, difference, tables


@pytest.mark.parametrize("group", range(8))
def test_random_correlated_queries_answer_as_duckdb_does(group: int) -> None:
    outcomes = []
    for number in range(6):
        rng = random.Random(f"{group} {number}")
        data, query = tables(rng), Correlated(rng).statement()
        outcomes.append(difference(query, data))
        assert not (outcomes[-1] or "").startswith("differs"), f"{query}\n{outcomes[-1]}"
    assert outcomes.count(None) > 3, outcomes
