"""Fields that were removed from Substrait's messages and that older producers still write.

Ignoring them would silently change a plan: it would lose a LIMIT or the keys of a GROUP BY.
"""

from __future__ import annotations

from typing import Any

# Field numbers.
FETCH_OFFSET, FETCH_COUNT = 3, 4
GROUPING_EXPRESSIONS = 1
VIRTUAL_TABLE_ROWS = 1
FUNCTION_ARGUMENTS = 2


def dropped_fields(message: Any, number: int) -> list[Any]:
    """Values of a field by its number: integers, messages or bytes. The installed message types need not have it."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    for field, value in message.ListFields():
        if field.number == number:
            return [value] if isinstance(value, (int, bytes)) or hasattr(value, "ListFields") else list(value)
    return [field.data for field in UnknownFieldSet(message) if field.field_number == number]


def as_message(value: Any, kind: Any) -> Any:
    """A value of dropped_fields() as a message of this kind."""
    return kind.FromString(value) if isinstance(value, bytes) else value
