"""PIVOT as aggregates with FILTER, UNPIVOT as a UNION ALL of the columns.

Both as statements, PIVOT t ON c IN (…) USING sum(x) GROUP BY k, and behind a table, t PIVOT (sum(x) FOR c IN (…)).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from qcore.errors import PlanError
from qcore.frontends.text.clauses import (
    CLAUSES,
    JOINS,
    ColumnsOf,
    free_name,
    items,
    named,
    quoted,
    read_alias,
    selects,
    with_visible,
)
from qcore.frontends.text.tokens import TAIL, SqlText

_PIVOT_USAGE = "PIVOT t ON c IN ('a', 'b') USING sum(x) GROUP BY k"
_UNPIVOT_USAGE = "UNPIVOT t ON a, b INTO NAME n VALUE v"
_LITERAL_WORDS = frozenset({"NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP"})


@dataclass(frozen=True)
class _Place:
    """A PIVOT or UNPIVOT: its tokens `start` to `end`, those of its table, and of what stands behind that.

    `is_factor`: it stands behind a table, `body` is in its brackets.
    """

    start: int
    end: int
    table: tuple[int, int]
    body: tuple[int, int]
    is_factor: bool
    with_nulls: bool


def without_pivot(text: str, columns_of: ColumnsOf) -> str:
    """The text with PIVOT and UNPIVOT written otherwise.

    Raises
    ------
    PlanError
        A PIVOT whose columns are known only when it runs, or that cannot be read.
    """
    while True:
        sql = SqlText.read(text)
        found = [i for word in ("PIVOT", "UNPIVOT") for i in sql.places(word) if _is_pivot(sql, i)]
        if not found:
            return text
        i = max(found)
        text = (_without_pivot if sql.is_word(i, "PIVOT") else _without_unpivot)(sql, _place(sql, i), columns_of)


def _is_pivot(sql: SqlText, i: int) -> bool:
    behind = i + 1
    while sql.is_word(behind, "INCLUDE", "EXCLUDE", "NULLS"):
        behind += 1
    if _is_statement(sql, i):
        return behind < len(sql.tokens)
    before = sql.tokens[i - 1]
    is_table = before.kind in ("word", "quoted") or sql.is_sign(i - 1, ")")
    return is_table and sql.is_sign(behind, "(") and not sql.is_word(i - 1, "FROM", "JOIN", "SELECT", "AS")


def _is_statement(sql: SqlText, i: int) -> bool:
    return i == 0 or sql.is_sign(i - 1, "(") or any(region.common and region.main == i for region in sql.regions)


def _place(sql: SqlText, i: int) -> _Place:
    if _is_statement(sql, i):
        last = len(sql.tokens) - sql.is_sign(len(sql.tokens) - 1, ";")
        opened = [o for o in sql.signs("(") if o < i < sql.partner[o]]
        end = sql.partner[opened[-1]] if opened else last
        on = next((j for j in sql.level(i + 1, end) if sql.is_word(j, "ON")), None)
        if on is None:
            raise PlanError(f"{sql.tokens[i].text} cannot be read; it is written {_PIVOT_USAGE}, or {_UNPIVOT_USAGE}")
        with_nulls = sql.is_word(on - 2, "INCLUDE") and sql.is_word(on - 1, "NULLS")
        return _Place(i, end, (i + 1, on - 2 * with_nulls), (on + 1, end), False, with_nulls)
    region = sql.enclosing(i)[-1]
    core = next(((a, b) for a, b in selects(sql, region) if a <= i < b), None)
    begin = next((j for j in sql.level(*core) if sql.is_word(j, "FROM")), None) if core is not None else None
    if core is None or begin is None or i not in sql.level(begin, core[1]):
        raise PlanError(f"{sql.tokens[i].text} stands behind a table of FROM, or begins a query")
    until = next((j for j in sql.level(begin + 1, core[1]) if sql.is_word(j, *CLAUSES)), core[1])
    first = next(a for a, b in items(sql, begin + 1, until) if a <= i < b)
    if any(sql.is_word(j, *JOINS) for j in sql.level(first, i)):
        raise PlanError(f"{sql.tokens[i].text} behind a join is not supported; put the joined tables into a subquery")
    with_nulls = sql.is_word(i + 1, "INCLUDE")
    opens = i + 1 + 2 * sql.is_word(i + 1, "INCLUDE", "EXCLUDE")
    close = sql.partner[opens]
    return _Place(first, close + 1, (first, i), (opens + 1, close), True, with_nulls)


def _replaced(sql: SqlText, place: _Place, query: str, until: int) -> str:
    """The whole text with the query for tokens start to `until`."""
    if not place.is_factor:
        return sql.replaced(place.start, until, query)
    _, alias, _ = read_alias(sql, until, len(sql.tokens))
    return sql.replaced(place.start, until, f"({query})" if alias else f'({query}) AS "$pivot"')


def _columns(sql: SqlText, place: _Place, columns_of: ColumnsOf) -> list[str]:
    return list(columns_of(with_visible(sql, place.start, f"SELECT * FROM {sql.slice(*place.table)}")))


def _mentioned(sql: SqlText, spans: Sequence[tuple[int, int]]) -> set[str]:
    names = ("word", "quoted")
    return {sql.name(i).lower() for a, b in spans for i in range(a, b) if sql.tokens[i].kind in names}


def _unlike(names: Sequence[str]) -> Iterator[str]:
    """The names, with a number behind one that was there before."""
    taken: set[str] = set()
    return (free_name(name, taken) for name in names)


# --- PIVOT ---


def _without_pivot(sql: SqlText, place: _Place, columns_of: ColumnsOf) -> str:
    a, b = place.body
    tail = b if place.is_factor else next((i for i in sql.level(a, b) if sql.is_word(i, *TAIL)), b)
    group = next((i for i in sql.level(a, tail) if sql.is_word(i, "GROUP") and sql.is_word(i + 1, "BY")), tail)
    if place.is_factor:
        middle = next((i for i in sql.level(a, group) if sql.is_word(i, "FOR")), group)
        aggregates, on = (a, middle), (middle + 1, group)
    else:
        middle = next((i for i in sql.level(a, group) if sql.is_word(i, "USING")), group)
        aggregates, on = (middle + 1, group), (a, middle)
    chosen = list(_choices(sql, *on))
    calls = [_aggregate(sql, c, d) for c, d in items(sql, *aggregates)] if aggregates[0] < aggregates[1] else []
    groups = [sql.slice(c, d) for c, d in items(sql, group + 2, tail)] if group < tail else None
    if groups is None:
        used = _mentioned(sql, [on, aggregates])
        groups = [quoted(name) for name in _columns(sql, place, columns_of) if name.lower() not in used]
    names, values = [SqlText.read(key).name(0) if _is_name(key) else key for key in groups], list(groups)
    for choice in product(*chosen):
        condition = " AND ".join(f"({expr}) IS NOT DISTINCT FROM {value}" for expr, value, _ in choice)
        place_name = "_".join(name for _, _, name in choice)
        for call, shown, is_named in calls or [("count(*)", "", False)]:
            values.append(f"{call} FILTER (WHERE {condition})")
            names.append(f"{place_name}_{shown}" if is_named or len(calls) > 1 else place_name)
    listed = ", ".join(f"{value} AS {quoted(name)}" for value, name in zip(values, _unlike(names), strict=True))
    query = f"SELECT {listed} FROM {sql.slice(*place.table)}"
    query += f" GROUP BY {', '.join(groups)}" if groups else ""
    if tail < b:
        query = f'SELECT * FROM ({query}) AS "$pivot" {sql.slice(tail, b)}'
    return _replaced(sql, place, query, place.end)


def _is_name(text: str) -> bool:
    sql = SqlText.read(text)
    return len(sql.tokens) == 1 and sql.tokens[0].kind in ("word", "quoted")


def _choices(sql: SqlText, a: int, b: int) -> Iterator[list[tuple[str, str, str]]]:
    """For each column to pivot on: its expression, a value and that value's name, for each value."""
    at = a
    while at < b:
        at += sql.is_sign(at, ",")
        word = next((i for i in sql.level(at, b) if sql.is_word(i, "IN") or sql.is_sign(i, ",")), b)
        if word == b or not sql.is_sign(word + 1, "(") or sql.is_word(word + 2, "SELECT", "WITH", "FROM"):
            raise PlanError(
                f"PIVOT by {sql.slice(at, word)!r} without a list of its values is not supported: the columns would be "
                f"known only when the query runs; it is written {_PIVOT_USAGE}"
            )
        close = sql.partner[word + 1]
        if sql.tokens[word - 1].kind not in ("word", "quoted") or any(
            not sql.is_sign(i, ".") for i in range(word - 2, at, -2)
        ):
            raise PlanError(f"PIVOT by {sql.slice(at, word)!r}: it goes by columns; compute them in a subquery")
        yield [(sql.slice(at, word), *_value(sql, c, d)) for c, d in items(sql, word + 2, close)]
        at = close + 1


