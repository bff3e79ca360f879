"""Operators that DataFusion's parser reads otherwise than the standard, and spellings it does not know."""

from __future__ import annotations

from qcore.frontends.text.clauses import CLAUSES, JOINS, named, read_alias, selects
from qcore.frontends.text.operands import ends_value, operand_end, operand_start
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, SqlText

# What an operand of IS DISTINCT FROM cannot go beyond: to the left, and to the right.
_BEFORE = frozenset({
    "AND", "OR", "NOT", "WHERE", "ON", "HAVING", "SELECT", "WHEN", "THEN", "ELSE", "BY", "DISTINCT", "ALL", "QUALIFY",
    "CASE",
})  # fmt: skip
_BEHIND = CLAUSES | SET_OPERATORS | TAIL | (JOINS - {"LEFT", "RIGHT"}) | {
    "AND", "OR", "THEN", "ELSE", "WHEN", "END", "IS", "AS", "ASC", "DESC", "NULLS",
}  # fmt: skip
_SIDES = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_OPENED, _CLOSED = frozenset("([{,;"), frozenset(")]},;")
_SERIES = ("RANGE", "GENERATE_SERIES")


def with_known_operators(text: str) -> str:
    """The text with IS DISTINCT FROM in brackets, TRIM(FROM x) as TRIM(x), x IN list as a comparison with ANY, slices
    with both bounds, fields of values in brackets, and range() among the tables as UNNEST of it.
    """
    text = _with_distinct_in_brackets(text)
    while (changed := _changed(SqlText.read(text))) is not None:
        text = changed
    return text


def _changed(sql: SqlText) -> str | None:
    is_there = sql.places("TRIM") or sql.places("IN") or sql.signs("[") or sql.signs(".")
    changed = _with_known_values(sql) if is_there else None
    if changed is not None:
        return changed
    if sql.words.isdisjoint(_SERIES):
        return None
    for region in sql.regions:
        for start, end in selects(sql, region):
            changed = _series_as_table(sql, start, end)
            if changed is not None:
                return changed
    return None


def _with_known_values(sql: SqlText) -> str | None:
    places = [*sql.places("TRIM"), *sql.places("IN"), *sql.signs("["), *sql.signs(".")]
    for i in sorted(places):
        if sql.is_word(i, "TRIM") and sql.is_sign(i + 1, "("):
            side = sql.is_word(i + 2, *_SIDES)
            if sql.is_word(i + 2 + side, "FROM"):
                name = _SIDES[sql.tokens[i + 2].text] if side else "btrim"
                return sql.replaced(i, i + 3 + side, f"{name}(")
        if sql.is_sign(i, "[") and sql.partner[i] < len(sql.tokens):
            changed = _with_both_bounds(sql, i, sql.partner[i]) or _element_of_aggregate(sql, i, sql.partner[i])
            if changed is not None:
                return changed
        behind_value = sql.is_sign(i, ".") and any(sql.is_sign(i - 1, sign) for sign in ")]}")
        is_name = behind_value and i + 1 < len(sql.tokens) and sql.tokens[i + 1].kind in ("word", "quoted")
        if is_name and not sql.is_sign(i + 2, "("):
            # The parser takes fields of columns by a dot, and those of other values only in brackets.
            name = sql.name(i + 1).replace("'", "''")
            return f"{sql.text[: sql.tokens[i].start]}['{name}']{sql.text[sql.tokens[i + 1].end :]}"
        is_name_or_list = i + 1 < len(sql.tokens) and (
            sql.is_sign(i + 1, "[") or sql.tokens[i + 1].kind in ("word", "quoted")
        )
        if sql.is_word(i, "IN") and is_name_or_list and ends_value(sql, i - 1 - sql.is_word(i - 1, "NOT")):
            end = operand_end(sql, i + 1)
            negated = sql.is_word(i - 1, "NOT")
            anyhow = "<> ALL" if negated else "= ANY"
            return sql.replaced(i - negated, end, f"{anyhow}({sql.slice(i + 1, end)})")
    return None


def _with_both_bounds(sql: SqlText, opens: int, closes: int) -> str | None:
    """The text with a slice's missing bounds written out."""
    if sql.is_sign(opens + 1, ":") and opens + 2 == closes:
        return sql.replaced(opens, closes + 1, "[1:-1]")
    if sql.is_sign(opens + 1, ":") and opens + 2 < closes:
        return sql.replaced(opens, opens + 1, "[1")
    if sql.is_sign(closes - 1, ":") and opens + 2 < closes:
        return sql.replaced(closes, closes + 1, "-1]")
    return None


