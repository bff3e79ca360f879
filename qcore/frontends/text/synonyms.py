"""Words and signs of other dialects, and of the standard, written as DataFusion's parser knows them."""

from __future__ import annotations

import re

from qcore.errors import PlanError
from qcore.frontends.text.clauses import UNITS, is_type, items
from qcore.frontends.text.group_keys import without_cast_keys
from qcore.frontends.text.operands import ends_value, is_name, operand_start
from qcore.frontends.text.tokens import SqlText
from qcore.substrait.dialect_functions import AT_TIME_ZONE

# Types by the names that DuckDB, PostgreSQL and Spark have for them.
_TYPES = {
    "HUGEINT": "DECIMAL(38, 0)", "LONG": "BIGINT", "INT64": "BIGINT", "OID": "BIGINT", "INT32": "INTEGER",
    "SIGNED": "INTEGER", "SHORT": "SMALLINT", "INT16": "SMALLINT", "INT1": "TINYINT", "BYTE": "TINYINT",
    "UBIGINT": "BIGINT UNSIGNED", "UINTEGER": "INTEGER UNSIGNED", "USMALLINT": "SMALLINT UNSIGNED",
    "UTINYINT": "TINYINT UNSIGNED", "DEC": "DECIMAL", "FLOAT64": "DOUBLE", "FLOAT32": "REAL", "LOGICAL": "BOOLEAN",
    "BLOB": "BYTEA", "BINARY": "BYTEA", "VARBINARY": "BYTEA", "BPCHAR": "VARCHAR", "NVARCHAR": "VARCHAR",
    "DATETIME": "TIMESTAMP", "TIMESTAMP_S": "TIMESTAMP(0)", "TIMESTAMP_MS": "TIMESTAMP(3)",
    "TIMESTAMP_US": "TIMESTAMP(6)", "TIMESTAMP_NS": "TIMESTAMP(9)",
}  # fmt: skip
_MATCHES = ((("!", "~", "~", "*"), "NOT ILIKE"), (("!", "~", "~"), "NOT LIKE"), (("~", "~", "*"), "ILIKE"),
            (("~", "~"), "LIKE"))  # fmt: skip
_RANKS = ("RANK", "DENSE_RANK", "ROW_NUMBER", "PERCENT_RANK", "CUME_DIST")
_CONSTANT = re.compile(r"-?[\d.]+|(?:[A-Za-z]+ ?)?'[^']*'")
_CLOCK = re.compile(r"([-+]?)(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?")
_WHOLE = re.compile(r"[-+]?\d+")
_LONG_UNIT = re.compile(r"([-+]?\d+) ?(quarters?|millenniums?|millennia)\b", re.IGNORECASE)
_LONG = {"q": 3, "m": 12_000}
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")
_GROUPED = re.compile(r"\d+(?:_\d+)+(?:\.(?:\d+(?:_\d+)*)?)?")
_EXPONENT = re.compile(r"\d[\d_.]*[eE]\d*")


def with_known_words(text: str) -> str:
    """The text with such words, signs and numbers replaced.

    Raises
    ------
    PlanError
        A construct that the parser would take for another, or of which only a part is known.
    """
    sql = SqlText.read(text)
    #: What stands for tokens start to end.
    new: list[tuple[int, int, str]] = []
    words = sql.words & (_WORDS.keys() | _TYPES.keys())
    places = [*sql.numbers, *(i for word in words for i in sql.places(word)), *(i for s in "~!" for i in sql.signs(s))]
    for i in sorted(places):
        token = sql.tokens[i]
        if token.kind == "number":
            new += _number(sql, i)
        elif token.text in _WORDS:
            new += _WORDS[token.text](sql, i)
        elif token.text in _TYPES:
            new += [(i, i + 1, _TYPES[token.text])] if is_type(sql, i) else []
        else:
            new += _sign(sql, i)
    parts, at = [], 0
    for start, end, replacement in sorted(new, key=lambda part: part[:2]):
        if sql.tokens[start].start >= at:
            parts += [text[at : sql.tokens[start].start], replacement]
            at = sql.tokens[end - 1].end if end > start else sql.tokens[start].start
    text = "".join([*parts, text[at:]])
    while (compared := _with_rows_compared(SqlText.read(text))) is not None:
        text = compared
    return text


_Replacements = list[tuple[int, int, str]]


def _number(sql: SqlText, i: int) -> _Replacements:
    token = sql.tokens[i]
    if _HEXADECIMAL.fullmatch(token.text):
        return [(i, i + 1, str(int(token.text, 16)))]
    if _GROUPED.fullmatch(token.text):
        return [(i, i + 1, token.text.replace("_", ""))]
    if not _EXPONENT.fullmatch(token.text):
        return []
    # With an exponent a number is a double; the parser makes decimals of all numbers with a point.
    end = i + 1
    if not token.text[-1].isdigit():
        end += 2
        signed = end <= len(sql.tokens) and sql.tokens[i + 1].text in "+-" and sql.tokens[i + 2].text.isdigit()
        if not signed:
            return []
    start = i
    if sql.is_sign(i - 1, ".") and sql.tokens[i - 1].end == token.start:
        start -= 1
    digits = sql.slice(start, end).replace("_", "")
    return [(start, end, f"CAST('{digits}' AS DOUBLE)")]


