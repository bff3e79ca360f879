"""Messages within messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def messages_within(message: Any, name: str, beside: str = "") -> Iterator[Any]:
    """All messages of this type within `message`, those in messages of the type `beside` left out."""
    for described, value in message.ListFields():
        type_ = described.message_type
        if type_ is None or type_.GetOptions().map_entry or type_.name == beside:
            continue
        for part in value if described.is_repeated else [value]:
            if type_.name == name:
                yield part
            yield from messages_within(part, name, beside)
