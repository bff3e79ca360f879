"""Names whatever their case: written out as the tables, or the query's own aliases, spell them.

The planner makes names without quotes lower case, as PostgreSQL does, and takes those in quotes as they stand; DuckDB's
and Spark's names are the same in any case. Only what a table or alias of the query spells one way is touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from qcore.frontends.text.clauses import CLAUSES, JOINS, UNITS, is_type, named, quoted, read_alias, select_list, selects
from qcore.frontends.text.lambdas import parameters
from qcore.frontends.text.tokens import SET_OPERATORS, TAIL, SqlText

_BEFORE_TABLE = ("FROM", "JOIN", "INTO", "LATERAL", "TABLE", "PIVOT", "UNPIVOT", "SUMMARIZE", "DESCRIBE")
# Words of SQL that a name without quotes is not, or only where nothing else could stand: they are left alone.
_RESERVED = CLAUSES | JOINS | TAIL | SET_OPERATORS | {
    "ALL", "AND", "ANTI", "ANY", "AS", "ASC", "ASOF", "BETWEEN", "BY", "CASE", "CUBE", "CURRENT", "DESC",
    "DISTINCT", "ELSE", "END", "ESCAPE", "EXCLUDE", "EXISTS", "FALSE", "FILTER", "FIRST", "FOLLOWING", "GROUPING",
    "GROUPS", "IGNORE", "ILIKE", "IN", "INTERVAL", "INTO", "IS", "LAST", "LIKE", "NEXT", "NOT", "NULL", "NULLS",
    "ONLY", "OR", "OTHERS", "OVER", "PARTITION", "PIVOT", "POSITIONAL", "PRECEDING", "RANGE", "RECURSIVE", "RENAME",
    "REPLACE", "RESPECT", "ROLLUP", "ROW", "ROWS", "SELECT", "SEMI", "SETS", "SIMILAR", "SOME", "TABLE", "THEN",
    "TIES", "TO", "TRUE", "UNBOUNDED", "UNPIVOT", "VALUES", "WHEN", "WITH", "WITHIN", "ZONE",
}  # fmt: skip


@dataclass
class Spelling:
    """How a query's tables, their columns and its own aliases spell names, by the names in lower case."""

    tables: dict[str, set[str]] = field(default_factory=dict)
    columns: dict[str, set[str]] = field(default_factory=dict)
    aliases: dict[str, set[str]] = field(default_factory=dict)
    #: Of structs.
    fields: dict[str, set[str]] = field(default_factory=dict)
    #: The columns of each table, by the names of the table in the query.
    columns_of: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    @staticmethod
    def of(query: str, tables: Mapping[str, pa.Schema], views: Mapping[str, str]) -> Spelling:
        """That of a query over tables of these schemas and views of these queries."""
        known = Spelling()
        read = [SqlText.read(text) for text in (query, *views.values())]
        names = frozenset().union(*(sql.names for sql in read))
        for table, schema in tables.items():
            if table.lower() not in names:
                continue
            known.tables.setdefault(table.lower(), set()).add(table)
            columns = known.columns_of.setdefault(table.lower(), {})
            for column in schema:
                known.columns.setdefault(column.name.lower(), set()).add(column.name)
                columns.setdefault(column.name.lower(), set()).add(column.name)
                known._add_fields(column.type)
        for view in views:
            known.tables.setdefault(view.lower(), set()).add(view)
        for sql in read:
            known._read_aliases(sql)
        return known

    def spelled(self, sql: SqlText, i: int) -> str | None:
        """How token i, a name, is spelled; None where nothing says so, or several ways are."""
        written = _written(sql, i)
        lower = written.lower()
        known = self._known(sql, i, lower)
        if len(known) == 1:
            return next(iter(known))
        if not known:
            # Aliases that differ in case alone are one name.
            aliases = self.aliases.get(lower, ())
            return next(iter(aliases)) if len(aliases) == 1 else None
        return next((name for name in (written, lower) if name in known), None)

    def defines(self, name: str) -> bool:
        """Whether a table, a column or an alias is spelled just so."""
        return any(name in held.get(name.lower(), ()) for held in (self.tables, self.columns, self.aliases))

    def _known(self, sql: SqlText, i: int, lower: str) -> Collection[str]:
        if sql.is_sign(i - 1, ".") and i > 1 and sql.tokens[i - 2].kind in ("word", "quoted"):
            table = _written(sql, i - 2).lower()
            of_table = self.columns_of.get(table, {}).get(lower)
            if of_table is not None:
                return of_table
            if table not in self.columns_of and (table in self.columns or table in self.fields):
                return self.fields.get(lower, ())
        is_table = sql.is_word(i - 1, *_BEFORE_TABLE) or sql.is_sign(i + 1, ".")
        first, second = (self.tables, self.columns) if is_table else (self.columns, self.tables)
        return first.get(lower) or second.get(lower) or ()

    def _read_aliases(self, sql: SqlText) -> None:
        for region in sql.regions:
            for start, stop in selects(sql, region):
                for a, b in select_list(sql, start, stop):
                    if named(sql, a, b)[0] < b and sql.tokens[b - 1].kind != "string":
                        self._add_alias(sql, b - 1)
            for table in region.common:
                for i in range(table.first + 2, table.body - 1):
                    if sql.tokens[i].kind in ("word", "quoted") and sql.is_sign(table.first + 1, "("):
                        self._add_alias(sql, i)
        for i, token in enumerate(sql.tokens):
            if token.kind not in ("word", "quoted") or not _may_be_table(sql, i):
                continue
            columns = self.columns_of.get(_written(sql, i).lower())
            _, alias, _ = read_alias(sql, i + 1, len(sql.tokens))
            if columns is not None and alias:
                of_alias = self.columns_of.setdefault(alias.lower(), {})
                for column, spelled in columns.items():
                    of_alias[column] = of_alias.get(column, set()) | spelled

    def _add_fields(self, type_: pa.DataType) -> None:
        for n in range(type_.num_fields if pa.types.is_nested(type_) else 0):
            inner = type_.field(n)
            if pa.types.is_struct(type_):
                self.fields.setdefault(inner.name.lower(), set()).add(inner.name)
            self._add_fields(inner.type)

    def _add_alias(self, sql: SqlText, i: int) -> None:
        written = _written(sql, i)
        self.aliases.setdefault(written.lower(), set()).add(written)


