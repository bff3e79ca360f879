"""Aggregates that neither the planner nor the engine has, written as others, or as functions of lists."""

from __future__ import annotations

from qcore.errors import PlanError
from qcore.frontends.text.clauses import items
from qcore.frontends.text.tokens import SqlText

# Of all values of a group: functions of the list of them.
_OF_LISTS = {
    "PRODUCT": "list_product", "SKEWNESS": "list_skewness", "KURTOSIS": "list_kurtosis",
    "KURTOSIS_POP": "list_kurtosis_pop", "MAD": "list_mad", "ENTROPY": "list_entropy", "HISTOGRAM": "list_histogram",
}  # fmt: skip
_QUANTILES = ("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC")
_SUMS = ("FSUM", "SUMKAHAN", "KAHAN_SUM")
_MEANS = {
    "GEOMEAN": "exp(avg(ln({x})) {behind})", "GEOMETRIC_MEAN": "exp(avg(ln({x})) {behind})",
    "SEM": "(stddev_pop({x}) {behind} / sqrt(count({x}) {behind}))", "FAVG": "avg({x}) {behind}",
}  # fmt: skip
_EXTREMES = {
    "ARG_MAX": "DESC", "MAX_BY": "DESC", "ARG_MIN": "ASC", "MIN_BY": "ASC", "MAX": "DESC", "MIN": "ASC",
}  # fmt: skip


def aggregate_as_others(sql: SqlText, call: int, close: int) -> str | None:
    """The text with the aggregate at token `call`, whose arguments end at `close`, written otherwise; None when it is
    none of these.

    Raises
    ------
    PlanError
        It is called over a window, or with too many arguments.
    """
    name = sql.tokens[call].text
    parts = [sql.slice(a, b) for a, b in items(sql, call + 2, close)]
    end, filter = _filter(sql, close + 1)
    if name in _OF_LISTS and parts[0]:
        _refuse_window(sql, end, name)
        values = f"{_OF_LISTS[name]}(array_agg({sql.slice(call + 2, close)}){filter})"
        return sql.replaced(call, end, f"coalesce({values}, 0e0)" if name == "ENTROPY" else values)
    if name in _SUMS and parts[0]:
        return sql.replaced(call, close + 1, f"sum(CAST({parts[0]} AS DOUBLE))")
    if name in _MEANS and parts[0]:
        behind, end = _behind(sql, close, end)
        return sql.replaced(call, end, _MEANS[name].format(x=parts[0], behind=behind))
    if name in _QUANTILES and len(parts) == 2 and parts[1].startswith("[") and parts[1].endswith("]"):
        return _quantiles(sql, call, close, end)
    n_own = 1 if name in ("MAX", "MIN") else 2
    if name in _EXTREMES and len(parts) == n_own + 1:
        _refuse_window(sql, end, f"{name} of several")
        value, key, count = parts[0], parts[n_own - 1], parts[n_own]
        counted = f"{value} IS NOT NULL AND {key} IS NOT NULL"
        counted += f" AND ({filter.strip()[len('FILTER (WHERE ') : -1]})" if filter else ""
        order = f"ORDER BY {key} {_EXTREMES[name]}"
        return sql.replaced(call, end, f"array_agg({value} {order}) FILTER (WHERE {counted})[1:{count}]")
    return None


def _filter(sql: SqlText, at: int) -> tuple[int, str]:
    """Where the FILTER at a token ends, if there is one, and its text."""
    if not sql.is_word(at, "FILTER") or not sql.is_sign(at + 1, "("):
        return at, ""
    end = sql.partner[at + 1]
    return end + 1, f" FILTER (WHERE {sql.slice(at + 3, end)})"


def _refuse_window(sql: SqlText, end: int, name: str) -> None:
    if sql.is_word(end, "OVER"):
        raise PlanError(f"{name.lower()} over a window is not supported yet; join the groups that have it")


def _behind(sql: SqlText, close: int, end: int) -> tuple[str, int]:
    """The FILTER and OVER behind a call, the first of which ends at a token, and where they end."""
    if sql.is_word(end, "OVER"):
        end = sql.partner[end + 1] + 1 if sql.is_sign(end + 1, "(") else end + 2
    return sql.slice(close + 1, end), end


def _quantiles(sql: SqlText, call: int, close: int, end: int) -> str | None:
    """Of a list of fractions: the list of the quantiles, null where there is no value."""
    (a, b), (c, d) = items(sql, call + 2, close)
    behind, end = _behind(sql, close, end)
    name, value = sql.tokens[call].text.lower(), sql.slice(a, b)
    fractions = [sql.slice(first, last) for first, last in items(sql, c + 1, d - 1)]
    if not all(fractions):
        raise PlanError(f"{name} takes a list of at least one fraction")
    each = ", ".join(f"{name}({value}, {fraction}) {behind}" for fraction in fractions)
    return sql.replaced(call, end, f"(CASE WHEN count({value}) {behind} > 0 THEN make_array({each}) END)")
