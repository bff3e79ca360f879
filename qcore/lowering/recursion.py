"""Recursive queries: a plan run round after round over the rows of the round before. SPEC Q2.

Rows are given out as they come, so that a LIMIT above ends a recursion that would not end by itself. Each round is a
plan of its own, in which a Values node stands for the working table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from qcore.connectors.alignment import Alignment
from qcore.errors import ExecutionError
from qcore.plan.nodes import PlanNode, RecursiveUnion, Values, WorkingTable
from qcore_ext.aggregate.distinct_rows import DistinctRows
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account, Reservation

RunPlan = Callable[[PlanNode], Iterator[pa.RecordBatch]]


class RecursiveRows:
    """The rows of a recursive union as an Arrow stream, to be read once; `run` gives the batches of a plan.

    `reader` is the account of the query that reads it: what stops that one ends a round too.

    Attributes
    ----------
    error : Exception or None
        What a round failed with, as it was: the stream itself has but a text to say it.
    """

    trust = "everything"

    def __init__(self, node: RecursiveUnion, run: RunPlan, memory_limit: int | None, reader: Account) -> None:
        self._node = node
        self._run = run
        self._schema = pa.schema(Schema(node.schema))
        memory = Account(None, memory_limit or 0)
        memory.read_by(reader)
        self._memory = memory
        self._met = DistinctRows(Schema(self._schema), memory) if node.distinct else None
        self.error: Exception | None = None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rounds()
        except Exception as error:
            self.error = error
            raise

    def _rounds(self) -> Iterator[pa.RecordBatch]:
        node = self._node
        plan, repeated = node.inputs
        before = Reservation(self._memory)
        for _ in range(node.rounds_max + 1):
            working: list[pa.RecordBatch] = []
            charged = Reservation(self._memory)
            for batch in self._run(plan):
                fresh = self._in_schema(batch, plan)
                if self._met is not None:
                    fresh = pa.record_batch(self._met.add(PyBatch.from_arrow(fresh)))
                if fresh.num_rows > 0:
                    charged.add(fresh.nbytes)
                    working.append(fresh)
                    yield fresh
            before.give_back()
            before = charged
            if not working:
                return
            plan = _with_working_table(repeated, node.key, pa.Table.from_batches(working, self._schema))
        raise ExecutionError(
            f"RecursiveUnion (node {node.id}): more than {node.rounds_max:,} rounds of {node.key}; its recursive part "
            "does not come to an end"
        )

    def _in_schema(self, batch: pa.RecordBatch, plan: PlanNode) -> pa.RecordBatch:
        """The columns that the plan of a round names, by position; its sources may have widened them (SPEC D6)."""
        if batch.schema.types == self._schema.types:
            return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        pairs = zip(plan.schema.names, self._schema, strict=True)
        wanted = [field.with_name(name) for name, field in pairs]
        rows = Alignment(batch.schema, wanted, f"a round of {self._node.key}", on_schema_change="evolve").batch(batch)
        return pa.RecordBatch.from_arrays(rows.cast(pa.schema(wanted)).columns, schema=self._schema)


def _with_working_table(plan: PlanNode, key: str, rows: pa.Table) -> PlanNode:
    if isinstance(plan, WorkingTable) and plan.key == key:
        return Values(plan.id, plan.schema, rows.rename_columns(plan.schema.names).cast(plan.schema))
    children = tuple(_with_working_table(child, key, rows) for child in plan.children)
    if all(new is old for new, old in zip(children, plan.children, strict=True)):
        return plan
    return plan.with_children(*children)
