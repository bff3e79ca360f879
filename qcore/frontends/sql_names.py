"""Names of result columns that the query gave none: their expressions as written. Floor P2.

The planner would name them by what it makes of them, `CAST(a AS INT)` by the column alone, and refuse a select list
that has the same expression twice. It gets names that cannot meet others instead, which are replaced in its plan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from qcore.frontends.shown_names import shown_name
from qcore.frontends.sql_clauses import CLAUSES, items, named, selects
from qcore.frontends.sql_text import TAIL, SqlText

_PREFIX = "$name"
_GIVEN = re.compile(r"\$name(\d+)")


def with_names(text: str) -> tuple[str, list[str]]:
    """The text with names for columns that have none or the same as one before them, and what these names stand for;
    the n-th is called `$name<n>`. Within a query only what would stand there twice is given one.
    """
    sql = SqlText.read(text)
    end = len(sql.tokens) - sql.is_sign(len(sql.tokens) - 1, ";")
    #: Text put in at places of the text, and the places' ends.
    new: list[tuple[int, int, str]] = []
    given: list[str] = []
    for n, region in enumerate(sql.regions):
        for start, stop in selects(sql, region):
            listed = _select_list(sql, start, min(stop, end))
            new += _named_items(sql, listed, given, outermost=n == 0)
            new += _ordered_by_place(sql, listed, start, min(stop, end), min(region.end, end))
    parts, at = [], 0
    for begin, until, written in sorted(new):
        parts += [text[at:begin], written]
        at = until
    return "".join([*parts, text[at:]]), given


def shown_names(names: Sequence[str], given: Sequence[str]) -> list[str]:
    """The names of a plan's columns as a query's user knows them: what with_names() gave replaced."""
    return [given[int(found.group(1))] if (found := _GIVEN.fullmatch(name)) else shown_name(name) for name in names]


def _select_list(sql: SqlText, start: int, stop: int) -> list[tuple[int, int]]:
    begin = start + 1 + sql.is_word(start + 1, "DISTINCT", "ALL")
    if sql.is_word(start + 1, "DISTINCT") and sql.is_word(start + 2, "ON") and sql.is_sign(start + 3, "("):
        begin = sql.partner[start + 3] + 1
    clauses = (i for i in sql.level(begin, stop) if sql.is_word(i, *CLAUSES, *TAIL))
    # IS DISTINCT FROM has a FROM of its own.
    end = next((i for i in clauses if not sql.is_word(i - 1, "DISTINCT")), stop)
    return [(a, b) for a, b in items(sql, begin, end) if a < b]


def _named_items(
    sql: SqlText, listed: list[tuple[int, int]], given: list[str], outermost: bool
) -> list[tuple[int, int, str]]:
    new: list[tuple[int, int, str]] = []
    has_star = any(_is_star(sql, a, b) for a, b in listed)
    taken: set[str] = set()
    for a, b in listed:
        until, name = named(sql, a, b)
        if _is_star(sql, a, b) or (until < b and not sql.is_word(until, "AS")):
            # Without AS what looks like an alias may be more of the expression: double precision.
            continue
        is_column = until == b and _is_column(sql, a, b)
        has_name = is_column or until < b
        if not has_name:
            name = _as_written(sql, a, b)
        if (has_name or not outermost) and name not in taken and not (is_column and has_star and outermost):
            taken.add(name)
            continue
        new.append((sql.tokens[until - 1].end, sql.tokens[b - 1].end, f' AS "{_PREFIX}{len(given)}"'))
        given.append(name)
    return new


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
    """Tokens a to b, words in lower case, white space as one blank, comments left out."""
    parts, at = [], sql.tokens[a].start
    for token in sql.tokens[a:b]:
        parts += [" " if token.start > at else "", token.text.lower() if token.kind == "word" else token.text]
        at = token.end
    return "".join(parts)
