"""Name resolution: the names that an expression of a query can use, and their values.

A `Level` is a query whose outer names are captured: a subquery, a derived table, a common table. A `Scope` has the
tables of one SELECT of a level. A `BindContext` is a position for expressions in a scope: a clause, and the kinds of
expressions that it allows.

A name is looked up in the scope, then in the context of the enclosing query. Each level between the two captures the
value under a new name, as an OuterColumn, so that the dependent join of each level passes it on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, OuterColumn
from qcore.functions.catalogue import column_type
from qcore.functions.dialect import Dialect
from qcore.plan.naming import ColumnNames
from qcore.plan.nodes import PlanNode
from qcore.record import record

#: A part of a name, and whether it was written in quotes.
Part = tuple[str, bool]
_DEEPEST = 1 << 30


@record(frozen=True, slots=True)
class Named:
    """A column's name in the query, and its name in the plan."""

    shown: str
    own: str


@record(frozen=True, slots=True)
class TableNames:
    """A table of FROM: the parts of its name and its columns."""

    parts: tuple[str, ...]
    columns: tuple[Named, ...]


@record(slots=True)
class Relation:
    """The result of a query: a node, and its columns that belong to the result, in order. A column may occur twice."""

    node: PlanNode
    columns: list[Named]


@record(slots=True)
class Rows:
    """The rows of FROM: `tables` for names with a table, `columns` for names without one and for stars."""

    node: PlanNode
    tables: list[TableNames]
    columns: list[Named]


class Subquery(Protocol):
    """A value that must be computed below an expression; see qcore.sql.subqueries."""


class Aliases(Protocol):
    """The aliases of a select list."""

    def find(self, part: Part, context: BindContext) -> Bound | None:
        """The value of an alias in a context."""


@record
class Level:
    """A query with its own names. `captured` has its outer columns, as expressions of the enclosing query.

    A level with `is_passing` does not capture the outer columns of the enclosing query again. Derived tables are such
    levels, because they are planned as part of that query. `ceiling` hides the names of levels from this depth on: a
    common table cannot use names of the query that reads it.
    """

    outer: BindContext | None = None
    depth: int = 0
    is_passing: bool = False
    ceiling: int = _DEEPEST
    captured: dict[str, Bound] = field(default_factory=dict)
    has_passed: bool = False

    def capture(self, value: Bound, names: ColumnNames) -> Bound:
        """The outer query's value as an expression of this level."""
        if self.is_passing and isinstance(value.expr, OuterColumn):
            self.has_passed = True
            return value
        for name, known in self.captured.items():
            if _same_column(known.expr, value.expr):
                return Bound(OuterColumn(name, known.type), known.type)
        wish = value.expr.name if isinstance(value.expr, (Column, OuterColumn)) else "value"
        name = names.new(f"outer_{wish.removeprefix('outer_')}")
        self.captured[name] = value
        return Bound(OuterColumn(name, value.type), value.type)


def _same_column(a: Expr, b: Expr) -> bool:
    return type(a) is type(b) and isinstance(a, (Column, OuterColumn)) and a.name == b.name  # type: ignore[attr-defined]


@record(frozen=True, slots=True)
class Environment:
    """The names that a query can use beside its tables: those of its level, and common tables by lower-case name."""

    level: Level
    common: Mapping[str, Any]


