"""A stage as one task in this process, in a thread of its own, with the methods of a job of Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from qcore.config import Settings
from qcore.session.task import Task
from qcore.spark.spark_job import no_action
from qcore.spark.stage_parts import Stage
from qcore.spark.stage_task import TaskReport, TaskWork, without_drivers
from qcore.spark.worker import TaskInput, run_plan


class DriverJob:
    """A stage that this process runs as one task.

    Parameters
    ----------
    stage : Stage
        The stage.
    work : TaskWork
        The splits and tables that it reads.
    path : str
        The page file to write.
    settings : Settings
        The settings of the query.
    on_done : callable
        Is called, in any thread, when the task has ended.
    """

    def __init__(
        self,
        stage: Stage,
        work: TaskWork,
        path: str,
        settings: Settings,
        on_done: Callable[[], None] = no_action,
    ) -> None:
        self._plan = stage.plan
        self._input = TaskInput(b"", work.splits, 0, path, settings.threads, settings.memory_limit, settings.batch_rows)
        self._on_done = on_done
        self._task: Task | None = None
        self._cancelled = False
        self._report: TaskReport | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="qcore-spark-driver-job", daemon=True)
        #: Whether the task has ended.
        self.is_done = False

    def start(self) -> None:
        """Start the task."""
        self._thread.start()

    def _work(self) -> None:
        started = time.perf_counter_ns()
        given = self._input
        try:
            output = run_plan(self._plan, given, self._watch)
            nanos = time.perf_counter_ns() - started
            self._report = TaskReport(0, output.file, "", 0, 0, given.threads, nanos, without_drivers(output.stats))
        except BaseException as error:  # raised by result()
            # The traceback is dropped, because its frames keep objects alive.
            self._error = error.with_traceback(None)
        finally:
            self._task = None
            self.is_done = True
            self._on_done()

    def _watch(self, task: Task) -> None:
        """Note the running task, so that cancel() stops it."""
        self._task = task
        if self._cancelled:
            task.cancel()

    def result(self) -> list[TaskReport]:
        """Return the report of the task, which has ended.

        Raises
        ------
        QcoreError
            The error that the task failed with; Cancelled if cancel() stopped it.
        """
        if self._error is not None:
            raise self._error
        assert self._report is not None
        return [self._report]

    def progress(self) -> tuple[int, int]:
        """Return how many tasks have ended, of one."""
        return int(self.is_done), 1

    def cancel(self) -> None:
        """Ask the task to end. Returns at once."""
        self._cancelled = True
        task = self._task
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """Cancel the task if it still runs, and wait until it has ended."""
        if self._thread.is_alive():
            self.cancel()
            self._thread.join()
