"""Recursive queries: a plan run round after round over the rows of the round before. SPEC Q2.

Rows are given out as they come, so that a LIMIT above ends a recursion that would not end by itself. Each round is a
plan of its own, in which a Values node stands for the working table.
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
from qcore_ext.data.widening import widened
from qcore_ext.ground.memory import Account, Reservation

RunPlan = Callable[[PlanNode], Iterator[pa.RecordBatch]]


class RecursiveRows:
    """The rows of a recursive union as an Arrow stream, to be read once; `run` gives the batches of a plan.

    A stream is of one schema. When a round's rows are of wider types it ends, and `goes_on` says that there is another.

    `reader` is the account of the query that reads it: what stops that one ends a round too.

    Attributes
    ----------
    error : Exception or None
        What a round failed with, as it was: the stream itself has but a text to say it.
    goes_on : bool
        Another stream follows the one that ended.
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
        self._met = DistinctRows(self._schema, memory) if node.distinct else None
        self._rows = self._rounds()
        self._next: pa.RecordBatch | None = None
        self._given = pa.schema(self._schema)
        self.error: Exception | None = None
        self.goes_on = False

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.goes_on = False
        return pa.RecordBatchReader.from_batches(self._given, self._batches()).__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Give back what rows met and the working table take."""
        self._rows.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Those of one schema."""
        try:
            if self._next is not None:
                batch, self._next = self._next, None
                yield batch
            for batch in self._rows:
                if batch.schema != self._given:
                    self._next, self._given, self.goes_on = batch, batch.schema, True
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
                fresh = self._widened(batch)
                if self._met is not None:
                    fresh = self._met.add(fresh)
                rows = pa.record_batch(fresh)
                if rows.num_rows > 0:
                    charged.add(rows.nbytes)
                    working.append(fresh)
                    yield rows
            before.give_back()
            before = charged
            if not working:
                return
            plan = _with_working_table(repeated, node.key, self._table(working))
        raise ExecutionError(
            f"RecursiveUnion (node {node.id}): more than {node.rounds_max:,} rounds of {node.key}; its recursive part "
            "does not come to an end"
        )

    def _widened(self, batch: pa.RecordBatch) -> PyBatch:
        """The columns that the plan of a round names, by position. Types that its sources have widened are the
        recursion's from now on (SPEC D6).
        """
        names = self._schema.names
        rows = PyBatch.from_arrow(pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names), None, True)
        wide = widened(self._schema, Schema(pa.record_batch(rows).schema))
        if wide != self._schema:
            self._schema = wide
            if self._met is not None:
                self._met.widen(wide)
        return self._widener.widen(rows, self._schema)

    def _table(self, batches: list[PyBatch]) -> pa.Table:
        """Rows of a round; those that came before a type widened are widened now."""
        return pa.Table.from_batches([pa.record_batch(self._widener.widen(batch, self._schema)) for batch in batches])


def _with_working_table(plan: PlanNode, key: str, rows: pa.Table) -> PlanNode:
    if isinstance(plan, WorkingTable) and plan.key == key:
        return Values(plan.id, plan.schema, rows.rename_columns(plan.schema.names))
    children = tuple(_with_working_table(child, key, rows) for child in plan.children)
    if all(new is old for new, old in zip(children, plan.children, strict=True)):
        return plan
    return plan.with_children(*children)
