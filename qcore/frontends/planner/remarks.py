"""DataFusion's remarks about a query, each in SQL's words: what is wrong, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable

# Arrow's types as SQL calls them.
_TYPES = {
    "Utf8View": "varchar", "LargeUtf8": "varchar", "Utf8": "varchar", "String": "varchar", "Int64": "bigint",
    "Int32": "integer", "Int16": "smallint", "Int8": "tinyint", "UInt64": "ubigint", "UInt32": "uinteger",
    "UInt16": "usmallint", "UInt8": "utinyint", "Float64": "double", "Float32": "real", "Boolean": "boolean",
    "Date32": "date", "Date64": "date", "BinaryView": "binary", "LargeBinary": "binary", "Binary": "binary",
    "Decimal128": "decimal", "Decimal256": "decimal", "Null": "null", "LargeList": "list", "List": "list",
    "Struct": "struct", "Map": "map", "Numeric": "a number", "Integer": "an integer",
}  # fmt: skip
NO_SETS_OF_DAYS = (
    "GROUPING SETS, ROLLUP and CUBE by a date and a number of days are not supported yet; write day + "
    "INTERVAL '3' DAY, or compute the key in a subquery"
)
NO_PARAMETERS = "parameters in the text of a query are not supported; put the values into it"
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b")
_OF_TIME = re.compile(r"\b(Timestamp|Time32|Time64|Interval|Duration)(?:\([^()]*\))?")


def sql_types(text: str) -> str:
    """The text with SQL's names of types."""
    named = _OF_TIME.sub(_time_type, text)
    return _TYPE.sub(lambda found: _TYPES[found.group(1)], named)


def _time_type(found: re.Match[str]) -> str:
    name = found.group(1)
    if name == "Timestamp":
        return "timestamptz" if '"' in found.group() else "timestamp"
    return "time" if name.startswith("Time") else name.lower()


def _ungrouped(clause: str, column: str) -> str:
    return (
        f"column {column} stands in {clause} outside of every aggregate function and not in GROUP BY; add it there, or "
        f"write any_value({column})"
    )


def _no_arguments_in_common(name: str, types: str) -> str:
    if not types:
        return f"{name}() takes an argument"
    return f"the arguments of {name}({sql_types(types)}) have no type in common; cast them to one"


def _counted(name: str, types: str) -> str:
    count = types.count(",") + 1 if types else 0
    return f"{name}() takes 1 argument, not {count}"


def _not_taken(name: str, types: str) -> str:
    return (
        f"{name}() does not take ({sql_types(types)}); cast the arguments to what it takes, as docs/FUNCTIONS.md says"
    )


