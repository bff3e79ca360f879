"""Searching messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def messages_within(message: Any, name: str, excluded: str = "") -> Iterator[Any]:
    """All messages of the type `name` within `message`, except those within messages of the type `excluded`."""
    for descriptor, value in message.ListFields():
        type_ = descriptor.message_type
        if type_ is None or type_.GetOptions().map_entry or type_.name == excluded:
            continue
        for part in value if descriptor.is_repeated else [value]:
            if type_.name == name:
                yield part
            yield from messages_within(part, name, excluded)
