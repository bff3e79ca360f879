"""Where an operand begins and ends among the tokens of an expression."""

from __future__ import annotations

from qcore.frontends.text.clauses import UNITS
from qcore.frontends.text.tokens import SqlText

# What a bracket may stand behind that is no function's name.
BEFORE_ROWS = (
    "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "SELECT", "WHEN", "THEN", "ELSE", "BY", "DISTINCT", "QUALIFY",
    "IN", "AS", "FROM", "BETWEEN", "LIKE", "ILIKE", "IS",
)  # fmt: skip
TYPED = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL")
# What ends a value that a binary operator may follow.
_ENDS_VALUE = frozenset(")]}")
_NO_VALUE = frozenset(
    {*BEFORE_ROWS, "CASE", "LIMIT", "OFFSET", "VALUES", "ALL", "ANY", "SOME", "SIMILAR", "TO", "ESCAPE", "SET", "USING"}
)


def is_name(sql: SqlText, i: int) -> bool:
    """Whether token i may be the name of a function."""
    return sql.tokens[i].kind == "quoted" or (sql.tokens[i].kind == "word" and not sql.is_word(i, *BEFORE_ROWS))


def ends_value(sql: SqlText, i: int) -> bool:
    """Whether token i may end a value, so that a sign behind it takes two."""
    if i < 0:
        return False
    token = sql.tokens[i]
    if token.kind == "word":
        return token.text not in _NO_VALUE
    return token.kind in ("string", "quoted", "number") or (token.kind == "sign" and token.text in _ENDS_VALUE)


def begins_value(sql: SqlText, i: int) -> bool:
    """Whether token i may begin a value."""
    if i >= len(sql.tokens):
        return False
    token = sql.tokens[i]
    if token.kind == "word":
        return token.text not in _NO_VALUE or token.text == "CASE"
    return token.kind != "sign" or token.text in "([{+-~."


def operand_start(sql: SqlText, end: int) -> int:
    """The first token of the operand that ends before token `end`, of an operator that binds as tightly as a cast."""
    at = end - 1
    if sql.tokens[at].kind == "string" and sql.is_word(at - 1, "ZONE") and sql.is_word(at - 3, "AT"):
        return operand_start(sql, at - 3)
    if sql.is_word(at, "ZONE") or (sql.tokens[at].kind == "string" and sql.is_word(at - 1, "ZONE")):
        # timestamp with time zone, behind :: or before text.
        at -= 3 + (sql.tokens[at].kind == "string")
    elif sql.is_word(at, *UNITS) and sql.is_word(at - 2, "INTERVAL"):
        at -= 2
    elif sql.tokens[at].kind == "string" and sql.is_word(at - 1, *TYPED):
        at -= 1
    elif sql.is_word(at, "END"):
        begun = sql.case_of(at)
        at = at if begun is None else begun
    elif sql.is_word(at - 1, "OVER"):
        return operand_start(sql, at - 1)
    elif sql.is_sign(at, ")") or sql.is_sign(at, "]") or sql.is_sign(at, "}"):
        is_call = sql.is_sign(at, ")")
        at = sql.partner.get(at, at)
        if sql.is_sign(at, "[") and at > 0 and ends_value(sql, at - 1):
            return operand_start(sql, at)
        if is_call and sql.is_word(at - 1, "OVER", "FILTER"):
            return operand_start(sql, at - 1)
        if is_call and sql.is_word(at - 1, "GROUP") and sql.is_word(at - 2, "WITHIN"):
            return operand_start(sql, at - 2)
        if is_call and at > 0 and is_name(sql, at - 1):
            at -= 1
    while sql.is_sign(at - 1, ".") and at > 1:
        at -= 2
    if sql.is_sign(at - 1, ":") and sql.is_sign(at - 2, ":"):
        return operand_start(sql, at - 2)
    return at


def operand_end(sql: SqlText, start: int) -> int:
    """Behind the last token of the operand that begins at token `start`, signs before it included."""
    n, at = len(sql.tokens), start
    while at < n and any(sql.is_sign(at, sign) for sign in "+-~"):
        at += 1
    if at >= n:
        return n
    if sql.is_sign(at, ".") or (sql.is_word(at, *TYPED) and sql.tokens[min(at + 1, n - 1)].kind == "string"):
        at += 2
    elif sql.is_word(at, "CASE"):
        depth = 0
        while at < n:
            depth += sql.is_word(at, "CASE") - sql.is_word(at, "END")
            at += 1
            if depth == 0:
                break
    elif sql.partner.get(at, -1) > at:
        at = sql.partner[at] + 1
    else:
        at += 1
    return _behind_postfixes(sql, at)


def _behind_postfixes(sql: SqlText, at: int) -> int:
    """Behind calls, fields, elements, casts and what goes with an aggregate."""
    while at < len(sql.tokens):
        is_call = sql.is_sign(at, "(") and is_name(sql, at - 1)
        if is_call or sql.is_sign(at, "["):
            at = sql.partner[at] + 1
        elif sql.is_sign(at, ".") or (sql.is_word(at, "OVER") and not sql.is_sign(at + 1, "(")):
            at += 2
        elif sql.is_sign(at, ":") and sql.is_sign(at + 1, ":"):
            at += 3
        elif sql.is_word(at, "OVER", "FILTER") and sql.is_sign(at + 1, "("):
            at = sql.partner[at + 1] + 1
        elif sql.is_word(at, "WITHIN") and sql.is_word(at + 1, "GROUP") and sql.is_sign(at + 2, "("):
            at = sql.partner[at + 2] + 1
        else:
            break
    return min(at, len(sql.tokens))
