"""Signatures for DataFusion of functions that its SQL lacks.

qcore.frontends.sql registers them with the planner by name, number of arguments and fixed types. The planner converts
arguments to these types; qcore.functions gets the arguments as they were written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from qcore.expression.tree import Cast, Expr, Literal

TEXT = pa.string()
# An argument of any type: the planner converts every value to text, and the conversion is removed here.
ANY = pa.string_view()
# An argument of any numeric type.
NUMBER = pa.float64()
INTEGER = pa.int64()
DATE = pa.date32()
STAMP = pa.timestamp("us")
INSTANT = pa.timestamp("us", "UTC")
INTERVAL = pa.month_day_nano_interval()
# qcore.frontends.text.tokens writes SIMILAR TO as LIKE with this escape character, which no text has.
SIMILAR_ESCAPE = "\x01"
# A prefix of its pattern: the planner would turn a LIKE without wildcards into an equality.
SIMILAR_PREFIX = "_"
# qcore.frontends.text.synonyms writes AT TIME ZONE as this function.
AT_TIME_ZONE = "at_time_zone"
# qcore.frontends.text.arithmetic writes products and quotients of intervals as this function.
TIMES_INTERVAL = "times_interval"
# qcore.frontends.text.subscripts writes s[1] and s[1:2] as this function.
TEXT_SLICE = "text_slice"
# qcore.frontends.text.functions puts this around x::text among arguments of any type, which else would look like the
# planner's conversion.
AS_TEXT = "as_text"
_NANOS = 1_000_000_000
# The Julian day of the first of January 1970.
_JULIAN_1970 = 2_440_588.0
# qcore.frontends.text.lambdas marks the lambda of list_reduce with this function.
REDUCES = "list_reduce_of"
# Functions that stand for syntax in the text that the planner reads. Users do not call them.
STAND_FOR_SYNTAX = frozenset({AT_TIME_ZONE, TIMES_INTERVAL, TEXT_SLICE, AS_TEXT, REDUCES})
# Values that format() and printf() take.
PLACES_MAX = 9
# Bins of time_bucket start on a Monday.
BUCKET_ORIGIN = Literal(pa.scalar(946_857_600_000_000, STAMP).as_py(), STAMP)


@dataclass(frozen=True)
class DialectFunction:
    """The signature that the planner knows."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType


_INTERVAL_PART = re.compile(r"\s*(-?\d+(?:\.\d+)?) (year|mon|day|hour|min|sec)s?")
_INTERVAL_UNITS = {
    "year": (12, 0, 0), "mon": (1, 0, 0), "day": (0, 1, 0), "hour": (0, 0, 3600 * _NANOS), "min": (0, 0, 60 * _NANOS),
    "sec": (0, 0, _NANOS),
}  # fmt: skip


def parse_constant(argument: Expr) -> Expr:
    """The number or interval that the planner has converted to text. Other arguments are returned unchanged."""
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return argument
    if re.fullmatch(r"-?\d+", argument.value):
        return Literal(int(argument.value), INTEGER)
    if not re.fullmatch(rf"(?:{_INTERVAL_PART.pattern})+", argument.value):
        return argument
    total = [0, 0, 0]
    for count, unit in _INTERVAL_PART.findall(argument.value):
        total = [t + int(Decimal(count) * u) for t, u in zip(total, _INTERVAL_UNITS[unit], strict=True)]
    return Literal(pa.MonthDayNano(total), INTERVAL)


def drop_conversion(argument: Expr, wanted: pa.DataType) -> Expr:
    """The argument without the planner's conversion to ANY or NUMBER."""
    if wanted == ANY:
        while isinstance(argument, Cast) and pa.types.is_string(_plain(argument.to)):
            argument = argument.argument
        if isinstance(argument, Literal) and argument.value is None:
            return Literal(None, pa.null())
    elif wanted == NUMBER:
        if isinstance(argument, Cast) and argument.to == NUMBER:
            return argument.argument
        if isinstance(argument, Literal) and isinstance(argument.value, float) and argument.value.is_integer():
            return Literal(int(argument.value), INTEGER)
    return argument


