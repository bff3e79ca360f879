"""Queries on executors of their own, on Spark Connect, and after a driver process was killed (SPEC S2, S3, S4).

Each runs in a process of its own, which has its own session of Spark.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

N_ROWS = 60_000
START = """
import os, sys, threading, time
from pyspark.sql import SparkSession
import qcore
from oracle import assert_same_rows

path, folder, *rest = sys.argv[1:]
QUERY = "select a.k, count(*) as n, sum(a.x * b.x) as s from t a join t b on a.x = b.x group by a.k"


def settings(builder):
    return (
        builder.config("spark.ui.enabled", "false").config("spark.qcore.exchange.dir", folder)
        .config("spark.qcore.broadcast.bytes", "1").config("spark.qcore.driver.bytes", "1")
        .config("spark.python.daemon.module", "qcore.spark.daemon")
    )


def check(result):
    assert_same_rows(result.to_arrow(), qcore.sql(QUERY, {"t": path}, threads=1).to_arrow())
    stages = result.stats()["stages"]
    result.close()
    assert os.listdir(folder) == [], os.listdir(folder)
    return stages
"""
CLUSTER = """
import qcore.spark.transport as transport

spark = settings(SparkSession.builder.master("local-cluster[2,1,1024]")).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
stages = check(qcore.sql(QUERY, {"t": path}, on=spark))
assert sum(not stage["on_driver"] for stage in stages) >= 2, stages
task_runner = transport.task_runner


def killing(stage_number):
    # Kills the executor of the stage's first task in its first attempt: the parent of the daemon of Python workers.
    def runner_of(stage, *more):
        import pickle

        runner = task_runner(stage, *more)
        kills = pickle.loads(stage).number == stage_number

        def run(tasks):
            import os, pickle, signal
            from pyspark import TaskContext

            context = TaskContext.get()
            for task in tasks:
                if kills and context.attemptNumber() == 0 and pickle.loads(task).partition == 0:
                    for report in runner(iter([task])):
                        pass
                    with open(f"/proc/{os.getppid()}/stat") as file:
                        executor = int(file.read().rpartition(")")[2].split()[1])
                    os.kill(executor, signal.SIGKILL)
                    os._exit(1)
                yield from runner(iter([task]))

        return run

    return runner_of


for number in (1, 2, 3):
    transport.task_runner = killing(number)
    stages = check(qcore.sql(QUERY, {"t": path}, on=spark))
    killed = [stage for stage in stages if stage["number"] == number]
    assert killed[0]["on_driver"] or killed[0]["attempts"] > killed[0]["tasks"], killed
    transport.task_runner = task_runner
    check(qcore.sql(QUERY, {"t": path}, on=spark))
print("all well")
"""
CONNECT = """
spark = settings(SparkSession.builder.remote("local[2]")).config("spark.qcore.tasks", "2").getOrCreate()
check(qcore.sql(QUERY, {"t": path}, on=spark))
with qcore.sql("select k, x from t where x < 5", {"t": spark.read.parquet(path)}, on=spark) as result:
    assert sorted(row.x for row in result.to_spark().collect()) == [0, 1, 2, 3, 4]
text = "select count(*) as n from t a join t b on a.x + b.x > 0.5 and a.x * b.x <> a.x + 1.5"
slow = qcore.sql(text, {"t": path}, on=spark)
timer = threading.Timer(4, slow.cancel)
timer.start()
try:
    slow.to_arrow()
except qcore.Cancelled:
    pass
else:
    raise AssertionError("not cancelled")
assert os.listdir(folder) == [], os.listdir(folder)
print("all well")
"""
DRIVER = """
spark = settings(SparkSession.builder.master("local[2,4]")).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
if rest:
    slow = "select count(*) as n from t a join t b on a.x + b.x > 0.5 and a.x * b.x <> a.x + 1.5"
    result = qcore.sql(slow, {"t": path}, on=spark)

    def tell():
        while result.progress()[1] == 0 or not os.listdir(folder):
            time.sleep(0.05)
        time.sleep(2)
        print("running", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    result.to_arrow()
check(qcore.sql(QUERY, {"t": path}, on=spark))
print("all well")
"""


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    rows = {"k": [i % 1000 for i in range(N_ROWS)], "x": list(range(N_ROWS))}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet", row_group_size=6_000)
    (tmp_path / "exchange").mkdir()
    return [str(tmp_path / "t.parquet"), str(tmp_path / "exchange")]


def environment(tmp_path: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ["PYTHONPATH"]])
    own = {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_WORKER_DIR": str(tmp_path / "workers")}
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **own}


def run(script: str, arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", START + script, *arguments]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=280, check=False)
    assert "all well" in done.stdout, done.stdout[-1000:] + done.stderr[-3000:]


@pytest.mark.sweep
def test_executors_that_are_killed(arguments: list[str], tmp_path: Path) -> None:
    """In each stage, after the task's file was complete."""
    run(CLUSTER, arguments, tmp_path)


@pytest.mark.sweep
def test_connect(arguments: list[str], tmp_path: Path) -> None:
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect's client is missing: pip install 'pyspark[connect]'")
    run(CONNECT, arguments, tmp_path)


@pytest.mark.sweep
def test_a_driver_that_is_killed(arguments: list[str], tmp_path: Path) -> None:
    """Its processes end, and the next query of another process removes its folder."""
    command = [sys.executable, "-c", START + DRIVER, *arguments, "slow"]
    driver = subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert driver.stdout.readline().strip() == "running"
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert len(list((tmp_path / "exchange").iterdir())) == 1
    deadline = time.monotonic() + 60
    while processes_with(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_with(str(tmp_path)) == []
    run(DRIVER, arguments, tmp_path)


def processes_with(text: str) -> list[int]:
    """The other processes whose environment has a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
