"""Casts from values to text and back, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from expression_table import SIZES, check, make_table

from qcore.errors import ExecutionError
from qcore.expression.tree import Cast, Expr, col, lit
from qcore.lowering.compile import compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.ground.memory import Account
from random_tables import random_table

TABLE = make_table(2500)

CASES = [
    (Cast(col("i64"), pa.string()), "i64::varchar"),
    (Cast(col("p"), pa.string()), "p::varchar"),
    (Cast(col("w"), pa.string()), "w::varchar"),
    (Cast(col("d"), pa.string()), "d::varchar"),
    (Cast(col("f"), pa.string()), "f::varchar"),
    (Cast(col("f32"), pa.string()), "f32::varchar"),
    (Cast(col("g"), pa.string()), "g::varchar"),
    (Cast(col("b"), pa.string()), "b::varchar"),
    (Cast(col("t"), pa.string()), "t::varchar"),
    (Cast(col("ts"), pa.string()), "ts::varchar"),
    *[
        (Cast(Cast(col(name), pa.string()), type_), name)
        for name, type_ in [
            ("i64", pa.int64()),
            ("i8", pa.int8()),
            ("p", pa.decimal128(15, 2)),
            ("w", pa.decimal128(30, 4)),
            ("f", pa.float64()),
            ("f32", pa.float32()),
            ("b", pa.bool_()),
            ("t", pa.date32()),
            ("ts", pa.timestamp("us")),
        ]
    ],
    (Cast(col("s"), pa.int64(), safe=False), "try_cast(s as bigint)"),
    (Cast(col("s"), pa.date32(), safe=False), "try_cast(s as date)"),
    (Cast(col("s"), pa.float64(), safe=False), "try_cast(s as double)"),
    (Cast(lit("12.345"), pa.decimal128(10, 2)), "'12.345'::decimal(10, 2)"),
    (Cast(lit("1e3"), pa.float64()), "'1e3'::double"),
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


DIGITS = "a0eebc999c0b4ef8bb6d6bb9bd380a11"
UUID_TEXTS = [
    DIGITS, DIGITS.upper(), f"{{{DIGITS}}}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", f"-{DIGITS}", f"{DIGITS}-",
    "a-0--eebc999c0b4ef8bb6d6bb9bd380a11", f"{{-{DIGITS}-}}", f" {DIGITS}", f"{DIGITS} ", f"{{{DIGITS}", f"{DIGITS}}}",
    f"{{{{{DIGITS}}}}}", "", "{}", "{", "-", DIGITS[:-1], DIGITS + "0", f"{DIGITS[:-1]}g", f"{DIGITS[:-1]}@",
    f"{DIGITS[:-1]}`", f"{DIGITS[:-1]}/", f"{DIGITS[:-1]}:", f"{DIGITS[:-1]}ä", f"{DIGITS[:16]} {DIGITS[16:]}", None,
]  # fmt: skip


def project_rows(batch: pa.RecordBatch, expr: Expr) -> pa.Array:
    program = compile_projection([("r", expr)], batch.schema)
    return pa.record_batch(Evaluator(program, Account()).project_batch(batch)).column(0)


def test_forms_of_uuids() -> None:
    """Q3: DuckDB accepts the same texts."""
    batch = pa.record_batch({"s": UUID_TEXTS})
    made = project_rows(batch, Cast(col("s"), pa.uuid(), safe=False))
    connection = duckdb.connect()
    connection.register("batch", batch)
    found = connection.sql("select try_cast(s as uuid) from batch").fetchall()
    assert made.to_pylist() == [value for (value,) in found]
    for text in UUID_TEXTS:
        if text is not None and made[UUID_TEXTS.index(text)].as_py() is None:
            with pytest.raises(ExecutionError, match=r"cannot cast '.*' of type string to uuid"):
                project_rows(pa.record_batch({"s": [text]}), Cast(col("s"), pa.uuid()))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_uuids_to_text_and_bytes_and_back(n: int, null_share: float) -> None:
    batch = pa.record_batch([random_table(3, n, [pa.uuid()], null_share)[0].combine_chunks()], names=["u"])
    values = batch["u"].to_pylist()
    text = project_rows(batch, Cast(col("u"), pa.string()))
    assert text.to_pylist() == [None if value is None else str(value) for value in values]
    raw = project_rows(batch, Cast(col("u"), pa.binary()))
    assert raw.to_pylist() == [None if value is None else value.bytes for value in values]
    for stored in (text, raw, raw.cast(pa.binary(16))):
        assert project_rows(pa.record_batch({"s": stored}), Cast(col("s"), pa.uuid())).to_pylist() == values


def test_bytes_that_are_no_uuid() -> None:
    batch = pa.record_batch({"s": pa.array([b"0123456789abcdef", b"0123456789abcde", b"", b"0" * 17, None])})
    made = project_rows(batch, Cast(col("s"), pa.uuid(), safe=False)).to_pylist()
    assert [value and value.bytes for value in made] == [b"0123456789abcdef", None, None, None, None]
