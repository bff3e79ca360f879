"""UNNEST cut out of a query's text, in its select list and among its tables.

DataFusion plans it but has no Substrait for it. What it is applied to is a query by itself, whose list columns become
rows (qcore.plan.nodes.Unnest); the rest of the query reads those as a table.
"""

from __future__ import annotations

from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.clauses import CLAUSES, JOINS, items, named, quoted, read_alias, selects, with_visible
from qcore.frontends.text.tokens import TAIL, SqlText


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
    found = [i for i in sql.places("UNNEST") if sql.is_sign(i + 1, "(")]
    for region in reversed(sql.regions) if found else ():
        for start, end in selects(sql, region):
            calls = [i for i in found if start <= i < end and sql.enclosing(i)[-1].start == region.start]
            if not calls:
                continue
            clauses = [i for i in sql.level(start + 1, end) if sql.is_word(i, *CLAUSES)]
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


def with_elements_as_queries(text: str) -> str:
    """The text with UNNEST that is a subquery's first table as a query of its own: its list may be an outer column."""
    while (changed := _as_query(SqlText.read(text))) is not None:
        text = changed
    return text


def _as_query(sql: SqlText) -> str | None:
    found = [i for i in sql.places("UNNEST") if sql.is_word(i - 1, "FROM") and sql.is_sign(i + 1, "(")]
    for region in sql.regions[1:] if found else ():
        for start, end in selects(sql, region):
            begin = next((i for i in sql.level(start + 1, end) if i in found), None)
            if begin is None or sql.is_word(sql.partner[begin + 1] + 1, "WITH"):
                continue
            after, alias, columns = read_alias(sql, sql.partner[begin + 1] + 1, end)
            column = quoted(columns[0] if columns else "unnest")
            made = f"(SELECT UNNEST({_argument(sql, begin)}) AS {column}) AS {quoted(alias or 'unnest')}"
            return sql.replaced(begin, after, made)
    return None


def _argument(sql: SqlText, call: int) -> str:
    """What UNNEST is applied to."""
    close = sql.partner[call + 1]
    if close == call + 2 or any(sql.is_sign(i, ",") or sql.is_sign(i, ":") for i in sql.level(call + 2, close)):
        raise PlanError("UNNEST takes one list or map")
    return sql.slice(call + 2, close)


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
    for a, b in items(sql, begin, end_list):
        own = [i for i in calls if a <= i < b]
        if sql.is_sign(b - 1, "*") and (b - a == 1 or sql.is_sign(b - 2, ".")):
            starred = True
            inner.append(sql.slice(a, b))
            outer.append("*")
            continue
        until, name = named(sql, a, b)
        if own:
            made = [f"$u{number}_{len(lists) + j}" for j in range(len(own))]
            lists += made
            inner += [f"{_argument(sql, i)} AS {quoted(of)}" for i, of in zip(own, made, strict=True)]
            outer.append(f"{_replaced(sql, a, until, own, made)} AS {quoted(name)}")
        else:
            column = quoted(f"$c{number}_{len(inner)}")
            inner.append(f"{sql.slice(a, until)} AS {column}")
            outer.append(f"{column} AS {quoted(name)}")
    if starred:
        made = [item.rpartition(" AS ")[2] for item in inner if " AS " in item and item.endswith('"')]
        outer = [f"* EXCLUDE ({', '.join(made)})" if item == "*" else item for item in outer]
        if sum(item.startswith("* EXCLUDE") for item in outer) > 1:
            raise PlanError("UNNEST beside more than one * is not supported; name the columns")
    query = f"SELECT {', '.join(inner)} {sql.slice(end_list, end)}"
    part = Unnesting(f"$part{number}", with_visible(sql, start, query), tuple(lists), None, False)
    text = f'{sql.slice(start, begin)} {", ".join(outer)} FROM "{part.table}"'
    return sql.replaced(start, end, text), part


