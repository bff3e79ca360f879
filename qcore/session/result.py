"""The result of a query: a stream of its batches, its plan and its statistics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.config import Settings
from qcore.errors import ExecutionError, MemoryLimitError, SchemaChangeError
from qcore.plan.nodes import PlanNode
from qcore.plan.planning_time import limit_planning
from qcore.session.explain import explain_plan, pipelines_of
from qcore.session.profile import profile_text
from qcore.session.task import LoweredPlans, Task
from qcore_ext.ground.memory import Reservation
from qcore_ext.ground.process import ProcessLock

if TYPE_CHECKING:
    import pandas

    from qcore.session.plan_cache import CacheAnswer


class Result:
    """The rows of a query as a stream of batches. The query starts when the first batch is read.

    Iterating returns pyarrow.RecordBatch objects; `to_arrow` and `to_pandas` collect them. A result implements
    `__arrow_c_stream__`, so pyarrow, pandas, polars and DuckDB read it directly. Reading it again runs the query again.

    Attributes
    ----------
    trust : str
        "everything": a query that reads this result need not check its batches, because the engine made them.
    plan : PlanNode
        The optimized plan.
    schema : pyarrow.Schema
        Schema of the result, known before the query runs.
    is_reused : bool
        Whether the plan is that of an earlier query with the same text (Session.plan_cache).

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> result = qcore.sql("select a from t where a > 1", {"t": pa.table({"a": [1, 2, 3]})})
    >>> sum(batch.num_rows for batch in result)
    2
    """

    trust = "everything"

    def __init__(
        self,
        plan: PlanNode,
        settings: Settings,
        output_names: list[str] | None = None,
        estimates: Callable[[PlanNode], float] | None = None,
        lowered: LoweredPlans | None = None,
        found: CacheAnswer | None = None,
    ) -> None:
        self.plan = plan
        self._settings = settings
        self._estimates = estimates
        self._lowered = lowered or LoweredPlans(plan, output_names)
        self._found = found
        self.is_reused = found is not None and found.is_hit
        self.schema: pa.Schema = self._lowered.schema
        self._lock = ProcessLock()
        # When a reading stops, by time.monotonic(), if a part of the timeout was used before it.
        self._deadline: float | None = None
        self._task: Task | None = None
        self._taken = False

    def stop_at(self, deadline: float | None) -> None:
        """Set when readings that start from now on stop with Timeout, by time.monotonic(). None: after the timeout."""
        self._deadline = deadline

    @property
    def task(self) -> Task:
        """The task that runs the query, or ran it last."""
        with self._lock:
            if self._task is None:
                self._task = self._new_task()
            return self._task

    def _new_task(self) -> Task:
        return Task.of_lowered(self._lowered.get(self._settings.threads), self._settings)

    def _fresh_task(self) -> Task:
        """A task whose batches have not been read: a new one, unless the first task is still unread."""
        with self._lock:
            if self._task is None or self._taken or not self._task.is_of_this_process:
                with limit_planning(self._settings.timeout):
                    self._task = self._new_task()
            self._taken = True
            return self._task

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches(self._fresh_task())

    def _batches(self, task: Task) -> Iterator[pa.RecordBatch]:
        known: pa.Schema | None = None
        for batch in task.batches(self._settings.timeout, self._deadline):
            given = batch.schema
            if known is None or not given.equals(known):
                if given.types != self.schema.types:
                    raise self._schema_changed(given)
                known = given
                is_same = given.equals(self.schema, check_metadata=True)
            yield batch if is_same else pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _schema_changed(self, given: pa.Schema) -> SchemaChangeError:
        """The error for rows of a wider schema than the result's."""
        remedy = "a Result has one schema; declare the wider one at the source, or read Task(plan).iterator()"
        for field, known in zip(given, self.schema, strict=False):
            if field.type != known.type:
                return SchemaChangeError(
                    f"the result's column {known.name!r} changed from {known.type} to {field.type}: {remedy}"
                )
        new = given.field(len(self.schema))
        return SchemaChangeError(f"the result has a new column {new.name!r} ({new.type}): {remedy}")

    def to_arrow(self) -> pa.Table:
        """Run the query and return all rows as a pyarrow.Table.

        The rows are charged to the query while they are collected. Iterate over the result if it is larger than the
        memory limit.

        Raises
        ------
        QcoreError
            The query failed, for example with ExecutionError, MemoryLimitError, Timeout or Cancelled.
        """
        return self.collect_charged("to_arrow()")

    def collect_charged(self, what: str) -> pa.Table:
        """Return all rows as a table, charged to the query's memory while they are collected.

        Raises
        ------
        MemoryLimitError
            The rows need more than the query's limit. The message names `what`, the purpose of the rows.
        """
        batches: list[pa.RecordBatch] = []
        charged: Reservation | None = None
        try:
            for batch in self:
                charged = charged or Reservation(self.task.memory)
                try:
                    # An eighth more for the allocator, as data/array_charge charges it.
                    charged.add(batch.nbytes * 9 // 8)
                except MemoryLimitError as error:
                    error.args = (f"{what} keeps its rows in memory: {error}",)
                    raise
                batches.append(batch)
        finally:
            if charged is not None:
                charged.give_back()
        return pa.Table.from_batches(batches, schema=self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """Run the query and return all rows as a pandas.DataFrame.

        Raises
        ------
        ExecutionError
            A column has values that pandas cannot hold, such as dates after the year 9999. The message names it.
        QcoreError
            The query failed.
        """
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

    def to_spark(self, spark: Any) -> Any:
        """Run the query and return all rows as a DataFrame of Spark. They are held in the memory of Spark's driver.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
            A session, classic or of Spark Connect.

        Returns
        -------
        pyspark.sql.DataFrame
            Text, decimals, timestamps and dictionaries in Spark's types; unsigned integers in wider ones.

        Raises
        ------
        PlanError
            Spark has no type for a column, or two columns have one name.
        ExecutionError
            A value does not fit, such as a timestamp with nanoseconds.
        QcoreError
            The query failed.
        """
        frames = import_module("qcore.spark.frames")
        frames.spark_arrow_schema(self.schema)
        return frames.frame_of_rows(self.to_arrow(), spark)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    async def aiter(self) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over the batches without blocking the event loop. Leaving the loop early cancels the query.

        Examples
        --------
        >>> import asyncio, pyarrow as pa, qcore
        >>> async def count(result):
        ...     return sum([batch.num_rows async for batch in result.aiter()])
        >>> asyncio.run(count(qcore.sql("select a from t", {"t": pa.table({"a": [1, 2]})})))
        2
        """
        import asyncio  # takes 30 ms, and few programs need it

        task = self._fresh_task()
        batches = self._batches(task)
        end = object()
        try:
            while (batch := await asyncio.to_thread(next, batches, end)) is not end:
                yield batch
        finally:
            # A thread that is still waiting for a batch drops the iterator afterwards, which ends the query.
            if task.state == "running":
                task.cancel()

    def explain(self, analyze: bool = False) -> str:
        """Return the plan as text: a tree with node ids, estimated rows and the pipelines of each node's operators.

        The last line tells if the plan was taken from the session's plan cache.

        Parameters
        ----------
        analyze : bool
            Run the query and show the rows and times of each node beside the estimates, what its operators chose and
            why, and the counts of the session's plan cache.

        Raises
        ------
        QcoreError
            The plan cannot run, or with `analyze` the query failed.
        """
        if not analyze:
            note = "\nthe plan of an earlier query with this text" if self.is_reused else ""
            pipelines = pipelines_of(self._lowered.get(self._settings.threads))
            return explain_plan(self.plan, self._estimates, pipelines=pipelines) + note
        for _ in self:
            pass
        note = "" if self._found is None else f"\n{self._found.text()}"
        return explain_plan(self.plan, self._estimates, self.stats()) + note

    def stats(self) -> dict[str, Any]:
        """Return the counters of every operator so far: rows, batches, bytes, and times in ns. Callable at any time.

        `is_reused` says whether the plan is that of an earlier query with the same text.
        """
        return {**self.task.stats(), "is_reused": self.is_reused}

    def profile(self) -> str:
        """Return a text table of the time of each operator: one line an operator, most expensive first."""
        return profile_text(self.stats())

    def cancel(self) -> None:
        """Stop the query. Iterating then raises Cancelled. Any thread may call it."""
        self.task.cancel()
