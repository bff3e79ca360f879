"""The binder: the state of binding one query, and its tables of readers by class of parse-tree node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeVar

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.functions.dialect import Dialect
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode
from qcore.plan.planning_time import check_planning
from qcore.plan.projections import exact_columns
from qcore.record import record
from qcore.sql.parse import Source, select_token
from qcore.sql.read_columns import ReadColumns, read_columns
from qcore.sql.reading import NotBound, clause_name
from qcore.sql.scope import BindContext, Environment, Relation, Rows

ExpressionReader = Callable[["Binder", Any, BindContext], Bound]
QueryReader = Callable[["Binder", Any, Environment], Relation]
TableReader = Callable[["Binder", Any, BindContext], Rows]
Reader = TypeVar("Reader", ExpressionReader, QueryReader, TableReader)


@record
class Binder:
    """Binds one query. `tables` are schemas by name, `views` texts by name.

    The readers are functions by class name of parse-tree nodes: those of expressions, queries, and tables in FROM.
    """

    tables: Mapping[str, pa.Schema]
    views: Mapping[str, str]
    dialect: Dialect
    source: Source
    expressions: Mapping[str, ExpressionReader]
    queries: Mapping[str, QueryReader]
    table_readers: Mapping[str, TableReader]
    ids: NodeIds = field(default_factory=NodeIds)
    names: ColumnNames = field(default_factory=ColumnNames)
    #: The position of the innermost node that caused an error, and the text that it is in.
    fault: tuple[tuple[int, int], Source] | None = None
    #: Tables and views by lower-case name; computed at the first use.
    known: dict[str, list[str]] | None = None
    #: may_narrow: tables may lack columns that the text does not name. reads_all: the tables of the current FROM have
    #: all columns. is_narrowed: some table lacks columns.
    may_narrow: bool = False
    reads_all: bool = True
    is_narrowed: bool = False
    #: Runs a plan while the query is planned: PIVOT without a list of its values.
    read_rows: Callable[[PlanNode], pa.Table] | None = None
    #: Shared state of readers. Each reader uses its own keys.
    memory: dict[Any, Any] = field(default_factory=dict)

    @property
    def has_columns_calls(self) -> bool:
        """Whether the text may have COLUMNS(…)."""
        found = self.memory.get(("columns", id(self.source)))
        if found is None:
            found = "columns" in self.source.text.lower()
            self.memory["columns", id(self.source)] = found
        return bool(found)

    @property
    def read_columns(self) -> ReadColumns:
        """What the text may name."""
        found = self.memory.get(("read columns", id(self.source)))
        if found is None:
            found = self.memory["read columns", id(self.source)] = read_columns(self.source.tokens)
        assert isinstance(found, ReadColumns)
        return found

    def expression(self, node: Any, context: BindContext) -> Bound:
        """The value of an expression."""
        try:
            return _reader(self.expressions, node)(self, node, context)
        except PlanError as error:
            self._blame_for(error, node)
            raise

    def query(self, node: Any, environment: Environment) -> Relation:
        """The rows of a query: SELECT, a set operation, VALUES, or one of these in brackets."""
        check_planning()
        try:
            return _reader(self.queries, node)(self, node, environment)
        except PlanError as error:
            self._blame_for(error, node)
            raise

    def table(self, node: Any, context: BindContext) -> Rows:
        """The rows of one table of FROM. `context` has the tables before it, for LATERAL."""
        try:
            return _reader(self.table_readers, node)(self, node, context)
        except PlanError as error:
            self._blame_for(error, node)
            raise

    def blame(self, node: Any) -> None:
        """Set the position of an error to that of a node, unless a part of the node has already set it."""
        if self.fault is None:
            span = span_of(node, self.source)
            self.fault = None if span is None else (span, self.source)

    def _blame_for(self, error: PlanError, node: Any) -> None:
        if isinstance(error, NotBound):
            self.blame(error.node)
        self.blame(node)

    def exact(self, relation: Relation) -> PlanNode:
        """A node with exactly the relation's columns. A repeated column gets a new name."""
        return exact_columns(self.ids, self.names, relation.node, [named.own for named in relation.columns])


def _reader(readers: Mapping[str, Reader], node: Any) -> Reader:
    reader = readers.get(type(node).__name__)
    if reader is None:
        raise NotBound(node, clause_name(node))
    return reader


def span_of(node: Any, source: Source) -> tuple[int, int] | None:
    """The first and the last position of a node in the text.

    That is the position of its first part that has one, of its first constant that occurs once in the text, or of a
    query's SELECT.
    """
    if not hasattr(node, "walk"):
        return None
    parts = list(node.walk())
    spans = [(part.meta["start"], part.meta["end"]) for part in parts if part.meta.get("start") is not None]
    if spans:
        return min(spans)
    constants = [str(part.this) for part in parts if type(part).__name__ == "Literal"]
    found = [[token for token in source.tokens if token.text == text] for text in constants]
    selects = [source.tokens[number] for part in parts if (number := select_token(part)) is not None]
    token = next((tokens[0] for tokens in found if len(tokens) == 1), selects[0] if selects else None)
    return None if token is None else (token.start, token.end)
