"""random() has another value in each row, and the same one wherever the column is used. SPEC Q2."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore.errors import PlanError

N = 5000
T = pa.table({"i": pa.array(range(N), pa.int64()), "g": [i % 3 for i in range(N)]})


def row(query: str, threads: int = 1) -> dict[str, Any]:
    (found,) = qcore.sql(query, {"t": T}, threads=threads).to_arrow().to_pylist()
    return dict(found)


@pytest.mark.parametrize("threads", [1, 4])
def test_q2_a_value_a_row(threads: int) -> None:
    query = (
        "select count(distinct r) as n, min(r) as low, max(r) as high, avg(r) as mean from (select random() r from t)"
    )
    found = row(query, threads)
    assert found["n"] == N
    assert 0 <= found["low"] < found["high"] < 1
    # The mean of 5,000 values is within 0.04 of 0.5, ten standard deviations.
    assert abs(found["mean"] - 0.5) < 0.04


@pytest.mark.parametrize("query", [
    "select count(*) as n from (select random() as r from t) where r > 0.5 and r <= 0.5",
    "select count(*) as n from (select r, r * 2 as d from (select random() as r from t)) where d <> r + r",
    "select count(*) as n from (select random() as a, random() as b from t) where a = b",
    "select count(*) as n from (select random() as r from t union all select random() from t) group by r having n > 1 "
    "union all select 0",
    "select count(distinct (select random())) - 1 as n from t",
    "select count(*) as n from (select floor(random() * 6) as d from t) where d < 0 or d > 5",
])  # fmt: skip
def test_q2_no_filter_or_projection_computes_it_again(query: str) -> None:
    assert row(query)["n"] == 0


def test_q2_anywhere() -> None:
    assert 0 < row("select count(*) as n from t where random() < 0.1")["n"] < N
    assert row("select count(distinct random()) as n from t")["n"] == N
    assert 0 <= row("select random() as r")["r"] < 1
    shuffled = qcore.sql("select i from t order by random()", {"t": T}).to_arrow()["i"].to_pylist()
    assert shuffled != sorted(shuffled) == list(range(N))


def test_q2_no_seed() -> None:
    with pytest.raises(PlanError, match="unknown function 'setseed'"):
        qcore.sql("select setseed(0.5)", {})


@pytest.mark.parametrize(
    ("name", "type_"),
    [("rand", pa.float64()), ("RANDOM", pa.float64()), ("uuid", pa.uuid()), ("gen_random_uuid", pa.uuid()),
     ("uuidv4", pa.uuid())],
)  # fmt: skip
def test_other_names(name: str, type_: pa.DataType) -> None:
    found = qcore.sql(f"select {name}() as r from t", {"t": T}).to_arrow()
    assert found.schema.types == [type_] and len(set(found["r"].to_pylist())) == N


@pytest.mark.parametrize(
    ("dialect", "type_"), [("postgresql", pa.uuid()), ("duckdb", pa.uuid()), ("spark", pa.string())]
)
def test_uuids_of_spark_are_text(dialect: str, type_: pa.DataType) -> None:
    found = qcore.sql("select uuid() as u from t", {"t": T}, dialect=dialect).to_arrow()
    assert found.schema.types == [type_] and len({str(value) for value in found["u"].to_pylist()}) == N
