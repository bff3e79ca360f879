"""IN (subquery) written so that its being unknown is not lost.

DataFusion makes a mark join of an IN beside OR or inside another expression, and marks are true or false; a NOT IN with
a correlated subquery it makes an anti join that nulls decide otherwise. EXISTS is never unknown, so three of them say
what IN is: whether there is a match, whether there is a row at all, and whether there is a null.
"""

from __future__ import annotations

from qcore.errors import PlanError
from qcore.frontends.text.clauses import CLAUSES, items, selects
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, SqlText
from qcore.functions.aggregates import is_aggregate

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
    while (changed := _without_first(SqlText.read(text), number)) is not None:
        text = changed
        number += 1
    return text


def with_rows_as_exists(text: str) -> str:
    """The text with every (a, b, …) [NOT] IN (subquery), and = ANY or <> ALL, in terms of EXISTS, for the planner takes
    one column only.

    Where it is a condition of its own, joined to others by AND, null and false are the same, and one EXISTS does.

    Raises
    ------
    PlanError
        A row of one value, or of none.
    """
    number = 0
    while (changed := _without_rows(SqlText.read(text), number)) is not None:
        text = changed
        number += 1
    return text


def with_counts_for_exists(text: str) -> str:
    """The text with every EXISTS (subquery) in a select list as a comparison of the number of rows: DataFusion
    decorrelates EXISTS among conditions only. What the subquery aggregates, groups or limits is left as it is.
    """
    while (changed := _counted(SqlText.read(text))) is not None:
        text = changed
    return text


def _counted(sql: SqlText) -> str | None:
    if not sql.places("EXISTS"):
        return None
    for region in sql.regions:
        for start, end in selects(sql, region):
            stop = next((i for i in sql.level(start + 1, end) if sql.is_word(i, *CLAUSES)), end)
            for i in range(start, stop):
                if not sql.is_word(i, "EXISTS") or not sql.is_word(i + 2, "SELECT"):
                    continue
                close = sql.partner[i + 1]
                inner = list(sql.level(i + 2, close))
                begin = next((j for j in inner if sql.is_word(j, "FROM")), close)
                changing = ("GROUP", "HAVING", "QUALIFY", *TAIL, *SET_OPERATORS)
                if (
                    sql.enclosing(i)[-1] == region
                    and not any(_is_aggregate(sql, j) for j in range(i + 3, begin))
                    and not any(sql.is_word(j, *changing) for j in inner)
                    and begin < close
                ):
                    return sql.replaced(i, close + 1, f"(SELECT count(*) > 0 {sql.slice(begin, close)})")
    return None


def _is_aggregate(sql: SqlText, i: int) -> bool:
    """Whether an aggregate is called at a token: without GROUP BY it gives a row for no rows."""
    return sql.is_sign(i + 1, "(") and sql.tokens[i].kind == "word" and is_aggregate(sql.tokens[i].text.lower())


def _without_rows(sql: SqlText, number: int) -> str | None:
    for i in sorted([*sql.places("IN"), *sql.places("ANY"), *sql.places("SOME"), *sql.places("ALL")]):
        if not (sql.is_sign(i + 1, "(") and sql.is_word(i + 2, "SELECT", "WITH", "VALUES")):
            continue
        negated, end = _asked(sql, i)
        if end is None or not sql.is_sign(end - 1, ")") or end - 1 not in sql.partner:
            continue
        opened = sql.partner[end - 1]
        start = opened - sql.is_word(opened - 1, "ROW", "STRUCT")
        if sql.tokens[start - 1].kind in ("word", "quoted") and not sql.is_word(start - 1, *_BEFORE):
            continue  # a function's call
        values = [sql.slice(a, b) for a, b in items(sql, opened + 1, end - 1)]
        if len(values) < 2 or _gives_one(sql, i + 2):
            continue
        close = sql.partner[i + 1] + 1
        alias = f"$rows{number}"
        columns = [f'"$value{k}"' for k in range(len(values))]
        of_rows = f'(SELECT 1 FROM {sql.slice(i + 1, close)} AS "{alias}"({", ".join(columns)})'
        pairs = [(f'"{alias}".{column}', value) for column, value in zip(columns, values, strict=True)]
        same = " AND ".join(f"{found} = {value}" for found, value in pairs)
        maybe = " AND ".join(f"({found} = {value} OR {found} IS NULL OR {value} IS NULL)" for found, value in pairs)
        if _is_condition(sql, start, close):
            made = f"NOT EXISTS {of_rows} WHERE {maybe})" if negated else f"EXISTS {of_rows} WHERE {same})"
        else:
            made = (
                f"(CASE WHEN EXISTS {of_rows} WHERE {same}) THEN TRUE "
                f"WHEN EXISTS {of_rows} WHERE {maybe}) THEN {_UNKNOWN} ELSE FALSE END)"
            )
            made = f"(NOT {made})" if negated else made
        return sql.replaced(start, close, made)
    return None


