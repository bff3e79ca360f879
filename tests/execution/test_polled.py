"""One operator polled by hand: answers of push, pull and finish, wake-ups and ends. SPEC G1, G2."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError
from qcore_ext.data.capsule import PyBatch
from qcore_ext.execution.polled import Polled, PolledPartition
from qcore_ext.flow.operator import Operator, Poll
from qcore_ext.ground.stats import BlockReason
from qcore_testing.operators import FakeOperator

PUSHED, PENDING, BREAK, EXHAUSTED = Polled.PUSHED, Polled.PENDING, Polled.BREAK, Polled.EXHAUSTED
OUTPUT = Poll.OUTPUT
SPLIT = (BlockReason.WAIT_FOR_SPLIT,)


class Waker:
    """A waker that counts its calls."""

    def __init__(self) -> None:
        self.n_wakes = 0

    def wake(self) -> None:
        self.n_wakes += 1


def poll_operator(operator: Operator, role: str) -> tuple[PolledPartition, Waker]:
    waker = Waker()
    return PolledPartition(operator, role, waker), waker


def batch() -> PyBatch:
    return PyBatch.from_arrow(pa.record_batch({"x": pa.array([1, 2])}))


def rows(answer: Any) -> Any:
    return pa.record_batch(answer).to_pydict() if isinstance(answer, PyBatch) else answer


def test_a_source_is_pulled_to_its_end() -> None:
    source, _ = poll_operator(FakeOperator("s", [OUTPUT, OUTPUT], source=True, rows=3), "source")
    assert [len(source.pull()) for _ in range(2)] == [3, 3]  # type: ignore[arg-type]
    assert source.pull() == source.pull() == EXHAUSTED
    assert source.is_finished
    source.close()


def test_an_operator_is_pushed_and_pulled() -> None:
    step, _ = poll_operator(FakeOperator("o", relay=True), "operator")
    assert step.pull() == PENDING
    assert step.push(batch()) == PUSHED
    assert rows(step.pull()) == {"x": [1, 2]}
    assert step.pull() == PENDING
    assert step.finish() is True
    assert step.pull() == EXHAUSTED
    step.close()


def test_a_push_waits_until_the_output_is_pulled() -> None:
    step, waker = poll_operator(FakeOperator("o", relay=True), "operator")
    given = batch()
    answers = [step.push(given) for _ in range(3)]
    assert answers[0] == PUSHED
    assert answers[-1] == PENDING
    assert step.waits_for == "consumer"
    before = waker.n_wakes
    assert rows(step.pull()) == {"x": [1, 2]}
    assert waker.n_wakes > before, "room for another push is worth a wake"
    step.close()


def test_a_sink_is_pushed_until_it_wants_no_more() -> None:
    sink, _ = poll_operator(FakeOperator("k"), "sink")
    assert [sink.push(batch()) for _ in range(3)] == [PUSHED] * 3
    assert sink.finish() is True
    assert sink.is_finished
    sink.close()
    ended, _ = poll_operator(FakeOperator("k", [Poll.FINISHED]), "sink")
    assert ended.push(batch()) == BREAK
    assert ended.push(batch()) == BREAK
    ended.close()


def test_an_operator_that_finishes_early_breaks_its_input() -> None:
    step, _ = poll_operator(FakeOperator("o", [Poll.FINISHED]), "operator")
    assert step.push(batch()) == BREAK
    assert step.pull() == EXHAUSTED
    step.close()


def test_a_wake_follows_what_was_waited_for() -> None:
    operator = FakeOperator("s", [SPLIT, OUTPUT], source=True)
    source, waker = poll_operator(operator, "source")
    assert source.pull() == PENDING
    assert (source.waits_for, waker.n_wakes) == ("split", 0)
    operator.wake()
    assert waker.n_wakes == 1
    assert len(source.pull()) == 1  # type: ignore[arg-type]
    assert source.waits_for != "split"
    source.close()


def test_finish_waits_and_is_called_again_after_a_wake() -> None:
    operator = FakeOperator("k", rest=[SPLIT])
    sink, waker = poll_operator(operator, "sink")
    assert sink.finish() is False
    operator.wake()
    assert waker.n_wakes == 1
    assert sink.finish() is True
    sink.close()


@pytest.mark.parametrize(
    ("role", "call", "message"),
    [
        ("source", lambda step: step.push(batch()), "is a source: it is pulled from"),
        ("source", lambda step: step.finish(), "is a source: it is pulled until it is exhausted"),
        ("sink", lambda step: step.pull(), "is a sink: it is pushed to"),
    ],
)
def test_calls_of_another_role_are_refused(role: str, call: Any, message: str) -> None:
    step, _ = poll_operator(FakeOperator("o", source=role == "source"), role)
    with pytest.raises(TypeError, match=f"^o {message}$"):
        call(step)
    step.close()


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="'middle'"):
        PolledPartition(FakeOperator("o"), "middle", Waker())


def test_no_push_follows_finish() -> None:
    step, _ = poll_operator(FakeOperator("o", relay=True), "operator")
    step.finish()
    with pytest.raises(ExecutionError, match=r"^o \(node o-node\): a push after finish\(\)$") as caught:
        step.push(batch())
    assert (caught.value.operator, caught.value.node_id) == ("o", "o-node")
    step.close()


@pytest.mark.parametrize("call", ["push", "pull", "finish"])
def test_no_call_follows_close(call: str) -> None:
    log: list[tuple[str, str]] = []
    step, _ = poll_operator(FakeOperator("o", relay=True, log=log), "operator")
    step.close()
    step.close()
    assert step.is_closed
    assert [name for _, name in log] == ["abandon", "close"]
    with pytest.raises(ExecutionError, match=r"after close\(\), abandon\(\) or an error$"):
        step.push(batch()) if call == "push" else getattr(step, call)()


def test_an_error_names_the_operator_and_closes_it() -> None:
    log: list[tuple[str, str]] = []
    step, _ = poll_operator(FakeOperator("o", [ValueError("broken")], log=log), "operator")
    with pytest.raises(ExecutionError, match=r"^o \(node o-node\) failed: ValueError: broken$"):
        step.push(batch())
    assert step.is_closed
    assert log[-1] == ("o", "close")


def test_a_closed_partition_wakes_no_driver() -> None:
    operator = FakeOperator("s", [SPLIT], source=True)
    source, waker = poll_operator(operator, "source")
    assert source.pull() == PENDING
    source.close()
    operator.wake()
    assert waker.n_wakes == 0


def test_counters_are_those_of_the_operator() -> None:
    step, _ = poll_operator(FakeOperator("o", relay=True), "operator")
    step.push(batch())
    step.pull()
    counters = step.stats()
    assert (counters["name"], counters["input_rows"], counters["output_rows"]) == ("o", 2, 2)
    step.close()


def test_one_that_is_forgotten_closes_its_operator() -> None:
    log: list[tuple[str, str]] = []
    step, _ = poll_operator(FakeOperator("s", [OUTPUT], source=True, log=log), "source")
    del step
    assert log[-1] == ("s", "close")
