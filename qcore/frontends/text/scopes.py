"""Which tables the names of a query's text may mean: the FROM of their own SELECT, and of those around it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qcore.frontends.text.clauses import begins_clause, items, named, operands
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, Region, SqlText

_JOINING = frozenset({"JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "USING", "LATERAL"})
# Words of the language that are no names where they stand without quotes.
_KEYWORDS = frozenset({
    "ALL", "AND", "ANY", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CROSS", "CUBE", "CURRENT",
    "DESC", "DISTINCT", "ELSE", "END", "ESCAPE", "EXCEPT", "EXCLUDE", "EXISTS", "EXTRACT", "FALSE", "FETCH",
    "FILTER", "FIRST", "FOLLOWING", "FROM", "FULL", "GROUP", "GROUPING", "GROUPS", "HAVING", "IGNORE", "ILIKE",
    "IN", "INNER", "INTERSECT", "INTERVAL", "IS", "JOIN", "LAST", "LATERAL", "LEFT", "LIKE", "LIMIT", "MAP",
    "MATERIALIZED", "NATURAL", "NOT", "NULL", "NULLS", "OFFSET", "ON", "OR", "ORDER", "OTHERS", "OUTER", "OVER",
    "PARTITION", "PRECEDING", "QUALIFY", "RANGE", "RECURSIVE", "REPLACE", "RESPECT", "RIGHT", "ROLLUP", "ROW",
    "ROWS", "SELECT", "SETS", "SIMILAR", "SOME", "STRUCT", "THEN", "TIES", "TO", "TRUE", "TRY_CAST",
    "UNBOUNDED", "UNION", "USING", "VALUES", "WHEN", "WHERE", "WINDOW", "WITH", "WITHIN",
})  # fmt: skip
_LATE = frozenset({"GROUP", "HAVING", "QUALIFY", *TAIL})


@dataclass(frozen=True)
class Name:
    """A column's name as written: tokens `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Select:
    """One operand of a query's set operators, tokens `start` to `end`, ORDER BY and LIMIT included where it is the only
    one; `tables` are the tokens behind its FROM, `names` what its select list calls its columns.
    """

    query: Region
    start: int
    end: int
    tables: tuple[int, int]
    names: frozenset[str]
    late: int

    def holds(self, i: int) -> bool:
        return self.start <= i < self.end


def is_query(sql: SqlText, region: Region) -> bool:
    """Whether a region is a query, and no other expression that begins with one in brackets: an operand, tables that
    are joined, arguments as of substring((SELECT …) FROM 2). Of brackets in brackets the inner ones hold it.
    """
    i, end = region.main, region.end
    if sql.is_sign(i, "(") and (is_call(sql, region.start - 1) or sql.partner[i] == end - 1):
        return False
    while sql.is_sign(i, "("):
        close = sql.partner[i]
        if close + 1 < end and not sql.is_word(close + 1, *SET_OPERATORS, *(TAIL - {"FOR"})):
            return False
        i, end = i + 1, close
    return sql.is_word(i, "SELECT", "VALUES", "WITH")


def is_call(sql: SqlText, bracket: int) -> bool:
    """Whether an opening bracket is that of a function's call."""
    named = bracket > 0 and sql.tokens[bracket - 1].kind in ("word", "quoted")
    return named and not sql.is_word(bracket - 1, *_KEYWORDS)


def queries_around(sql: SqlText, i: int) -> list[Region]:
    """The queries that token i is part of, outermost first."""
    return [region for region in sql.enclosing(i) if is_query(sql, region)]


@functools.lru_cache(maxsize=256)
def selects_of(sql: SqlText, query: Region) -> Sequence[Select]:
    """The operands of a query's set operators; asked for again and again of the same text."""
    found = list(operands(sql, query))
    made = []
    for start, end in found:
        is_last = (start, end) == found[-1]
        until = query.end if is_last and len(found) == 1 else end
        clauses = [i for i in sql.level(start, end) if begins_clause(sql, i)]
        begin = next((i for i in clauses if sql.is_word(i, "FROM")), None)
        tables = (end, end) if begin is None else (begin + 1, next((i for i in clauses if i > begin), end))
        names: set[str] = set()
        if sql.is_word(start, "SELECT"):
            first = start + 1 + sql.is_word(start + 1, "DISTINCT", "ALL")
            names = {named(sql, a, b)[1] for a, b in items(sql, first, clauses[0] if clauses else end) if a < b}
        late = next((i for i in sql.level(start, until) if sql.is_word(i, *_LATE)), until)
        made.append(Select(query, start, until, tables, frozenset(names), late))
    return made


def stands_for_table(sql: SqlText, bracket: int, select: Select) -> bool:
    """Whether the query in this bracket is among the tables of a SELECT, not part of a condition of its joins."""
    begin, end = select.tables
    if not begin <= bracket < end:
        return False
    while bracket > begin and sql.is_sign(bracket - 1, "("):
        bracket -= 1  # of tables joined in brackets
    if bracket == begin or sql.is_word(bracket - 1, "JOIN", "LATERAL"):
        return True
    return sql.is_sign(bracket - 1, ",") and (bracket - 1) in set(sql.level(begin, end))


