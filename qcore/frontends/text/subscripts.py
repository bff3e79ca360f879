"""Letters of texts by subscripts: s[1], s[2:3], s[-1].

The planner knows subscripts of lists and maps only, and only it knows which values are texts. So a text whose
subscripts it refuses is tried with some of them written as calls, which take texts alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from qcore.frontends.text.operands import ends_value, operand_start
from qcore.frontends.text.tokens import SqlText
from qcore.substrait.dialect_functions import TEXT_SLICE

# With more subscripts than these, either all are of texts or none.
_TRIED_MAX = 5
_REFUSED = ("array_element does not support type Utf8", "array_slice() does not take (varchar")


def is_of_text(message: str) -> bool:
    """Whether the planner's message is about a subscript of a text."""
    return any(part in message for part in _REFUSED)


def with_text_subscripts(text: str) -> Iterator[str]:
    """The text with all its subscripts as calls that take texts alone, then with fewer and fewer."""
    n = len(_subscripts(SqlText.read(text)))
    for size in range(n, 0, -1) if n <= _TRIED_MAX else [n]:
        for chosen in combinations(range(n), size):
            yield _with_calls(text, chosen)


def _subscripts(sql: SqlText) -> list[int]:
    """The brackets that open subscripts."""
    return [
        i
        for i in sql.signs("[")
        if ends_value(sql, i - 1) and not sql.is_word(i - 1, "ARRAY") and sql.partner[i] not in (i + 1, len(sql.tokens))
    ]


def _with_calls(text: str, chosen: tuple[int, ...]) -> str:
    # The last first, so that those before keep their numbers.
    for number in reversed(chosen):
        sql = SqlText.read(text)
        opens = _subscripts(sql)[number]
        closes, start = sql.partner[opens], operand_start(sql, opens)
        colon = next((i for i in sql.level(opens + 1, closes) if _is_colon(sql, i)), None)
        first = sql.slice(opens + 1, closes if colon is None else colon)
        last = first if colon is None else sql.slice(colon + 1, closes)
        # substr() takes texts alone.
        call = f"{TEXT_SLICE}(substr({sql.slice(start, opens)}, 1), {first or 1}, {last or -1})"
        text = sql.replaced(start, closes + 1, call)
    return text


def _is_colon(sql: SqlText, i: int) -> bool:
    return sql.is_sign(i, ":") and not sql.is_sign(i - 1, ":") and not sql.is_sign(i + 1, ":")
