"""Texts of errors, also for objects whose names and texts raise (SPEC D9)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from qcore.errors import ExecutionError, MemoryLimitError, PlanError, SchemaChangeError
from qcore_ext.ground.error_text import class_name, explain_failure, is_interrupt, show_value, text_of


class Untellable(Exception):
    """An object whose str() and repr() raise."""

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


class Renaming(type):
    @property
    def __name__(cls) -> str:
        raise ValueError


class Renamed(metaclass=Renaming):
    """An object whose class raises when its name is read."""


def test_names_are_read_past_the_metaclass() -> None:
    """D9."""
    assert class_name(Renamed) == "Renamed"
    assert class_name(int) == "int"


def test_texts_that_raise_are_described() -> None:
    """D9."""
    assert text_of("plain") == "plain"
    assert text_of(Untellable()) == "a Untellable whose __str__ raised ValueError"
    assert show_value(Untellable()) == "a Untellable whose __repr__ raised ValueError"
    assert show_value("it's") == repr("it's")
    assert show_value(7) == "7"


def test_ctrl_c_is_one_of_the_main_thread_alone() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(is_interrupt(KeyboardInterrupt())))
    thread.start()
    thread.join()
    assert found == [False]
    assert is_interrupt(KeyboardInterrupt())
    assert not is_interrupt(SystemExit())


def test_ctrl_c_in_a_text_is_raised() -> None:
    def raise_interrupt(thing: Any) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        text_of(object(), raise_interrupt)


@pytest.mark.parametrize("kind", [PlanError, ExecutionError, SchemaChangeError, MemoryLimitError])
def test_own_errors_keep_their_class_and_say_where(kind: type[Exception]) -> None:
    """D9: operator, node and action are added, unless the error names them already."""
    error = kind("no such thing")
    explained = explain_failure(error, "Filter", "7", "reading split 3")
    assert explained is error
    assert str(explained) == "Filter (node 7) reading split 3: no such thing"
    assert (explained.operator, explained.node_id) == ("Filter", "7")
    assert explain_failure(explained, "Scan", "9") is error
    assert str(explained) == "Filter (node 7) reading split 3: no such thing"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("bad"), ExecutionError, "Scan (node 1) failed: ValueError: bad"),
        (SystemExit(3), ExecutionError, "Scan (node 1) failed: SystemExit: 3"),
        (MemoryError("no room"), MemoryLimitError, "Scan (node 1) failed: MemoryError: no room"),
        (Untellable(), ExecutionError, f"Scan (node 1) failed: Untellable: {text_of(Untellable())}"),
    ],
    ids=["ValueError", "SystemExit", "MemoryError", "Untellable"],
)
def test_other_errors_become_the_cause(error: BaseException, kind: type[Exception], text: str) -> None:
    """D9."""
    explained = explain_failure(error, "Scan", "1")
    assert type(explained) is kind
    assert explained.__cause__ is error
    assert str(explained) == text


def test_the_end_of_an_operator_is_named() -> None:
    """D9: an error in close becomes an ExecutionError that names close."""
    explained = explain_failure(PlanError("bad"), "Sink", "2", ending="close")
    assert type(explained) is ExecutionError
    assert str(explained) == "Sink (node 2) failed in close(): PlanError: bad"


def test_ctrl_c_stays_as_it_is() -> None:
    error = KeyboardInterrupt()
    assert explain_failure(error, "Scan", "1") is error
