"""Names of columns without an alias: their expressions as written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qcore.sql.parse import Source, select_token

# Words that end a select list.
_END = frozenset({
    "FROM", "WHERE", "GROUP BY", "HAVING", "WINDOW", "QUALIFY", "ORDER BY", "LIMIT", "OFFSET",
    "FETCH", "UNION", "EXCEPT", "INTERSECT", "USING", "INTO",
})  # fmt: skip
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def item_texts(select: Any, source: Source) -> list[str]:
    """The texts of a select list's items, with words in lower case, without unneeded quotes and comments, and with
    one blank for white space. The caller must know the first token that is no longer part of an item.
    """
    first = select_token(select)
    if first is None:
        return []
    tokens = source.tokens
    position = first + 1
    position = _after_distinct(tokens, position)
    items, begin, depth = [], position, 0
    while position < len(tokens):
        token = tokens[position]
        text = token.text
        kind = token.token_type.name
        is_sign = kind not in ("STRING", "IDENTIFIER", "NUMBER")
        if is_sign and text in _OPENING:
            depth += 1
        elif is_sign and text in _CLOSING:
            depth -= 1
            if depth < 0:
                break
        elif is_sign and depth == 0 and text == ",":
            items.append(written_text(tokens[begin:position], source.text))
            begin = position + 1
        elif is_sign and depth == 0 and position > begin and _ends(tokens, position):
            break
        position += 1
    if position > begin:
        items.append(written_text(tokens[begin:position], source.text))
    return items


def _ends(tokens: list[Any], position: int) -> bool:
    """Whether a token ends a select list. The FROM of IS DISTINCT FROM does not."""
    word = tokens[position].text.upper()
    return word == ";" or (word in _END and (word != "FROM" or tokens[position - 1].text.upper() != "DISTINCT"))


def _after_distinct(tokens: list[Any], position: int) -> int:
    if position < len(tokens) and tokens[position].text.upper() == "ALL":
        return position + 1
    if position >= len(tokens) or tokens[position].text.upper() != "DISTINCT":
        return position
    position += 1
    if position + 1 < len(tokens) and tokens[position].text.upper() == "ON" and tokens[position + 1].text == "(":
        depth = 0
        for at in range(position + 1, len(tokens)):
            depth += (tokens[at].text == "(") - (tokens[at].text == ")")
            if depth == 0:
                return at + 1
    return position


def written_text(tokens: Sequence[Any], text: str) -> str:
    """The text of an expression's tokens as the name of its column."""
    if len(tokens) == 1 and tokens[0].token_type.name == "NULL":
        return "NULL"
    parts: list[str] = []
    at = tokens[0].start if tokens else 0
    for token in tokens:
        written = text[token.start : token.end + 1]
        kind = token.token_type.name
        if kind == "IDENTIFIER":
            shown = token.text if token.text.isidentifier() else written
        elif written.startswith(("'", "$")):
            shown = written
        else:
            shown = written.lower()
        parts += [" " if token.start > at else "", shown]
        at = token.end + 1
    return "".join(parts)
