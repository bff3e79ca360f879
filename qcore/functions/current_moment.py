"""Functions of the current time. The current time is the same in all parts of a query."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Cast, Expr, Literal

# Microseconds cover all dates. Nanoseconds end in 2262.
_NOW = pa.timestamp("us", "UTC")
#: Functions without arguments whose value is the current time, date or time of day.
MOMENTS = frozenset({"now", "current_timestamp", "current_date", "today", "current_time"})


def current_moment(name: str, nanos: int) -> Expr:
    """The value of one of MOMENTS in a query that was planned so many nanoseconds after 1970: an instant, or its local
    date or time of day in the plan's time zone.
    """
    if name in ("current_date", "today"):
        return Cast(moment(nanos // 1000, _NOW), pa.date32())
    if name == "current_time":
        return Cast(Cast(moment(nanos // 1000, _NOW), pa.time64("us")), pa.time64("ns"))
    return moment(nanos // 1000, _NOW)


def moment(count: int, type_: pa.DataType) -> Literal:
    """A date or timestamp as a Python value; outside the years 1 to 9999 as its count of units."""
    try:
        return Literal(pa.scalar(count, type_).as_py(), type_)
    except (OverflowError, ValueError):
        return Literal(count, type_)
