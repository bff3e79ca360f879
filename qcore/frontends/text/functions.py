"""Calls of DuckDB's, PostgreSQL's and Spark's functions written as calls that DataFusion's planner knows.

For functions whose arguments are of any type, so that they cannot be registered with the planner.
"""

from __future__ import annotations

import re

from qcore.errors import PlanError
from qcore.frontends.text.aggregates import aggregate_as_others
from qcore.frontends.text.clauses import items
from qcore.frontends.text.operands import operand_start
from qcore.frontends.text.tokens import SqlText
from qcore.substrait.dialect_functions import ANY, AS_TEXT, AT_TIME_ZONE, DIALECT_FUNCTIONS
from qcore.substrait.functions import STAND_IN

# Other names of functions that the planner has.
_RENAMED = {
    "LIST_VALUE": "make_array",
    "LIST_PACK": "make_array",
    "STRUCT_EXTRACT": "get_field",
    "ROW": "struct",
    "STRING_SPLIT": "string_to_array",
    "STR_SPLIT": "string_to_array",
    "SPLIT": "string_to_array",
    "LIST": "array_agg",
    "COLLECT_LIST": "array_agg",
    "FIRST": "first_value",
    "LAST": "last_value",
    "ARBITRARY": "first_value",
    "APPROX_QUANTILE": "quantile_cont",
    "GROUP_CONCAT": "string_agg",
    "LISTAGG": "string_agg",
    "EVERY": "bool_and",
    # The planner would make a LIKE of it, with escapes that a session's LIKE may not have.
    "STARTS_WITH": "startswith",
    "VARIANCE": "var_samp",
    "LIST_MIN": "array_min",
    "LIST_CONTAINS_ALL": "array_has_all",
    "LIST_HAS_ALL": "array_has_all",
    "LIST_HAS_ANY": "array_has_any",
    "SIZE": "cardinality",
    "LIST_LENGTH": "array_length",
    "ARRAY_VALUE": "make_array",
    "LIST_INTERSECT": "array_intersect",
    "LIST_ANY_VALUE": "array_any_value",
    "GREATEST_COMMON_DIVISOR": "gcd",
    "LEAST_COMMON_MULTIPLE": "lcm",
    "GET_CURRENT_TIMESTAMP": "now",
    "TRANSACTION_TIMESTAMP": "now",
    "GEN_RANDOM_UUID": "uuid",
    "QUANTILE": "quantile_disc",
    "PERCENTILE_DISC": "quantile_disc",
}
_ELEMENT = '"$element"'
# The planner's own is x = ANY(list), unknown where it may be one of the list's nulls.
_CONTAINS = '(CASE WHEN "array_has"({0}, {1}) THEN true WHEN ({0}) IS NOT NULL AND ({1}) IS NOT NULL THEN false END)'
# What else says the same: by the name and the number of arguments.
_WRITTEN_OUT = {
    ("LIST_FIRST", 1): "array_element({0}, 1)",
    ("LIST_LAST", 1): "array_element({0}, -1)",
    ("ARRAY_PUSH_BACK", 2): "array_append({0}, {1})",
    ("ARRAY_PUSH_FRONT", 2): "array_prepend({1}, {0})",
    ("ARRAY_POP_BACK", 1): "array_slice({0}, 1, -2)",
    ("ARRAY_POP_FRONT", 1): "array_slice({0}, 2, -1)",
    **{
        (name, 2): f"(CASE WHEN ({{0}}) IS NOT NULL THEN "
        f"array_transform({{1}}, {_ELEMENT} -> array_element({{0}}, {_ELEMENT})) END)"
        for name in ("LIST_SELECT", "ARRAY_SELECT")
    },
    **{
        (name, 2): f"(CASE WHEN ({{0}}) IS NOT NULL AND ({{1}}) IS NOT NULL THEN array_transform(array_filter("
        f"list_zip({{0}}, {{1}}), {_ELEMENT} -> {_ELEMENT}['2']), {_ELEMENT} -> {_ELEMENT}['1']) END)"
        for name in ("LIST_WHERE", "ARRAY_WHERE")
    },
    ("LIST_STRING_AGG", 1): "array_to_string({0}, ',')",
    # As list_aggregate(l, 'string_agg', between) says it.
    ("LIST_STRING_AGG", 2): "array_to_string({0}, {1})",
    **{(name, 2): _CONTAINS for name in ("LIST_CONTAINS", "LIST_HAS", "ARRAY_CONTAINS", "ARRAY_HAS")},
    ("MAP_CONTAINS", 2): "list_contains(map_keys({0}), {1})",
    ("MAP_CONTAINS_VALUE", 2): "list_contains(map_values({0}), {1})",
    ("MAP_EXTRACT_VALUE", 2): "array_element(map_extract({0}, {1}), 1)",
    ("GENERATE_SUBSCRIPTS", 2): "unnest(generate_series(1, CAST(array_length({0}) AS BIGINT)))",
    ("ENCODE", 1): "CAST({0} AS BYTEA)",
    ("DECODE", 1): "CAST({0} AS VARCHAR)",
    ("CONSTANT_OR_NULL", 2): "(CASE WHEN {1} IS NOT NULL THEN {0} END)",
    ("ADD", 2): "({0} + {1})",
    ("SUBTRACT", 2): "({0} - {1})",
    ("MULTIPLY", 2): "({0} * {1})",
}
# What list_aggregate calls otherwise than the functions of lists it stands for.
_OF_LISTS = {"mean": "avg", "stddev": "stddev_samp", "variance": "var_samp", "group_concat": "string_agg"}
_WRITTEN_NAMES = frozenset(name for name, _ in _WRITTEN_OUT)
_AGGREGATES_OF_LISTS = frozenset({"LIST_AGGREGATE", "LIST_AGGR", "ARRAY_AGGREGATE", "ARRAY_AGGR"})
# Aggregates that the planner has not: another with a result of the same type stands for them.
_STAND_INS = frozenset({"MODE", "QUANTILE_DISC"})
_EXTREMES = {"ARG_MAX": "DESC", "ARGMAX": "DESC", "MAX_BY": "DESC", "ARG_MIN": "ASC", "ARGMIN": "ASC", "MIN_BY": "ASC"}
_SORTS = {"LIST_SORT": "'ASC'", "ARRAY_SORT": "'ASC'", "LIST_REVERSE_SORT": "'DESC'", "ARRAY_REVERSE_SORT": "'DESC'"}
_NULLS = ("'NULLS FIRST'", "'NULLS LAST'")
# What a list begins with where its length is asked for.
_MAKE_LISTS = ("ARRAY", "LIST_VALUE", "MAKE_ARRAY", "RANGE", "GENERATE_SERIES", "STRING_SPLIT", "LIST", "ARRAY_AGG",
               "LIST_ZIP", "MAP_ENTRIES", "ARRAY_TRANSFORM", "ARRAY_FILTER")  # fmt: skip