def _replaced(sql: SqlText, a: int, b: int, calls: list[int], columns: list[str]) -> str:
    """Tokens a to b with the calls replaced by columns."""
    pieces, at = [], a
    for call, column in zip(calls, columns, strict=True):
        pieces += [sql.slice(at, call), quoted(column)]
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
    end, alias, columns = read_alias(sql, close + 1 + 2 * with_ordinality, tables[1])
    wanted = 1 + with_ordinality
    columns = [*columns, *["unnest", "ordinality"][len(columns) : wanted]]
    if len(columns) > wanted:
        raise PlanError(f"UNNEST gives {wanted} column{'s' * with_ordinality}, not {len(columns)}")
    element, ordinal = f"$u{number}_0", f"$n{number}"
    made = [element, ordinal][:wanted]
    named = ", ".join(f"{quoted(of)} AS {quoted(name)}" for of, name in zip(made, columns, strict=True))
    before, outer = _joined_before(sql, tables[0] + 1, call)
    start = core[0]
    if before == tables[0] + 1 or _is_constant(sql, call + 2, close):
        # A table by itself: beside another one its list would be made anew for each row of that.
        call -= sql.is_word(call - 1, "LATERAL")
        query = f"SELECT {argument} AS {quoted(element)}"
        part = _part(sql, start, number, query, made, False)
        rows = f"(SELECT {named} FROM {quoted(part.table)}) AS {quoted(alias or 'unnest')}"
        return sql.replaced(call, end, rows), part
    if outer:
        if not (sql.is_word(end, "ON") and sql.is_word(end + 1, "TRUE")):
            raise PlanError("LEFT JOIN UNNEST(…) takes ON TRUE")
        end += 2
    if any(sql.is_word(i, *JOINS) or sql.is_sign(i, ",") for i in sql.level(tables[0] + 1, before)):
        raise PlanError("UNNEST after more than one table is not supported; put the tables into a subquery first")
    factor = sql.slice(tables[0] + 1, before)
    _, name, _ = read_alias(sql, before - 1, before)
    own = f"SELECT {quoted(name)}.*, {argument} AS {quoted(element)} FROM {factor}"
    part = _part(sql, start, number, own, made, outer)
    hidden = ", ".join(map(quoted, made))
    rows = f"(SELECT * EXCLUDE ({hidden}), {named} FROM {quoted(part.table)}) AS {quoted(name)}"
    # What the query calls the elements' table is the table itself now.
    pieces, at = [], core[0]
    for i in range(*core):
        if i == tables[0] + 1:
            pieces += [sql.slice(at, i), rows]
            at = end
        elif (i >= end or i < tables[0]) and alias and _qualifies(sql, i, alias):
            pieces += [sql.slice(at, i), quoted(name)]
            at = i + 1
    return sql.replaced(*core, " ".join([*pieces, sql.slice(at, core[1])])), part


def _is_constant(sql: SqlText, begin: int, end: int) -> bool:
    """Whether tokens begin to end are a value that reads no column: calls of constants."""
    for i in range(begin, end):
        is_value = sql.is_word(i, "NULL", "TRUE", "FALSE")
        is_call = sql.tokens[i].kind == "word" and sql.is_sign(i + 1, "(") and not sql.is_word(i, "UNNEST")
        if sql.tokens[i].kind in ("word", "quoted") and not is_value and not is_call:
            return False
    return True


def _qualifies(sql: SqlText, i: int, table: str) -> bool:
    """Whether token i is this table's name before a column's."""
    return sql.tokens[i].kind in ("word", "quoted") and sql.name(i) == table and sql.is_sign(i + 1, ".")


def _part(sql: SqlText, start: int, number: int, query: str, made: list[str], outer: bool) -> Unnesting:
    ordinality = made[1] if len(made) > 1 else None
    return Unnesting(f"$part{number}", with_visible(sql, start, query), (made[0],), ordinality, outer)


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
