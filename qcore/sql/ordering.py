"""The elements of ORDER BY."""

from __future__ import annotations

from typing import Any

from qcore.sql.reading import NotBound, take


def read_ordered(node: Any) -> tuple[Any, bool, bool]:
    """An element of ORDER BY: the expression, whether it is descending, whether nulls come first."""
    if type(node).__name__ != "Ordered":
        return node, False, False
    value, descending, nulls_first, fill = take(node, "this", "desc", "nulls_first", "with_fill")
    if fill is not None:
        raise NotBound(node, "ORDER BY with FILL")
    return value, bool(descending), bool(nulls_first)
