"""Which queries DataFusion would compute constants of that the engine computes otherwise. Floor P2. SPEC Q3.

Its rule simplify_expressions has 1.0 / 3 as 0.33333, lets integers overflow silently, truncates 2.7 to an integer, and
knows no dialect. What is exact whoever computes it stays with it, as a scan's filter is then of constants: dates moved
by intervals, sums and products of small integers and of decimals, and the types of literals.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from qcore.frontends.substrait.functions import is_known_aggregate, is_known_scalar
from qcore.language.window_plan import is_window_function

SIMPLIFY = "simplify_expressions"

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(
    r"(?<!AS )\b(U?Int\d+|Float\d+|Decimal\d+|Utf8(?:View)?|LargeUtf8|Boolean|Date\d+|Time\w+|Interval\w+|\w*Binary)"
    r"\(([^()]*)\)"
)
# Literals become #i (integers that no sum overflows), #I, #n (decimals), #f (floats), #t, #d (dates), #s (timestamps
# and times), #v (intervals of whole days), #h (others, of which the planner keeps the days where it moves a date), #b
# (truth values and null).
_KINDS = {"U": "i", "I": "i", "F": "f", "D": "n", "L": "t", "B": "b", "T": "s"}
_INTERVAL = re.compile(r'Interval\w+\("[^"]*"\)')
_HAS_CLOCK = re.compile(r"nanoseconds: (?!0\b)|IntervalDayTime\(.*milliseconds: (?!0\b)")
_BEHIND_NO_OPERATOR = r"(?<![-*/%+|] )"
_SAFE = [
    (re.compile(r"CAST\(#t AS Date32\)"), "#d"),
    (re.compile(r"CAST\(#t AS Timestamp\([^()]*\)\)"), "#s"),
    (re.compile(r"CAST\(#b AS [^()]*(?:\([^()]*\))?\)"), "#b"),
    (re.compile(r"CAST\(#i AS (?:U?Int\d+|Decimal128\([^()]*\))\)"), "#i"),
    (re.compile(r"CAST\(#n AS Decimal128\([^()]*\)\)"), "#n"),
    (re.compile(r"CAST\(#[in] AS Float64\)"), "#f"),
    (re.compile(r"(?<!\w)\((?:- ?)?(#\w)\)"), r"\1"),
    (re.compile(r"#d [-+] #v"), "#d"),
    (re.compile(r"#s [-+] #[vh]"), "#s"),
    (re.compile(_BEHIND_NO_OPERATOR + r"#i [-+*] #i"), "#i"),
    (re.compile(_BEHIND_NO_OPERATOR + r"#[in] [-+*] #[in]"), "#n"),
]
_COMPUTED = re.compile(
    _BEHIND_NO_OPERATOR + r"#\w (?:\+|-|\*|/|%|\|\||&|\||<<|>>|(?:NOT )?I?LIKE|~\*?|!~\*?) #\w|CAST\(#\w AS |"
    r"#[fvh] (?:=|!=|<|>|<=|>=|IS (?:NOT )?DISTINCT FROM) #[fvh]"
)
# A list made of constants that becomes text; functions of lists are of texts to the planner.
_MADE_AS_TEXT = re.compile(
    r"CAST\((?:make_array|struct|named_struct|map)\(.* AS Utf8|\b(?:list_\w+|typeof)\(make_array"
)
# Not of what stands for a subquery or a column of a query around it, whose names begin with a $.
_CALL = re.compile(r"(?<![\w$])([a-z_]\w*)\((?:#\w(?:, #\w)*)?\)")
_ANY_CALL = re.compile(r"(?<![\w$])([a-z_]\w*)\(")
_MAY_COMPUTE = re.compile(r"#\w \S+ \(*(?:CAST\(|- )*#|\(#|\w\(\)")
# These make lists and structs of their arguments, or are no functions: nothing is computed.
_MAKERS = frozenset(
    {"make_array", "struct", "named_struct", "map", "range", "generate_series", "unnest", "grouping", "outer_ref"}
)
# Types have a space where literals have none: Decimal128(38, 6) and Decimal128(0.5,1,1).
_NUMBER = re.compile(r"(?:U?Int\d+|Float\d+|Decimal\d+)\((-?[\w.+-]+)(?:,(?! )|\))")
_SUM = re.compile(r"(?:U?Int\d+|Decimal\d+)\((-?[\d.]+)[^()]*\) ([-+*]) (?:U?Int\d+|Decimal\d+)\((-?[\d.]+)")
_MADE_TEXT = re.compile(r'Utf8(?:View)?\("((?:[^"\\]|\\.)*)"\)')
_ROUNDED = re.compile(r"Timestamp(?:Milli)?[sS]econd\(")


def computes_constants(written: str) -> bool:
    """Whether an expression of the plan as written is of constants alone, and not one of those above.

    False where the engine has not one of the query's functions: the planner may write that in terms of others.
    """
    text = _with_kinds(written)
    computes = bool(_called(_CALL, text)) or _COMPUTED.search(text) is not None or bool(_MADE_AS_TEXT.search(written))
    return computes and _is_known(written)


def made_constants(written: str, shown: str) -> bool:
    """Whether the optimized plan has a constant that neither stands in the query nor is computed exactly.

    So it is when constants of a subquery's columns meet, or a literal is rounded to milliseconds.
    """
    made = _ROUNDED.search(shown) is not None and not _ROUNDED.search(written)
    if not made:
        made = not set(_MADE_TEXT.findall(shown)) <= set(_MADE_TEXT.findall(written))
    if not made:
        known = _numbers(written)
        new = _numbers(shown) - known - {-number for number in known}
        made = bool(new) and not new <= {_applied(*found) for found in _SUM.findall(written)}
    return made and _is_known(written)


def _with_kinds(written: str) -> str:
    """Lines of the plan's text where something may be computed of constants: with kinds in place of literals, and of
    what is computed exactly.
    """
    text = _INTERVAL.sub(lambda found: "#h" if _HAS_CLOCK.search(found.group()) else "#v", written)
    text = _LITERAL.sub(_kind, _QUOTED.sub('""', text)).replace("NULL", "#b")
    text = "\n".join(line for line in dict.fromkeys(text.splitlines()) if _MAY_COMPUTE.search(line))
    before = ""
    while before != text:
        before = text
        for pattern, made in _SAFE:
            text = pattern.sub(made, text)
    return text


def _is_known(written: str) -> bool:
    """Whether the engine has all functions of the query."""
    return all(map(is_known_scalar, _called(_ANY_CALL, _QUOTED.sub('""', written))))


def _called(pattern: re.Pattern[str], text: str) -> set[str]:
    """The scalar functions among the calls found."""
    return {name for name in pattern.findall(text) if name not in _MAKERS and not _is_aggregate(name)}


def _kind(found: re.Match[str]) -> str:
    type_, value = found.groups()
    if value == "NULL":
        return "#b"
    if type_.startswith("Interval"):
        return "#v"
    if type_.startswith("Date"):
        return "#d"
    kind = "t" if type_.startswith("Utf8") or type_.endswith("Binary") else _KINDS[type_[0]]
    return "#I" if kind == "i" and len(value) > 9 else f"#{kind}"


@lru_cache(maxsize=512)
def _is_aggregate(name: str) -> bool:
    return is_known_aggregate(name) or is_window_function(name)


def _numbers(text: str) -> set[Decimal]:
    return {_number(value) for value in set(_NUMBER.findall(text)) if value != "NULL"}


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")


def _applied(a: str, operator: str, b: str) -> Decimal:
    left, right = _number(a), _number(b)
    return left + right if operator == "+" else left - right if operator == "-" else left * right