# What stands in a remark → what is said of its groups.
_REMARKS: tuple[tuple[re.Pattern[str], Callable[..., str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), said)
    for pattern, said in (
        (
            r"only supports a single SQL statement",
            lambda: "the text has more than one statement; run them one after the other",
        ),
        (
            r"missing field of lambda variable",
            lambda: (
                "an aggregate, window or table function in a lambda cannot read its parameters; list_sum(l), "
                "list_max(l) and their kin are of lists"
            ),
        ),
        (
            r"Column in (\w+) must be in GROUP BY or an aggregate function: .*?column \"(.+?)\" must appear",
            _ungrouped,
        ),
        (
            r"(HAVING) clause references: (.+?) must appear in the GROUP BY",
            lambda clause, column: (
                f"{clause} stands without GROUP BY and without an aggregate; conditions on rows go into WHERE"
            ),
        ),
        (
            r"Aggregate functions are not allowed in the WHERE clause",
            lambda: "an aggregate function stands in WHERE; conditions on aggregates go into HAVING",
        ),
        (
            r"Aggregate function calls cannot be nested: '.*?' is nested inside '(.+?)'",
            lambda call: f"an aggregate function stands inside another, {call}; compute the inner one in a subquery",
        ),
        (
            r"Function '(\w+)' expects (\w+) but received (\w+)",
            lambda name, wanted, given: (
                f"{name}() takes {sql_types(wanted)}, not {sql_types(given)}; cast the argument"
            ),
        ),
        (
            r"[Mm]in/max was called with \d+ arguments?.*argument types '(\w+)\((.*)\)'",
            _counted,
        ),
        (r"user-defined coercion failed with.*argument types '(\w+)\((.*)\)'", _no_arguments_in_common),
        (r"Failed to coerce arguments.*argument types '(\w+)\((.*)\)'", _not_taken),
        (
            r"temporal operation (.+?): Invalid argument error",
            lambda operation: (
                f"{sql_types(operation)} is not defined; cast one side to a type that goes with the other"
            ),
        ),
        (
            r"Unary operator 'NOT' requires a boolean expression, got (.+)",
            lambda given: f"NOT takes a condition, not {sql_types(given)}; compare it with something",
        ),
        (
            r"common argument type for logical boolean operation (.+) (AND|OR) (.+)",
            lambda a, word, b: (
                f"{word} takes conditions, not {sql_types(a)} and {sql_types(b)}; compare what is no condition with "
                "something"
            ),
        ),
        (
            r"filter with non-boolean predicate '(.+)' returning (.+)",
            lambda what, given: f"the condition {what} is {sql_types(given)}, not boolean; compare it with something",
        ),
        (
            r"common argument type for comparison operation (.+)",
            lambda operation: (
                f"{sql_types(operation)} is not defined; cast one side to a type that goes with the other"
            ),
        ),
        (
            r"common string type for string concat operation (.+)",
            lambda operation: f"{sql_types(operation)} is not defined; cast one side to varchar",
        ),
        (
            r"common type to coerce (.+) and (.+) in (\w+) expression",
            lambda a, b, word: f"{word} takes texts, not {sql_types(a)} and {sql_types(b)}; cast to varchar",
        ),
        (
            r"(?:Invalid input syntax for type interval|Invalid interval format): \"?(.+?)\"?$",
            lambda text: f"{text!r} is no interval; write numbers with units, as in interval '1 month 3 days'",
        ),
        (
            r"Unsupported SQL type (.+)",
            lambda name: f"unknown type {name}; casts and columns have types such as bigint, varchar and timestamp",
        ),
        (
            r"Too many columns! The subquery should only return one column: (.+)",
            lambda columns: f"a subquery used as a value gives several columns ({columns}); select one of them",
        ),
        (
            r"(\w+) queries have different number of columns",
            lambda word: f"{word} joins queries of different numbers of columns; select as many in each",
        ),
        (
            r"Order by column out of bounds, specified: (\d+), max: (\d+)",
            lambda place, count: f"ORDER BY {place} names a place in the select list, which has {count}",
        ),
        (
            r"For SELECT DISTINCT, ORDER BY expressions (.+) must appear in select list",
            lambda what: f"SELECT DISTINCT is ordered by {what}, which it does not select; add it to the select list",
        ),
        (
            r"Cannot parse placeholder id",
            lambda: NO_PARAMETERS,
        ),
        (
            r"variable \[\"(.+)\"\] has no type information",
            lambda name: f"variables such as {name} are not supported; put the value into the query",
        ),
        (
            r"grouping function is not in grouping columns ?(.*)",
            lambda columns: (
                f"grouping() takes what GROUP BY has: {columns}" if columns else "grouping() stands without GROUP BY"
            ),
        ),
        (
            r"Unsupported SQL statement: (\w+)",
            lambda word: (
                f"{word} is not supported: qcore runs queries; Session.register() makes a table of a file, of Arrow "
                "data or of a result"
            ),
        ),
        (
            r"Field (.+) not found in struct",
            lambda name: f"the struct has no field {name}",
        ),
        (
            r"No field named \"?__grouping_id\"?",
            lambda: (
                "grouping() beside a key that is computed of several types is not supported yet; compute the key in a "
                "subquery"
            ),
        ),
    )
)


def remark(text: str) -> str | None:
    """What a remark means; None where it speaks for itself."""
    for pattern, said in _REMARKS:
        found = pattern.search(text)
        if found:
            return said(*(group or "" for group in found.groups()[: pattern.groups]))
    return None
