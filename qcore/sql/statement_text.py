"""The tokens of one statement, for statements that sqlglot does not parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from qcore.errors import PlanError
from qcore.functions.dialect import Dialect
from qcore.sql.parse import locate_message, tokens_of

_FIRST_WORD = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]+)?", re.DOTALL)


def first_word(text: str) -> tuple[str, str]:
    """The first word of a statement in upper case, empty if there is none, and the text after it."""
    found = _FIRST_WORD.match(text)
    if found is None or not found.group(1):
        return "", text
    return found.group(1).upper(), text[found.end() :]


def at_first_word(error: PlanError, text: str) -> PlanError:
    """An error about a statement, with the position of its first word unless it already has a position."""
    found = _FIRST_WORD.match(text)
    if found is None or not found.group(1) or str(error).endswith("^"):
        return error
    return PlanError(locate_message(str(error), text, found.start(1), found.end(1) - 1))


def sign_of(token: Any) -> str:
    """A token's text; empty for a text literal and a quoted name, which are neither signs nor words."""
    return "" if token.token_type.name in ("STRING", "IDENTIFIER") else str(token.text)


class StatementText:
    """The text of one statement. Positions are numbers of tokens; `end` is after the last one.

    Position 0 is that of the first word. The text does not contain this word, because after some words sqlglot makes
    one token of the rest.
    """

    def __init__(self, word: str, text: str, dialect: Dialect) -> None:
        self.word = word
        self.text = text
        self.dialect = dialect
        tokens = tokens_of(text, dialect)
        self.tokens: list[Any] = [None, *(token for token in tokens if sign_of(token) != ";")]
        self.end = len(self.tokens)

    def is_word(self, at: int, *words: str) -> bool:
        return at < self.end and sign_of(self.tokens[at]).upper() in words

    def is_name(self, at: int) -> bool:
        if at >= self.end:
            return False
        token = self.tokens[at]
        return token.token_type.name == "IDENTIFIER" or re.fullmatch(r"[^\W\d]\w*", sign_of(token)) is not None

    def name(self, at: int) -> str:
        """A name, in lower case without quotes."""
        token = self.tokens[at]
        return str(token.text) if token.token_type.name == "IDENTIFIER" else str(token.text).lower()

    def slice(self, start: int, end: int) -> str:
        return self.text[self.tokens[start].start : self.tokens[end - 1].end + 1]

    def close(self, at: int) -> int:
        """The bracket that closes the one at a token."""
        depth = 0
        for i in range(at, self.end):
            depth += {"(": 1, ")": -1}.get(sign_of(self.tokens[i]), 0)
            if depth == 0:
                return i
        raise PlanError("a bracket is not closed")

    def level(self, start: int, end: int) -> Iterator[int]:
        """The tokens outside of brackets."""
        depth = 0
        for i in range(start, end):
            sign = sign_of(self.tokens[i])
            depth -= sign in (")", "]", "}")
            if depth == 0:
                yield i
            depth += sign in ("(", "[", "{")

    def items(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts between commas."""
        first = start
        for i in self.level(start, end):
            if sign_of(self.tokens[i]) == ",":
                yield first, i
                first = i + 1
        if first < end:
            yield first, end

    def query(self, start: int, usage: str) -> str:
        if start >= self.end:
            raise PlanError(f"the statement ends too early; the syntax is {usage}")
        return self.slice(start, self.end)
