"""Replacing dependent joins: a correlated subquery is computed once for all values of its outer columns.

The method is that of Neumann and Kemper, Unnesting Arbitrary Queries (BTW 2015). The distinct values of the outer
columns, the *domain*, become columns of the subquery. They are joined with its inputs where expressions read them.
Aggregates above group by them, windows and limits partition by them, and joins compare them if both sides have them.
The result has the subquery's rows for every value of the domain. It is joined with the outer rows; null equals null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Case, Column, Expr, call, col, column_names, conjuncts, lit, substitute
from qcore.plan.copies import copy_plan, is_steady
from qcore.plan.domains import NO_RECURSIONS, Domain, DomainColumns, WorkingDomain, match_domain
from qcore.plan.joins import conjunction, make_join
from qcore.plan.marks import without_mark
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
    RecursiveUnion,
    Shared,
    SharedRead,
    SortKey,
    TopN,
    UnionAll,
    Unnest,
    UserOperator,
    Window,
    WindowCall,
    WindowFrame,
    WorkingTable,
)
from qcore.plan.null_aware_joins import NULL_AWARE_KINDS, make_null_aware_join
from qcore.plan.outer_columns import OuterReads, outer_names, replace_outer, working_name
from qcore.plan.projections import add_columns, project, select_columns
from qcore.plan.pulled_conditions import ConditionPuller
from qcore.plan.row_subqueries import COUNTS, RowSubqueries
from qcore.plan.schema import MARK_KINDS, aggregate_schema, join_schema, unnest_schema
from qcore.plan.single_rows import ONE_FOR_EACH, gives_one_row, gives_one_row_at_most
from qcore.record import record

# Kinds of dependent joins that, without conditions, only test whether the right input has a row.
_OF_EXISTENCE = frozenset({"left_semi", "left_anti", "mark", *NULL_AWARE_KINDS})
# Join kinds whose output has the left side's copy of the domain in every row, and those with the right side's.
_KEEPS_LEFT = frozenset({"inner", "left", "left_semi", "left_anti", "mark", *NULL_AWARE_KINDS})
_KEEPS_RIGHT = frozenset({"right", "right_semi", "right_anti"})


def replace_dependent_joins(plan: PlanNode, ids: NodeIds, names: ColumnNames) -> PlanNode:
    """Return the plan with ordinary joins in place of DependentJoins. PlanError if a subquery cannot be unnested."""
    if not any(isinstance(node, DependentJoin) for node in plan.walk()):
        return plan
    return _Unnesting(ids, names).unnest(plan)


@record
class _Unnesting:
    """Replaces the dependent joins of one plan."""

    ids: NodeIds
    names: ColumnNames
    _outer: OuterReads = field(default_factory=OuterReads)
    _puller: ConditionPuller = field(init=False)
    _row_subqueries: RowSubqueries = field(init=False)
    #: Shared nodes of the new plan by the id of the old one, and those with a domain by that id and the domain. These
    #: have the columns of the domain beside them.
    _shared: dict[str, Shared] = field(default_factory=dict)
    _pushed: dict[tuple[str, int], tuple[Shared, DomainColumns]] = field(default_factory=dict)
    _domains: list[Domain] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._puller = ConditionPuller(self.ids, self.names, self._outer, self._nested_without_domain)
        self._row_subqueries = RowSubqueries(self.ids, self.names, self._outer, self._puller)

    def unnest(self, node: PlanNode) -> PlanNode:
        """Return a node that reads no outer column with its dependent joins replaced. The schema does not change."""
        if isinstance(node, Filter) and isinstance(node.child, DependentJoin):
            node = _simpler_filter(self.ids, node)
        if isinstance(node, DependentJoin):
            return self._replace_join(node.with_fields(left=self.unnest(node.left)))
        if isinstance(node, Shared):
            return self._unnest_shared(node)
        if isinstance(node, SharedRead) and isinstance(node.like, Shared):
            return node.with_fields(like=self._unnest_shared(node.like))
        new = tuple(self.unnest(child) for child in node.children)
        return node if all(a is b for a, b in zip(new, node.children, strict=True)) else node.with_children(*new)

    def _replace_join(self, join: DependentJoin, recursions: Mapping[str, WorkingDomain] = NO_RECURSIONS) -> PlanNode:
        """Replace a dependent join, whose left input has no dependent join, by a join on the domain.

        `recursions` are the recursive queries whose working tables the right input reads; see Domain.
        """
        join = self._simpler(join)
        read = self._outer.of(join.right)
        arguments = [(name, column) for name, column in join.arguments if name in read or recursions]
        if not arguments:
            assert not recursions
            return self._select(self._make_join(join, join.left, self.unnest(join.right), []), join.schema.names)
        if not recursions:
            made = self._without_domain(join.with_fields(arguments=tuple(arguments)))
            if made is not None:
                return self._select(self.unnest(made), join.schema.names)
        domain = Domain(self.ids, self.names, join.left, arguments, recursions)
        self._domains.append(domain)
        right, columns = self._push(join.right, domain)
        values = match_domain(dict(arguments), columns)
        return self._select(self._make_join(join, domain.shared, right, values), join.schema.names)

    def _simpler(self, join: DependentJoin) -> DependentJoin:
        """Drop parts of the right input that the kind of the join does not need. Add the check of a scalar subquery."""
        right = join.right
        if join.kind == "scalar":
            single = gives_one_row_at_most(right)
            right = right if single else EnforceSingleRow(self.ids.new(), right.schema, right)
        elif join.kind in _OF_EXISTENCE and not join.conditions:
            right = _same_existence(right)
        return join if right is join.right else join.with_fields(right=right)

    def _without_domain(self, join: DependentJoin) -> PlanNode | None:
        """Replace the join by nodes without a domain, which may contain simpler dependent joins. None if impossible."""
        made = self._row_subqueries.replace_join(join)
        if made is not None:
            return made
        pulled = self._puller.pull(join.right, [name for name, _ in join.arguments])
        if pulled is None or join.kind == "scalar":
            return None
        computed = dict(pulled.computed)
        if computed and join.kind == "left" and not computed.keys().isdisjoint(join.right.schema.names):
            return None
        columns = dict(join.arguments)
        where = [_with_domain(part, columns) for part in pulled.conditions]
        over_pulled = tuple(_with_domain(substitute(part, computed), columns) for part in join.conditions)
        schema = join_schema(join.kind, join.left.schema, pulled.node.schema, join.schema.names[-1])
        plain = join.with_fields(schema=schema, right=pulled.node, conditions=over_pulled)
        node = self._make_join(plain, join.left, pulled.node, where)
        if join.kind != "inner" or not computed:
            return node
        kept = join.left.schema.names
        values = [_with_domain(computed.get(name, col(name)), columns) for name in join.right.schema.names]
        return project(self.ids.new(), node, join.schema.names, [*map(col, kept), *values])

    def _nested_without_domain(self, join: DependentJoin) -> PlanNode | None:
        """The same for a join inside a subquery, whose left input may have dependent joins, and read outer columns."""
        join = self._simpler(join)
        read = self._outer.of(join.right)
        arguments = tuple((name, column) for name, column in join.arguments if name in read)
        if not arguments:
            made: PlanNode | None = self._make_join(join, join.left, join.right, [])
        else:
            made = self._without_domain(join.with_fields(arguments=arguments))
        return None if made is None else self._select(made, join.schema.names)

    def _make_join(self, join: DependentJoin, left: PlanNode, right: PlanNode, where: list[Expr]) -> PlanNode:
        """The ordinary join with the kind and the conditions of a dependent one, and further conditions `where`."""
        kind, mark = join.kind, join.schema.names[-1]
        conditions = [part for condition in join.conditions for part in conjuncts(condition)]
        if kind in NULL_AWARE_KINDS:
            return make_null_aware_join(self.ids, self.names, kind, left, right, where, conditions, mark)
        if kind == "scalar":
            kind = "inner" if not where and gives_one_row(join.right) else "left"
        return make_join(self.ids, kind, left, right, [*where, *conditions], mark)

    def _select(self, node: PlanNode, names: list[str]) -> PlanNode:
        return node if node.schema.names == names else select_columns(self.ids.new(), node, names)

    def _unnest_shared(self, node: Shared) -> Shared:
        """Unnest a shared subplan once, for all its readers."""
        if node.id not in self._shared:
            child = self.unnest(node.child)
            self._shared[node.id] = node if child is node.child else node.with_fields(child=child)
        return self._shared[node.id]

    # --- adding the domain to nodes ---

    def _push(self, node: PlanNode, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        """Return the node's rows for each value of the domain, with the node's columns (or more) and the domain's."""
        if not self._reads(node, domain):
            rows, columns = domain.rows()
            below = self.unnest(node)
            schema = join_schema("inner", rows.schema, below.schema)
            return NestedLoopJoin(self.ids.new(), schema, rows, below, "inner"), columns
        push: Callable[..., tuple[PlanNode, DomainColumns]] | None = _PUSHES.get(type(node))
        if push is None:
            what = "random() or uuid()" if isinstance(node, UserOperator) else type(node).__name__
            raise PlanError(
                f"a correlated subquery with {what} inside is not supported; write it as a separate table and join it"
            )
        return push(self, node, domain)

    def _reads(self, node: PlanNode, domain: Domain) -> bool:
        return not domain.outer_names.isdisjoint(self._outer.of(node))

    def _filter(self, node: Filter, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        if isinstance(node.child, DependentJoin):
            moved = _simpler_filter(self.ids, node)
            if not isinstance(moved, Filter):
                return self._push(moved, domain)
            node = moved
        child, columns = self._push(node.child, domain)
        return node.with_fields(
            schema=child.schema, child=child, predicate=_with_domain(node.predicate, columns)
        ), columns

    def _project(self, node: Project, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        kept = list(dict.fromkeys(columns.values()))
        expressions = [*(_with_domain(expr, columns) for expr in node.expressions), *map(col, kept)]
        return project(self.ids.new(), child, [*node.schema.names, *kept], expressions), columns

    def _aggregate(self, node: Aggregate, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        child, below = self._push(node.child, domain)
        for aggregate in node.aggregates:
            _check_outer_aggregate(aggregate, domain)
        new = {column: self.names.new(column) for column in dict.fromkeys(below.values())}
        columns = {name: new[column] for name, column in below.items()}
        own = tuple((name, _with_domain(expr, below)) for name, expr in node.keys)
        keys = (*((name, col(column)) for column, name in new.items()), *own)
        calls = tuple(
            replace(
                one,
                arguments=tuple(_with_domain(argument, below) for argument in one.arguments),
                filter=None if one.filter is None else _with_domain(one.filter, below),
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
        grouped = node.with_fields(schema=schema, child=child, keys=keys, aggregates=calls, grouping_sets=sets)
        has_total = not node.keys if node.grouping_sets is None else () in node.grouping_sets
        return self._add_empty_totals(node, grouped, columns, domain) if has_total else (grouped, columns)

    def _add_empty_totals(
        self, node: Aggregate, grouped: Aggregate, columns: DomainColumns, domain: Domain
    ) -> tuple[PlanNode, DomainColumns]:
        """Add the row of an aggregate without keys over an empty input: nulls, and counts of 0. `grouped` lacks this
        row for values of the domain without rows.
        """
        rows, outer = domain.rows()
        joined = make_join(self.ids, "left", rows, grouped, match_domain(outer, columns))
        kept = list(dict.fromkeys(outer.values()))
        zeros = {one.name: 0 for one in node.aggregates if one.function in COUNTS}
        if node.grouping_id is not None:
            zeros[node.grouping_id] = (1 << len(node.keys)) - 1
        names = node.schema.names
        values = [call("coalesce", col(name), lit(zeros[name])) if name in zeros else col(name) for name in names]
        return project(self.ids.new(), joined, [*names, *kept], [*values, *map(col, kept)]), outer

    def _window(self, node: Window, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        added = [node.schema.field(one.name) for one in node.calls]
        partition_by = (*dict.fromkeys(columns.values()), *node.partition_by)
        schema = pa.schema([*child.schema, *added])
        return node.with_fields(schema=schema, child=child, partition_by=partition_by), columns

    def _order(self, node: OrderBy, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        return node.with_fields(schema=child.schema, child=child), columns

    def _top_n(self, node: TopN, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        return self._first_rows(node.child, node.keys, node.count, node.offset, domain)

    def _limit(self, node: Limit, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        below = node.child
        if isinstance(below, Project) or (isinstance(below, DependentJoin) and below.kind in ONE_FOR_EACH):
            # These nodes output one row for each input row, so the limit may move below them, to the order.
            child = below.children[0]
            limited = node.with_fields(id=self.ids.new(), schema=child.schema, child=child)
            return self._push(below.with_children(limited, *below.children[1:]), domain)
        if isinstance(below, OrderBy):
            return self._first_rows(below.child, below.keys, node.count, node.offset, domain)
        return self._first_rows(below, (), node.count, node.offset, domain)

    def _first_rows(
        self, node: PlanNode, keys: tuple[SortKey, ...], count: int | None, offset: int, domain: Domain
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

    def _single_row(self, node: EnforceSingleRow, domain: Domain) -> tuple[PlanNode, DomainColumns]:
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
        joined = make_join(self.ids, "left", rows, checked, match_domain(outer, columns))
        kept = list(dict.fromkeys(outer.values()))
        return select_columns(self.ids.new(), joined, [*node.schema.names, *kept]), outer

    def _union(self, node: UnionAll, domain: Domain) -> tuple[PlanNode, DomainColumns]:
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
        return node.with_fields(schema=schema, inputs=tuple(inputs)), first

    def _unnest(self, node: Unnest, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        child, columns = self._push(node.child, domain)
        schema = unnest_schema(child.schema, node.lists, node.ordinality)
        return node.with_fields(schema=schema, child=child), columns

    def _partition(self, node: LocalPartition, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        return self._push(node.child, domain)

    def _push_shared(self, node: Shared, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        return self._read_pushed(node, node.schema.names, node.schema.names, domain)

    def _push_shared_read(self, node: SharedRead, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        assert isinstance(node.like, Shared)
        return self._read_pushed(node.like, node.columns, node.schema.names, domain)

    def _read_pushed(
        self, node: Shared, columns: Sequence[str], names: Sequence[str], domain: Domain
    ) -> tuple[PlanNode, DomainColumns]:
        """These columns of a shared subplan, under these names, and those of the domain. The first reader contains the
        subplan itself. Each domain has a separate subplan.
        """
        key = node.id, id(domain)
        if key not in self._pushed:
            of_others = any(name == node.id for name, _ in self._pushed)
            if of_others and not is_steady(node.child):
                raise PlanError(
                    f"the subplan {node.id} of a correlated subquery is also read by a subquery inside it, and may "
                    "have other rows each time it runs (it has a limit, row numbers, sums of floats, random() or "
                    "similar); repeat its query in both subqueries"
                )
            child, below = self._push(copy_plan(node.child, self.ids) if of_others else node.child, domain)
            name = self.ids.number_word(node.id) if of_others else node.id
            shared = node.with_fields(id=name, schema=child.schema, child=child)
            self._pushed[key] = shared, below
            if columns == names:
                return shared, below
            kept = list(dict.fromkeys(below.values()))
            new = [self.names.new(column) for column in kept]
            renamed = project(self.ids.new(), shared, [*names, *new], list(map(col, [*columns, *kept])))
            return renamed, {name: new[kept.index(column)] for name, column in below.items()}
        shared, below = self._pushed[key]
        kept = list(dict.fromkeys(below.values()))
        new = [self.names.new(column) for column in kept]
        fields = [shared.schema.field(column) for column in (*columns, *kept)]
        schema = pa.schema([field.with_name(name) for field, name in zip(fields, (*names, *new), strict=True)])
        read = SharedRead(self.ids.new(), schema, shared.id, (*columns, *kept), shared)
        return read, {name: new[kept.index(column)] for name, column in below.items()}

    def _recursive(self, node: RecursiveUnion, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        """Run the rounds of all values of the domain together. The working table also has the domain's columns. A round
        uses only the values for which the last round returned rows, because the recursion of the others has ended.
        """
        start = domain.for_recursion()
        self._domains.append(start)
        first, columns = self._push(node.inputs[0], start)
        kept = list(dict.fromkeys(columns.values()))
        first = self._select(first, [*node.inputs[0].schema.names, *kept])
        names = [*node.schema.names, *kept]
        schema = pa.schema([field.with_name(name) for field, name in zip(first.schema, names, strict=True)])
        working = WorkingDomain(domain, node.key, schema, columns)
        self._domains.append(working)
        second, below = self._push(node.inputs[1], working)
        of_column = {column: name for name, column in columns.items()}
        second = self._select(second, [*node.inputs[1].schema.names, *(below[of_column[column]] for column in kept)])
        return node.with_fields(schema=schema, inputs=(first, second)), columns

    def _working_table(self, node: WorkingTable, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        working = domain.recursions[working_name(node.key)]
        table, columns = working.working_table(node)
        if working is domain:
            return table, columns
        rows, outer = domain.rows()
        of_working = {name: outer[name] for name in columns}
        return make_join(self.ids, "inner", rows, table, match_domain(of_working, columns)), outer

    def _dependent(self, node: DependentJoin, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        """A subquery inside the subquery. Its outer columns are columns of the left input."""
        left, columns = self._push(node.left, domain)
        read = self._outer.of(node.right) & domain.outer_names
        if not read.isdisjoint(domain.recursions):
            # The subquery reads a working table, whose rows belong to one value of the domain.
            read |= columns.keys()
        arguments = (*node.arguments, *((name, columns[name]) for name in sorted(read) if name in columns))
        conditions = tuple(_with_domain(condition, columns) for condition in node.conditions)
        mark = node.schema.names[-1]
        join = node.with_fields(
            left=left,
            arguments=arguments,
            conditions=conditions,
            schema=join_schema(node.kind, left.schema, node.right.schema, mark),
        )
        recursions = {name: working for name, working in domain.recursions.items() if name in read}
        return self._replace_join(join, recursions), columns

    def _join(self, node: HashJoin | NestedLoopJoin, domain: Domain) -> tuple[PlanNode, DomainColumns]:
        kind = node.kind
        conditions = [] if node.condition is None else conjuncts(node.condition)
        if isinstance(node, HashJoin):
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            conditions = [*(call("equal", col(a), col(b)) for a, b in pairs), *conditions]
        in_condition = not domain.outer_names.isdisjoint(outer_names(*conditions))
        of_left, of_right = (self._reads(child, domain) for child in node.children)
        in_condition = in_condition and not (kind == "inner" and of_right)
        push_left = of_left or in_condition or (of_right and kind not in _KEEPS_RIGHT | {"inner"}) or kind == "full"
        push_right = of_right or kind == "full" or (kind in _KEEPS_RIGHT and push_left)
        left, left_columns = self._push(node.left, domain) if push_left else (self.unnest(node.left), {})
        right, right_columns = self._push(node.right, domain) if push_right else (self.unnest(node.right), {})
        columns = left_columns if kind in _KEEPS_LEFT and push_left else right_columns or left_columns
        conditions = [_with_domain(condition, left_columns or right_columns) for condition in conditions]
        where = match_domain(left_columns, right_columns) if push_left and push_right else []
        mark = node.schema.names[-1] if kind in MARK_KINDS else ""
        if kind in NULL_AWARE_KINDS:
            made = make_null_aware_join(self.ids, self.names, kind, left, right, where, conditions, mark)
            return made, columns
        joined = make_join(self.ids, kind, left, right, [*conditions, *where], mark)
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
    RecursiveUnion: _Unnesting._recursive,
    WorkingTable: _Unnesting._working_table,
}


def _with_domain(expr: Expr, columns: DomainColumns) -> Expr:
    """Return the expression with columns of the domain in place of outer columns."""
    return replace_outer(expr, {name: Column(column) for name, column in columns.items()})


def _same_existence(node: PlanNode) -> PlanNode:
    """A node that has a row if and only if `node` has one."""
    if isinstance(node, (Project, OrderBy)):
        return _same_existence(node.child)
    if isinstance(node, (Limit, TopN)) and node.offset == 0 and (node.count is None or node.count > 0):
        return _same_existence(node.child)
    if isinstance(node, Aggregate) and node.keys and node.grouping_sets is None:
        return _same_existence(node.child)
    return node


def _check_outer_aggregate(one: AggregateCall, domain: Domain) -> None:
    """Raise PlanError for an aggregate over only outer columns. By the standard it belongs to the outer query."""
    of_outer = not domain.outer_names.isdisjoint(outer_names(*one.values))
    if of_outer and not any(map(column_names, one.values)):
        raise PlanError(
            f"{one.function} of the outer query's columns inside a subquery belongs to the outer query, by the "
            "standard; compute it there, or add a column of the subquery to its arguments"
        )


def _simpler_filter(ids: NodeIds, node: Filter) -> PlanNode:
    """Return a filter above a dependent join, or equivalent nodes with less work for the join."""
    moved = _move_conditions_down(ids, node)
    return without_mark(moved, ids) if isinstance(moved, Filter) else moved


def _move_conditions_down(ids: NodeIds, node: Filter) -> Filter | DependentJoin:
    """A filter above the value of a scalar subquery. Conditions that do not read the value are moved below the join, so
    that the subquery is computed for fewer rows.
    """
    join = node.child
    assert isinstance(join, DependentJoin)
    if join.kind == "inner":
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
    return join if above is None else node.with_fields(child=join, predicate=above)
