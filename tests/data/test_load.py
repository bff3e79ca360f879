"""Columns of every storage are loaded as canonical values: whole vectors, offsets and single rows (SPEC H2)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from qcore.expression.tree import Case, call, col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account
from random_tables import SIZES

TEXTS = ["", "short", "exactly12byt", "thirteen byte", "a text of more than twelve bytes", "é漢"]
NUMBERS = [Decimal("0.01"), Decimal("-2.50"), Decimal("999.99"), Decimal("0.00"), Decimal("-999.99")]
DAYS = [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1700, 1, 1)]
STORAGES = {
    "canonical": (pa.int64(), [3, -1, 2**62, 0]),
    "bits": (pa.bool_(), [True, False, True, True, False]),
    "decimal128": (pa.decimal128(9, 2), NUMBERS),
    "decimal64": (pa.decimal64(15, 2), NUMBERS),
    "decimal32": (pa.decimal32(9, 2), NUMBERS),
    "wide": (pa.decimal128(30, 2), [*NUMBERS, Decimal(10) ** 25]),
    "utf8": (pa.string(), TEXTS),
    "large": (pa.large_string(), TEXTS),
    "view": (pa.string_view(), TEXTS),
    "short view": (pa.string_view(), ["", "short", "exactly12byt"]),
    "binary": (pa.binary(), [text.encode() for text in TEXTS]),
    "fixed binary": (pa.binary(3), [b"abc", b"\x00\x00\x00", b"xyz"]),
    "date64": (pa.date64(), DAYS),
    "half": (pa.float16(), [0.5, -2.0, 8.0]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
}


def batch_of(name: str, n: int, nulls: bool) -> pa.RecordBatch:
    type_, values = STORAGES[name]
    column = [None if nulls and row % 6 == 2 else values[row % len(values)] for row in range(n)]
    if pa.types.is_dictionary(type_):
        array = pa.array(column, type_.value_type).dictionary_encode().cast(type_)
    elif pa.types.is_decimal(type_):
        array = pa.array(column, pa.decimal128(type_.precision, type_.scale)).cast(type_)
    else:
        array = pa.array(column, type_)
    return pa.record_batch({"v": array, "row": pa.array(range(n), pa.int64())})


def load_values(batch: pa.RecordBatch, every: int) -> list[object]:
    """The values that a kernel copied from every n-th row."""
    copied = Case(((col("row") >= 0, col("v")),), call("coalesce", col("v"), col("v")))
    program = compile_projection([("v", copied)], batch.schema)
    keep = Evaluator(compile_predicate(col("row") % lit(every) == 0, batch.schema), Account())
    return pa.record_batch(Evaluator(program, Account()).project_batch(keep.select_batch(batch)))["v"].to_pylist()


@pytest.mark.each_value
@pytest.mark.parametrize("name", STORAGES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("every", [1, 41])
def test_values_of_every_storage(name: str, n: int, nulls: bool, every: int) -> None:
    """H2: dense vectors are loaded in one piece, few rows one by one."""
    batch = batch_of(name, n, nulls)
    assert load_values(batch, every) == batch["v"].to_pylist()[::every]


@pytest.mark.each_value
@pytest.mark.parametrize("name", STORAGES)
@pytest.mark.parametrize("offset", [1, 7, 8, 63])
def test_values_behind_an_offset(name: str, offset: int) -> None:
    """H2: in the values, in the offsets and in the bitmap."""
    batch = batch_of(name, 2200, True).slice(offset)
    assert load_values(batch, 1) == batch["v"].to_pylist()
