"""Every instruction set the processor has gives the same answers. SPEC H1."""

from __future__ import annotations

import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Case, call, col, lit
from qcore.lowering.compile import compile_predicate
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account

EXPRESSIONS = [
    (col("p") * (1 - col("d")), "p * (1 - d)"),
    (col("w") + col("p"), "w + p"),
    (col("i64") * col("j64"), "i64 * j64"),
    (col("i32") + col("i16"), "i32 + i16"),
    (col("f") * col("g"), "f * g"),
    (col("g") < col("f"), "g < f"),
    (col("t") >= col("u"), "t >= u"),
    (col("i64") != col("j64"), "i64 <> j64"),
    (col("s") == "MAIL", "s = 'MAIL'"),
    (call("length", col("s")), "length(s)"),
    ((col("b") & col("c")) | (col("i8") > 0), "(b and c) or i8 > 0"),
    (Case(((col("b"), col("p")), (col("c"), col("w"))), lit(0)), "case when b then p when c then w else 0 end"),
]


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
def test_levels_agree_with_duckdb(level: int, n: int) -> None:
    batch = make_table(n)
    for expr, sql in EXPRESSIONS:
        check(batch, expr, sql)
    evaluator = Evaluator(compile_predicate((col("i64") > 0) & (col("t") < "1996-01-01"), batch.schema), Account())
    kept = [r for r in batch.to_pylist() if (r["i64"] or 0) > 0 and r["t"] and str(r["t"]) < "1996-01-01"]
    assert len(evaluator.select_batch(batch)) == len(kept)
