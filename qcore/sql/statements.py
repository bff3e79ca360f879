"""Statements about a session and its queries: EXPLAIN, DESCRIBE, SUMMARIZE, SHOW, SET, CREATE, DROP, INSERT.

They are read from the tokens of sqlglot, because its parser does not parse EXPLAIN and SHOW. Queries inside them are
bound as separate texts.
"""

from __future__ import annotations

import re

from qcore.errors import PlanError
from qcore.functions.dialect import Dialect
from qcore.record import record
from qcore.sql.parse import keep_beginning, tokens_of
from qcore.sql.statement_text import StatementText, at_first_word, first_word, sign_of

_ANALYZE = re.compile(r"\s*ANALYZE\b", re.IGNORECASE)
_STATEMENTS = frozenset({
    "EXPLAIN", "DESCRIBE", "DESC", "SUMMARIZE", "SHOW", "SET", "RESET", "CREATE", "DROP", "INSERT", "UPDATE", "DELETE",
    "MERGE",
})  # fmt: skip
_BEGINS_QUERY = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
# Tables can have these names.
_MAY_BEGIN_QUERY = ("PIVOT", "UNPIVOT", "SUMMARIZE")
_CREATE_USAGE = "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name AS select …, or name (column type, …)"
_VIEW_USAGE = "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] AS select …"
_INSERT_USAGE = "INSERT INTO name [(columns)] VALUES (…), or select …"
_SET_USAGE = "SET name = value, with a name and a value of Session.change, such as SET threads = 2"
# Parts of a column's definition that are not supported, because the engine would not enforce them.
_CONSTRAINTS = {"PRIMARY", "UNIQUE", "CHECK", "DEFAULT", "REFERENCES", "FOREIGN", "GENERATED", "CONSTRAINT", "NOT",
                "COLLATE"}  # fmt: skip


@record(frozen=True)
class Explain:
    """Show the plan of `query`. With `analyze` the query runs, and its counters are shown."""

    query: str
    analyze: bool


@record(frozen=True)
class Describe:
    """The columns of `query`."""

    query: str


@record(frozen=True)
class Summarize:
    """Statistics of each column of `query`."""

    query: str


@record(frozen=True)
class ShowTables:
    """The names of the session's tables."""


@record(frozen=True)
class SetSetting:
    """A setting of the session by its name in Session.change; None: its default."""

    name: str
    value: str | int | float | None


@record(frozen=True)
class CreateTable:
    """A table of the rows of `query`, kept in the session."""

    name: str
    query: str
    replaces: bool
    may_exist: bool


@record(frozen=True)
class CreateView:
    """A query that later ones may name as a table."""

    name: str
    query: str
    replaces: bool
    may_exist: bool


@record(frozen=True)
class Insert:
    """Append the rows of `query` to a table. `columns` are the columns that it sets; empty: all, in order."""

    table: str
    columns: tuple[str, ...]
    query: str


@record(frozen=True)
class Drop:
    """Remove a table or a view from the session."""

    name: str
    is_view: bool
    may_be_missing: bool


Statement = Explain | Describe | Summarize | ShowTables | SetSetting | CreateTable | CreateView | Insert | Drop


def split_statements(text: str, dialect: Dialect) -> list[str]:
    """The texts of the statements, which semicolons separate. PlanError if there is none."""
    if ";" not in text:
        return [text]
    tokens = tokens_of(text, dialect)
    found, start, is_empty = [], 0, True
    for number, token in enumerate(tokens):
        if token.text == ";" and sign_of(token):
            if not is_empty:
                found.append(text[start : token.start])
                if start == 0:
                    keep_beginning(found[0], tokens[:number], dialect)
            start, is_empty = token.end + 1, True
        else:
            is_empty = False
    return found if is_empty and found else [*found, text[start:]]


def read_statement(text: str, dialect: Dialect) -> Statement | None:
    """The statement of a text; None for a query and COPY. PlanError for a statement that cannot be read."""
    word, rest = first_word(text)
    if word not in _STATEMENTS:
        return None
    try:
        return _statement(word, rest, dialect)
    except PlanError as error:
        raise at_first_word(error, text) from None


def _statement(word: str, rest: str, dialect: Dialect) -> Statement | None:
    if word == "EXPLAIN":
        analyze = _ANALYZE.match(rest)
        query = rest[0 if analyze is None else analyze.end() :].strip().removesuffix(";")
        if not query:
            raise PlanError("the statement ends too early; the syntax is EXPLAIN [ANALYZE] select …")
        return Explain(query, analyze is not None)
    return _Reader(word, rest, dialect).statement()


def quote_name(name: str) -> str:
    """A name in standard quotes."""
    return '"' + name.replace('"', '""') + '"'


