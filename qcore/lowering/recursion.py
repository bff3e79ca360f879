"""Recursive queries: a plan run round after round over the rows of the round before. Floor P3. SPEC Q2.

Rows are given out as they come, so that a LIMIT above ends a recursion that would not end by itself. Each round is a
plan of its own, in which a Values node stands for the working table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from qcore.language.plan import PlanNode, RecursiveUnion, Values, WorkingTable
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_ext.ground.status import ExecutionError
from qcore_ext.structures.distinct_rows import DistinctRows

RunPlan = Callable[[PlanNode], Iterator[pa.RecordBatch]]


def recursive_stream(node: RecursiveUnion, run: RunPlan, memory_limit: int | None) -> pa.RecordBatchReader:
    """The rows of a recursive union as an Arrow stream; `run` gives the batches of a plan."""
    schema = pa.schema(Schema(node.schema))
    return pa.RecordBatchReader.from_batches(schema, _rounds(node, schema, run, memory_limit))


def _rounds(
    node: RecursiveUnion, schema: pa.Schema, run: RunPlan, memory_limit: int | None
) -> Iterator[pa.RecordBatch]:
    first, repeated = node.inputs
    met = DistinctRows(Schema(schema), Account(None, memory_limit or 0)) if node.distinct else None
    plan = first
    for _ in range(node.rounds_max + 1):
        working: list[pa.RecordBatch] = []
        for batch in run(plan):
            fresh = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            if met is not None:
                fresh = pa.record_batch(met.add(PyBatch.from_arrow(fresh)))
            if fresh.num_rows > 0:
                working.append(fresh)
                yield fresh
        if not working:
            return
        plan = _with_working_table(repeated, node.key, pa.Table.from_batches(working, schema))
    raise ExecutionError(
        f"RecursiveUnion (node {node.id}): more than {node.rounds_max:,} rounds of {node.key}; its recursive part does "
        "not come to an end"
    )


def _with_working_table(plan: PlanNode, key: str, rows: pa.Table) -> PlanNode:
    if isinstance(plan, WorkingTable) and plan.key == key:
        return Values(plan.id, plan.schema, rows.rename_columns(plan.schema.names).cast(plan.schema))
    children = tuple(_with_working_table(child, key, rows) for child in plan.children)
    if all(new is old for new, old in zip(children, plan.children, strict=True)):
        return plan
    return plan.with_children(*children)
