"""The kernels of all instruction sets of the processor give the same results. SPEC H1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Case, call, col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account
from random_tables import random_table

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


POSITION_TYPES = {
    "a": pa.int8(),
    "b": pa.int16(),
    "c": pa.float32(),
    "d": pa.int64(),
    "e": pa.decimal128(30, 2),
    "f": pa.decimal128(12, 2),
    "s": pa.string(),
    "t": pa.large_string(),
    "code": pa.dictionary(pa.int32(), pa.int64()),
}


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("null_share", [0.0, 0.2])
@pytest.mark.parametrize("pattern", ["few", "half", "most", "all but one", "a block"])
def test_rows_by_position(level: int, n: int, null_share: float, pattern: str) -> None:
    """Consecutive rows are copied together, others one by one. Decimals are narrowed meanwhile."""
    rows, rng = np.arange(n), np.random.default_rng(n)
    share = {"few": 0.02, "half": 0.5, "most": 0.97}.get(pattern, 1.1)
    kept = rng.random(n) < share
    if pattern == "all but one":
        kept = rows != n // 2
    elif pattern == "a block":
        kept = (rows >= n // 3) & (rows < n // 3 + n // 8) & (rows % 53 != 7)
    table = random_table(n, n, POSITION_TYPES, null_share).append_column("kept", pa.array(kept))
    batch = pa.RecordBatch.from_struct_array(table.to_struct_array().combine_chunks())
    selected = Evaluator(compile_predicate(col("kept"), batch.schema), Account()).select_batch(batch)
    wanted = batch.filter(pa.array(kept))
    got = pa.record_batch(selected)
    got.validate(full=True)
    for name in POSITION_TYPES:
        assert got[name].to_pylist() == wanted[name].to_pylist(), name
    twice = compile_projection([("f", col("f") + col("f")), ("n", call("length", col("s")))], batch.schema)
    computed = pa.record_batch(Evaluator(twice, Account()).project_batch(selected))
    assert computed["f"].to_pylist() == [None if v is None else v + v for v in wanted["f"].to_pylist()]
    assert computed["n"].to_pylist() == [None if v is None else len(v) for v in wanted["s"].to_pylist()]
