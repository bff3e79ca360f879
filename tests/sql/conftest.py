"""If a query is refused in a test of this folder, the message shows the position in its text."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from qcore.errors import PlanError

# Messages without a position in the text, with the reason.
WITHOUT_POSITION = {
    "the text is empty": "there is nothing to point at",
    "the query is nested too deeply": "the position is the whole text",
    "syntax error: the text cannot be read": "the tokenizer gives no position",
}


@pytest.fixture(autouse=True)
def _refusals_have_positions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    binding: Any = import_module("qcore.sql.bind")
    planned = binding._plan_text
    missing: list[str] = []

    def plan_and_watch(*arguments: Any, **named: Any) -> Any:
        try:
            return planned(*arguments, **named)
        except PlanError as error:
            message = str(error)
            pointer = message.rpartition("\n")[2].strip()
            if set(pointer) != {"^"} and not message.startswith(tuple(WITHOUT_POSITION)):
                missing.append(message)
            raise

    monkeypatch.setattr(binding, "_plan_text", plan_and_watch)
    yield
    assert not missing, f"a message without a line and a caret below the position: {missing}"