# Functions of values of any type, which the planner makes text of them for.
_OF_ANY = frozenset(
    name.upper() for (name, _), function in DIALECT_FUNCTIONS.items() if ANY in function.arguments and name != AS_TEXT
) | {"LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"}
_TEXTS = ("TEXT", "VARCHAR", "STRING")


def with_known_functions(text: str) -> str:
    """The text with such calls rewritten.

    Raises
    ------
    PlanError
        A call has the wrong number of arguments, or one without a name where each needs one.
    """
    while (changed := _changed(SqlText.read(text))) is not None:
        text = changed
    return text


def _changed(sql: SqlText) -> str | None:
    for opens in sql.signs("("):
        i = opens - 1
        if i < 0 or sql.tokens[i].kind != "word" or sql.is_sign(i - 1, "."):
            continue
        close = sql.partner[i + 1]
        if close >= len(sql.tokens):
            continue
        if sql.is_word(close + 1, "AS") and (sql.is_sign(close + 2, "(") or sql.is_word(close + 2, "MATERIALIZED")):
            continue  # a common table and its columns
        name = sql.tokens[i].text
        aggregate = aggregate_as_others(sql, i, close)
        if aggregate is not None:
            return aggregate
        if name in _RENAMED and not sql.is_word(i - 1, "AS", "WITH"):
            return sql.replaced(i, i + 1, _RENAMED[name])
        if name == "STRUCT_PACK":
            return sql.replaced(i, close + 1, f"named_struct({', '.join(_fields(sql, i + 2, close))})")
        if name in _SORTS and sql.tokens[close - 1].text.upper() not in _NULLS:
            parts = [sql.slice(a, b) for a, b in items(sql, i + 2, close)]
            order = [_SORTS[name]] if len(parts) == 1 else parts[1:2]
            return sql.replaced(i, close + 1, f"array_sort({parts[0]}, {order[0]}, 'NULLS LAST')")
        aggregate = _aggregate(sql, i, close)
        if aggregate is not None:
            return aggregate
        written = _written_out(sql, i, close)
        if written is not None:
            return written
        if name == "TIMEZONE":
            parts = [sql.slice(a, b) for a, b in items(sql, i + 2, close)]
            if len(parts) != 2:
                raise PlanError(f"timezone takes a zone and a timestamp, not {len(parts)} arguments")
            return sql.replaced(i, close + 1, f"{AT_TIME_ZONE}({parts[1]}, {parts[0]})")
        if name == "POSITION":
            found = next((j for j in sql.level(i + 2, close) if sql.is_word(j, "IN")), None)
            if found is not None:  # of a text in another: no IN (subquery)
                return sql.replaced(i, close + 1, f"strpos({sql.slice(found + 1, close)}, {sql.slice(i + 2, found)})")
        if name in ("IF", "IFF"):
            parts = [sql.slice(a, b) for a, b in items(sql, i + 2, close)]
            if len(parts) != 3:
                raise PlanError(f"{name.lower()} takes a condition and two values, not {len(parts)} arguments")
            return sql.replaced(i, close + 1, f"(CASE WHEN {parts[0]} THEN {parts[1]} ELSE {parts[2]} END)")
        if name == "AGE" and len(list(items(sql, i + 2, close))) == 1:
            return sql.replaced(i + 2, i + 2, "current_date, ")
        if name == "TYPEOF" and close == i + 3 and sql.is_word(i + 2, "NULL"):
            return sql.replaced(i, close + 1, "'\"NULL\"'")
        if name in _OF_ANY:
            written = _as_text(sql, i + 2, close)
            if written is not None:
                return written
        if name in ("LEN", "LENGTH") and _is_list(sql, i + 2, close):
            # The planner would compute the length of the list's text.
            return sql.replaced(i, i + 1, "array_length")
    return None


