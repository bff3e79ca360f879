"""Padding, repetition, reversal, split_part and concatenation of text, against DuckDB. SPEC Q3."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_table import SIZES, array, check, evaluate, make_table

from qcore.expression.tree import Expr, call, col, lit

TABLE = make_table(2500)
S, R, J = col("s"), col("r"), col("j64")

CASES = [
    (call("lpad", S, J, lit("xé")), "lpad(s, j64::int, 'xé')"),
    (call("rpad", S, J, lit("日ab")), "rpad(s, j64::int, '日ab')"),
    (call("repeat", S, J), "repeat(s, j64)"),
    (call("reverse", call("replace", S, lit("é"), lit("e"))), "reverse(replace(s, 'é', 'e'))"),
    (call("split_part", S, lit(" "), lit(2)), "split_part(s, ' ', 2)"),
    (call("split_part", S, lit("e"), lit(-2)), "split_part(s, 'e', -2)"),
    (call("split_part", S, lit("e"), J), "split_part(s, 'e', j64)"),
    (call("split_part", S, lit("special "), lit(1)), "split_part(s, 'special ', 1)"),
    (call("concat_ws", lit(", "), S, R, lit("x")), "concat_ws(', ', s, r, 'x')"),
    (call("concat_ws", R, S, S), "concat_ws(r, s, s)"),
    (call("octet_length", S), "strlen(s)"),
    (call("ascii", S), "ascii(s)"),
    (call("chr", J * 700), "chr((j64 * 700)::int)"),
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
    for expr, sql in CASES[::3]:
        check(batch, expr, sql)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 14, 40])
def test_text_around_the_inline_length(length: int) -> None:
    """Views contain up to 12 bytes inline. Results shorter and longer than that are right."""
    text = "".join(chr(97 + i % 26) for i in range(length))
    batch = array([text, None, text], pa.string())
    built = evaluate(
        batch, call("reverse", col("a")), call("repeat", col("a"), lit(2)), call("lpad", col("a"), lit(20), lit("-"))
    )
    assert built.column(0).to_pylist() == [text[::-1], None, text[::-1]]
    assert built.column(1).to_pylist() == [text * 2, None, text * 2]
    assert built.column(2).to_pylist() == [text.rjust(20, "-")[:20], None, text.rjust(20, "-")[:20]]
