"""Where in a query's text, as it was written, a syntax error is.

The planner reads a text in which constructs are already written otherwise, and counts its lines and columns there: the
words around the place are looked for in the text that was given.
"""

from __future__ import annotations

import difflib
import re

from qcore.errors import PlanError
from qcore.frontends.text.tokens import SqlText, Token

_EXPECTED = re.compile(r"Expected: (.+?), found: (.+?)(?: at Line: (\d+), Column: (\d+))?\"?\)?$", re.DOTALL)
_PLACED = re.compile(r"(Unterminated \w+ literal|Expected close delimiter '.') ?.*?at Line: (\d+), Column: (\d+)")
_STATEMENTS = ("SELECT", "WITH", "VALUES", "FROM", "COPY", "EXPLAIN", "DESCRIBE", "SHOW", "CREATE", "DROP")
_NAMES = {"word", "quoted"}
# Tokens on either side by which a place is known again.
_AROUND = 4


class SyntaxFault(PlanError):
    """A syntax error at a token of the text that the planner read; None is its end."""

    def __init__(self, what: str, planned: SqlText, at: int | None) -> None:
        super().__init__(f"syntax error: {what}")
        self.what = what
        self.planned = planned
        self.at = at

    def located(self, text: str) -> PlanError:
        """The error with its place in the text as it was given."""
        if self.at is None:
            return PlanError(f"syntax error at the end of the query: {self.what}")
        written = SqlText.read(text)
        place = _same_place(self.planned, self.at, written)
        token = self.planned.tokens[self.at]
        found = self.planned.text[token.start : token.end]
        if place is None:
            return PlanError(f"syntax error at {found[:40]!r}: {self.what}")
        start = written.tokens[place].start
        found = text[start : written.tokens[place].end]
        line = text.count("\n", 0, start) + 1
        column = start - text.rfind("\n", 0, start)
        return PlanError(f"syntax error at {found[:40]!r}, line {line}, column {column}: {self.what}")


def syntax_fault(remark: str, planned: str) -> SyntaxFault | None:
    """What the parser's remark about a text means; None where it is about something else."""
    sql = SqlText.read(planned)
    unended = _PLACED.search(remark)
    if unended:
        kind = "a name in quotes" if "delimiter" in unended.group(1) else "a text in quotes"
        return SyntaxFault(f"{kind} begins here and does not end", sql, _token_at(sql, *unended.groups()[1:]))
    expected = _EXPECTED.search(remark)
    if expected is None:
        return None
    wanted, found, line, column = expected.groups()
    at = None if found == "EOF" or line is None else _token_at(sql, line, column)
    if wanted == "an SQL statement":
        close = difflib.get_close_matches(found.upper(), _STATEMENTS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return SyntaxFault(f"a query begins with SELECT, WITH, VALUES or FROM{hint}", sql, at)
    what = "nothing more was expected" if wanted == "end of statement" else f"{wanted} was expected"
    return SyntaxFault(what, sql, at)


def _token_at(sql: SqlText, line: str, column: str) -> int | None:
    lines = sql.text.split("\n")
    start = sum(len(text) + 1 for text in lines[: int(line) - 1]) + int(column) - 1
    return next((i for i, token in enumerate(sql.tokens) if token.end > start), None)


def _same_place(planned: SqlText, at: int, written: SqlText) -> int | None:
    """The token of the text as written that is best known again by those around it; None where two are as good."""
    scores = [
        (_alike(planned, at, written, i), i)
        for i, token in enumerate(written.tokens)
        if _same(token, planned.tokens[at])
    ]
    scores.sort(reverse=True)
    if not scores or (len(scores) > 1 and scores[0][0] == scores[1][0]):
        return None
    return scores[0][1]


def _alike(planned: SqlText, at: int, written: SqlText, place: int) -> int:
    """How many tokens in a row are the same, before and behind."""
    score = 0
    for step in (-1, 1):
        for distance in range(1, _AROUND + 1):
            i, j = at + step * distance, place + step * distance
            inside = 0 <= i < len(planned.tokens), 0 <= j < len(written.tokens)
            if inside == (False, False):
                score += 1
                break
            if inside != (True, True) or not _same(planned.tokens[i], written.tokens[j]):
                break
            score += 1
    return score


def _same(a: Token, b: Token) -> bool:
    """Whether they are the same: a name in quotes may have been written without."""
    return a.text == b.text if a.kind == b.kind else {a.kind, b.kind} == _NAMES and _bare(a) == _bare(b)


def _bare(token: Token) -> str:
    return token.text.strip('"').upper()
