"""Worker threads, wake-ups under stress, fairness, fork and exit (SPEC V7, G5)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from qcore.errors import Cancelled, QcoreError
from qcore_ext.execution.scheduler import Scheduler, scheduler_of
from qcore_ext.execution.task import Task
from qcore_ext.flow.operator import Poll
from qcore_ext.ground.memory import Account
from qcore_testing.operators import FakeOperator, LongCall, Resource, Sleeper

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=[1, 2, 4])
def scheduler(request: pytest.FixtureRequest) -> Iterator[Scheduler]:
    made = Scheduler(request.param)
    yield made
    made.shutdown()


def sleeper_task(scheduler: Scheduler | None, resource: Resource, drivers: int, waits: int) -> Task:
    chains = [[Sleeper(resource, waits), FakeOperator("sink")] for _ in range(drivers)]
    return Task([chains], scheduler=scheduler)


def storm(resource: Resource, n_threads: int, stopped: list[bool]) -> list[threading.Thread]:
    threads = [threading.Thread(target=resource.fire_until, args=(stopped,)) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    return threads


def test_no_wake_up_is_lost_or_doubled_under_stress(scheduler: Scheduler) -> None:
    """G5: twenty drivers block 300 times each while two threads fire whatever waits, early, late and twice."""
    resource, stopped = Resource(), []
    tasks = [sleeper_task(scheduler, resource, 5, 300) for _ in range(4)]
    threads = storm(resource, 2, stopped)
    for task in tasks:
        task.start()
    try:
        for task in tasks:
            task.wait(40)
    finally:
        stopped.append(True)
        for thread in threads:
            thread.join()
    for task in tasks:
        counters = task.stats()["pipelines"][0]["operators"][0]
        assert counters["blocked_times"] == {"user": 5 * 299}
        # Every poll but the last blocked, so nobody ran without having been woken.
        assert counters["is_blocked"]["calls"] == 5 * 299


def test_the_same_on_the_callers_thread() -> None:
    """G5, D3."""
    resource, stopped = Resource(), []
    threads = storm(resource, 2, stopped)
    try:
        assert sleeper_task(None, resource, 5, 300).run_on_caller(timeout=40)
    finally:
        stopped.append(True)
        for thread in threads:
            thread.join()


def test_many_tasks_share_few_threads_fairly() -> None:
    """V7: a task that comes late does not wait for the long ones: slices are bounded."""
    scheduler = Scheduler(2)
    try:
        endless = [
            Task(
                [
                    [
                        [
                            FakeOperator("source", source=True, log=Silence(), endless=Poll.YIELDED),
                            FakeOperator("sink"),
                        ]
                    ]
                ],
                scheduler=scheduler,
                slice_ms=2,
            )
            for _ in range(6)
        ]
        for task in endless:
            task.start()
        began = time.monotonic()
        short = [
            Task(
                [[[FakeOperator("source", [Poll.OUTPUT] * 10, source=True), FakeOperator("sink")]]], scheduler=scheduler
            )
            for _ in range(10)
        ]
        for task in short:
            task.start()
        for task in short:
            task.wait(20)
        while min(turns := turns_of(endless)) < 5:
            assert time.monotonic() - began < 60, turns
        assert max(turns) <= 3 * min(turns) + 3
        for task in endless:
            task.cancel()
        for task in endless:
            with pytest.raises(Cancelled):
                task.wait(10)
    finally:
        scheduler.shutdown()


def test_v7_two_hundred_tasks_of_four_drivers_on_two_threads() -> None:
    """All drivers get turns while none ends, and none gets many more turns than another."""
    scheduler = Scheduler(2)
    tasks = []
    try:
        for _ in range(200):
            chains = [
                [
                    FakeOperator("source", source=True, log=Silence(), endless=Poll.YIELDED),
                    FakeOperator("sink", log=Silence()),
                ]
                for _ in range(4)
            ]
            tasks.append(Task([chains], scheduler=scheduler, slice_ms=0.2))
        for task in tasks:
            task.start()
        deadline = time.monotonic() + 60
        before = turns_of(tasks)
        while min(turns := [now - was for now, was in zip(turns_of(tasks), before, strict=True)]) < 12:
            assert time.monotonic() < deadline, f"turns of the tasks: {sorted(turns)}"
            time.sleep(0.02)
        # First come, first served: a round gives every driver one turn. Slack for the rounds while this looked.
        assert max(turns) <= 2 * min(turns) + 8
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            assert task.settle(30)
        scheduler.shutdown()


def turns_of(tasks: list[Task]) -> list[int]:
    return [task.stats()["pipelines"][0]["turns"] for task in tasks]


class Silence:
    def append(self, entry: object) -> None:
        pass


def test_more_drivers_than_the_queue_held_before() -> None:
    scheduler = Scheduler(2)
    for drivers in (1, 15, 16, 17, 40, 200):
        task = Task(
            [[[FakeOperator("source", source=True), FakeOperator("sink")] for _ in range(drivers)]], scheduler=scheduler
        )
        task.start()
        task.wait(20)
        assert task.stats()["pipelines"][0]["drivers_done"] == drivers
    scheduler.shutdown()


def in_long_calls(scheduler: Scheduler, count: int) -> tuple[list[LongCall], list[Task]]:
    """Tasks that are in a long call, which checks its account but does not return."""
    sources, tasks = [], []
    for _ in range(count):
        account = Account()
        sources.append(LongCall(account))
        tasks.append(Task([[[sources[-1], FakeOperator("sink")]]], memory=account, scheduler=scheduler))
        tasks[-1].start()
        deadline = time.monotonic() + 60
        while not sources[-1].is_inside and time.monotonic() < deadline:
            time.sleep(0.001)
    return sources, tasks


def test_v7_others_are_served_while_a_call_lasts(scheduler: Scheduler) -> None:
    """V7: there are more long calls than threads. Meanwhile each driver begins, and small tasks end."""
    sources, tasks = in_long_calls(scheduler, scheduler.n_threads + 3)
    assert all(source.is_inside for source in sources)
    for _ in range(20):
        small = Task([[[FakeOperator("source", source=True), FakeOperator("sink")]]], scheduler=scheduler)
        small.start()
        small.wait(60)
    assert [(source.is_inside, source.n_calls) for source in sources] == [(True, 1)] * len(sources)
    for source, task in zip(sources, tasks, strict=True):
        source.end()
        task.wait(60)


def test_v7_substitutes_leave_and_are_bounded() -> None:
    """V7: a substitute thread works until the long call is over. A scheduler has at most sixteen."""
    before = threading.active_count()
    scheduler = Scheduler(1)
    sources, tasks = in_long_calls(scheduler, 17)
    assert all(source.is_inside for source in sources)
    account = Account()
    one_more = LongCall(account)
    waits = Task([[[one_more, FakeOperator("sink")]]], memory=account, scheduler=scheduler)
    waits.start()
    time.sleep(0.1)
    assert not one_more.is_inside
    assert threading.active_count() <= before + 17
    for source in (one_more, *sources):
        source.end()
    for task in (*tasks, waits):
        task.wait(60)
    deadline = time.monotonic() + 60
    while threading.active_count() > before + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    # Fewer when a thread of an earlier test has left meanwhile.
    assert threading.active_count() <= before + 1
    scheduler.shutdown()


def test_v7_long_calls_of_a_scheduler_that_is_shut_down_end() -> None:
    scheduler = Scheduler(1)
    sources, tasks = in_long_calls(scheduler, 3)
    scheduler.shutdown()
    assert [task.state for task in tasks] == ["cancelled"] * 3
    assert not any(source.is_inside for source in sources)


def test_shutdown_cancels_what_runs() -> None:
    scheduler = Scheduler(1)
    task = sleeper_task(scheduler, Resource(), 2, 10)
    task.start()
    scheduler.shutdown()
    assert task.state == "cancelled"
    assert not scheduler.usable
    with pytest.raises(QcoreError, match="shut down"):
        sleeper_task(scheduler, Resource(), 1, 1).start()


def test_a_forgotten_scheduler_ends_its_threads() -> None:
    before = threading.active_count()
    scheduler = Scheduler(3)
    assert threading.active_count() == before + 3
    del scheduler
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.parametrize("n_threads", [None, 1, 3])
def test_a_shared_scheduler_is_made_once_and_again_after_shutdown(n_threads: int | None) -> None:
    first = scheduler_of(n_threads)
    assert first.n_threads == n_threads or n_threads is None
    assert scheduler_of(n_threads) is scheduler_of(first.n_threads) is first
    assert scheduler_of(first.n_threads + 1) is not first
    first.shutdown()
    assert scheduler_of(n_threads) is not first


SCRIPT = """
import os, signal, sys, threading
from qcore_ext.execution.task import Task
from qcore_ext.execution.scheduler import scheduler_of
from qcore_testing.operators import FakeOperator, Sleeper, Resource
from qcore_ext.flow.operator import Poll

