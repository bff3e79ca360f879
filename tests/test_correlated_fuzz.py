"""Random correlated subqueries against DuckDB (SPEC Q2).

The cases are some of those of `python -m sql_fuzz.correlated`, and many in other queries.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sql_fuzz.cases import Fuzzer
from sql_fuzz.correlated import Correlated, correlate_subqueries, difference, tables
from sql_fuzz.shapes import SHAPES
from sweeps import every


@pytest.mark.parametrize("group", every(4, range(8)))
def test_random_correlated_queries_answer_as_duckdb_does(group: int) -> None:
    outcomes = []
    for number in range(6):
        rng = random.Random(f"{group} {number}")
        data, query = tables(rng), Correlated(rng).statement()
        outcomes.append(difference(query, data))
        assert not (outcomes[-1] or "").startswith("differs"), f"{query}\n{outcomes[-1]}"
    assert outcomes.count(None) > 3, outcomes


def test_correlated_queries_among_others(tmp_path: Path) -> None:
    fuzzer = Fuzzer(31, 2, tmp_path, {**SHAPES, correlate_subqueries: 60})
    for number in range(140, 150):
        assert fuzzer.case(number) is None
    fuzzer.close()
    assert fuzzer.n_compared > 5
