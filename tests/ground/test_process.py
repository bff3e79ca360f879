"""What belongs to one process: handles in forked children, and queries while the interpreter is leaving (SPEC V4, D9).

Each program runs in an interpreter of its own. Children that wait for ever are ended by an alarm, and say so.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

SCRIPT = """
import atexit, ctypes, gc, os, pathlib, signal, sys, tempfile, threading, time, types
import pyarrow as pa, qcore
from qcore import PlanBuilder, col

AB = pa.table({"a": list(range(1000)), "b": [i % 7 for i in range(1000)]})

def rows_forever():
    while True:
        time.sleep(0.001)
        yield pa.record_batch({"a": list(range(1000))})

def endless():
    return pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), rows_forever())

def in_child(what):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        try:
            print(what(), flush=True)
        except BaseException as error:
            print(f"{type(error).__name__}: {str(error)[:57]}", flush=True)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if status:
        print("the child ended with", status, flush=True)

class Asleep(qcore.Operator):
    def output_schema(self, schema):
        return schema
    def add_input(self, batch):
        time.sleep(100)
    def get_output(self):
        return None
    def finish(self):
        pass
"""
FOREIGN = "QcoreError: this query belongs to the process that this one was forke"


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + text], capture_output=True, text=True, timeout=100, check=False
    )


def test_a_child_does_not_wait_for_a_result_that_its_parent_reads() -> None:
    done = run_script(
        """
result = qcore.Session(threads=2).execute(PlanBuilder().scan("e", source=endless()).filter(col("a") > 1).build())
batches = iter(result)
first = next(batches)
in_child(lambda: next(batches))
in_child(lambda: result.task.wait())
in_child(lambda: result.cancel())
in_child(lambda: result.task.start())
in_child(lambda: list(result.task.run_on_caller()))
in_child(lambda: result.task.iterator().next())
in_child(lambda: result.stats()["state"])
def drop():
    global result, batches
    del result, batches
    gc.collect()
    return "dropped"
in_child(drop)
print(next(batches).num_rows)
batches.close()
"""
    )
    expected = [*[FOREIGN] * 5, "IterOutcome.STOP", "running", "dropped", "998"]
    assert done.stdout.splitlines() == expected, done.stderr


def test_a_result_that_its_parent_has_not_begun_runs_in_a_child() -> None:
    done = run_script(
        """
result = qcore.Session(threads=2).execute(PlanBuilder().values(AB).aggregate([], {"s": ("sum", "a")}).build())
result.task
in_child(lambda: result.to_arrow().to_pylist())
print(result.to_arrow().to_pylist())
in_child(lambda: result.to_arrow().to_pylist())
"""
    )
    assert done.stdout == "[{'s': 499500}]\n" * 3, done.stderr


def test_pages_polled_queries_and_iterators_are_refused_in_a_child() -> None:
    done = run_script(
        """
plan = PlanBuilder().values(AB).partitioned_output(["a"], 2).build()
task = qcore.Task(plan, drivers=2)
buffers = task.output_buffers()
reader = buffers.reader(0)
first = next(reader)
in_child(lambda: buffers.fetch(0, 0))
in_child(lambda: next(reader))
in_child(lambda: buffers.acknowledge(0, 1))
in_child(lambda: buffers.close())
in_child(lambda: buffers.stats())
in_child(lambda: qcore.OutputBufferManager.instance().fetch(task.id, 1, 0))
query = qcore.polled(PlanBuilder().values(AB).filter(col("a") > 1).build(), partitions=1)
scan = query.pipelines[0][0]
cx = scan.context(0)
shared = scan.init_global_state(cx)
local = scan.init_local_state(cx, shared)
in_child(lambda: scan.poll_pull(cx, local, shared, 0))
in_child(lambda: query.pipelines[0][1].init_global_state(cx))
in_child(lambda: query.close())
print(scan.poll_pull(cx, local, shared, 0).given.num_rows)
query.close()
print(first.num_rows + sum(batch.num_rows for rest in (reader, buffers.reader(1)) for batch in rest))
"""
    )
    lines = done.stdout.splitlines()
    assert lines[:8] == [FOREIGN] * 8, (lines, done.stderr)
    assert lines[8:] == ["None", "1000", "1000"], (lines, done.stderr)


def test_pages_that_a_reader_holds_are_refused_in_a_child() -> None:
    done = run_script(
        """
