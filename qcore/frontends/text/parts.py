"""Constructs that DataFusion cannot pass on, cut out of a query's text: each becomes a table of its own name.

WITH RECURSIVE has no place in Substrait, and EXCEPT ALL and INTERSECT ALL become joins there that ignore how often a
row occurs. What they are made of are queries, which are planned by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, CommonTable, Region, SqlText
from qcore.frontends.text.unnest import Unnesting, cut_unnest


@dataclass(frozen=True)
class Recursion:
    """A recursive common table: the query of its first rows, and the one that is repeated, over `working`."""

    table: str
    name: str
    working: str
    first: str
    repeated: str
    distinct: bool


@dataclass(frozen=True)
class SetOperation:
    """`left` EXCEPT ALL or INTERSECT ALL `right`."""

    table: str
    kind: str
    left: str
    right: str


def cut_part(text: str, number: int) -> tuple[str, Recursion | SetOperation | Unnesting] | None:
    """The text with its first such construct replaced by a table, named after `number`, and the construct; None when
    there is none left. PlanError for a recursion that is no UNION.
    """
    recursion = cut_recursion(text, number)
    if recursion is not None:
        return recursion
    sql = SqlText.read(text)
    for region in sql.regions if sql.words & {"EXCEPT", "INTERSECT"} and sql.places("ALL") else ():
        for i in sql.level(region.main, region.end):
            if sql.is_word(i, "EXCEPT", "INTERSECT") and sql.is_word(i + 1, "ALL"):
                return _set_operation(sql, region, i, number)
    return cut_unnest(sql, number)


def cut_recursion(text: str, number: int) -> tuple[str, Recursion] | None:
    """The same of recursive common tables alone."""
    sql = SqlText.read(text)
    for region in sql.regions if sql.places("RECURSIVE") else ():
        for table in region.common if region.is_recursive else ():
            if _names_itself(sql, table):
                return _recursion(sql, table, number)
    return None


def _names_itself(sql: SqlText, table: CommonTable) -> bool:
    body = range(table.body, table.body_end)
    return any(sql.tokens[i].kind in ("word", "quoted") and sql.name(i) == table.name for i in body)


def _with(definitions: list[str], query: str) -> str:
    return f"WITH {', '.join(definitions)} {query}" if definitions else query


def _recursion(sql: SqlText, table: CommonTable, number: int) -> tuple[str, Recursion]:
    body = next(region for region in sql.regions if region.start == table.body)
    unions = [i for i in sql.level(body.main, body.end) if sql.is_word(i, "UNION")]
    if not unions:
        raise PlanError(f"the recursive table {table.name!r} is no UNION of its first rows and what follows from them")
    split = unions[-1]
    is_all = sql.is_word(split + 1, "ALL")
    rest = split + 1 + (is_all or sql.is_word(split + 1, "DISTINCT"))
    visible = sql.visible(table.body)
    visible += [sql.slice(inner.first, inner.end) for inner in body.common]
    # The table's own name, with its list of columns, means the working table inside.
    own = f'{sql.slice(table.first, table.body - 1)} (SELECT * FROM "$working{number}")'.replace("\n", " ")
    part = Recursion(
        f"$part{number}",
        table.name,
        f"$working{number}",
        _with(visible, sql.slice(body.main, split)),
        _with([*visible, own], sql.slice(rest, body.end)),
        not is_all,
    )
    if any(_mentions(sql, table.name, i) for i in range(body.main, split)):
        raise PlanError(f"the recursive table {table.name!r} is named by the query of its own first rows")
    return sql.replaced(table.body, table.body_end, f'SELECT * FROM "{part.table}"'), part


def _mentions(sql: SqlText, name: str, i: int) -> bool:
    """Whether token i is this name where a table's is expected."""
    return sql.tokens[i].kind in ("word", "quoted") and sql.name(i) == name and sql.is_word(i - 1, "FROM", "JOIN")


def _set_operation(sql: SqlText, region: Region, operator: int, number: int) -> tuple[str, SetOperation]:
    kind = sql.tokens[operator].text.lower()
    level = list(sql.level(region.main, region.end))
    # INTERSECT binds tighter than the others, which are read from the left.
    ends_left = {"UNION", "EXCEPT"} if kind == "intersect" else set()
    ends_right = (SET_OPERATORS if kind == "intersect" else {"UNION", "EXCEPT"}) | TAIL
    start, end = region.main, region.end
    for i in level:
        if i < operator and sql.is_word(i, *ends_left) and _is_operator(sql, i):
            start = i + 1 + sql.is_word(i + 1, "ALL", "DISTINCT")
        if i > operator and sql.is_word(i, *ends_right) and _is_operator(sql, i):
            end = i
            break
    visible = sql.visible(operator)
    part = SetOperation(
        f"$part{number}",
        f"{kind}_all",
        _with(visible, sql.slice(start, operator)),
        _with(visible, sql.slice(operator + 2, end)),
    )
    return sql.replaced(start, end, f'SELECT * FROM "{part.table}"'), part


def _is_operator(sql: SqlText, i: int) -> bool:
    """EXCEPT before a bracket with a list of columns belongs to a star."""
    return (
        not (sql.is_word(i, "EXCEPT") and sql.is_sign(i + 1, "("))
        or sql.is_word(i + 2, "SELECT", "WITH", "VALUES", "TABLE")
        or sql.is_sign(i + 2, "(")
    )
