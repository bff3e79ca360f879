"""IN (subquery) written so that its being unknown is not lost. Floor P2.

DataFusion makes a mark join of an IN beside OR or inside another expression, and marks are true or false; a NOT IN with
a correlated subquery it makes an anti join that nulls decide otherwise. EXISTS is never unknown, so three of them say
what IN is: whether there is a match, whether there is a row at all, and whether there is a null.
"""

from __future__ import annotations

from qcore.frontends.sql_text import SqlText
from qcore_ext.ground.status import PlanError

# What an expression before IN cannot go beyond, and words that are part of it.
_BEFORE = frozenset({
    "AND", "OR", "NOT", "WHERE", "ON", "HAVING", "SELECT", "WHEN", "THEN", "ELSE", "BY", "DISTINCT", "QUALIFY",
    "FILTER", "CASE", "IN",
})  # fmt: skip
_REFUSED = frozenset({"IS", "LIKE", "ILIKE", "BETWEEN", "SIMILAR", "EXISTS", "ANY", "ALL", "SOME"})
_COMPARISONS = frozenset("=<>!")
_UNKNOWN = "CAST(NULL AS BOOLEAN)"


def without_in_subqueries(text: str) -> str:
    """The text with every IN (subquery) in terms of EXISTS. PlanError where it does not see what stands before IN."""
    number = 0
    while (changed := _without_first(SqlText(text), number)) is not None:
        text = changed
        number += 1
    return text


def _without_first(sql: SqlText, number: int) -> str | None:
    for i in range(len(sql.tokens)):
        if sql.is_word(i, "IN") and sql.is_sign(i + 1, "(") and sql.is_word(i + 2, "SELECT", "WITH", "VALUES"):
            negated = sql.is_word(i - 1, "NOT")
            end = i - 1 if negated else i
            start = _operand(sql, end)
            made = _as_exists(sql.slice(start, end), sql.slice(i + 1, sql.partner[i + 1] + 1), f"$in{number}")
            return sql.replaced(start, sql.partner[i + 1] + 1, f"(NOT {made})" if negated else made)
    return None


def _as_exists(value: str, subquery: str, alias: str) -> str:
    of_rows = f'(SELECT 1 FROM {subquery} AS "{alias}"("$value")'
    found = f'"{alias}"."$value"'
    return (
        f"(CASE WHEN EXISTS {of_rows} WHERE {found} = {value}) THEN TRUE "
        f"WHEN {value} IS NULL AND EXISTS {of_rows}) THEN {_UNKNOWN} "
        f"WHEN EXISTS {of_rows} WHERE {found} IS NULL) THEN {_UNKNOWN} ELSE FALSE END)"
    )


def _operand(sql: SqlText, end: int) -> int:
    """The first token of the expression that ends before token `end`."""
    at = end
    while at > 0:
        before = at - 1
        token = sql.tokens[before]
        if token.kind == "sign" and token.text in ")]":
            at = sql.partner[before]
            continue
        if sql.is_word(before, "END"):
            at = _case(sql, before)
            continue
        if token.kind == "sign" and token.text in "(,;[":
            break
        if token.kind == "word" and token.text in _BEFORE:
            break
        if (token.kind == "word" and token.text in _REFUSED) or token.text in _COMPARISONS:
            raise PlanError(
                f"IN (subquery) behind {token.text} is not supported; put brackets around what is looked up"
            )
        at = before
    if at == end:
        raise PlanError("IN (subquery) without an expression before it")
    if (
        sql.is_sign(at, "(")
        and any(sql.is_sign(i, ",") for i in sql.level(at + 1, sql.partner[at]))
        and (sql.partner[at] == end - 1)
    ):
        raise PlanError("(several columns) IN (subquery) is not supported here; use EXISTS")
    return at


def _case(sql: SqlText, end: int) -> int:
    """The CASE of an END."""
    depth = 0
    for i in range(end, -1, -1):
        depth += sql.is_word(i, "END") - sql.is_word(i, "CASE")
        if depth == 0:
            return i
    raise PlanError("END without CASE before IN (subquery)")