def _element_of_aggregate(sql: SqlText, opens: int, closes: int) -> str | None:
    """array_agg(…)[n] as the first of the slice [n:n], but of the first and the last: the planner would make another
    aggregate of it.
    """
    index = sql.slice(opens + 1, closes)
    if index in ("", "1", "-1") or not ends_value(sql, opens - 1):
        return None
    start = operand_start(sql, opens)
    while sql.is_sign(start, "("):
        start += 1
    is_aggregate = sql.is_word(start, "ARRAY_AGG") and sql.is_sign(start + 1, "(")
    if not is_aggregate or any(sql.is_sign(i, ":") for i in sql.level(opens + 1, closes)):
        return None
    return sql.replaced(opens, closes + 1, f"[{index}:{index}][1]")


# --- IS [NOT] DISTINCT FROM: the parser takes all that follows, AND and OR too, for its right side ---


def _with_distinct_in_brackets(text: str) -> str:
    done: set[int] = set()
    while True:
        sql = SqlText.read(text)
        found = [i for i in sql.places("IS") if _compares(sql, i)]
        # Innermost last: the brackets put in move those behind them.
        following = next((i for n, i in enumerate(found) if n not in done), None)
        if following is None:
            return text
        done.add(found.index(following))
        start = _left(sql, following)
        end = _right(sql, following + (4 if sql.is_word(following + 1, "NOT") else 3))
        text = sql.replaced(start, end, f"({sql.slice(start, end)})")


def _compares(sql: SqlText, i: int) -> bool:
    at = i + 1 + sql.is_word(i + 1, "NOT")
    return sql.is_word(i, "IS") and sql.is_word(at, "DISTINCT") and sql.is_word(at + 1, "FROM")


def _left(sql: SqlText, end: int) -> int:
    """The first token of the operand that ends before token `end`."""
    at = end
    while at > 0:
        before = at - 1
        token = sql.tokens[before]
        if token.kind == "sign" and token.text in ")]}":
            at = sql.partner.get(before, before)
        elif sql.is_word(before, "END"):
            begun = sql.case_of(before)
            at = before if begun is None else begun
        elif token.kind == "sign" and token.text in _OPENED:
            break
        elif sql.is_word(before, "AND") and _is_of_between(sql, before):
            at = before
        elif token.kind == "word" and token.text in _BEFORE:
            break
        else:
            at = before
    return at


def _is_of_between(sql: SqlText, position: int) -> bool:
    """Whether the AND at this token is that of a BETWEEN."""
    at = position - 1
    while at >= 0 and not sql.is_word(at, *_BEFORE):
        if sql.tokens[at].text in _OPENED and sql.tokens[at].kind == "sign":
            return False
        if sql.is_word(at, "BETWEEN"):
            return True
        at = sql.partner.get(at, at) - 1
    return False


def _right(sql: SqlText, start: int) -> int:
    """Where the operand that begins at token `start` ends; a column's alias behind it is left out."""
    at = start
    while at < len(sql.tokens):
        token = sql.tokens[at]
        if token.kind == "sign" and token.text in _CLOSED:
            break
        if sql.is_word(at, "CASE"):
            at = _end_of_case(sql, at)
            continue
        if sql.is_word(at, *_BEHIND) or (sql.is_word(at, "LEFT", "RIGHT") and not sql.is_sign(at + 1, "(")):
            break
        at = sql.partner[at] + 1 if at in sql.partner else at + 1
    if at - start > 1 and not sql.is_word(at - 3, "INTERVAL"):
        at, _ = named(sql, start, at)
    return at


def _end_of_case(sql: SqlText, start: int) -> int:
    depth = 0
    for i in range(start, len(sql.tokens)):
        depth += sql.is_word(i, "CASE") - sql.is_word(i, "END")
        if depth == 0:
            return i + 1
    return len(sql.tokens)


# --- range() among the tables ---


def _series_as_table(sql: SqlText, start: int, end: int) -> str | None:
    clauses = [i for i in sql.level(start + 1, end) if sql.is_word(i, *CLAUSES)]
    begin = next((i for i in clauses if sql.is_word(i, "FROM")), end)
    until = next((i for i in clauses if i > begin), end)
    for i in sql.level(begin + 1, until):
        is_table = sql.is_word(i - 1, "FROM", "JOIN") or sql.is_sign(i - 1, ",")
        if is_table and sql.is_word(i, *_SERIES) and sql.is_sign(i + 1, "("):
            close = sql.partner[i + 1] + 1
            after, alias, columns = read_alias(sql, close, until)
            name = sql.tokens[i].text.lower()
            table = f'"{alias or name}"({", ".join(columns) or name})'
            made = f"UNNEST({sql.slice(i, close)}) AS {table}"
            if sql.is_word(i - 1, "JOIN") and not sql.is_word(i - 2, "CROSS"):
                made = f'(SELECT * FROM {made}) AS "{alias or name}"'
            return sql.replaced(i, after if alias else close, made)
    return None
