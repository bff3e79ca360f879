"""Brackets around expressions that sqlglot misreads without them: array(…)[1], PIVOT … ORDER BY, DATE 'x'::text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

# sqlglot reads subscripts after calls of these functions as the elements of a new list.
_CONSTRUCTORS = frozenset({"ARRAY", "LIST"})
_TAIL = frozenset({"ORDER BY", "LIMIT", "OFFSET", "FETCH"})
_OPERATORS = frozenset({"+", "-", "*", "/", "//", "%", "||", "::", "^", "**"})
_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "PIVOT", "UNPIVOT"})


def with_brackets(tokens: list[Any]) -> list[Any]:
    """Rewrite array(…)[1] to (array(…))[1], PIVOT … ORDER BY to FROM (PIVOT …) ORDER BY, and DATE 'x'::text to
    (DATE 'x')::text, which sqlglot reads as DATE ('x'::text).
    """
    kinds: Any = import_module("sqlglot.tokens").TokenType
    subscripts = [
        n for n in range(1, len(tokens))
        if tokens[n].token_type == kinds.L_BRACKET and tokens[n - 1].token_type == kinds.R_PAREN
    ]  # fmt: skip
    pivots = [n for n, token in enumerate(tokens) if token.token_type in (kinds.PIVOT, kinds.UNPIVOT)]
    casts = [n - 1 for n in range(2, len(tokens)) if tokens[n].token_type == kinds.DCOLON]
    literals = [n for n in casts if tokens[n].token_type == kinds.STRING]
    if not subscripts and not pivots and not literals:
        return tokens
    partners = _partners(tokens)
    before: dict[int, list[Any]] = {}
    after: dict[int, list[Any]] = {}
    for n in subscripts:
        opening = partners.get(n - 1, 0)
        if opening > 0 and tokens[opening - 1].text.upper() in _CONSTRUCTORS:
            before.setdefault(opening - 1, []).append(_insert_token(kinds.L_PAREN, "(", tokens[opening - 1].start))
            after.setdefault(n - 1, []).append(_insert_token(kinds.R_PAREN, ")", tokens[n - 1].end + 1))
    for n in literals:
        begin = _type_before(tokens, n, partners)
        if begin is not None:
            before.setdefault(begin, []).append(_insert_token(kinds.L_PAREN, "(", tokens[begin].start))
            after.setdefault(n, []).append(_insert_token(kinds.R_PAREN, ")", tokens[n].end + 1))
    for n in pivots:
        if not _is_statement(tokens, n, partners):
            continue
        for begin, stop in _computed_elements(tokens, n, partners):
            before.setdefault(begin, []).append(_insert_token(kinds.L_PAREN, "(", tokens[begin].start))
            after.setdefault(stop - 1, []).insert(0, _insert_token(kinds.R_PAREN, ")", tokens[stop - 1].end + 1))
        end = _tail(tokens, n, partners)
        if end is not None:
            start = tokens[n].start
            before.setdefault(n, []).extend(
                [_insert_token(kinds.FROM, "FROM", start), _insert_token(kinds.L_PAREN, "(", start)]
            )
            after.setdefault(end - 1, []).append(_insert_token(kinds.R_PAREN, ")", tokens[end - 1].end + 1))
    result: list[Any] = []
    for n, token in enumerate(tokens):
        result += [*before.get(n, ()), token, *after.get(n, ())]
    return result


@cache
def _types() -> frozenset[Any]:
    """The kinds of tokens that begin a type."""
    return frozenset(import_module("sqlglot.parser").Parser.TYPE_TOKENS)


def _type_before(tokens: Sequence[Any], n: int, partners: dict[int, int]) -> int | None:
    """The position of the type before the text at a position: DATE '2020-01-01'. None if no type is there."""
    at = n - 1
    if tokens[at].token_type.name == "R_PAREN":  # DECIMAL(3, 1) '1.5'
        at = partners.get(at, 0) - 1
    elif at >= 3 and tokens[at].text.upper() == "ZONE" and tokens[at - 2].text.upper() in ("WITH", "WITHOUT"):
        at -= 3
    return at if at >= 0 and tokens[at].token_type in _types() else None


def _insert_token(kind: Any, text: str, at: int) -> Any:
    """A token that is not in the text."""
    make: Any = import_module("sqlglot.tokens").Token
    return make(kind, text, 1, 1, at, at - 1)


def _partners(tokens: Sequence[Any]) -> dict[int, int]:
    """The positions of round brackets, each with the position of the matching bracket."""
    result, opened = {}, []
    for n, token in enumerate(tokens):
        if token.text == "(" and token.token_type.name == "L_PAREN":
            opened.append(n)
        elif token.token_type.name == "R_PAREN" and opened:
            begin = opened.pop()
            result[begin], result[n] = n, begin
    return result


def _is_statement(tokens: Sequence[Any], n: int, partners: dict[int, int]) -> bool:
    """Whether PIVOT begins a query. Otherwise it follows a table."""
    before = tokens[n - 1].text.upper() if n > 0 else ";"
    if before not in ("(", ";", "AS", ")") or n + 1 >= len(tokens):
        return False
    following = tokens[n + 1]
    if following.text == "(":
        return tokens[n + 2].text.upper() in _QUERY_WORDS if n + 1 in partners else False
    return before != ")" or following.text.upper() not in ("INCLUDE", "EXCLUDE")


def _computed_elements(tokens: Sequence[Any], n: int, partners: dict[int, int]) -> list[tuple[int, int]]:
    """The elements of USING that are not single calls, as (first token, end). The parser accepts only single calls."""
    level = list(_level(tokens, n, partners))
    start = next((i for i in level if tokens[i].text.upper() == "USING"), None)
    result: list[tuple[int, int]] = []
    begin, is_computed = None, False
    for i in [*(i for i in level if start is not None and i > start), None]:
        word = "" if i is None else tokens[i].text.upper()
        if i is None or word in (",", "AS", "GROUP BY") or word in _TAIL:
            if begin is not None and is_computed:
                result.append((begin, i if i is not None else partners.get(level[-1], level[-1]) + 1))
            begin, is_computed = None, False
            if i is None or word in _TAIL or word == "GROUP BY":
                break
            continue
        if begin is None and tokens[i - 1].text.upper() != "AS":
            begin = i
        is_computed |= word in _OPERATORS
    return result


def _level(tokens: Sequence[Any], n: int, partners: dict[int, int]) -> Iterator[int]:
    """The positions of a statement's tokens outside its brackets."""
    while n < len(tokens) and tokens[n].text not in (")", ";"):
        yield n
        n = partners.get(n, n) + 1


def _tail(tokens: Sequence[Any], n: int, partners: dict[int, int]) -> int | None:
    """The position of ORDER BY, LIMIT … after a PIVOT; None if there is none."""
    return next((i for i in _level(tokens, n, partners) if _is_tail(tokens[i])), None)


def _is_tail(token: Any) -> bool:
    return token.text.upper() in _TAIL and token.token_type.name not in ("STRING", "IDENTIFIER")
