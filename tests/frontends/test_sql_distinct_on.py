"""DISTINCT ON with many keys to order by, and aggregates with many keys of their own, beside DuckDB's. SPEC Q2."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError

N_COLUMNS, N_ROWS = 40, 5_000
KEYS = [f"c{n}" for n in range(N_COLUMNS)]


def table() -> pa.Table:
    """Groups g whose rows are equal in nearly all columns, so that the last keys decide."""
    rng = random.Random(7)
    columns = {
        name: [rng.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, None]) for _ in range(N_ROWS)] for name in KEYS
    }
    return pa.table({"g": [n % 7 for n in range(N_ROWS)], **columns, "i": rng.sample(range(N_ROWS), N_ROWS)})


def order(columns: list[str]) -> str:
    ways = ["", " desc", " nulls first", " desc nulls last"]
    return ", ".join(f"{name}{ways[n % 4]}" for n, name in enumerate(columns))


@pytest.mark.parametrize(
    "query",
    [
        f"select distinct on (g) g, c3, i from t order by g, {order([*KEYS, 'i'])}",
        f"select distinct on (c0, g) * from t order by c0 desc, g, {order([*KEYS[1:], 'i'])}",
        f"select g, first(i order by {order([*KEYS, 'i'])}), last(i order by {order([*KEYS, 'i'])}) from t group by g",
        f"select g, array_agg(i order by {order([*KEYS, 'i'])}) from t where i < 90 group by g",
        f"select i, last_value(i order by {order([*KEYS, 'i'])}) over (partition by g order by i) from t where i < 99",
    ],
)
def test_many_keys(query: str) -> None:
    rows = table()
    database, session = duckdb.connect(), qcore.Session(threads=2, dialect="duckdb")
    database.register("t", rows)
    session.register("t", rows)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())


def test_too_many_keys_are_said() -> None:
    keys = ", ".join(f"i + {n}" for n in range(70))
    with pytest.raises(PlanError, match="has 71 arguments and sort keys; the most that it supports is 64"):
        qcore.sql(f"select array_agg(i order by {keys}) from t", {"t": table()}).to_arrow()
