"""Spark jobs in threads of their own, which can be cancelled, and the messages of their errors."""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from qcore import errors
from qcore.errors import Cancelled, ExecutionError, QcoreError

CANCEL_SECONDS = 10.0
MESSAGE_LINES = 3
RAISED = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt): ")
# The first line of an error of qcore in a traceback: the class and the message.
RAISED_BY_QCORE = re.compile(r"(?:qcore|qcore_ext)\.[\w.]*?(\w+): (.*)", re.DOTALL)
# Spark's message about a task that failed too often.
LOST_TASK = re.compile(r"most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\w+)\): (.*)")
JVM_TRACES = re.compile(r"\n\s*(?:at \w[\w.$]*\(|Driver stacktrace:|JVM stacktrace:)")

T = TypeVar("T")


def no_action() -> None:
    """Do nothing."""


class SparkJob(Generic[T]):
    """A function that runs jobs of Spark, in a thread of its own, under a name by which they are cancelled.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A session, classic or of Spark Connect.
    description : str
        The text in Spark's UI.
    run : callable
        Runs the jobs and returns their result.
    on_done : callable
        Is called, in the thread of the job, when it has ended.
    """

    def __init__(
        self, session: Any, description: str, run: Callable[[], T], on_done: Callable[[], None] = no_action
    ) -> None:
        self._session = session
        self._description = description
        self._run: Callable[[], T] | None = run
        self._on_done = on_done
        #: The job group, with Spark Connect the tag.
        self.tag = f"qcore-{uuid.uuid4().hex}"
        self._process = os.getpid()
        self._done = threading.Event()
        self._stopping = False
        self._error: BaseException | None = None
        self._result: T | None = None
        self._thread = threading.Thread(target=self._work, name="qcore-spark-job", daemon=True)

    def start(self) -> None:
        """Submit the job."""
        self._thread.start()

    def _work(self) -> None:
        run, self._run = self._run, None
        assert run is not None
        try:
            if self._stopping:
                return
            if is_connect(self._session):
                self._session.addTag(self.tag)
            else:
                self._session.sparkContext.setJobGroup(self.tag, self._description, True)
            self._result = run()
        except BaseException as error:  # raised by result()
            # The traceback is dropped, because its frames keep objects alive.
            self._error = error.with_traceback(None)
        finally:
            del run
            self._done.set()
            self._on_done()

    @property
    def is_done(self) -> bool:
        """Whether the job has ended."""
        return self._done.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the job; return whether it has ended."""
        return self._done.wait(seconds)

    def result(self) -> T:
        """Return what the function returned. Only for a job that has ended.

        Raises
        ------
        Cancelled
            stop() ended the job.
        QcoreError
            The job failed.
        """
        if self._stopping and (self._error is not None or self._result is None):
            raise Cancelled("the Spark job was cancelled")
        if self._error is not None:
            raise error_of(self._error) from self._error
        return self._result  # type: ignore[return-value]

    def progress(self) -> tuple[int, int]:
        """Return how many of the job's tasks have ended, and how many there are; (0, 0): not known (yet)."""
        if is_connect(self._session):
            return 0, 0
        tracker = self._session.sparkContext.statusTracker()
        done = n_tasks = 0
        for job in tracker.getJobIdsForGroup(self.tag):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                told = tracker.getStageInfo(stage)
                if told is not None:
                    done, n_tasks = done + told.numCompletedTasks, n_tasks + told.numTasks
        return done, n_tasks

    def cancel(self) -> None:
        """Ask Spark to end the job. Returns at once."""
        self._stopping = True
        if self._done.is_set() or not self._thread.is_alive() or os.getpid() != self._process:
            return
        if is_connect(self._session):
            self._session.interruptTag(self.tag)
        else:
            self._session.sparkContext.cancelJobGroup(self.tag)

    def stop(self) -> None:
        """Cancel the job if it still runs, and wait until it has ended."""
        self._stopping = True
        if self._done.is_set() or not self._thread.is_alive() or os.getpid() != self._process:
            return
        deadline = time.monotonic() + CANCEL_SECONDS
        # Spark's scheduler does not know a job that is just being submitted, so the cancellation is repeated.
        while not self._done.is_set() and time.monotonic() < deadline:
            self.cancel()
            self._done.wait(0.1)


def is_connect(of: Any) -> bool:
    """Whether a session or a DataFrame belongs to Spark Connect."""
    return ".connect." in type(of).__module__


def error_of(error: BaseException) -> QcoreError:
    """Return a Spark error as one of qcore's: the one that a Python worker raised, if it is one of qcore."""
    text = JVM_TRACES.split(str(error), maxsplit=1)[0]
    found = RAISED_BY_QCORE.search(text)
    kind = getattr(errors, found[1], None) if found else None
    if found is not None and isinstance(kind, type) and issubclass(kind, QcoreError):
        return kind(f"{' '.join(found[2].split())}{executor_of(text)}")
    return ExecutionError(f"the Spark job failed: {message_of(error)}")


def executor_of(text: str) -> str:
    """The executor of the last attempt of a failed task, as the end of a message; empty if the text names none."""
    found = LOST_TASK.search(text)
    return "" if found is None or found[2] == "driver" else f" (on {found[1]}, executor {found[2]})"


def message_of(error: BaseException) -> str:
    """The message of a Spark error without stack traces; for an error of a Python worker, the worker's exception."""
    text = str(error).partition("JVM stacktrace:")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if RAISED.match(line)]
    if "Traceback (most recent call last):" in text and raised:
        return f"in a Python worker, {raised[-1]}{executor_of(text)}"
    lost = LOST_TASK.search(text)
    if lost is not None:
        return f"a task failed too often, the last time with {lost[3].strip()}{executor_of(text)}"
    return " ".join(lines[:MESSAGE_LINES]) or type(error).__name__
