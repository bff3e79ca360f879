"""The evaluator: selections of predicates against DuckDB, projections of selections, and errors. SPEC Q3."""

from __future__ import annotations

import datetime as dt
import decimal

import duckdb
import pyarrow as pa
import pytest
from expression_table import SIZES, make_table

from qcore.errors import ExecutionError
from qcore.expression.tree import call, col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account

D = decimal.Decimal

PREDICATES = [
    (col("t") <= "1994-06-01", "t <= date '1994-06-01'"),
    (
        (col("t") >= "1994-01-01")
        & (col("t") < "1995-01-01")
        & col("d").between(D("0.05"), D("0.07"))
        & (col("p") < 24000),
        "t >= date '1994-01-01' and t < date '1995-01-01' and d between 0.05 and 0.07 and p < 24000",
    ),
    ((col("i64") > 900_000) & col("s").like("%special%"), "i64 > 900000 and s like '%special%'"),
    (
        col("s").like("%special%") & (col("r") == "MAIL") & (col("j64") == 3),
        "s like '%special%' and r = 'MAIL' and j64 = 3",
    ),
    ((col("i64") > 0) | (col("j64") > 10), "i64 > 0 or j64 > 10"),
    ((col("i16") != 0) & (col("i64") / col("i16") > 3), "i16 <> 0 and i64 // nullif(i16, 0) > 3"),
    ((col("i64") / col("i16") > 3) & (col("i16") != 0), "i16 <> 0 and i64 // nullif(i16, 0) > 3"),
    (col("b"), "b"),
    (lit(True), "true"),
    (lit(False), "false"),
    (lit(None, pa.bool_()), "null"),
    (col("i64").is_null(), "i64 is null"),
    (col("j64") > 1000, "j64 > 1000"),
    (col("j64") > 0, "j64 > 0"),
]


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("expr", "sql"), PREDICATES, ids=[sql for _, sql in PREDICATES])
def test_predicates_select_what_duckdb_does(expr, sql, n):
    batch = make_table(n)
    evaluator = Evaluator(compile_predicate(expr, batch.schema), Account())
    connection = duckdb.connect()
    connection.register("t", pa.Table.from_batches([batch]))
    want = connection.execute(f"select p, s, i64 from t where {sql}").fetchall()
    for _ in range(3):  # conjuncts are reordered between batches
        got = pa.record_batch(evaluator.select_batch(batch)).select(["p", "s", "i64"])
        assert [tuple(row.values()) for row in got.to_pylist()] == want


def test_predicates_of_a_selection():
    """Two filters and a projection above them, with dense and sparse selections."""
    batch = make_table(5000)
    rows = batch.to_pylist()
    first = Evaluator(compile_predicate(col("t") > "1993-01-01", batch.schema), Account())
    for limit in (100, 900_000):
        second = Evaluator(compile_predicate(col("i64") > limit, batch.schema), Account())
        project = Evaluator(
            compile_projection(
                [("x", col("p") * (1 - col("d"))), ("s", col("s")), ("k", lit("a constant string"))], batch.schema
            ),
            Account(),
        )
        selected = second.select_batch(first.select_batch(batch))
        got = pa.record_batch(project.project_batch(selected)).to_pylist()
        kept = [
            r for r in rows if r["t"] and r["t"] > dt.date(1993, 1, 1) and r["i64"] is not None and r["i64"] > limit
        ]
        assert [row["s"] for row in got] == [row["s"] for row in kept]
        assert [row["x"] for row in got] == [
            None if r["p"] is None or r["d"] is None else r["p"] * (1 - r["d"]) for r in kept
        ]


def test_errors_of_rows_not_selected_do_not_count():
    batch = pa.record_batch({"a": pa.array([1, 0, 2] * 3000), "k": pa.array([True, False, True] * 3000)})
    keep = Evaluator(compile_predicate(col("k"), batch.schema), Account())
    divide = Evaluator(compile_projection([("x", 10 / col("a"))], batch.schema), Account())
    assert pa.record_batch(divide.project_batch(keep.select_batch(batch))).column(0).to_pylist() == [10, 5] * 3000
    with pytest.raises(ExecutionError, match="division by zero"):
        divide.project_batch(batch)


def test_a_failing_conjunct_counts_only_where_the_others_hold():
    batch = pa.record_batch({"a": pa.array([1, 0, 2] * 3000), "k": pa.array([True, True, False] * 3000)})
    with pytest.raises(ExecutionError, match="division by zero"):
        Evaluator(compile_predicate((10 / col("a") > 1) & col("k"), batch.schema), Account()).select_batch(batch)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("keep_every", [2, 40])
def test_projection_of_dense_and_sparse_selections(n, keep_every):
    """Few selected rows are gathered first, many are computed with all others. The results are equal."""
    batch = pa.record_batch({"a": pa.array([None if i % 9 == 4 else i for i in range(n)], pa.int64())})
    keep = Evaluator(compile_predicate(call("modulo", col("a"), lit(keep_every)) == 0, batch.schema), Account())
    twice = Evaluator(compile_projection([("x", col("a") * 2)], batch.schema), Account())
    got = pa.record_batch(twice.project_batch(keep.select_batch(batch))).column(0).to_pylist()
    assert got == [i * 2 for i in range(n) if i % 9 != 4 and i % keep_every == 0]


def test_memory_is_returned():
    account = Account()
    evaluator = Evaluator(compile_projection([("x", col("i64") + 1)], make_table(10).schema), account)
    result = evaluator.project_batch(make_table(5000))
    assert account.reserved_bytes > 0
    del result, evaluator
    assert account.reserved_bytes == 0
