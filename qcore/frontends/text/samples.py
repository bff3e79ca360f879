"""TABLESAMPLE and USING SAMPLE as conditions and orders by random().

A number of rows is an order by random() and a LIMIT, and so is a share with RESERVOIR; another share is a condition on
random(), row for row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.clauses import CLAUSES, is_distinct_from, operands
from qcore.frontends.text.tokens import TAIL, SqlText

_ROWWISE = ("BERNOULLI", "SYSTEM")
_METHODS = frozenset({*_ROWWISE, "RESERVOIR"})
_USAGE = "n, n ROWS, n % or n PERCENT, with BERNOULLI, SYSTEM or RESERVOIR around it"
_BEFORE_TABLE = frozenset({"FROM", "JOIN", "LATERAL"})
_AFTER_TABLE = CLAUSES | TAIL | frozenset({"ON", "USING", "SELECT", "UNION", "EXCEPT", "INTERSECT", "TABLESAMPLE"}) | {
    "JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "ASOF", "POSITIONAL", "SEMI", "ANTI", "PIVOT",
}  # fmt: skip


@dataclass(frozen=True)
class _Sample:
    """How many rows, or per cent of them, are drawn; `end` is the token behind what says so."""

    number: str
    is_share: bool
    method: str
    end: int

    @property
    def is_rowwise(self) -> bool:
        """Whether each row is drawn by itself."""
        return self.is_share and self.method in _ROWWISE

    @property
    def condition(self) -> str:
        return f"random() < CAST('{float(self.number) / 100!r}' AS DOUBLE)"

    def drawn(self, tables: str) -> str:
        """The query of the rows drawn."""
        if self.is_rowwise:
            return f"(SELECT * FROM {tables} WHERE {self.condition})"
        return f"(SELECT * FROM {tables} ORDER BY random() LIMIT {self.number}{' %' if self.is_share else ''})"


def without_samples(text: str) -> str:
    """The text with samples written out.

    Raises
    ------
    PlanError
        A sample that cannot be drawn, or that is to be the same again.
    """
    while (changed := _without_first(SqlText.read(text))) is not None:
        text = changed
    return text


def _without_first(sql: SqlText) -> str | None:
    for i in sql.places("TABLESAMPLE"):
        if i > 0 and not sql.is_word(i - 1, "AS", "SELECT"):
            return _of_table(sql, i)
    for i in sql.places("SAMPLE"):
        if sql.is_word(i - 1, "USING"):
            return _of_select(sql, i - 1)
    return None


def _of_table(sql: SqlText, at: int) -> str:
    """The whole text with table TABLESAMPLE sample as a query."""
    sample = _read(sql, at + 1)
    start = at
    while start > 0:
        before = start - 1
        if before in sql.partner and sql.partner[before] < before:
            start = sql.partner[before]
            continue
        if before in sql.partner or sql.is_sign(before, ",") or sql.is_word(before, *_BEFORE_TABLE):
            break
        start = before
    follows = sql.is_word(sample.end, "AS") or (
        sample.end < len(sql.tokens)
        and sql.tokens[sample.end].kind in ("word", "quoted")
        and not sql.is_word(sample.end, *_AFTER_TABLE)
    )
    alias = "" if follows else _alias(sql, start, at)
    return sql.replaced(start, sample.end, f"{sample.drawn(sql.slice(start, at))}{alias}")


def _alias(sql: SqlText, start: int, end: int) -> str:
    """AS and the name by which the table of tokens start to end is called; nothing where it has none."""
    last = end - 1
    if sql.is_sign(last, ")"):
        last = sql.partner[last] - 1
    if last < start or sql.tokens[last].kind not in ("word", "quoted"):
        return ""
    return f" AS {sql.slice(last, last + 1)}"


def _of_select(sql: SqlText, at: int) -> str:
    """The whole text with the sample of what a SELECT reads: of its tables, before WHERE."""
    sample = _read(sql, at + 2)
    region = sql.enclosing(at)[-1]
    start = next(a for a, b in operands(sql, region) if a <= at < b)
    begin = next((i for i in sql.level(start, at) if sql.is_word(i, "FROM") and not is_distinct_from(sql, i)), None)
    if begin is None:
        raise PlanError("USING SAMPLE stands behind the tables that it draws from; there is no FROM")
    clauses = [
        i for i in sql.level(begin + 1, at) if sql.is_word(i, *CLAUSES, "SELECT") and not is_distinct_from(sql, i)
    ]
    until = clauses[0] if clauses else at
    tables = sql.slice(begin + 1, until)
    before, rest = sql.text[: sql.tokens[begin].start], sql.text[sql.tokens[sample.end - 1].end :]
    if not sample.is_rowwise:
        if any(sql.is_sign(i, ",") or sql.is_word(i, "JOIN") for i in sql.level(begin + 1, until)):
            raise PlanError(
                "USING SAMPLE of several tables draws shares, as in USING SAMPLE 10 %; for a number of rows write "
                "SELECT … FROM (SELECT … FROM …) USING SAMPLE"
            )
        alias = _alias(sql, begin + 1, until)
        return f"{before}FROM {sample.drawn(tables)}{alias} {sql.slice(until, at)} {rest}"
    where = next((i for i in clauses if sql.is_word(i, "WHERE")), None)
    if where is None:
        if clauses and sql.is_word(clauses[0], "SELECT"):
            return f"{before}FROM {sample.drawn(tables)}{_alias(sql, begin + 1, until)} {sql.slice(until, at)} {rest}"
        return f"{before}FROM {tables} WHERE {sample.condition} {sql.slice(until, at)} {rest}"
    stop = next((i for i in clauses if i > where), at)
    condition = f"{sample.condition} AND ({sql.slice(where + 1, stop)})"
    return f"{before}FROM {sql.slice(begin + 1, where)} WHERE {condition} {sql.slice(stop, at)} {rest}"


def _read(sql: SqlText, at: int) -> _Sample:
    """The sample that token `at` begins."""
    method, end, first = "", 0, at
    if sql.is_word(at, *_METHODS):
        method = sql.tokens[at].text
        at += 1
    stop = len(sql.tokens)
    if sql.is_sign(at, "("):
        end = sql.partner[at] + 1
        at, stop = at + 1, end - 1
    number = sql.slice(at, at + 1) if at < stop else ""
    at += 1
    is_share = at < stop and (sql.is_sign(at, "%") or sql.is_word(at, "PERCENT"))
    is_number = at < stop and sql.is_word(at, "ROWS", "ROW")
    at += is_share or is_number
    # BERNOULLI (10) is of 10 %, as in the standard.
    is_share = is_share or (method in _ROWWISE and not is_number)
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", number) or (end and at != stop) or not (is_share or number.isdigit()):
        raise PlanError(f"a sample is {_USAGE}; not {sql.slice(first, max(end, min(at, len(sql.tokens))))}")
    if is_share and float(number) > 100:
        raise PlanError(f"a sample of {number} %: a share is from 0 % to 100 %")
    end = end or at
    if sql.is_sign(end, "("):
        # USING SAMPLE 10 % (bernoulli)
        close = sql.partner[end]
        if not sql.is_word(end + 1, *_METHODS) or close != end + 2:
            raise _seeded(sql.slice(end, close + 1))
        method, end = sql.tokens[end + 1].text, close + 1
    if sql.is_word(end, "REPEATABLE"):
        raise _seeded(sql.slice(end, sql.partner.get(end + 1, end) + 1))
    if method in _ROWWISE and not is_share:
        raise PlanError(f"{method} draws a share of the rows, as in {method} (10 %); RESERVOIR draws a number of them")
    return _Sample(number, is_share, method or ("SYSTEM" if is_share else "RESERVOIR"), end)


def _seeded(written: str) -> PlanError:
    return PlanError(
        f"a sample that is to be the same again, {written}, is not supported: rows come in no fixed order here; keep "
        "one, CREATE TABLE s AS SELECT … USING SAMPLE …"
    )
