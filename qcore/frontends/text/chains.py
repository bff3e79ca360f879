"""Long chains of AND, OR, +, -, * and || with brackets put around parts of them. SPEC Q1.

A chain of a thousand terms is a tree of a thousand levels to who reads it from the left, and the planner's stack ends
before that. In brackets, 32 terms each, it has a few dozen levels. The terms keep their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from qcore.errors import PlanError
from qcore.frontends.text.clauses import CLAUSES, JOINS
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, SqlText

# Terms between one pair of brackets.
GROUP = 32
# Operators of a chain that cannot be put in brackets, such as /: more take the planner seconds.
CHAIN_MAX = 200
# Levels of CASE, of which the planner's parser takes 99, and then says that it expected something else.
CASES_MAX = 95
TOO_DEEP = (
    "the query is nested too deeply: too many levels of brackets, CASE or subqueries; CREATE TABLE … AS can keep the "
    "rows of an inner part"
)
_LINK = re.compile(r"[-+*/%|]|\b(?:and|or|case)\b", re.IGNORECASE)
_ENDS = (
    CLAUSES | TAIL | SET_OPERATORS | JOINS
    | {"SELECT", "BY", "ALL", "DISTINCT", "WITH", "VALUES", "AS", "ASC", "DESC", "NULLS", "WHEN", "THEN", "ELSE"}
)  # fmt: skip
# What binds less than + does, and so ends its terms.
_CONDITION = frozenset({"NOT", "IS", "IN", "LIKE", "ILIKE", "BETWEEN", "SIMILAR", "ESCAPE", "ANY", "SOME", "TO"})
_NO_OPERAND = _ENDS | _CONDITION | {"AND", "OR", "CASE"}
_NO_NUMBERS = ("INTERVAL", "DATE", "TIMESTAMP")
_LOGIC, _SUM = frozenset({"AND", "OR"}), frozenset("+-")
_INSIDE_TERM = frozenset(".:[](){}")
# An operator: its first token, and what it is; of what only ends terms, "".
_Link = tuple[int, str]


def with_short_chains(text: str) -> str:
    """The text with brackets in its long chains.

    Raises
    ------
    PlanError
        A long chain that brackets would change, such as a / b / c …, or CASE in CASE too often.
    """
    if sum(1 for _ in _LINK.finditer(text)) <= GROUP:
        return text
    sql = SqlText.read(text)
    brackets = _Brackets(sql)
    spans = [(0, len(sql.tokens)), *((i + 1, close) for i, close in sql.partner.items() if close > i)]
    for start, end in spans:
        for run in _runs(sql, start, end):
            for chain in _chains(sql, run):
                brackets.add(chain)
    return brackets.text()


class _Brackets:
    """What is put between the tokens of a text."""

    def __init__(self, sql: SqlText) -> None:
        self.sql = sql
        # Brackets to put before and behind tokens, and signs for others.
        self.opened: Counter[int] = Counter()
        self.closed: Counter[int] = Counter()
        self.signs: dict[int, str] = {}

    def add(self, links: Sequence[_Link]) -> None:
        """Brackets around terms of a chain: all but the first and the last, whose other ends are not known."""
        while len(links) > GROUP:
            groups = [links[place : place + GROUP] for place in range(0, len(links), GROUP)]
            for group, following in pairwise(groups):
                token, operator = group[0]
                self.opened[token + (2 if operator == "||" else 1)] += 1
                self.closed[following[0][0] - 1] += 1
                if operator == "-":
                    # a - b + c is a - (b - c).
                    self.signs.update((token, "- " if sign == "+" else "+ ") for token, sign in group[1:])
            # The last group is left as it is, and so stands behind the others' brackets.
            links = [*(group[0] for group in groups[:-1]), *groups[-1]]

    def text(self) -> str:
        """The text with all that."""
        text, pieces, at = self.sql.text, [], 0
        for i, token in enumerate(self.sql.tokens):
            if i in self.opened or i in self.closed or i in self.signs:
                written = self.signs.get(i, text[token.start : token.end])
                pieces += [text[at : token.start], "(" * self.opened[i], written, ")" * self.closed[i]]
                at = token.end
        return "".join([*pieces, text[at:]])


def _runs(sql: SqlText, start: int, end: int) -> Iterator[list[_Link]]:
    """The operators of each expression among tokens start to end, in order; a CASE's parts are expressions too."""
    stack: list[list[_Link]] = [[]]
    n_between = 0
    for i in sql.level(start, end):
        token = sql.tokens[i]
        if token.kind == "word":
            if token.text == "CASE":
                if len(stack) > CASES_MAX:
                    raise PlanError(TOO_DEEP)
                stack.append([])
            elif token.text in _ENDS or (token.text == "END" and len(stack) > 1):
                yield stack.pop()
                if token.text != "END":
                    stack.append([])
            elif token.text in _LOGIC:
                of_between = token.text == "AND" and n_between > 0
                n_between -= of_between
                stack[-1].append((i, "" if of_between else token.text))
            elif token.text in _CONDITION:
                n_between += token.text == "BETWEEN"
                stack[-1].append((i, ""))
        elif token.kind == "sign":
            if token.text in ",;":
                yield stack.pop()
                stack.append([])
            elif token.text not in _INSIDE_TERM:
                stack[-1] += _link(sql, i)
    yield from stack