def _sign(sql: SqlText, i: int) -> _Replacements:
    """PostgreSQL's operators of LIKE."""
    for signs, word in _MATCHES:
        begins = not sql.is_sign(i - 1, signs[0]) and not sql.is_sign(i - 1, "!")
        if begins and all(sql.is_sign(i + n, sign) for n, sign in enumerate(signs)) and _adjacent(sql, i, len(signs)):
            return [(i, i + len(signs), f" {word} ")]
    return []


def _adjacent(sql: SqlText, i: int, n: int) -> bool:
    return sql.tokens[i + n - 1].end - sql.tokens[i].start == n


def _filter(sql: SqlText, i: int) -> _Replacements:
    """FILTER (condition) without WHERE."""
    if not sql.is_sign(i - 1, ")") or not sql.is_sign(i + 1, "(") or sql.is_word(i + 2, "WHERE"):
        return []
    return [(i, i + 2, "FILTER (WHERE ")]


def _null_test(sql: SqlText, i: int) -> _Replacements:
    """ISNULL and NOTNULL behind a value."""
    if not ends_value(sql, i - 1) or sql.is_word(i - 1, "SELECT", "AS") or sql.is_sign(i + 1, "("):
        return []
    return [(i, i + 1, "IS NULL" if sql.is_word(i, "ISNULL") else "IS NOT NULL")]


def _join(sql: SqlText, i: int) -> _Replacements:
    """SEMI and ANTI alone: of the left side's rows."""
    if not sql.is_word(i + 1, "JOIN") or sql.is_word(i - 1, "LEFT", "RIGHT"):
        return []
    return [(i, i + 1, f"LEFT {sql.tokens[i].text}")]


def _unknown_join(sql: SqlText, i: int) -> _Replacements:
    """A join that the parser would take for one without a condition, of a table of that name."""
    if sql.is_word(i + 1, "JOIN"):
        raise PlanError(
            "POSITIONAL JOIN is not supported: rows have no order here; number those of both tables by row_number() "
            "OVER (ORDER BY …), and write FULL JOIN … USING that number"
        )
    return []


def _rank_order(sql: SqlText, i: int) -> _Replacements:
    """An ORDER BY among the arguments of a window function that takes none."""
    if sql.is_sign(i - 1, "(") and sql.is_word(i - 2, *_RANKS) and sql.is_word(i + 1, "BY"):
        name = sql.tokens[i - 2].text.lower()
        raise PlanError(f"{name}(ORDER BY …) is not supported; write its ORDER BY in OVER (…)")
    return []


def _fetch(sql: SqlText, i: int) -> _Replacements:
    """FETCH FIRST n ROWS ONLY: LIMIT n."""
    if not sql.is_word(i + 1, "FIRST", "NEXT"):
        return []
    has_number = not sql.is_word(i + 2, "ROW", "ROWS")
    at = i + 2 + has_number
    if not sql.is_word(at, "ROW", "ROWS"):
        return []
    if not sql.is_word(at + 1, "ONLY"):
        raise PlanError("FETCH FIRST … WITH TIES and PERCENT are not supported yet; use rank() and a condition")
    return [(i, at + 2, f"LIMIT {sql.tokens[i + 2].text if has_number else 1}")]


def _materialized(sql: SqlText, i: int) -> _Replacements:
    """A hint of a WITH list: which queries are computed once is the optimizer's choice."""
    negated = sql.is_word(i - 1, "NOT")
    if not sql.is_word(i - 1 - negated, "AS") or not sql.is_sign(i + 1, "("):
        return []
    return [(i - negated, i + 1, "")]


def _group(sql: SqlText, i: int) -> _Replacements:
    """GROUP BY (): one group."""
    if not sql.is_word(i + 1, "BY"):
        return []
    if sql.is_sign(i + 2, "(") and sql.is_sign(i + 3, ")"):
        return [(i + 2, i + 4, "GROUPING SETS (())")]
    return without_cast_keys(sql, i)


def _with_rows_compared(sql: SqlText) -> str | None:
    """The text with its first (a, b) IN ((1, 2), …) as a comparison of each column."""
    for i in sql.places("IN"):
        if i > 0 and sql.is_sign(i + 1, "(") and sql.is_sign(i + 2, "("):
            compared = _compared(sql, i)
            if compared is not None:
                return compared
    return None