def run():
    task = Task([[[FakeOperator("source", [Poll.OUTPUT] * 3, source=True), FakeOperator("sink")]]])
    task.start()
    task.wait(10)
    return task.state

assert run() == "finished"
# Who was started in a shell's background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + text], capture_output=True, text=True, timeout=100, check=False
    )


def test_a_forked_child_has_threads_of_its_own() -> None:
    done = run_script(
        """
pid = os.fork()
state = run()
if pid == 0:
    os._exit(0 if state == "finished" else 3)
assert os.waitpid(pid, 0)[1] == 0
print("both ran")
"""
    )
    assert done.stdout == "both ran\n", done.stderr


def test_the_interpreter_leaves_while_a_task_is_blocked() -> None:
    done = run_script(
        """
kept = Resource()
task = Task([[[Sleeper(kept, 5), FakeOperator("sink")] for _ in range(4)]])
task.start()
print("leaving", flush=True)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


def test_the_interpreter_leaves_while_a_task_is_busy() -> None:
    done = run_script(
        """
task = Task([[[FakeOperator("source", [Poll.YIELDED] * 10_000_000, source=True, log=None), FakeOperator("sink")]]])
task.start()
print("leaving", flush=True)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


def test_ctrl_c_stops_a_wait() -> None:
    done = run_script(
        """
task = Task([[[Sleeper(Resource(), 5), FakeOperator("sink")] for _ in range(4)]])
task.start()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    task.wait()
except KeyboardInterrupt:
    print(task.state)
"""
    )
    assert (done.stdout, done.returncode) == ("cancelled\n", 0), done.stderr


def test_ctrl_c_stops_a_task_on_the_callers_thread() -> None:
    done = run_script(
        """
task = Task([[[Sleeper(Resource(), 5), FakeOperator("sink")] for _ in range(4)]])
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    task.run_on_caller()
except KeyboardInterrupt:
    print(task.state)
"""
    )
    assert (done.stdout, done.returncode) == ("cancelled\n", 0), done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity of threads")
def test_threads_that_were_woken_may_use_all_processors() -> None:
    """A thread that wakes a worker forbids it its own processor, only until the worker runs."""
    code = """if True:
        import os, time, pyarrow as pa, qcore
        usable = os.sched_getaffinity(0)
        session = qcore.Session(threads=4)
        session.register("t", pa.table({"a": range(1_000_000)}))
        for _ in range(20):
            session.sql("select a % 7 as k, sum(a) from t group by k order by k").to_arrow()
        # A worker that was woken for the last driver may not have run yet.
        until = time.monotonic() + 20
        while any(os.sched_getaffinity(int(thread)) != usable for thread in os.listdir("/proc/self/task")):
            assert time.monotonic() < until
            time.sleep(0.01)
        os.sched_setaffinity(0, {min(usable)})      # the caller's thread alone
        for _ in range(20):
            session.sql("select a % 7 as k, sum(a) from t group by k order by k").to_arrow()
        assert os.sched_getaffinity(0) == {min(usable)}
        print("ok")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