def _link(sql: SqlText, i: int) -> list[_Link]:
    """The operator that begins at the sign at token i; none where the sign belongs to a term or another operator."""
    sign, before = sql.tokens[i].text, sql.tokens[i - 1] if i else None
    if sign == "|" and sql.is_sign(i - 1, "|"):
        return []
    if before is not None and before.kind == "number" and re.fullmatch(r"[\d_.]+[eE]", before.text):
        return []
    if sign not in "+-*/%|" or sql.is_sign(i + 1, ">"):
        return [(i, "")]
    is_value = before is not None and (
        before.kind in ("string", "quoted", "number")
        or (before.kind == "word" and before.text not in _NO_OPERAND)
        or (before.kind == "sign" and before.text in ")]}")
    )
    if sign == "|":
        return [(i, "||" if is_value and sql.is_sign(i + 1, "|") else "")]
    return [(i, sign)] if is_value else []


def _chains(sql: SqlText, run: Sequence[_Link]) -> Iterator[Sequence[_Link]]:
    """The chains of an expression that are too long, of operators that brackets may follow."""
    if len(run) <= GROUP:
        return
    conditions = [link for link in run if link[1] in _LOGIC]
    yield [link for link in conditions if link[1] == "OR"]
    yield from _between(conditions, {"OR"})
    for values in _between(run, _LOGIC | {""}):
        sums = [link for link in values if link[1] in _SUM]
        may_move = not any(sql.is_word(i, *_NO_NUMBERS) for i in range(values[0][0], values[-1][0] + 2))
        yield from _allowed(sums, may_move)
        for products in _between(values, _SUM):
            yield from _allowed(products, {operator for _, operator in products} in ({"*"}, {"||"}))


def _between(links: Sequence[_Link], separators: frozenset[str] | set[str]) -> Iterator[list[_Link]]:
    """The longer ones of the parts between separators."""
    part: list[_Link] = []
    for link in [*links, (-1, next(iter(separators)))]:
        if link[1] not in separators:
            part.append(link)
            continue
        if len(part) > GROUP:
            yield part
        part = []


def _allowed(chain: list[_Link], may_move: bool) -> Iterator[list[_Link]]:
    if may_move:
        yield chain
    elif len(chain) > CHAIN_MAX:
        operators = " and ".join(sorted({operator for _, operator in chain}))
        raise PlanError(
            f"a chain of {len(chain)} operators {operators} is too long to be planned, more than {CHAIN_MAX}; put "
            "parts of it in brackets or in a subquery"
        )