def _asked(sql: SqlText, i: int) -> tuple[bool, int | None]:
    """Of IN, = ANY or <> ALL, whether it is NOT IN, and where what it looks up ends; None for other comparisons."""
    if sql.is_word(i, "IN"):
        negated = sql.is_word(i - 1, "NOT")
        return negated, i - negated
    if sql.is_word(i, "ALL"):
        differs = sql.slice(i - 2, i) in ("<>", "!=")
        return True, i - 2 if differs else None
    is_equal = sql.is_sign(i - 1, "=") and not (sql.tokens[i - 2].kind == "sign" and sql.tokens[i - 2].text in "<>!=")
    return False, i - 1 if is_equal else None


def _gives_one(sql: SqlText, start: int) -> bool:
    """Whether the query at a token gives one column for certain, which may be a row."""
    region = next(region for region in sql.regions if region.start == start)
    begin, end = next(selects(sql, region), (start, start))
    first = begin + 1 + sql.is_word(begin + 1, "DISTINCT", "ALL")
    stop = next((i for i in sql.level(first, end) if sql.is_word(i, *CLAUSES)), end)
    listed = list(items(sql, first, stop))
    return begin < end and len(listed) == 1 and not any(sql.is_sign(i, "*") for i in range(*listed[0]))


def _is_condition(sql: SqlText, start: int, end: int) -> bool:
    """Whether tokens start to end are one of the conditions that a WHERE, HAVING or QUALIFY joins by AND."""
    region = sql.enclosing(start)[-1]
    level = list(sql.level(region.start, region.end))
    clauses = [i for i in level if sql.is_word(i, *CLAUSES, *TAIL, *SET_OPERATORS)]
    begin = max((i for i in clauses if i < start), default=-1)
    until = min((i for i in clauses if i >= end), default=region.end)
    within = [i for i in level if begin < i < until]
    joined = (sql.is_word(start - 1, "AND") or start - 1 == begin) and (end == until or sql.is_word(end, "AND"))
    is_clause = sql.is_word(begin, "WHERE", "HAVING", "QUALIFY")
    return is_clause and joined and start in level and not any(sql.is_word(i, "OR", "CASE", "BETWEEN") for i in within)


def _without_first(sql: SqlText, number: int) -> str | None:
    for i in sql.places("IN"):
        if sql.is_sign(i + 1, "(") and sql.is_word(i + 2, "SELECT", "WITH", "VALUES"):
            negated = sql.is_word(i - 1, "NOT")
            end = i - 1 if negated else i
            start = operand(sql, end)
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


def operand(sql: SqlText, end: int) -> int:
    """The first token of the expression that ends before token `end`. PlanError where it cannot be told."""
    at = end
    while at > 0:
        before = at - 1
        token = sql.tokens[before]
        if token.kind == "sign" and token.text in ")]":
            at = sql.partner[before]
            continue
        if sql.is_word(before, "END"):
            begun = sql.case_of(before)
            if begun is None:
                raise PlanError("END without CASE before IN (subquery)")
            at = begun
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
