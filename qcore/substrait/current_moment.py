"""Functions of the moment of the query, which is one for all of its parts."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Cast, Expr
from qcore.substrait.literals import moment

# Microseconds reach all dates there are; nanoseconds end in 2262.
_NOW = pa.timestamp("us", "UTC")
#: Names of functions without arguments whose value is that moment, or its day, or its time of day.
MOMENTS = frozenset({"now", "current_timestamp", "current_date", "today", "current_time"})


def current_moment(name: str, nanos: int) -> Expr:
    """The value of one of MOMENTS in a query planned so many nanoseconds after 1970: an instant, or the day or time of
    day that clocks show then, in the zone of the plan's instants.
    """
    if name in ("current_date", "today"):
        return Cast(moment(nanos // 1000, _NOW), pa.date32())
    if name == "current_time":
        return Cast(Cast(moment(nanos // 1000, _NOW), pa.time64("us")), pa.time64("ns"))
    return moment(nanos // 1000, _NOW)
