"""The exceptions of the engine: classes and messages (SPEC D9)."""

from __future__ import annotations

import pickle

import pytest

from qcore_ext.ground import status
from qcore_ext.ground.memory import Account, Reservation
from qcore_ext.ground.status import (
    Cancelled,
    ExecutionError,
    MemoryLimitError,
    PlanError,
    QcoreError,
    SchemaChangeError,
    SchemaConflictError,
    Timeout,
    UntoldError,
)

RUNNING = [MemoryLimitError, SchemaChangeError, SchemaConflictError, UntoldError]


@pytest.mark.parametrize("kind", [kind for kind in vars(status).values() if isinstance(kind, type)])
def test_every_error_is_a_qcore_error(kind: type) -> None:
    """D9."""
    assert issubclass(kind, QcoreError)
    assert issubclass(kind, ExecutionError) == (kind is ExecutionError or kind in RUNNING)
    assert issubclass(kind, PlanError) == (kind in (PlanError, SchemaConflictError))


def test_errors_of_operators_name_them() -> None:
    """D9."""
    error = ExecutionError("no luck", "Scan", "7")
    assert (str(error), error.operator, error.node_id) == ("no luck", "Scan", "7")
    plain = ExecutionError("no luck")
    assert (plain.operator, plain.node_id) == (None, None)


def test_an_untold_error_names_the_operator_once_it_is_known() -> None:
    """D9: the error object is created before the task runs."""
    error = UntoldError()
    text = str(error)
    error.operator, error.node_id = "Scan", "7"
    assert str(error) == f"Scan (node 7): {text}"


@pytest.mark.parametrize("kind", [Cancelled, Timeout, PlanError, ExecutionError, MemoryLimitError])
def test_errors_are_pickled(kind: type) -> None:
    again = pickle.loads(pickle.dumps(kind("why")))
    assert (type(again), str(again)) == (kind, "why")


def test_errors_raised_without_the_gil_keep_kind_and_text() -> None:
    reservation = Reservation(Account(limit=1000))
    with pytest.raises(MemoryLimitError, match="1000") as caught:
        reservation.add(5000)
    assert not caught.value.is_shared
