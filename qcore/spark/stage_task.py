"""A task of a stage inside a Python worker of Spark: its input, its limits and its report."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from typing import Any

from qcore.connectors.base import Split
from qcore.errors import Cancelled, ExecutionError, MemoryLimitError
from qcore.record import record
from qcore.session.task import Task
from qcore.spark.worker import TaskInput, TaskOutput, run_task
from qcore.writing.page_file import PageFile

# The part of a worker's address space that qcore, pyarrow and Python need, and the least memory limit of a task.
RESERVED_BYTES = 256 << 20
LIMIT_BYTES_MIN = 128 << 20
# The time between two checks of a task whether the query's folder still exists.
LOOK_SECONDS = 0.25


@record(frozen=True)
class StageWork:
    """The part of a task's input that all tasks of a stage share.

    Attributes
    ----------
    number : int
        The stage's number, for messages.
    plan : bytes
        Its plan (qcore.spark.plan_bytes).
    folder : str
        The folder for the files of tasks.
    memory_limit : int or None
        Bytes that a task may use. None: only the process has a limit.
    batch_rows : int or None
        Rows of a batch that sources aim at; None: the default.
    """

    number: int
    plan: bytes
    folder: str
    memory_limit: int | None = None
    batch_rows: int | None = None


@record(frozen=True)
class TaskWork:
    """The part of a task's input that differs between tasks."""

    partition: int
    splits: dict[str, list[Split]]


@record(frozen=True)
class TaskReport:
    """The report of a successful task.

    Attributes
    ----------
    partition : int
        The number of the task within its stage.
    file : PageFile
        The file that it wrote.
    host, process
        The host and the process that ran it.
    attempt : int
        The number of its attempt, from 0.
    threads : int
        The number of its drivers.
    wall_nanos : int
        How long it ran.
    stats : dict
        The value of Task.stats(), without the counters of single drivers.
    """

    partition: int
    file: PageFile
    host: str
    process: int
    attempt: int
    threads: int
    wall_nanos: int
    stats: dict[str, Any]


def run_bytes(stage: bytes, task: bytes, threads: int, attempt: int) -> bytes:
    """Run one task, given and reported as bytes.

    Raises
    ------
    QcoreError
        The task failed. Its file is removed.
    """
    work: StageWork = pickle.loads(stage)
    given: TaskWork = pickle.loads(task)
    started = time.perf_counter_ns()
    name = f"s{work.number:03d}-t{given.partition:05d}-{os.urandom(16).hex()}.pages"
    limit = memory_limit_here(work.memory_limit)
    output_path = os.path.join(work.folder, name)
    task_input = TaskInput(work.plan, given.splits, given.partition, output_path, threads, limit, work.batch_rows)
    output = run_watched(task_input, work.folder)
    nanos = time.perf_counter_ns() - started
    report = report_of(given.partition, output.file, output.stats, attempt, threads, nanos)
    return pickle.dumps(report, protocol=5)


def report_of(
    partition: int, file: PageFile, stats: dict[str, Any], attempt: int, threads: int, wall_nanos: int
) -> TaskReport:
    """Return the report of a task that ran in this process."""
    shown = without_drivers(stats)
    return TaskReport(partition, file, socket.gethostname(), os.getpid(), attempt, threads, wall_nanos, shown)


def run_watched(task_input: TaskInput, folder: str, in_order: bool = False) -> TaskOutput:
    """Run a task, and stop it when the query's folder is gone: the query has ended, and nobody waits for the task.

    Spark ends the worker of a task that it has killed up to four seconds later, and a worker of a lost driver never.
    With `in_order` (see run_task) the task writes elsewhere. An executor that does not see the folder then runs the
    task too, and it is left to Spark to end it.

    Raises
    ------
    ExecutionError
        The folder was removed.
    QcoreError
        The task failed.
    """
    if in_order and is_gone(folder):
        return run_task(task_input, in_order=True)
    ended = threading.Event()

    def watch(task: Task) -> None:
        while not ended.wait(LOOK_SECONDS):
            if is_gone(folder):
                task.cancel()
                return

    def start_watch(task: Task) -> None:
        threading.Thread(target=watch, args=(task,), name="qcore-spark-watch", daemon=True).start()

    try:
        return run_task(task_input, start_watch, in_order)
    except Cancelled:
        raise ExecutionError(
            f"the folder {folder} was removed while a task ran: the query has ended; if it has not, keep other "
            "programs from removing the folder, and run the query again"
        ) from None
    finally:
        ended.set()


def is_gone(folder: str) -> bool:
    """Whether a folder does not exist. Other errors, such as those of a network file system, do not mean that."""
    try:
        os.stat(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def without_drivers(stats: dict[str, Any]) -> dict[str, Any]:
    """The value of Task.stats() without the counters of single drivers, which are many."""
    pipelines = [
        {
            **pipeline,
            "operators": [
                {name: value for name, value in operator.items() if name != "drivers"}
                for operator in pipeline["operators"]
            ],
        }
        for pipeline in stats["pipelines"]
    ]
    return {**stats, "pipelines": pipelines}


def memory_limit_here(limit: int | None) -> int | None:
    """Return the memory limit of a task in this process: `limit`, or what its address space leaves, if that is less.

    Spark limits the address space of its Python workers to spark.executor.pyspark.memory, divided by the cores of the
    executor.

    Raises
    ------
    MemoryLimitError
        The address space leaves too little.
    """
    import resource

    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if space == resource.RLIM_INFINITY:
        return limit
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    left = space - used - RESERVED_BYTES
    if left < LIMIT_BYTES_MIN:
        raise MemoryLimitError(
            f"Spark gives this Python worker {space >> 20} MB (spark.executor.pyspark.memory divided by the executor's "
            f"cores), of which {used >> 20} MB are used before the first row: at least "
            f"{(used + RESERVED_BYTES + LIMIT_BYTES_MIN) >> 20} MB are needed for each core"
        )
    return left if limit is None else min(limit, left)
