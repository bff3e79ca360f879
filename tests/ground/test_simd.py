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
from qcore_testing.units import scatter_to_parts, scatter_to_runs
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


@pytest.mark.parametrize("type", [pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("n", [1, 15, 16, 17, 2048, 2051])
def test_comparisons_of_integers(level: int, type: pa.DataType, n: int) -> None:
    """Many values are equal, and some are the least and the greatest."""
    rng = np.random.default_rng(n)
    bits = type.bit_width - 1
    values = np.array([-(2**bits), -2, -1, 0, 1, 2, 2**bits - 1])
    batch = pa.record_batch({name: pa.array(rng.choice(values, n), type) for name in "ab"})
    a, b = col("a"), col("b")
    for other, name in [(b, "b"), (1, "1")]:
        for expr, sign in [
            (a == other, "="), (a != other, "<>"), (a < other, "<"),
            (a <= other, "<="), (a > other, ">"), (a >= other, ">="),
        ]:  # fmt: skip
            check(batch, expr, f"a {sign} {name}")


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


@pytest.mark.each_value
@pytest.mark.parametrize(("width", "n_columns"), [(1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (8, 2)])
@pytest.mark.parametrize("n", [1, 100, 2048])
@pytest.mark.parametrize("n_parts", [1, 3, 256])
def test_values_go_to_their_parts(level: int, width: int, n_columns: int, n: int, n_parts: int) -> None:
    """Full lines of 64 bytes are in the parts, the last values of a part in its line. Some parts have values before."""
    rng = np.random.default_rng(n + width)
    capacity, in_line = 2240, 64 // width
    columns = [rng.integers(1, 256, n * width).astype(np.uint8) for _ in range(n_columns)]
    parts = rng.integers(0, n_parts, n).astype(np.uint8)
    before = [part * 7 % 150 for part in range(256)]
    counts, outs, lines = scatter_to_parts(Account(), width, columns, parts, capacity, before)
    assert counts == [before[part] + int((parts == part).sum()) for part in range(256)]
    for values, out, line in zip(columns, outs, lines, strict=True):
        for part, count in enumerate(counts):
            wanted = bytes(before[part] * width) + values.reshape(n, width)[parts == part].tobytes()
            full = count // in_line * 64
            assert out[part * capacity * width :][:full] == wanted[:full]
            assert line[part * 64 :][: count * width - full] == wanted[full:]


@pytest.mark.each_value
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("n_runs", [1, 8, 64, 512])
def test_runs_go_to_their_positions(level: int, width: int, n_runs: int) -> None:
    """Runs begin at any value of a line. Nothing beside them is written."""
    rng = np.random.default_rng(n_runs)
    n = 2048
    values = rng.integers(1, 256, n * width).astype(np.uint8)
    rows = rng.permutation(n).astype(np.uint32)
    ends = np.sort(rng.integers(0, n + 1, n_runs)).astype(np.uint32)
    first = [int(end) for end in [0, *ends[:-1]]]
    starts = [(before + 5 * run + 1) * width for run, before in enumerate(first)]
    n_bytes = (n + 5 * n_runs + 1) * width
    wanted = bytearray(n_bytes)
    for start, begin, end in zip(starts, first, ends, strict=True):
        run = values.reshape(n, width)[rows[begin:end]].tobytes()
        wanted[start : start + len(run)] = run
    assert scatter_to_runs(Account(), width, values, rows, ends, starts, n_bytes) == bytes(wanted)
