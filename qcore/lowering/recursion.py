"""Recursive queries: each round runs a plan over the rows of the previous round.

Rows are returned as they are computed, so that a LIMIT above can end an endless recursion. In the plan of a round a
Values node replaces the working table.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError
from qcore.plan.nodes import PlanNode, RecursiveUnion, Values, WorkingTable
from qcore_ext.aggregate.distinct_rows import DistinctRows
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.ground.memory import Account, Reservation

RunPlan = Callable[[PlanNode], Iterator[pa.RecordBatch]]


class RecursiveRows:
    """The rows of a recursive union as Arrow streams, which can be read once. `run` returns the batches of a plan.

    A stream has one schema. If the rows of a round have wider types, the stream ends and `goes_on` is True. The next
    stream has the wider types.

    `reader` is the account of the query that reads the streams. Stopping that query stops the current round.

    Attributes
    ----------
    error : Exception or None
        The exception that a round raised. The stream itself can only report its text.
    goes_on : bool
        Whether another stream follows the one that ended.
    """

    trust = "everything"

    def __init__(self, node: RecursiveUnion, run: RunPlan, memory_limit: int | None, reader: Account) -> None:
        self._node = node
        self._run = run
        self._schema = Schema(node.schema)
        memory = Account(None, memory_limit or 0)
        memory.read_by(reader)
        self._memory = memory
        self._widener = Widener(memory)
        self._seen = DistinctRows(self._schema, memory) if node.distinct else None
        self._rows = self._rounds()
        self._next: pa.RecordBatch | None = None
        self._stream_schema = pa.schema(self._schema)
        self.error: Exception | None = None
        self.goes_on = False

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.goes_on = False
        reader = pa.RecordBatchReader.from_batches(self._stream_schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Release the memory of the seen rows and the working table."""
        self._rows.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The batches of one stream."""
        try:
            if self._next is not None:
                batch, self._next = self._next, None
                yield batch
            for batch in self._rows:
                if batch.schema != self._stream_schema:
                    self._next, self._stream_schema, self.goes_on = batch, batch.schema, True
                    return
                yield batch
        except Exception as error:
            self.error = error
            raise

    def _rounds(self) -> Generator[pa.RecordBatch, None, None]:
        node = self._node
        plan, repeated = node.inputs
        before = Reservation(self._memory)
        for _ in range(node.rounds_max + 1):
            working: list[PyBatch] = []
            charged = Reservation(self._memory)
            for batch in self._run(plan):
                fresh = self._widen(batch)
                if self._seen is not None:
                    fresh = self._seen.add(fresh)
                rows = pa.record_batch(fresh)
                if rows.num_rows > 0:
                    charged.add(rows.nbytes)
                    working.append(fresh)
                    yield rows
            before.give_back()
            before = charged
            if not working:
                return
            plan = _replace_working_table(repeated, node.key, self._table(working))
        raise ExecutionError(
            f"RecursiveUnion (node {node.id}): more than {node.rounds_max:,} rounds of {node.key}; its recursive part "
            "does not end; add a condition or a LIMIT"
        )

    def _widen(self, batch: pa.RecordBatch) -> PyBatch:
        """A round's batch under the union's names, by position. Types that its sources have widened become those of the
        recursion.
        """
        names = self._schema.names
        rows = PyBatch.from_arrow(pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names), None, True)
        wide = widen_schemas(self._schema, Schema(pa.record_batch(rows).schema))
        if wide != self._schema:
            self._schema = wide
            if self._seen is not None:
                self._seen.widen(wide)
        return self._widener.widen(rows, self._schema)

    def _table(self, batches: list[PyBatch]) -> pa.Table:
        """The rows of a round. Batches from before a type was widened are widened."""
        return pa.Table.from_batches([pa.record_batch(self._widener.widen(batch, self._schema)) for batch in batches])


def _replace_working_table(plan: PlanNode, key: str, rows: pa.Table) -> PlanNode:
    if isinstance(plan, WorkingTable) and plan.key == key:
        return Values(plan.id, plan.schema, rows.rename_columns(plan.schema.names))
    children = tuple(_replace_working_table(child, key, rows) for child in plan.children)
    if all(new is old for new, old in zip(children, plan.children, strict=True)):
        return plan
    return plan.with_children(*children)
