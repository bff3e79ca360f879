"""Checked mode names an operator that breaks the contract (SPEC V5, V7, D8, G5)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from qcore.errors import ExecutionError
from qcore_ext.execution.contract_check import ContractCheck
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.flow.operator import Poll
from qcore_ext.ground.fault import Faults, fault_site
from qcore_ext.ground.stats import BlockReason
from qcore_testing.operators import FakeOperator, Resource, Sleeper, poll, run_driver

OUTPUT, NEEDS_INPUT, FINISHED, YIELDED = Poll.OUTPUT, Poll.NEEDS_INPUT, Poll.FINISHED, Poll.YIELDED
USER = (BlockReason.WAIT_FOR_USER,)

pytestmark = pytest.mark.timeout(120)


class OnCall:
    """A log that calls a function when one call is recorded."""

    def __init__(self, call: str, action: Any) -> None:
        self.call, self.action = call, action

    def append(self, entry: tuple[str, str]) -> None:
        if entry[1] == self.call:
            self.action()


def run(*operators: FakeOperator) -> Task:
    task = Task([[list(operators)]])
    try:
        task.run_on_caller(timeout=50)
    finally:
        task.cancel()
        task.settle()
    return task


def source(*script: Any, **options: Any) -> FakeOperator:
    return FakeOperator("source", list(script), source=True, **options)


def sink(**options: Any) -> FakeOperator:
    return FakeOperator("sink", **options)


def raises_broken(name: str, what: str) -> Any:
    return pytest.raises(ExecutionError, match=rf"{name} \(node {name}-node\) broke the operator contract: .*{what}")


def test_a_batch_of_another_schema_than_declared() -> None:
    with pytest.raises(ExecutionError, match=r"source .*another schema than it declared"):
        run(source(OUTPUT, breaks="other_schema"), sink())


def test_blocking_without_leaving_the_token() -> None:
    """V7: an operator that is blocked without a token would never be woken."""
    with raises_broken("source", "without registering its wait token, so nothing would wake it"):
        run(source(USER, breaks="no_token"), sink())


def test_a_barrier_left_twice() -> None:
    with raises_broken("middle", "left a barrier more than once"):
        run(source(OUTPUT), FakeOperator("middle", relay=True, breaks="leaves_twice"), sink())


def test_a_barrier_never_left() -> None:
    with raises_broken("middle", "without leaving a barrier"):
        run(source(OUTPUT), FakeOperator("middle", relay=True, breaks="never_leaves"), sink())


def test_close_allocates_nothing() -> None:
    """D8."""
    with raises_broken("sink", "close allocated memory"):
        run(source(), sink(breaks="allocates_in_close"))


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_abandon_and_close_call_no_other_operator(end: str) -> None:
    """D8: abandon() and close() may not call other operators."""
    refused: list[ExecutionError] = []

    def meddle() -> None:
        try:
            poll(task.pipelines[0].drivers[0], 0)
        except ExecutionError as error:
            refused.append(error)

    first = source(*[OUTPUT] * 3)
    middle = FakeOperator("middle", relay=True, log=OnCall(end, meddle))
    last = FakeOperator("sink", [NEEDS_INPUT, FINISHED])
    task = Task([[[first, middle, last]]])
    with raises_broken("middle", "its end called get_output of source"):
        task.run_on_caller(timeout=50)
    assert "was called by middle as it ended" in str(refused[0])


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_after_the_end(fails: bool) -> None:
    task = Task([[[source(*[ValueError("broken on purpose")] * fails), sink()]]])
    if fails:
        with pytest.raises(ExecutionError, match="broken on purpose"):
            task.run_on_caller(timeout=50)
    else:
        task.run_on_caller(timeout=50)
    for at, name in enumerate(["source", "sink"]):
        with raises_broken(name, "get_output was called after close"):
            poll(task.pipelines[0].drivers[0], at)


@pytest.mark.parametrize(
    ("call", "asked", "when"),
    [("get_output", 1, "during another call of the operator"), ("finish", 0, "after it returned FINISHED")],
)
def test_a_call_at_the_wrong_time(call: str, asked: int, when: str) -> None:
    told: list[str] = []

    def meddle() -> None:
        try:
            poll(task.pipelines[0].drivers[0], asked)
        except ExecutionError as error:
            told.append(str(error))

    task = Task([[[source(OUTPUT), sink(log=OnCall(call, meddle))]]])
    task.run_on_caller(timeout=50)
    assert when in told[0]


def test_asking_upstream_when_no_input_is_needed() -> None:
    told: list[str] = []

    def meddle() -> None:
        try:
            poll(task.pipelines[0].drivers[0], 0)
        except ExecutionError as error:
            told.append(str(error))

    # When it is opened the sink has not yet answered needs_input.
    task = Task([[[source(OUTPUT), sink(log=OnCall("open", meddle))]]])
    task.run_on_caller(timeout=50)
    assert "source (node source-node)" in told[0]
    assert "while the next operator needed no input" in told[0]


def test_a_finished_driver_is_never_run() -> None:
    task = run(source(OUTPUT), sink())
    with pytest.raises(ExecutionError, match="run after it was closed"):
        run_driver(task.pipelines[0].drivers[0])


def test_a_turn_that_no_wake_up_asked_for() -> None:
    """G5: the task notices that an operator wrote the state of its token and was queued twice."""
    with pytest.raises(ExecutionError, match=r"source .*run without having been woken"):
        run(source(YIELDED, USER, USER, USER, breaks="own_state"), sink())


def test_wake_ups_coalesce() -> None:
    """G5: a blocked driver that is woken several times runs once."""
    scheduler, resource = Scheduler(1), Resource()
    try:
        task = Task([[[Sleeper(resource, 50), sink()]]], scheduler=scheduler)
        stopped: list[bool] = []
        threads = [threading.Thread(target=resource.fire_until, args=(stopped,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        task.start()
        task.wait(20)
        stopped.append(True)
        for thread in threads:
            thread.join()
        assert task.stats()["pipelines"][0]["turns"] == 50
    finally:
        scheduler.shutdown()


def test_off_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without checked mode there is no check between driver and operator."""
    monkeypatch.setenv("QCORE_DEBUG", "0")
    task = run(source(OUTPUT), FakeOperator("middle", relay=True, breaks="never_leaves"), sink())
    assert "locks" not in task.stats()["pipelines"][0]["operators"][0]


def test_a_check_that_cannot_be_made_leaves_fault_sites_watched() -> None:
    """D9: sites in Python fail only while somebody watches; a failed constructor must not take a watcher away."""
    with pytest.raises(TypeError):
        ContractCheck()
    with Faults("file_open", 1) as faults, pytest.raises(OSError, match="injected fault"):
        fault_site("file_open")
    assert faults.fired
