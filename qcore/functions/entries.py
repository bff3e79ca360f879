"""Entries of function tables: the arguments and the result of a name, and how its call becomes an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qcore.expression.bound import Bound
from qcore.expression.tree import Expr
from qcore.functions.signatures import MANY
from qcore.functions.typed import derive_expr
from qcore.record import record

#: Makes the expression of a call from the dialect and the arguments.
Build = Callable[..., Bound]


@record(frozen=True, slots=True)
class Entry:
    """A function under one name. `takes` and `gives` describe its arguments and its result for documentation."""

    takes: str
    gives: str
    build: Build
    fewest: int
    most: int


#: Entries by name. A text is an alias: the name of another entry, or of a function of the engine.
Table = Mapping[str, Entry | str]


def entry(takes: str, gives: str, build: Build) -> Entry:
    """Make an entry.

    The number of arguments follows from `takes`: one or two for "text, [integer]", any for "any, …".
    """
    first = takes.partition(";")[0]
    words = [word.strip() for word in first.split(",") if word.strip()]
    needed = [word for word in words if not word.startswith("[") and word != "…"]
    return Entry(takes, gives, build, len(needed), MANY if "…" in words else len(words))


def expr_entry(takes: str, gives: str, build: Callable[..., Expr]) -> Entry:
    """Make an entry of a function that is an expression over others for all types of arguments."""
    return entry(takes, gives, lambda dialect, *arguments: derive_expr(build, *arguments))