def _value(sql: SqlText, a: int, b: int) -> tuple[str, str]:
    """A constant of an IN list, and what its column is called."""
    until = b - 2 if b - a > 2 and sql.is_word(b - 2, "AS") else b
    text = sql.slice(a, until)
    is_constant = all(
        sql.tokens[i].kind in ("string", "number")
        or sql.is_word(i, *_LITERAL_WORDS)
        or any(sql.is_sign(i, sign) for sign in "-.")
        for i in range(a, until)
    )
    if not is_constant or a >= until:
        raise PlanError(f"PIVOT … IN ({text}): each of the list is a constant")
    last = sql.tokens[until - 1]
    shown = (
        last.text[1:-1].replace("''", "'") if last.kind == "string" else text.upper() if last.kind == "word" else text
    )
    return text, shown if until == b else _alias(sql, b - 1)


def _alias(sql: SqlText, i: int) -> str:
    token = sql.tokens[i]
    return token.text[1:-1].replace("''", "'") if token.kind == "string" else sql.name(i)


def _aggregate(sql: SqlText, a: int, b: int) -> tuple[str, str, bool]:
    """An aggregate's call, its name, and whether the query gave it that."""
    until, name = named(sql, a, b)
    if sql.tokens[a].kind != "word" or not sql.is_sign(a + 1, "(") or sql.partner[a + 1] != until - 1:
        raise PlanError(
            f"PIVOT … USING {sql.slice(a, b)}: it takes aggregates alone; compute with them in a query around the PIVOT"
        )
    call = sql.slice(a, until)
    return (call, name, True) if until < b else (call, call.lower(), False)


