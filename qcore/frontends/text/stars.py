"""COLUMNS(…), and stars with RENAME, LIKE or beside merged columns, written as the columns they stand for.

The planner knows EXCLUDE and REPLACE, but not among the columns that JOIN … USING merges (using).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from qcore.errors import PlanError
from qcore.frontends.text.clauses import (
    ColumnsOf,
    clauses_of,
    items,
    named,
    quoted,
    selects,
    with_visible,
)
from qcore.frontends.text.tokens import SqlText
from qcore.plan.schema import unknown

_COLUMNS = "COLUMNS"
_MERGES = frozenset({"USING", "NATURAL"})
_CHANGES = ("EXCLUDE", "EXCEPT", "REPLACE", "RENAME")
_PATTERNS = frozenset({"LIKE", "ILIKE", "GLOB", "SIMILAR"})


@dataclass
class _Star:
    """A star and what is changed of it, by names in lower case. `table` is its qualifier with the dot, or nothing."""

    table: str
    excluded: set[str] = field(default_factory=set)
    replaced: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    #: What the names of its columns match; every name where there is none.
    pattern: re.Pattern[str] | None = None
    is_negated: bool = False

    def names(self, names: Sequence[str]) -> list[str]:
        """Those of the names that it has."""
        chosen = [name for name in names if name.lower() not in self.excluded]
        if self.pattern is None:
            return chosen
        matching = [name for name in chosen if (self.pattern.fullmatch(name) is None) == self.is_negated]
        if not matching:
            raise PlanError(f"no column's name matches the pattern of {self.table}*; there are {', '.join(names)}")
        return matching


def with_stars_written_out(text: str, columns_of: ColumnsOf) -> str:
    """The text with such stars as lists of columns.

    Raises
    ------
    PlanError
        A name that is no column's, or several columns'; COLUMNS elsewhere than in a select list or WHERE.
    """
    sql = SqlText.read(text)
    if (
        _COLUMNS not in sql.words
        and "RENAME" not in sql.words
        and not (sql.words & _MERGES and sql.words & {*_CHANGES})
        and not any(sql.is_word(i + 1, *_PATTERNS, "NOT", *_CHANGES) for i in sql.signs("*") if sql.words & _PATTERNS)
    ):
        return text
    while (changed := _changed(SqlText.read(text), columns_of)) is not None:
        text = changed
    sql = SqlText.read(text)
    if any(sql.is_sign(i + 1, "(") for i in sql.places(_COLUMNS)):
        raise PlanError("COLUMNS(…) stands in a select list or in WHERE; elsewhere name the columns")
    return text


def _changed(sql: SqlText, columns_of: ColumnsOf) -> str | None:
    for region in reversed(sql.regions):
        for start, end in selects(sql, region):
            clauses = clauses_of(sql, start, end)
            begin = next((i for i in clauses if sql.is_word(i, "FROM")), end)
            until = next((i for i in clauses if i > begin), end)
            tables = sql.slice(begin, until)

            def stars(table: str, tables: str = tables, at: int = start) -> Sequence[str]:
                return columns_of(with_visible(sql, at, f"SELECT {table}* {tables}"))

            first = start + 1 + sql.is_word(start + 1, "DISTINCT", "ALL")
            for a, b in items(sql, first, clauses[0] if clauses else end):
                made = _written_out(sql, a, b, stars)
                if made is not None:
                    return sql.replaced(a, b, made)
            for at, clause in enumerate(clauses):
                stop = clauses[at + 1] if at + 1 < len(clauses) else end
                found = _calls(sql, clause + 1, stop) if sql.is_word(clause, "WHERE") else []
                if found:
                    chosen = _chosen(sql, found, stars)
                    made = " AND ".join(f"({_with_column(sql, clause + 1, stop, found, name)})" for name in chosen)
                    return sql.replaced(clause + 1, stop, made)
    return None


def _written_out(sql: SqlText, a: int, b: int, stars: ColumnsOf) -> str | None:
    """The columns that an item of a select list stands for; None for an item that may stay."""
    star = _star(sql, a, b)
    if star is not None:
        is_changed = bool(star.words & {"REPLACE", "RENAME"}) or (bool(star.words) and bool(star.table))
        must = "RENAME" in star.words or star.pattern is not None or (is_changed and sql.words & _MERGES)
        return _listed(star, stars) if must else None
    found = _calls(sql, a, b)
    if not found:
        return None
    chosen = _chosen(sql, found, stars)
    until, alias = named(sql, a, b)
    if found[0] == a and sql.partner[a + 1] + 1 == until == b:
        return ", ".join(map(quoted, chosen))
    names = chosen if until == b else [alias] * len(chosen)
    values = [_with_column(sql, a, until, found, name) for name in chosen]
    return ", ".join(f"{value} AS {quoted(name)}" for value, name in zip(values, names, strict=True))


# --- COLUMNS ---


def _calls(sql: SqlText, a: int, b: int) -> list[int]:
    """The COLUMNS(…) among tokens a to b, queries in brackets left out."""
    inner = [(r.start, r.end) for r in sql.regions if a < r.start and r.end <= b]
    calls = [i for i in sql.places(_COLUMNS) if a <= i < b and sql.is_sign(i + 1, "(")]
    return [i for i in calls if not any(start <= i < end for start, end in inner)]


def _chosen(sql: SqlText, calls: Sequence[int], stars: ColumnsOf) -> list[str]:
    """The columns that calls, which all say the same, stand for."""
    arguments = {sql.slice(i + 2, sql.partner[i + 1]) for i in calls}
    if len(arguments) > 1:
        raise PlanError(f"COLUMNS({'), COLUMNS('.join(sorted(arguments))}) in one expression choose different columns")
    if any(sql.is_sign(i - 1, "*") and (sql.is_sign(i - 2, "(") or sql.is_sign(i - 2, ",")) for i in calls):
        raise PlanError("*COLUMNS(…) as arguments is not supported; name the columns")
    a, b = calls[0] + 2, sql.partner[calls[0] + 1]
    star = _star(sql, a, b)
    if star is not None and not star.words & {"REPLACE", "RENAME"}:
        chosen = star.names(stars(star.table))
    elif b - a == 1 and sql.tokens[a].kind == "string":
        chosen = _matching(sql.tokens[a].text[1:-1].replace("''", "'"), stars(""))
    elif (
        sql.is_sign(a, "[")
        and sql.partner[a] == b - 1
        and all(sql.tokens[i].kind == "string" for i in range(a + 1, b - 1, 2))
    ):
        names = stars("")
        given = [sql.tokens[i].text[1:-1].replace("''", "'") for i in range(a + 1, b - 1, 2)]
        for name in given:
            if name.lower() not in (known.lower() for known in names):
                raise unknown("column", name, names, "COLUMNS")
        # In the tables' order.
        chosen = [name for name in names if name.lower() in (wanted.lower() for wanted in given)]
    else:
        raise PlanError("COLUMNS takes *, a regular expression as text, or a list of names")
    for name in chosen:
        if chosen.count(name) > 1:
            raise PlanError(f"COLUMNS chooses {name!r} of several tables; name that column with its table")
    return chosen


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    try:
        found = [name for name in names if re.search(pattern, name)]
    except re.error as error:
        raise PlanError(f"COLUMNS({pattern!r}): {error}") from None
    if not found:
        raise PlanError(f"COLUMNS({pattern!r}) matches no column; there are {', '.join(names)}")
    return found


def _with_column(sql: SqlText, a: int, b: int, calls: Sequence[int], name: str) -> str:
    """Tokens a to b with a column for the calls among them."""
    pieces, at = [], a
    for call in calls:
        pieces += [sql.slice(at, call), quoted(name)]
        at = sql.partner[call + 1] + 1
    return " ".join([*pieces, sql.slice(at, b)])


# --- stars ---


def _star(sql: SqlText, a: int, b: int) -> _Star | None:
    """The star that tokens a to b are; None for anything else."""
    at = a
    while at + 2 < b and sql.tokens[at].kind in ("word", "quoted") and sql.is_sign(at + 1, "."):
        at += 2
    if not sql.is_sign(at, "*"):
        return None
    star = _Star(sql.slice(a, at))
    at += 1
    while at < b:
        if not sql.is_word(at, *_CHANGES) or at + 1 >= b:
            return star if _read_pattern(sql, at, b, star) else None
        word = sql.tokens[at].text
        star.words.add(word)
        if sql.is_sign(at + 1, "("):
            parts, at = list(items(sql, at + 2, sql.partner[at + 1])), sql.partner[at + 1] + 1
        else:
            stop = next((i for i in range(at + 1, b) if sql.is_word(i, *_CHANGES, "NOT", *_PATTERNS)), b)
            parts, at = [(at + 1, stop)], stop
        for c, d in parts:
            if word in ("EXCLUDE", "EXCEPT"):
                star.excluded.add(sql.name(d - 1).lower())
            elif not sql.is_word(d - 2, "AS"):
                raise PlanError(f"* {word} ({sql.slice(c, d)}): it is written with AS")
            elif word == "REPLACE":
                star.replaced[sql.name(d - 1).lower()] = sql.slice(c, d - 2)
            else:
                star.renamed[sql.name(d - 3).lower()] = sql.name(d - 1)
    return star


def _read_pattern(sql: SqlText, at: int, end: int, star: _Star) -> bool:
    """Whether tokens at to end are [NOT] LIKE 'pattern' or of its kind, which the star then has."""
    star.is_negated = sql.is_word(at, "NOT")
    at += star.is_negated
    word = sql.tokens[at].text if at < end and sql.is_word(at, *_PATTERNS) else ""
    at += 1 + (word == "SIMILAR" and sql.is_word(at + 1, "TO"))
    if not word or at + 1 != end or sql.tokens[at].kind != "string":
        return False
    pattern = sql.tokens[at].text[1:-1].replace("''", "'")
    if word == "GLOB":
        pattern = fnmatch.translate(pattern)
    elif word != "SIMILAR":
        pattern = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern)
    try:
        star.pattern = re.compile(pattern, re.DOTALL | (re.IGNORECASE if word == "ILIKE" else 0))
    except re.error as error:
        raise PlanError(f"* SIMILAR TO '{pattern}': {error}") from None
    return True


def _listed(star: _Star, stars: ColumnsOf) -> str:
    names = stars(star.table)
    known = [name.lower() for name in names]
    for name in (*star.excluded, *star.replaced, *star.renamed):
        if name not in known:
            raise unknown("column", name, names, f"{star.table}* {' '.join(sorted(star.words))}")
    return ", ".join(_columns_of_star(star, star.names(names)))


def _columns_of_star(star: _Star, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not star.table and names.count(name) > 1:
            raise PlanError(f"* with changes has {name!r} of several tables; name the columns")
        value = star.replaced.get(name.lower(), f"{star.table}{quoted(name)}")
        yield f"{value} AS {quoted(star.renamed.get(name.lower(), name))}"
