"""Dependent joins without the dependence: a correlated subquery computed once for all its outer values.

After Neumann and Kemper, Unnesting Arbitrary Queries (BTW 2015). The distinct values of the outer columns, the
*domain*, go into the subquery as columns: rows of its inputs are joined with them as deep as it reads them, aggregates
group by them, windows and limits count within them, joins of two sides that have them compare them. What comes out has
the subquery's rows for every value of the domain, and joins the outer rows, null being equal to null.
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
from qcore.plan.schema import MARK_KINDS, aggregate_schema, join_schema, project_schema, unnest_schema

# Aggregates of no rows that are not null.
_COUNTS = frozenset({"count", "regr_count"})
# Joins that keep rows of a side without a match: which side's copy of the domain their rows have.
_KEEPS_LEFT = frozenset({"inner", "left", "left_semi", "left_anti", "mark"})
_KEEPS_RIGHT = frozenset({"right", "right_semi", "right_anti"})

# Columns of a node that hold the domain, by the outer column's name.
Places = dict[str, str]


def without_dependent_joins(plan: PlanNode, ids: NodeIds, names: ColumnNames) -> PlanNode:
    """The plan with other joins in place of its DependentJoins. PlanError for a subquery that cannot be unnested."""
    return _Unnesting(ids, names).plain(plan)


class _Domain:
    """The distinct values of outer columns; `rows()` is a node of them, under names of its own each time."""

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
        self._place = {name: columns.index(column) for name, column in arguments}
        self._is_read = False

    def rows(self) -> tuple[PlanNode, Places]:
        held = self._values.schema
        if not self._is_read:
            self._is_read = True
            node: PlanNode = self._values
        else:
            schema = pa.schema([held.field(name).with_name(self.names.new(name)) for name in held.names])
            node = SharedRead(self.ids.new(), schema, self._values.id, tuple(held.names), self._values)
        return node, {name: node.schema.names[place] for name, place in self._place.items()}


@dataclass
class _Unnesting:
    """Makes one plan plain."""

    ids: NodeIds
    names: ColumnNames
    #: Shared nodes as they are in the new plan, with the domain's columns where they read it, by their ids.
    _shared: dict[str, Shared] = field(default_factory=dict)
    _shared_places: dict[str, Places] = field(default_factory=dict)

    def plain(self, node: PlanNode) -> PlanNode:
        """The node without DependentJoins below it, of the same schema; it reads no outer column."""
        if isinstance(node, Filter) and isinstance(node.child, DependentJoin):
            node = _with_filters_below(self.ids, node)
        if isinstance(node, DependentJoin):
            return self._joined(replace(node, left=self.plain(node.left)))
        if isinstance(node, Shared):
            return self._plain_shared(node)
        if isinstance(node, SharedRead) and isinstance(node.like, Shared):
            return replace(node, like=self._plain_shared(node.like))
        new = tuple(self.plain(child) for child in node.children)
        return node if all(a is b for a, b in zip(new, node.children, strict=True)) else node.with_children(*new)

    def _joined(self, join: DependentJoin) -> PlanNode:
        """The join, whose left input is plain, as one on the domain."""
        names = join.left.schema.names
        if not _reads(join.right, frozenset(name for name, _ in join.arguments)):
            right = self.plain(join.right)
            schema = join_schema("inner", join.left.schema, right.schema)
            return self._picked(NestedLoopJoin(self.ids.new(), schema, join.left, right, "inner"), join.schema.names)
        domain = _Domain(self.ids, self.names, join.left, join.arguments)
        right, places = self._pushed(join.right, domain)
        same = [
            call("is_not_distinct_from", col(column), col(places[name]))
            for name, column in {column: (name, column) for name, column in join.arguments}.values()
        ]
        made = make_join(self.ids, "left" if join.is_scalar else "inner", domain.shared, right, same)
        return self._picked(made, [*names, *join.right.schema.names])

    def _picked(self, node: PlanNode, names: list[str]) -> PlanNode:
        if node.schema.names == names:
            return node
        return self._projected(node, names, [col(name) for name in names])

    def _projected(self, node: PlanNode, names: list[str], expressions: list[Expr]) -> PlanNode:
        schema = project_schema(names, expressions, node.schema)
        return Project(self.ids.new(), schema, node, tuple(expressions))

    def _plain_shared(self, node: Shared) -> Shared:
        """The same node for its own place and for each that reads it."""
        if node.id not in self._shared:
            child = self.plain(node.child)
            self._shared[node.id] = node if child is node.child else replace(node, child=child)
        return self._shared[node.id]

    # --- the domain on its way down ---

    def _pushed(self, node: PlanNode, domain: _Domain) -> tuple[PlanNode, Places]:
        """The node's rows for each value of the domain: its columns, perhaps more, and the domain's."""
        if not _reads(node, domain.outer_names):
            rows, places = domain.rows()
            below = self.plain(node)
            schema = join_schema("inner", rows.schema, below.schema)
            return NestedLoopJoin(self.ids.new(), schema, rows, below, "inner"), places
        push: Callable[..., tuple[PlanNode, Places]] | None = _PUSHES.get(type(node))
        if push is None:
            raise PlanError(
                "a correlated subquery with WITH RECURSIVE or random() inside is not supported; write it as a table of "
                "its own and join it"
            )
        return push(self, node, domain)

    def _filter(self, node: Filter, domain: _Domain) -> tuple[PlanNode, Places]:
        child, places = self._pushed(node.child, domain)
        return replace(node, schema=child.schema, child=child, predicate=_within(node.predicate, places)), places

    def _project(self, node: Project, domain: _Domain) -> tuple[PlanNode, Places]:
        child, places = self._pushed(node.child, domain)
        kept = list(dict.fromkeys(places.values()))
        expressions = [*(_within(expr, places) for expr in node.expressions), *map(col, kept)]
        return self._projected(child, [*node.schema.names, *kept], expressions), places

    def _aggregate(self, node: Aggregate, domain: _Domain) -> tuple[PlanNode, Places]:
        child, below = self._pushed(node.child, domain)
        for aggregate in node.aggregates:
            _refuse_outer_aggregate(aggregate, domain)
        new = {column: self.names.new(column) for column in dict.fromkeys(below.values())}
        places = {name: new[column] for name, column in below.items()}
        own = tuple((name, _within(expr, below)) for name, expr in node.keys)
        keys = (*((name, col(column)) for column, name in new.items()), *own)
        calls = tuple(
            replace(
                made,
                arguments=tuple(_within(argument, below) for argument in made.arguments),
                filter=None if made.filter is None else _within(made.filter, below),
            )
            for made in node.aggregates
        )
        sets = node.grouping_sets
        if sets is not None:
            if sum(not part for part in sets) > 1:
                raise PlanError(
                    "a correlated subquery with more than one empty grouping set is not supported; write the second "
                    "total as a subquery of its own, behind UNION ALL"
                )
            shift = len(new)
            sets = tuple((*range(shift), *(shift + key for key in part)) for part in sets)
        schema = aggregate_schema(keys, calls, child.schema)
        if node.grouping_id is not None:
            schema = schema.insert(len(keys), pa.field(node.grouping_id, pa.int64()))
        grouped = replace(node, schema=schema, child=child, keys=keys, aggregates=calls, grouping_sets=sets)
        of_all = not node.keys if node.grouping_sets is None else () in node.grouping_sets
        return self._of_no_rows_too(node, grouped, places, domain) if of_all else (grouped, places)

    def _of_no_rows_too(
        self, node: Aggregate, grouped: Aggregate, places: Places, domain: _Domain
    ) -> tuple[PlanNode, Places]:
        """An aggregate of all rows, `grouped` by the domain, gives a row for no rows: of null, and of counts that are
        0.
        """
        rows, outer = domain.rows()
        made = make_join(self.ids, "left", rows, grouped, _same(outer, places))
        kept = list(dict.fromkeys(outer.values()))
        zeros = {made.name: 0 for made in node.aggregates if made.function in _COUNTS}
        if node.grouping_id is not None:
            zeros[node.grouping_id] = (1 << len(node.keys)) - 1
        names = node.schema.names
        values = [call("coalesce", col(name), lit(zeros[name])) if name in zeros else col(name) for name in names]
        return self._projected(made, [*names, *kept], [*values, *map(col, kept)]), outer

    def _window(self, node: Window, domain: _Domain) -> tuple[PlanNode, Places]:
        child, places = self._pushed(node.child, domain)
        added = [node.schema.field(made.name) for made in node.calls]
        partition_by = (*dict.fromkeys(places.values()), *node.partition_by)
        schema = pa.schema([*child.schema, *added])
        return replace(node, schema=schema, child=child, partition_by=partition_by), places

    def _order(self, node: OrderBy, domain: _Domain) -> tuple[PlanNode, Places]:
        child, places = self._pushed(node.child, domain)
        return replace(node, schema=child.schema, child=child), places

    def _top_n(self, node: TopN, domain: _Domain) -> tuple[PlanNode, Places]:
        return self._first_rows(node.child, node.keys, node.count, node.offset, domain)

    def _limit(self, node: Limit, domain: _Domain) -> tuple[PlanNode, Places]:
        below = node.child
        if isinstance(below, Project) or (isinstance(below, DependentJoin) and below.is_scalar):
            # A row for a row: what orders the rows stands below.
            child = below.children[0]
            limited = replace(node, id=self.ids.new(), schema=child.schema, child=child)
            return self._pushed(below.with_children(limited, *below.children[1:]), domain)
        if isinstance(below, OrderBy):
            return self._first_rows(below.child, below.keys, node.count, node.offset, domain)
        return self._first_rows(below, (), node.count, node.offset, domain)

    def _first_rows(
        self, node: PlanNode, keys: tuple[SortKey, ...], count: int | None, offset: int, domain: _Domain
    ) -> tuple[PlanNode, Places]:
        child, places = self._pushed(node, domain)
        number = self.names.new("row_number")
        counted = WindowCall(number, "row_number", frame=WindowFrame("rows", None, None))
        schema = child.schema.append(pa.field(number, pa.int64()))
        numbered = Window(self.ids.new(), schema, child, tuple(dict.fromkeys(places.values())), keys, (counted,))
        wanted = [col(number) > lit(offset)] if offset else []
        wanted += [] if count is None else [col(number) <= lit(offset + count)]
        predicate = conjunction(wanted)
        return (numbered if predicate is None else Filter(self.ids.new(), schema, numbered, predicate)), places

    def _single_row(self, node: EnforceSingleRow, domain: _Domain) -> tuple[PlanNode, Places]:
        child, below = self._pushed(node.child, domain)
        new = {column: self.names.new(column) for column in dict.fromkeys(below.values())}
        places = {name: new[column] for name, column in below.items()}
        keys = tuple((name, col(column)) for column, name in new.items())
        number = self.names.new("rows")
        values = [AggregateCall(self.names.new(name), "first", (col(name),)) for name in node.schema.names]
        calls = (*values, AggregateCall(number, "count"))
        grouped = Aggregate(self.ids.new(), aggregate_schema(keys, calls, child.schema), child, keys, calls)
        # The value itself asks for the check: conditions on it, moved below, then ask too.
        single = call("is_single_row", col(number))
        checked = self._projected(
            grouped,
            [*node.schema.names, *(name for name, _ in keys)],
            [*(Case(((single, col(made.name)),)) for made in values), *(col(name) for name, _ in keys)],
        )
        rows, outer = domain.rows()
        joined = make_join(self.ids, "left", rows, checked, _same(outer, places))
        kept = list(dict.fromkeys(outer.values()))
        return self._projected(joined, [*node.schema.names, *kept], [*map(col, [*node.schema.names, *kept])]), outer

    def _union(self, node: UnionAll, domain: _Domain) -> tuple[PlanNode, Places]:
        inputs = []
        columns: list[str] = []
        first: Places = {}
        for child in node.inputs:
            made, places = self._pushed(child, domain)
            kept = list(dict.fromkeys(places[name] for name in sorted(places)))
            made = self._picked(made, [*child.schema.names, *kept])
            if not columns:
                columns, first = [*node.schema.names, *kept], places
            inputs.append(made)
        schema = pa.schema([made.with_name(name) for made, name in zip(inputs[0].schema, columns, strict=True)])
        return replace(node, schema=schema, inputs=tuple(inputs)), first

    def _unnest(self, node: Unnest, domain: _Domain) -> tuple[PlanNode, Places]:
        child, places = self._pushed(node.child, domain)
        schema = unnest_schema(child.schema, node.lists, node.ordinality)
        return replace(node, schema=schema, child=child), places

    def _partition(self, node: LocalPartition, domain: _Domain) -> tuple[PlanNode, Places]:
        return self._pushed(node.child, domain)

    def _of_shared(self, node: Shared, domain: _Domain) -> tuple[PlanNode, Places]:
        if node.id not in self._shared:
            child, self._shared_places[node.id] = self._pushed(node.child, domain)
            self._shared[node.id] = replace(node, schema=child.schema, child=child)
        return self._shared[node.id], self._shared_places[node.id]

    def _of_shared_read(self, node: SharedRead, domain: _Domain) -> tuple[PlanNode, Places]:
        assert isinstance(node.like, Shared)
        shared, places = self._of_shared(node.like, domain)
        new = {column: self.names.new(column) for column in dict.fromkeys(places.values())}
        added = [shared.schema.field(column).with_name(name) for column, name in new.items()]
        schema = pa.schema([*node.schema, *added])
        read = replace(node, schema=schema, columns=(*node.columns, *new), like=shared)
        return read, {name: new[column] for name, column in places.items()}

    def _dependent(self, node: DependentJoin, domain: _Domain) -> tuple[PlanNode, Places]:
        """A subquery in the subquery: its outer columns are columns of the left input, whatever these come from."""
        left, places = self._pushed(node.left, domain)
        schema = join_schema("inner", left.schema, node.right.schema)
        return self._joined(replace(node, schema=schema, left=left)), places

    def _join(self, node: HashJoin | NestedLoopJoin, domain: _Domain) -> tuple[PlanNode, Places]:
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
        left, of_left_side = self._pushed(node.left, domain) if push_left else (self.plain(node.left), {})
        right, of_right_side = self._pushed(node.right, domain) if push_right else (self.plain(node.right), {})
        places = of_left_side if kind in _KEEPS_LEFT and push_left else of_right_side or of_left_side
        conditions = [_within(condition, of_left_side or of_right_side) for condition in conditions]
        if push_left and push_right:
            conditions += _same(of_left_side, of_right_side)
        mark = node.schema.names[-1] if kind in MARK_KINDS else ""
        made = make_join(self.ids, kind, left, right, conditions, *([mark] if mark else []))
        if kind != "full":
            return made, places
        # A row without a match has the values of one side only.
        sides = {a: of_right_side[name] for name, a in of_left_side.items()}
        new = {a: self.names.new(a) for a in sides}
        values = [call("coalesce", col(a), col(b)) for a, b in sides.items()]
        kept = made.schema.names
        projected = self._projected(made, [*kept, *new.values()], [*map(col, kept), *values])
        return projected, {name: new[a] for name, a in of_left_side.items()}


_PUSHES: dict[type[PlanNode], Callable[..., tuple[PlanNode, Places]]] = {
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
    Shared: _Unnesting._of_shared,
    SharedRead: _Unnesting._of_shared_read,
    DependentJoin: _Unnesting._dependent,
    HashJoin: _Unnesting._join,
    NestedLoopJoin: _Unnesting._join,
}


def _same(a: Places, b: Places) -> list[Expr]:
    """Conditions that two nodes' values of the domain are the same."""
    pairs = dict.fromkeys((a[name], b[name]) for name in a)
    return [call("is_not_distinct_from", col(left), col(right)) for left, right in pairs]


