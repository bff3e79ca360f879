"""Replacing dependent joins: a correlated subquery is computed once for all values of its outer columns.

The method is that of Neumann and Kemper, Unnesting Arbitrary Queries (BTW 2015). The distinct values of the outer
columns, the *domain*, become columns of the subquery. They are joined with its inputs where expressions read them.
Aggregates above group by them, windows and limits partition by them, and joins compare them if both sides have them.
The result has the subquery's rows for every value of the domain. It is joined with the outer rows; nulls are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import (
    Case,
    Column,
    Expr,
    OuterColumn,
    call,
    children,
    col,
    column_names,
    conjuncts,
    lit,
    rebuild,
    walk,
)
from qcore.plan.joins import conjunction, make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    DependentJoin,
    EnforceSingleRow,
    Filter,
    HashJoin,
    Limit,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    Shared,
    SharedRead,
    SortKey,
    TopN,
    UnionAll,
    Unnest,
    Window,
    WindowCall,
    WindowFrame,
)
from qcore.plan.projections import add_columns, project, select_columns
from qcore.plan.schema import MARK_KINDS, aggregate_schema, join_schema, unnest_schema

# Aggregates that are 0, not null, for an empty input.
_COUNTS = frozenset({"count", "regr_count"})
# Join kinds whose output has the left side's copy of the domain in every row, and those with the right side's.
_KEEPS_LEFT = frozenset({"inner", "left", "left_semi", "left_anti", "mark"})
_KEEPS_RIGHT = frozenset({"right", "right_semi", "right_anti"})

# Columns of a node that contain the domain, by the outer column's name.
DomainColumns = dict[str, str]


def replace_dependent_joins(plan: PlanNode, ids: NodeIds, names: ColumnNames) -> PlanNode:
    """The plan with other joins in place of DependentJoins. PlanError for a subquery that cannot be unnested."""
    return _Unnesting(ids, names).unnest(plan)


class _Domain:
    """The distinct values of outer columns. Each call of `rows()` makes a node of them with new column names."""

    def __init__(
        self, ids: NodeIds, names: ColumnNames, outer: PlanNode, arguments: tuple[tuple[str, str], ...]
    ) -> None:
        self.ids, self.names = ids, names
        self.outer_names = frozenset(name for name, _ in arguments)
        columns = list(dict.fromkeys(column for _, column in arguments))
        self.shared = Shared(ids.numbered("outer"), outer.schema, outer)
        new = [names.new(column) for column in columns]
        schema = pa.schema([outer.schema.field(a).with_name(b) for a, b in zip(columns, new, strict=True)])
        read = SharedRead(ids.new(), schema, self.shared.id, tuple(columns), self.shared)
        keys = tuple((names.new(name), col(name)) for name in new)
        values = Aggregate(ids.new(), aggregate_schema(keys, (), schema), read, keys, ())
        self._values = Shared(ids.numbered("outer"), values.schema, values)
        self._positions = {name: columns.index(column) for name, column in arguments}
        self._is_read = False

    def rows(self) -> tuple[PlanNode, DomainColumns]:
        schema = self._values.schema
        if not self._is_read:
            self._is_read = True
            node: PlanNode = self._values
        else:
            renamed = pa.schema([field.with_name(self.names.new(field.name)) for field in schema])
            node = SharedRead(self.ids.new(), renamed, self._values.id, tuple(schema.names), self._values)
        return node, {name: node.schema.names[position] for name, position in self._positions.items()}


@dataclass
class _Unnesting:
    """Replaces the dependent joins of one plan."""

    ids: NodeIds
    names: ColumnNames
    #: By id: Shared nodes of the new plan, with the columns of the domain if they read it.
    _shared: dict[str, Shared] = field(default_factory=dict)
    _shared_columns: dict[str, DomainColumns] = field(default_factory=dict)

    def unnest(self, node: PlanNode) -> PlanNode:
        """The node, which reads no outer column, with dependent joins replaced. It keeps its schema."""
        if isinstance(node, Filter) and isinstance(node.child, DependentJoin):
            node = _move_conditions_down(self.ids, node)
        if isinstance(node, DependentJoin):
            return self._replace_join(replace(node, left=self.unnest(node.left)))
        if isinstance(node, Shared):
            return self._unnest_shared(node)
        if isinstance(node, SharedRead) and isinstance(node.like, Shared):
            return replace(node, like=self._unnest_shared(node.like))
        new = tuple(self.unnest(child) for child in node.children)
        return node if all(a is b for a, b in zip(new, node.children, strict=True)) else node.with_children(*new)

    def _replace_join(self, join: DependentJoin) -> PlanNode:
        """A join on the domain in place of a dependent join, whose left input has no dependent join."""
        names = join.left.schema.names
        if not _reads(join.right, frozenset(name for name, _ in join.arguments)):
            right = self.unnest(join.right)
            schema = join_schema("inner", join.left.schema, right.schema)
            return self._select(NestedLoopJoin(self.ids.new(), schema, join.left, right, "inner"), join.schema.names)
        domain = _Domain(self.ids, self.names, join.left, join.arguments)
        right, columns = self._push(join.right, domain)
        conditions = [
            call("is_not_distinct_from", col(column), col(columns[name]))
            for name, column in {column: (name, column) for name, column in join.arguments}.values()
        ]
        node = make_join(self.ids, "left" if join.is_scalar else "inner", domain.shared, right, conditions)
        return self._select(node, [*names, *join.right.schema.names])

    def _select(self, node: PlanNode, names: list[str]) -> PlanNode:
        return node if node.schema.names == names else select_columns(self.ids.new(), node, names)

    def _unnest_shared(self, node: Shared) -> Shared:
        """The same node wherever it is read."""
        if node.id not in self._shared:
            child = self.unnest(node.child)
            self._shared[node.id] = node if child is node.child else replace(node, child=child)
        return self._shared[node.id]

    # --- adding the domain to nodes ---

    def _push(self, node: PlanNode, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        """The node's rows for each value of the domain: its columns, possibly more, and those of the domain."""
        if not _reads(node, domain.outer_names):
            rows, columns = domain.rows()
            below = self.unnest(node)
            schema = join_schema("inner", rows.schema, below.schema)
            return NestedLoopJoin(self.ids.new(), schema, rows, below, "inner"), columns
        push: Callable[..., tuple[PlanNode, DomainColumns]] | None = _PUSHES.get(type(node))
        if push is None:
            raise PlanError(
                "a correlated subquery with WITH RECURSIVE or random() inside is not supported; write it as a table of "
                "its own and join it"
            )
        return push(self, node, domain)

    def _filter(self, node: Filter, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        return replace(
            node, schema=child.schema, child=child, predicate=_replace_outer(node.predicate, columns)
        ), columns

    def _project(self, node: Project, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        kept = list(dict.fromkeys(columns.values()))
        expressions = [*(_replace_outer(expr, columns) for expr in node.expressions), *map(col, kept)]
        return project(self.ids.new(), child, [*node.schema.names, *kept], expressions), columns

    def _aggregate(self, node: Aggregate, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        child, below = self._push(node.child, domain)
        for aggregate in node.aggregates:
            _check_outer_aggregate(aggregate, domain)
        new = {column: self.names.new(column) for column in dict.fromkeys(below.values())}
        columns = {name: new[column] for name, column in below.items()}
        own = tuple((name, _replace_outer(expr, below)) for name, expr in node.keys)
        keys = (*((name, col(column)) for column, name in new.items()), *own)
        calls = tuple(
            replace(
                one,
                arguments=tuple(_replace_outer(argument, below) for argument in one.arguments),
                filter=None if one.filter is None else _replace_outer(one.filter, below),
            )
            for one in node.aggregates
        )
        sets = node.grouping_sets
        if sets is not None:
            if sum(not part for part in sets) > 1:
                raise PlanError(
                    "a correlated subquery with more than one empty grouping set is not supported; write the second "
                    "total as a separate subquery, after UNION ALL"
                )
            shift = len(new)
            sets = tuple((*range(shift), *(shift + key for key in part)) for part in sets)
        schema = aggregate_schema(keys, calls, child.schema)
        if node.grouping_id is not None:
            schema = schema.insert(len(keys), pa.field(node.grouping_id, pa.int64()))
        grouped = replace(node, schema=schema, child=child, keys=keys, aggregates=calls, grouping_sets=sets)
        has_total = not node.keys if node.grouping_sets is None else () in node.grouping_sets
        return self._add_empty_totals(node, grouped, columns, domain) if has_total else (grouped, columns)

    def _add_empty_totals(
        self, node: Aggregate, grouped: Aggregate, columns: DomainColumns, domain: _Domain
    ) -> tuple[PlanNode, DomainColumns]:
        """Add the row that an aggregate without keys gives for an empty input: nulls, and counts of 0. `grouped` has no
        row for a value of the domain without rows.
        """
        rows, outer = domain.rows()
        joined = make_join(self.ids, "left", rows, grouped, _match_domain(outer, columns))
        kept = list(dict.fromkeys(outer.values()))
        zeros = {one.name: 0 for one in node.aggregates if one.function in _COUNTS}
        if node.grouping_id is not None:
            zeros[node.grouping_id] = (1 << len(node.keys)) - 1
        names = node.schema.names
        values = [call("coalesce", col(name), lit(zeros[name])) if name in zeros else col(name) for name in names]
        return project(self.ids.new(), joined, [*names, *kept], [*values, *map(col, kept)]), outer

    def _window(self, node: Window, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        added = [node.schema.field(one.name) for one in node.calls]
        partition_by = (*dict.fromkeys(columns.values()), *node.partition_by)
        schema = pa.schema([*child.schema, *added])
        return replace(node, schema=schema, child=child, partition_by=partition_by), columns

    def _order(self, node: OrderBy, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        return replace(node, schema=child.schema, child=child), columns

    def _top_n(self, node: TopN, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        return self._first_rows(node.child, node.keys, node.count, node.offset, domain)

    def _limit(self, node: Limit, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        below = node.child
        if isinstance(below, Project) or (isinstance(below, DependentJoin) and below.is_scalar):
            # These nodes output one row for each input row, so the limit may move below them, to the order.
            child = below.children[0]
            limited = replace(node, id=self.ids.new(), schema=child.schema, child=child)
            return self._push(below.with_children(limited, *below.children[1:]), domain)
        if isinstance(below, OrderBy):
            return self._first_rows(below.child, below.keys, node.count, node.offset, domain)
        return self._first_rows(below, (), node.count, node.offset, domain)

    def _first_rows(
        self, node: PlanNode, keys: tuple[SortKey, ...], count: int | None, offset: int, domain: _Domain
    ) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node, domain)
        number = self.names.new("row_number")
        row_number = WindowCall(number, "row_number", frame=WindowFrame("rows", None, None))
        schema = child.schema.append(pa.field(number, pa.int64()))
        numbered = Window(self.ids.new(), schema, child, tuple(dict.fromkeys(columns.values())), keys, (row_number,))
        wanted = [col(number) > lit(offset)] if offset else []
        wanted += [] if count is None else [col(number) <= lit(offset + count)]
        predicate = conjunction(wanted)
        return (numbered if predicate is None else Filter(self.ids.new(), schema, numbered, predicate)), columns

    def _single_row(self, node: EnforceSingleRow, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        child, below = self._push(node.child, domain)
        new = {column: self.names.new(column) for column in dict.fromkeys(below.values())}
        columns = {name: new[column] for name, column in below.items()}
        keys = tuple((name, col(column)) for column, name in new.items())
        number = self.names.new("rows")
        values = [AggregateCall(self.names.new(name), "first", (col(name),)) for name in node.schema.names]
        calls = (*values, AggregateCall(number, "count"))
        grouped = Aggregate(self.ids.new(), aggregate_schema(keys, calls, child.schema), child, keys, calls)
        # The check is part of the value's expression, so a condition on the value that is moved below runs it too.
        single = call("is_single_row", col(number))
        checked = project(
            self.ids.new(),
            grouped,
            [*node.schema.names, *(name for name, _ in keys)],
            [*(Case(((single, col(one.name)),)) for one in values), *(col(name) for name, _ in keys)],
        )
        rows, outer = domain.rows()
        joined = make_join(self.ids, "left", rows, checked, _match_domain(outer, columns))
        kept = list(dict.fromkeys(outer.values()))
        return select_columns(self.ids.new(), joined, [*node.schema.names, *kept]), outer

    def _union(self, node: UnionAll, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        inputs = []
        names: list[str] = []
        first: DomainColumns = {}
        for child in node.inputs:
            below, columns = self._push(child, domain)
            kept = list(dict.fromkeys(columns[name] for name in sorted(columns)))
            inputs.append(self._select(below, [*child.schema.names, *kept]))
            if not names:
                names, first = [*node.schema.names, *kept], columns
        schema = pa.schema([field.with_name(name) for field, name in zip(inputs[0].schema, names, strict=True)])
        return replace(node, schema=schema, inputs=tuple(inputs)), first

    def _unnest(self, node: Unnest, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        schema = unnest_schema(child.schema, node.lists, node.ordinality)
        return replace(node, schema=schema, child=child), columns

    def _partition(self, node: LocalPartition, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        return self._push(node.child, domain)

    def _push_shared(self, node: Shared, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        if node.id not in self._shared:
            child, self._shared_columns[node.id] = self._push(node.child, domain)
            self._shared[node.id] = replace(node, schema=child.schema, child=child)
        return self._shared[node.id], self._shared_columns[node.id]

    def _push_shared_read(self, node: SharedRead, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        assert isinstance(node.like, Shared)
        shared, columns = self._push_shared(node.like, domain)
        new = {column: self.names.new(column) for column in dict.fromkeys(columns.values())}
        added = [shared.schema.field(column).with_name(name) for column, name in new.items()]
        schema = pa.schema([*node.schema, *added])
        read = replace(node, schema=schema, columns=(*node.columns, *new), like=shared)
        return read, {name: new[column] for name, column in columns.items()}

    def _dependent(self, node: DependentJoin, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        """A subquery inside the subquery. Its outer columns are columns of the left input."""
        left, columns = self._push(node.left, domain)
        schema = join_schema("inner", left.schema, node.right.schema)
        return self._replace_join(replace(node, schema=schema, left=left)), columns

    def _join(self, node: HashJoin | NestedLoopJoin, domain: _Domain) -> tuple[PlanNode, DomainColumns]:
        kind = node.kind
        conditions = [] if node.condition is None else conjuncts(node.condition)
        if isinstance(node, HashJoin):
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            conditions = [*(call("equal", col(a), col(b)) for a, b in pairs), *conditions]
        in_condition = any(_has_outer(condition, domain.outer_names) for condition in conditions)
        of_left, of_right = (_reads(child, domain.outer_names) for child in node.children)
        in_condition = in_condition and not (kind == "inner" and of_right)
        push_left = of_left or in_condition or (of_right and kind not in _KEEPS_RIGHT | {"inner"}) or kind == "full"
        push_right = of_right or kind == "full" or (kind in _KEEPS_RIGHT and push_left)
        if kind.startswith("null_aware") and push_right:
            raise PlanError("NOT IN (subquery) that reads a query two levels up is not supported; use NOT EXISTS")
        left, left_columns = self._push(node.left, domain) if push_left else (self.unnest(node.left), {})
        right, right_columns = self._push(node.right, domain) if push_right else (self.unnest(node.right), {})
        columns = left_columns if kind in _KEEPS_LEFT and push_left else right_columns or left_columns
        conditions = [_replace_outer(condition, left_columns or right_columns) for condition in conditions]
        if push_left and push_right:
            conditions += _match_domain(left_columns, right_columns)
        mark = node.schema.names[-1] if kind in MARK_KINDS else ""
        joined = make_join(self.ids, kind, left, right, conditions, *([mark] if mark else []))
        if kind != "full":
            return joined, columns
        # A row without a match has the domain's values on one side only.
        sides = {a: right_columns[name] for name, a in left_columns.items()}
        new = {a: self.names.new(a) for a in sides}
        values = [call("coalesce", col(a), col(b)) for a, b in sides.items()]
        wide = add_columns(self.ids.new(), joined, dict(zip(new.values(), values, strict=True)))
        return wide, {name: new[a] for name, a in left_columns.items()}


_PUSHES: dict[type[PlanNode], Callable[..., tuple[PlanNode, DomainColumns]]] = {
    Filter: _Unnesting._filter,
    Project: _Unnesting._project,
    Aggregate: _Unnesting._aggregate,
    Window: _Unnesting._window,
    OrderBy: _Unnesting._order,
    TopN: _Unnesting._top_n,
    Limit: _Unnesting._limit,
    EnforceSingleRow: _Unnesting._single_row,
    UnionAll: _Unnesting._union,
    Unnest: _Unnesting._unnest,
    LocalPartition: _Unnesting._partition,
    Shared: _Unnesting._push_shared,
    SharedRead: _Unnesting._push_shared_read,
    DependentJoin: _Unnesting._dependent,
    HashJoin: _Unnesting._join,
    NestedLoopJoin: _Unnesting._join,
}


def _match_domain(a: DomainColumns, b: DomainColumns) -> list[Expr]:
    """Conditions that the domain's values of two nodes are equal."""
    pairs = dict.fromkeys((a[name], b[name]) for name in a)
    return [call("is_not_distinct_from", col(left), col(right)) for left, right in pairs]


def _replace_outer(expr: Expr, columns: DomainColumns) -> Expr:
    """The expression with columns of the domain in place of outer columns."""
    if isinstance(expr, OuterColumn):
        return Column(columns[expr.name]) if expr.name in columns else expr
    parts = children(expr)
    return rebuild(expr, tuple(_replace_outer(part, columns) for part in parts)) if parts else expr


def _has_outer(expr: Expr, outer_names: frozenset[str]) -> bool:
    return any(isinstance(part, OuterColumn) and part.name in outer_names for part in walk(expr))


def _reads(node: PlanNode, outer_names: frozenset[str]) -> bool:
    """Whether an expression of the node, or of a node below it, reads one of these outer columns."""
    for below in node.walk():
        if isinstance(below, SharedRead) and isinstance(below.like, Shared) and _reads(below.like, outer_names):
            return True
        if any(_has_outer(expr, outer_names) for expr in _expressions(below)):
            return True
    return False


def _expressions(node: PlanNode) -> Iterator[Expr]:
    def within(value: Any) -> Iterator[Expr]:
        if isinstance(value, Expr):
            yield value
        elif isinstance(value, tuple):
            for part in value:
                yield from within(part)
        elif isinstance(value, AggregateCall):
            yield from within((*value.arguments, value.filter))

    for part in fields(node):
        yield from within(getattr(node, part.name))


def _check_outer_aggregate(one: AggregateCall, domain: _Domain) -> None:
    """PlanError for an aggregate over outer columns alone, which by the standard belongs to the outer query."""
    if any(_has_outer(part, domain.outer_names) for part in one.values) and not any(map(column_names, one.values)):
        raise PlanError(
            f"{one.function} of the outer query's columns inside a subquery belongs to the outer query, by the "
            "standard; compute it there, or add a column of the subquery to its arguments"
        )


def _move_conditions_down(ids: NodeIds, node: Filter) -> PlanNode:
    """A filter above a scalar subquery's value. Conditions that do not read the value move below the join, so that the
    subquery is computed for fewer rows.
    """
    join = node.child
    assert isinstance(join, DependentJoin)
    if not join.is_scalar:
        return node
    names = set(join.left.schema.names)
    parts = conjuncts(node.predicate)
    below = [part for part in parts if column_names(part) <= names]
    if not below:
        return node
    predicate, above = conjunction(below), conjunction([part for part in parts if not column_names(part) <= names])
    assert predicate is not None
    left = Filter(ids.new(), join.left.schema, join.left, predicate)
    join = replace(join, left=left)
    return join if above is None else replace(node, child=join, predicate=above)