def _compared(sql: SqlText, i: int) -> str | None:
    negated = sql.is_word(i - 1, "NOT")
    close, last = sql.partner[i + 1], i - negated - 1
    start = sql.partner.get(last, -1) if sql.is_sign(last, ")") else -1
    if start < 0 or close >= len(sql.tokens) or (start > 0 and is_name(sql, start - 1)):
        return None
    left = [sql.slice(a, b) for a, b in items(sql, start + 1, last)]
    rows = []
    for a, b in items(sql, i + 2, close):
        if len(left) < 2 or not sql.is_sign(a, "(") or sql.partner[a] != b - 1 or sql.is_word(a + 1, "SELECT", "WITH"):
            return None
        right = [sql.slice(c, d) for c, d in items(sql, a + 1, b - 1)]
        if len(right) != len(left):
            raise PlanError(f"({', '.join(left)}) IN has a row of {len(right)} values; all have {len(left)}")
        rows.append(" AND ".join(map(_same, left, right)))
    condition = " OR ".join(f"({row})" for row in rows)
    return sql.replaced(start, close + 1, f"(NOT ({condition}))" if negated else f"({condition})")


def _same(left: str, right: str) -> str:
    """Within a row null is equal to null."""
    if _CONSTANT.fullmatch(right):
        return f"(({left}) IS NOT NULL AND ({left}) = {right})"
    return f"(({left}) IS NOT DISTINCT FROM ({right}))"


def _extract(sql: SqlText, i: int) -> _Replacements:
    """EXTRACT('year' FROM x): the part without quotes."""
    if not (sql.is_sign(i + 1, "(") and sql.is_word(i + 3, "FROM") and sql.tokens[i + 2].kind == "string"):
        return []
    return [(i + 2, i + 3, sql.tokens[i + 2].text[1:-1])]


def _interval(sql: SqlText, i: int) -> _Replacements:
    """An interval as the parser reads it; in brackets behind a sign, which it would take for that of the first part."""
    written = _known_interval(sql, i)
    is_signed = sql.is_sign(i - 1, "-") and not ends_value(sql, i - 2)
    end = i + 2 + sql.is_word(i + 2, *UNITS)
    if not is_signed or end > len(sql.tokens) or sql.tokens[i + 1].kind not in ("string", "number"):
        return written
    _, end, text = written[0] if written else (i + 1, end, sql.slice(i + 1, end))
    return [(i, end, f"(INTERVAL {text})")]


def _known_interval(sql: SqlText, i: int) -> _Replacements:
    """INTERVAL '1 day 04:05:06': hours, minutes and seconds by their names; quarters and millennia as months."""
    if i + 2 < len(sql.tokens) and sql.is_word(i + 2, "QUARTER", "QUARTERS"):
        count = sql.tokens[i + 1].text.strip("'")
        return [(i + 1, i + 3, f"'{3 * int(count)} months'")] if _WHOLE.fullmatch(count) else []
    if i + 1 == len(sql.tokens) or sql.tokens[i + 1].kind != "string":
        return []
    text = sql.tokens[i + 1].text
    written = _LONG_UNIT.sub(lambda part: f"{int(part.group(1)) * _LONG[part.group(2).lower()[0]]} months", text)
    found = _CLOCK.search(written)
    if found is not None:
        sign, *parts = found.groups(default="0")
        sign = "-" if sign == "-" else ""
        named = " ".join(f"{sign}{n} {unit}" for n, unit in zip(parts, ("hours", "minutes", "seconds"), strict=True))
        written = f"{written[: found.start()]}{named}{written[found.end() :]}"
    return [] if written == text else [(i + 1, i + 2, written)]


def _at(sql: SqlText, i: int) -> _Replacements:
    """x AT TIME ZONE zone: a call, whose result is of a type that the planner would not give it."""
    if not (sql.is_word(i + 1, "TIME") and sql.is_word(i + 2, "ZONE")) or i + 3 >= len(sql.tokens):
        return []
    if sql.tokens[i + 3].kind != "string":
        raise PlanError("AT TIME ZONE takes the zone's name as a text literal")
    start = operand_start(sql, i)
    return [(start, start, f"{AT_TIME_ZONE}("), (i, i + 4, f", {sql.tokens[i + 3].text})")]


def _collation(sql: SqlText, i: int) -> _Replacements:
    """Text compares by code points: what says so may stay out."""
    if i == 0 or i + 1 == len(sql.tokens) or not ends_value(sql, i - 1):
        return []
    name = sql.tokens[i + 1].text.strip('"').upper()
    if name in ("C", "POSIX", "BINARY"):
        return [(i, i + 2, "")]
    raise PlanError(
        f"COLLATE {name} is not supported: text compares by code points; lower(x) = lower(y) and ORDER BY lower(x) are "
        "for any case, and x ILIKE 'pattern'"
    )


_WORDS = {
    "AT": _at,
    "COLLATE": _collation,
    "EXTRACT": _extract,
    "INTERVAL": _interval,
    "SEMI": _join,
    "ANTI": _join,
    "POSITIONAL": _unknown_join,
    "FETCH": _fetch,
    "ORDER": _rank_order,
    "MATERIALIZED": _materialized,
    "GROUP": _group,
    "FILTER": _filter,
    "ISNULL": _null_test,
    "NOTNULL": _null_test,
}
