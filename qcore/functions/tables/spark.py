"""Functions that only Spark has, or that have another meaning in Spark. All dialects have the other functions."""

from __future__ import annotations

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Cast, Expr, Literal, call
from qcore.expression.types import BOOL, DATE, FLOAT64, INT64, STRING, is_list_of_any_layout, plain
from qcore.functions.casts import bind_cast
from qcore.functions.dialect import Dialect
from qcore.functions.entries import Build, Table, entry, expr_entry
from qcore.functions.operators import OPERATORS
from qcore.functions.tables.lists import LISTS
from qcore.functions.tables.times import TIMES
from qcore.functions.typed import cast, constant, derive_expr, engine_call, literal_value
from qcore.functions.variants import dialect_call

_STAMP = pa.timestamp("us")
_PARTS = {"yy": "year", "yyyy": "year", "mon": "month", "mm": "month", "dd": "day"}
_DAYS = {
    name: number
    for number, day in enumerate(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
    for name in (day, day[:3], day[:2])
}
_STAMP_PATTERN = "yyyy-MM-dd HH:mm:ss"


def _of(table: Table, name: str) -> Build:
    found = table[name]
    assert not isinstance(found, str)
    return found.build


# --- numbers and text ------------------------------------------------------------------------------------------------


def _positive_remainder(a: Expr, b: Expr) -> Expr:
    rest = call("modulo", a, b)
    return Case(((call("less", rest, 0), call("modulo", call("add", rest, b), b)),), rest)


def _try_quotient(a: Expr, b: Expr) -> Expr:
    return call("divide", Cast(a, FLOAT64), call("nullif", b, 0))


def _locate_text(dialect: Dialect, part: Bound, text: Bound, *start: Bound) -> Bound:
    """The position of the first occurrence of a text in another, from a position on."""
    if not start:
        return engine_call("position", text, part)

    def build(sought: Expr, of: Expr, first: Expr) -> Expr:
        found = call("position", call("substring", of, first), sought)
        none = call("or", call("less", first, 1), call("equal", found, 0))
        return Case(((none, Literal(0, INT64)),), call("subtract", call("add", found, first), 1))

    return derive_expr(build, part, text, start[0])


def _regexp_replace(dialect: Dialect, text: Bound, pattern: Bound, new: Bound, *flags: Bound) -> Bound:
    """regexp_replace, in which $1 refers to a group of the pattern."""
    written_new = literal_value(new)
    if isinstance(written_new, str):
        new = constant(_with_backslashes(written_new))
    return dialect_call(dialect, "regexp_replace", text, pattern, new, *flags)


def _with_backslashes(new: str) -> str:
    made, at = "", 0
    while at < len(new):
        if new[at] == "\\" and at + 1 < len(new):
            made, at = made + ("\\\\" if new[at + 1] == "\\" else new[at + 1]), at + 2
            continue
        made, at = made + ("\\" if new[at] == "$" else new[at]), at + 1
    return made


def _regexp_extract(dialect: Dialect, text: Bound, pattern: Bound, *group: Bound) -> Bound:
    return engine_call("regexp_extract", text, pattern, *(group or (constant(1),)))


def _cast_to(type_: pa.DataType) -> Build:
    def build(dialect: Dialect, value: Bound) -> Bound:
        is_instant = type_ == _STAMP and dialect.timestamp == "instant"
        return bind_cast(value, pa.timestamp("us", "UTC") if is_instant else type_, dialect)

    return build


# --- dates and times -------------------------------------------------------------------------------------------------


def _unit(name: str, part: Bound) -> str:
    unit = literal_value(part)
    if not isinstance(unit, str):
        raise PlanError(f"{name} takes the part as a text literal, such as 'month'")
    return _PARTS.get(unit.lower(), unit.lower())


def _trunc(dialect: Dialect, value: Bound, *part: Bound) -> Bound:
    """trunc(date, part), or trunc(number): the number without digits after the point."""
    if not part or pa.types.is_integer(part[0].type):
        return engine_call("trunc", value, *part)
    return engine_call("date_trunc", constant(_unit("trunc", part[0])), cast(value, DATE))


def _date_trunc(dialect: Dialect, part: Bound, when: Bound) -> Bound:
    return _of(TIMES, "date_trunc")(dialect, constant(_unit("date_trunc", part)), when)


def _next_day(dialect: Dialect, when: Bound, name: Bound) -> Bound:
    day = _DAYS.get(str(literal_value(name) or "").lower())
    if day is None:
        raise PlanError("next_day takes a date and the name of a day as a text literal, such as 'Monday' or 'MO'")

    def build(value: Expr) -> Expr:
        ahead = call("modulo", call("add", call("subtract", day, Call("iso_day_of_week", (value,))), 7), 7)
        return call("add", value, call("add", ahead, 1))

    return derive_expr(build, cast(when, DATE))


def _days(operator: str) -> Build:
    def build(dialect: Dialect, when: Bound, count: Bound) -> Bound:
        return _of(OPERATORS, operator)(dialect, cast(when, DATE), count)

    return build


def _months_between(late: Expr, early: Expr) -> Expr:
    a, b = Cast(late, _STAMP), Cast(early, _STAMP)

    def part(name: str, of: Expr) -> Expr:
        return Call(name, (of,))

    def seconds(of: Expr) -> Expr:
        hours = call("add", call("multiply", part("hour", of), 3600), call("multiply", part("minute", of), 60))
        return call("add", hours, part("second", of))

    years = call("multiply", call("subtract", part("year", a), part("year", b)), 12)
    months = call("subtract", call("add", years, part("month", a)), part("month", b))
    ends = [call("equal", part("day", of), part("day", Call("last_day", (Cast(of, DATE),)))) for of in (a, b)]
    whole = call("or", call("equal", part("day", a), part("day", b)), call("and", *ends))
    days = call("multiply", call("subtract", part("day", a), part("day", b)), 86_400)
    rest = Cast(call("subtract", call("add", days, seconds(a)), seconds(b)), FLOAT64)
    exact = call("round", call("add", months, call("divide", rest, 2_678_400)), 8)
    return Case(((whole, Cast(months, FLOAT64)),), exact)


def _unix_timestamp(dialect: Dialect, *arguments: Bound) -> Bound:
    if len(arguments) == 2:
        when = _of(TIMES, "to_timestamp")(dialect, *arguments)
    else:
        zone = "UTC" if dialect.timestamp == "instant" else None
        when = cast(arguments[0], pa.timestamp("us", zone))
    return derive_expr(lambda value: Cast(call("floor", Call("epoch", (value,))), INT64), when)


def _from_unixtime(dialect: Dialect, seconds: Bound, *form: Bound) -> Bound:
    when = _of(TIMES, "to_timestamp_seconds")(dialect, seconds)
    return _of(TIMES, "to_char")(dialect, when, *(form or (constant(_STAMP_PATTERN),)))


def _since_epoch(when: Expr) -> Expr:
    return call("date_diff", "day", Cast(Literal("1970-01-01", STRING), DATE), when)


def _from_days(count: Expr) -> Expr:
    return call("add", Cast(Literal("1970-01-01", STRING), DATE), count)


# --- lists -----------------------------------------------------------------------------------------------------------


def _array_position(lists: Expr, wanted: Expr) -> Expr:
    known = call("and", Call("is_not_null", (lists,)), Call("is_not_null", (wanted,)))
    return Case(((known, call("coalesce", Call("list_position", (lists, wanted)), 0)),))


def _sequence(dialect: Dialect, first: Bound, last: Bound, *step: Bound) -> Bound:
    if not step:

        def falls(a: Expr, b: Expr) -> Expr:
            return Case(((call("less_equal", a, b), Literal(1, INT64)),), Literal(-1, INT64))

        step = (derive_expr(falls, first, last),)
    return engine_call("generate_series", first, last, *step)


def _slice(dialect: Dialect, lists: Bound, start: Bound, length: Bound) -> Bound:
    def last(first: Expr, count: Expr) -> Expr:
        end = call("subtract", call("add", first, count), 1)
        return Case(((call("less", first, 0), call("least", end, -1)),), end)

    return engine_call("list_slice", lists, start, derive_expr(last, start, length))


def _sort_array(dialect: Dialect, lists: Bound, *rises: Bound) -> Bound:
    falls = rises and literal_value(rises[0]) is False
    if rises and not isinstance(literal_value(rises[0]), bool):
        raise PlanError("sort_array takes true or false as its second argument")
    nulls = "NULLS LAST" if falls else "NULLS FIRST"
    return engine_call("list_sort", lists, constant("DESC" if falls else "ASC"), constant(nulls))


def _map_of_pairs(dialect: Dialect, *parts: Bound) -> Bound:
    """map(key, value, key, value, …)."""
    if len(parts) % 2:
        raise PlanError(f"map takes pairs of a key and a value, so an even number of arguments, not {len(parts)}")
    lists = [_of(LISTS, "list_value")(dialect, *parts[n::2]) for n in (0, 1)] if parts else []
    return _of(LISTS, "map")(dialect, *lists)


def _size(dialect: Dialect, value: Bound) -> Bound:
    return engine_call("list_length", value)


def _subscript(dialect: Dialect, value: Bound, key: Bound) -> Bound:
    if is_list_of_any_layout(plain(value.type)):
        raise PlanError("x[n] is not supported: Spark counts from 0 here; write element_at(x, n), which counts from 1")
    return _of(LISTS, "[]")(dialect, value, key)


def _positive(value: Expr) -> Expr:
    return value


def _refuse_call(message: str) -> Build:
    def build(dialect: Dialect, *arguments: Bound) -> Bound:
        raise PlanError(message)

    return build


def _exactly(name: str) -> str:
    return f"{name} is not supported; percentile(x, share) and median(x) are exact"


_CASTS: dict[str, pa.DataType] = {
    "string": STRING, "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": INT64,
    "float": pa.float32(), "double": FLOAT64, "date": DATE, "timestamp": _STAMP, "boolean": BOOL,
}  # fmt: skip
SPARK: Table = {
    "pmod": expr_entry("number, number", "number", _positive_remainder),
    "isnull": "is_null",
    "isnotnull": "is_not_null",
    **{name: entry("text, text, [integer]", "integer", _locate_text) for name in ("locate", "position", "charindex")},
    "date_add": entry("date, integer", "date", _days("+")),
    "dateadd": "date_add",
    "date_sub": entry("date, integer", "date", _days("-")),
    "months_between": expr_entry("timestamp, timestamp", "number", _months_between),
    "unix_timestamp": entry("timestamp or text, [text]", "integer", _unix_timestamp),
    "to_unix_timestamp": "unix_timestamp",
    "from_unixtime": entry("integer, [text]", "text", _from_unixtime),
    "timestamp_seconds": "to_timestamp_seconds",
    "unix_date": expr_entry("date", "integer", _since_epoch),
    "date_from_unix_date": expr_entry("integer", "date", _from_days),
    "weekday": expr_entry("date", "integer", lambda when: call("subtract", Call("iso_day_of_week", (when,)), 1)),
    "trunc": entry("date or number, [part or integer]", "date or number", _trunc),
    "date_trunc": entry("part, date or timestamp", "as the second", _date_trunc),
    "next_day": entry("date, text", "date", _next_day),
    "regexp_extract": entry("text, text, [integer]", "text", _regexp_extract),
    "regexp_replace": entry("text, text, text, [text]", "text", _regexp_replace),
    "split": "string_split_regex",
    "char": "chr",
    "map": entry("[key], [value], …", "map", _map_of_pairs),
    "map_from_arrays": entry("list, list", "map", _of(LISTS, "map")),
    "substring_index": "substr_index",
    "array_join": "array_to_string",
    "element_at": entry("list or map, key", "the element", _of(LISTS, "[]")),
    "[]": entry("struct, name; map, key", "the element", _subscript),
    "array_position": expr_entry("list, any", "integer", _array_position),
    "array_remove": "list_remove",
    "array_except": "list_except",
    "arrays_overlap": "list_has_any",
    "array": "list_value",
    "sequence": entry("integer, integer, [integer]", "list", _sequence),
    "slice": entry("list, integer, integer", "list", _slice),
    "sort_array": entry("list, [boolean]", "list", _sort_array),
    "size": entry("list or map", "integer", _size),
    "e": expr_entry("", "number", lambda: Call("exp", (Literal(1.0, FLOAT64),))),
    "negative": entry("number", "number", lambda dialect, value: engine_call("negate", value)),
    "positive": expr_entry("number", "number", _positive),
    "space": expr_entry("integer", "text", lambda count: call("repeat", " ", count)),
    "try_divide": expr_entry("number, number", "number", _try_quotient),
    "zeroifnull": expr_entry("number", "number", lambda value: call("coalesce", value, 0)),
    "nullifzero": expr_entry("number", "number", lambda value: call("nullif", value, 0)),
    **{name: entry("any", name, _cast_to(type_)) for name, type_ in _CASTS.items()},
    "transform": "list_transform",
    "filter": "list_filter",
    "percentile_approx": entry("any, …", "an error", _refuse_call(_exactly("percentile_approx"))),
    "approx_percentile": entry("any, …", "an error", _refuse_call(_exactly("approx_percentile"))),
}  # fmt: skip
