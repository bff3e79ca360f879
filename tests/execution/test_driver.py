"""The driver's loop, with scripted operators and no data (SPEC V5, V6, V8, V9, D7, D8)."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from qcore.errors import ExecutionError, MemoryLimitError, SchemaChangeError, Timeout
from qcore_ext.execution.task import Task
from qcore_ext.flow.operator import Poll
from qcore_ext.ground.stats import BlockReason
from qcore_testing.operators import FakeOperator

OUTPUT, NEEDS_INPUT, FINISHED, YIELDED = Poll.OUTPUT, Poll.NEEDS_INPUT, Poll.FINISHED, Poll.YIELDED
SPLIT = (BlockReason.WAIT_FOR_SPLIT,)

pytestmark = pytest.mark.timeout(120)


class Chain:
    """A chain of fake operators with a common log."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.operators: list[FakeOperator] = []

    def add(self, name: str, *script: Any, **options: Any) -> FakeOperator:
        operator = FakeOperator(name, list(script), source=not self.operators, log=self.log, **options)
        self.operators.append(operator)
        return operator

    def run(self, timeout: float = 5.0, slice_ms: float = 10.0) -> Task:
        self.task = Task([[self.operators]], slice_ms=slice_ms)
        try:
            self.task.run_on_caller(timeout=timeout)
        finally:
            self.task.cancel()
            self.task.settle()
        return self.task

    def calls(self, *leave_out: str) -> list[str]:
        return [f"{name}.{call}" for name, call in self.log if call not in leave_out]

    def count(self, name: str, call: str) -> int:
        return self.log.count((name, call))


def chain_of(*names: str, **options: Any) -> Chain:
    chain = Chain()
    for name in names:
        chain.add(name, **options)
    return chain


def test_a_batch_goes_down_before_the_next_is_asked_for() -> None:
    """V6: the calls have the documented order."""
    chain = Chain()
    chain.add("source", OUTPUT, OUTPUT)
    chain.add("middle", relay=True)
    chain.add("sink")
    chain.run()
    assert chain.calls("get_output") == [
        "source.open", "middle.open", "sink.open",
        "middle.bind", "middle.add_input", "sink.bind", "sink.add_input",
        "middle.add_input", "sink.add_input",
        "middle.finish", "sink.finish",
        "sink.close", "middle.close", "source.close",
    ]  # fmt: skip


def test_the_walk_begins_at_the_sink() -> None:
    """V6."""
    chain = chain_of("source", "middle", "sink")
    chain.run()
    polls = [name for name, call in chain.log if call == "get_output"]
    assert polls == ["sink", "middle", "source", "middle", "sink"]


def test_many_outputs_for_one_input_are_all_taken_before_more_input() -> None:
    """SPEC V6, V13."""
    chain = Chain()
    chain.add("source", OUTPUT)
    chain.add("middle", NEEDS_INPUT, OUTPUT, OUTPUT, OUTPUT)
    chain.add("sink")
    chain.run()
    assert chain.count("sink", "add_input") == 3
    assert chain.count("middle", "add_input") == 1


def test_an_operator_may_give_rest_after_finish() -> None:
    chain = Chain()
    chain.add("source", OUTPUT)
    chain.add("middle", rest=[OUTPUT, YIELDED, OUTPUT])
    chain.add("sink")
    chain.run()
    assert chain.count("sink", "add_input") == 2
    assert chain.log.index(("middle", "finish")) < chain.log.index(("sink", "add_input"))


def test_the_source_is_never_given_input_and_finish_never_reaches_it() -> None:
    """SPEC V9."""
    chain = chain_of("source", "sink")
    chain.run()
    assert not {"source.add_input", "source.bind", "source.finish"} & set(chain.calls())


@pytest.mark.parametrize("finished_at", [1, 2, 3])
def test_early_finish_abandons_everything_upstream_once(finished_at: int) -> None:
    """SPEC V8."""
    chain = Chain()
    names = ["source", "first", "second", "sink"]
    for i, name in enumerate(names):
        chain.add(name, *([OUTPUT] * 5 if i == 0 else [NEEDS_INPUT, FINISHED] if i == finished_at else []), relay=i > 0)
    chain.operators[3] = FakeOperator("sink", [NEEDS_INPUT, FINISHED] if finished_at == 3 else [], log=chain.log)
    chain.run()
    for i, name in enumerate(names):
        assert chain.count(name, "abandon") == (i < finished_at), name
        assert chain.count(name, "finish") == (i > finished_at), name
        assert chain.count(name, "close") == 1
    # Nothing but close after abandon, and no call after finished.
    end = chain.log.index(("source", "abandon"))
    assert ("source", "get_output") not in chain.log[end:]


