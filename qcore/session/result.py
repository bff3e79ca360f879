"""A query's result: its batches as they come, and what running it showed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.config import Settings
from qcore.errors import ExecutionError, MemoryLimitError, SchemaChangeError
from qcore.plan.nodes import PlanNode
from qcore.plan.planning_time import limit_planning
from qcore.session.explain import explain_plan, pipelines_of
from qcore.session.profile import profile_text
from qcore.session.task import Task
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Reservation
from qcore_ext.ground.process import ProcessLock

if TYPE_CHECKING:
    import pandas


class Result:
    """Rows of a query, streamed. Starts running when the first batch is asked for.

    Iterating gives pyarrow.RecordBatch; `to_arrow` and `to_pandas` collect them. It has `__arrow_c_stream__`, so
    pyarrow, pandas, polars and DuckDB take it as it is. Reading it again runs the query again.

    Attributes
    ----------
    trust : str
        "everything": another query need not check its batches, which the engine made.
    plan : PlanNode
        What runs, after optimization.
    schema : pyarrow.Schema
        Of the result, known before anything runs (SPEC D4).
    """

    trust = "everything"

    def __init__(
        self,
        plan: PlanNode,
        settings: Settings,
        output_names: list[str] | None = None,
        estimates: Callable[[PlanNode], float] | None = None,
    ) -> None:
        self.plan = plan
        self._settings = settings
        self._estimates = estimates
        names = output_names if output_names is not None else plan.schema.names
        fields = pa.schema(Schema(plan.schema))
        self.schema: pa.Schema = pa.schema([field.with_name(name) for field, name in zip(fields, names, strict=True)])
        self._lock = ProcessLock()
        self._task: Task | None = None
        self._taken = False

    @property
    def task(self) -> Task:
        """The task that runs the query, or ran it last."""
        with self._lock:
            if self._task is None:
                self._task = Task.of_plan(self.plan, self._settings)
            return self._task

    def _fresh_task(self) -> Task:
        """A task whose batches nobody has read."""
        with self._lock:
            if self._task is None or self._taken or not self._task.is_of_this_process:
                with limit_planning(self._settings.timeout):
                    self._task = Task.of_plan(self.plan, self._settings)
            self._taken = True
            return self._task

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches(self._fresh_task())

    def _batches(self, task: Task) -> Iterator[pa.RecordBatch]:
        for batch in task.batches(self._settings.timeout):
            if batch.schema.types != self.schema.types:
                raise self._schema_changed(batch.schema)
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _schema_changed(self, given: pa.Schema) -> SchemaChangeError:
        """The error for rows of a wider schema than was known before anything ran (SPEC D4, D6)."""
        remedy = "a Result is of one schema; declare the wider one at the source, or read Task(plan).iterator()"
        for field, known in zip(given, self.schema, strict=False):
            if field.type != known.type:
                return SchemaChangeError(
                    f"the result's column {known.name!r} changed from {known.type} to {field.type}: {remedy}"
                )
        new = given.field(len(self.schema))
        return SchemaChangeError(f"the result has a new column {new.name!r} ({new.type}): {remedy}")

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def kept_rows(self, what: str) -> pa.Table:
        """All rows as a table that the session keeps: charged to the query while they are collected.

        MemoryLimitError, naming `what` they are kept for, when they go past its limit.
        """
        batches: list[pa.RecordBatch] = []
        charged: Reservation | None = None
        try:
            for batch in self:
                charged = charged or Reservation(self.task.memory)
                try:
                    # An eighth more for the allocator, as data/array_charge charges it.
                    charged.add(batch.nbytes + batch.nbytes // 8)
                except MemoryLimitError as error:
                    error.args = (f"{what} keeps its rows in memory: {error}",)
                    raise
                batches.append(batch)
        finally:
            if charged is not None:
                charged.give_back()
        return pa.Table.from_batches(batches, schema=self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas.DataFrame. ExecutionError naming a column with dates that Python cannot hold."""
        rows = self.to_arrow()
        try:
            return rows.to_pandas()
        except (OverflowError, ValueError) as error:
            raise self._not_python(rows, error) from error

    @staticmethod
    def _not_python(rows: pa.Table, error: Exception) -> ExecutionError:
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            try:
                column.to_pandas()
            except (OverflowError, ValueError) as found:
                return ExecutionError(
                    f"column {name!r} ({column.type}) has values that pandas cannot hold: {found}; cast it to text, or "
                    "read the result with to_arrow()"
                )
        return ExecutionError(f"pandas cannot hold the result: {error}; read it with to_arrow()")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    async def aiter(self) -> AsyncIterator[pa.RecordBatch]:
        """The batches, without blocking the event loop; leaving the loop early cancels the query."""
        task = self._fresh_task()
        batches = self._batches(task)
        end = object()
        try:
            while (batch := await asyncio.to_thread(next, batches, end)) is not end:
                yield batch
        finally:
            # The thread that asks for a batch, if one does, drops the iterator, which ends the query.
            if task.state == "running":
                task.cancel()

    def explain(self, analyze: bool = False) -> str:
        """The plan as text: a tree with node ids, estimated rows, and the pipelines that each node's operators are in.

        With `analyze` the query runs and the text shows rows and times beside the estimates.
        """
        if not analyze:
            return explain_plan(self.plan, self._estimates, pipelines=pipelines_of(self.plan, self._settings))
        for _ in self:
            pass
        return explain_plan(self.plan, self._estimates, self.stats())

    def stats(self) -> dict[str, Any]:
        """Figures of every operator (SPEC V14), at any time."""
        return self.task.stats()

    def profile(self) -> str:
        """Where the time went: one line an operator, most expensive first."""
        return profile_text(self.stats())

    def cancel(self) -> None:
        """Stop the query; iterating then raises Cancelled."""
        self.task.cancel()