def has_capitals(query: str, tables: Mapping[str, pa.Schema], views: Mapping[str, str]) -> bool:
    """Whether names of a query and of views, or of tables or columns they may read, have capitals: most have none."""
    read = [SqlText.read(text) for text in (query, *views.values())]
    if any(_writes_capitals(sql) for sql in read) or any(view != view.lower() for view in views):
        return True
    names = frozenset().union(*(sql.names for sql in read))
    return any(
        any(name != name.lower() for name in (table, *_names_in(schema)))
        for table, schema in tables.items()
        if table.lower() in names
    )


def with_known_spelling(text: str, known: Spelling) -> str:
    """The text with its names as they are spelled, in quotes where that is not in lower case."""
    sql = SqlText.read(text)
    parts, at = [], 0
    for i in _names(sql):
        token = sql.tokens[i]
        spelled = known.spelled(sql, i)
        if spelled is None or spelled == sql.name(i) or (token.kind == "quoted" and known.defines(sql.name(i))):
            continue
        parts += [text[at : token.start], quoted(spelled)]
        at = token.end
    return "".join([*parts, text[at:]]) if parts else text


def shown_spelling(text: str, known: Spelling) -> dict[str, str]:
    """How the aliases of a query's outermost select list are written, by what they are called while it is planned,
    where that differs.
    """
    sql = SqlText.read(text)
    first = next(selects(sql, sql.regions[0]), None) if sql.regions else None
    if first is None:
        return {}
    shown: dict[str, str] = {}
    called = set()
    for a, b in select_list(sql, *first):
        until, name = named(sql, a, b)
        if sql.is_sign(a, "*") or name.lower() in called:
            return {}
        called.add(name.lower())
        if until < b and sql.tokens[b - 1].kind != "string":
            spelled = known.spelled(sql, b - 1)
            planned = spelled if sql.tokens[b - 1].kind == "word" and spelled is not None else sql.name(b - 1)
            shown[planned] = _written(sql, b - 1)
    return {planned: written for planned, written in shown.items() if planned != written}


def _writes_capitals(sql: SqlText) -> bool:
    for word in sql.words - _RESERVED:
        for i in sql.places(word):
            if sql.text[sql.tokens[i].start : sql.tokens[i].end].islower() or sql.is_sign(i + 1, "("):
                continue
            if not _is_of_language(sql, i):
                return True
    return '"' in sql.text and any(token.kind == "quoted" and not token.text.islower() for token in sql.tokens)


def _names_in(schema: pa.Schema) -> Iterator[str]:
    """The names of columns and of their fields."""
    yield from schema.names
    for type_ in schema.types:
        if pa.types.is_nested(type_):
            yield from _names_in(pa.schema([type_.field(n) for n in range(type_.num_fields)]))


def _names(sql: SqlText) -> Iterator[int]:
    """The tokens that name a table, a column or an alias."""
    hidden = parameters(sql)
    for i, token in enumerate(sql.tokens):
        is_name = token.kind == "word" and not sql.is_sign(i + 1, "(") and not _is_of_language(sql, i)
        if (is_name or token.kind == "quoted") and (not hidden or sql.name(i).lower() not in hidden):
            yield i


def _is_of_language(sql: SqlText, i: int) -> bool:
    """Whether a word is one of SQL's where it stands: of a clause, a type, a unit, a typed constant or a keyword."""
    token = sql.tokens[i]
    if sql.is_sign(i - 1, "."):
        return False
    if token.text in _RESERVED:
        return True
    if i + 1 < len(sql.tokens) and sql.tokens[i + 1].kind == "string":
        return True
    if sql.is_sign(i + 1, ":") and not sql.is_sign(i + 2, ":"):
        return True
    if i == 0:
        return False
    if sql.is_word(i - 1, "AT", "TIME", "DOUBLE", "CHARACTER", "USING") or sql.is_word(i + 1, "ZONE"):
        return True
    if token.text in ("NAME", "VALUE") and ("UNPIVOT" in sql.words or sql.is_word(i - 2, "ALL", *SET_OPERATORS)):
        return True
    in_extract = sql.is_sign(i - 1, "(") and sql.is_word(i - 2, "EXTRACT")
    return in_extract or _is_unit(sql, i) or is_type(sql, i)


def _is_unit(sql: SqlText, i: int) -> bool:
    token, before = sql.tokens[i], sql.tokens[i - 1]
    if before.kind in ("number", "string"):
        return token.text in UNITS or token.text == "PERCENT" or sql.is_word(i - 2, "INTERVAL")
    return sql.is_sign(i - 1, ")") and sql.is_word(sql.partner.get(i - 1, 0) - 1, "INTERVAL")


def _may_be_table(sql: SqlText, i: int) -> bool:
    return sql.is_word(i - 1, *_BEFORE_TABLE) or sql.is_sign(i - 1, ",")


def _written(sql: SqlText, i: int) -> str:
    token = sql.tokens[i]
    return token.text[1:-1].replace('""', '"') if token.kind == "quoted" else sql.text[token.start : token.end]
