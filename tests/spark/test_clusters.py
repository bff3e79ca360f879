"""Queries on separate executors, on Spark Connect, and after a driver process was killed (SPEC S2, S3, S4)."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

N_ROWS = 60_000
START = """
import faulthandler, os, sys, threading, time

# A script that hangs tells where.
faulthandler.dump_traceback_later(270, exit=True)

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
LOST_SHUFFLE = """
import gc, signal

# Without these a task asks a dead executor for 15 seconds.
builder = settings(SparkSession.builder.master("local-cluster[2,1,1024]"))
spark = builder.config("spark.shuffle.io.maxRetries", "1").config("spark.shuffle.io.retryWait", "100ms").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
(counted,) = rest


def counting(batches):
    # Notes each run of a task that writes to the shuffle.
    import uuid

    with open(os.path.join(counted, uuid.uuid4().hex), "x"):
        yield from batches


def killing_once(batches):
    # Kills the executor of one task that reads from the shuffle, when it has read some. What tasks of that executor
    # wrote to the shuffle is lost too.
    try:
        os.close(os.open(os.path.join(counted, "killed"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield from batches
        return
    yield next(batches)
    with open(f"/proc/{os.getppid()}/stat") as file:
        executor = int(file.read().rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    os._exit(1)


for on in (None, spark):
    rows = spark.range(0, 100_000, 1, 4).mapInArrow(counting, "id long").repartition(4)
    rows = rows.mapInArrow(killing_once, "id long")
    found = qcore.sql("select count(*) as n, sum(id) as s from r", {"r": rows}, on=on).to_arrow().to_pylist()
    assert found == [{"n": 100_000, "s": 99_999 * 50_000}], found
    names = os.listdir(counted)
    assert "killed" in names and len(names) > 5, "nothing was computed again: " + str(names)
    for name in names:
        os.unlink(os.path.join(counted, name))
del rows
gc.collect()
assert os.listdir(folder) == [], os.listdir(folder)
print("all well")
"""
SPECULATION = """
import qcore.spark.transport as transport

master, notes = rest
builder = settings(SparkSession.builder.master(master)).config("spark.executor.memory", "512m")
for name, value in {"": "true", ".interval": "100ms", ".multiplier": "1.01", ".quantile": "0.5",
                    ".minTaskRuntime": "100ms", ".task.duration.threshold": "2s"}.items():
    builder = builder.config(f"spark.speculation{name}", value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < 3:
    time.sleep(0.1)
stages = check(qcore.sql(QUERY, {"t": path}, on=spark))
assert {host for stage in stages for host in stage["hosts"]}, stages
task_runner = transport.task_runner


def straggling(stage_number, behind, waits):
    # The first attempt of the stage's first task waits: within its output, or when its file is complete. It then makes
    # the file `waits`. A copy of the task begins after that, because on a slow machine it could win before.
    def runner_of(stage, *more):
        import pickle

        runner = task_runner(stage, *more)
        of_stage = pickle.loads(stage).number == stage_number

        def wait_long():
            import time

            open(waits, "x").close()
            time.sleep(120)

        def run(tasks):
            import os, pickle, time
            from pyspark import TaskContext

            context = TaskContext.get()
            for task in tasks:
                is_first = of_stage and pickle.loads(task).partition == 0
                is_straggler = is_first and context.attemptNumber() == 0
                while is_first and not is_straggler and not os.path.exists(waits):
                    time.sleep(0.05)
                if is_straggler and not behind:
                    from qcore.writing.page_file import PageFileWriter

                    append, appended = PageFileWriter._append, []

                    def append_and_wait(self, partition, blocks, n_rows):
                        append(self, partition, blocks, n_rows)
                        appended.append(partition)
                        if len(appended) == 2:
                            self._file.flush()
                            wait_long()

                    PageFileWriter._append = append_and_wait
                for report in runner(iter([task])):
                    if is_straggler:
                        wait_long()
                    yield report

        return run

    return runner_of


n_left = []
for behind in (False, True):
    for number in (1, 3):
        transport.task_runner = straggling(number, behind, os.path.join(notes, f"{number}-{behind}"))
        started = time.monotonic()
        result = qcore.sql(QUERY, {"t": path}, on=spark)
        result.to_arrow()
        assert time.monotonic() - started < 100
        (held,) = os.listdir(folder)
        # Files of tasks begin with the stage's number; others are filters of keys.
        n_files = sum(name.startswith("s") for name in os.listdir(os.path.join(folder, held)))
        stages = check(result)
        (late,) = [stage for stage in stages if stage["number"] == number]
        assert late["attempts"] > late["tasks"], stages
        n_left.append(n_files - sum(stage["tasks"] for stage in stages))
        transport.task_runner = task_runner
assert n_left == [1, 1, 1, 1], n_left
print("all well")
spark.stop()
"""
FULL_DISK = """
import subprocess

spark = settings(SparkSession.builder.master("local[2,4]")).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], check=True)
for driver_bytes in ("1", "32MB"):
    spark.conf.set("spark.qcore.driver.bytes", driver_bytes)
    try:
        qcore.sql(QUERY, {"t": path}, on=spark).to_arrow()
    except qcore.ExecutionError as error:
        assert "cannot write" in str(error) and "No space left on device" in str(error), error
        assert "\\n" not in str(error) and "org.apache" not in str(error), error
    else:
        raise AssertionError("there was room")
    assert os.listdir(folder) == [], os.listdir(folder)
subprocess.run(["mount", "-o", "remount,size=200m", folder], check=True)
check(qcore.sql(QUERY, {"t": path}, on=spark))
print("all well")
"""
ADDRESS_SPACE = """
(space,) = rest
spark = (
    settings(SparkSession.builder.master("local-cluster[2,1,1024]"))
    .config("spark.executor.pyspark.memory", space).getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
try:
    check(qcore.sql(QUERY, {"t": path}, on=spark))
    print("answered")
except qcore.QcoreError as error:
    assert "\\n" not in str(error) and "org.apache" not in str(error) and " MB" in str(error), error
    print(f"refused: {error}")
assert os.listdir(folder) == [], os.listdir(folder)
print("all well")
"""
SHUFFLED = """
import pickle, signal, tempfile

import qcore.spark.carriers as carriers
from qcore.spark.distributed_query import StageLoop

# Of the driver process alone.
tempfile.tempdir = folder
(marks,) = rest
builder = settings(SparkSession.builder.master("local-cluster[2,1,1024]")).config("spark.qcore.exchange.dir", "")
# Without these a task asks a dead executor for 15 seconds.
builder = builder.config("spark.shuffle.io.maxRetries", "1").config("spark.shuffle.io.retryWait", "100ms")
spark = builder.config("spark.qcore.exchange.carrier", "shuffle").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
stages = check(qcore.sql(QUERY, {"t": path}, on=spark))
assert sum(not stage["on_driver"] for stage in stages) >= 3, stages
shuffle_runner, finish = carriers.shuffle_runner, StageLoop._finish


def killing(stage_number):
    # Notes each run of a task, and kills the executor of one task when its pages are written.
    def runner_of(stage, *more):
        runner, number = shuffle_runner(stage, *more), pickle.loads(stage).number

        def run(task, blobs):
            import os, signal, uuid

            with open(os.path.join(marks, f"{number}-{task}-{uuid.uuid4().hex}"), "x"):
                yield from runner(task, blobs)
            if number == stage_number and task == 0:
                try:
                    os.close(os.open(os.path.join(marks, "killed"), os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return
                with open(f"/proc/{os.getppid()}/stat") as file:
                    executor = int(file.read().rpartition(")")[2].split()[1])
                os.kill(executor, signal.SIGKILL)
                os._exit(1)

        return run

    return runner_of


def parent_of(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def is_running(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def killing_after(stage_number):
    # Kills the executor of a stage's first task when the stage has ended: the pages of that task are lost.
    def finish_and_kill(loop, run, reports):
        finish(loop, run, reports)
        if run.stage.number == stage_number:
            executor = parent_of(parent_of(reports[0].process))
            os.kill(executor, signal.SIGKILL)
            while is_running(executor):
                time.sleep(0.05)

    return finish_and_kill


for number, after in ((1, False), (3, False), (1, True), (2, True)):
    carriers.shuffle_runner = killing(None if after else number)
    StageLoop._finish = killing_after(number) if after else finish
    check(qcore.sql(QUERY, {"t": path}, on=spark))
    tasks = ["-".join(name.split("-")[:2]) for name in os.listdir(marks) if name != "killed"]
    assert len(tasks) > len(set(tasks)), "nothing was computed again: " + str(tasks)
    for name in os.listdir(marks):
        os.unlink(os.path.join(marks, name))
carriers.shuffle_runner, StageLoop._finish = shuffle_runner, finish
check(qcore.sql(QUERY, {"t": path}, on=spark))
print("all well")
"""
NOTHING_SHARED = """
import subprocess, tempfile

import pyarrow.parquet as pq
import qcore.spark.carriers as carriers

master, notes = rest
# Other processes do not see what is mounted here.
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", folder], check=True)
tempfile.tempdir = folder
builder = settings(SparkSession.builder.master(master)).config("spark.qcore.exchange.dir", "")
spark = builder.config("spark.executor.memory", "512m").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < 3:
    time.sleep(0.1)
tables = {"t": path, "m": pq.read_table(path).slice(0, 5000)}
texts = [
    QUERY,
    "select m.k, count(*) as n, sum(t.x) as s from t join m on t.x = m.x group by m.k",
    "with g as (select k, x from t where x > 100) select k from g where x < 9000 union all select k from g, "
    "(select avg(x) as y from g) where x > y",
    "select k, x, row_number() over (order by x desc, k) as n from t where x < 30000",
    "select k, x, sum(x) over (partition by k order by x) as y from t",
    "select x from t order by x desc limit 5",
]
for number, text in enumerate(texts):
    # Joins are by partition first; then the small side is sent to every task.
    for broadcast_bytes in ("1", "64MB") if number < 2 else ("1",):
        spark.conf.set("spark.qcore.broadcast.bytes", broadcast_bytes)
        with qcore.sql(text, tables, on=spark) as result:
            assert_same_rows(result.to_arrow(), qcore.sql(text, tables, threads=1).to_arrow())
            assert any(not stage["on_driver"] for stage in result.stats()["stages"])
        assert os.listdir(folder) == []
with qcore.sql("select k, x from t where x < 5", tables, on=spark) as result:
    assert sorted(row.x for row in result.to_spark().collect()) == [0, 1, 2, 3, 4]

shuffle_runner = carriers.shuffle_runner


def noting(stage, *more):
    # Notes the workers that run a task.
    runner = shuffle_runner(stage, *more)

    def run(task, blobs):
        import os

        note = os.path.join(notes, str(os.getpid()))
        open(note, "w").close()
        try:
            yield from runner(task, blobs)
        finally:
            os.unlink(note)

    return run


def is_running(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


carriers.shuffle_runner = noting
text = "select count(*) as n from t a join t b on a.x + b.x > 0.5 and a.x * b.x <> a.x + 1.5"
slow = qcore.sql(text, tables, on=spark)
threading.Timer(5, slow.cancel).start()
try:
    slow.to_arrow()
except qcore.Cancelled:
    pass
else:
    raise AssertionError("not cancelled")
running = os.listdir(notes)
assert running
# Tasks see no folder that is removed. Spark ends the workers of tasks that it killed.
deadline = time.monotonic() + 5
while any(is_running(process) for process in running) and time.monotonic() < deadline:
    time.sleep(0.05)
assert not [process for process in running if is_running(process)]
assert os.listdir(folder) == []
carriers.shuffle_runner = shuffle_runner
check(qcore.sql(QUERY, {"t": path}, on=spark))
print("all well")
spark.stop()
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


def run(script: str, arguments: list[str], tmp_path: Path, before: tuple[str, ...] = (), ends: bool = True) -> str:
    """Run a script to its end and return its output. If `ends`, no process may be left."""
    command = [*before, sys.executable, "-c", START + script, *arguments]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=280, check=False)
    assert "all well" in done.stdout, done.stdout[-1000:] + done.stderr[-3000:]
    if ends:
        wait_for_end(tmp_path)
    return done.stdout


def small_disks() -> tuple[str, ...]:
    """The beginning of a command that may mount disks for itself."""
    apart = ("unshare", "--map-root-user", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a small disk: unshare --map-root-user --mount fails")
    return apart


def wait_for_end(tmp_path: Path) -> None:
    """Wait until all processes that a test started have ended."""
    deadline = time.monotonic() + 60
    while processes_with(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_with(str(tmp_path)) == []


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone cluster with a master and two workers on separate hosts. Returns its URL."""
    import pyspark

    start = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    logs = tmp_path / "logs"
    logs.mkdir()
    own = {**environment(tmp_path), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    started: list[subprocess.Popen[bytes]] = []

    def run_server(kind: str, *options: str) -> Path:
        log = logs / f"{len(started)}.txt"
        with log.open("wb") as file:
            command = [*start, f"org.apache.spark.deploy.{kind}", *options]
            started.append(subprocess.Popen(command, env=own, stdout=file, stderr=file))
        return log

    def wait_for_line(log: Path, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            if found := re.search(pattern, log.read_text()):
                return found
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    try:
        log = run_server("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = wait_for_line(log, r"Starting Spark master at (spark://\S+)")[1]
        workers = [
            run_server("worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0", url)
            for host in ("127.0.0.2", "127.0.0.3")
        ]
        for log in workers:
            wait_for_line(log, "Successfully registered with master")
        yield url
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)
    wait_for_end(tmp_path)


@pytest.mark.sweep
def test_executors_that_are_killed(arguments: list[str], tmp_path: Path) -> None:
    """An executor is killed in each stage, after its task's file was complete."""
    run(CLUSTER, arguments, tmp_path)


@pytest.mark.sweep
@pytest.mark.timeout(400)
def test_pages_in_a_shuffle_that_are_lost(arguments: list[str], tmp_path: Path) -> None:
    """With an executor that is killed in each stage, and after it: Spark runs their tasks again."""
    marks = tmp_path / "marks"
    marks.mkdir()
    run(SHUFFLED, [*arguments, str(marks)], tmp_path)


@pytest.mark.sweep
@pytest.mark.timeout(400)
def test_no_folder_is_shared(arguments: list[str], tmp_path: Path, master: str) -> None:
    """Executors do not see the folder of the driver process: pages go through Spark's shuffle and broadcast.

    The workers of a cancelled query end within 5 s.
    """
    notes = tmp_path / "notes"
    notes.mkdir()
    run(NOTHING_SHARED, [*arguments, master, str(notes)], tmp_path, small_disks(), ends=False)


@pytest.mark.sweep
def test_a_lost_shuffle(arguments: list[str], tmp_path: Path) -> None:
    """Spark computes a DataFrame below the query. Shuffled rows are lost with their executor and computed again."""
    counted = tmp_path / "counted"
    counted.mkdir()
    run(LOST_SHUFFLE, [*arguments, str(counted)], tmp_path)


@pytest.mark.sweep
@pytest.mark.timeout(400)
def test_speculation(arguments: list[str], tmp_path: Path, master: str) -> None:
    """Copies of slow tasks win. Files of the other attempts, complete or not, do not count and are removed."""
    notes = tmp_path / "notes"
    notes.mkdir()
    run(SPECULATION, [*arguments, master, str(notes)], tmp_path, ends=False)


@pytest.mark.sweep
def test_a_full_disk(arguments: list[str], tmp_path: Path) -> None:
    """One error names the file, and nothing is left. With more space the same session returns the answer."""
    run(FULL_DISK, arguments, tmp_path, small_disks())


@pytest.mark.sweep
@pytest.mark.parametrize(("space", "expected"), [("512m", "refused"), ("1g", "refused"), ("2g", "answered")])
def test_a_limited_address_space(space: str, expected: str, arguments: list[str], tmp_path: Path) -> None:
    """Python workers with a limit return the answer, or one error that states how much they need."""
    assert expected in run(ADDRESS_SPACE, [*arguments, space], tmp_path)


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
    wait_for_end(tmp_path)
    run(DRIVER, arguments, tmp_path)


def processes_with(text: str) -> list[int]:
    """The other processes whose environment contains a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
