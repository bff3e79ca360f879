"""A table of every type, and expressions over it evaluated by the engine and by DuckDB."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import duckdb
import numpy as np
import pyarrow as pa

from qcore.expression.tree import lit
from qcore.functions.catalogue import expr_type
from qcore.lowering.compile import compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account

D = decimal.Decimal
SIZES = (0, 1, 2047, 2048, 2049, 5000)
WORDS = [
    "", "a", "A", " pad ", "special requests", "the special packages requests nag", "PROMO BRUSHED COPPER", "MAIL",
    "AIR REG", "exactly12byt", "thirteen bytes", "éclair größe", "日本語テキスト", "x" * 40, "1995-03-15",
    "under_score%",
]  # fmt: skip


def make_table(n: int, nulls: bool = True) -> pa.RecordBatch:
    rng = np.random.default_rng(7)

    def column(values: list, type_: pa.DataType) -> pa.Array:
        mask = rng.random(n) < 0.15 if nulls else np.zeros(n, bool)
        return pa.array([None if m else v for v, m in zip(values, mask, strict=True)], type_)

    def integers(low: int, high: int) -> list[int]:
        return [int(v) for v in rng.integers(low, high, n)]

    def decimals(low: int, high: int, scale: int) -> list[D]:
        return [D(v).scaleb(-scale) for v in integers(low, high)]

    dates = [dt.date(1992, 1, 1) + dt.timedelta(days=v) for v in integers(0, 2600)]
    return pa.record_batch(
        {
            "b": column([bool(v) for v in integers(0, 2)], pa.bool_()),
            "c": column([bool(v) for v in integers(0, 2)], pa.bool_()),
            "i8": column(integers(-100, 100), pa.int8()),
            "i16": column(integers(-100, 100), pa.int16()),
            "i32": column(integers(-1000, 1000), pa.int32()),
            "i64": column(integers(-(10**6), 10**6), pa.int64()),
            "j64": column(integers(1, 50), pa.int64()),
            "u32": column(integers(0, 1000), pa.uint32()),
            "f": column([float(v) for v in rng.normal(size=n)], pa.float64()),
            "g": column([float(v) for v in rng.choice([0.0, 1.5, -2.0, math.inf, math.nan], n)], pa.float64()),
            "f32": column([float(v) for v in rng.integers(-8, 8, n) / 4], pa.float32()),
            "p": column(decimals(90000, 10494950, 2), pa.decimal128(15, 2)),
            "d": column(decimals(0, 11, 2), pa.decimal128(15, 2)),
            "q": column(decimals(-500, 500, 0), pa.decimal128(9, 0)),
            "w": column(decimals(-(10**17), 10**17, 4), pa.decimal128(30, 4)),
            "t": column(dates, pa.date32()),
            "u": column([dates[-1 - k] for k in range(n)], pa.date32()),
            "ts": column(
                [dt.datetime(1995, 1, 1) + dt.timedelta(microseconds=v * 1001) for v in integers(0, 10**12)],
                pa.timestamp("us"),
            ),
            "s": column([WORDS[v] for v in integers(0, len(WORDS))], pa.string()),
            "r": column([WORDS[v] for v in integers(0, len(WORDS))], pa.string()),
        }
    )


def evaluate(batch: pa.RecordBatch, *exprs) -> pa.RecordBatch:
    program = compile_projection([(f"x{i}", expr) for i, expr in enumerate(exprs)], batch.schema)
    result = pa.record_batch(Evaluator(program, Account()).project_batch(batch))
    result.validate(full=True)
    return result


def oracle(batch: pa.RecordBatch, sql: str) -> list:
    connection = duckdb.connect()
    connection.register("t", pa.Table.from_batches([batch]))
    return [row[0] for row in connection.execute(f"select {sql} from t").fetchall()]


def same(a, b) -> bool:
    if isinstance(a, float) and isinstance(b, float | D):
        b = float(b)
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dt.datetime) or isinstance(b, dt.datetime):
        whole = [
            v if isinstance(v, dt.datetime) else dt.datetime(v.year, v.month, v.day) for v in (a, b) if v is not None
        ]
        return len(whole) != 1 and (not whole or whole[0] == whole[1])
    return a == b


def check(batch: pa.RecordBatch, expr, sql: str) -> None:
    got = evaluate(batch, expr)
    assert got.schema.field(0).type == expr_type(expr, batch.schema)
    want = oracle(batch, sql)
    values = got.column(0).to_pylist()
    assert len(values) == len(want)
    for row, (a, b) in enumerate(zip(values, want, strict=True)):
        assert same(a, b), f"row {row}: {a!r}, DuckDB has {b!r}: {batch.slice(row, 1).to_pylist()}"


def day(text: str):
    return lit(dt.date.fromisoformat(text))


def array(values: list, type_: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(values, type_)})
