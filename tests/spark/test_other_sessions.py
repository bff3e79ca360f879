"""Sessions that need a separate process: with separate executors, and Spark Connect (SPEC S3)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TESTS = Path(__file__).parents[1]
SCRIPT = """
import sys
from pyspark.sql import SparkSession
from reading import read_table
from qcore.connectors.sources import table_from
from qcore.errors import ExecutionError

kind, files = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "3")
if kind == "connect":
    spark = builder.remote("local[2]").getOrCreate()
else:
    spark = builder.master("local-cluster[2,1,1024]").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
df = spark.read.parquet(files)
scan = table_from(df)
assert hasattr(scan, "reason") == (kind == "connect"), scan
assert sorted(read_table(scan).column("a").to_pylist()) == list(range(1000))
grouped = table_from(df.groupBy("k").count())
counts = read_table(grouped)
assert sorted(zip(counts.column("k").to_pylist(), counts.column("count").to_pylist())) == [(k, 100) for k in range(10)]
failing = table_from(df.selectExpr("assert_true(a < 5, 'too large') as x"))
try:
    read_table(failing)
except ExecutionError as error:
    assert "too large" in str(error) and "stacktrace" not in str(error), error
else:
    raise AssertionError("no error")


def fails_first(batches):
    from pyspark import TaskContext

    for number, batch in enumerate(batches):
        if number == 12 and TaskContext.get().attemptNumber() == 0:
            if TaskContext.get().partitionId() == 0:
                raise ValueError("the first attempt fails")
            __import__("os")._exit(3)
        yield batch


if kind == "cluster":
    retried = read_table(table_from(spark.range(0, 400_000, 1, 2).mapInArrow(fails_first, "id long")))
    assert retried.num_rows == 400_000, retried.num_rows
    assert sorted(retried["id"].to_pylist()) == list(range(400_000))
slow = table_from(spark.range(0, 400, 1, 40).selectExpr("java_method('java.lang.Thread', 'sleep', 20L * id) as s"))
splits = slow.splits(("s",), None, 2)
next(splits)
splits.close()
print("all well")
"""


@pytest.mark.timeout(300)
@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["connect", "cluster"])
def test_in_a_process_of_its_own(tmp_path: Path, kind: str) -> None:
    """S3."""
    if kind == "connect" and importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect's client is missing: pip install 'pyspark[connect]'")
    pq.write_table(pa.table({"a": range(1000), "k": [i % 10 for i in range(1000)]}), tmp_path / "t.parquet")
    path = os.pathsep.join([str(TESTS), os.environ["PYTHONPATH"]])
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", SCRIPT, kind, str(tmp_path / "t.parquet")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert "all well" in done.stdout, done.stdout[-1000:] + done.stderr[-3000:]