def _as_text(sql: SqlText, start: int, end: int) -> str | None:
    """The text with a call around the first argument that is a cast to text."""
    for a, b in items(sql, start, end):
        while sql.is_sign(a, "(") and sql.partner[a] == b - 1:
            a, b = a + 1, b - 1
        if b - a < 4 or not sql.is_word(b - 1 - sql.is_sign(b - 1, ")"), *_TEXTS):
            continue
        is_suffix = sql.is_sign(b - 2, ":") and sql.is_sign(b - 3, ":") and operand_start(sql, b - 3) == a
        is_call = sql.is_word(a, "CAST") and sql.partner.get(a + 1) == b - 1 and sql.is_word(b - 3, "AS")
        if is_suffix or is_call:
            return sql.replaced(a, b, f"{AS_TEXT}({sql.slice(a, b)})")
    return None


def _written_out(sql: SqlText, call: int, close: int) -> str | None:
    """The text with a call at token `call` in terms of others; None when it is none of these."""
    name = sql.tokens[call].text
    if name in _AGGREGATES_OF_LISTS:
        parts = [sql.slice(a, b) for a, b in items(sql, call + 2, close)]
        if len(parts) < 2 or not re.fullmatch(r"'\w+'", parts[1]):
            raise PlanError(f"{name.lower()} takes a list and the name of an aggregate: {name.lower()}(l, 'sum')")
        aggregate = parts[1][1:-1].lower()
        arguments = ", ".join([parts[0], *parts[2:]])
        return sql.replaced(call, close + 1, f"list_{_OF_LISTS.get(aggregate, aggregate)}({arguments})")
    if name not in _WRITTEN_NAMES:
        return None
    parts = [sql.slice(a, b) for a, b in items(sql, call + 2, close)]
    if name == "GENERATE_SUBSCRIPTS" and parts[1:] != ["1"]:
        raise PlanError("generate_subscripts takes a list and the dimension 1; those of inner lists are not supported")
    form = _WRITTEN_OUT.get((name, len(parts)))
    return None if form is None else sql.replaced(call, close + 1, form.format(*parts))


def _is_list(sql: SqlText, start: int, end: int) -> bool:
    """Whether tokens start to end are one list, written out or made by a call."""
    opens = start if sql.is_sign(start, "[") else start + 1 if sql.is_word(start, *_MAKE_LISTS) else end
    return sql.partner.get(opens, -1) == end - 1


