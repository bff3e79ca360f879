"""Names of result columns that the query gave none."""

from __future__ import annotations

import re

from qcore.frontends.planner.planned_text import FLOAT_FACTOR_SHOWN
from qcore.substrait.windows import MARKER

_QUALIFIER = re.compile(r"\b[A-Za-z_]\w*\.(?=[A-Za-z_])")
_TYPED_CONSTANT = re.compile(
    r"\b(?:U?Int(?:8|16|32|64)|Float(?:32|64)|Utf8(?:View)?|Boolean|Decimal128)\(([^(),]*)[^()]*\)"
)
_INTERVAL = re.compile(
    r'IntervalMonthDayNano\("IntervalMonthDayNano \{ months: (-?\d+), days: (-?\d+), nanoseconds: (-?\d+) \}"\)'
)
# A struct's field, which is called as it is; elements of lists are numbers.
_FIELD = re.compile(r"[\w. ]+\[([A-Za-z_]\w*)\]")
_NANOSECONDS = {
    "hour": 3_600_000_000_000,
    "minute": 60_000_000_000,
    "second": 1_000_000_000,
    "millisecond": 1_000_000,
    "microsecond": 1_000,
}
# What text.windows put there.
_WINDOW_MARK = re.compile(rf'[^\[,]* = Utf8(?:View)?\("{re.escape(MARKER)} [^"]*"\)(?:, )?')


def shown_name(name: str) -> str:
    """A result column's name: for one the query gave no name, its expression as one would write it."""
    name = re.sub(r'"?(\b[a-z_]+)/\d+"?\(', r"\1(", name).replace(FLOAT_FACTOR_SHOWN, "")
    if re.fullmatch(r"[\w. ]*", name):
        return name
    field = _FIELD.fullmatch(name)
    if field is not None:
        return field.group(1)
    name = _INTERVAL.sub(_shown_interval, name)
    name = _WINDOW_MARK.sub("", name).replace("PARTITION BY [] ", "")
    return _TYPED_CONSTANT.sub(_shown_constant, _QUALIFIER.sub("", name))


def _shown_constant(found: re.Match[str]) -> str:
    shown = found.group(1)
    is_text = len(shown) > 1 and shown[0] == shown[-1] == '"'
    return "'" + shown[1:-1].replace("'", "''") + "'" if is_text else shown


def _shown_interval(found: re.Match[str]) -> str:
    months, days, nanoseconds = map(int, found.groups())
    parts = [(months, "month"), (days, "day")]
    whole = next((unit for unit in _NANOSECONDS if nanoseconds % _NANOSECONDS[unit] == 0), "nanosecond")
    parts.append((nanoseconds // _NANOSECONDS.get(whole, 1), whole))
    shown = [f"{count} {unit}{'s' * (abs(count) != 1)}" for count, unit in parts if count] or ["0 days"]
    return f"INTERVAL '{' '.join(shown)}'"
