"""Operators that wait for futures of Python: fired, cancelled and failed ones (SPEC V5)."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore_ext.flow.future_wait import reason_number
from qcore_ext.ground.stats import REASON_NAMES, BlockReason

pytestmark = pytest.mark.timeout(120)
TABLE = pa.table({"a": [1, 2, 3]})


@pytest.mark.parametrize("reason", [reason for reason in BlockReason if reason.value])
def test_reasons_by_number_and_by_name(reason: Any) -> None:
    """V5, V14."""
    assert reason_number(int(reason)) == reason
    assert reason_number(REASON_NAMES[reason]) == reason
    assert reason_number(REASON_NAMES[reason].upper()) == reason
    assert reason_number(f"wait_for_{REASON_NAMES[reason]}") == reason


@pytest.mark.parametrize("wrong", [0, -1, 99, "not_blocked", "lunch", 1.5, object()])
def test_other_reasons_are_errors_that_list_them(wrong: Any) -> None:
    with pytest.raises(TypeError, match="is not a block reason; the reasons are split, join_build"):
        reason_number(wrong)


def test_no_reason_is_the_consumer() -> None:
    assert reason_number(None) == BlockReason.WAIT_FOR_CONSUMER


class Waiting(qcore.Operator):
    """Waits once for a future that a thread completes, then passes rows on."""

    complete: Any = None
    reason: Any = "user"

    def __init__(self) -> None:
        self.held: Any = None
        self.future: Any = None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held = batch

    def needs_input(self) -> bool:
        return self.held is None

    def is_blocked(self) -> Any:
        if self.held is None:
            return None
        if self.future is None:
            self.future = concurrent.futures.Future()
            threading.Timer(0.02, type(self).complete, (self.future,)).start()
        return None if self.future.done() and not self.future.exception() else qcore.Blocked(self.reason, self.future)

    def get_output(self) -> Any:
        held, self.held = self.held, None
        return held


def run(complete: Any, reason: Any = "user") -> list[int]:
    kind = type("Waits", (Waiting,), {"complete": staticmethod(complete), "reason": reason})
    plan = qcore.PlanBuilder().values(TABLE).operator(kind).build()
    return qcore.Session(threads=1).execute(plan).to_arrow()["a"].to_pylist()


@pytest.mark.parametrize("reason", ["user", "producer", None])
def test_a_future_that_completes_wakes_the_driver(reason: Any) -> None:
    """V5."""
    assert run(lambda future: future.set_result(None), reason) == [1, 2, 3]


def test_a_future_that_fails_ends_the_query() -> None:
    """V5: the error names the operator and is caused by the future's."""
    with pytest.raises(qcore.ExecutionError, match=r"Waits .*ValueError: no luck"):
        run(lambda future: future.set_exception(ValueError("no luck")))


def test_something_without_callbacks_is_an_error() -> None:
    kind = type("Waits", (Waiting,), {"is_blocked": lambda self: qcore.Blocked("user", 3)})
    plan = qcore.PlanBuilder().values(TABLE).operator(kind).build()
    with pytest.raises(qcore.ExecutionError, match="add_done_callback"):
        qcore.Session(threads=1).execute(plan).to_arrow()
