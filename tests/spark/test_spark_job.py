"""Jobs of Spark end with a result, with one clear error, or by a cancellation."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from qcore.errors import Cancelled, ExecutionError, MemoryLimitError
from qcore.spark.spark_job import SparkJob, error_of, message_of

CLASSIC = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.7 executor 2): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "worker.py", line 1, in main
{raised}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
{raised}
"""


def test_the_message_of_an_error() -> None:
    text = "An exception was thrown:\nTraceback (most recent call last):\n  File x\nValueError: no good\n"
    assert message_of(RuntimeError(text)) == "in a Python worker, ValueError: no good"
    assert message_of(RuntimeError("[A] b\n\nJVM stacktrace:\nx")) == "[A] b"
    assert message_of(RuntimeError()) == "RuntimeError"
    told = message_of(RuntimeError(CLASSIC.format(raised="ValueError: no good")))
    assert told == "in a Python worker, ValueError: no good (on 10.0.0.7, executor 2)"
    lost = "failure: Lost task 0.3 in stage 1.0 (TID 7) (h executor driver): org.X: Python worker exited unexpectedly"
    text = f"An error occurred.\n: Job aborted due to stage failure: most recent {lost} (crashed).\n\tat a.b(C.java)"
    assert message_of(RuntimeError(text)).endswith(
        "the last time with org.X: Python worker exited unexpectedly (crashed)."
    )


def test_errors_of_qcore_keep_their_class() -> None:
    raised = "qcore_ext.ground.status.MemoryLimitError: HashAggregation (node 3) needs 4 MB\nset memory_limit"
    error = error_of(RuntimeError(CLASSIC.format(raised=raised)))
    assert type(error) is MemoryLimitError
    assert str(error) == "HashAggregation (node 3) needs 4 MB set memory_limit (on 10.0.0.7, executor 2)"
    other = error_of(RuntimeError(CLASSIC.format(raised="qcore.other.Unknown: x")))
    assert type(other) is ExecutionError and str(other).startswith("the Spark job failed: ")


def test_a_result_and_a_failure(spark: Any) -> None:
    job = SparkJob(spark, "test", lambda: spark.range(7).count())
    job.start()
    assert job.wait(60) and job.result() == 7

    def fail(number: int) -> int:
        raise ExecutionError(f"cannot take {number}")

    failing = SparkJob(spark, "test", lambda: spark.sparkContext.parallelize([4], 1).map(fail).collect())
    failing.start()
    assert failing.wait(60)
    with pytest.raises(ExecutionError, match=r"^cannot take 4$"):
        failing.result()


def test_a_cancelled_job(spark: Any) -> None:
    def sleep(number: int) -> int:
        time.sleep(60)
        return number

    job = SparkJob(spark, "test", lambda: spark.sparkContext.parallelize([1, 2, 3], 3).map(sleep).collect())
    job.start()
    while job.progress()[1] != 3:
        time.sleep(0.01)
    assert job.progress() == (0, 3)
    started = time.monotonic()
    job.stop()
    assert time.monotonic() - started < 20
    with pytest.raises(Cancelled, match="the Spark job was cancelled"):
        job.result()
    assert "qcore-spark-job" not in {thread.name for thread in threading.enumerate()}
    never = SparkJob(spark, "test", lambda: 1)
    never.stop()
    never.start()
    assert never.wait(60)
    with pytest.raises(Cancelled):
        never.result()
