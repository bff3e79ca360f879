"""The columns of a table that a query may read, found by the words of its text. Narrow plans are faster to make.

If no word of the text is the name of a column, the query cannot read that column. The exceptions are a star,
COLUMNS(…), a natural join, PIVOT, and a table's name as a row: these read columns without naming them. A table for
which one of these may be used has all its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qcore.record import record

# Words by which a text may read columns that it does not name.
_WHOLE = frozenset({
    "columns", "natural", "pivot", "unpivot", "pivot_wider", "pivot_longer", "summarize", "describe", "table",
    "positional",
})  # fmt: skip


# Kinds of tokens after which a star multiplies.
_VALUES = frozenset({"VAR", "IDENTIFIER", "NUMBER", "STRING", "R_PAREN", "R_BRACKET", "END"})


class NeedsAllColumns(Exception):
    """A query that was bound over some columns of its tables needs all of them, and is bound again."""


@record(frozen=True)
class ReadColumns:
    """The words of a text in lower case; None: it may read every column.

    `has_star`: a select list may begin with a star, which means all columns of its FROM.
    """

    words: frozenset[str] | None
    has_star: bool = False

    def select(self, columns: Sequence[str]) -> list[int]:
        """The positions of those columns of a table that the text may name."""
        words = self.words
        return [
            position
            for position, column in enumerate(columns)
            if words is None or column.lower() in words or not column.isidentifier()
        ]


ALL = ReadColumns(None)


def read_columns(tokens: Sequence[Any]) -> ReadColumns:
    """The columns that the tokens of a text may name."""
    words = frozenset([token.text.lower() for token in tokens])
    if words & _WHOLE:
        return ALL
    has_star = False
    if "*" not in words:
        return ReadColumns(words)
    for position, token in enumerate(tokens):
        if token.text != "*" or token.token_type.name in ("STRING", "IDENTIFIER"):
            continue
        before = tokens[position - 1] if position else None
        if before is not None and before.token_type.name in ("SELECT", "DISTINCT"):
            has_star = True
        elif before is None or not (
            before.token_type.name in _VALUES or (position > 1 and _is_count(tokens[position - 2 : position]))
        ):
            return ALL
    return ReadColumns(words, has_star)


def _is_count(tokens: Sequence[Any]) -> bool:
    return tokens[0].text.lower() == "count" and tokens[1].text == "("
