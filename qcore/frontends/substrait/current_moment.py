"""Functions of the moment of the query, which is one for all of its parts. Floor P2."""

from __future__ import annotations

import pyarrow as pa

from qcore.frontends.substrait.literals import moment
from qcore.language.expression import Literal

_DAY_NANOS = 86_400 * 1_000_000_000
# Microseconds reach all dates there are; nanoseconds end in 2262.
_NOW = pa.timestamp("us", "UTC")
#: Names of functions without arguments whose value is that moment, or its day, or its time of day.
MOMENTS = frozenset({"now", "current_timestamp", "current_date", "today", "current_time"})


def current_moment(name: str, nanos: int) -> Literal:
    """The value of one of MOMENTS in a query planned so many nanoseconds after 1970, in UTC."""
    if name in ("current_date", "today"):
        return moment(nanos // _DAY_NANOS, pa.date32())
    if name == "current_time":
        return Literal(nanos % _DAY_NANOS, pa.time64("ns"))
    return moment(nanos // 1000, _NOW)
