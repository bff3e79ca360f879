"""SQL text as the planner takes it: what it has no syntax for is written in what it has."""

from __future__ import annotations

from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.lambdas import has_lambdas
from qcore.frontends.text.tokens import SqlText
from qcore.functions.dialect import QCORE, Dialect
from qcore.substrait.dialect_functions import (
    NAMES,
    OVERLOADED,
    SIMILAR_ESCAPE,
    SIMILAR_PREFIX,
    planner_name,
)


@dataclass(frozen=True)
class PlannerText:
    """The text for the planner, and whether it calls functions that only qcore knows, or with lambdas."""

    text: str
    has_dialect_functions: bool
    has_lambdas: bool


# What makes / divide floats: a factor before it, since the planner would divide integers where it sees them. Its text,
# and the planner's.
_FLOAT_FACTOR = " * cast(1 as double) /"
FLOAT_FACTOR_SHOWN = " * Int64(1)"
_NAMES = frozenset(name.upper() for name in NAMES)


def planner_text(text: str, dialect: Dialect = QCORE) -> PlannerText:
    """The text with calls of overloaded functions saying their number of arguments, SIMILAR TO as a LIKE, and / and //
    as the dialect has them.

    Raises
    ------
    PlanError
        SIMILAR TO a pattern that is no literal.
    """
    read = SqlText.read(text)
    called = False
    # Replacements of tokens, by number.
    new: dict[int, str] = {}
    for i in read.signs("/"):
        if i in new:
            continue
        if read.is_sign(i + 1, "/"):
            new |= {i: "/", i + 1: ""}
        elif dialect.division == "float":
            new[i] = _FLOAT_FACTOR
    for word in sorted(_NAMES & read.words):
        name = word.lower()
        for i in read.places(word):
            is_call = read.is_sign(i + 1, "(") and not read.is_sign(i - 1, ".")
            called = called or is_call
            if is_call and name in OVERLOADED:
                new[i] = f'"{planner_name(name, _n_arguments(read, i + 1))}"'
    for i in read.places("SIMILAR"):
        if read.is_word(i + 1, "TO") and i not in new:
            if i + 2 >= len(read.tokens) or read.tokens[i + 2].kind != "string" or read.is_word(i + 3, "ESCAPE"):
                raise PlanError("SIMILAR TO takes a text literal as its pattern, and no ESCAPE; use regexp_like")
            pattern = read.tokens[i + 2].text.replace("'", f"'{SIMILAR_PREFIX}", 1)
            new |= {i: "LIKE", i + 1: "", i + 2: f"{pattern} ESCAPE '{SIMILAR_ESCAPE}'"}
    return PlannerText(_rewritten(read, new), called, has_lambdas(read))


def _rewritten(read: SqlText, new: dict[int, str]) -> str:
    parts, at = [], 0
    for i, text in sorted(new.items()):
        parts += [read.text[at : read.tokens[i].start], text]
        at = read.tokens[i].end
    return "".join([*parts, read.text[at:]])


def _n_arguments(read: SqlText, opens: int) -> int:
    """How many arguments stand in the brackets at token `opens`."""
    end = read.partner[opens]
    if end == opens + 1:
        return 0
    return 1 + sum(read.is_sign(i, ",") for i in read.level(opens + 1, end))
