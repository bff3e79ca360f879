"""Filter and Project through a driver: selections, new schemas in mid-stream, errors, memory. SPEC G4, D1, D6."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_table import make_table

from qcore.errors import ExecutionError, PlanError
from qcore.expression.tree import Expr, col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.basic.filter import Filter
from qcore_ext.basic.project import Project
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain


def filter_by(predicate: Expr, memory: Account) -> Filter:
    return Filter("f", memory, lambda schema: compile_predicate(predicate, pa.schema(schema)))


def project_to(memory: Account, **expressions: Expr) -> Project:
    named = list(expressions.items())
    return Project("p", memory, lambda schema: compile_projection(named, pa.schema(schema)))


def rows(batches: list[pa.RecordBatch]) -> list[dict]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("limit", [-(10**7), 0, 900_000, 10**7])
def test_filter_then_project(limit: int) -> None:
    memory = Account()
    batches = [make_table(n) for n in (0, 1, 2048, 5000)]
    given = rows(batches)
    chain = [
        filter_by(col("i64") > limit, memory),
        project_to(memory, s=col("s"), twice=col("i64") * 2, one=lit(1)),
    ]
    got = rows(run_chain(chain, batches))
    kept = [row for row in given if row["i64"] is not None and row["i64"] > limit]
    assert got == [{"s": row["s"], "twice": row["i64"] * 2, "one": 1} for row in kept]


def test_filter_over_filter() -> None:
    memory = Account()
    batch = make_table(5000)
    chain = [filter_by(col("i64") > 0, memory), filter_by(col("j64") < 10, memory), filter_by(col("b"), memory)]
    got = rows(run_chain(chain, [batch.select(["i64", "j64", "b"])]))
    want = [
        {"i64": r["i64"], "j64": r["j64"], "b": r["b"]}
        for r in batch.to_pylist()
        if (r["i64"] or 0) > 0 and (r["j64"] or 99) < 10 and r["b"]
    ]
    assert got == want


def test_a_new_schema_is_compiled_anew() -> None:
    """A column gets a wider type or another position. Expressions still find it by name."""
    memory = Account()
    narrow = pa.record_batch({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]})
    wide = pa.record_batch({"b": ["z"], "a": pa.array([2**40], pa.int64())})
    chain = [filter_by(col("a") > 1, memory), project_to(memory, c=col("a") + 1, b=col("b"))]
    assert rows(run_chain(chain, [narrow, wide])) == [{"c": 3, "b": "y"}, {"c": 2**40 + 1, "b": "z"}]


def test_an_error_surfaces_once_and_leaves_nothing() -> None:
    memory = Account()
    batch = pa.record_batch({"a": pa.array([1, 0])})
    with pytest.raises(ExecutionError, match="division by zero"):
        run_chain([project_to(memory, x=10 / col("a"))], [batch])
    assert memory.reserved_bytes == 0


def test_a_schema_that_does_not_fit_is_refused() -> None:
    memory = Account()
    with pytest.raises(PlanError, match="no column 'a'"):
        run_chain([filter_by(col("a") > 1, memory)], [pa.record_batch({"b": [1]})])


def test_close_releases_all_memory() -> None:
    memory = Account()
    got = run_chain([project_to(memory, x=col("i64") + 1)], [make_table(3000)])
    assert len(got) == 1
    assert memory.peak_bytes > 0
    del got
    assert memory.reserved_bytes == 0
