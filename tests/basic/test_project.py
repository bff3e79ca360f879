"""Project computes columns of the selected rows, in every size (SPEC Q3)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import Expr, col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.basic.filter import Filter
from qcore_ext.basic.project import Project
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, SIZES, random_table


def project(memory: Account, **expressions: Expr) -> Project:
    named = list(expressions.items())
    return Project("p", memory, lambda schema: compile_projection(named, pa.schema(schema)))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("share", [1, 2, 50])
def test_values_of_selected_rows(n: int, share: int) -> None:
    """Q3: all, half, and few of the rows are selected."""
    memory = Account()
    batch = pa.record_batch({"a": pa.array([None if i % 5 == 2 else i for i in range(n)], pa.int64())})
    keep = Filter("f", memory, lambda schema: compile_predicate(col("a") % share == 0, pa.schema(schema)))
    got = run_chain([keep, project(memory, x=col("a") + 1, one=lit(1), a=col("a"))], [batch])
    wanted = [{"x": i + 1, "one": 1, "a": i} for i in range(n) if i % 5 != 2 and i % share == 0]
    assert [row for out in got for row in out.to_pylist()] == wanted


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_columns_of_every_type_pass(type_: pa.DataType) -> None:
    """Q3: columns are renamed and reordered."""
    table = random_table(3, 3000, {"a": type_, "b": pa.int32()}, 0.2)
    got = run_chain([project(Account(), y=col("b"), x=col("a"), z=col("a"))], table)
    assert [row for out in got for row in out.select(["x", "y"]).to_pylist()] == [
        {"x": row["a"], "y": row["b"]} for row in table.to_pylist()
    ]
    assert [out.schema.names for out in got] == [["y", "x", "z"]] * len(got)


def test_a_projection_without_columns_keeps_the_rows() -> None:
    got = run_chain([project(Account())], [pa.record_batch({"a": [1, 2, 3]})])
    assert [(batch.num_rows, batch.num_columns) for batch in got] == [(3, 0)]
