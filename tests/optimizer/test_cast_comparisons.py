"""Casts that only widen are removed from comparisons with constants. Other casts stay."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qcore.expression.tree import Call, Expr, In, Literal, call, col, lit
from qcore.lowering.compile import compile_projection
from qcore.optimizer.cast_comparisons import without_cast
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account

PRICE = pa.decimal128(15, 2)
TYPES = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "d": PRICE,
    "e": pa.decimal128(6, 3),
    "day": pa.date32(),
    "f": pa.float32(),
}
SCHEMA = pa.schema(list(TYPES.items()))
MIDNIGHT = datetime(2020, 1, 2)
WIDE = pa.decimal128(22, 2)
TAKEN: list[tuple[Expr, str]] = [
    (col("i32").cast(pa.int64()) >= 1, "(i32 >= 1)"),
    (lit(1) <= col("i32").cast(pa.int64()), "(1 <= i32)"),
    (col("u8").cast(pa.int16()) == 255, "(u8 = 255)"),
    (col("u32").cast(pa.int64()).cast(pa.decimal128(19, 0)) == 5, "(u32 = 5)"),
    (col("d").cast(WIDE) >= 1, "(d >= 1.00)"),
    (col("d").cast(pa.decimal128(22, 4)) < lit(Decimal("0.5000")), "(d < 0.50)"),
    (col("i16").cast(pa.decimal128(7, 2)) == lit(Decimal("3.00")), "(i16 = 3)"),
    (call("is_distinct_from", col("i8").cast(pa.int32()), 7), "is_distinct_from(i8, 7)"),
    (col("i8").cast(pa.int32()).isin([1, 2]), "i8 in (1, 2)"),
    (col("day").cast(pa.timestamp("ms")) < lit(MIDNIGHT), "(day < 2020-01-02)"),
    (col("day").cast(pa.timestamp("s")) == lit(date(2020, 1, 2)), "(day = 2020-01-02)"),
]
KEPT: list[Expr] = [
    col("i8").cast(pa.int32()) < 300,
    col("i8").cast(pa.int32()).isin([1, 300]),
    col("i64").cast(pa.int32()) == 1,
    col("i8").cast(pa.uint64()) == 1,
    col("u64").cast(pa.int64()) == 1,
    col("d").cast(pa.decimal128(22, 1)) == 1,
    col("d").cast(pa.decimal128(15, 3)) == 1,
    col("d").cast(pa.decimal128(22, 4)) == lit(Decimal("0.0001")),
    col("d").cast(pa.int64()) == 1,
    col("d").cast(WIDE) == lit(1.0),
    col("i16").cast(pa.decimal128(6, 2)) == 1,
    col("i32").cast(pa.string()) == "1",
    col("i32").cast(pa.int64()) == lit(None, pa.int64()),
    col("day").cast(pa.timestamp("ms")) < lit(datetime(2020, 1, 2, 0, 0, 1)),
    # The cast fails for years outside of the range of microseconds.
    col("day").cast(pa.timestamp("us")) < lit(MIDNIGHT),
    col("day").cast(pa.timestamp("s", "UTC")) == lit(MIDNIGHT),
]


def change_expr(expr: Expr) -> Expr:
    assert isinstance(expr, (Call, In))
    return without_cast(expr, SCHEMA)


@pytest.mark.parametrize(("expr", "expected"), TAKEN, ids=lambda value: value if isinstance(value, str) else "")
def test_casts_that_only_widen_go(expr: Expr, expected: str) -> None:
    assert repr(change_expr(expr)) == expected


@pytest.mark.parametrize("expr", KEPT, ids=repr)
def test_others_stay(expr: Expr) -> None:
    assert change_expr(expr) is expr


def values(expr: Expr, batch: pa.RecordBatch) -> list[Any]:
    program = compile_projection([("value", expr)], batch.schema)
    return list(pa.record_batch(Evaluator(program, Account()).project_batch(batch)).column(0).to_pylist())


def limits(type_: pa.DataType) -> list[Any]:
    """Values of the type: the smallest, the largest, and some around zero."""
    if pa.types.is_integer(type_):
        bits, signed = type_.bit_width, pa.types.is_signed_integer(type_)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return [low, high, 0, 1, 2, 5, 100, *([-1, -2] if signed else [])]
    if pa.types.is_date(type_):
        return [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2020, 1, 2), date(9999, 12, 31)]
    if pa.types.is_decimal(type_):
        high = Decimal(10**type_.precision - 1).scaleb(-type_.scale)
        unit = Decimal(1).scaleb(-type_.scale)
        return [high, -high, unit, -unit, Decimal(0), Decimal(1), Decimal("2.5"), Decimal(100)]
    return [0.5, 1.0]


def constant(rng: random.Random, given: pa.DataType, to: pa.DataType) -> Literal:
    """A literal of the type that is cast to, or a plain number, with a value that one of the types has."""
    value = rng.choice(limits(rng.choice([given, to])) if not pa.types.is_timestamp(to) else limits(given))
    if pa.types.is_date(given):
        at = datetime.combine(value, datetime.min.time()).replace(hour=rng.choice([0, 0, 1]))
        return Literal(at, to) if rng.random() < 0.7 else Literal(value, given)
    if pa.types.is_decimal(to) and rng.random() < 0.5:
        try:
            return Literal(pa.scalar(Decimal(value), to).as_py(), to)
        except pa.ArrowInvalid:
            pass
    made = lit(int(value) if rng.random() < 0.5 and -(2**63) <= value < 2**63 else Decimal(value))
    assert isinstance(made, Literal)
    return made


@pytest.mark.parametrize("seed", range(8))
def test_values_are_those_of_the_comparison_as_written(seed: int) -> None:
    """Q3: 8 x 400 comparisons near the ends of types. Comparisons that cannot fail give the same in every row."""
    rng = random.Random(seed)
    columns = {
        name: pa.array([*limits(type_), None, *rng.choices(limits(type_), k=12 - len(limits(type_)))][:13], type_)
        for name, type_ in TYPES.items()
        if name != "f"
    }
    batch = pa.record_batch(columns)
    targets: list[pa.DataType] = [type_ for type_ in TYPES.values() if not pa.types.is_date(type_)][:-1]
    targets += [WIDE, pa.decimal128(19, 0), pa.decimal128(38, 4), pa.decimal128(20, 6)]
    functions = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_distinct_from"]
    n_taken = 0
    for _ in range(400):
        name = rng.choice(list(columns))
        to = rng.choice([pa.timestamp("s"), pa.timestamp("ms")] if name == "day" else targets)
        made, value = col(name).cast(to), constant(rng, TYPES[name], to)
        sides = (made, value) if rng.random() < 0.5 else (value, made)
        expr: Expr = Call(rng.choice(functions), sides)
        if rng.random() < 0.2:
            expr = In(made, (value, constant(rng, TYPES[name], to)))
        simpler = change_expr(expr)
        if simpler is not expr:
            n_taken += 1
            assert values(simpler, batch) == values(expr, batch), (expr, simpler)
    assert n_taken > 50
