"""UNNEST cut out of a query's text, in its select list and among its tables. Floor P2.

DataFusion plans it but has no Substrait for it. What it is applied to is a query by itself, whose list columns become
rows (qcore.plan.Unnest); the rest of the query reads those as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qcore.frontends.sql_text import SET_OPERATORS, TAIL, Region, SqlText
from qcore_ext.ground.status import PlanError

# What ends a select list, or a list of tables.
_CLAUSES = frozenset({"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY"})
_JOINS = frozenset({"JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "ON", "USING", "LATERAL", "OUTER"})
# Words that may stand last in an expression, or before its last word: what follows them names no column.
_NO_ALIAS = frozenset({"END", "NULL", "TRUE", "FALSE", "UNKNOWN"})
_BEFORE_OPERAND = frozenset(
    {"AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "IS", "BETWEEN", "THEN", "ELSE", "WHEN", "FROM"}
)


@dataclass(frozen=True)
class Unnesting:
    """The rows of `query`, one for each element of its columns `lists`; `ordinality` names the elements' numbers."""

    table: str
    query: str
    lists: tuple[str, ...]
    ordinality: str | None
    outer: bool


def cut_unnest(sql: SqlText, number: int) -> tuple[str, Unnesting] | None:
    """The text with an innermost UNNEST replaced, and what it was; None when there is none. PlanError for one whose
    place is not known.
    """
    for region in reversed(sql.regions()):
        for start, end in _cores(sql, region):
            calls = [i for i in range(start, end) if _is_call(sql, i) and sql.enclosing(i)[-1].start == region.start]
            if not calls:
                continue
            clauses = [i for i in sql.level(start + 1, end) if sql.is_word(i, *_CLAUSES)]
            begin_from = next((i for i in clauses if sql.is_word(i, "FROM")), end)
            end_from = next((i for i in clauses if i > begin_from), end)
            listed = [i for i in calls if i < (clauses[0] if clauses else end)]
            if listed:
                return _in_select_list(sql, listed, start, clauses[0] if clauses else end, end, number)
            if any(begin_from < i < end_from for i in calls):
                # What the query is ordered by may name the elements' table too.
                tail = region.end if sql.is_word(end, *TAIL) else end
                return _among_tables(sql, calls, (start, tail), (begin_from, end_from), number)
            raise PlanError("UNNEST stands in the select list or after FROM; elsewhere it is not supported")
    return None


def _is_call(sql: SqlText, i: int) -> bool:
    return sql.is_word(i, "UNNEST") and sql.is_sign(i + 1, "(")


def _cores(sql: SqlText, region: Region) -> Iterator[tuple[int, int]]:
    """The SELECTs that a query's set operators join."""
    start = region.main
    for i in sql.level(region.main, region.end):
        if (sql.is_word(i, *SET_OPERATORS) and i > start) or sql.is_word(i, *TAIL):
            if sql.is_word(start, "SELECT"):
                yield start, i
            if sql.is_word(i, *TAIL):
                return
            start = i + 1 + sql.is_word(i + 1, "ALL", "DISTINCT")
    if sql.is_word(start, "SELECT"):
        yield start, region.end


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _argument(sql: SqlText, call: int) -> str:
    """What UNNEST is applied to."""
    close = sql.partner[call + 1]
    if close == call + 2 or any(sql.is_sign(i, ",") or sql.is_sign(i, ":") for i in sql.level(call + 2, close)):
        raise PlanError("UNNEST takes one list or map")
    return sql.slice(call + 2, close)


def _with_visible(sql: SqlText, position: int, query: str) -> str:
    definitions = sql.visible(position)
    return f"WITH {', '.join(definitions)} {query}" if definitions else query


# --- in the select list ---


