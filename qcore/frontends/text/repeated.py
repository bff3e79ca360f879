"""Common tables that name one another so often that they multiply, cut out of a query's text.

The planner puts a copy of a common table's query wherever it is named. In a chain of tables that name the one before
twice the copies double with each: 14 steps are 8,192 of the first. A query whose copies would become many is planned by
itself, and once.
"""

from __future__ import annotations

from dataclasses import dataclass

from qcore.frontends.text.tokens import CommonTable, SqlText

# Copies of a common table: up to so many each is planned in its own place, with its own conditions and columns.
COPIES_MAX = 16
_PART = "$part"


@dataclass(frozen=True)
class Repetition:
    """A common table's query, as the table that stands for it."""

    table: str
    query: str


def cut_repeated(text: str, number: int) -> tuple[str, Repetition] | None:
    """The text with one such common table's query replaced by a table named after `number`, or None."""
    sql = SqlText.read(text)
    region = next(iter(sql.regions), None)
    if region is None or region.start != 0 or region.is_recursive or not region.common:
        return None
    found = _multiplied(sql, region.common, (region.main, region.end))
    if found is None:
        return None
    table = region.common[found]
    query = sql.slice(table.body, table.body_end)
    if sql.is_word(table.body, "WITH"):
        query = f"SELECT * FROM ({query})"
    before = _named(sql, region.common[:found], (table.body, table.body_end))
    part = Repetition(f"{_PART}{number}", _with([sql.slice(one.first, one.end) for one in before], query))
    kept = []
    for one in _named(sql, region.common, (region.main, region.end), table):
        own = f'SELECT * FROM "{part.table}")' if one is table else sql.slice(one.body, one.end)
        kept.append(f"{sql.slice(one.first, one.body)} {own}")
    return _with(kept, sql.slice(region.main, region.end)), part


def _with(definitions: list[str], query: str) -> str:
    return f"WITH {', '.join(definitions)} {query}" if definitions else query


def _named(
    sql: SqlText, tables: tuple[CommonTable, ...], main: tuple[int, int], cut: CommonTable | None = None
) -> list[CommonTable]:
    """The tables that the tokens of a query may name, or one of those tables does; what the one that is cut names is
    not among them. The planner would plan the others too.
    """
    places = {table.name: place for place, table in enumerate(tables)}
    found: set[int] = set()
    waiting = [main]
    while waiting:
        for i in range(*waiting.pop()):
            place = places.get(sql.name(i)) if sql.tokens[i].kind in ("word", "quoted") else None
            if place is not None and place not in found:
                found.add(place)
                if tables[place] is not cut:
                    waiting.append((tables[place].body, tables[place].body_end))
    return [tables[place] for place in sorted(found)]


def _multiplied(sql: SqlText, tables: tuple[CommonTable, ...], main: tuple[int, int]) -> int | None:
    """The last common table that has more copies than COPIES_MAX, and than places that name it."""
    places = {table.name: place for place, table in enumerate(tables)}
    copies = [0] * len(tables)
    named = [0] * len(tables)
    for of, span in [(None, main), *((i, (t.body, t.body_end)) for i, t in reversed(list(enumerate(tables))))]:
        if of is not None and copies[of] > max(COPIES_MAX, named[of]) and not _is_cut(sql, tables[of]):
            return of
        for i in range(*span):
            place = places.get(sql.name(i)) if sql.tokens[i].kind in ("word", "quoted") else None
            if place is not None and (of is None or place < of) and _is_table(sql, i):
                named[place] += 1
                copies[place] += 1 if of is None else copies[of]
    return None


def _is_table(sql: SqlText, i: int) -> bool:
    """Whether token i stands where a table's name may."""
    return (sql.is_word(i - 1, "FROM", "JOIN") or sql.is_sign(i - 1, ",")) and not sql.is_sign(i + 1, ".")


def _is_cut(sql: SqlText, table: CommonTable) -> bool:
    last = sql.tokens[table.body_end - 1]
    return table.body_end - table.body == 4 and last.kind == "quoted" and last.text.startswith(f'"{_PART}')
