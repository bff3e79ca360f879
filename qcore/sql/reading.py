"""Reading nodes of the parse tree. An argument that is set but not read is an error."""

from __future__ import annotations

from typing import Any

from qcore.errors import PlanError


class NotBound(PlanError):
    """A construct that the binder does not read. `node` is the node of the parse tree; `what` names the construct, and
    `instead` says what to write.
    """

    def __init__(self, node: Any, what: str, instead: str = "") -> None:
        super().__init__(f"{what} is not supported{instead and '; '}{instead}")
        self.node = node


def take(node: Any, *names: str) -> tuple[Any, ...]:
    """The node's arguments of these names; None for one that is not set.

    Some versions of sqlglot name arguments with a trailing underscore, `from_` for `from`. Give the name without it.

    Raises
    ------
    NotBound
        Another argument is set. Ignoring it would silently change the meaning of the query.
    """
    found = {
        name: value
        for name, value in node.args.items()
        if value is not None and value is not False and (value or type(value) is not list)
    }
    values = [found.pop(name, None) for name in names]
    if found:
        for position, name in enumerate(names):
            if values[position] is None:
                values[position] = found.pop(f"{name}_", None)
    if found:
        left = sorted({name.rstrip("_") for name in found})
        raise NotBound(node, f"{clause_name(node)} with {', '.join(left)}")
    return tuple(values)


def get(node: Any, name: str) -> Any:
    """One argument, without a check of the others."""
    value = node.args.get(name)
    return value if value is not None else node.args.get(f"{name}_")


def is_set(value: Any) -> bool:
    """Whether the parser gave an argument a value: not None, False or an empty list."""
    return value is not None and value is not False and not (isinstance(value, list) and not value)


def clause_name(node: Any) -> str:
    """The node's class as words: GROUPING SETS for GroupingSets."""
    name = type(node).__name__
    words = [c if i == 0 or c.islower() or name[i - 1].isupper() else f" {c}" for i, c in enumerate(name)]
    return "".join(words).upper()


def identifier(node: Any) -> tuple[str, bool]:
    """The text of an Identifier, and whether it was written in quotes."""
    arguments = node.args
    if len(arguments) == 2 and "quoted" in arguments and "this" in arguments:
        return arguments["this"], bool(arguments["quoted"])
    text, quoted = take(node, "this", "quoted")
    return text, bool(quoted)
