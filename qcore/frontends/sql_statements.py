"""Statements about a session and its queries: EXPLAIN, DESCRIBE, SHOW TABLES, CREATE TABLE … AS, DROP TABLE. Floor P2.

Read here: DataFusion would carry them out over its own empty tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from qcore.frontends.sql_text import SqlText
from qcore_ext.ground.status import PlanError

_BEGINS_QUERY = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_CREATE_USAGE = "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name AS select …"


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
class DropTable:
    """The session forgets a table."""

    name: str
    may_be_missing: bool


Statement = Explain | Describe | ShowTables | CreateTable | DropTable


def read_statement(text: str) -> Statement | None:
    """The statement of a text; None for a query. PlanError for a statement of these that cannot be read."""
    sql = SqlText.read(text)
    end = len(sql.tokens) - sql.is_sign(len(sql.tokens) - 1, ";")
    if sql.is_word(0, "EXPLAIN"):
        analyze = sql.is_word(1, "ANALYZE")
        return Explain(_query(sql, 1 + analyze, end, "EXPLAIN [ANALYZE] select …"), analyze)
    if sql.is_word(0, "DESCRIBE", "DESC"):
        if sql.is_word(1, *_BEGINS_QUERY) or sql.is_sign(1, "("):
            return Describe(_query(sql, 1, end, "DESCRIBE select …"))
        return Describe(f"SELECT * FROM {_query(sql, 1, end, 'DESCRIBE table')}")
    if sql.is_word(0, "SHOW") and sql.is_word(1, "TABLES"):
        if end > 2:
            raise PlanError("SHOW TABLES takes nothing more")
        return ShowTables()
    if sql.is_word(0, "CREATE"):
        return _create(sql, end)
    if sql.is_word(0, "DROP") and sql.is_word(1, "TABLE"):
        may_be_missing = sql.is_word(2, "IF") and sql.is_word(3, "EXISTS")
        at = 4 if may_be_missing else 2
        if end != at + 1 or sql.tokens[at].kind not in ("word", "quoted"):
            raise PlanError("DROP TABLE cannot be read; it is written DROP TABLE [IF EXISTS] name")
        return DropTable(sql.name(at), may_be_missing)
    return None


def _create(sql: SqlText, end: int) -> CreateTable | None:
    at = 1
    replaces = sql.is_word(at, "OR") and sql.is_word(at + 1, "REPLACE")
    at += 2 * replaces
    at += sql.is_word(at, "TEMP", "TEMPORARY")
    if sql.is_word(at, "VIEW"):
        raise PlanError(
            "CREATE VIEW is not supported: CREATE TABLE … AS keeps a query's rows, and Session.register(name, "
            "session.sql(…)) runs the query anew each time the name is read"
        )
    if not sql.is_word(at, "TABLE"):
        return None
    may_exist = sql.is_word(at + 1, "IF") and sql.is_word(at + 2, "NOT") and sql.is_word(at + 3, "EXISTS")
    at += 4 if may_exist else 1
    if at + 1 >= end or sql.tokens[at].kind not in ("word", "quoted") or not sql.is_word(at + 1, "AS"):
        raise PlanError(f"CREATE TABLE is not supported but of a query: {_CREATE_USAGE}")
    return CreateTable(sql.name(at), _query(sql, at + 2, end, _CREATE_USAGE), replaces, may_exist)


def _query(sql: SqlText, start: int, end: int, usage: str) -> str:
    if start >= end:
        raise PlanError(f"the statement ends too early; it is written {usage}")
    return sql.slice(start, end)
