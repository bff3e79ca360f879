"""Files named where tables stand: FROM 'a.parquet', read_parquet(['a.parquet', 'b.parquet']). SPEC Q1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from qcore.errors import PlanError
from qcore.frontends.text.clauses import CLAUSES, is_distinct_from, items, operands, quoted, read_alias
from qcore.frontends.text.scopes import is_call
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, SqlText

_READERS = frozenset(
    {"READ_PARQUET", "PARQUET_SCAN", "READ_CSV", "READ_CSV_AUTO", "READ_IPC", "READ_ARROW", "READ_ORC"}
)
# What may stand behind a table, but is no alias.
_BEHIND = TAIL | SET_OPERATORS | {"ANTI", "ASOF", "POSITIONAL", "SELECT", "SEMI", "TABLESAMPLE"}
# What other engines have to be told, and is done here anyway.
_DONE = frozenset({"UNION_BY_NAME", "HIVE_PARTITIONING", "HIVE_TYPES_AUTOCAST", "AUTO_DETECT", "HEADER"})


def with_named_files(text: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The text with names of tables for the files it reads, and their paths by these.

    Raises
    ------
    PlanError
        A function that reads files has other arguments than paths, or an option that is not known.
    """
    sql = SqlText.read(text)
    if "'" not in text and sql.words.isdisjoint(_READERS):
        return text, {}
    found: dict[str, tuple[str, ...]] = {}
    parts, at = [], 0
    aliases: set[str] = set()
    for start in sorted(set(_table_places(sql))):
        end, paths = _files(sql, start)
        if not paths:
            continue
        name = ", ".join(paths)
        found[name] = paths
        has_alias = read_alias(sql, end, len(sql.tokens))[1] and not sql.is_word(end, *_BEHIND)
        stem = PurePosixPath(paths[0]).stem if end == start + 1 else sql.name(start)
        written = quoted(name)
        if not has_alias and stem not in aliases:
            aliases.add(stem)
            written += f" AS {quoted(stem)}"
        parts += [text[at : sql.tokens[start].start], written]
        at = sql.tokens[end - 1].end
    return "".join([*parts, text[at:]]), found


def _table_places(sql: SqlText) -> Iterator[int]:
    """The tokens at which a table of a FROM clause may begin."""
    for region in sql.regions:
        in_call = sql.is_sign(region.start, "(") and is_call(sql, region.start - 1)
        if in_call or sql.is_word(region.start - 2, "TRIM"):
            continue  # substring((a) FROM 'b'), trim(FROM x)
        for start, end in operands(sql, region):
            level = list(sql.level(start, end))
            begin = next((i for i in level if sql.is_word(i, "FROM") and not is_distinct_from(sql, i)), end)
            stop = next((i for i in level if i > begin and sql.is_word(i, *TAIL, *CLAUSES, "SELECT")), end)
            for i in level:
                if begin <= i < stop and (sql.is_word(i, "FROM", "JOIN") or sql.is_sign(i, ",")):
                    yield i + 1


def _files(sql: SqlText, start: int) -> tuple[int, tuple[str, ...]]:
    """Where the name of files, or the call that reads them, at a token ends, and their paths; none where it is none."""
    if start >= len(sql.tokens):
        return start, ()
    token = sql.tokens[start]
    if token.kind == "string":
        return start + 1, (_path(token.text),)
    if token.kind != "word" or token.text not in _READERS or not sql.is_sign(start + 1, "("):
        return start, ()
    close = sql.partner[start + 1]
    function = token.text.lower()
    paths: tuple[str, ...] = ()
    for n, (a, b) in enumerate(items(sql, start + 2, close)):
        if n == 0:
            paths = _paths(sql, a, b, function)
        elif not sql.is_word(a, *_DONE) or not sql.is_sign(a + 1, "=") or sql.is_word(a + 2, "FALSE"):
            raise PlanError(
                f"{function} has no option {sql.slice(a, b)}; register() makes a table of what another library reads"
            )
    return close + 1, paths


def _paths(sql: SqlText, a: int, b: int, function: str) -> tuple[str, ...]:
    if sql.is_sign(a, "[") and sql.partner.get(a) == b - 1:
        a, b = a + 1, b - 1
    parts = [(first, last) for first, last in items(sql, a, b)]
    if not all(last == first + 1 and sql.tokens[first].kind == "string" for first, last in parts):
        raise PlanError(f"{function} takes a path, or a list of paths, as text: {function}(['a.x', 'b.x'])")
    return tuple(_path(sql.tokens[first].text) for first, _ in parts)


def _path(literal: str) -> str:
    return literal[1:-1].replace("''", "'")
