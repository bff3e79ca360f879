"""Tasks on executors: qcore missing or of another version, little memory, and inconsistent reports (SPEC S2, S4)."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from qcore.config import VERSION
from qcore.errors import ExecutionError, MemoryLimitError
from qcore.spark.spark_job import SparkJob
from qcore.spark.stage_task import TaskReport, memory_limit_here
from qcore.spark.transport import REMEDY, in_order, over_batches, task_runner
from qcore.writing.page_file import PageFile

FRONTENDS = (
    "sqlglot",
    "pyspark",
    "pandas",
    "qcore.sql.bind",
    "qcore.substrait.plan",
    "qcore.optimizer",
    "qcore.builder",
)


def collect_bytes(spark: Any, runner: Any) -> Any:
    job = SparkJob(spark, "test", lambda: spark.sparkContext.parallelize([b""], 1).mapPartitions(runner).collect())
    job.start()
    assert job.wait(120)
    return job.result()


def test_a_worker_does_not_import_the_frontends() -> None:
    program = f"import qcore.spark.stage_task, sys; print([name for name in {FRONTENDS!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_another_version_on_an_executor(spark: Any) -> None:
    with pytest.raises(ExecutionError) as caught:
        collect_bytes(spark, task_runner(b"", "9.9", 1, REMEDY))
    told = str(caught.value)
    assert told.startswith(f"qcore {VERSION} is installed, and the query needs 9.9: install qcore there, or ship its")
    assert "spark.archives" in told and "\n" not in told


def test_no_qcore_on_an_executor(spark: Any) -> None:
    runner = task_runner(b"", VERSION, 1, REMEDY)

    def hide_modules(tasks: Iterator[bytes]) -> Iterator[bytes]:
        import sys

        held = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "qcore"}
        for name in held:
            del sys.modules[name]
        sys.modules["qcore"] = None  # type: ignore[assignment]
        try:
            yield from runner(tasks)
        finally:
            del sys.modules["qcore"]
            sys.modules.update(held)

    with pytest.raises(
        ExecutionError, match=r"^qcore cannot be imported \(.*\): install qcore there, or ship its wheel"
    ):
        collect_bytes(spark, hide_modules)


def test_little_memory(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = task_runner(b"", VERSION, 1 << 40, REMEDY)

    def limit_memory(tasks: Iterator[bytes]) -> Iterator[bytes]:
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 39, before[1]))
        try:
            yield from runner(tasks)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    with pytest.raises(ExecutionError, match=r"gives a Python worker 524288 MB \(spark\.executor\.pyspark\.memory"):
        collect_bytes(spark, limit_memory)
    assert memory_limit_here(None) is None and memory_limit_here(7) == 7
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    with pytest.raises(MemoryLimitError, match=r"gives this Python worker 1 MB .* at least \d+ MB are needed"):
        memory_limit_here(None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 50, 1 << 50))
    left = memory_limit_here(None)
    assert left is not None and (1 << 49) < left < (1 << 50) and memory_limit_here(5) == 5


def report(partition: int) -> TaskReport:
    return TaskReport(partition, PageFile("", (), 0), "", 0, 0, 1, 0, {})


def test_reports_are_one_of_each_task() -> None:
    assert [one.partition for one in in_order([report(1), report(0)], 2)] == [0, 1]
    for reports in ([report(0)], [report(0), report(0)], [report(0), report(2)], [report(0), report(1), report(1)]):
        with pytest.raises(ExecutionError, match="rows may be missing or duplicated; run the query again"):
            in_order(reports, 2)


def test_bytes_in_batches() -> None:
    batches = [
        pa.record_batch({"number": [0, 1], "task": [b"a", b"b"]}),
        pa.record_batch({"number": [2], "task": [b"c"]}),
    ]
    found = over_batches(lambda tasks: (task.upper() for task in tasks))(iter(batches))
    assert [row for batch in found for row in batch.column(0).to_pylist()] == [b"A", b"B", b"C"]
