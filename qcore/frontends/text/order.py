"""ORDER BY ALL written as the places of the result's columns."""

from __future__ import annotations

from qcore.frontends.text.clauses import CLAUSES, ColumnsOf, items, selects, with_visible
from qcore.frontends.text.tokens import TAIL, Region, SqlText


def without_order_by_all(text: str, columns_of: ColumnsOf) -> str:
    """The text with ORDER BY ALL written out. `columns_of` says which columns a query gives, where it has a star."""
    while (changed := _without_first(SqlText.read(text), columns_of)) is not None:
        text = changed
    return text


def _without_first(sql: SqlText, columns_of: ColumnsOf) -> str | None:
    if not any(_stands_at(sql, i - 2) for i in sql.places("ALL")):
        return None
    # Innermost first: what a star means must be readable.
    for region in reversed(sql.regions):
        begin = next((i for i in sql.level(region.main, region.end) if _stands_at(sql, i)), None)
        if begin is None:
            continue
        end = next((i for i in sql.level(begin + 3, region.end) if sql.is_word(i, *TAIL)), region.end)
        how = sql.slice(begin + 3, end)
        n_columns = _n_columns(sql, region, begin, columns_of)
        return sql.replaced(begin, end, f"ORDER BY {', '.join(f'{n} {how}' for n in range(1, n_columns + 1))}")
    return None


def _stands_at(sql: SqlText, i: int) -> bool:
    return sql.is_word(i, "ORDER") and sql.is_word(i + 1, "BY") and sql.is_word(i + 2, "ALL")


def _n_columns(sql: SqlText, region: Region, end: int, columns_of: ColumnsOf) -> int:
    """How many columns the query has whose ORDER BY stands at token `end`."""
    for start, stop in selects(sql, region):
        begin = start + 1 + sql.is_word(start + 1, "DISTINCT", "ALL")
        if sql.is_word(begin, "ON"):
            begin = sql.partner.get(begin + 1, begin) + 1
        first = next((i for i in sql.level(begin, stop) if sql.is_word(i, *CLAUSES)), stop)
        listed = list(items(sql, begin, first))
        if not any(_has_star(sql, a, b) for a, b in listed):
            return len(listed)
        break
    return len(columns_of(with_visible(sql, region.main, sql.slice(region.main, end))))


def _has_star(sql: SqlText, a: int, b: int) -> bool:
    """Whether a select item is a star, of all tables or one, perhaps without some columns."""
    return any(sql.is_sign(i, "*") and (i == a or sql.is_sign(i - 1, ".")) for i in sql.level(a, b))
