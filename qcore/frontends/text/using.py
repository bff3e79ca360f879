"""JOIN … USING and NATURAL JOIN written with ON.

DataFusion has no Substrait for outer ones, takes the merged column of every join from the left, and forgets which were
merged where a join's sides have two types. Here the tables of a
SELECT are read from left to right as a list of the columns that may be named without a table; a merged one is the
left's, of a right join the right's, of a full join the first that is not null. Where the query names it, or *, its
expression is put.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.clauses import (
    ColumnsOf,
    clauses_of,
    is_reference,
    items,
    named,
    quoted,
    read_alias,
    selects,
    with_visible,
)
from qcore.frontends.text.tokens import TAIL, Region, SqlText
from qcore.plan.schema import unknown

_JOIN_KINDS = frozenset({"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "NATURAL", "CROSS", "SEMI", "ANTI"})
_NOT_INNER = frozenset({"LEFT", "RIGHT", "FULL", "SEMI", "ANTI"})
_QUERY = ("SELECT", "WITH", "VALUES", "TABLE", "FROM")


@dataclass(frozen=True)
class _Column:
    """A column that may be named without a table: `text` is its value."""

    name: str
    text: str
    is_merged: bool = False
    is_computed: bool = False


def without_using(text: str, columns_of: ColumnsOf, inner: bool = True) -> str:
    """The text with joins by names written with ON; without `inner`, only those that are no inner joins.

    Raises
    ------
    PlanError
        A column of USING that is missing or in several tables; a construct beside it that hides the tables' columns.
    """
    if not re.search(r"\b(?:using|natural)\b", text, re.IGNORECASE):
        return text
    while (changed := _without_first(SqlText.read(text), columns_of, inner)) is not None:
        text = changed
    return text


def _without_first(sql: SqlText, columns_of: ColumnsOf, inner: bool) -> str | None:
    for region in reversed(sql.regions):
        cores = list(selects(sql, region))
        for start, end in cores:
            clauses = clauses_of(sql, start, end)
            begin = next((i for i in clauses if sql.is_word(i, "FROM")), end)
            end_tables = next((i for i in clauses if i > begin), end)
            if _joins_by_name(sql, begin, end_tables, inner):
                return _Select(sql, start, begin, end_tables, columns_of).rewritten(end, _tail(sql, region, cores))
    return None


def _tail(sql: SqlText, region: Region, cores: list[tuple[int, int]]) -> int:
    """Where ORDER BY and what follows end; what is ordered behind a set operator are result columns alone."""
    end = cores[-1][1]
    return region.end if len(cores) == 1 and cores[0][0] == region.main and sql.is_word(end, *TAIL) else end


def _joins_by_name(sql: SqlText, begin: int, end: int, inner: bool) -> bool:
    kinds: frozenset[str] = frozenset()
    at = begin + 1
    for i in sql.level(begin + 1, end):
        if i >= at and (join := _join(sql, i)) is not None:
            kinds, at = join
        if (inner or kinds & _NOT_INNER) and ("NATURAL" in kinds or sql.is_word(i, "USING")):
            return True
    return False


def _join(sql: SqlText, i: int) -> tuple[frozenset[str], int] | None:
    """The words of the JOIN that begins at token i, and where they end."""
    first = i
    while sql.is_word(i, *_JOIN_KINDS):
        i += 1
    if not sql.is_word(i, "JOIN"):
        return None
    return frozenset(token.text for token in sql.tokens[first:i]), i + 1


class _Select:
    """One SELECT, whose tables stand between tokens `begin` (FROM) and `end_tables`."""

    def __init__(self, sql: SqlText, start: int, begin: int, end_tables: int, columns_of: ColumnsOf) -> None:
        self.sql = sql
        self.start = start
        self.begin = begin
        self.end_tables = end_tables
        self.columns_of = columns_of

    def rewritten(self, end: int, tail: int) -> str:
        """The whole text with this SELECT, which ends at token `end` and its ORDER BY at `tail`, rewritten."""
        tables, scope = self._tables()
        begin = self.start + 1 + self.sql.is_word(self.start + 1, "DISTINCT", "ALL")
        if self.sql.is_word(begin, "ON"):
            raise PlanError("DISTINCT ON is not supported with an outer JOIN … USING or NATURAL JOIN; use a subquery")
        listed, outputs = self._select_list(begin, scope)
        clauses = self._with_values(self.end_tables, end, scope)
        hidden = [column for column in scope if column.name.lower() not in outputs]
        order = self._with_values(end, tail, hidden)
        head = self.sql.slice(self.start, begin)
        return self.sql.replaced(self.start, tail, f"{head} {listed} FROM {tables} {clauses} {order}")

    def _with_values(self, start: int, end: int, scope: Sequence[_Column]) -> str:
        """Tokens start to end, queries in brackets left as they are, with merged columns' values for their names."""
        sql, pieces, at, skipped = self.sql, [], start, start
        for i in range(start, end):
            if i < skipped:
                continue
            if sql.is_sign(i, "(") and sql.is_word(i + 1, *_QUERY):
                skipped = sql.partner[i]
                continue
            column = _named_at(sql, i, scope) if is_reference(sql, i) else None
            if column is not None and column.is_merged:
                pieces += [sql.slice(at, i), column.text]
                at = i + 1
        return " ".join([*pieces, sql.slice(at, end)])

    # --- the select list ---

    def _select_list(self, begin: int, scope: Sequence[_Column]) -> tuple[str, set[str]]:
        """The list's text, and its names."""
        sql, made, outputs = self.sql, [], set()
        for a, b in items(sql, begin, self.begin):
            if sql.is_sign(a, "*"):
                shown = self._starred(a, b, scope)
                made += [f"{c.text} AS {quoted(c.name)}" if c.is_computed else c.text for c in shown]
                outputs |= {column.name.lower() for column in shown}
                continue
            until, name = named(sql, a, b)
            alone = _named_at(sql, a, scope) if until == b == a + 1 else None
            name = name if alone is None else alone.name
            given, text = sql.slice(a, until), self._with_values(a, until, scope).strip()
            made.append(sql.slice(a, b) if text == given else f"{text} AS {quoted(name)}")
            outputs.add(name.lower())
        return ", ".join(made), outputs

    def _starred(self, a: int, b: int, scope: Sequence[_Column]) -> list[_Column]:
        """The columns of *, at token a."""
        sql = self.sql
        shown = list(scope)
        if b > a + 1:
            if not sql.is_word(a + 1, "EXCLUDE", "EXCEPT") or sql.partner.get(a + 2, a + 2) != b - 1:
                raise PlanError(
                    f"{sql.slice(a, b)} is not supported with an outer JOIN … USING or NATURAL JOIN; name the columns"
                )
            for i in range(a + 2, b):
                if sql.tokens[i].kind in ("word", "quoted"):
                    gone = list(_matches(sql, i, scope))
                    if not gone:
                        raise unknown("column", sql.name(i), [column.name for column in scope], "* EXCLUDE")
                    shown = [column for column in shown if column not in gone]
        for column in shown:
            if column.is_computed and sum(other.name == column.name for other in shown) > 1:
                raise PlanError(
                    f"* has a column {column.name!r} beside the one that FULL JOIN … USING merged; name the columns"
                )
        return shown

    # --- the tables ---

    def _tables(self) -> tuple[str, list[_Column]]:
        """The tables' text, and their columns."""
        parts, scope = [], []
        for a, b in items(self.sql, self.begin + 1, self.end_tables):
            text, columns = self._joined(a, b)
            parts.append(text)
            scope += columns
        return ", ".join(parts), scope

    def _joined(self, a: int, b: int) -> tuple[str, list[_Column]]:
        """One of the tables between commas, which may be joined of several."""
        sql = self.sql
        at = self._boundary(a, b)
        text, scope = self._table(a, at)
        while at < b:
            join = _join(sql, at)
            if join is None:
                raise PlanError(f"a condition of joins stands at {sql.slice(at, b)[:40]!r}; put it after its own JOIN")
            kinds, first = join
            at = self._boundary(first, b)
            table, right = self._table(first, at)
            condition = ""
            if "NATURAL" in kinds or sql.is_word(at, "USING"):
                pairs, at = self._pairs(kinds, at, scope, right)
                condition = " ON " + " AND ".join(f"{left.text} = {other.text}" for left, other in pairs)
                scope = _merged(kinds, scope, right, pairs)
            else:
                both = [*scope, *right]
                if sql.is_word(at, "ON"):
                    end = self._boundary(at + 1, b)
                    condition = f" ON {self._with_values(at + 1, end, both)}"
                    at = end
                scope = _kept(kinds, scope, both, right)
            text += f" {_written(kinds)} {table}{condition}"
        return text, scope

    def _boundary(self, a: int, b: int) -> int:
        """Where a table, or a condition, that begins at token a ends."""
        sql = self.sql
        return next((i for i in sql.level(a, b) if sql.is_word(i, "ON", "USING") or _join(sql, i) is not None), b)

    def _table(self, a: int, b: int) -> tuple[str, list[_Column]]:
        """The table of tokens a to b, and its columns."""
        sql, text = self.sql, self.sql.slice(a, b)
        if sql.is_sign(a, "("):
            if not (sql.is_word(a + 1, *_QUERY) or sql.is_sign(a + 1, "(")):
                raise PlanError(
                    "joins in brackets are not supported beside an outer JOIN … USING or NATURAL JOIN; write a subquery"
                )
            own, after = None, sql.partner[a] + 1
        else:
            own = a
            while sql.is_sign(own + 1, "."):
                own += 2
            after = sql.partner[own + 1] + 1 if sql.is_sign(own + 1, "(") and own + 1 < b else own + 1
        end, alias, _ = read_alias(sql, after, b)
        if end != b or sql.is_word(a, "LATERAL"):
            raise PlanError(f"the table {text!r} is not supported beside an outer JOIN … USING or NATURAL JOIN")
        if alias:
            own = after + sql.is_word(after, "AS")
        if own is None:
            name = f'"$join{a}"'
            text = f"{text} AS {name}"
        else:
            name = sql.slice(own, own + 1)
        names = self.columns_of(with_visible(sql, a, f"SELECT * FROM {text}"))
        return text, [_Column(column, f"{name}.{quoted(column)}") for column in names]

    def _pairs(
        self, kinds: frozenset[str], at: int, scope: list[_Column], right: list[_Column]
    ) -> tuple[list[tuple[_Column, _Column]], int]:
        """The columns that a join by name compares, and where it ends. `at` is its USING."""
        sql = self.sql
        if "NATURAL" in kinds:
            here = {column.name for column in right}
            common = list(dict.fromkeys(column.name for column in scope if column.name in here))
            if not common:
                raise PlanError("NATURAL JOIN of tables that have no column in common; write CROSS JOIN or ON")
            for name in common:
                if sum(column.name == name for column in scope) > 1:
                    raise PlanError(f"column {name!r} of NATURAL JOIN is in several tables before it; use ON")
            find = {column.name: column for column in scope}, {column.name: column for column in right}
            return [(find[0][name], find[1][name]) for name in common], at
        close = sql.partner.get(at + 1, at + 1)
        given = [i for i in range(at + 2, close) if sql.tokens[i].kind in ("word", "quoted")]
        if not given:
            raise PlanError("JOIN … USING takes columns in brackets")
        pairs = [
            (_one(sql, i, scope, "the tables before JOIN"), _one(sql, i, right, "the table after JOIN")) for i in given
        ]
        return pairs, close + 1