class Scope:
    """The tables of one SELECT. `node` has their rows. Subqueries and computed columns add nodes above it.

    Without `has_all_columns` the tables may lack columns that the text does not name, and a star cannot be expanded.
    """

    def __init__(self, rows: Rows, environment: Environment, dialect: Dialect, has_all_columns: bool = True) -> None:
        self.has_all_columns = has_all_columns
        self.node = rows.node
        self.rows = rows
        self.environment = environment
        self._dialect = dialect
        self._by_name: dict[str, list[Named]] | None = None
        #: Columns by lower-case name, for each table by its id().
        self._of_table: dict[int, dict[str, list[Named]]] = {}

    @property
    def level(self) -> Level:
        """The level that captures this scope's outer columns."""
        return self.environment.level

    def column(self, own: str) -> Bound:
        """A column by its name in the plan."""
        return Bound(Column(own), column_type(own, self.rows.node.schema))

    def find(self, part: Part) -> Bound | None:
        """A column that is named without its table. PlanError if two tables have it."""
        if self._by_name is None:
            self._by_name = _index_names(self.rows.columns)
        found = choose(part, self._by_name.get(part[0].lower(), ()), self._dialect, _show_name)
        if not found:
            return None
        if len(found) > 1 and len({named.own for named in found}) > 1:
            tables = [f"{table.parts[-1]}.{part[0]}" for table in self.rows.tables if set(found) & set(table.columns)]
            names = dict.fromkeys(tables)
            what = "write " + " or ".join(names) if len(names) > 1 else "give the tables aliases: FROM t AS a, u AS b"
            raise PlanError(f"the column {part[0]!r} is in more than one table; {what}")
        return self.column(found[0].own)

    def tables(self, parts: Sequence[Part]) -> list[TableNames]:
        """The tables that a name of one or several parts may mean."""
        wanted = [part[0].lower() for part in parts]
        result = []
        for table in self.rows.tables:
            if table.parts[-1].lower() == wanted[-1] and (
                len(wanted) == 1 or [part.lower() for part in table.parts[-len(wanted) :]] == wanted
            ):
                result.append(table)
        return choose(parts[-1], result, self._dialect, lambda table: table.parts[-1])

    def check_table(self, parts: Sequence[Part]) -> None:
        """PlanError if several tables have a name."""
        if len(self.tables(parts)) > 1:
            raise PlanError(
                f"two tables are named {'.'.join(part[0] for part in parts)!r}; give one an alias: FROM t AS a, t AS b"
            )

    def table_column(self, parts: Sequence[Part], part: Part) -> Bound | None:
        """A column that is named with its table."""
        found: list[Named] = []
        for table in self.tables(parts):
            by_name = self._of_table.get(id(table))
            if by_name is None:
                by_name = self._of_table[id(table)] = _index_names(table.columns)
            found += choose(part, by_name.get(part[0].lower(), ()), self._dialect, _show_name)
        if not found:
            return None
        if len(found) > 1 and len({named.own for named in found}) > 1:
            self.check_table(parts)
            raise PlanError(f"two columns have the name {'.'.join(p[0] for p in (*parts, part))!r}; rename one")
        return self.column(found[0].own)


def _select_called(name: str, columns: Sequence[Named]) -> list[Named]:
    return [named for named in columns if named.shown.lower() == name.lower()]


def _index_names(columns: Sequence[Named]) -> dict[str, list[Named]]:
    """The columns by lower-case name."""
    found: dict[str, list[Named]] = {}
    for named in columns:
        found.setdefault(named.shown.lower(), []).append(named)
    return found


def _show_name(named: Named) -> str:
    return named.shown


def choose(part: Part, found: Sequence[Any], dialect: Dialect, name_of: Callable[[Any], str]) -> list[Any]:
    """Select the objects that a name means, from objects whose names differ at most in case.

    These are the objects with exactly its spelling, else those in lower case, else all. With name_case 'lower' a quoted
    name matches its exact spelling. An unquoted name matches the name in lower case, else its exact spelling.
    """
    if not found:
        return []
    if len(found) == 1 and dialect.name_case == "any":
        return [found[0]]
    text, quoted = part
    exact = [one for one in found if name_of(one) == text]
    if dialect.name_case == "lower":
        return exact if quoted else [one for one in found if name_of(one) == text.lower()] or exact
    if exact:
        return exact
    return [one for one in found if name_of(one) == text.lower()] or list(found)


@record(slots=True)
class BindContext:
    """The clause and the scope in which an expression is bound.

    `subqueries` collects the subqueries that must be joined to the rows below the expression. `grouping` and `windows`
    collect its aggregates and window functions, `unnested` its unnest() calls; None: these are not allowed here.
    `parameters` are the parameters of enclosing lambdas.
    """

    scope: Scope
    clause: str
    subqueries: list[Any] = field(default_factory=list)
    grouping: Any = None
    windows: Any = None
    aliases: Any = None
    aliases_first: bool = False
    parameters: Mapping[str, Bound] = field(default_factory=dict)
    unnested: Any = None

    def with_parameters(self, parameters: Mapping[str, Bound]) -> BindContext:
        """The same context inside a lambda of these parameters, by lower-case name."""
        merged = {**self.parameters, **{name.lower(): value for name, value in parameters.items()}}
        return BindContext(
            self.scope,
            self.clause,
            self.subqueries,
            self.grouping,
            self.windows,
            self.aliases,
            self.aliases_first,
            merged,
        )

    def within(self, clause: str) -> BindContext:
        """The context of the arguments of an aggregate here, which belong to the rows before they are grouped."""
        return BindContext(
            self.scope, clause, self.grouping.subqueries, None, None, self.aliases, False, self.parameters
        )
