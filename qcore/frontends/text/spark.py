"""Spark's texts, operators and functions written in the words that the other dialects share.

What has another meaning in Spark than elsewhere, or is known there alone; the rest of its functions all dialects have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from qcore.errors import PlanError
from qcore.frontends.text.clauses import JOINS, begins_clause, items, quoted
from qcore.frontends.text.operands import begins_value, ends_value
from qcore.frontends.text.tokens import SqlText

_MATCHES = ("RLIKE", "REGEXP")
_PARTS = {
    **dict.fromkeys(("yy", "yyyy"), "year"),
    **dict.fromkeys(("mon", "mm"), "month"),
    "dd": "day",
}
_DAYS = {name: n for n, day in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
         for name in (day, day[:3], day[:2])}  # fmt: skip


def with_shared_words(text: str) -> str:
    """Spark's query with its operators and functions as other dialects have them.

    Raises
    ------
    PlanError
        A function that is not known, or not with such arguments.
    """
    sql = SqlText.read(text)
    return _written(sql, 0, len(sql.tokens))


def _written(sql: SqlText, start: int, end: int) -> str:
    """Tokens start to end in shared words."""
    if start >= end:
        return ""
    parts, at, i = [], sql.tokens[start].start, start
    while i < end:
        found = _lateral_view(sql, i) or _operator(sql, i) or _called(sql, i)
        if found is None:
            i += 1
            continue
        stop, made = found
        parts += [sql.text[at : sql.tokens[i].start], made]
        at, i = sql.tokens[stop - 1].end, stop
    return "".join([*parts, sql.text[at : sql.tokens[end - 1].end]]) if at < sql.tokens[end - 1].end else "".join(parts)


def _lateral_view(sql: SqlText, i: int) -> tuple[int, str] | None:
    """LATERAL VIEW [OUTER] explode(x) [name] [AS column] as UNNEST among the tables."""
    if not (sql.is_word(i, "LATERAL") and sql.is_word(i + 1, "VIEW")):
        return None
    outer = sql.is_word(i + 2, "OUTER")
    at = i + 2 + outer
    if not sql.is_word(at, "EXPLODE", "EXPLODE_OUTER") or not sql.is_sign(at + 1, "("):
        raise PlanError(
            f"LATERAL VIEW {sql.slice(at, at + 1).lower()} is not supported; explode is, and UNNEST(…) WITH ORDINALITY "
            "AS t(value, place) among the tables counts from 1"
        )
    outer = outer or sql.is_word(at, "EXPLODE_OUTER")
    close = sql.partner[at + 1]
    value, end = _written(sql, at + 2, close), close + 1
    is_named = end < len(sql.tokens) and sql.tokens[end].kind in ("word", "quoted")
    name, column = f"$view{i}", "col"
    if is_named and not sql.is_word(end, "AS", "LATERAL", *JOINS) and not begins_clause(sql, end):
        name, end = sql.name(end), end + 1
    if sql.is_word(end, "AS"):
        column, end = sql.name(end + 1), end + 2
    table = f"UNNEST({value}) AS {quoted(name)}({quoted(column)})"
    return end, f"LEFT JOIN {table} ON TRUE" if outer else f", {table}"


def _operator(sql: SqlText, i: int) -> tuple[int, str] | None:
    """Where the operator at token i ends, and what stands for it."""
    if sql.is_word(i, "DIV") and ends_value(sql, i - 1) and begins_value(sql, i + 1):
        return i + 1, "//"
    negated = sql.is_word(i, "NOT")
    if sql.is_word(i + negated, *_MATCHES) and ends_value(sql, i - 1) and begins_value(sql, i + negated + 1):
        return i + negated + 1, "!~" if negated else "~"
    if (
        sql.is_sign(i, "[")
        and ends_value(sql, i - 1)
        and (sql.partner[i] != i + 2 or sql.tokens[i + 1].kind != "string")
    ):
        written = sql.slice(i - 1, min(sql.partner[i] + 1, len(sql.tokens)))
        raise PlanError(f"{written}: Spark counts an array's elements from 0 there; write element_at(…), from 1")
    is_not = sql.is_sign(i, "!") and not any(sql.is_sign(i + 1, sign) for sign in "=~")
    return (i + 1, "NOT ") if is_not and begins_value(sql, i + 1) else None


def _called(sql: SqlText, i: int) -> tuple[int, str] | None:
    """Where the call at token i ends, and what stands for it."""
    if sql.tokens[i].kind != "word" or not sql.is_sign(i + 1, "(") or sql.partner[i + 1] >= len(sql.tokens):
        return None
    if any(sql.is_sign(i - 1, sign) for sign in ".:") or sql.is_word(i - 1, "AS", "TABLE", "VIEW"):
        return None
    name, close = sql.tokens[i].text, sql.partner[i + 1]
    if name in ("ANY", "SOME") and any(sql.is_sign(i - 1, sign) for sign in "=<>"):
        return None
    if name in _REFUSED:
        raise PlanError(_REFUSED[name])
    if name in ("COLLECT_LIST", "COLLECT_SET"):
        return _collected(sql, i, close, name == "COLLECT_SET")
    if name not in _NAMES:
        return None
    parts = [_written(sql, a, b) for a, b in items(sql, i + 2, close)] if close > i + 2 else []
    made = _MADE[name](parts) if name in _MADE else None
    if made is None and (name, len(parts)) in _TEMPLATES:
        made = _TEMPLATES[name, len(parts)].format(*(f"({part})" for part in parts))
    return None if made is None else (close + 1, made)


def _collected(sql: SqlText, i: int, close: int, distinct: bool) -> tuple[int, str]:
    """collect_list: no nulls, and an empty list of no rows."""
    first = i + 2 + sql.is_word(i + 2, "DISTINCT")
    distinct = distinct or first > i + 2
    value, end = _written(sql, first, close), close + 1
    condition = f"({value}) IS NOT NULL"
    if sql.is_word(end, "FILTER") and sql.is_sign(end + 1, "("):
        stop = sql.partner[end + 1]
        condition, end = f"{condition} AND ({_written(sql, end + 3, stop)})", stop + 1
    over = ""
    if sql.is_word(end, "OVER"):
        stop = sql.partner[end + 1] + 1 if sql.is_sign(end + 1, "(") else end + 2
        over, end = f" {_written(sql, end, stop)}", stop
    listed = f"array_agg({'DISTINCT ' if distinct else ''}{value}) FILTER (WHERE {condition}){over}"
    return end, f"coalesce({listed}, make_array())"


def _text(part: str) -> str | None:
    """The value of a text literal."""
    return part[1:-1].replace("''", "'") if re.fullmatch(r"'(?:[^']|'')*'", part) else None


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _regexp_replace(parts: Sequence[str]) -> str | None:
    """What refers to groups of the pattern: $1 with a backslash before the number."""
    new = _text(parts[2]) if len(parts) == 3 else None
    if new is None or not ("$" in new or "\\" in new):
        return None
    made, at = "", 0
    while at < len(new):
        if new[at] == "\\" and at + 1 < len(new):
            made, at = made + ("\\\\" if new[at + 1] == "\\" else new[at + 1]), at + 2
            continue
        made, at = made + ("\\" if new[at] == "$" else new[at]), at + 1
    return None if made == new else f"regexp_replace({parts[0]}, {parts[1]}, {_quoted(made)})"


def _part_of_date(name: str, part: str) -> str | None:
    unit = _text(part)
    if unit is None:
        raise PlanError(f"{name} takes the part as a text literal, such as 'month'")
    return _PARTS.get(unit.lower(), unit.lower())


def _trunc(parts: Sequence[str]) -> str | None:
    if len(parts) != 2:
        return None
    return f"CAST(date_trunc('{_part_of_date('trunc', parts[1])}', CAST({parts[0]} AS DATE)) AS DATE)"


def _date_trunc(parts: Sequence[str]) -> str | None:
    unit = _text(parts[0]) if len(parts) == 2 else None
    if unit is None or unit.lower() not in _PARTS:
        return None
    return f"date_trunc('{_PARTS[unit.lower()]}', {parts[1]})"


def _next_day(parts: Sequence[str]) -> str | None:
    day = _DAYS.get((_text(parts[1]) or "").lower()) if len(parts) == 2 else None
    if day is None:
        raise PlanError("next_day takes a date and the name of a day as a text literal, such as 'Monday' or 'MO'")
    date = f"CAST({parts[0]} AS DATE)"
    return f"({date} + CAST(({day} - isodow({date}) + 7) % 7 + 1 AS INT))"


def _bool_or(parts: Sequence[str]) -> str | None:
    return f"bool_or({parts[0]})" if len(parts) == 1 else None


def _sort_array(parts: Sequence[str]) -> str | None:
    if len(parts) == 2 and parts[1].lower() not in ("true", "false"):
        raise PlanError("sort_array takes true or false as its second argument")
    falls = len(parts) == 2 and parts[1].lower() == "false"
    return f"array_sort({parts[0]}, {chr(39)}{'DESC' if falls else 'ASC'}', 'NULLS {'LAST' if falls else 'FIRST'}')"


_REFUSED = {
    "PERCENTILE_APPROX": "percentile_approx is not supported; percentile(x, share) and median(x) are exact",
    "APPROX_PERCENTILE": "approx_percentile is not supported; percentile(x, share) and median(x) are exact",
}
_MADE: dict[str, Callable[[Sequence[str]], str | None]] = {
    "REGEXP_REPLACE": _regexp_replace,
    "TRUNC": _trunc,
    "DATE_TRUNC": _date_trunc,
    "NEXT_DAY": _next_day,
    "SORT_ARRAY": _sort_array,
    "ARRAY": lambda parts: f"make_array({', '.join(parts)})",
    "ANY": _bool_or,
    "SOME": _bool_or,
    "EXPLODE": lambda parts: f"unnest({', '.join(parts)})",
    "TRANSFORM": lambda parts: f"list_transform({', '.join(parts)})" if len(parts) == 2 else None,
    "FILTER": lambda parts: f"list_filter({', '.join(parts)})" if len(parts) == 2 else None,
    "CHAR": lambda parts: f"chr({parts[0]})" if len(parts) == 1 else None,
    "PERCENTILE": lambda parts: f"quantile_cont({', '.join(parts)})" if len(parts) == 2 else None,
}
_SECONDS = "(hour({0}) * 3600 + minute({0}) * 60 + second({0}))"


def _months_between() -> str:
    a, b = "CAST({0} AS TIMESTAMP)", "CAST({1} AS TIMESTAMP)"
    months = f"((year({a}) - year({b})) * 12 + month({a}) - month({b}))"
    ends = f"(day({a}) = day(last_day({a})) AND day({b}) = day(last_day({b})))"
    seconds = f"((day({a}) - day({b})) * 86400 + {_SECONDS.format(a)} - {_SECONDS.format(b)})"
    of_days = f"round({months} + CAST({seconds} AS DOUBLE) / 2678400, 8)"
    return f"(CASE WHEN day({a}) = day({b}) OR {ends} THEN CAST({months} AS DOUBLE) ELSE {of_days} END)"


def _seconds(stamp: str) -> str:
    return f"CAST(floor(epoch({stamp})) AS BIGINT)"


_FOUND_FROM = (
    "(CASE WHEN {2} < 1 THEN 0 WHEN strpos(substring({1}, {2}), {0}) = 0 THEN 0 "
    "ELSE strpos(substring({1}, {2}), {0}) + {2} - 1 END)"
)
_STAMP_PATTERN = "'yyyy-MM-dd HH:mm:ss'"
_LAST_OF_SLICE = "CASE WHEN {1} < 0 THEN least({1} + {2} - 1, -1) ELSE {1} + {2} - 1 END"
# By name and number of arguments, which stand in brackets.
_TEMPLATES = {
    ("PMOD", 2): "(CASE WHEN {0} % {1} < 0 THEN ({0} % {1} + {1}) % {1} ELSE {0} % {1} END)",
    ("ISNULL", 1): "({0} IS NULL)",
    ("ISNOTNULL", 1): "({0} IS NOT NULL)",
    **{(name, 2): "strpos({1}, {0})" for name in ("LOCATE", "POSITION", "CHARINDEX")},
    **{(name, 3): _FOUND_FROM for name in ("LOCATE", "POSITION", "CHARINDEX")},
    **{(name, 2): "(CAST({0} AS DATE) + {1})" for name in ("DATE_ADD", "DATEADD")},
    ("DATE_SUB", 2): "(CAST({0} AS DATE) - {1})",
    ("DATE_DIFF", 2): "datediff({0}, {1})",
    ("MONTHS_BETWEEN", 2): _months_between(),
    **{
        (name, n): _seconds(stamp)
        for name in ("UNIX_TIMESTAMP", "TO_UNIX_TIMESTAMP")
        for n, stamp in ((0, "now()"), (1, "CAST({0} AS TIMESTAMP)"), (2, "to_timestamp({0}, {1})"))
    },
    ("FROM_UNIXTIME", 1): f"date_format(to_timestamp_seconds({{0}}), {_STAMP_PATTERN})",
    ("FROM_UNIXTIME", 2): "date_format(to_timestamp_seconds({0}), {1})",
    ("TIMESTAMP_SECONDS", 1): "to_timestamp_seconds({0})",
    ("UNIX_DATE", 1): "datediff({0}, DATE '1970-01-01')",
    ("DATE_FROM_UNIX_DATE", 1): "(DATE '1970-01-01' + {0})",
    ("WEEKDAY", 1): "(isodow({0}) - 1)",
    ("REGEXP_EXTRACT", 2): "regexp_extract({0}, {1}, 1)",
    ("SPLIT", 2): "string_split_regex({0}, {1})",
    ("MAP_FROM_ARRAYS", 2): "map({0}, {1})",
    ("ELEMENT_AT", 2): "({0})[{1}]",
    ("ARRAY_POSITION", 2): "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL "
    "THEN coalesce(array_position({0}, {1}), 0) END)",
    ("ARRAY_REMOVE", 2): "array_remove_all({0}, {1})",
    ("ARRAYS_OVERLAP", 2): "array_has_any({0}, {1})",
    ("SEQUENCE", 2): "generate_series({0}, {1}, CASE WHEN {0} <= {1} THEN 1 ELSE -1 END)",
    ("SEQUENCE", 3): "generate_series({0}, {1}, {2})",
    ("SLICE", 3): f"({{0}})[{{1}}:{_LAST_OF_SLICE}]",
    ("E", 0): "exp(CAST(1 AS DOUBLE))",
    ("NEGATIVE", 1): "(- {0})",
    ("POSITIVE", 1): "(+ {0})",
    ("RAND", 0): "random()",
    ("SPACE", 1): "repeat(' ', {0})",
    ("TRY_DIVIDE", 2): "({0} / nullif({1}, 0))",
    ("ZEROIFNULL", 1): "coalesce({0}, 0)",
    ("NULLIFZERO", 1): "nullif({0}, 0)",
    **{
        (name, 1): f"CAST({{0}} AS {name})"
        for name in (
            "STRING",
            "TINYINT",
            "SMALLINT",
            "INT",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
            "DATE",
            "TIMESTAMP",
            "BOOLEAN",
        )
    },
}
_NAMES = {*_MADE, *(name for name, _ in _TEMPLATES)}
