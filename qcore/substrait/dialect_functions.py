"""Functions of DuckDB, PostgreSQL and Spark that DataFusion's SQL lacks.

qcore.frontends.sql registers them with the planner by name, number of arguments and fixed types. The planner converts
arguments to these types. The expressions built here use the arguments as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from qcore.expression.tree import Call, Case, Cast, Expr, Literal, call

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
    """The signature that the planner knows, and a function that builds the expression of a call."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    build: Callable[..., Expr]


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


def _call(name: str) -> Callable[..., Expr]:
    return lambda *arguments: Call(name, arguments)


def _interval(months: int, days: int, nanos: int) -> Callable[[Expr], Expr]:
    unit = Literal(pa.MonthDayNano([months, days, nanos]), INTERVAL)
    return lambda count: call("multiply", unit, count)


def _sha2(value: Expr, bits: Expr) -> Expr:
    return Call(f"sha{bits.value or 256}" if isinstance(bits, Literal) else "sha256", (value,))


def _days_between(late: Expr, early: Expr) -> Expr:
    return call("date_diff", "day", early, late)


def _add_months(when: Expr, count: Expr) -> Expr:
    return call("add", Cast(when, DATE), _interval(1, 0, 0)(count))


def _since_1970(unit: str) -> Callable[[Expr], Expr]:
    return lambda when: call("date_diff", unit, Cast(Literal(0, INTEGER), STAMP), when)


def _year_and_week(when: Expr) -> Expr:
    return call("add", call("multiply", Call("iso_year", (when,)), 100), Call("week", (when,)))


def _julian(when: Expr) -> Expr:
    """The Julian day: days since the first day of the year 4713 before the common era, which start at midnight."""
    return call("add", call("divide", Call("epoch", (when,)), 86_400.0), _JULIAN_1970)


def _code_point(text: Expr) -> Expr:
    """The code point of the first letter; -1 for an empty text, for which ascii() returns 0."""
    return Case(((call("equal", text, ""), Literal(-1, INTEGER)),), Call("ascii", (text,)))


def _at_time_zone(when: Expr, zone: Expr) -> Expr:
    """AT TIME ZONE. The planner converts constants to text; the text of an instant ends in its offset from UTC."""
    if isinstance(when, Literal) and isinstance(when.value, str):
        has_zone = re.search(r":\d\d(?:\.\d+)?(?:Z|[-+]\d\d(?::?\d\d)?)$", when.value) is not None
        when = Cast(when, pa.timestamp("us", "UTC" if has_zone else None))
    return Call("at_time_zone", (when, zone))


def _text_slice(text: Expr, first: Expr, last: Expr) -> Expr:
    """Letters `first` to `last`. Positions count from 1; negative ones count from the end."""
    if isinstance(text, Call) and text.function == "substring":
        text = text.arguments[0]
    unknown = Call("or", (Call("is_null", (first,)), Call("is_null", (last,))))
    first, last = (_from_start(position, text) for position in (first, last))
    first = call("greatest", first, 1)
    part = call("substring", text, first, call("greatest", call("add", call("subtract", last, first), 1), 0))
    return Case(((unknown, Literal(None, TEXT)),), part)


def _from_start(position: Expr, text: Expr) -> Expr:
    if isinstance(position, Literal) and isinstance(position.value, int) and position.value >= 0:
        return position
    from_start = call("add", call("add", Call("length", (text,)), position), 1)
    return Case(((call("less", position, 0), from_start),), position)


def _strftime(when: Expr, form: Expr) -> Expr:
    """strftime. DuckDB takes the format as the first or the second argument."""
    first_is_form = isinstance(when, Literal) and isinstance(when.value, str) and "%" in when.value
    if first_is_form and not (isinstance(form, Literal) and "%" in str(form.value)):
        when, form = form, when
    return Call("strftime", (when, form))