class _Reader(StatementText):
    """Reads one statement."""

    def statement(self) -> Statement | None:
        word = self.word
        if word in ("DESCRIBE", "DESC"):
            return Describe(self.rows(1, "DESCRIBE"))
        if word == "SUMMARIZE":
            return Summarize(self.rows(1, "SUMMARIZE"))
        if word == "SHOW":
            return self.show()
        if word in ("SET", "RESET"):
            return self.set(word)
        if word == "CREATE":
            return self.create()
        if word == "INSERT":
            return self.insert()
        if word == "DROP":
            return self.drop()
        raise PlanError(f"{word} is not supported; to change a table, use CREATE OR REPLACE TABLE name AS select …")

    def rows(self, at: int, word: str) -> str:
        """The query, or all rows of the table, that DESCRIBE or SUMMARIZE is about."""
        written = self.query(at, f"{word} table, or {word} select …")
        is_query = self.is_word(at, *_BEGINS_QUERY, "(") or (self.is_word(at, *_MAY_BEGIN_QUERY) and self.end > at + 1)
        return written if is_query else f"SELECT * FROM {written}"

    def show(self) -> Statement | None:
        if self.is_word(1, "ALL") and self.is_word(2, "TABLES"):
            raise PlanError(
                "SHOW ALL TABLES is not supported; SHOW TABLES gives the names, information_schema.columns the columns"
            )
        if self.is_word(1, "TABLES"):
            if self.end > 2:
                raise PlanError("SHOW TABLES takes no arguments")
            return ShowTables()
        return Describe(self.rows(1, "SHOW"))

    def set(self, word: str) -> SetSetting:
        at = 1 + self.is_word(1, "SESSION", "GLOBAL", "LOCAL")
        if not self.is_name(at):
            raise PlanError(f"{word} cannot be read; the syntax is {_SET_USAGE}")
        name = str(self.tokens[at].text).lower()
        if word == "RESET":
            if self.end > at + 1:
                raise PlanError("RESET takes one name")
            return SetSetting(name, None)
        if not self.is_word(at + 1, "=", "TO") or self.end != at + 3:
            raise PlanError(f"SET cannot be read; the syntax is {_SET_USAGE}")
        token = self.tokens[at + 2]
        kind = token.token_type.name
        if kind == "NUMBER":
            number = float(token.text)
            return SetSetting(name, int(number) if number.is_integer() else number)
        if kind != "STRING" and self.is_word(at + 2, "DEFAULT", "NULL"):
            return SetSetting(name, None)
        return SetSetting(name, str(token.text))

    def create(self) -> CreateTable | CreateView:
        at = 1
        replaces = self.is_word(at, "OR") and self.is_word(at + 1, "REPLACE")
        at += 2 * replaces
        at += self.is_word(at, "TEMP", "TEMPORARY")
        if not self.is_word(at, "TABLE", "VIEW"):
            what = sign_of(self.tokens[at]).upper() if at < self.end else ""
            raise PlanError(f"CREATE {what} is not supported; CREATE TABLE and CREATE VIEW are".replace("  ", " "))
        is_view = self.is_word(at, "VIEW")
        usage = _VIEW_USAGE if is_view else _CREATE_USAGE
        may_exist = self.is_word(at + 1, "IF") and self.is_word(at + 2, "NOT") and self.is_word(at + 3, "EXISTS")
        at += 4 if may_exist else 1
        if at + 1 >= self.end or not self.is_name(at):
            raise PlanError(f"the statement cannot be read; the syntax is {usage}")
        name, columns = self.name(at), ""
        if self.is_word(at + 1, "("):
            close = self.close(at + 1)
            if close + 1 == self.end and not is_view:
                return CreateTable(name, self.empty(at + 2, close), replaces, may_exist)
            columns = self.slice(at + 1, close + 1)
            at = close
        if not self.is_word(at + 1, "AS"):
            raise PlanError(f"the statement cannot be read; the syntax is {usage}")
        query = self.query(at + 2, usage)
        if columns:
            query = f"SELECT * FROM ({query}) AS {quote_name('$made')}{columns}"
        return (CreateView if is_view else CreateTable)(name, query, replaces, may_exist)

    def empty(self, start: int, end: int) -> str:
        """A query of no row with the columns that tokens start to end define."""
        made = []
        for a, b in self.items(start, end):
            # PRIMARY KEY is one token.
            words = {sign_of(self.tokens[i]).upper().partition(" ")[0] for i in range(a, b)}
            if words & _CONSTRAINTS:
                raise PlanError(
                    f"{self.slice(a, b)!r}: constraints and defaults are not supported; write only name and type"
                )
            if b - a < 2 or not self.is_name(a):
                raise PlanError(f"CREATE TABLE cannot be read; the syntax is {_CREATE_USAGE}")
            made.append(f"CAST(NULL AS {self.slice(a + 1, b)}) AS {quote_name(self.name(a))}")
        return f"SELECT {', '.join(made)} LIMIT 0"

    def insert(self) -> Insert:
        if self.is_word(1, "OR"):
            raise PlanError("INSERT OR … is not supported, because tables have no keys")
        if not self.is_word(1, "INTO") or self.end < 4 or not self.is_name(2):
            raise PlanError(f"INSERT cannot be read; the syntax is {_INSERT_USAGE}")
        at, columns = 3, []
        if self.is_word(3, "(") and not self.is_word(4, *_BEGINS_QUERY, "("):
            close = self.close(3)
            columns = [self.name(a) for a, _ in self.items(4, close)]
            at = close + 1
        if self.is_word(at, "BY") or any(self.is_word(i, "RETURNING") for i in self.level(at, self.end)):
            raise PlanError("INSERT … BY NAME and RETURNING are not supported; list the columns")
        if any(self.is_word(i, "ON") and self.is_word(i + 1, "CONFLICT") for i in self.level(at, self.end)):
            raise PlanError("ON CONFLICT is not supported, because tables have no keys")
        return Insert(self.name(2), tuple(columns), self.query(at, _INSERT_USAGE))

    def drop(self) -> Drop:
        if not self.is_word(1, "TABLE", "VIEW"):
            raise PlanError("DROP cannot be read; the syntax is DROP TABLE [IF EXISTS] name, or DROP VIEW")
        may_be_missing = self.is_word(2, "IF") and self.is_word(3, "EXISTS")
        at = 4 if may_be_missing else 2
        kind = sign_of(self.tokens[1]).upper()
        if self.end != at + 1 or not self.is_name(at):
            raise PlanError(f"DROP {kind} cannot be read; the syntax is DROP {kind} [IF EXISTS] name")
        return Drop(self.name(at), kind == "VIEW", may_be_missing)