def _matches(sql: SqlText, i: int, scope: Sequence[_Column]) -> Iterator[_Column]:
    """The columns that the name at token i may mean."""
    name = sql.name(i)
    is_word = sql.tokens[i].kind == "word"
    return (column for column in scope if column.name == name or (is_word and column.name.lower() == name))


def _named_at(sql: SqlText, i: int, scope: Sequence[_Column]) -> _Column | None:
    found = list(_matches(sql, i, scope))
    return found[0] if len(found) == 1 else None


def _one(sql: SqlText, i: int, scope: Sequence[_Column], where: str) -> _Column:
    found = list(_matches(sql, i, scope))
    if len(found) != 1:
        raise PlanError(
            f"column {sql.name(i)!r} is in {'several of ' if found else 'none of '}{where} … USING; "
            + ("write the condition with ON" if found else f"these have {', '.join(repr(c.name) for c in scope)}")
        )
    return found[0]


def _merged(
    kinds: frozenset[str], scope: list[_Column], right: list[_Column], pairs: list[tuple[_Column, _Column]]
) -> list[_Column]:
    """The columns of a join by name: merged ones stand where the left's stood."""
    made = {}
    for left, other in pairs:
        if "FULL" in kinds:
            made[left] = _Column(left.name, f"coalesce({left.text}, {other.text})", True, True)
        else:
            given = other if "RIGHT" in kinds else left
            made[left] = _Column(left.name, given.text, True, given.is_computed)
    compared = [other for _, other in pairs]
    both = [*(made.get(column, column) for column in scope), *(c for c in right if c not in compared)]
    return _kept(kinds, scope, both, right)


def _kept(kinds: frozenset[str], left: list[_Column], both: list[_Column], right: list[_Column]) -> list[_Column]:
    """Semi and anti joins keep the columns of one side."""
    if not kinds & {"SEMI", "ANTI"}:
        return both
    return right if "RIGHT" in kinds else left


def _written(kinds: frozenset[str]) -> str:
    """JOIN with its words, NATURAL left out."""
    kind = [word for word in ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI") if word in kinds]
    if kind in (["SEMI"], ["ANTI"]):
        kind.insert(0, "LEFT")
    return " ".join([*kind, "JOIN"])
