"""Keys of GROUP BY that another key decides: casts of a column that is a key itself.

The planner calls a cast as it calls the column, and takes one for the other above the groups.
"""

from __future__ import annotations

from qcore.frontends.text.clauses import begins_clause, items, named, select_list, selects
from qcore.frontends.text.tokens import SqlText


def without_cast_keys(sql: SqlText, group: int) -> list[tuple[int, int, str]]:
    """What stands for tokens from one to another when such keys of the GROUP BY at a token are left out."""
    every = (query for region in sql.regions for query in selects(sql, region))
    query = next((query for query in every if query[0] < group < query[1] and group in sql.level(*query)), None)
    if query is None:
        return []
    end = next((j for j in sql.level(group + 2, query[1]) if begins_clause(sql, j)), query[1])
    keys = list(items(sql, group + 2, end))
    if any(sql.is_word(a, "ROLLUP", "CUBE", "GROUPING") for a, _ in keys):
        return []
    columns = {_column(sql, *_listed_at(sql, query, a, b)) for a, b in keys} - {""}
    kept = [(a, b) for a, b in keys if _cast_column(sql, a, b) not in columns]
    if len(kept) == len(keys):
        return []
    return [(group + 2, end, ", ".join(sql.slice(a, b) for a, b in kept))]


def _listed_at(sql: SqlText, query: tuple[int, int], a: int, b: int) -> tuple[int, int]:
    """A key, or the expression of the select list that it is the number of."""
    listed, place = select_list(sql, *query), sql.tokens[a].text
    if b == a + 1 and place.isdigit() and 0 < int(place) <= len(listed):
        start, stop = listed[int(place) - 1]
        return start, named(sql, start, stop)[0]
    return a, b


def _column(sql: SqlText, a: int, b: int) -> str:
    """The name of the column that tokens a to b are, with its table's if that is named; empty where they are none."""
    names = b > a and (b - a) % 2 and all(sql.tokens[j].kind in ("word", "quoted") for j in range(a, b, 2))
    if not names or not all(sql.is_sign(j, ".") for j in range(a + 1, b, 2)):
        return ""
    return ".".join(sql.name(j) for j in range(a, b, 2))


def _cast_column(sql: SqlText, a: int, b: int) -> str | None:
    """The name of the column that tokens a to b are a cast of, or a cast of a cast; None where they are none."""
    is_cast = False
    while (inner := _inner(sql, a, b)) is not None:
        is_cast = is_cast or not sql.is_sign(a, "(") or inner[1] < b - 1
        a, b = inner
    return (_column(sql, a, b) or None) if is_cast else None


def _inner(sql: SqlText, a: int, b: int) -> tuple[int, int] | None:
    """What tokens a to b are a cast of, or brackets around."""
    colon = next((j for j in reversed(list(sql.level(a, b))) if sql.is_sign(j - 1, ":") and sql.is_sign(j, ":")), None)
    if colon is not None:
        return a, colon - 1
    if sql.is_sign(a, "(") and sql.partner[a] == b - 1:
        return a + 1, b - 1
    if sql.is_word(a, "CAST") and sql.partner.get(a + 1) == b - 1:
        return a + 2, next((j for j in sql.level(a + 2, b - 1) if sql.is_word(j, "AS")), a + 2)
    return None
