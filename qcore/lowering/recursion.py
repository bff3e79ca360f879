"""Plans that run inside a plan, one after another: the rounds of recursive queries, and the inputs of ordered unions.

Rows are returned as they are computed, so that a LIMIT above can end an endless recursion. In the plan of a round a
Values node replaces the working table.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError
from qcore.plan.nodes import PlanNode, RecursiveUnion, Shared, SharedRead, UnionAll, Values, WorkingTable
from qcore.record import record
from qcore_ext.aggregate.distinct_rows import DistinctRows
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.ground.memory import Account, Reservation

RunPlan = Callable[[PlanNode], Iterator[pa.RecordBatch]]


@record(frozen=True, eq=False)
class OrderedUnion(UnionAll):
    """A UnionAll that reads its inputs one after another, so that the order of its rows does not depend on time."""


def with_ordered_unions(node: PlanNode) -> PlanNode:
    """Return the plan with an OrderedUnion in place of each UnionAll.

    Raises
    ------
    PlanError
        A UnionAll reads a subplan that is computed once for several readers. See can_order().
    """
    children = tuple(map(with_ordered_unions, node.children))
    if isinstance(node, UnionAll):
        if not can_order(node):
            raise PlanError(f"the inputs of UnionAll (node {node.id}) share a subplan: they cannot be read in order")
        return OrderedUnion(node.id, node.schema, children)
    return node.with_children(*children) if children else node


def can_order(plan: PlanNode) -> bool:
    """Whether each UnionAll of a plan can read its inputs one after another: if none of them shares a subplan."""
    return not any(
        isinstance(below, (Shared, SharedRead))
        for node in plan.walk()
        if isinstance(node, UnionAll)
        for below in node.walk()
    )


class RecursiveRows:
    """The rows of a recursive or an ordered union as Arrow streams, which can be read once.

    `run` returns the batches of a plan.

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

    def __init__(
        self, node: RecursiveUnion | OrderedUnion, run: RunPlan, memory_limit: int | None, reader: Account
    ) -> None:
        self._run = run
        self._schema = Schema(node.schema)
        memory = Account(None, memory_limit or 0)
        memory.read_by(reader)
        self._memory = memory
        self._widener = Widener(memory)
        self._seen: DistinctRows | None = None
        if isinstance(node, RecursiveUnion):
            self._seen = DistinctRows(self._schema, memory) if node.distinct else None
            self._rows = self._rounds(node)
        else:
            self._rows = self._inputs(node)
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

    def _inputs(self, node: OrderedUnion) -> Generator[pa.RecordBatch, None, None]:
        for plan in node.inputs:
            for batch in self._run(plan):
                rows = pa.record_batch(self._widen(batch))
                if rows.num_rows > 0:
                    yield rows

    def _rounds(self, node: RecursiveUnion) -> Generator[pa.RecordBatch, None, None]:
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
