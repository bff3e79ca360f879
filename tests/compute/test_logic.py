"""Three-valued logic and tests for null and truth, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Expr, call, col, lit

TABLE = make_table(2500)

CASES = [
    (col("b") & col("c"), "b and c"),
    (col("b") | col("c"), "b or c"),
    (~col("b"), "not b"),
    ((col("b") & col("c")) | ~(col("b") | col("c")), "(b and c) or not (b or c)"),
    (col("b") & lit(None, pa.bool_()), "b and null"),
    (col("b") | lit(None, pa.bool_()), "b or null"),
    (col("b") & col("c") & (col("i64") > 0), "b and c and i64 > 0"),
    (col("b").is_null(), "b is null"),
    (col("s").is_not_null(), "s is not null"),
    (call("is_true", col("b")), "b is true"),
    (call("is_not_true", col("b")), "b is not true"),
    (call("is_false", col("b")), "b is false"),
    (call("is_not_false", col("b")), "b is not false"),
    (col("b") & True, "b and true"),
]


@pytest.mark.parametrize(("expr", "sql"), CASES, ids=[sql for _, sql in CASES])
def test_answers_equal_duckdb(expr: Expr, sql: str) -> None:
    """Q3."""
    check(TABLE, expr, sql)


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("nulls", [False, True])
def test_vector_sizes(n: int, nulls: bool) -> None:
    """Q3: every size around the vector's, with and without nulls."""
    batch = make_table(n, nulls)
    for expr, sql in CASES[::7]:
        check(batch, expr, sql)
