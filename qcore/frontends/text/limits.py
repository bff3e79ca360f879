"""LIMIT and OFFSET that the query computes, and LIMIT of a share of the rows, cut out of a query's text."""

from __future__ import annotations

from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.clauses import with_visible
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, Region, SqlText

# LIMIT of this and more stands for one that is cut out; no table has as many rows.
CUT_LIMITS = 1 << 62
_PLAIN_SIGNS = frozenset("+-*/()")


@dataclass(frozen=True)
class CutLimit:
    """A query of one row, how many rows to give (null: all) and how many to pass over before; the first is a percentage
    of all rows where `is_share`.
    """

    query: str
    is_share: bool
    #: The LIMIT that stands for it.
    number: int


def cut_limit(text: str, number: int) -> tuple[str, CutLimit] | None:
    """The text with its first such LIMIT as LIMIT of CUT_LIMITS + number, and what it was; None when there is none.

    Raises
    ------
    PlanError
        A share that is no number from 0 to 100.
    """
    sql = SqlText.read(text)
    if not sql.words & {"LIMIT", "OFFSET"}:
        return None
    for region in sql.regions:
        spans = _spans(sql, region)
        if not any(_is_computed(sql, *span) for span in spans.values()):
            continue
        start, end = min(span[0] for span in spans.values()) - 1, max(span[1] for span in spans.values())
        count, is_share = _count(sql, *spans["LIMIT"]) if "LIMIT" in spans else ("NULL", False)
        offset = _whole(_offset(sql, *spans["OFFSET"])) if "OFFSET" in spans else "0"
        query = f"SELECT {count if is_share else _whole(count)} AS counted, {offset} AS passed_over"
        cut = CutLimit(with_visible(sql, start, query), is_share, CUT_LIMITS + number)
        return sql.replaced(start, end, f"LIMIT {cut.number}"), cut
    return None


def _spans(sql: SqlText, region: Region) -> dict[str, tuple[int, int]]:
    """The tokens behind a query's LIMIT and OFFSET."""
    level = list(sql.level(region.main, region.end))
    begins = [i for i in level if sql.is_word(i, "LIMIT", "OFFSET") and _is_clause(sql, i)]
    spans = {}
    for i in begins:
        end = next((at for at in level if at > i and sql.is_word(at, *TAIL, *SET_OPERATORS)), region.end)
        while end > i + 1 and sql.is_sign(end - 1, ";"):
            end -= 1
        spans[sql.tokens[i].text] = i + 1, end
    return spans


def _is_clause(sql: SqlText, i: int) -> bool:
    """Not a column of that name."""
    follows = i + 1 < len(sql.tokens) and not any(sql.is_sign(i + 1, sign) for sign in ",.=<>;)")
    return follows and not sql.is_word(i + 1, "FROM", "AS", *TAIL) and not sql.is_word(i - 1, "SELECT", "AS", "BY")


def _is_computed(sql: SqlText, start: int, end: int) -> bool:
    """Whether it is more than whole numbers, which the planner takes."""
    for i in range(start, end):
        token = sql.tokens[i]
        is_whole = token.kind == "number" and token.text.isdigit() and not sql.is_sign(i - 1, ".")
        is_sign = token.kind == "sign" and token.text in _PLAIN_SIGNS
        if not (is_whole or is_sign or sql.is_word(i, "NULL", "ALL", "ROW", "ROWS")):
            return True
    return False


def _count(sql: SqlText, start: int, end: int) -> tuple[str, bool]:
    """What LIMIT counts, and whether that is a percentage."""
    if not (sql.is_sign(end - 1, "%") or sql.is_word(end - 1, "PERCENT")):
        return ("NULL" if sql.is_word(start, "ALL") else sql.slice(start, end)), False
    share = sql.slice(start, end - 1)
    try:
        number = float(share)
    except ValueError:
        raise PlanError(
            f"LIMIT {share} %: a share is a number as it stands; QUALIFY row_number() OVER (ORDER BY …) <= share * "
            "count(*) OVER () takes any"
        ) from None
    if not 0 <= number <= 100:
        raise PlanError(f"LIMIT {share} %: a share is from 0 % to 100 %")
    return f"CAST('{number!r}' AS DOUBLE)", True


def _offset(sql: SqlText, start: int, end: int) -> str:
    if sql.is_sign(end - 1, "%") or sql.is_word(end - 1, "PERCENT"):
        raise PlanError(f"OFFSET {sql.slice(start, end - 1)} %: it is a number of rows")
    return sql.slice(start, end - sql.is_word(end - 1, "ROW", "ROWS"))


def _whole(number: str) -> str:
    """The number; one below 0 is an error, as it is none of UINT64."""
    return f"CAST(CAST({number} AS BIGINT UNSIGNED) AS BIGINT)"
