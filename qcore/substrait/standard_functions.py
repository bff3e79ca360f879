"""Functions of Substrait's standard extensions, for plans that DataFusion did not produce.

In the standard some names have another meaning than in SQL (least of a null is null), some arguments are words (the
part of a date), and calls have options. An option lists acceptable behaviours for a case in which engines differ. It is
an error if the engine has none of them, as the standard requires. https://substrait.io/extensions
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Cast, Expr, Literal, call, lit
from qcore.functions.tables.text import overlay

# The engine's behaviours by option, and where they differ by function and option.
_BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "overflow": ("ERROR",),
    "rounding": ("TIE_TO_EVEN",),
    "on_domain_error": ("ERROR",),
    "on_division_by_zero": ("ERROR",),
    "on_log_zero": ("ERROR",),
    "complex_number_result": ("ERROR",),
    "division_type": ("TRUNCATE",),
    "case_sensitivity": ("CASE_SENSITIVE",),
    "multiline": ("MULTILINE_DISABLED",),
    "dotall": ("DOTALL_DISABLED",),
    "null_handling": ("IGNORE_NULLS",),
    "negative_start": ("WRAP_FROM_END",),
    "char_set": ("UTF8",),
    "nan_equality": ("NAN_IS_NAN",),
    "ignore_nulls": ("TRUE",),
}
_OWN_BEHAVIOURS: dict[tuple[str, str], tuple[str, ...]] = {
    ("round", "rounding"): ("TIE_AWAY_FROM_ZERO",),
    ("count", "overflow"): ("ERROR", "SILENT", "SATURATE"),
    ("concat", "null_handling"): ("IGNORE_NULLS", "ACCEPT_NULLS"),
    ("like", "case_sensitivity"): ("CASE_SENSITIVE", "CASE_INSENSITIVE"),
    ("std_dev", "distribution"): ("SAMPLE", "POPULATION"),
    ("variance", "distribution"): ("SAMPLE", "POPULATION"),
}
_PARTS = {
    "YEAR": "year", "ISO_YEAR": "iso_year", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second",
    "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "DAY_OF_YEAR": "day_of_year", "ISO_WEEK": "week",
    "MONDAY_DAY_OF_WEEK": "iso_day_of_week", "SUNDAY_DAY_OF_WEEK": "day_of_week",
}  # fmt: skip
_INDEXED = frozenset(list(_PARTS)[5:])
_UNITS = {
    "WEEK": (0, 7, 0), "DAY": (0, 1, 0), "HOUR": (0, 0, 3_600_000_000_000), "MINUTE": (0, 0, 60_000_000_000),
    "SECOND": (0, 0, 1_000_000_000), "MILLISECOND": (0, 0, 1_000_000), "MICROSECOND": (0, 0, 1_000),
    "YEAR": (12, 0, 0), "MONTH": (1, 0, 0),
}  # fmt: skip
_INT64, _STAMP = pa.int64(), pa.timestamp("us")

Choices = Mapping[str, str]


def choose_behaviours(name: str, options: Sequence[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """For each option of a call, the first preference that the engine has. PlanError if it has none."""
    choices = {}
    for option, preferences in options:
        has = _OWN_BEHAVIOURS.get((name, option)) or _BEHAVIOURS.get(option, ())
        found = [preference for preference in preferences if preference in has]
        if preferences and not found:
            can = f"it is {' or '.join(has)}" if has else "the engine has no such option"
            raise PlanError(f"{name}: {option} {' or '.join(preferences)} is asked for; {can}")
        if found:
            choices[option] = found[0]
    return choices


def standard_call(name: str, arguments: tuple[Expr, ...], choices: Choices) -> Expr | None:
    """The call as an expression. None if the name has the same meaning as in SQL.

    Words among the arguments are text literals. PlanError if the engine cannot run the call.
    """
    build = _CALLS.get(name)
    if build is None:
        return None
    try:
        return build(*arguments, **choices) if name in _WITH_CHOICES else build(*arguments)
    except TypeError:
        raise PlanError(f"{name} with {len(arguments)} arguments is no function of Substrait's") from None


def standard_aggregate(name: str, arguments: list[Bound], choices: Choices) -> tuple[str, list[Bound]]:
    """An aggregate's name and arguments. Words and options become part of the name."""
    if name in ("std_dev", "variance"):
        word = _word(arguments[0].expr) if len(arguments) == 2 else choices.get("distribution", "SAMPLE")
        short = "stddev" if name == "std_dev" else "var"
        return f"{short}_{'pop' if word == 'POPULATION' else 'samp'}", arguments[-1:]
    if name == "median" and len(arguments) == 2:
        return name, arguments[1:]
    return name, arguments


