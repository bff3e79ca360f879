"""TIMESTAMP as an instant that clocks of the session's time zone show, as Spark has it."""

from __future__ import annotations

from qcore.frontends.text.tokens import SqlText

_TYPES = {"TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_LTZ": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP"}
# Functions that give what a clock shows, of the session's zone or of UTC.
_OF_CLOCKS = frozenset({"TO_TIMESTAMP", "MAKE_TIMESTAMP"})
_OF_UTC = frozenset({"TO_TIMESTAMP_SECONDS", "TO_TIMESTAMP_MILLIS", "TO_TIMESTAMP_MICROS"})


def with_instants(text: str) -> str:
    """The query with the type TIMESTAMP as TIMESTAMPTZ, TIMESTAMP_NTZ as TIMESTAMP, and functions that give them."""
    sql = SqlText.read(text)
    if not sql.words & {*_TYPES, *_OF_CLOCKS, *_OF_UTC}:
        return text
    before: dict[int, str] = {}
    behind: dict[int, str] = {}
    new = {i: _TYPES[word] for word in _TYPES for i in sql.places(word) if _is_type(sql, i)}
    for word in sorted((_OF_CLOCKS | _OF_UTC) & sql.words):
        for i in sql.places(word):
            if not sql.is_sign(i + 1, "(") or sql.is_sign(i - 1, ".") or sql.partner[i + 1] >= len(sql.tokens):
                continue
            close = sql.partner[i + 1]
            # A text may say its own zone, which only a cast reads.
            n_arguments = 1 + sum(sql.is_sign(j, ",") for j in sql.level(i + 2, close))
            if word == "TO_TIMESTAMP" and n_arguments == 1:
                new[i] = "CAST"
                behind[close - 1] = behind.get(close - 1, "") + " AS TIMESTAMPTZ"
                continue
            before[i] = "CAST(" if word in _OF_CLOCKS else "("
            behind[close] = " AS TIMESTAMPTZ)" if word in _OF_CLOCKS else " AT TIME ZONE 'UTC')"
    parts, at = [], 0
    for i, token in enumerate(sql.tokens):
        if i in before or i in behind or i in new:
            written = new.get(i, text[token.start : token.end])
            parts += [text[at : token.start], before.get(i, ""), written, behind.get(i, "")]
            at = token.end
    return "".join([*parts, text[at:]])


def _is_type(sql: SqlText, i: int) -> bool:
    """Whether a word stands for a type: before a literal, behind :: or at the end of a cast, but not as a name."""
    if i + 1 < len(sql.tokens) and sql.tokens[i + 1].kind == "string":
        return True
    if sql.is_sign(i - 1, ":") and sql.is_sign(i - 2, ":"):
        return True
    if not (sql.is_word(i - 1, "AS") and sql.is_sign(i + 1, ")")):
        return False
    opens = next((at for at in range(i - 2, 0, -1) if sql.is_sign(at, "(") and sql.partner[at] == i + 1), None)
    return opens is not None and sql.is_word(opens - 1, "CAST", "TRY_CAST")
