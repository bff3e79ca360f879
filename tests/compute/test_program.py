"""Programs built step by step: loads, constants, shared registers, and the description of a program."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.compute.program import Program
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from random_tables import ALL_TYPES, SIZES, random_table

IN = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def project(program: Program, batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(Evaluator(program, Account()).project_batch(batch))


@pytest.mark.parametrize("n", SIZES)
def test_steps_fill_their_own_registers(n: int) -> None:
    steps = [("load", (), {"column": 1}), ("load", (), {"column": 0}), ("subtract", (0, 1), {})]
    types = pa.schema([(str(i), pa.int64()) for i in range(3)])
    outputs = pa.schema([("x", pa.int64()), ("b", pa.int64())])
    program = Program(Schema(IN), Schema(outputs), steps, Schema(types), [2, 0])
    batch = pa.record_batch({"a": pa.array(range(n), pa.int64()), "b": pa.array([7 * i for i in range(n)], pa.int64())})
    got = project(program, batch)
    assert got.column(0).to_pylist() == [6 * i for i in range(n)]
    assert got.column(1).to_pylist() == batch.column("b").to_pylist()
    assert got.schema.names == pa.schema(program.schema).names == ["x", "b"]


def test_the_description_names_each_step_once() -> None:
    program = compile_projection([("x", (col("a") + col("b")) * (col("a") + col("b")))], IN)
    assert program.description.count("add") == 1
    assert program.description.count("load") == 2
    assert program.description.count("multiply") == 1


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_loads_of_every_type(n: int, type_: pa.DataType) -> None:
    """Q3: a column in any layout is loaded, and written in the plain layout of its type."""
    batch = random_table(4, n, {"v": type_}, 0.2).combine_chunks().to_batches()
    if not batch:
        return
    got = project(compile_projection([("v", col("v"))], batch[0].schema), batch[0])
    assert got.column(0).to_pylist() == batch[0].column(0).to_pylist()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("value", [5, None, "a text of more than twelve bytes", "short", 2.5, True])
def test_constants_fill_every_row(n: int, value: object) -> None:
    batch = pa.record_batch({"a": pa.array(range(n), pa.int64()), "b": pa.array(range(n), pa.int64())})
    type_ = pa.string() if value is None else pa.scalar(value).type
    got = project(compile_projection([("x", lit(value, type_))], IN), batch)
    assert got.column(0).to_pylist() == [value] * n


def test_a_program_of_no_conjuncts_selects_every_row() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": [3, 4]})
    selected = Evaluator(compile_predicate(lit(True), IN), Account()).select_batch(batch)
    assert pa.record_batch(selected).to_pylist() == batch.to_pylist()
