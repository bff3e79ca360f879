"""ARRAY(subquery) written as an aggregate of its rows.

The list has the rows in the order that the subquery asks for, which an aggregate of a table in FROM need not keep: the
rows are numbered by it. A list of no rows is empty, where array_agg would be null.
"""

from __future__ import annotations

from qcore.errors import PlanError
from qcore.frontends.text.clauses import begins_clause, items, named, operands
from qcore.frontends.text.scopes import is_query
from qcore.frontends.text.tokens import Region, SqlText

_LIMITS = ("LIMIT", "OFFSET", "FETCH")


def with_arrays_aggregated(text: str) -> str:
    """The text with every ARRAY(subquery) as a scalar subquery.

    Raises
    ------
    PlanError
        The subquery gives several columns, or is ordered by something that its rows do not show.
    """
    while (changed := _changed(SqlText.read(text))) is not None:
        text = changed
    return text


def _changed(sql: SqlText) -> str | None:
    for i in reversed(sql.places("ARRAY")):
        at = i + 1
        while sql.is_sign(at + 1, "(") and sql.partner[at + 1] == sql.partner[at] - 1:
            at += 1
        query = next((region for region in sql.regions if region.start == at + 1 and sql.is_sign(at, "(")), None)
        if query is not None and is_query(sql, query):
            rows, order = _rows(sql, query)
            value = f'array_agg("$value"{order})'
            made = f"(SELECT CASE WHEN count(*) = 0 THEN make_array() ELSE {value} END FROM {rows})"
            return sql.replaced(i, sql.partner[i + 1] + 1, made)
    return None


def _rows(sql: SqlText, query: Region) -> tuple[str, str]:
    """The rows as a table, and the ORDER BY of their aggregate."""
    order = next((i for i in sql.level(query.main, query.end) if sql.is_word(i, "ORDER")), None)
    if order is None:
        return f'({sql.slice(query.start, query.end)}) AS "$array"("$value")', ""
    until = next((i for i in sql.level(order, query.end) if sql.is_word(i, *_LIMITS)), query.end)
    keys = [_key(sql, a, b) for a, b in items(sql, order + 2, until)]
    parts = list(operands(sql, query))
    start = parts[0][0]
    is_distinct = sql.is_word(start + 1, "DISTINCT")
    first = start + 1 + (is_distinct or sql.is_word(start + 1, "ALL"))
    end = next((i for i in sql.level(first, order) if begins_clause(sql, i)), order)
    if not sql.is_word(start, "SELECT"):
        value, name = "", ""
    elif len(list(items(sql, first, end))) > 1 or sql.is_word(first, "ON"):
        raise PlanError("ARRAY(subquery) takes a subquery of one column; make a row of several: row(a, b)")
    else:
        at, name = named(sql, first, end)
        value = sql.slice(first, at)
    itself = {"1", value, name, f'"{name}"'}
    if len(parts) > 1 or is_distinct or not value or sql.is_sign(end - 1, "*"):
        if len(keys) > 1 or keys[0][0] not in itself:
            raise PlanError("ARRAY(subquery) is ordered by its column, here; write its place, ORDER BY 1")
        rows = f'({sql.slice(query.start, query.end)}) AS "$array"("$value")'
        return rows, f' ORDER BY "$value" {keys[0][1]}'
    by = ", ".join(f"{value if key in itself else key} {how}" for key, how in keys)
    number = f'row_number() OVER (ORDER BY {by}) AS "$number"'
    text = f'{sql.slice(query.start, first)} {value} AS "$value", {number} {sql.slice(end, order)}'
    limited = f" ORDER BY {by} {sql.slice(until, query.end)}" if until < query.end else ""
    return f'({text}{limited}) AS "$array"', ' ORDER BY "$number"'


def _key(sql: SqlText, a: int, b: int) -> tuple[str, str]:
    """A key of an ORDER BY, and how it orders: ASC or DESC, NULLS FIRST or LAST."""
    end = b - 2 * sql.is_word(b - 2, "NULLS")
    end -= sql.is_word(end - 1, "ASC", "DESC")
    return sql.slice(a, end), sql.slice(end, b)