# --- how calls are built ---


def _word(argument: Expr) -> str:
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise PlanError(f"a word was expected, not {argument!r}")
    return argument.value


def _any_null(values: Sequence[Expr], otherwise: Expr) -> Expr:
    tests = tuple(Call("is_null", (value,)) for value in values)
    return Case(((Call("or", tuple(call("is_true", test) for test in tests)), Literal(None, pa.null())),), otherwise)


def _and_not(a: Expr, b: Expr) -> Expr:
    return call("and", a, Call("not", (b,)))


def _bitwise_not(value: Expr) -> Expr:
    return call("subtract", Call("negate", (value,)), 1)


def _index_in(wanted: Expr, elements: Expr) -> Expr:
    position = Case(((Call("is_not_null", (wanted,)), Call("list_position", (elements, wanted))),))
    return call("subtract", position, 1)


def _concat(*texts: Expr, null_handling: str = "IGNORE_NULLS") -> Expr:
    if null_handling == "ACCEPT_NULLS":
        return Call("concat", texts)
    return Call("concat", tuple(call("coalesce", text, "") for text in texts))


def _like(text: Expr, pattern: Expr, case_sensitivity: str = "CASE_SENSITIVE") -> Expr:
    return Call("like" if case_sensitivity == "CASE_SENSITIVE" else "ilike", (text, pattern))


def _match(text: Expr, pattern: Expr, *options: Expr) -> Expr:
    """The first match of the pattern or of a group in it; null without a match."""
    if any(not isinstance(option, Literal) or option.value != 1 for option in options[:2]):
        raise PlanError("regexp_match_substring: only position 1 and occurrence 1 are supported")
    group = options[2] if len(options) > 2 else lit(0)
    return Case(((Call("regexp_like", (text, pattern)), Call("regexp_extract", (text, pattern, group))),))


def _count_of(text: Expr, part: Expr) -> Expr:
    return Call("regexp_count", (text, Literal(re.escape(_word(part)), pa.string())))


def _position(text: Expr, pattern: Expr, *options: Expr) -> Expr:
    if len(options) > 1 and (not isinstance(options[1], Literal) or options[1].value != 1):
        raise PlanError("regexp_strpos: only occurrence 1 is supported")
    return Call("regexp_instr", (text, pattern, *options[:1]))


def _at_zone(when: Expr, zone: Expr) -> Expr:
    return Call("at_time_zone", (when, zone))


def _shift(function: str) -> Callable[..., Expr]:
    """add and subtract. With a time zone the interval is added to the local time there."""

    def build(a: Expr, b: Expr, zone: Expr | None = None) -> Expr:
        if zone is None:
            return Call(function, (a, b))
        return _at_zone(Call(function, (_at_zone(a, zone), b)), zone)

    return build


def _extract(part: Expr, when: Expr, *rest: Expr) -> Expr:
    """extract. A word between the part and the time may tell whether the first month, or the like, is 1 or 0."""
    word = _word(part)
    first = when.value if isinstance(when, Literal) and when.value in ("ONE", "ZERO") else None
    when, *zone = rest if first is not None else (when, *rest)
    if zone and word != "UNIX_TIME":
        when = _at_zone(when, zone[0])
    if word in ("MILLISECOND", "MICROSECOND", "SUBSECOND"):
        # The standard counts from the last full second or millisecond, the engine from the last full minute.
        whole = Call("microsecond", (when,))
        within = call("modulo", whole, 1000 if word == "MICROSECOND" else 1_000_000)
        return call("divide", within, 1000) if word == "MILLISECOND" else within
    if word == "UNIX_TIME":
        return Cast(call("floor", Call("epoch", (when,))), _INT64)
    if word not in _PARTS:
        raise PlanError(f"extract: {word} is not supported; there are {', '.join(_PARTS)}")
    value = Call(_PARTS[word], (when,))
    if word not in _INDEXED:
        return value
    engine_first = 0 if word == "SUNDAY_DAY_OF_WEEK" else 1
    return call("add", value, (0 if first == "ZERO" else 1) - engine_first)