def _time_bucket(width: Expr, when: Expr, origin: Expr | None = None) -> Expr:
    """The start of a time's bin. A third argument is the start of a bin, or an interval that moves all bins."""
    width = parse_constant(width)
    moved = None if origin is None else parse_constant(origin)
    if isinstance(moved, Literal) and pa.types.is_interval(moved.type):
        return call("add", _time_bucket(width, call("subtract", Cast(when, STAMP), moved)), moved)
    if isinstance(width, Literal) and pa.types.is_interval(width.type) and width.value and width.value[0]:
        return Call("month_bin", (width, when) if origin is None else (width, when, origin))
    start = BUCKET_ORIGIN if origin is None else Cast(origin, STAMP)
    return call("date_bin", width, when, start)


def _format_with(pattern: str) -> Callable[[Expr], Expr]:
    return lambda when: call("strftime", when, pattern)


# Name and number of arguments.
DIALECT_FUNCTIONS: dict[tuple[str, int], DialectFunction] = {
    ("sign", 1): DialectFunction((NUMBER,), NUMBER, _call("sign")),
    ("mod", 2): DialectFunction((NUMBER, NUMBER), NUMBER, _call("modulo")),
    ("ceiling", 1): DialectFunction((NUMBER,), NUMBER, _call("ceil")),
    ("isinf", 1): DialectFunction((ANY,), pa.bool_(), _call("is_infinite")),
    ("isfinite", 1): DialectFunction((ANY,), pa.bool_(), _call("is_finite")),
    ("xor", 2): DialectFunction((INTEGER, INTEGER), INTEGER, _call("bitwise_xor")),
    ("len", 1): DialectFunction((ANY,), INTEGER, _call("length")),
    ("strlen", 1): DialectFunction((ANY,), INTEGER, _call("octet_length")),
    ("ucase", 1): DialectFunction((TEXT,), TEXT, _call("upper")),
    ("lcase", 1): DialectFunction((TEXT,), TEXT, _call("lower")),
    ("prefix", 2): DialectFunction((TEXT, TEXT), pa.bool_(), _call("starts_with")),
    ("suffix", 2): DialectFunction((TEXT, TEXT), pa.bool_(), _call("ends_with")),
    ("startswith", 2): DialectFunction((TEXT, TEXT), pa.bool_(), _call("starts_with")),
    ("endswith", 2): DialectFunction((TEXT, TEXT), pa.bool_(), _call("ends_with")),
    ("unicode", 1): DialectFunction((TEXT,), INTEGER, _code_point),
    ("ord", 1): DialectFunction((TEXT,), INTEGER, _code_point),
    ("hamming", 2): DialectFunction((TEXT, TEXT), INTEGER, _call("hamming")),
    ("mismatches", 2): DialectFunction((TEXT, TEXT), INTEGER, _call("hamming")),
    ("editdist3", 2): DialectFunction((TEXT, TEXT), INTEGER, _call("levenshtein")),
    ("damerau_levenshtein", 2): DialectFunction((TEXT, TEXT), INTEGER, _call("damerau_levenshtein")),
    ("jaccard", 2): DialectFunction((TEXT, TEXT), NUMBER, _call("jaccard")),
    **{
        (name, n): DialectFunction((TEXT, TEXT, NUMBER)[:n], NUMBER, _call(name))
        for name in ("jaro_similarity", "jaro_winkler_similarity")
        for n in (2, 3)
    },
    **{
        (name, 1): DialectFunction((TEXT,), TEXT, _call(name))
        for name in ("url_encode", "url_decode", "regexp_escape", "strip_accents", "nfc_normalize")
    },
    **{
        ("parse_path", n): DialectFunction((TEXT,) * n, pa.list_(TEXT), _call("parse_path"))
        for n in (1, 2)
    },
    **{("parse_filename", n): DialectFunction((TEXT, ANY, TEXT)[:n], TEXT, _call("parse_filename")) for n in (1, 2, 3)},
    **{
        (name, n): DialectFunction((TEXT,) * n, TEXT, _call(name))
        for name in ("parse_dirname", "parse_dirpath")
        for n in (1, 2)
    },
    **{
        ("regexp_extract_all", n): DialectFunction(
            (TEXT, TEXT, INTEGER, TEXT)[:n], pa.list_(TEXT), _call("regexp_extract_all")
        )
        for n in (2, 3, 4)
    },
    **{("to_base", n): DialectFunction((INTEGER,) * n, TEXT, _call("to_base")) for n in (2, 3)},
    **{
        (name, 1): DialectFunction((INTEGER,), TEXT, _call(own))
        for name, own in {
            "format_bytes": "format_bytes", "formatreadablesize": "format_bytes",
            "formatreadabledecimalsize": "format_decimal_bytes",
        }.items()
    },
    **{(name, 1): DialectFunction((NUMBER,), NUMBER, _call(name)) for name in ("even", "gamma", "lgamma")},
    **{(name, 2): DialectFunction((NUMBER, NUMBER), NUMBER, _call(name)) for name in ("fdiv", "fmod", "nextafter")},
    ("signbit", 1): DialectFunction((NUMBER,), pa.bool_(), _call("signbit")),
    **{
        (name, 2): DialectFunction((ANY, ANY), NUMBER, _call(own))
        for kind in ("list", "array")
        for name, own in {
            f"{kind}_distance": "list_distance",
            f"{kind}_inner_product": "list_inner_product",
            f"{kind}_dot_product": "list_inner_product",
            f"{kind}_negative_inner_product": "list_negative_inner_product",
            f"{kind}_negative_dot_product": "list_negative_inner_product",
            f"{kind}_cosine_similarity": "list_cosine_similarity",
            f"{kind}_cosine_distance": "list_cosine_distance",
        }.items()
    },
    ("array_cross_product", 2): DialectFunction((ANY, ANY), pa.list_(NUMBER), _call("array_cross_product")),
    **{
        (name, 1): DialectFunction((ANY,), INTEGER, _call(own))
        for name, own in {
            "list_unique": "list_count_distinct", "array_unique": "list_count_distinct",
            "list_approx_count_distinct": "list_count_distinct", "list_count": "list_count",
        }.items()
    },
    **{
        (name, n): DialectFunction((ANY, TEXT, TEXT)[:n], pa.list_(INTEGER), _call("list_grade_up"))
        for name in ("list_grade_up", "array_grade_up")
        for n in (1, 2, 3)
    },
    ("string_split_regex", 2): DialectFunction((TEXT, TEXT), pa.list_(TEXT), _call("string_split_regex")),
    ("str_split_regex", 2): DialectFunction((TEXT, TEXT), pa.list_(TEXT), _call("string_split_regex")),
    ("regexp_split_to_array", 2): DialectFunction((TEXT, TEXT), pa.list_(TEXT), _call("string_split_regex")),
    ("sha1", 1): DialectFunction((ANY,), TEXT, _call("sha1")),
    ("sha", 1): DialectFunction((ANY,), TEXT, _call("sha1")),
    ("sha2", 2): DialectFunction((ANY, INTEGER), TEXT, _sha2),
    **{
        (name, 1): DialectFunction((ANY,), TEXT, _call(name)) for name in ("sha224", "sha256", "sha384", "sha512")
    },
    ("base64", 1): DialectFunction((ANY,), TEXT, lambda value: call("encode", value, "base64")),
    ("to_base64", 1): DialectFunction((ANY,), TEXT, lambda value: call("encode", value, "base64")),
    ("unbase64", 1): DialectFunction((TEXT,), pa.binary(), lambda value: call("decode", value, "base64")),
    ("from_base64", 1): DialectFunction((TEXT,), pa.binary(), lambda value: call("decode", value, "base64")),
    ("regexp_matches", 2): DialectFunction((TEXT, TEXT), pa.bool_(), _call("regexp_like")),
    ("regexp_matches", 3): DialectFunction((TEXT, TEXT, TEXT), pa.bool_(), _call("regexp_like")),
    ("regexp_full_match", 2): DialectFunction((TEXT, TEXT), pa.bool_(), _call("regexp_full_match")),
    ("regexp_full_match", 3): DialectFunction((TEXT, TEXT, TEXT), pa.bool_(), _call("regexp_full_match")),
    ("regexp_extract", 2): DialectFunction((TEXT, TEXT), TEXT, _call("regexp_extract")),
    ("regexp_extract", 3): DialectFunction((TEXT, TEXT, INTEGER), TEXT, _call("regexp_extract")),
    ("regexp_extract", 4): DialectFunction((TEXT, TEXT, INTEGER, TEXT), TEXT, _call("regexp_extract")),
    ("strftime", 2): DialectFunction((ANY, ANY), TEXT, _strftime),
    ("strptime", 2): DialectFunction((TEXT, TEXT), STAMP, _call("strptime")),
    ("try_strptime", 2): DialectFunction((TEXT, TEXT), STAMP, _call("try_strptime")),
    ("date_diff", 3): DialectFunction((TEXT, ANY, ANY), INTEGER, _call("date_diff")),
    ("datediff", 3): DialectFunction((TEXT, ANY, ANY), INTEGER, _call("date_diff")),
    ("datediff", 2): DialectFunction((ANY, ANY), INTEGER, _days_between),
    ("date_add", 2): DialectFunction((ANY, ANY), STAMP, lambda when, by: call("add", when, parse_constant(by))),
    ("date_sub", 3): DialectFunction((TEXT, ANY, ANY), INTEGER, _call("whole_units")),
    ("datesub", 3): DialectFunction((TEXT, ANY, ANY), INTEGER, _call("whole_units")),
    ("make_timestamp", 1): DialectFunction((INTEGER,), STAMP, lambda micros: Cast(micros, STAMP)),
    ("make_timestamp", 6): DialectFunction((*(INTEGER,) * 5, NUMBER), STAMP, _call("make_timestamp")),
    ("make_timestamp_ms", 1): DialectFunction((INTEGER,), STAMP, _call("to_timestamp_millis")),
    ("make_timestamp_ns", 1): DialectFunction(
        (INTEGER,), pa.timestamp("ns"), lambda nanos: Cast(nanos, pa.timestamp("ns"))
    ),
    (AS_TEXT, 1): DialectFunction((TEXT,), TEXT, _call("concat")),
    ("make_time", 3): DialectFunction((INTEGER, INTEGER, NUMBER), pa.time64("us"), _call("make_time")),
    ("hex", 1): DialectFunction((ANY,), TEXT, _call("hex")),
    ("unhex", 1): DialectFunction((TEXT,), pa.binary(), _call("unhex")),
    ("from_hex", 1): DialectFunction((TEXT,), pa.binary(), _call("unhex")),
    ("bin", 1): DialectFunction((ANY,), TEXT, _call("bin")),
    ("to_binary", 1): DialectFunction((ANY,), TEXT, _call("bin")),
    ("unbin", 1): DialectFunction((TEXT,), pa.binary(), _call("unbin")),
    ("from_binary", 1): DialectFunction((TEXT,), pa.binary(), _call("unbin")),
    ("bit_count", 1): DialectFunction((ANY,), INTEGER, lambda value: Call("bit_count", (parse_constant(value),))),
    (REDUCES, 1): DialectFunction((INTEGER,), INTEGER, _call(REDUCES)),
    ("typeof", 1): DialectFunction((ANY,), TEXT, _call("typeof")),
    **{
        (f"list_{name}", 1): DialectFunction((ANY,), NUMBER, _call(f"list_{name}"))
        for name in (
            "product", "skewness", "kurtosis", "kurtosis_pop", "mad", "entropy", "avg", "median", "stddev_pop",
            "stddev_samp", "var_pop", "var_samp", "sem",
        )
    },
    ("list_histogram", 1): DialectFunction((ANY,), pa.map_(TEXT, INTEGER), _call("list_histogram")),
    **{
        (name, n + 1): DialectFunction((TEXT, *(ANY,) * n), TEXT, _call(name))
        for name in ("format", "printf")
        for n in range(PLACES_MAX + 1)
    },
    ("date_sub", 2): DialectFunction((ANY, ANY), STAMP, lambda when, by: call("subtract", when, parse_constant(by))),
    ("add_months", 2): DialectFunction((ANY, INTEGER), DATE, _add_months),
    ("last_day", 1): DialectFunction((ANY,), DATE, _call("last_day")),
    ("age", 2): DialectFunction((ANY, ANY), INTERVAL, _call("age")),
    ("time_bucket", 2): DialectFunction((ANY, ANY), STAMP, _time_bucket),
    ("time_bucket", 3): DialectFunction((ANY, ANY, ANY), STAMP, _time_bucket),
    (TIMES_INTERVAL, 2): DialectFunction(
        (ANY, NUMBER), INTERVAL, lambda span, times: call("multiply", parse_constant(span), times)
    ),
    (TIMES_INTERVAL, 3): DialectFunction(
        (ANY, NUMBER, NUMBER), INTERVAL, lambda span, _, by: Call("interval_divide", (parse_constant(span), by))
    ),
    (TEXT_SLICE, 3): DialectFunction((TEXT, INTEGER, INTEGER), TEXT, _text_slice),
    (AT_TIME_ZONE, 2): DialectFunction((ANY, TEXT), INSTANT, _at_time_zone),
    ("monthname", 1): DialectFunction((ANY,), TEXT, _format_with("%B")),
    ("dayname", 1): DialectFunction((ANY,), TEXT, _format_with("%A")),
    ("epoch", 1): DialectFunction((ANY,), NUMBER, _call("epoch")),
    ("epoch_ms", 1): DialectFunction((ANY,), INTEGER, _since_1970("millisecond")),
    ("epoch_us", 1): DialectFunction((ANY,), INTEGER, _since_1970("microsecond")),
    ("epoch_ns", 1): DialectFunction((ANY,), INTEGER, _since_1970("nanosecond")),
    ("julian", 1): DialectFunction((ANY,), NUMBER, _julian),
    ("era", 1): DialectFunction((ANY,), INTEGER, lambda when: Cast(call("greater", Call("year", (when,)), 0), INTEGER)),
    ("yearweek", 1): DialectFunction((ANY,), INTEGER, _year_and_week),
    **{
        (name, 1): DialectFunction((ANY,), INTEGER, _call(part))
        for name, part in {
            "year": "year", "quarter": "quarter", "month": "month", "week": "week", "weekofyear": "week",
            "day": "day", "dayofmonth": "day", "dayofweek": "day_of_week",
            "weekday": "day_of_week", "nanosecond": "nanosecond", "isodow": "iso_day_of_week",
            "dayofyear": "day_of_year", "isoyear": "iso_year", "hour": "hour", "minute": "minute", "second": "second",
            "millisecond": "millisecond", "microsecond": "microsecond", "decade": "decade", "century": "century",
            "millennium": "millennium",
        }.items()
    },
    **{
        (name, 1): DialectFunction((INTEGER,), INTERVAL, _interval(*unit))
        for name, unit in {
            "to_millennia": (12_000, 0, 0), "to_centuries": (1200, 0, 0), "to_decades": (120, 0, 0),
            "to_years": (12, 0, 0), "to_quarters": (3, 0, 0), "to_months": (1, 0, 0),
            "to_weeks": (0, 7, 0), "to_days": (0, 1, 0),
            "to_hours": (0, 0, 3600 * _NANOS), "to_minutes": (0, 0, 60 * _NANOS), "to_seconds": (0, 0, _NANOS),
            "to_milliseconds": (0, 0, 1_000_000), "to_microseconds": (0, 0, 1_000),
        }.items()
    },
}  # fmt: skip
NAMES = {name for name, _ in DIALECT_FUNCTIONS}
# Names with several numbers of arguments. The planner knows one signature for a name, so the name gets the number.
OVERLOADED = {name for name, _ in DIALECT_FUNCTIONS if sum(other == name for other, _ in DIALECT_FUNCTIONS) > 1}


def planner_name(name: str, n_arguments: int) -> str:
    """The planner's name of the function."""
    return f"{name}/{n_arguments}" if name in OVERLOADED else name


def dialect_call(name: str, arguments: tuple[Expr, ...]) -> Expr | None:
    """The expression of a call; None for a function that is not in the table."""
    known = DIALECT_FUNCTIONS.get((name.partition("/")[0], len(arguments)))
    if known is None:
        return None
    return known.build(*map(drop_conversion, arguments, known.arguments))
