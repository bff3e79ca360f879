"""WITH RECURSIVE: a first query, and a repeated query that reads the rows of the previous round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import common_type, plain
from qcore.plan.nodes import PlanNode, RecursiveUnion, WorkingTable
from qcore.plan.schema import same_type
from qcore.plan.set_operations import cast_columns
from qcore.record import record
from qcore.sql.binder import Binder
from qcore.sql.parse import Source
from qcore.sql.reading import get, take
from qcore.sql.scope import BindContext, Environment, Level, Named, Relation


@record
class RecursiveTable:
    """A common table that reads itself. `columns` are the names that WITH gives its columns."""

    name: str
    query: Any
    columns: list[str]
    environment: Environment
    source: Source

    def read(self, binder: Binder, context: BindContext) -> Relation:
        """Its rows in a context. Each use is planned separately."""
        first, repeated, distinct = take(self.query, "this", "expression", "distinct")
        level = Level(context, context.scope.level.depth + 1, True, self.environment.level.depth)
        environment = Environment(level, self.environment.common)
        source, binder.source = binder.source, self.source
        try:
            start = binder.query(first, environment)
            shown = [named.shown for named in start.columns]
            if len(self.columns) > len(shown):
                raise PlanError(f"{self.name!r} has {len(shown)} columns, and {len(self.columns)} names are given")
            shown[: len(self.columns)] = self.columns
            node = binder.exact(start)
            types = [plain(type_) for type_ in node.schema.types]
            key = binder.names.new(self.name)
            again = self._again(binder, repeated, environment, key, shown, types)
            if any(map(pa.types.is_null, types)):
                # A bare null is of the type that the repeated part gives the column.
                given = again.schema.types
                types = [new if pa.types.is_null(old) else old for old, new in zip(types, given, strict=False)]
                again = self._again(binder, repeated, environment, key, shown, types)
        finally:
            binder.source = source
        node = cast_columns(binder.ids, node, types)
        again = _as_first(binder, self.name, shown, again, types)
        union = RecursiveUnion(binder.ids.new(), node.schema, key, (node, again), bool(distinct))
        return Relation(union, [Named(a, own) for a, own in zip(shown, node.schema.names, strict=True)])

    def _again(
        self, binder: Binder, query: Any, environment: Environment, key: str, shown: list[str], types: list[pa.DataType]
    ) -> PlanNode:
        common = {**environment.common, self.name.lower(): _Round(self.name, key, shown, types)}
        return binder.exact(binder.query(query, Environment(environment.level, common)))


@record
class _Round:
    """The rows of the previous round, inside the repeated query."""

    name: str
    key: str
    columns: list[str]
    types: list[pa.DataType]

    def read(self, binder: Binder, context: BindContext) -> Relation:
        own = [binder.names.new(name) for name in self.columns]
        schema = pa.schema(list(zip(own, self.types, strict=True)))
        node = WorkingTable(binder.ids.new(), schema, self.key)
        return Relation(node, [Named(a, b) for a, b in zip(self.columns, own, strict=True)])


def recursive_table(
    binder: Binder, name: str, query: Any, columns: list[str], environment: Environment
) -> RecursiveTable | None:
    """The table of an element of WITH RECURSIVE; None for one that does not read itself."""
    while type(query).__name__ == "Subquery" and not get(query, "with") and type(query.this).__name__ == "Union":
        query = query.this
    if not _reads(query, name):
        return None
    if type(query).__name__ != "Union":
        raise PlanError(f"the recursive table {name!r} is not a UNION of a first query and one that reads it")
    if get(query, "with") or get(query, "order") or get(query, "limit") or get(query, "offset"):
        raise PlanError(
            f"the UNION of the recursive table {name!r} has WITH, ORDER BY or LIMIT; write these in the query that "
            f"reads {name!r}"
        )
    if get(query, "by_name"):
        raise PlanError(f"the recursive table {name!r} is a UNION BY NAME; write the columns in one order")
    if _reads(get(query, "this"), name):
        raise PlanError(f"only the last query of the UNION of the recursive table {name!r} can read it")
    return RecursiveTable(name, query, columns, environment, binder.source)


def _reads(query: Any, name: str) -> bool:
    """Whether a query has a table of this name in a FROM."""
    return any(
        type(node).__name__ == "Table"
        and type(node.this).__name__ == "Identifier"
        and not get(node, "db")
        and node.this.name.lower() == name.lower()
        for node in query.walk()
    )


def _as_first(
    binder: Binder, name: str, columns: Sequence[str], node: PlanNode, types: Sequence[pa.DataType]
) -> PlanNode:
    """The repeated part with the types of the first part. PlanError if values would be lost."""
    if len(node.schema) != len(types):
        raise PlanError(
            f"the first part of the recursive table {name!r} has {len(types)} columns, the repeated part "
            f"{len(node.schema)}"
        )
    for column, given, type_ in zip(columns, node.schema.types, types, strict=True):
        integers = pa.types.is_integer(given) and pa.types.is_integer(type_)
        if not integers and not same_type(given, type_) and common_type([given, type_]) != type_:
            raise PlanError(
                f"column {column!r} of the recursive table {name!r} is {type_} in its first part and {given} "
                "in the repeated one; cast the first to a type that holds both"
            )
    return cast_columns(binder.ids, node, types)