def scopes(sql: SqlText, i: int) -> Iterator[tuple[Region, str]]:
    """What a name at token i may mean columns of, inner to outer: a query, and the text of its tables ('': none). The
    first is the SELECT that the token is part of.
    """
    at = i
    for query in reversed(queries_around(sql, i)):
        for select in selects_of(sql, query):
            if select.holds(at):
                begin, end = select.tables
                if begin <= at < end and not stands_for_table(sql, at, select):
                    yield query, _joined(sql, begin, end)
                elif at == i or not stands_for_table(sql, at, select):
                    yield query, sql.slice(begin, end)
                elif sql.is_word(at - 1, "LATERAL"):
                    yield query, sql.slice(begin, tables_before(sql, at, begin))
        at = query.start - 1


def _joined(sql: SqlText, begin: int, end: int) -> str:
    """The tables as a condition of their joins knows them: those of semi and anti joins too."""
    pieces, at = [], begin
    for i in sql.level(begin, end):
        if sql.is_word(i, "SEMI", "ANTI") and sql.is_word(i + 1, "JOIN"):
            pieces.append(sql.slice(at, i))
            at = i + 1
    return " ".join([*pieces, sql.slice(at, end)])


def tables_before(sql: SqlText, bracket: int, begin: int) -> int:
    """Where the tables end that a LATERAL subquery in this bracket may name."""
    at = bracket - 1
    while at > begin and (sql.is_sign(at - 1, ",") or sql.is_word(at - 1, *_JOINING, "OUTER")):
        at -= 1
    return at


def names_in(sql: SqlText, start: int, end: int) -> Iterator[tuple[Select, Name]]:
    """What may be names of columns among tokens start to end, the innermost queries' first, with their SELECT; common
    tables, which others read, before those.
    """
    found = [region for region in sql.regions if start <= region.start and region.end <= end and is_query(sql, region)]
    bodies = [(table.body, table.body_end) for region in found for table in region.common]

    def order(region: Region) -> tuple[bool, int]:
        in_common = any(a <= region.start and region.end <= b for a, b in bodies)
        return not in_common, region.start if in_common else -region.start

    for query in sorted(found, key=order):
        for select in selects_of(sql, query):
            yield from ((select, name) for name in _own_names(sql, query, select))


def _own_names(sql: SqlText, query: Region, select: Select) -> Iterator[Name]:
    inner = [r for r in sql.regions if query.start < r.start and r.end <= query.end and is_query(sql, r)]
    skipped = {i for region in inner for i in range(region.start, region.end)}
    skipped |= _aliases(sql, select)
    in_condition = False
    level = set(sql.level(*select.tables))
    i = select.start
    while i < select.end:
        if select.tables[0] <= i < select.tables[1]:
            joins = sql.is_word(i, *_JOINING) and not (sql.is_word(i, "LEFT", "RIGHT") and sql.is_sign(i + 1, "("))
            listed = sql.is_sign(i, ",") and i in level
            in_condition = sql.is_word(i, "ON") or (in_condition and not joins and not listed)
            if not in_condition:
                i += 1
                continue
        end = _name_end(sql, i, select.end)
        if i not in skipped and end > i:
            name = sql.slice(i, end)
            is_alias = end == i + 1 and i >= select.late and sql.name(i) in select.names
            if not is_alias:
                yield Name(i, end, name)
        i = max(end, i + 1)


def _aliases(sql: SqlText, select: Select) -> set[int]:
    """Tokens of the select list that name its columns."""
    if not sql.is_word(select.start, "SELECT"):
        return set()
    clauses = [i for i in sql.level(select.start, select.end) if begins_clause(sql, i)]
    first = select.start + 1 + sql.is_word(select.start + 1, "DISTINCT", "ALL")
    found = set()
    for a, b in items(sql, first, clauses[0] if clauses else select.end):
        if a < b and named(sql, a, b)[0] < b:
            found.add(b - 1)
    return found


def _name_end(sql: SqlText, i: int, end: int) -> int:
    """Where the name that begins at token i ends; i where none does."""
    token = sql.tokens[i]
    if token.kind not in ("word", "quoted") or sql.is_word(i, *_KEYWORDS) or sql.is_sign(i - 1, "."):
        return i
    if sql.is_word(i - 1, "AS") or sql.is_word(i - 1, "CAST"):
        return i
    at = i + 1
    while at + 1 < end and sql.is_sign(at, ".") and sql.tokens[at + 1].kind in ("word", "quoted"):
        at += 2
    follows = sql.tokens[at] if at < len(sql.tokens) else None
    if follows is not None and (follows.text in ("(", ".") or (follows.kind == "string" and at == i + 1)):
        return i
    if sql.is_word(i - 2, "EXTRACT") and sql.is_sign(i - 1, "("):
        return i
    return at
