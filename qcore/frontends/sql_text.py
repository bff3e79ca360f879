"""SQL text as tokens, and where its queries and their WITH lists lie. Floor P2.

Not a parser: it knows strings, names, comments and brackets, which is enough to find a construct and cut it out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
      | (?P<number>\d[\w.]*)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
# What follows the body of a query at its own level.
TAIL = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH", "FOR"})
SET_OPERATORS = frozenset({"UNION", "EXCEPT", "INTERSECT"})


@dataclass(frozen=True)
class Token:
    """A piece of the text: a word in upper case, a name as written, or anything else as it stands."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class CommonTable:
    """One entry of a WITH list: tokens `first` to `end` are its definition, `body` to `body_end` its query."""

    name: str
    first: int
    end: int
    body: int
    body_end: int


@dataclass(frozen=True)
class Region:
    """Tokens `start` to `end` of one query, brackets around it left out; its WITH list, and where what follows that
    begins.
    """

    start: int
    end: int
    common: tuple[CommonTable, ...]
    is_recursive: bool
    main: int


@functools.lru_cache(maxsize=16)
def _tokens(text: str) -> tuple[Token, ...]:
    """A query's text is looked through several times before it is planned."""
    return tuple(
        Token(kind, match.group().upper() if kind == "word" else match.group(), match.start(), match.end())
        for match in _TOKEN.finditer(text)
        if (kind := match.lastgroup or "") != "skip"
    )


class SqlText:
    """The tokens of a text. Unbalanced brackets leave the rest of the text in the last open one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        #: The closing bracket of each opening one, and the other way round.
        self.partner: dict[int, int] = {}
        opened: list[int] = []
        for i, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in _OPEN:
                opened.append(i)
            elif token.text in _CLOSE and opened:
                self.partner[i] = opened.pop()
                self.partner[self.partner[i]] = i
        self.partner.update((i, len(self.tokens)) for i in opened)

    def slice(self, start: int, end: int) -> str:
        """The text of tokens start to end."""
        return "" if start >= end else self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def replaced(self, start: int, end: int, text: str) -> str:
        """The whole text with tokens start to end replaced."""
        return f"{self.text[: self.tokens[start].start]} {text} {self.text[self.tokens[end - 1].end :]}"

    def is_word(self, i: int, *words: str) -> bool:
        """Whether token i is one of these words."""
        return 0 <= i < len(self.tokens) and self.tokens[i].kind == "word" and self.tokens[i].text in words

    def is_sign(self, i: int, sign: str) -> bool:
        """Whether token i is this sign."""
        return 0 <= i < len(self.tokens) and self.tokens[i].kind == "sign" and self.tokens[i].text == sign

    def level(self, start: int, end: int) -> Iterator[int]:
        """Tokens of start to end outside of brackets opened there; the brackets themselves are left out."""
        i = start
        while i < end:
            if i in self.partner and self.partner[i] > i:
                i = self.partner[i] + 1
                continue
            yield i
            i += 1

    def name(self, i: int) -> str:
        """Token i as a name: lower case unless quoted."""
        token = self.tokens[i]
        return token.text[1:-1] if token.kind == "quoted" else token.text.lower()

    def case_of(self, end: int) -> int | None:
        """The CASE that the END at a token ends; None where there is none."""
        depth = 0
        for i in range(end, -1, -1):
            depth += self.is_word(i, "END") - self.is_word(i, "CASE")
            if depth == 0:
                return i
        return None

    def regions(self) -> list[Region]:
        """All queries in brackets, and the whole text, outermost first."""
        spans = [(0, len(self.tokens))]
        spans += [(i + 1, close) for i, close in self.partner.items() if close > i and self.is_sign(i, "(")]
        spans.sort(key=lambda span: span[0])
        return [self._region(start, end) for start, end in spans if self._begins_query(start)]

    def enclosing(self, position: int) -> list[Region]:
        """The queries that token `position` is part of, outermost first."""
        return [region for region in self.regions() if region.start <= position < region.end]

    def visible(self, position: int) -> list[str]:
        """Definitions of the common tables that a query at token `position` may name, in order."""
        found: dict[str, str] = {}
        for region in self.enclosing(position):
            for table in region.common:
                if table.first <= position < table.end or table.first > position:
                    break
                found.pop(table.name, None)
                found[table.name] = self.slice(table.first, table.end)
        return list(found.values())

    def _begins_query(self, start: int) -> bool:
        return self.is_word(start, "SELECT", "WITH", "VALUES", "TABLE", "FROM") or self.is_sign(start, "(")

    def _region(self, start: int, end: int) -> Region:
        if not self.is_word(start, "WITH"):
            return Region(start, end, (), False, start)
        at = start + 1
        is_recursive = self.is_word(at, "RECURSIVE")
        at += is_recursive
        common = []
        while at < end:
            table = self._common_table(at, end)
            if table is None:
                break
            common.append(table)
            at = table.end
            if not self.is_sign(at, ","):
                break
            at += 1
        return Region(start, end, tuple(common), is_recursive, at)

    def _common_table(self, first: int, end: int) -> CommonTable | None:
        """The definition `name [(columns)] AS [[NOT] MATERIALIZED] (query)` at token `first`."""
        at = first + 1
        if self.is_sign(at, "("):
            at = self.partner[at] + 1
        if not self.is_word(at, "AS"):
            return None
        at += 1
        while self.is_word(at, "NOT", "MATERIALIZED"):
            at += 1
        if not self.is_sign(at, "(") or self.partner[at] >= end:
            return None
        return CommonTable(self.name(first), first, self.partner[at] + 1, at + 1, self.partner[at])
