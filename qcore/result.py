"""A query's result: its batches as they come, and what running it showed. Floor P4."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.explain import explain_plan
from qcore.plan import PlanNode
from qcore.task import Task
from qcore_ext.data.schema import Schema

if TYPE_CHECKING:
    import pandas


class Result:
    """Rows of a query, streamed. Starts running when the first batch is asked for.

    Iterating gives pyarrow.RecordBatch; `to_arrow` and `to_pandas` collect the rest. A result is read once. It has
    `__arrow_c_stream__`, so pyarrow, pandas, polars and DuckDB take it as it is.
    """

    def __init__(self, plan: PlanNode, output_names: list[str] | None, make_task: Any, timeout: float | None) -> None:
        self.plan = plan
        names = output_names if output_names is not None else plan.schema.names
        #: Schema of the result, known before anything runs.
        engine_schema = pa.schema(Schema(plan.schema))
        self.schema: pa.Schema = pa.schema([engine_schema.field(i).with_name(name) for i, name in enumerate(names)])
        self._make_task = make_task
        self._task: Task | None = None
        self._timeout = timeout

    @property
    def task(self) -> Task:
        """The running task; made and started when first asked for."""
        if self._task is None:
            self._task = self._make_task()
            self._task.start()
        return self._task

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.task.batches(self._timeout):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas.DataFrame."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    async def aiter(self) -> AsyncIterator[pa.RecordBatch]:
        """The batches, without blocking the event loop; leaving the loop early cancels the query."""
        batches = iter(self)
        end = object()
        try:
            while (batch := await asyncio.to_thread(next, batches, end)) is not end:
                yield batch
        finally:
            if self.task.state == "running":
                self.cancel()

    def explain(self, analyze: bool = False) -> str:
        """The plan as text; with `analyze` the query runs and the text shows rows and times beside the estimates."""
        if not analyze:
            return explain_plan(self.plan)
        for _ in self.task.batches(self._timeout):
            pass
        return explain_plan(self.plan, stats=self.stats())

    def stats(self) -> dict[str, Any]:
        """Figures of every operator (SPEC V14), at any time."""
        return self.task.stats()

    def profile(self) -> str:
        """Where the time went: one line an operator, most expensive first."""
        from qcore.profile import profile_text

        return profile_text(self.stats())

    def cancel(self) -> None:
        """Stop the query; iterating then raises Cancelled."""
        self.task.cancel()