def test_close_goes_from_the_root_to_the_leaf_and_comes_last() -> None:
    """SPEC D8."""
    chain = chain_of("source", "a", "b", "c", "sink")
    chain.run()
    assert chain.calls()[-5:] == ["sink.close", "c.close", "b.close", "a.close", "source.close"]


def test_a_refused_batch_is_offered_again() -> None:
    """SPEC G1."""
    chain = Chain()
    chain.add("source", OUTPUT)
    chain.add("sink", NEEDS_INPUT, YIELDED, NEEDS_INPUT, NEEDS_INPUT, accepts=[False, False, True])
    chain.run()
    assert chain.count("sink", "add_input") == 3
    assert chain.count("sink", "bind") == 1


def test_refusing_for_ever_is_reported() -> None:
    """V6, G1."""
    chain = Chain()
    chain.add("source", OUTPUT)
    chain.add("sink", accepts=[False] * 5000)
    with pytest.raises(ExecutionError, match=r"sink .*refused the same batch"):
        chain.run()


def test_neither_blocked_nor_finished_nor_hungry_is_an_error_with_a_name() -> None:
    """SPEC V6: the driver raises an error that names the operator, and does not spin."""
    chain = Chain()
    chain.add("source", OUTPUT)
    chain.add("middle", needs_input=False)
    chain.add("sink")
    with pytest.raises(ExecutionError, match=r"middle .*stuck") as caught:
        chain.run()
    assert (caught.value.operator, caught.value.node_id) == ("middle", "middle-node")


def test_a_source_that_wants_input_is_an_error() -> None:
    chain = Chain()
    chain.add("source", NEEDS_INPUT)
    chain.add("sink")
    with pytest.raises(ExecutionError, match=r"source .*asks for input"):
        chain.run()


def test_wanting_input_after_finish_is_an_error() -> None:
    chain = Chain()
    chain.add("source")
    chain.add("middle", rest=[NEEDS_INPUT])
    chain.add("sink")
    with pytest.raises(ExecutionError, match=r"middle .*stuck"):
        chain.run()


def test_a_sink_that_gives_output_is_an_error() -> None:
    """SPEC V9."""
    chain = Chain()
    chain.add("source")
    chain.add("sink", OUTPUT)
    with pytest.raises(ExecutionError, match=r"sink .*is the sink"):
        chain.run()


def test_blocking_without_a_reason_is_an_error() -> None:
    chain = Chain()
    chain.add("source", (0,))
    chain.add("sink")
    with pytest.raises(ExecutionError, match="blocked for 0"):
        chain.run()


def test_an_answer_that_is_no_poll_is_an_error() -> None:
    chain = Chain()
    chain.add("source", 17)
    chain.add("sink")
    with pytest.raises(ExecutionError, match="returned 17"):
        chain.run()


@pytest.mark.parametrize(
    ("call", "at"),
    [(call, at) for call in ("open", "get_output") for at in (0, 1, 2)]
    + [(call, at) for call in ("bind", "add_input", "finish") for at in (1, 2)],
)
def test_an_error_in_any_call_surfaces_once_and_closes_everything(call: str, at: int) -> None:
    """SPEC D9."""
    chain = Chain()
    for i, name in enumerate(["source", "middle", "sink"]):
        script: list[Any] = [OUTPUT] * 2 if i == 0 else []
        if i == at and call == "get_output":
            script.append(ValueError("broken on purpose"))
        fail = {call: ValueError("broken on purpose")} if i == at and call != "get_output" else {}
        chain.add(name, *script, relay=i == 1, fail=fail)
    name = chain.operators[at].name
    with pytest.raises(ExecutionError, match=f"{name} .*failed: ValueError: broken on purpose") as caught:
        chain.run()
    assert (caught.value.operator, caught.value.node_id) == (name, f"{name}-node")
    assert isinstance(caught.value.__cause__, ValueError)
    assert chain.calls()[-3:] == ["sink.close", "middle.close", "source.close"]
    assert chain.calls().count("sink.close") == 1
    assert chain.task.state == "failed"
    assert chain.task.error is caught.value


@pytest.mark.parametrize("kind", [SchemaChangeError, MemoryLimitError, Timeout, ExecutionError])
def test_errors_of_the_engine_keep_their_class_and_gain_the_operator(kind: type[Exception]) -> None:
    chain = Chain()
    chain.add("source", kind("the reason"))
    chain.add("sink")
    with pytest.raises(kind, match=r"source \(node source-node\): the reason") as caught:
        chain.run()
    assert type(caught.value) is kind
    assert caught.value.node_id == "source-node"  # type: ignore[attr-defined]


def test_an_error_is_not_named_twice() -> None:
    """D9."""
    chain = Chain()
    chain.add("source", ExecutionError("inner", "Other", "7"))
    chain.add("sink")
    with pytest.raises(ExecutionError) as caught:
        chain.run()
    assert str(caught.value) == "inner"
    assert caught.value.operator == "Other"