task = qcore.Task(PlanBuilder().values(pa.table({"a": range(400_000)})).partitioned_output([], 1).build(), drivers=1)
buffers = task.output_buffers()
task.wait(20)
reader = buffers.reader(0)
n_rows = next(reader).num_rows
in_child(lambda: next(reader))
print(n_rows < 200_000, n_rows + sum(batch.num_rows for batch in reader))
"""
    )
    assert done.stdout.splitlines() == [FOREIGN, "True 400000"], done.stderr


def test_many_children_run_queries_of_their_own_while_their_parent_is_busy() -> None:
    """Locks that the parent's threads hold are free in a forked child. The child's session has its own memory."""
    done = run_script(
        """
session = qcore.Session(threads=2, session_memory_limit=1 << 28)
session.register("t", AB)
plan = PlanBuilder().scan("t", schema=AB.schema).aggregate(["b"], {"s": ("sum", "a")}).order_by(["b"]).build()
want = session.execute(plan).to_arrow()
batches = iter(session.execute(PlanBuilder().scan("e", source=endless()).build()))
next(batches)
over = threading.Event()
def busy():
    while not over.is_set():
        assert session.execute(plan).to_arrow() == want
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads: thread.start()
children = []
for n in range(40):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        ok = all(session.execute(plan).to_arrow() == want for _ in range(3))
        os._exit(0 if ok else 3)
    children.append(pid)
    if n % 8 == 7:
        print({os.waitpid(child, 0)[1] for child in children}, flush=True)
        children = []
over.set()
for thread in threads: thread.join()
batches.close()
"""
    )
    assert done.stdout == "{0}\n" * 5, done.stderr


def test_wake_ups_of_a_parents_drivers_do_not_hang_a_child() -> None:
    """The parent may hold any lock when it forks. Without renewed locks 10 of 40 children hung."""
    done = run_script(
        """
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_testing.operators import FakeOperator, Resource, Sleeper
resource = Resource()
task = Task([[[Sleeper(resource, 1 << 40), FakeOperator("sink")] for _ in range(4)]], None, Scheduler(3))
task.start()
over = []
firing = threading.Thread(target=resource.fire_until, args=(over,))
firing.start()
time.sleep(0.1)
hung = 0
for _ in range(40):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        enough = []
        threading.Timer(0.01, enough.append, [1]).start()
        resource.fire_until(enough)
        os._exit(0)
    hung += os.waitpid(pid, 0)[1] != 0
    if hung == 3:
        break
over.append(1)
firing.join()
task.cancel()
print("hung:", hung)
"""
    )
    assert done.stdout == "hung: 0\n", done.stderr


@pytest.mark.sweep
def test_a_child_that_ends_leaves_the_files_its_parent_writes() -> None:
    done = run_script(
        """
folder = pathlib.Path(tempfile.mkdtemp())
def few():
    for i in range(300):
        time.sleep(0.005)
        yield pa.record_batch({"a": list(range(1000))})
source = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), few())
written = PlanBuilder().scan("e", source=source).write_parquet(folder / "out.parquet", row_group_rows=10)
task = qcore.Task(written.build(), drivers=1)
task.start()
while not list(folder.glob(".*.partial")):
    time.sleep(0.01)
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    del task
    gc.collect()
    sys.exit(0)             # runs atexit functions and finalizers
print(os.waitpid(pid, 0)[1], len(list(folder.glob(".*.partial"))))
print(sum(row["rows"] for batch in task.batches() for row in batch.to_pylist()))
"""
    )
    assert done.stdout == "0 1\n300000\n", done.stderr


def test_a_query_begun_while_the_interpreter_leaves_is_an_error() -> None:
    done = run_script(
        """
