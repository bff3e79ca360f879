"""Values of expressions: their texts, and the facts known about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sql_fuzz.tables import (
    BLOB,
    BOOL,
    DATE,
    DECIMALS,
    FLOAT,
    INSTANTS,
    INT,
    INTS,
    MILLIS,
    TEXT,
    TEXTS,
    TIME,
    TIMESTAMP,
    UBIG,
    Facts,
    Kind,
)
from sql_fuzz.tree import Listed, Part, Tree

# Sums of as many rows must not leave 64 bits, whatever joins make of them.
ROWS_MAX = 10**7
INT_MAX = 2**63
# Integers that a double holds, with room for a sum.
FLOAT_EXACT = 2**40
COMPARABLE = (INT, FLOAT, TEXT, DATE, TIMESTAMP, BOOL, UBIG, *DECIMALS, *INSTANTS)
SORTABLE = (*COMPARABLE, BLOB, TIME)
HASHABLE = (*SORTABLE, MILLIS, INTS, TEXTS)
SELECTABLE = (INT, INT, INT, FLOAT, TEXT, TEXT, DATE, TIMESTAMP, BOOL, *DECIMALS[:4])


@dataclass(frozen=True)
class Value:
    """An expression and the facts known about its values."""

    tree: Tree
    facts: Facts

    @property
    def kind(self) -> Kind:
        """The kind of the value."""
        return self.facts.kind


@dataclass(frozen=True)
class Column:
    """A column under its name in the scope."""

    name: str
    facts: Facts

    def value(self) -> Value:
        """A reference to the column."""
        return Value(Tree(str(self.facts.kind), self.name), self.facts)


def compose(facts: Facts, *parts: Part) -> Value:
    """A value with these facts and the text of `parts`."""
    return Value(Tree(str(facts.kind), *parts), facts)


def quote_text(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def else_clause(tree: Tree | None) -> Listed:
    """An ELSE clause, or nothing."""
    return Listed([] if tree is None else [tree], minimum=0, before=" else ")


def merged_facts(values: Sequence[Value]) -> Facts:
    """Facts that hold for all of the values."""
    return merge_facts([value.facts for value in values])


def merge_facts(facts: Sequence[Facts]) -> Facts:
    """Facts that hold for each value for which one of these holds."""
    return Facts(
        facts[0].kind,
        max(f.limit for f in facts),
        all(f.finite for f in facts),
        all(f.exact for f in facts),
        any(f.narrow for f in facts),
    )