# --- UNPIVOT ---


def _without_unpivot(sql: SqlText, place: _Place, columns_of: ColumnsOf) -> str:
    a, b = place.body
    tail = b if place.is_factor else next((i for i in sql.level(a, b) if sql.is_word(i, *TAIL)), b)
    name, value, stop = "name", "value", tail
    if place.is_factor:
        word = next((i for i in sql.level(a, tail) if sql.is_word(i, "IN")), tail)
        is_read = word == a + 3 and sql.is_word(a + 1, "FOR") and sql.is_sign(word + 1, "(")
        if not is_read:
            raise PlanError("UNPIVOT cannot be read; it is written t UNPIVOT (v FOR n IN (a, b)), of one value")
        value, name = sql.name(a), sql.name(a + 2)
        a, stop = word + 2, sql.partner[word + 1]
    else:
        into = next((i for i in sql.level(a, tail) if sql.is_word(i, "INTO")), tail)
        if into < tail:
            if into + 5 != tail or not sql.is_word(into + 1, "NAME") or not sql.is_word(into + 3, "VALUE"):
                raise PlanError(f"UNPIVOT … INTO cannot be read; it is written {_UNPIVOT_USAGE}, of one value")
            name, value, stop = sql.name(into + 2), sql.name(into + 4), into
    if any(sql.is_sign(c, "(") and any(sql.is_sign(i, ",") for i in range(c, d)) for c, d in items(sql, a, stop)):
        raise PlanError("UNPIVOT of several values at once is not supported; write UNION ALL of SELECTs")
    table = sql.slice(*place.table)
    columns = _columns(sql, place, columns_of)
    made: list[tuple[str, str]] = []
    for c, d in items(sql, a, stop):
        if sql.is_sign(c, "*") or sql.is_word(c, "COLUMNS"):
            found = columns_of(with_visible(sql, place.start, f"SELECT {sql.slice(c, d)} FROM {table}"))
            made += [(quoted(column), column) for column in found]
            continue
        until = d - 2 if d - c > 2 and sql.is_word(d - 2, "AS") else d
        made.append((sql.slice(c, until), _alias(sql, d - 1)))
    if not made:
        raise PlanError(f"UNPIVOT has no columns; it is written {_UNPIVOT_USAGE}")
    used = {SqlText.read(column).name(i).lower() for column, _ in made for i in _names_in(column)}
    rest = [column for column in columns if column.lower() not in used]
    *kept, name, value = _unlike([*rest, name, value])
    queries = []
    for column, shown in made:
        listed = [*map(quoted, kept), f"'{shown.replace(chr(39), chr(39) * 2)}' AS {quoted(name)}"]
        where = "" if place.with_nulls else f" WHERE ({column}) IS NOT NULL"
        queries.append(f"SELECT {', '.join(listed)}, {column} AS {quoted(value)} FROM {table}{where}")
    query = " UNION ALL ".join(queries)
    if tail < b:
        query = f'SELECT * FROM ({query}) AS "$pivot" {sql.slice(tail, b)}'
    return _replaced(sql, place, query, place.end)


def _names_in(text: str) -> list[int]:
    return [i for i, token in enumerate(SqlText.read(text).tokens) if token.kind in ("word", "quoted")]