def _in_select_list(
    sql: SqlText, calls: list[int], start: int, end_list: int, end: int, number: int
) -> tuple[str, Unnesting]:
    begin = start + 1 + sql.is_word(start + 1, "DISTINCT", "ALL")
    calls = [i for i in calls if not any(other < i < sql.partner[other + 1] for other in calls)]
    inner: list[str] = []
    outer: list[str] = []
    lists: list[str] = []
    starred = False
    for a, b in _split(sql, begin, end_list):
        own = [i for i in calls if a <= i < b]
        if sql.is_sign(b - 1, "*") and (b - a == 1 or sql.is_sign(b - 2, ".")):
            starred = True
            inner.append(sql.slice(a, b))
            outer.append("*")
            continue
        until, name = _named(sql, a, b)
        if own:
            made = [f"$u{number}_{len(lists) + j}" for j in range(len(own))]
            lists += made
            inner += [f"{_argument(sql, i)} AS {_quoted(of)}" for i, of in zip(own, made, strict=True)]
            outer.append(f"{_replaced(sql, a, until, own, made)} AS {_quoted(name)}")
        else:
            column = _quoted(f"$c{number}_{len(inner)}")
            inner.append(f"{sql.slice(a, until)} AS {column}")
            outer.append(f"{column} AS {_quoted(name)}")
    if starred:
        made = [item.rpartition(" AS ")[2] for item in inner if " AS " in item and item.endswith('"')]
        outer = [f"* EXCLUDE ({', '.join(made)})" if item == "*" else item for item in outer]
        if sum(item.startswith("* EXCLUDE") for item in outer) > 1:
            raise PlanError("UNNEST beside more than one * is not supported; name the columns")
    query = f"SELECT {', '.join(inner)} {sql.slice(end_list, end)}"
    part = Unnesting(f"$part{number}", _with_visible(sql, start, query), tuple(lists), None, False)
    text = f'{sql.slice(start, begin)} {", ".join(outer)} FROM "{part.table}"'
    return sql.replaced(start, end, text), part


