"""A stage as one job of Spark. Tasks are sent as bytes, and successful tasks send reports."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from qcore.config import VERSION
from qcore.errors import ExecutionError
from qcore.spark.spark_job import SparkJob, is_connect, no_action
from qcore.spark.stage_task import StageWork, TaskReport, TaskWork

# The address space below which a Python worker cannot load the engine. More is needed to run anything: see stage_task.
WORKER_BYTES_MIN = 1 << 30
REMEDY = (
    "install qcore there, or ship its wheel, copied to qcore.zip: spark.archives=qcore.zip#qcore_lib and "
    "spark.executorEnv.PYTHONPATH=./qcore_lib (docs/SPARK.md)"
)

TaskRunner = Callable[[Iterator[bytes]], Iterator[bytes]]


def worker_check(version: str, bytes_min: int, remedy: str) -> Callable[[], None]:
    """Return the function that checks whether a Python worker can run tasks.

    It is self-contained, so that an executor without qcore, or with another version, can say so.
    """

    def check() -> None:
        import importlib
        import resource
        import socket
        import sys

        def error(message: str) -> Exception:
            # The name by which the driver process knows an error of qcore. This process may not have the class.
            kind = type("ExecutionError", (Exception,), {"__module__": "qcore.errors"})
            return kind(f"{message} (the Python worker {sys.executable} on {socket.gethostname()})")

        space = resource.getrlimit(resource.RLIMIT_AS)[0]
        if space != resource.RLIM_INFINITY and space < bytes_min:
            raise error(
                f"Spark gives a Python worker {space >> 20} MB (spark.executor.pyspark.memory divided by the "
                f"executor's cores), and qcore needs at least {bytes_min >> 20} MB for each core"
            )
        try:
            from qcore.config import VERSION as here

            if here != version:
                raise error(f"qcore {here} is installed, and the query needs {version}: {remedy}")
            importlib.import_module("qcore.spark.stage_task")
        except ImportError as missing:
            raise error(f"qcore cannot be imported ({missing}): {remedy}") from None

    return check


def task_runner(stage: bytes, version: str, bytes_min: int, remedy: str) -> TaskRunner:
    """Return the function that runs tasks in a Python worker: an iterator over tasks to one over their reports."""
    check = worker_check(version, bytes_min, remedy)

    def run(tasks: Iterator[bytes]) -> Iterator[bytes]:
        from pyspark import TaskContext

        check()
        from qcore.garbage import exempt_modules
        from qcore.spark.stage_task import run_bytes

        context = TaskContext.get()
        threads = context.cpus() if context is not None else 1
        attempt = context.attemptNumber() if context is not None else 0
        for task in tasks:
            yield run_bytes(stage, task, threads, attempt)
        exempt_modules()

    return run


def over_batches(run: TaskRunner) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for mapInArrow: the bytes are the last column of its batches, and the one of its results."""

    def run_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for report in run(iter(batch.column(batch.num_columns - 1).to_pylist())):
                yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], names=["report"])

    return run_batches


def stage_job(
    session: Any,
    description: str,
    work: StageWork,
    tasks: Sequence[TaskWork],
    on_done: Callable[[], None] = no_action,
) -> SparkJob[list[TaskReport]]:
    """Return the job that runs a stage's tasks. Its result is the report of the successful attempt of each task.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A session, classic or of Spark Connect.
    description : str
        The text in Spark's UI.
    work : StageWork
        The part of the input that all tasks share.
    tasks : sequence of TaskWork
        The other part of each task's input, in the order of partitions.
    on_done : callable
        Is called, in the thread of the job, when it has ended.
    """
    runner = task_runner(pickle.dumps(work, protocol=5), VERSION, WORKER_BYTES_MIN, REMEDY)
    given = [pickle.dumps(task, protocol=5) for task in tasks]
    collect = _collect_connect if is_connect(session) else _collect_classic

    def run() -> list[TaskReport]:
        reports: list[TaskReport] = [pickle.loads(report) for report in collect(session, runner, given)]
        return in_order(reports, len(given))

    return SparkJob(session, description, run, on_done)


def _collect_classic(session: Any, runner: TaskRunner, tasks: list[bytes]) -> list[bytes]:
    reports: list[bytes] = session.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(runner).collect()
    return reports


def _collect_connect(session: Any, runner: TaskRunner, tasks: list[bytes]) -> list[bytes]:
    frame = session.createDataFrame(list(enumerate(tasks)), "number int, task binary")
    divided = frame.repartitionById(len(tasks), "number")
    return [bytes(row[0]) for row in divided.mapInArrow(over_batches(runner), "report binary").collect()]


def in_order(reports: list[TaskReport], n_tasks: int) -> list[TaskReport]:
    """Return the reports by partition. ExecutionError unless there is one of each."""
    by_partition = {report.partition: report for report in reports}
    if len(reports) != n_tasks or sorted(by_partition) != list(range(n_tasks)):
        raise ExecutionError(
            f"Spark returned the reports of the tasks {sorted(report.partition for report in reports)} of {n_tasks}: "
            "rows may be missing or duplicated; run the query again"
        )
    return [by_partition[partition] for partition in range(n_tasks)]
