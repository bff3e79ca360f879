"""Random expressions of dates, timestamps and instants, and of numbers taken from them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from sql_fuzz.tables import DATE, INSTANTS, INT, TEXT, TIMESTAMP, ZONES, Facts, Kind
from sql_fuzz.values import Value, compose

if TYPE_CHECKING:
    from sql_fuzz.expressions import Expressions

DAY_PARTS = ("year", "quarter", "month", "day", "doy", "dow", "week", "isodow", "decade", "century", "isoyear")
CLOCK_PARTS = (*DAY_PARTS, "hour", "minute")
DAY_UNITS = ("year", "quarter", "month", "week", "day")
CLOCK_UNITS = (*DAY_UNITS, "hour", "minute", "second")


def date(make: Expressions, depth: int) -> Value:
    """A random expression of dates."""
    rng = make.rng
    facts = Facts(DATE)
    shape = rng.random()
    if shape < 0.35:
        # DuckDB adds an interval to a date as a timestamp, qcore as a date.
        step = f" {rng.choice('+-')} {interval(rng, ('day', 'month', 'year'))}"
        return compose(facts, "cast((", make.leaf(DATE).tree, step, ") as date)")
    if shape < 0.42:
        return compose(facts, "(", make.leaf(DATE).tree, f" {rng.choice('+-')} {rng.randint(0, 400)})")
    if shape < 0.65:
        return compose(facts, f"cast(date_trunc('{rng.choice(DAY_UNITS)}', ", make.leaf(DATE).tree, ") as date)")
    if shape < 0.7:
        return compose(facts, "last_day(", make.value(DATE, depth).tree, ")")
    if shape < 0.8:
        return compose(facts, "cast(", make.value(_with_clock(make), depth).tree, " as date)")
    if shape < 0.9:
        # The engines accept different notations of years.
        return compose(facts, "try_cast(", (make.column(TEXT) or make.literal(TEXT)).tree, " as date)")
    return make.leaf(DATE)


def timestamp(make: Expressions, depth: int) -> Value:
    """A random expression of timestamps without a time zone."""
    rng = make.rng
    facts = Facts(TIMESTAMP)
    shape = rng.random()
    if shape < 0.35:
        step = f" {rng.choice('+-')} {interval(rng, ('second', 'hour', 'day', 'month', 'year'))}"
        return compose(facts, "(", make.leaf(TIMESTAMP).tree, step, ")")
    if shape < 0.42:
        step = f" {rng.choice('+-')} {interval(rng, ('minute', 'hour', 'day', 'month'))}"
        return compose(facts, "cast((", make.leaf(DATE).tree, step, ") as timestamp)")
    if shape < 0.47:
        name, number = rng.choice(["to_days", "to_hours", "to_months"]), make.leaf(INT).tree
        return compose(facts, "(", make.leaf(TIMESTAMP).tree, f" + {name}(cast(", number, " % 50 as integer)))")
    if shape < 0.68:
        return compose(facts, f"date_trunc('{rng.choice(CLOCK_UNITS)}', ", make.leaf(TIMESTAMP).tree, ")")
    if shape < 0.74:
        width = interval(rng, ("minute", "hour", "day", "week"), least=1)
        return compose(facts, f"time_bucket({width}, ", make.leaf(TIMESTAMP).tree, ")")
    if shape < 0.85:
        return compose(facts, "cast(", make.value(DATE, depth).tree, " as timestamp)")
    zoned = make.present_kind(INSTANTS)
    if zoned in INSTANTS:
        instant = make.value(zoned, depth).tree
        if rng.random() < 0.5:
            return compose(facts, "cast(", instant, " as timestamp)")
        return compose(facts, "(", instant, f" at time zone '{rng.choice(ZONES)}')")
    return make.leaf(TIMESTAMP)


def instant(make: Expressions, kind: Kind, depth: int) -> Value:
    """A random expression of timestamps with the kind's time zone, which is DuckDB's session zone."""
    rng = make.rng
    facts = Facts(kind)
    shape = rng.random()
    if shape < 0.4:
        step = f" {rng.choice('+-')} {interval(rng, ('second', 'hour', 'day', 'month', 'year'))}"
        return compose(facts, "(", make.leaf(kind).tree, step, ")")
    if shape < 0.7:
        return compose(facts, f"date_trunc('{rng.choice(CLOCK_UNITS)}', ", make.leaf(kind).tree, ")")
    if shape < 0.85:
        return compose(facts, "(", make.value(TIMESTAMP, depth).tree, f" at time zone '{kind.zone}')")
    return make.leaf(kind)


def number(make: Expressions, depth: int) -> Value:
    """A number: a part of a date or time, or a difference of two."""
    rng = make.rng
    shape = rng.random()
    if shape < 0.6:
        kind = rng.choice([DATE, _with_clock(make)])
        part = rng.choice(DAY_PARTS if kind == DATE else CLOCK_PARTS)
        return compose(Facts(INT, 3000), f"cast(extract({part} from ", make.value(kind, depth).tree, ") as bigint)")
    kind = rng.choice([DATE, TIMESTAMP])
    a, b = make.value(kind, depth).tree, make.value(kind, depth).tree
    if shape < 0.8:
        unit = rng.choice(DAY_UNITS if kind == DATE else CLOCK_UNITS)
        return compose(Facts(INT, 10**11), f"date_diff('{unit}', ", a, ", ", b, ")")
    if kind == DATE:
        return compose(Facts(INT, 10**6), "(", a, " - ", b, ")")
    part = rng.choice(["day", "hour", "minute"])
    return compose(Facts(INT, 10**6), f"cast(extract({part} from ", a, " - ", b, ") as bigint)")


def interval(rng: random.Random, units: tuple[str, ...], least: int = 0) -> str:
    """An interval of one or several units."""
    if least or rng.random() < 0.7:
        return f"interval '{rng.randint(least, 14)}' {rng.choice(units)}"
    picked = [unit for unit in units if rng.random() < 0.5] or [units[0]]
    return f"interval '{' '.join(f'{rng.randint(0, 14)} {unit}s' for unit in reversed(picked))}'"


def _with_clock(make: Expressions) -> Kind:
    """A random kind of timestamps."""
    found = make.present_kind((TIMESTAMP, *INSTANTS))
    return TIMESTAMP if found == INT else found
