"""Files named as tables: FROM 'a.parquet', read_parquet(['a.parquet', 'b.parquet'])."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

from qcore.errors import PlanError
from qcore.expression.recursion import deep_recursion
from qcore.functions.dialect import Dialect
from qcore.sql.parse import Source, parse, tokens_of
from qcore.sql.reading import get, identifier, take

_READERS = frozenset({
    "read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_ipc", "read_arrow", "read_orc",
})  # fmt: skip
# Options of other engines for behaviour that is always on here.
_DONE = frozenset({"union_by_name", "hive_partitioning", "hive_types_autocast", "auto_detect", "header"})
# Words that are followed by tables, and words that are not.
_TABLES = frozenset({"FROM", "JOIN", "PIVOT", "UNPIVOT"})
_OTHERS = frozenset({"SELECT", "WHERE", "GROUP_BY", "HAVING", "QUALIFY", "ORDER_BY", "LIMIT", "VALUES"})


def named_files(text: str, dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """The files that a query names, by the names of their tables: see `table_name`.

    A text with a syntax error names none. Planning the query then raises the error.

    Raises
    ------
    PlanError
        A function that reads files has other arguments than paths, or an unknown option.
    """
    if not _may_name_files(tokens_of(text, dialect)):
        return {}
    with deep_recursion():
        try:
            statements, source = parse(text, dialect)
        except PlanError:
            return {}
    nodes = (node for statement in statements for node in statement.walk())
    found = (paths_of(node, source) for node in nodes if type(node).__name__ == "Table")
    return {table_name(paths): paths for paths in found if paths}


def names_in(text: str, dialect: Dialect) -> frozenset[str]:
    """All words and names of a text, in lower case."""
    return frozenset(
        token.text.lower() for token in tokens_of(text, dialect) if token.token_type.name not in ("STRING", "NUMBER")
    )


def table_name(paths: Sequence[str]) -> str:
    """The name of the table of these files."""
    return ", ".join(paths)


def paths_of(table: Any, source: Source) -> tuple[str, ...]:
    """The paths of the files that a Table node names; none if it names a table. PlanError as in `named_files`."""
    name = get(table, "this")
    if type(name).__name__ == "Identifier":
        is_text = get(table, "db") is None and _is_text(name, source)
        return (identifier(name)[0],) if is_text else ()
    function = _reader(name)
    if function is None:
        return ()
    _, arguments = take(name, "this", "expressions")
    for option in (arguments or ())[1:]:
        _check_option(function, option)
    return _paths(function, arguments[0] if arguments else None)


def default_alias(table: Any, paths: Sequence[str]) -> str:
    """The name of a Table node of files without an alias: the file's name without its suffix, or the function's."""
    return _reader(get(table, "this")) or PurePosixPath(paths[0]).stem


def _reader(node: Any) -> str | None:
    """The name of a function that reads files."""
    if type(node).__name__ != "Anonymous":
        return None
    name = str(get(node, "this")).lower()
    return name if name in _READERS else None


def _is_text(name: Any, source: Source) -> bool:
    """Whether a name is written as a text in quotes. The parser makes the same node of names and texts."""
    start = name.meta.get("start")
    if start is not None:
        return source.text[start] == "'"
    # Older versions of the parser give such names no position.
    kinds = {token.token_type.name for token in source.tokens if token.text == name.this}
    return bool(get(name, "quoted")) and "STRING" in kinds and "IDENTIFIER" not in kinds


def _check_option(function: str, node: Any) -> None:
    """Raise PlanError unless an option only repeats the default behaviour."""
    name: Any = None
    value: Any = None
    if type(node).__name__ in ("EQ", "PropertyEQ", "Kwarg"):
        name, value = take(node, "this", "expression")
    is_off = type(value).__name__ == "Boolean" and not value.this
    if name is None or name.name.lower() not in _DONE or is_off:
        raise PlanError(
            f"{function} has no option {node.sql().lower()}; to read the file with another library, pass its result "
            "to Session.register()"
        )


def _paths(function: str, node: Any) -> tuple[str, ...]:
    parts = [node]
    if type(node).__name__ == "Array":
        parts = take(node, "expressions", "bracket_notation")[0] or []
    if not parts or not all(type(part).__name__ == "Literal" and part.is_string for part in parts):
        raise PlanError(f"{function} takes a path, or a list of paths, as text: {function}(['a.x', 'b.x'])")
    return tuple(str(part.this) for part in parts)


def _may_name_files(tokens: Sequence[Any]) -> bool:
    """Whether a text is at the position of a table, or a function that reads files is called. Faster than parsing."""
    among_tables = [False]
    before = ""
    kinds = _kinds()
    for token in tokens:
        kind = kinds.get(token.token_type, "")
        if kind == "STRING":
            if among_tables[-1] and before in ("FROM", "JOIN", "PIVOT", "UNPIVOT", "COMMA", "L_PAREN"):
                return True
        elif kind == "L_PAREN":
            among_tables.append(among_tables[-1])
        elif kind == "R_PAREN" and len(among_tables) > 1:
            among_tables.pop()
        elif kind in _TABLES:
            among_tables[-1] = True
        elif kind in _OTHERS:
            among_tables[-1] = False
        elif kind != "IDENTIFIER" and token.text.lower() in _READERS:
            return True
        before = kind
    return False


@cache
def _kinds() -> dict[Any, str]:
    """The names of the kinds of tokens that tell where tables stand: asking a token for its name takes longer."""
    names = ("STRING", "IDENTIFIER", "COMMA", "L_PAREN", "R_PAREN", *_TABLES, *_OTHERS)
    return {getattr(import_module("sqlglot.tokens").TokenType, name): name for name in names}
