"""SQL text as tokens, and where its queries and their WITH lists lie.

Not a parser: it knows strings, names, comments and brackets, which is enough to find a construct and cut it out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

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


class Token(NamedTuple):
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


class SqlText:
    """The tokens of a text, which nobody changes. Unbalanced brackets leave the rest of the text in the last open one.

    A query's text is looked through for many constructs, and has few of them: `words` and `places` say at once which
    are not there.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        #: The closing bracket of each opening one, and the other way round.
        self.partner: dict[int, int] = {}
        #: The tokens that are numbers, in order.
        self.numbers: list[int] = []
        self._words: dict[str, list[int]] = {}
        self._signs: dict[str, list[int]] = {}
        opened: list[int] = []
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind == "skip":
                continue
            i, part = len(self.tokens), match.group()
            if kind == "word":
                part = part.upper()
                self._words.setdefault(part, []).append(i)
            elif kind == "number":
                self.numbers.append(i)
            elif kind == "sign":
                self._signs.setdefault(part, []).append(i)
                if part in _OPEN:
                    opened.append(i)
                elif part in _CLOSE and opened:
                    opens = opened.pop()
                    self.partner[i] = opens
                    self.partner[opens] = i
            self.tokens.append(Token(kind, part, *match.span()))
        self.partner.update((i, len(self.tokens)) for i in opened)

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def read(text: str) -> SqlText:
        """The tokens of a text that was perhaps just looked through for something else."""
        return SqlText(text)

    @property
    def words(self) -> Set[str]:
        """The words of the text, in upper case."""
        return self._words.keys()

    def places(self, word: str) -> Sequence[int]:
        """The tokens that are this word, in order."""
        return self._words.get(word, ())

    def signs(self, sign: str) -> Sequence[int]:
        """The tokens that are this sign, in order."""
        return self._signs.get(sign, ())

    def slice(self, start: int, end: int) -> str:
        """The text of tokens start to end."""
        return "" if start >= end else self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def replaced(self, start: int, end: int, text: str) -> str:
        """The whole text with tokens start to end replaced."""
        return f"{self.text[: self.tokens[start].start]} {text} {self.text[self.tokens[end - 1].end :]}"

    def is_word(self, i: int, *words: str) -> bool:
        """Whether token i is one of these words."""
        if not 0 <= i < len(self.tokens):
            return False
        token = self.tokens[i]
        return token.text in words and token.kind == "word"

    def is_sign(self, i: int, sign: str) -> bool:
        """Whether token i is this sign."""
        if not 0 <= i < len(self.tokens):
            return False
        token = self.tokens[i]
        return token.text == sign and token.kind == "sign"

    def level(self, start: int, end: int) -> Iterator[int]:
        """Tokens of start to end outside of brackets opened there; the brackets themselves are left out."""
        i, partner = start, self.partner
        while i < end:
            other = partner.get(i, -1)
            if other > i:
                i = other + 1
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

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """All words and names of the text, in lower case."""
        quoted = {token.text[1:-1] for token in self.tokens if token.kind == "quoted"}
        return frozenset(name.lower() for name in (*self._words, *quoted))

    @functools.cached_property
    def regions(self) -> tuple[Region, ...]:
        """All queries in brackets, and the whole text, outermost first."""
        spans = [(0, len(self.tokens)), *((i + 1, self.partner[i]) for i in self.signs("("))]
        return tuple(self._region(start, end) for start, end in spans if self._begins_query(start))

    def enclosing(self, position: int) -> list[Region]:
        """The queries that token `position` is part of, outermost first."""
        return [region for region in self.regions if region.start <= position < region.end]

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