def _extract_boolean(part: Expr, when: Expr, *zone: Expr) -> Expr:
    if _word(part) != "IS_LEAP_YEAR":
        raise PlanError(f"extract_boolean: {_word(part)} is not supported; IS_LEAP_YEAR is")
    year = Call("year", (_at_zone(when, zone[0]) if zone else when,))
    by = {n: call("equal", call("modulo", year, n), 0) for n in (4, 100, 400)}
    return call("or", _and_not(by[4], by[100]), by[400])


def _strptime(text: Expr, form: Expr) -> Expr:
    return Call("strptime", (text, form))


def _strptime_timestamp(text: Expr, form: Expr, *rest: Expr) -> Expr:
    zones = [part for part in rest if isinstance(part, Literal) and isinstance(part.value, str)]
    return _at_zone(_strptime(text, form), zones[0]) if zones else _strptime(text, form)


def _strftime(when: Expr, form: Expr, *zone: Expr) -> Expr:
    return Call("strftime", (_at_zone(when, zone[0]) if zone else when, form))


def _round_temporal(when: Expr, rounding: Expr, unit: Expr, multiple: Expr, *rest: Expr) -> Expr:
    if _word(rounding) != "FLOOR" or len(rest) != 1:
        raise PlanError("round_temporal: only FLOOR, without a time zone, is supported")
    if not isinstance(multiple, Literal) or not isinstance(multiple.value, int) or _word(unit) not in _UNITS:
        raise PlanError(f"round_temporal: {multiple!r} times {unit!r} is no length of time")
    size = pa.MonthDayNano([part * multiple.value for part in _UNITS[_word(unit)]])
    return Call("date_bin", (Literal(size, pa.month_day_nano_interval()), when, rest[0]))


_CALLS: dict[str, Callable[..., Expr]] = {
    "xor": lambda a, b: Call("not_equal", (a, b)),
    "and_not": _and_not,
    "bitwise_not": _bitwise_not,
    "shift_left": lambda a, b: Call("bitwise_shift_left", (a, b)),
    "shift_right": lambda a, b: Call("bitwise_shift_right", (a, b)),
    "least": lambda *values: _any_null(values, Call("least", values)),
    "greatest": lambda *values: _any_null(values, Call("greatest", values)),
    "least_skip_null": lambda *values: Call("least", values),
    "greatest_skip_null": lambda *values: Call("greatest", values),
    "index_in": _index_in,
    "concat": _concat,
    "like": _like,
    "replace_slice": lambda text, start, length, new: overlay(text, new, start, length),
    "regexp_match_substring": _match,
    "regexp_strpos": _position,
    "regexp_count_substring": lambda *arguments: Call("regexp_count", arguments),
    "regexp_string_split": lambda text, pattern: Call("string_split_regex", (text, pattern)),
    "count_substring": _count_of,
    "extract": _extract,
    "extract_boolean": _extract_boolean,
    "add": _shift("add"),
    "subtract": _shift("subtract"),
    "add_intervals": lambda a, b: Call("add", (a, b)),
    "assume_timezone": lambda when, zone, *precision: _at_zone(Cast(when, _STAMP) if precision else when, zone),
    "local_timestamp": _at_zone,
    "strptime_date": lambda text, form: Cast(_strptime(text, form), pa.date32()),
    "strptime_time": lambda text, form, *precision: Cast(_strptime(text, form), pa.time64("us")),
    "strptime_timestamp": _strptime_timestamp,
    "strftime": _strftime,
    "round_temporal": _round_temporal,
}
_WITH_CHOICES = frozenset({"concat", "like"})
