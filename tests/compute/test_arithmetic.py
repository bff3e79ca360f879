"""Arithmetic of every numeric type, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from expression_table import SIZES, check, make_table

from qcore import ExecutionError, PlanBuilder, Session
from qcore.expression.tree import Expr, call, col, lit

D = decimal.Decimal
TABLE = make_table(2500)

CASES = [
    (col("p") * (1 - col("d")), "p * (1 - d)"),
    (col("p") * (1 - col("d")) * (1 + col("d")), "p::decimal(12,2) * (1 - d)::decimal(5,2) * (1 + d)::decimal(5,2)"),
    (col("p") + col("q"), "p + q"),
    (col("q") - col("p"), "q - p"),
    (col("w") + col("p"), "w + p"),
    (col("w") - col("w"), "w - w"),
    (col("p") / col("d"), "case when d = 0 then p::double / 0 else p::double / d end"),
    (col("w") * 3, "w * 3"),
    (-col("w"), "-w"),
    (call("abs", col("w")), "abs(w)"),
    (call("abs", col("q")), "abs(q)"),
    (call("modulo", col("p"), lit(D("7.5"))), "p % 7.5"),
    (col("p") * col("f"), "p::double * f"),
    (col("i64") + 1, "i64 + 1"),
    (col("i64") * col("j64"), "i64 * j64"),
    (col("i32") + col("i16"), "i32 + i16"),
    (col("i8") + col("i16"), "i8 + i16"),
    (col("i16") - col("i16"), "i16 - i16"),
    (col("i64") / col("j64"), "i64 // j64"),
    (call("modulo", col("i64"), col("j64")), "i64 % j64"),
    (-col("i32"), "-i32"),
    (call("abs", col("i64")), "abs(i64)"),
    (call("sign", col("i64")), "sign(i64)"),
    (col("u32") + col("i32"), "u32::bigint + i32"),
    (col("f") + col("g"), "f + g"),
    (col("f") * 2.5, "f * 2.5::double"),
    (col("f32") + col("f32"), "f32 + f32"),
    (1.0 / col("g"), "1.0::double / g"),
    (call("round", col("p")), "round(p)"),
    (call("round", col("p"), lit(1)), "round(p, 1)"),
    (call("round", col("f")), "round(f)"),
    (call("round", col("f"), lit(2)), "round(f, 2)"),
    (call("round", col("i32")), "round(i32)"),
    (call("round", col("i64"), lit(-3)), "round(i64, -3)"),
    (call("round", col("i8"), lit(1)), "round(i8, 1)"),
    (call("floor", col("w")), "floor(w)"),
    (call("floor", col("i16")), "floor(i16)"),
    (call("ceil", col("i32")), "ceil(i32)"),
    (call("sign", col("i8")), "sign(i8)"),
    (call("sign", col("f")), "sign(f)"),
    (call("sign", col("p")), "sign(p)"),
    (-col("f32"), "-f32"),
    (call("abs", col("i8")), "abs(i8)"),
    (call("modulo", col("f"), lit(0.75)), "f % 0.75::double"),
    (col("i8") / col("j64"), "i8 // j64"),
    (call("modulo", col("i16"), lit(7, pa.int16())), "i16 % 7"),
    (call("ceil", col("w")), "ceil(w)"),
    (call("floor", col("f")), "floor(f)"),
    (call("sqrt", call("abs", col("f"))), "sqrt(abs(f))"),
    (call("exp", col("f")), "exp(f)"),
    (call("ln", call("abs", col("i64")) + 1), "ln(abs(i64) + 1)"),
    (call("power", col("f32"), lit(2)), "power(f32, 2)"),
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


@pytest.mark.parametrize("n_bits", [8, 16, 32, 64])
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("operator", ["+", "-", "*"])
def test_q3_one_past_the_range_of_each_integer(n_bits: int, is_signed: bool, operator: str) -> None:
    """Results at both ends of the type's range are right. The next value is an error, alone or among other rows."""
    type_ = getattr(pa, f"{'' if is_signed else 'u'}int{n_bits}")()
    least, most = (-(1 << n_bits - 1), (1 << n_bits - 1) - 1) if is_signed else (0, (1 << n_bits) - 1)
    fits = {"+": [(most - 1, 1), (least, 0)], "-": [(least + 1, 1), (most, 0)], "*": [(most, 1), (most // 2, 2)]}[
        operator
    ]
    past = {"+": (most, 1), "-": (least, 1), "*": (most // 2 + 1, 2)}[operator]

    def answers(pairs: list[tuple[int, int]]) -> list[int]:
        table = pa.table(
            {name: pa.array(side, type_) for name, side in zip("ab", zip(*pairs, strict=True), strict=True)}
        )
        made = {"+": col("a") + col("b"), "-": col("a") - col("b"), "*": col("a") * col("b")}[operator]
        rows = Session(threads=1).execute(PlanBuilder().values(table).project({"x": made}).build()).to_arrow()
        assert rows.schema.field("x").type == type_
        return rows["x"].to_pylist()

    assert answers(fits * 50) == [{"+": a + b, "-": a - b, "*": a * b}[operator] for a, b in fits] * 50
    with pytest.raises(ExecutionError, match=f"overflows {type_}"):
        answers([*fits * 50, past, *fits])
