"""Names of columns that the query gave none: their expressions as written.

The planner would name them by what it makes of them, `CAST(a AS INT)` by the column alone, and refuse a select list
that has the same expression twice. Those of the result get names that cannot meet others instead, which are replaced in
its plan; those of the queries within, which the rest of the text may name, are written behind them, the second of the
same name with a number: `i`, `i_1`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from qcore.frontends.planner.shown_names import shown_name
from qcore.frontends.text.clauses import free_name, items, named, quoted, select_list, selects
from qcore.frontends.text.tokens import TAIL, Region, SqlText

_PREFIX = "$name"
_GIVEN = re.compile(r"\$name(\d+)")
# What stands before the bracket of a query whose columns may be named: of a table or common table, or a part of one.
_BEFORE_TABLE = ("FROM", "JOIN", "LATERAL", "AS", "MATERIALIZED", "UNION", "EXCEPT", "INTERSECT", "ALL", "DISTINCT")


@dataclass(frozen=True)
class GivenNames:
    """The names that with_names() wrote: `outermost[n]` is what `$name<n>` stands for, `within` stand as they are.
    `repeated` are the aliases, in lower case, that a select list gave twice.
    """

    outermost: list[str] = field(default_factory=list)
    within: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)


def with_names(text: str) -> tuple[str, GivenNames]:
    """The text with names for columns that have none or the same as one before them, and these names."""
    sql = SqlText.read(text)
    end = len(sql.tokens) - sql.is_sign(len(sql.tokens) - 1, ";")
    #: Text put in at places of the text, and the places' ends.
    new: list[tuple[int, int, str]] = []
    given = GivenNames()
    for n, region in enumerate(sql.regions):
        for start, stop in selects(sql, region):
            listed = select_list(sql, start, min(stop, end))
            if n == 0:
                new += _named_result(sql, listed, given)
            else:
                new += _named_within(sql, listed, given, _is_table(sql, region))
            new += _ordered_by_place(sql, listed, start, min(stop, end), min(region.end, end))
    parts, at = [], 0
    for begin, until, written in sorted(new):
        parts += [text[at:begin], written]
        at = until
    return "".join([*parts, text[at:]]), given


def shown_names(names: Sequence[str], given: GivenNames, columns: Container[str]) -> list[str]:
    """The names of a plan's columns as a query's user knows them: what with_names() gave replaced, and those of
    `columns`, the tables' own, left.
    """
    return [_shown(name, given, columns) for name in names]


def _shown(name: str, given: GivenNames, columns: Container[str]) -> str:
    found = _GIVEN.fullmatch(name)
    if found:
        return given.outermost[int(found.group(1))]
    return name if name in given.within or name in columns else shown_name(name)


def _named_result(sql: SqlText, listed: list[tuple[int, int]], given: GivenNames) -> list[tuple[int, int, str]]:
    """The names put behind items of the outermost select list."""
    new: list[tuple[int, int, str]] = []
    has_star = any(_is_star(sql, a, b) for a, b in listed)
    taken: set[str] = set()
    for a, b, until, name, has_name in _items_and_names(sql, listed):
        if has_name and name not in taken and not (has_star and until == b):
            taken.add(name)
            continue
        new.append((sql.tokens[until - 1].end, sql.tokens[b - 1].end, f' AS "{_PREFIX}{len(given.outermost)}"'))
        given.repeated.update([name.lower()] if has_name else [])
        given.outermost.append(name if has_name else _as_written(sql, a, b))
    return new


def _named_within(
    sql: SqlText, listed: list[tuple[int, int]], given: GivenNames, is_table: bool
) -> list[tuple[int, int, str]]:
    """The names put behind items of another select list: of each that has none where it `is_table`, and of each that
    would stand there twice.
    """
    new: list[tuple[int, int, str]] = []
    taken: set[str] = set()
    for a, b, until, name, has_name in _items_and_names(sql, listed):
        wanted = name if has_name else _as_written(sql, a, b)
        free = free_name(wanted, taken)
        if free != wanted or (is_table and not has_name):
            given.within.add(free)
            given.repeated.update([name.lower()] if has_name else [])
            new.append((sql.tokens[until - 1].end, sql.tokens[b - 1].end, f" AS {quoted(free)}"))
    return new


def _items_and_names(sql: SqlText, listed: list[tuple[int, int]]) -> Iterator[tuple[int, int, int, str, bool]]:
    """The items of a select list but stars: where each begins and ends, where its expression ends, its name, and
    whether it has one.
    """
    for a, b in listed:
        until, name = named(sql, a, b)
        # Without AS what looks like an alias may be more of the expression: double precision.
        if not _is_star(sql, a, b) and (until == b or sql.is_word(until, "AS")):
            yield a, b, until, name, until < b or _is_column(sql, a, b)


def _is_table(sql: SqlText, region: Region) -> bool:
    """Whether a query in brackets may be one whose columns others name: no condition's."""
    before = region.start - 2
    return sql.is_word(before, *_BEFORE_TABLE) or sql.is_sign(before, ",") or sql.is_sign(before, "(")


def _ordered_by_place(
    sql: SqlText, listed: list[tuple[int, int]], start: int, stop: int, end: int
) -> list[tuple[int, int, str]]:
    """ORDER BY of a SELECT DISTINCT names expressions of its select list by their place: the planner looks for columns
    there.
    """
    is_last = sql.is_word(stop, "ORDER") and sql.is_word(stop + 1, "BY")
    if not is_last or not sql.is_word(start + 1, "DISTINCT") or any(_is_star(sql, a, b) for a, b in listed):
        return []
    places = {_texts(sql, a, named(sql, a, b)[0]): n for n, (a, b) in enumerate(listed, 1)}
    new = []
    tail = next((i for i in sql.level(stop + 2, end) if sql.is_word(i, *TAIL)), end)
    for a, b in items(sql, stop + 2, tail):
        until = next((i for i in sql.level(a, b) if i > a and sql.is_word(i, "ASC", "DESC", "NULLS")), b)
        place = places.get(_texts(sql, a, until))
        if place is not None and not _is_column(sql, a, until):
            new.append((sql.tokens[a].start, sql.tokens[until - 1].end, str(place)))
    return new


def _is_star(sql: SqlText, a: int, b: int) -> bool:
    """Whether an item of a select list is *, t.* or one of these with changes."""
    while a + 2 < b and sql.tokens[a].kind in ("word", "quoted") and sql.is_sign(a + 1, "."):
        a += 2
    return sql.is_sign(a, "*")


def _is_column(sql: SqlText, a: int, b: int) -> bool:
    """Whether tokens a to b are a name, and perhaps its table's."""
    names = all(sql.tokens[i].kind in ("word", "quoted") for i in range(a, b, 2))
    return names and (b - a) % 2 == 1 and all(sql.is_sign(i, ".") for i in range(a + 1, b, 2))


def _texts(sql: SqlText, a: int, b: int) -> tuple[str, ...]:
    return tuple(token.text for token in sql.tokens[a:b])


def _as_written(sql: SqlText, a: int, b: int) -> str:
    """Tokens a to b, words in lower case, names without needless quotes, white space as one blank, no comments."""
    parts, at = [], sql.tokens[a].start
    for token in sql.tokens[a:b]:
        shown = token.text.lower() if token.kind == "word" else token.text
        if token.kind == "quoted" and shown[1:-1].isidentifier():
            shown = shown[1:-1]
        parts += [" " if token.start > at else "", shown]
        at = token.end
    return "".join(parts)