def _within(expr: Expr, places: Places) -> Expr:
    """The expression with the domain's columns for the outer ones."""
    if isinstance(expr, OuterColumn):
        return Column(places[expr.name]) if expr.name in places else expr
    parts = children(expr)
    return rebuild(expr, tuple(_within(part, places) for part in parts)) if parts else expr


def _has_outer(expr: Expr, outer_names: frozenset[str]) -> bool:
    return any(isinstance(part, OuterColumn) and part.name in outer_names for part in walk(expr))


def _reads(node: PlanNode, outer_names: frozenset[str]) -> bool:
    """Whether an expression of the node, or below it, has one of these outer columns."""
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


def _refuse_outer_aggregate(made: AggregateCall, domain: _Domain) -> None:
    """Of an aggregate over outer columns alone, the standard says that it belongs to the outer query."""
    if any(_has_outer(part, domain.outer_names) for part in made.values) and not any(map(column_names, made.values)):
        raise PlanError(
            f"{made.function} of the outer query's columns inside a subquery belongs to the outer query, by the "
            "standard; compute it there, or take a column of the subquery's own into it"
        )


def _with_filters_below(ids: NodeIds, node: Filter) -> PlanNode:
    """A filter above a subquery's value, with the conditions that do not read it below: fewer rows are asked for."""
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
    made = replace(join, left=left)
    return made if above is None else replace(node, child=made, predicate=above)
