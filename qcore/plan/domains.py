"""Domains: the distinct values of outer columns, as nodes that a subquery is joined with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Expr, call, col
from qcore.plan.copies import copy_plan, is_steady
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, PlanNode, Project, Shared, SharedRead, WorkingTable
from qcore.plan.outer_columns import working_name
from qcore.plan.schema import aggregate_schema

# Columns of a node that contain the domain, by the outer column's name.
DomainColumns = dict[str, str]


class Domain:
    """The distinct values of outer columns. Each call of `rows()` makes a node of them with new column names.

    `recursions`, by working_name(), are recursive queries around the subquery whose working tables it reads. These
    tables have rows for every value of an enclosing domain, whose columns are among `arguments`. By default the join
    with the subquery contains `shared`, and the domain reads its values from there. With `is_alone` the domain contains
    the rows of `outer` itself.
    """

    def __init__(
        self,
        ids: NodeIds,
        names: ColumnNames,
        outer: PlanNode,
        arguments: Sequence[tuple[str, str]],
        recursions: Mapping[str, WorkingDomain],
        is_alone: bool = False,
    ) -> None:
        self.ids, self.names = ids, names
        self.recursions = recursions
        self._arguments = arguments
        self.outer_names = frozenset(name for name, _ in arguments) | recursions.keys()
        columns = list(dict.fromkeys(column for _, column in arguments))
        self.shared = Shared(ids.number_word("outer"), outer.schema, outer)
        new = [names.new(column) for column in columns]
        schema = pa.schema([outer.schema.field(a).with_name(b) for a, b in zip(columns, new, strict=True)])
        read: PlanNode = SharedRead(ids.new(), schema, self.shared.id, tuple(columns), self.shared)
        if is_alone:
            read = Project(ids.new(), schema, self.shared, tuple(map(col, columns)))
        values = distinct_values(ids, names, read)
        self._values = Shared(ids.number_word("outer"), values.schema, values)
        self._positions = {name: columns.index(column) for name, column in arguments}
        self._is_read = False

    def rows(self) -> tuple[PlanNode, DomainColumns]:
        """A node of the values, and its columns."""
        schema = self._values.schema
        if not self._is_read:
            self._is_read = True
            node: PlanNode = self._values
        else:
            renamed = pa.schema([field.with_name(self.names.new(field.name)) for field in schema])
            node = SharedRead(self.ids.new(), renamed, self._values.id, tuple(schema.names), self._values)
        return node, {name: node.schema.names[position] for name, position in self._positions.items()}

    def for_recursion(self) -> Domain:
        """The same domain inside a recursive query, which cannot read a shared subplan of the enclosing query.
        PlanError if another run of the outer query might give other values.
        """
        outer = self.shared.child
        if not is_steady(outer):
            raise PlanError(
                "a correlated subquery with WITH RECURSIVE inside reads a query whose rows may differ from run to run "
                "(it has a limit, row numbers, sums of floats, random() or similar); write that as a separate table"
            )
        return Domain(self.ids, self.names, copy_plan(outer, self.ids), self._arguments, self.recursions, True)


class WorkingDomain(Domain):
    """The values of a domain for which the last round of a recursive query returned rows: the next round's domain.

    `outer` is the domain around the recursive query. `columns` are the working table's columns that have its values,
    after the query's own ones.
    """

    def __init__(self, outer: Domain, key: str, schema: pa.Schema, columns: DomainColumns) -> None:
        self.ids, self.names, self.key = outer.ids, outer.names, key
        self.recursions = {**outer.recursions, working_name(key): self}
        self.outer_names = outer.outer_names | self.recursions.keys()
        self.schema, self.columns = schema, columns

    def for_recursion(self) -> Domain:
        """The domain itself, because each round computes its values again."""
        return self

    def working_table(self, node: WorkingTable) -> tuple[PlanNode, DomainColumns]:
        """The working table with the values of the domain."""
        own = node.schema.names
        added = [field.with_name(self.names.new(field.name)) for field in list(self.schema)[len(own) :]]
        schema = pa.schema([*node.schema, *added])
        names = dict(zip(self.schema.names, schema.names, strict=True))
        return node.with_fields(schema=schema), {name: names[column] for name, column in self.columns.items()}

    def rows(self) -> tuple[PlanNode, DomainColumns]:
        """A node of the values, and its columns."""
        schema = pa.schema([field.with_name(self.names.new(field.name)) for field in self.schema])
        names = dict(zip(self.schema.names, schema.names, strict=True))
        table = WorkingTable(self.ids.new(), schema, self.key)
        used = list(dict.fromkeys(names[column] for column in self.columns.values()))
        new = {column: self.names.new(column) for column in used}
        keys = tuple((name, col(column)) for column, name in new.items())
        values = Aggregate(self.ids.new(), aggregate_schema(keys, (), schema), table, keys, ())
        return values, {name: new[names[column]] for name, column in self.columns.items()}


def distinct_values(ids: NodeIds, names: ColumnNames, node: PlanNode) -> Aggregate:
    """Each distinct row of the node once, under new column names."""
    keys = tuple((names.new(name), col(name)) for name in node.schema.names)
    return Aggregate(ids.new(), aggregate_schema(keys, (), node.schema), node, keys, ())


def match_domain(a: DomainColumns, b: DomainColumns) -> list[Expr]:
    """Conditions that the domain's values of two nodes are equal."""
    pairs = dict.fromkeys((a[name], b[name]) for name in a)
    return [call("is_not_distinct_from", col(left), col(right)) for left, right in pairs]


NO_RECURSIONS: Mapping[str, WorkingDomain] = {}