def test_a_blocked_operator_takes_the_driver_off_the_thread() -> None:
    """SPEC V7."""
    chain = Chain()
    source = chain.add("source", SPLIT, OUTPUT, SPLIT)
    chain.add("sink")
    task = Task([[chain.operators]])
    with pytest.raises(Timeout):
        task.run_on_caller(timeout=0.05)
    assert source.polls == 1
    source.wake()
    with pytest.raises(Timeout):
        task.run_on_caller(timeout=0.05)
    assert chain.count("sink", "add_input") == 1
    source.wake()
    assert task.run_on_caller(timeout=50)
    blocked = task.stats()["pipelines"][0]["operators"][0]
    assert blocked["blocked_times"] == {"split": 2}
    assert blocked["blocked_wall_nanos"]["split"] >= 80e6


def test_a_wake_up_before_blocked_is_answered_is_not_lost() -> None:
    """G5, V7."""
    chain = Chain()
    source = chain.add("source", *[SPLIT] * 50)
    chain.add("sink")
    task = Task([[chain.operators]])
    while not task.settle(0.001):
        if task.state == "created":
            with pytest.raises(Timeout):
                task.run_on_caller(timeout=0)
        source.wake()
        source.wake()  # doubled on purpose
    assert source.polls == 51


def test_waiting_shows_in_the_figures_while_it_lasts() -> None:
    """SPEC V14: counters include a wait that is not over."""
    chain = Chain()
    chain.add("source", SPLIT)
    chain.add("sink")
    task = Task([[chain.operators]])
    with pytest.raises(Timeout):
        task.run_on_caller(timeout=0.03)
    counters = task.stats()["pipelines"][0]["operators"][0]
    assert counters["blocked_times"] == {"split": 1}
    assert counters["blocked_wall_nanos"]["split"] > 1e6
    task.cancel()
    assert task.settle(5)
    assert task.stats()["pipelines"][0]["operators"][0]["blocked_times"] == {"split": 1}


def test_a_time_slice_ends() -> None:
    """SPEC V7."""
    order: list[str] = []

    class Order:
        def append(self, entry: tuple[str, str]) -> None:
            order.append(entry[0])

    drivers = [
        [FakeOperator(name, [YIELDED] * 20, source=True, log=Order()), FakeOperator("sink", log=[])] for name in "ab"
    ]
    Task([drivers], slice_ms=1e-6).run_on_caller(timeout=50)
    # Each turn is one step: opening and the first poll, then a poll at a time, and closing at the end.
    polls = "".join(order)
    assert "abab" * 9 in polls, polls


def test_empty_batches_pass_only_with_a_new_schema() -> None:
    chain = Chain()
    chain.add("source", OUTPUT, OUTPUT, OUTPUT, rows=0)
    chain.add("sink")
    chain.run()
    assert chain.count("sink", "add_input") == 1


def test_a_driver_that_was_never_run_is_closed() -> None:
    chain = chain_of("source", "sink")
    task = Task([[chain.operators]])
    task.cancel()
    assert task.state == "cancelled"
    assert chain.calls() == ["sink.abandon", "source.abandon", "sink.close", "source.close"]


def test_a_forgotten_task_closes_its_operators() -> None:
    chain = chain_of("source", "sink")
    Task([[chain.operators]])
    assert chain.calls()[-2:] == ["sink.close", "source.close"]


def test_d8_in_a_cycle_operators_are_abandoned_then_closed() -> None:
    """D8: operators are abandoned and closed once, the sink first, also if the garbage collector ends the driver."""
    chain = chain_of("source", "sink")
    cycle: list[Any] = [Task([[chain.operators]])]
    cycle.append(cycle)
    del cycle
    assert chain.calls() == []
    gc.collect()
    assert chain.calls() == ["sink.abandon", "source.abandon", "sink.close", "source.close"]


def test_steps_are_counted_where_the_work_was_done() -> None:
    """SPEC V14: each call is charged to the operator that did the work."""
    chain = Chain()
    chain.add("source", OUTPUT, OUTPUT, rows=7)
    chain.add("middle", relay=True)
    chain.add("sink")
    task = chain.run()
    source, middle, sink = task.stats()["pipelines"][0]["operators"]
    assert (source["output_rows"], source["output_batches"], source["input_batches"]) == (14, 2, 0)
    assert (middle["input_rows"], middle["output_rows"]) == (14, 14)
    assert (sink["input_rows"], sink["output_rows"], sink["input_batches"]) == (14, 0, 2)
    assert (middle["add_input"]["calls"], sink["add_input"]["calls"]) == (2, 2)
    assert sink["finish"]["calls"] == 2  # finish and close
    assert source["finish"]["calls"] == 1
