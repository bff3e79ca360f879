"""Columns of a select list named in the same SELECT, written out: select i + 1 as a, a * 2 as b.

The planner knows them in GROUP BY, HAVING, QUALIFY and ORDER BY. In the rest of a SELECT a column of its tables wins
over one of the list, as in DuckDB, and an item is known to those behind it. In HAVING one of the list wins, but over a
key of the groups and among the arguments of aggregates.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.clauses import (
    ColumnsOf,
    clauses_of,
    is_reference,
    items,
    named,
    selects,
    with_visible,
)
from qcore.frontends.text.operands import is_name
from qcore.frontends.text.tokens import SqlText
from qcore.substrait.functions import is_known_aggregate, is_known_scalar

_QUERY = ("SELECT", "WITH", "VALUES", "TABLE", "FROM")
_NO_AGGREGATES = frozenset({"cast", "try_cast", "extract", "if", "iff", "case"})
_VOLATILE = re.compile(r"\b(?:random|uuid|gen_random_uuid)\s*\(", re.IGNORECASE)
# An expression that names another twice, which names a third twice …, grows without end.
_TEXT_MAX = 1 << 14


@dataclass(frozen=True)
class _Item:
    """An item of a select list that has an alias: tokens `start` to `until` are its expression."""

    start: int
    until: int
    name: str


def with_aliases_written_out(text: str, repeated: Set[str], columns_of: ColumnsOf) -> str:
    """The text with the expressions of aliases in their places. `repeated` are aliases that may mean two columns.

    Raises
    ------
    PlanError
        An alias that two columns have, or of a value that is another each time it is computed; an expression that
        grows too long.
    """
    done = 0
    while (changed := _changed(SqlText.read(text), done, repeated, columns_of)) is not None:
        text, done = changed
    return text


def _changed(sql: SqlText, done: int, repeated: Set[str], columns_of: ColumnsOf) -> tuple[str, int] | None:
    """The text with the aliases of one SELECT written out, the last that is left, and how many are done then."""
    cores = [(region, core) for region in reversed(sql.regions) for core in selects(sql, region)]
    for n, (_, (start, end)) in enumerate(cores[done:], done + 1):
        clauses = clauses_of(sql, start, end)
        stop = clauses[0] if clauses else end
        listed = _aliased(sql, start, stop)
        if not listed:
            continue
        uses = [i for i in _places(sql, start, end, clauses) if _item_at(sql, i, listed) is not None]
        of_groups = [i for i in _places_in_having(sql, end, clauses) if _item_at(sql, i, listed) is not None]
        if not uses and not of_groups:
            continue
        begin = next((i for i in clauses if sql.is_word(i, "FROM")), None)
        here: Set[str] = frozenset()
        if begin is not None:
            until = next((i for i in clauses if i > begin), end)
            try:
                columns = columns_of(with_visible(sql, start, f"SELECT * {sql.slice(begin, until)}"))
            except PlanError:
                # Of a subquery that reads the tables around it.
                continue
            here = {column.lower() for column in columns}
            uses = [i for i in uses if sql.name(i).lower() not in here]
            # The planner knows the others itself.
            uses = sorted([*uses, *(i for i in of_groups if sql.name(i).lower() in here)])
        for i in uses:
            if sql.name(i).lower() in repeated:
                raise PlanError(f"two columns of the select list are called {sql.name(i)!r}; give one another name")
        if uses:
            return _written_out(sql, start, end, listed, uses, here), n
    return None


def _aliased(sql: SqlText, start: int, stop: int) -> list[_Item]:
    found = []
    for a, b in items(sql, start + 1, stop):
        if a < b and not sql.is_sign(a, "*"):
            until, name = named(sql, a, b)
            a += sql.is_word(a, "DISTINCT", "ALL") and a == start + 1
            found += [_Item(a, until, name)] if a < until < b else []
    return found


def _places(sql: SqlText, start: int, end: int, clauses: list[int]) -> Iterator[int]:
    """The columns that the select list, WHERE and windows name without a table, queries in brackets left out."""
    bounds = [start, *clauses, end]
    for begin, stop in itertools.pairwise(bounds):
        if begin == start or sql.is_word(begin, "WHERE", "WINDOW"):
            yield from _references(sql, begin + 1, stop)
        elif not sql.is_word(begin, "FROM"):
            for over in sql.places("OVER"):
                if begin < over < stop and sql.is_sign(over + 1, "("):
                    yield from _references(sql, over + 2, sql.partner[over + 1])


def _places_in_having(sql: SqlText, end: int, clauses: list[int]) -> Iterator[int]:
    """The columns that HAVING names without a table outside of aggregates, and GROUP BY does not name."""
    having = next((i for i in clauses if sql.is_word(i, "HAVING")), None)
    if having is None:
        return
    grouped = next((i for i in clauses if sql.is_word(i, "GROUP")), having)
    keys = set(_keys(sql, grouped + 2, having))
    stop = next((i for i in clauses if i > having), end)
    for i in _references(sql, having + 1, stop, within=_is_of_rows):
        if sql.name(i).lower() not in keys:
            yield i


def _keys(sql: SqlText, start: int, end: int) -> Iterator[str]:
    """The columns among the keys of groups, those of grouping sets too."""
    for a, b in items(sql, start, end):
        opens = a + sql.is_word(a, "ROLLUP", "CUBE") + 2 * sql.is_word(a, "GROUPING")
        if sql.is_sign(opens, "(") and sql.partner[opens] == b - 1:
            yield from _keys(sql, opens + 1, b - 1)
        elif b - a == 1 or (b - a == 3 and sql.is_sign(a + 1, ".")):
            yield sql.name(b - 1).lower()


def _is_of_rows(sql: SqlText, opens: int) -> bool:
    """Whether the bracket at a token is that of a call that takes the rows of a group, or may."""
    if opens == 0 or sql.tokens[opens - 1].kind != "word" or not is_name(sql, opens - 1):
        return False
    name = sql.tokens[opens - 1].text.lower()
    return is_known_aggregate(name) or not (is_known_scalar(name) or name in _NO_AGGREGATES)


def _references(
    sql: SqlText, start: int, end: int, within: Callable[[SqlText, int], bool] | None = None
) -> Iterator[int]:
    """Names of columns, those in queries and in the brackets that are `within` something else left out."""
    skipped = start
    for i in range(start, end):
        if i < skipped:
            continue
        if sql.is_sign(i, "(") and (sql.is_word(i + 1, *_QUERY) or (within is not None and within(sql, i))):
            skipped = sql.partner[i]
        elif is_reference(sql, i) and not _is_other_name(sql, i):
            yield i


def _is_other_name(sql: SqlText, i: int) -> bool:
    """Whether token i is a field's name, {a: 1}, a window's, a place of nulls, or what an item is called."""
    is_field = sql.is_sign(i + 1, ":") and not sql.is_sign(i + 2, ":")
    is_window = sql.is_word(i + 1, "AS") and sql.is_sign(i + 2, "(")
    return is_field or is_window or sql.is_word(i - 1, "NULLS")


def _item_at(sql: SqlText, i: int, listed: Sequence[_Item]) -> _Item | None:
    """The item that the name at token i means: the first of that name, where the token is not within or before it."""
    name = sql.name(i).lower()
    found = next((item for item in listed if item.name.lower() == name), None)
    return found if found is not None and i > found.until + 1 else None


def _written_out(
    sql: SqlText, start: int, end: int, listed: Sequence[_Item], uses: Sequence[int], columns: Set[str]
) -> str:
    """The whole text with the uses of aliases in the SELECT of tokens start to end, whose tables have these columns,
    replaced.
    """
    unknown = {sql.name(i).lower() for i in uses}
    made: dict[str, str] = {}
    for item in listed:
        if item.name.lower() not in unknown or item.name.lower() in made:
            continue
        text = _replaced(sql, item.start, item.until, uses, made)
        own = (i for i in _references(sql, item.start, item.until) if i not in uses)
        if any(sql.name(i).lower() in unknown - columns for i in own):
            # It names itself, or one behind it: a column that is nowhere.
            continue
        if _VOLATILE.search(text):
            raise PlanError(f"{item.name!r} is another value each time it is computed; put it into a subquery")
        if len(text) > _TEXT_MAX:
            raise PlanError("aliases that name one another make an expression too long; use a subquery for some")
        made[item.name.lower()] = f"({text})"
    return sql.replaced(start, end, _replaced(sql, start, end, uses, made))


def _replaced(sql: SqlText, a: int, b: int, uses: Sequence[int], made: Mapping[str, str]) -> str:
    """Tokens a to b with the uses among them replaced by what is made for their names."""
    pieces, at = [], a
    for i in uses:
        if a <= i < b and sql.name(i).lower() in made:
            pieces += [sql.slice(at, i), made[sql.name(i).lower()]]
            at = i + 1
    return " ".join([*pieces, sql.slice(at, b)])