def _aggregate(sql: SqlText, call: int, close: int) -> str | None:
    """The text with an aggregate at token `call` written otherwise; None when it is none of these."""
    name = sql.tokens[call].text
    if name in _EXTREMES:
        end, condition = _filter(sql, close + 1)
        return sql.replaced(call, end, _extreme(sql, call, close, condition))
    if name in ("COUNT_IF", "COUNTIF") and close > call + 2:
        return sql.replaced(call, close + 1, f"sum(CAST(({sql.slice(call + 2, close)}) AS INT))")
    if name in ("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT") and close > call + 2:
        return sql.replaced(call, call + 2, "count(DISTINCT")
    if name in _STAND_INS and sql.is_word(close + 1, "WITHIN") and sql.is_word(close + 2, "GROUP"):
        return sql.replaced(call, sql.partner[close + 3] + 1, _within_group(sql, call, close))
    if name in _STAND_INS and not sql.is_word(_filter(sql, close + 1)[0], "OVER"):
        return sql.replaced(call, close + 1, _stand_in(sql, call, close))
    if name == "STRING_AGG":
        end = _own_order(sql, call + 2, close)
        if len(list(items(sql, call + 2, end))) == 1:
            return sql.replaced(end - 1, end, f"{sql.slice(end - 1, end)}, ','")
    return None


def _fields(sql: SqlText, start: int, end: int) -> list[str]:
    """Names, as text, and values of `name := value, …`."""
    parts = []
    for a, b in items(sql, start, end):
        is_named = b - a > 3 and sql.is_sign(a + 1, ":") and sql.is_sign(a + 2, "=")
        if not is_named or sql.tokens[a].kind not in ("word", "quoted"):
            raise PlanError("struct_pack takes names and values: struct_pack(a := 1, b := 'x')")
        name = sql.name(a).replace("'", "''")
        parts += [f"'{name}'", sql.slice(a + 3, b)]
    return parts


def _filter(sql: SqlText, at: int) -> tuple[int, str]:
    """Where the FILTER at a token ends, if there is one, and its condition."""
    if not sql.is_word(at, "FILTER") or not sql.is_sign(at + 1, "("):
        return at, ""
    return sql.partner[at + 1] + 1, sql.slice(at + 3, sql.partner[at + 1])


def _own_order(sql: SqlText, start: int, end: int) -> int:
    """Where the ORDER BY among arguments begins; their end where there is none."""
    return next((i for i in sql.level(start, end) if sql.is_word(i, "ORDER") and sql.is_word(i + 1, "BY")), end)


def _extreme(sql: SqlText, call: int, close: int, condition: str) -> str:
    """arg_max(value, key): the value of the row with the largest key; rows where one is null do not count."""
    name = sql.tokens[call].text
    parts = [sql.slice(a, b) for a, b in items(sql, call + 2, close)]
    if len(parts) != 2:
        raise PlanError(f"{name.lower()} takes a value and what to order by, not {len(parts)} arguments")
    value, key = parts
    counted = f"{value} IS NOT NULL AND {key} IS NOT NULL" + (f" AND ({condition})" if condition else "")
    return f"first_value({value} ORDER BY {key} {_EXTREMES[name]}) FILTER (WHERE {counted})"


def _within_group(sql: SqlText, call: int, close: int) -> str:
    """mode() WITHIN GROUP (ORDER BY value), percentile_disc(fraction) WITHIN GROUP (ORDER BY value)."""
    name, opened = sql.tokens[call].text.lower(), close + 3
    keys = list(items(sql, opened + 3, sql.partner[opened]))
    if not sql.is_word(opened + 1, "ORDER") or len(keys) != 1:
        raise PlanError(f"{name} WITHIN GROUP takes one expression to order by")
    a, b = keys[0]
    end = b - 2 if sql.is_word(b - 2, "NULLS") else b
    end -= sql.is_word(end - 1, "ASC", "DESC")
    more = f", {sql.slice(call + 2, close)}" if close > call + 2 else ""
    return f"{name}({sql.slice(a, end)}{more} ORDER BY {sql.slice(a, b)})"


def _stand_in(sql: SqlText, call: int, close: int) -> str:
    """The aggregate as first_value, whose order begins with a comparison with a text that says what is meant; the
    reader of the planner's message takes it out again.
    """
    name = sql.tokens[call].text.lower()
    first, end = call + 2, _own_order(sql, call + 2, close)
    words = [STAND_IN, name]
    if sql.is_word(first, "DISTINCT"):
        words.append("distinct")
        first += 1
    parts = [sql.slice(a, b) for a, b in items(sql, first, end)]
    if len(parts) != (2 if name == "quantile_disc" else 1) or not parts[0]:
        raise PlanError(f"{name} takes {'a value and a fraction' if name == 'quantile_disc' else 'one argument'}")
    if name == "quantile_disc":
        if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", parts[1]):
            raise PlanError(f"the fraction of {name} is a number from 0 to 1, not {parts[1]}")
        words.append(parts[1])
    more = f", {sql.slice(end + 2, close)}" if end < close else ""
    return f"first_value({parts[0]} ORDER BY CAST({parts[0]} AS VARCHAR) = '{' '.join(words)}'{more})"
