"""Statements about a session and its queries: EXPLAIN, DESCRIBE, SHOW, CREATE and DROP, INSERT.

Read here: DataFusion would carry them out over its own empty tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.clauses import items, quoted
from qcore.frontends.text.tokens import SqlText

_BEGINS_QUERY = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_CREATE_USAGE = "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name AS select …, or name (column type, …)"
_VIEW_USAGE = "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] AS select …"
_INSERT_USAGE = "INSERT INTO name [(columns)] VALUES (…), or select …"
# What a column's definition may say beside its type, which nothing would check.
_CONSTRAINTS = frozenset({"PRIMARY", "UNIQUE", "CHECK", "DEFAULT", "REFERENCES", "FOREIGN", "GENERATED", "CONSTRAINT",
                          "NOT", "COLLATE"})  # fmt: skip


@dataclass(frozen=True)
class Explain:
    """The plan of `query`; with `analyze` it runs and what happened is shown."""

    query: str
    analyze: bool


@dataclass(frozen=True)
class Describe:
    """The columns of `query`."""

    query: str


@dataclass(frozen=True)
class ShowTables:
    """The names of the session's tables."""


@dataclass(frozen=True)
class CreateTable:
    """A table of the rows of `query`, kept in the session."""

    name: str
    query: str
    replaces: bool
    may_exist: bool


@dataclass(frozen=True)
class CreateView:
    """A query that later ones may name as a table."""

    name: str
    query: str
    replaces: bool
    may_exist: bool


@dataclass(frozen=True)
class Insert:
    """Rows of `query` put behind a table's; `columns` are those it gives, all in order where there are none."""

    table: str
    columns: tuple[str, ...]
    query: str


@dataclass(frozen=True)
class Drop:
    """The session forgets a table, or a view."""

    name: str
    is_view: bool
    may_be_missing: bool


Statement = Explain | Describe | ShowTables | CreateTable | CreateView | Insert | Drop


def read_statement(text: str) -> Statement | None:
    """The statement of a text; None for a query. PlanError for a statement of these that cannot be read."""
    sql = SqlText.read(text)
    end = len(sql.tokens) - sql.is_sign(len(sql.tokens) - 1, ";")
    if sql.is_word(0, "EXPLAIN"):
        analyze = sql.is_word(1, "ANALYZE")
        return Explain(_query(sql, 1 + analyze, end, "EXPLAIN [ANALYZE] select …"), analyze)
    if sql.is_word(0, "SUMMARIZE") and end > 1:
        raise PlanError(
            "SUMMARIZE is not supported; SELECT min(COLUMNS(*)), max(COLUMNS(*)), count(COLUMNS(*)) FROM … says most"
        )
    if sql.is_word(0, "DESCRIBE", "DESC"):
        if sql.is_word(1, *_BEGINS_QUERY) or sql.is_sign(1, "("):
            return Describe(_query(sql, 1, end, "DESCRIBE select …"))
        return Describe(f"SELECT * FROM {_query(sql, 1, end, 'DESCRIBE table')}")
    if sql.is_word(0, "SHOW") and (end == 2 or sql.is_word(1, "TABLES", "ALL")):
        if sql.is_word(1, "ALL") and sql.is_word(2, "TABLES"):
            raise PlanError("SHOW ALL TABLES is not supported; SHOW TABLES gives the names, DESCRIBE a table's columns")
        if sql.is_word(1, "TABLES") and end > 2:
            raise PlanError("SHOW TABLES takes nothing more")
        return ShowTables() if sql.is_word(1, "TABLES") else Describe(f"SELECT * FROM {sql.slice(1, end)}")
    if sql.is_word(0, "CREATE"):
        return _create(sql, end)
    if sql.is_word(0, "INSERT"):
        return _insert(sql, end)
    if sql.is_word(0, "DROP") and sql.is_word(1, "TABLE", "VIEW"):
        may_be_missing = sql.is_word(2, "IF") and sql.is_word(3, "EXISTS")
        at = 4 if may_be_missing else 2
        kind = sql.tokens[1].text
        if end != at + 1 or sql.tokens[at].kind not in ("word", "quoted"):
            raise PlanError(f"DROP {kind} cannot be read; it is written DROP {kind} [IF EXISTS] name")
        return Drop(sql.name(at), kind == "VIEW", may_be_missing)
    return None


