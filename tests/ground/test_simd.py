"""Every instruction set the processor has gives the same answers. SPEC H1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Case, call, col, lit
from qcore.lowering.compile import compile_predicate
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account
from qcore_ext.ground.simd import instruction_set, use_level

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


@pytest.fixture(params=[2, 3, 4])
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    if not use_level(request.param):
        pytest.skip("the processor has not got it")
    yield request.param
    assert any(use_level(best) for best in (4, 3, 2))


def test_the_best_level_is_the_default() -> None:
    assert instruction_set() in ("baseline", "x86-64-v3", "x86-64-v4")


@pytest.mark.parametrize("n", SIZES)
def test_levels_agree_with_duckdb(level: int, n: int) -> None:
    batch = make_table(n)
    for expr, sql in EXPRESSIONS:
        check(batch, expr, sql)
    evaluator = Evaluator(compile_predicate((col("i64") > 0) & (col("t") < "1996-01-01"), batch.schema), Account())
    kept = [r for r in batch.to_pylist() if (r["i64"] or 0) > 0 and r["t"] and str(r["t"]) < "1996-01-01"]
    assert len(evaluator.select_batch(batch)) == len(kept)
