"""Conversion of date and time patterns of PostgreSQL and Spark to patterns of strftime."""

from __future__ import annotations

import re

from qcore.errors import PlanError

_POSTGRESQL = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "FMMonth": "%B", "Mon": "%b", "DDD": "%j", "DD": "%d", "FMDay": "%A",
    "Dy": "%a", "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "US": "%f", "AM": "%p", "PM": "%p",
    "IYYY": "%G", "IW": "%V", "ID": "%u",
}  # fmt: skip
# PostgreSQL reads these fields in any case. The case of the others is that of the name in the result.
_IN_ANY_CASE = {name.upper() for name in _POSTGRESQL if not name.startswith("FM") and name not in ("Mon", "Dy")}
_SPARK = {
    "yyyy": "%Y", "y": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "DDD": "%j", "HH": "%H",
    "hh": "%I", "mm": "%M", "ss": "%S", "SSSSSS": "%f", "a": "%p", "E": "%a", "EEE": "%a", "EEEE": "%A",
}  # fmt: skip
# MM is the month, but after HH a user means minutes.
_MONTH_OF_HOUR = re.compile(r"HH(?:24|12)?[^A-Za-z]*MM", re.IGNORECASE)
_WORDS = re.compile(r"\"([^\"]*)\"|(FMMonth|FMDay)|([A-Za-z]+(?:24|12)?)|([^A-Za-z\"]+)")
_RUNS = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z']+)")


def strftime_pattern(pattern: str, spark: bool) -> str:
    """The pattern for strftime and strptime. A pattern with % is not changed. PlanError for an unsupported field."""
    if "%" in pattern:
        return pattern
    return _convert_spark(pattern) if spark else _convert_postgresql(pattern)


def _convert_postgresql(pattern: str) -> str:
    if (found := _MONTH_OF_HOUR.search(pattern)) is not None:
        raise _unknown_field(found.group()[-2:], pattern)
    parts = []
    for quoted, long, word, signs in _WORDS.findall(pattern):
        if long:
            parts.append(_POSTGRESQL[long])
        elif word:
            parts.append(_fields(word, pattern))
        else:
            parts.append(quoted or signs)
    return "".join(parts)


def _fields(word: str, pattern: str) -> str:
    """A run of letters, which may be several fields: YYYYMMDD."""
    parts, at = [], 0
    while at < len(word):
        for length in (4, 3, 2):
            field = word[at : at + length]
            known = _POSTGRESQL.get(field) or (field.upper() in _IN_ANY_CASE and _POSTGRESQL[field.upper()])
            if known:
                parts.append(known)
                at += length
                break
        else:
            if word[at : at + 1] == "T" and at > 0:
                parts.append("T")
                at += 1
                continue
            raise _unknown_field(word, pattern)
    return "".join(parts)


def _convert_spark(pattern: str) -> str:
    parts = []
    for quoted, run, _, signs in _RUNS.findall(pattern):
        if run and run not in _SPARK:
            raise _unknown_field(run, pattern)
        parts.append(_SPARK[run] if run else quoted.replace("''", "'") or signs)
    return "".join(parts)


def _unknown_field(field: str, pattern: str) -> PlanError:
    return PlanError(
        f"{field!r} in the pattern {pattern!r} is not supported; write strftime's fields, as in '%Y-%m-%d %H:%M:%S'"
    )