def _plain(type_: pa.DataType) -> pa.DataType:
    return TEXT if pa.types.is_string_view(type_) or pa.types.is_large_string(type_) else type_


# Name and number of arguments.
DIALECT_FUNCTIONS: dict[tuple[str, int], DialectFunction] = {
    ("sign", 1): DialectFunction((NUMBER,), NUMBER),
    ("mod", 2): DialectFunction((NUMBER, NUMBER), NUMBER),
    ("ceiling", 1): DialectFunction((NUMBER,), NUMBER),
    ("isinf", 1): DialectFunction((ANY,), pa.bool_()),
    ("isfinite", 1): DialectFunction((ANY,), pa.bool_()),
    ("xor", 2): DialectFunction((INTEGER, INTEGER), INTEGER),
    ("len", 1): DialectFunction((ANY,), INTEGER),
    ("strlen", 1): DialectFunction((ANY,), INTEGER),
    ("ucase", 1): DialectFunction((TEXT,), TEXT),
    ("lcase", 1): DialectFunction((TEXT,), TEXT),
    ("prefix", 2): DialectFunction((TEXT, TEXT), pa.bool_()),
    ("suffix", 2): DialectFunction((TEXT, TEXT), pa.bool_()),
    ("startswith", 2): DialectFunction((TEXT, TEXT), pa.bool_()),
    ("endswith", 2): DialectFunction((TEXT, TEXT), pa.bool_()),
    ("unicode", 1): DialectFunction((TEXT,), INTEGER),
    ("ord", 1): DialectFunction((TEXT,), INTEGER),
    ("hamming", 2): DialectFunction((TEXT, TEXT), INTEGER),
    ("mismatches", 2): DialectFunction((TEXT, TEXT), INTEGER),
    ("editdist3", 2): DialectFunction((TEXT, TEXT), INTEGER),
    ("damerau_levenshtein", 2): DialectFunction((TEXT, TEXT), INTEGER),
    ("jaccard", 2): DialectFunction((TEXT, TEXT), NUMBER),
    **{
        (name, n): DialectFunction((TEXT, TEXT, NUMBER)[:n], NUMBER)
        for name in ("jaro_similarity", "jaro_winkler_similarity")
        for n in (2, 3)
    },
    **{
        (name, 1): DialectFunction((TEXT,), TEXT)
        for name in ("url_encode", "url_decode", "regexp_escape", "strip_accents", "nfc_normalize")
    },
    **{
        ("parse_path", n): DialectFunction((TEXT,) * n, pa.list_(TEXT))
        for n in (1, 2)
    },
    **{("parse_filename", n): DialectFunction((TEXT, ANY, TEXT)[:n], TEXT) for n in (1, 2, 3)},
    **{
        (name, n): DialectFunction((TEXT,) * n, TEXT)
        for name in ("parse_dirname", "parse_dirpath")
        for n in (1, 2)
    },
    **{
        ("regexp_extract_all", n): DialectFunction((TEXT, TEXT, INTEGER, TEXT)[:n], pa.list_(TEXT))
        for n in (2, 3, 4)
    },
    **{("to_base", n): DialectFunction((INTEGER,) * n, TEXT) for n in (2, 3)},
    **{
        (name, 1): DialectFunction((INTEGER,), TEXT)
        for name in ("format_bytes", "formatreadablesize", "formatreadabledecimalsize")
    },
    **{(name, 1): DialectFunction((NUMBER,), NUMBER) for name in ("even", "gamma", "lgamma")},
    **{(name, 2): DialectFunction((NUMBER, NUMBER), NUMBER) for name in ("fdiv", "fmod", "nextafter")},
    ("signbit", 1): DialectFunction((NUMBER,), pa.bool_()),
    **{
        (name, 2): DialectFunction((ANY, ANY), NUMBER)
        for kind in ("list", "array")
        for name in (
            f"{kind}_distance", f"{kind}_inner_product", f"{kind}_dot_product", f"{kind}_negative_inner_product",
            f"{kind}_negative_dot_product", f"{kind}_cosine_similarity", f"{kind}_cosine_distance",
        )
    },
    ("array_cross_product", 2): DialectFunction((ANY, ANY), pa.list_(NUMBER)),
    **{
        (name, 1): DialectFunction((ANY,), INTEGER)
        for name in ("list_unique", "array_unique", "list_approx_count_distinct", "list_count")
    },
    **{
        (name, n): DialectFunction((ANY, TEXT, TEXT)[:n], pa.list_(INTEGER))
        for name in ("list_grade_up", "array_grade_up")
        for n in (1, 2, 3)
    },
    ("string_split_regex", 2): DialectFunction((TEXT, TEXT), pa.list_(TEXT)),
    ("str_split_regex", 2): DialectFunction((TEXT, TEXT), pa.list_(TEXT)),
    ("regexp_split_to_array", 2): DialectFunction((TEXT, TEXT), pa.list_(TEXT)),
    ("sha1", 1): DialectFunction((ANY,), TEXT),
    ("sha", 1): DialectFunction((ANY,), TEXT),
    ("sha2", 2): DialectFunction((ANY, INTEGER), TEXT),
    **{
        (name, 1): DialectFunction((ANY,), TEXT) for name in ("sha224", "sha256", "sha384", "sha512")
    },
    ("base64", 1): DialectFunction((ANY,), TEXT),
    ("to_base64", 1): DialectFunction((ANY,), TEXT),
    ("unbase64", 1): DialectFunction((TEXT,), pa.binary()),
    ("from_base64", 1): DialectFunction((TEXT,), pa.binary()),
    ("regexp_matches", 2): DialectFunction((TEXT, TEXT), pa.bool_()),
    ("regexp_matches", 3): DialectFunction((TEXT, TEXT, TEXT), pa.bool_()),
    ("regexp_full_match", 2): DialectFunction((TEXT, TEXT), pa.bool_()),
    ("regexp_full_match", 3): DialectFunction((TEXT, TEXT, TEXT), pa.bool_()),
    ("regexp_extract", 2): DialectFunction((TEXT, TEXT), TEXT),
    ("regexp_extract", 3): DialectFunction((TEXT, TEXT, INTEGER), TEXT),
    ("regexp_extract", 4): DialectFunction((TEXT, TEXT, INTEGER, TEXT), TEXT),
    ("strftime", 2): DialectFunction((ANY, ANY), TEXT),
    ("strptime", 2): DialectFunction((TEXT, TEXT), STAMP),
    ("try_strptime", 2): DialectFunction((TEXT, TEXT), STAMP),
    ("date_diff", 3): DialectFunction((TEXT, ANY, ANY), INTEGER),
    ("datediff", 3): DialectFunction((TEXT, ANY, ANY), INTEGER),
    ("datediff", 2): DialectFunction((ANY, ANY), INTEGER),
    ("date_add", 2): DialectFunction((ANY, ANY), STAMP),
    ("date_sub", 3): DialectFunction((TEXT, ANY, ANY), INTEGER),
    ("datesub", 3): DialectFunction((TEXT, ANY, ANY), INTEGER),
    ("make_timestamp", 1): DialectFunction((INTEGER,), STAMP),
    ("make_timestamp", 6): DialectFunction((*(INTEGER,) * 5, NUMBER), STAMP),
    ("make_timestamp_ms", 1): DialectFunction((INTEGER,), STAMP),
    ("make_timestamp_ns", 1): DialectFunction((INTEGER,), pa.timestamp("ns")),
    (AS_TEXT, 1): DialectFunction((TEXT,), TEXT),
    ("make_time", 3): DialectFunction((INTEGER, INTEGER, NUMBER), pa.time64("us")),
    ("hex", 1): DialectFunction((ANY,), TEXT),
    ("unhex", 1): DialectFunction((TEXT,), pa.binary()),
    ("from_hex", 1): DialectFunction((TEXT,), pa.binary()),
    ("bin", 1): DialectFunction((ANY,), TEXT),
    ("to_binary", 1): DialectFunction((ANY,), TEXT),
    ("unbin", 1): DialectFunction((TEXT,), pa.binary()),
    ("from_binary", 1): DialectFunction((TEXT,), pa.binary()),
    ("bit_count", 1): DialectFunction((ANY,), INTEGER),
    (REDUCES, 1): DialectFunction((INTEGER,), INTEGER),
    ("typeof", 1): DialectFunction((ANY,), TEXT),
    **{
        (f"list_{name}", 1): DialectFunction((ANY,), NUMBER)
        for name in (
            "product", "skewness", "kurtosis", "kurtosis_pop", "mad", "entropy", "avg", "median", "stddev_pop",
            "stddev_samp", "var_pop", "var_samp", "sem",
        )
    },
    ("list_histogram", 1): DialectFunction((ANY,), pa.map_(TEXT, INTEGER)),
    **{
        (name, n + 1): DialectFunction((TEXT, *(ANY,) * n), TEXT)
        for name in ("format", "printf")
        for n in range(PLACES_MAX + 1)
    },
    ("date_sub", 2): DialectFunction((ANY, ANY), STAMP),
    ("add_months", 2): DialectFunction((ANY, INTEGER), DATE),
    ("last_day", 1): DialectFunction((ANY,), DATE),
    ("age", 2): DialectFunction((ANY, ANY), INTERVAL),
    ("time_bucket", 2): DialectFunction((ANY, ANY), STAMP),
    ("time_bucket", 3): DialectFunction((ANY, ANY, ANY), STAMP),
    (TIMES_INTERVAL, 2): DialectFunction((ANY, NUMBER), INTERVAL),
    (TIMES_INTERVAL, 3): DialectFunction((ANY, NUMBER, NUMBER), INTERVAL),
    (TEXT_SLICE, 3): DialectFunction((TEXT, INTEGER, INTEGER), TEXT),
    (AT_TIME_ZONE, 2): DialectFunction((ANY, TEXT), INSTANT),
    ("monthname", 1): DialectFunction((ANY,), TEXT),
    ("dayname", 1): DialectFunction((ANY,), TEXT),
    ("epoch", 1): DialectFunction((ANY,), NUMBER),
    ("epoch_ms", 1): DialectFunction((ANY,), INTEGER),
    ("epoch_us", 1): DialectFunction((ANY,), INTEGER),
    ("epoch_ns", 1): DialectFunction((ANY,), INTEGER),
    ("julian", 1): DialectFunction((ANY,), NUMBER),
    ("era", 1): DialectFunction((ANY,), INTEGER),
    ("yearweek", 1): DialectFunction((ANY,), INTEGER),
    **{
        (name, 1): DialectFunction((ANY,), INTEGER)
        for name in (
            "year", "quarter", "month", "week", "weekofyear", "day", "dayofmonth", "dayofweek", "weekday",
            "nanosecond", "isodow", "dayofyear", "isoyear", "hour", "minute", "second", "millisecond", "microsecond",
            "decade", "century", "millennium",
        )
    },
    **{
        (name, 1): DialectFunction((INTEGER,), INTERVAL)
        for name in (
            "to_millennia", "to_centuries", "to_decades", "to_years", "to_quarters", "to_months", "to_weeks", "to_days",
            "to_hours", "to_minutes", "to_seconds", "to_milliseconds", "to_microseconds",
        )
    },
}  # fmt: skip
NAMES = {name for name, _ in DIALECT_FUNCTIONS}
# Names with several numbers of arguments. The planner knows one signature for a name, so the name gets the number.
OVERLOADED = {name for name, _ in DIALECT_FUNCTIONS if sum(other == name for other, _ in DIALECT_FUNCTIONS) > 1}


def planner_name(name: str, n_arguments: int) -> str:
    """The planner's name of the function."""
    return f"{name}/{n_arguments}" if name in OVERLOADED else name