def _create(sql: SqlText, end: int) -> CreateTable | CreateView | None:
    at = 1
    replaces = sql.is_word(at, "OR") and sql.is_word(at + 1, "REPLACE")
    at += 2 * replaces
    at += sql.is_word(at, "TEMP", "TEMPORARY")
    if not sql.is_word(at, "TABLE", "VIEW"):
        return None
    is_view = sql.is_word(at, "VIEW")
    usage = _VIEW_USAGE if is_view else _CREATE_USAGE
    may_exist = sql.is_word(at + 1, "IF") and sql.is_word(at + 2, "NOT") and sql.is_word(at + 3, "EXISTS")
    at += 4 if may_exist else 1
    if at + 1 >= end or sql.tokens[at].kind not in ("word", "quoted"):
        raise PlanError(f"the statement cannot be read; it is written {usage}")
    name, columns = sql.name(at), ""
    if sql.is_sign(at + 1, "("):
        close = sql.partner[at + 1]
        if close + 1 == end and not is_view:
            return CreateTable(name, _empty(sql, at + 2, close), replaces, may_exist)
        columns = sql.slice(at + 1, close + 1)
        at = close
    if not sql.is_word(at + 1, "AS"):
        raise PlanError(f"the statement cannot be read; it is written {usage}")
    query = _query(sql, at + 2, end, usage)
    if columns:
        query = f'SELECT * FROM ({query}) AS "$made"{columns}'
    return (CreateView if is_view else CreateTable)(name, query, replaces, may_exist)


def _empty(sql: SqlText, start: int, end: int) -> str:
    """A query of no row with the columns that tokens start to end define."""
    made = []
    for a, b in items(sql, start, end):
        if any(sql.is_word(i, *_CONSTRAINTS) for i in range(a, b)):
            raise PlanError(
                f"{sql.slice(a, b)!r}: a table's columns have names and types here, and no constraints or defaults"
            )
        if b - a < 2 or sql.tokens[a].kind not in ("word", "quoted"):
            raise PlanError(f"CREATE TABLE cannot be read; it is written {_CREATE_USAGE}")
        made.append(f"CAST(NULL AS {sql.slice(a + 1, b)}) AS {quoted(sql.name(a))}")
    return f"SELECT {', '.join(made)} LIMIT 0"


def _insert(sql: SqlText, end: int) -> Insert:
    if sql.is_word(1, "OR"):
        raise PlanError("INSERT OR … is not supported: a table here has no keys")
    if not sql.is_word(1, "INTO") or end < 4 or sql.tokens[2].kind not in ("word", "quoted"):
        raise PlanError(f"INSERT cannot be read; it is written {_INSERT_USAGE}")
    at, columns = 3, []
    if sql.is_sign(3, "(") and not sql.is_word(4, *_BEGINS_QUERY):
        columns = [sql.name(i) for i in range(4, sql.partner[3]) if not sql.is_sign(i, ",")]
        at = sql.partner[3] + 1
    if sql.is_word(at, "BY") or any(sql.is_word(i, "RETURNING") for i in sql.level(at, end)):
        raise PlanError("INSERT … BY NAME and RETURNING are not supported; list the columns")
    if any(sql.is_word(i, "ON") and sql.is_word(i + 1, "CONFLICT") for i in sql.level(at, end)):
        raise PlanError("ON CONFLICT is not supported: a table here has no keys")
    return Insert(sql.name(2), tuple(columns), _query(sql, at, end, _INSERT_USAGE))


def _query(sql: SqlText, start: int, end: int, usage: str) -> str:
    if start >= end:
        raise PlanError(f"the statement ends too early; it is written {usage}")
    return sql.slice(start, end)
