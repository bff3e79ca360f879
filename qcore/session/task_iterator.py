"""A running query as an iterator of outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from qcore.expression.scalars import empty_batch
from qcore.protocols import IterOutcome

if TYPE_CHECKING:
    from qcore.session.task import Task


class TaskIterator:
    """A running query as an iterator of outcomes; from Task.iterator(). close() ends it, at any time.

    Attributes
    ----------
    batch : pyarrow.RecordBatch or None
        The rows of the last OK or OK_NEW_SCHEMA; None after other outcomes.
    schema : pyarrow.Schema
        The schema of the last rows; before the first rows the declared one.
    error : BaseException or None
        The error of a STOP.

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> rows = qcore.Task(qcore.PlanBuilder().values(pa.table({"a": [1, 2]})).build(), drivers=1).iterator()
    >>> rows.next().name, rows.batch.num_rows, rows.next().name
    ('OK_NEW_SCHEMA', 2, 'NONE')
    >>> rows.close()
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._batches = task.batches()
        self._outcome: IterOutcome | None = None
        self.batch: pa.RecordBatch | None = None
        self.schema: pa.Schema = task.schema
        self.error: BaseException | None = None

    def next(self) -> IterOutcome:
        """Go on to the next batch. After NONE or STOP every call returns the same.

        Whatever an operator raises becomes STOP with an ExecutionError that names the operator. This includes
        SystemExit, GeneratorExit and CancelledError, which would otherwise end the program, generator or coroutine that
        reads the query. An interrupt of the calling thread, such as Ctrl-C, is raised, and later calls return STOP.
        """
        self.batch = None
        if self._outcome in (IterOutcome.NONE, IterOutcome.STOP):
            return self._outcome
        first = self._outcome is None
        # Set first: after an error the generator is exhausted, so a later call would take it for the end of the rows.
        self._outcome = IterOutcome.STOP
        try:
            batch = next(self._batches, None)
            had_data = batch is None and first and self._task.had_data()
        except BaseException as error:
            self.error = error
            if isinstance(error, Exception):
                return self._outcome
            raise
        if batch is None:
            self._outcome = IterOutcome.NONE
            if had_data:
                # No row passed the filters. The caller still gets the schema.
                self.batch = empty_batch(self.schema)
                self._outcome = IterOutcome.OK_NEW_SCHEMA
            return self._outcome
        changed = first or not batch.schema.equals(self.schema)
        self.batch = batch
        self.schema = batch.schema
        self._outcome = IterOutcome.OK_NEW_SCHEMA if changed else IterOutcome.OK
        return self._outcome

    def close(self) -> None:
        """Cancel the query if it still runs, and free everything. May be called again."""
        self.batch = None
        if self._outcome is None:
            # Closing a generator that never began runs none of its code.
            self._task.cancel()
        self._batches.close()  # type: ignore[attr-defined]
        if self._outcome is not IterOutcome.STOP:
            self._outcome = IterOutcome.NONE
