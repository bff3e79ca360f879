"""Mathematical functions, rounding to a number of digits that differs by row, and bits, against DuckDB. SPEC Q3."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from expression_table import SIZES, array, check, evaluate, make_table

from qcore.errors import ExecutionError
from qcore.expression.tree import Expr, call, col, lit

TABLE = make_table(2500)
F, J, P, K = col("f"), col("j64"), col("p"), col("i64")

CASES = [
    *[
        (call(name, F), f"{name}(f)")
        for name in ("sin", "cos", "tan", "cot", "atan", "sinh", "cosh", "tanh", "asinh", "cbrt", "degrees", "radians")
    ],
    *[(call(name, F / 100), f"{name}(f / 100)") for name in ("asin", "acos", "atanh")],
    *[(call(name, J), f"{name}(j64)") for name in ("acosh", "log10", "log2")],
    (call("atan2", F, col("f32")), "atan2(f, f32::double)"),
    (call("log", lit(2), J + 1), "log(2, j64 + 1)"),
    (call("is_nan", col("g")), "isnan(g)"),
    (call("is_infinite", col("g")), "isinf(g)"),
    (call("is_finite", col("g")), "isfinite(g)"),
    (call("gcd", K, J), "gcd(i64, j64)"),
    (call("lcm", col("i16"), J), "lcm(i16, j64)"),
    (call("factorial", call("modulo", J, lit(20))), "factorial((j64 % 20)::int)"),
    (call("bitwise_and", K, J), "i64 & j64"),
    (call("bitwise_or", K, J), "i64 | j64"),
    (call("bitwise_xor", K, J), "xor(i64, j64)"),
    (call("bitwise_shift_left", J, lit(2)), "j64 << 2"),
    (call("bitwise_shift_right", K, lit(2)), "i64 >> 2"),
    (call("round", F, call("modulo", J, lit(3))), "round(f, (j64 % 3)::int)"),
    (call("trunc", F), "trunc(f)"),
    (call("trunc", P), "trunc(p)"),
    (call("trunc", col("w")), "trunc(w)"),
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


@pytest.mark.parametrize("digits", [-3, -2, -1, 0, 1, 2])
def test_integers_round_by_digits_of_their_row(digits: int) -> None:
    values = [0, 4, 5, 6, 14, 15, 25, 499, 500, 501, -5, -15, -25, -500, None]
    batch = pa.record_batch({"a": pa.array(values, pa.int64()), "d": pa.array([digits] * len(values), pa.int64())})
    step = 10 ** max(-digits, 0)
    wanted = [None if v is None else int(math.copysign((abs(v) + step // 2) // step * step, v)) for v in values]
    assert evaluate(batch, call("round", col("a"), col("d"))).column(0).to_pylist() == wanted


@pytest.mark.parametrize(
    ("name", "argument", "message"), [("factorial", 200, "factorial"), ("log10", -1.0, "log10"), ("asin", 2.0, "asin")]
)
def test_arguments_outside_the_domain_are_errors(name: str, argument: float, message: str) -> None:
    batch = array([argument], pa.float64() if isinstance(argument, float) else pa.int64())
    with pytest.raises(ExecutionError, match=message):
        evaluate(batch, call(name, col("a")))