class Late:
    def __init__(self):
        self.session = qcore.Session(threads=2)
        self.plan = PlanBuilder().values(AB).aggregate([], {"s": ("sum", "a")}).build()
        self.begun = qcore.Task(PlanBuilder().scan("e", source=endless()).build(), drivers=1).batches()
        next(self.begun)
        self.Error = qcore.QcoreError
        self.Task = qcore.Task
        self.polled = qcore.polled
    def tries(self):
        yield lambda: self.session.execute(self.plan).to_arrow()
        yield lambda: self.session.sql("select 1 as a")
        yield lambda: self.Task(self.plan).start()
        yield lambda: list(self.Task(self.plan).run_on_caller())
        yield lambda: self.polled(self.plan, 1).pipelines[0][0].init_global_state(None)
        yield lambda: list(self.begun)
    def __del__(self, print=print, type=type, list=list):
        for attempt in self.tries():
            try:
                attempt()
                print("ran")
            except self.Error as error:
                print(type(error).__name__, str(error)[:43], flush=True)
# In a module of its own: the endless source keeps the names of this one from being cleared.
sys.modules["holder"] = types.ModuleType("holder")
sys.modules["holder"].late = Late()
"""
    )
    shutting = "QcoreError the Python interpreter is shutting down"
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert [line[: len(shutting)] for line in lines[:5]] == [shutting[:54]] * 5, (lines, done.stderr)
    assert lines[5:] in (["Cancelled the interpreter is leaving"], [shutting]), (lines, done.stderr)


def test_functions_at_exit_run_queries_when_they_were_given_after_the_import() -> None:
    done = run_script(
        """
folder = pathlib.Path(tempfile.mkdtemp())
import pyarrow.parquet as pq
for i in range(6):
    pq.write_table(AB, folder / f"{i}.parquet")
session = qcore.Session(threads=2)
def last():
    # Python starts no thread of a pool any more: footers are read by this one.
    session.register("t", str(folder))
    plan = PlanBuilder().scan("t", schema=AB.schema).aggregate([], {"s": ("sum", "a")}).build()
    print(session.execute(plan).to_arrow().to_pylist(), flush=True)
atexit.register(last)
"""
    )
    assert (done.returncode, done.stdout) == (0, "[{'s': 2997000}]\n"), done.stderr


def test_leaving_does_not_wait_for_operators_that_sleep() -> None:
    """Three tasks sleep for 100 s. The interpreter waits one second in all, not one for each task or thread."""
    begun = time.monotonic()
    done = run_script(
        """
plan = PlanBuilder().values(AB).operator(Asleep).build()
tasks = [qcore.Task(plan, drivers=threads) for threads in (2, 3, 4)]
for task in tasks: task.start()
time.sleep(0.5)
begun = time.monotonic()
import qcore_ext.execution.scheduler as scheduler
atexit.unregister(scheduler.shut_down_schedulers)
def time_shutdown():
    scheduler.shut_down_schedulers()
    print("short" if time.monotonic() - begun < 4 * scheduler.LEAVE_SECONDS else time.monotonic() - begun, flush=True)
atexit.register(time_shutdown)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "short\n", "")
    assert time.monotonic() - begun < 60


def test_daemon_threads_that_query_while_the_interpreter_leaves_do_no_harm() -> None:
    done = run_script(
        """
session = qcore.Session(threads=2)
plan = PlanBuilder().values(AB).aggregate(["b"], {"s": ("sum", "a")}).build()
def loop():
    while True:
        try:
            session.execute(plan).to_arrow()
        except qcore.QcoreError:
            pass
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.5)
print("leaving", flush=True)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


def test_a_thread_that_python_did_not_make_runs_a_query() -> None:
    done = run_script(
        """
result = qcore.Session(threads=2).execute(PlanBuilder().values(AB).aggregate([], {"s": ("sum", "a")}).build())
libc = ctypes.CDLL(None)
got = []
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def body(_):
    got.append(result.to_arrow().to_pylist())
    got.append([b.num_rows for b in qcore.Task(result.plan).run_on_caller()])
    return None
thread = ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), None, body, None) == 0
assert libc.pthread_join(thread, None) == 0
print(got)
"""
    )
    assert done.stdout == "[[{'s': 499500}], [1]]\n", done.stderr


def test_running_on_the_caller_starts_no_thread() -> None:
    done = run_script(
        """
task = qcore.Task(PlanBuilder().values(AB).aggregate(["b"], {"s": ("sum", "a")}).build(), drivers=4)
before = threading.enumerate()
rows = sum(batch.num_rows for batch in task.run_on_caller())
print(rows, threading.enumerate() == before)
"""
    )
    assert done.stdout == "7 True\n", done.stderr
