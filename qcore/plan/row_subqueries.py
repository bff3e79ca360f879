"""Subqueries of one row. Their expressions are computed on the outer rows.

SELECT f(sum(x), outer.y) FROM u WHERE u.k = outer.k has one row for each outer row. The sums of all k are joined with
the outer rows, and projections above compute the rest. A subquery that only reads the outer row, such as
(SELECT outer.x + 1), needs no join. Lists of the outer row are unnested in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import pyarrow as pa

from qcore.expression.tree import (
    Call,
    Case,
    Column,
    Expr,
    Literal,
    OuterColumn,
    call,
    children,
    col,
    conjuncts,
    lit,
    rebuild,
)
from qcore.plan.joins import conjunction, make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    DependentJoin,
    EnforceSingleRow,
    Filter,
    OrderBy,
    PlanNode,
    Project,
    Unnest,
    Values,
)
from qcore.plan.outer_columns import OuterReads, replace_outer
from qcore.plan.projections import add_columns, project
from qcore.plan.pulled_conditions import ConditionPuller, equality_sides
from qcore.plan.schema import join_schema, unnest_schema
from qcore.plan.single_rows import ONE_FOR_EACH
from qcore.record import record

# Aggregates whose value for an empty input is 0 and not null.
COUNTS = frozenset({"count", "regr_count"})
_TRUE = Literal(True, pa.bool_())
_FALSE = Literal(False, pa.bool_())
# Kinds that drop an outer row if the subquery has no row for it, or no match.
_DROPPING = frozenset({"inner", "left_semi"})


@record
class _Rows:
    """Outer rows with the columns of the subquery that are computed so far: by name, expressions over `node`. The
    subquery has a row for an outer row if the conditions `present` are true.
    """

    node: PlanNode
    columns: dict[str, Expr]
    present: list[Expr] = field(default_factory=list)
    is_unnested: bool = False


@record
class RowSubqueries:
    """Replaces dependent joins with subqueries of one row."""

    ids: NodeIds
    names: ColumnNames
    outer: OuterReads
    puller: ConditionPuller

    def replace_join(self, join: DependentJoin) -> PlanNode | None:
        """Replace the join by nodes that may contain dependent joins of simpler subqueries. None if the subquery may
        have another number of rows than one, or if the result would not be simpler.
        """
        chain: list[PlanNode] = []
        node = join.right
        while isinstance(node, (Project, Filter, OrderBy, Unnest)) or (
            isinstance(node, DependentJoin) and node.kind in ONE_FOR_EACH
        ):
            chain.append(node)
            node = node.children[0]
        if any(isinstance(step, Unnest) for step in chain) and not (
            join.kind == "inner" or (join.kind == "left" and _is_list_of_row(chain, join))
        ):
            return None
        rows = self._bottom(node, join, bool(chain))
        for step in reversed(chain):
            if rows is None:
                return None
            rows = self._step(step, rows, join)
        return None if rows is None else self._join_rows(join, rows)

    # --- the row that the subquery starts from ---

    def _bottom(self, node: PlanNode, join: DependentJoin, is_below: bool) -> _Rows | None:
        if isinstance(node, Values):
            return self._values(node, join) if node.data.num_rows == 1 else None
        names = frozenset(name for name, _ in join.arguments)
        rows: _Rows | None = None
        if isinstance(node, Aggregate) and not node.keys and node.grouping_sets is None:
            rows = self._total(node, join, names)
        elif isinstance(node, EnforceSingleRow):
            rows = self._single_row(node, join, names)
        else:
            return None
        if rows is None and is_below:
            schema = join_schema("inner", join.left.schema, node.schema)
            made = DependentJoin(self.ids.new(), schema, join.left, node, join.arguments, "inner")
            return _Rows(made, _themselves(node.schema))
        return rows

    def _values(self, node: Values, join: DependentJoin) -> _Rows:
        (row,) = pa.table(node.data).to_pylist()
        constants: dict[str, Expr] = {field.name: Literal(row[field.name], field.type) for field in node.schema}
        return _Rows(join.left, constants)

    def _total(self, node: Aggregate, join: DependentJoin, names: frozenset[str]) -> _Rows | None:
        """A total, by the keys of equalities with outer columns: a left join with the groups of these keys."""
        if self.outer.of(node).isdisjoint(names):
            return None
        found = self.puller.group_by_outer(node, names)
        if found is None or not all(equality_sides(part, names) for part in found[1]):
            return None
        grouped, conditions = found
        joined = make_join(self.ids, "left", join.left, grouped, _over_left(conditions, join.arguments))
        columns = _themselves(node.schema)
        for one in node.aggregates:
            if one.function in COUNTS:
                columns[one.name] = Call("coalesce", (col(one.name), lit(0, node.schema.field(one.name).type)))
        return _Rows(joined, columns)

    def _single_row(self, node: EnforceSingleRow, join: DependentJoin, names: frozenset[str]) -> _Rows | None:
        """The only row for each key. The expression of its value checks that there is no second row, because keys that
        no outer row has may have several rows.
        """
        if self.outer.of(node).isdisjoint(names):
            return None
        number = self.names.new("rows")
        values = tuple(AggregateCall(self.names.new(name), "first", (col(name),)) for name in node.schema.names)
        calls = (*values, AggregateCall(number, "count"))
        fields = [field.with_name(one.name) for field, one in zip(node.schema, values, strict=True)]
        schema = pa.schema([*fields, pa.field(number, pa.int64())])
        total = Aggregate(self.ids.new(), schema, node.child, (), calls)
        rows = self._total(total, join, names)
        if rows is None:
            return None
        single = call("is_single_row", col(number))
        rows.columns = {
            name: Case(((single, col(one.name)),)) for name, one in zip(node.schema.names, values, strict=True)
        }
        return rows

    # --- the subquery's nodes above it ---

    def _step(self, node: PlanNode, rows: _Rows, join: DependentJoin) -> _Rows | None:
        outer = {name: col(column) for name, column in join.arguments}
        if isinstance(node, Project):
            return self._project(node, rows, outer)
        if isinstance(node, Filter):
            parts = [_over(part, rows.columns, outer) for part in conjuncts(node.predicate)]
            if join.kind not in _DROPPING:
                rows.present += parts
                return rows
            predicate = conjunction(parts)
            assert predicate is not None
            rows.node = Filter(self.ids.new(), rows.node.schema, rows.node, predicate)
            return rows
        if isinstance(node, DependentJoin):
            return self._dependent(node, rows, join, outer)
        return self._unnest(node, rows, join) if isinstance(node, Unnest) else rows

    def _project(self, node: Project, rows: _Rows, outer: Mapping[str, Expr]) -> _Rows:
        """The values become columns of the outer rows, unless they are columns already."""
        columns: dict[str, Expr] = {}
        made: dict[str, Expr] = {}
        for name, expr in zip(node.schema.names, node.expressions, strict=True):
            value = _over(expr, rows.columns, outer)
            if isinstance(value, (Column, Literal)):
                columns[name] = value
                continue
            new = self.names.new(name)
            # If there is no row, its expressions are not computed.
            made[new] = value if not rows.present else Case(((_all(rows.present), value),))
            columns[name] = col(new)
        if made:
            rows.node = add_columns(self.ids.new(), rows.node, made)
        rows.columns = columns
        return rows

    def _as_columns(self, rows: _Rows, names: Sequence[str]) -> None:
        """Make columns of the values of these names."""
        made = {name: self.names.new(name) for name in names if not isinstance(rows.columns[name], Column)}
        if made:
            rows.node = add_columns(self.ids.new(), rows.node, {new: rows.columns[name] for name, new in made.items()})
            rows.columns.update({name: col(new) for name, new in made.items()})

    def _dependent(
        self, node: DependentJoin, rows: _Rows, join: DependentJoin, outer: Mapping[str, Expr]
    ) -> _Rows | None:
        """A subquery over the row."""
        if rows.present:
            return None
        self._as_columns(rows, [column for _, column in node.arguments])
        read = self.outer.of(node.right)
        own = [(name, _name(rows.columns[column])) for name, column in node.arguments]
        arguments = (*own, *((name, column) for name, column in join.arguments if name in read))
        conditions = tuple(
            _over(part, {**_themselves(node.right.schema), **rows.columns}, outer) for part in node.conditions
        )
        mark = node.schema.names[-1]
        schema = join_schema(node.kind, rows.node.schema, node.right.schema, mark)
        rows.node = DependentJoin(self.ids.new(), schema, rows.node, node.right, arguments, node.kind, conditions)
        rows.columns[mark] = col(mark)
        return rows

    def _unnest(self, node: Unnest, rows: _Rows, join: DependentJoin) -> _Rows:
        """Unnest copies of the lists, because the outer rows keep theirs."""
        new = {name: self.names.new(name) for name, _ in node.lists}
        node_with_lists = add_columns(self.ids.new(), rows.node, {new[name]: rows.columns[name] for name in new})
        lists = tuple((new[name], self.names.new(element)) for name, element in node.lists)
        ordinality = None if node.ordinality is None else self.names.new(node.ordinality)
        schema = unnest_schema(node_with_lists.schema, lists, ordinality)
        outer = node.outer or join.kind == "left"
        rows.node = Unnest(self.ids.new(), schema, node_with_lists, lists, outer, ordinality)
        for (name, element), (_, made) in zip(node.lists, lists, strict=True):
            del rows.columns[name]
            rows.columns[element] = col(made)
        if node.ordinality is not None and ordinality is not None:
            rows.columns[node.ordinality] = col(ordinality)
        return rows

    # --- the join ---

    def _join_rows(self, join: DependentJoin, rows: _Rows) -> PlanNode:
        kept = join.left.schema.names
        both = {**rows.columns, **_themselves(join.left.schema)}
        compared = [_over(part, both, {}) for condition in join.conditions for part in conjuncts(condition)]
        if join.kind in _DROPPING:
            predicate = conjunction(compared)
            node = rows.node if predicate is None else Filter(self.ids.new(), rows.node.schema, rows.node, predicate)
        elif join.kind in ("left_anti", "null_aware_anti"):
            truth = _truth(rows.present, compared, join.kind == "null_aware_anti")
            node = Filter(self.ids.new(), rows.node.schema, rows.node, call("not", truth))
        else:
            node = rows.node
        values: list[Expr] = []
        if join.kind in ("mark", "null_aware_mark"):
            values = [_truth(rows.present, compared, join.kind == "null_aware_mark")]
        elif join.kind in ("scalar", "inner", "left"):
            values = [rows.columns[name] for name in join.right.schema.names]
            found = [*rows.present, *(compared if join.kind == "left" else [])]
            if found:
                values = [Case(((_all(found), value),)) for value in values]
        return project(self.ids.new(), node, join.schema.names, [*map(col, kept), *values])


def _is_list_of_row(chain: Sequence[PlanNode], join: DependentJoin) -> bool:
    """Whether the steps only unnest lists of the row. A row without elements then becomes a row of nulls."""
    above = [step for step in chain if not isinstance(step, Project)]
    position = next(i for i, step in enumerate(chain) if isinstance(step, Unnest))
    renames = all(
        isinstance(expr, Column) for step in chain[:position] if isinstance(step, Project) for expr in step.expressions
    )
    return len(above) == 1 and renames and not join.conditions


def _truth(present: Sequence[Expr], compared: Sequence[Expr], may_be_null: bool) -> Expr:
    """Whether there is a row and a match. If this is unknown, the value is null with `may_be_null`, else false."""
    if not may_be_null:
        return Call("coalesce", (_all([*present, *compared]), _FALSE))
    return Case(((_all(present), _all(compared)),), _FALSE) if present else _all(compared)


def _all(parts: Sequence[Expr]) -> Expr:
    found = conjunction(parts)
    return _TRUE if found is None else found


def _themselves(schema: pa.Schema) -> dict[str, Expr]:
    return {name: col(name) for name in schema.names}


def _name(expr: Expr) -> str:
    assert isinstance(expr, Column)
    return expr.name


def _over_left(parts: Sequence[Expr], arguments: Sequence[tuple[str, str]]) -> list[Expr]:
    """Return the expressions with columns of the left input in place of outer columns."""
    by_name: dict[str, Expr] = {name: col(column) for name, column in arguments}
    return [replace_outer(part, by_name) for part in parts]


def _over(expr: Expr, columns: Mapping[str, Expr], outer: Mapping[str, Expr]) -> Expr:
    """Translate an expression of the subquery to an expression over the outer rows."""
    if isinstance(expr, Column):
        return columns[expr.name]
    if isinstance(expr, OuterColumn):
        return outer.get(expr.name, expr)
    parts = children(expr)
    return rebuild(expr, tuple(_over(part, columns, outer) for part in parts)) if parts else expr