def _split(sql: SqlText, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts between commas."""
    at = start
    for i in sql.level(start, end):
        if sql.is_sign(i, ","):
            yield at, i
            at = i + 1
    yield at, end


def _named(sql: SqlText, a: int, b: int) -> tuple[int, str]:
    """Where the expression of a select item ends, and its name."""
    if b - a > 2 and sql.is_word(b - 2, "AS"):
        return b - 2, sql.name(b - 1)
    last, before = sql.tokens[b - 1], sql.tokens[b - 2]
    follows_value = before.kind in ("string", "quoted", "number") or sql.is_sign(b - 2, ")") or sql.is_sign(b - 2, "]")
    follows_value = follows_value or (before.kind == "word" and before.text not in _BEFORE_OPERAND)
    if b - a > 1 and follows_value and (last.kind == "quoted" or (last.kind == "word" and last.text not in _NO_ALIAS)):
        return b - 1, sql.name(b - 1)
    if last.kind in ("word", "quoted") and (b - a == 1 or sql.is_sign(b - 2, ".")):
        return b, sql.name(b - 1)
    return b, sql.slice(a, b).lower()


def _replaced(sql: SqlText, a: int, b: int, calls: list[int], columns: list[str]) -> str:
    """Tokens a to b with the calls replaced by columns."""
    pieces, at = [], a
    for call, column in zip(calls, columns, strict=True):
        pieces += [sql.slice(at, call), _quoted(column)]
        at = sql.partner[call + 1] + 1
    return " ".join([*pieces, sql.slice(at, b)])


# --- among the tables ---


def _among_tables(
    sql: SqlText, calls: list[int], core: tuple[int, int], tables: tuple[int, int], number: int
) -> tuple[str, Unnesting]:
    """FROM t AS a, unnest(a.l) AS u(e): the table becomes one that has the elements beside its columns."""
    call = calls[0]
    close = sql.partner[call + 1]
    argument = _argument(sql, call)
    with_ordinality = sql.is_word(close + 1, "WITH") and sql.is_word(close + 2, "ORDINALITY")
    end, alias, columns = _alias(sql, close + 1 + 2 * with_ordinality, tables[1])
    wanted = 1 + with_ordinality
    columns = [*columns, *["unnest", "ordinality"][len(columns) : wanted]]
    if len(columns) > wanted:
        raise PlanError(f"UNNEST gives {wanted} column{'s' * with_ordinality}, not {len(columns)}")
    element, ordinal = f"$u{number}_0", f"$n{number}"
    made = [element, ordinal][:wanted]
    named = ", ".join(f"{_quoted(of)} AS {_quoted(name)}" for of, name in zip(made, columns, strict=True))
    before, outer = _joined_before(sql, tables[0] + 1, call)
    start = core[0]
    if before == tables[0] + 1:
        query = f"SELECT {argument} AS {_quoted(element)}"
        part = _part(sql, start, number, query, made, False)
        rows = f"(SELECT {named} FROM {_quoted(part.table)}) AS {_quoted(alias or 'unnest')}"
        return sql.replaced(call, end, rows), part
    if outer:
        if not (sql.is_word(end, "ON") and sql.is_word(end + 1, "TRUE")):
            raise PlanError("LEFT JOIN UNNEST(…) takes ON TRUE")
        end += 2
    if any(sql.is_word(i, *_JOINS) or sql.is_sign(i, ",") for i in sql.level(tables[0] + 1, before)):
        raise PlanError("UNNEST after more than one table is not supported; put the tables into a subquery first")
    factor = sql.slice(tables[0] + 1, before)
    _, name, _ = _alias(sql, before - 1, before)
    own = f"SELECT {_quoted(name)}.*, {argument} AS {_quoted(element)} FROM {factor}"
    part = _part(sql, start, number, own, made, outer)
    hidden = ", ".join(map(_quoted, made))
    rows = f"(SELECT * EXCLUDE ({hidden}), {named} FROM {_quoted(part.table)}) AS {_quoted(name)}"
    # What the query calls the elements' table is the table itself now.
    pieces, at = [], core[0]
    for i in range(*core):
        if i == tables[0] + 1:
            pieces += [sql.slice(at, i), rows]
            at = end
        elif (i >= end or i < tables[0]) and alias and _qualifies(sql, i, alias):
            pieces += [sql.slice(at, i), _quoted(name)]
            at = i + 1
    return sql.replaced(*core, " ".join([*pieces, sql.slice(at, core[1])])), part


def _qualifies(sql: SqlText, i: int, table: str) -> bool:
    """Whether token i is this table's name before a column's."""
    return sql.tokens[i].kind in ("word", "quoted") and sql.name(i) == table and sql.is_sign(i + 1, ".")


def _part(sql: SqlText, start: int, number: int, query: str, made: list[str], outer: bool) -> Unnesting:
    ordinality = made[1] if len(made) > 1 else None
    return Unnesting(f"$part{number}", _with_visible(sql, start, query), (made[0],), ordinality, outer)


def _alias(sql: SqlText, at: int, end: int) -> tuple[int, str, list[str]]:
    """`[AS] name [(columns)]` at token `at`: where it ends, and the names; none where there is no alias."""
    at += sql.is_word(at, "AS")
    if at >= end or sql.tokens[at].kind not in ("word", "quoted") or sql.is_word(at, *_JOINS, *_CLAUSES):
        return at, "", []
    name, columns = sql.name(at), []
    at += 1
    if at < end and sql.is_sign(at, "("):
        columns = [sql.name(i) for i in range(at + 1, sql.partner[at]) if not sql.is_sign(i, ",")]
        at = sql.partner[at] + 1
    return at, name, columns


def _joined_before(sql: SqlText, begin: int, call: int) -> tuple[int, bool]:
    """Where the tables before UNNEST end, and whether it is joined as LEFT JOIN."""
    at = call
    at -= sql.is_word(at - 1, "LATERAL")
    if sql.is_sign(at - 1, ","):
        return at - 1, False
    if sql.is_word(at - 1, "JOIN"):
        at -= 1
        at -= sql.is_word(at - 1, "OUTER")
        if sql.is_word(at - 1, "CROSS"):
            return at - 1, False
        if sql.is_word(at - 1, "LEFT"):
            return at - 1, True
        raise PlanError("UNNEST is joined by a comma, CROSS JOIN or LEFT JOIN … ON TRUE")
    if at != begin:
        raise PlanError("UNNEST among other tables is joined by a comma, CROSS JOIN or LEFT JOIN … ON TRUE")
    return begin, False
