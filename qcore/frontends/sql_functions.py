"""Calls of DuckDB's, PostgreSQL's and Spark's functions written as calls that DataFusion's planner knows. Floor P2.

For functions whose arguments are of any type, so that they cannot be registered with the planner.
"""

from __future__ import annotations

from qcore.frontends.sql_clauses import items
from qcore.frontends.sql_text import SqlText
from qcore.frontends.substrait.dialect_functions import AT_TIME_ZONE
from qcore_ext.ground.status import PlanError

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
}
_EXTREMES = {"ARG_MAX": "DESC", "MAX_BY": "DESC", "ARG_MIN": "ASC", "MIN_BY": "ASC"}
_SORTS = {"LIST_SORT": "'ASC'", "ARRAY_SORT": "'ASC'", "LIST_REVERSE_SORT": "'DESC'", "ARRAY_REVERSE_SORT": "'DESC'"}
_NULLS = ("'NULLS FIRST'", "'NULLS LAST'")
# What a list begins with where its length is asked for.
_MAKE_LISTS = ("ARRAY", "LIST_VALUE", "MAKE_ARRAY", "RANGE", "GENERATE_SERIES", "STRING_SPLIT", "LIST", "ARRAY_AGG")


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
        name = sql.tokens[i].text
        if name in _RENAMED and not sql.is_word(i - 1, "AS", "WITH"):
            return sql.replaced(i, i + 1, _RENAMED[name])
        if name == "STRUCT_PACK":
            return sql.replaced(i, close + 1, f"named_struct({', '.join(_fields(sql, i + 2, close))})")
        if name in _SORTS and sql.tokens[close - 1].text.upper() not in _NULLS:
            parts = [sql.slice(a, b) for a, b in items(sql, i + 2, close)]
            order = [_SORTS[name]] if len(parts) == 1 else parts[1:2]
            return sql.replaced(i, close + 1, f"array_sort({parts[0]}, {order[0]}, 'NULLS LAST')")
        if name in _EXTREMES:
            return sql.replaced(i, close + 1, _extreme(sql, i, close))
        if name in ("COUNT_IF", "COUNTIF") and close > i + 2:
            return sql.replaced(i, close + 1, f"sum(CAST(({sql.slice(i + 2, close)}) AS INT))")
        if name in ("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT") and close > i + 2:
            return sql.replaced(i, i + 2, "count(DISTINCT")
        if name == "TIMEZONE":
            parts = [sql.slice(a, b) for a, b in items(sql, i + 2, close)]
            if len(parts) != 2:
                raise PlanError(f"timezone takes a zone and a timestamp, not {len(parts)} arguments")
            return sql.replaced(i, close + 1, f"{AT_TIME_ZONE}({parts[1]}, {parts[0]})")
        if name in ("IF", "IFF"):
            parts = [sql.slice(a, b) for a, b in items(sql, i + 2, close)]
            if len(parts) != 3:
                raise PlanError(f"{name.lower()} takes a condition and two values, not {len(parts)} arguments")
            return sql.replaced(i, close + 1, f"(CASE WHEN {parts[0]} THEN {parts[1]} ELSE {parts[2]} END)")
        if name in ("LEN", "LENGTH") and (sql.is_sign(i + 2, "[") or sql.is_word(i + 2, *_MAKE_LISTS)):
            # The planner would compute the length of the list's text.
            return sql.replaced(i, i + 1, "array_length")
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


def _extreme(sql: SqlText, call: int, close: int) -> str:
    """arg_max(value, key): the value of the row with the largest key; rows where one is null do not count."""
    name = sql.tokens[call].text
    parts = [sql.slice(a, b) for a, b in items(sql, call + 2, close)]
    if len(parts) != 2:
        raise PlanError(f"{name.lower()} takes a value and what to order by, not {len(parts)} arguments")
    if sql.is_word(close + 1, "FILTER", "OVER"):
        raise PlanError(f"{name.lower()} with {sql.tokens[close + 1].text} is not supported; use first_value")
    value, key = parts
    counted = f"{value} IS NOT NULL AND {key} IS NOT NULL"
    return f"first_value({value} ORDER BY {key} {_EXTREMES[name]}) FILTER (WHERE {counted})"
