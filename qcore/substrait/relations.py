"""Translation of Substrait relations to plan nodes.

Substrait numbers columns, and plans name them. Every column that is added here gets a name that is unique in the plan,
so that the inputs of a join have different names. A projection that only selects columns becomes a list of names, not a
node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Cast, Column, Expr, Literal, col, lit, same
from qcore.functions.aggregate_names import bind_aggregate
from qcore.functions.aggregates import aggregate_type
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    Limit,
    LocalPartition,
    OrderBy,
    PlanNode,
    Shared,
    SharedRead,
    SortKey,
)
from qcore.plan.planning_time import check_planning
from qcore.plan.projections import add_columns, exact_columns, project, readable_name
from qcore.plan.set_operations import cast_to_common_types, distinct, make_set_operation, union_all
from qcore.substrait.dropped import (
    FETCH_COUNT,
    FETCH_OFFSET,
    GROUPING_EXPRESSIONS,
    as_message,
    dropped_fields,
)
from qcore.substrait.expressions import DISTINCT, ExpressionReader
from qcore.substrait.join_relations import JoinReader
from qcore.substrait.reads import read_table
from qcore.substrait.scope import FieldScope, ReadRelation, filter_rows
from qcore.substrait.subqueries import SubqueryReader
from qcore.substrait.windows import WindowReader, read_order

# The column, added to aggregates, whose bits tell the keys of a row's grouping set.
_GROUPING_ID = "$grouping_id"
_UNION_DISTINCT, _UNION_ALL = 5, 6
# The operation on the first input, and the operation that combines the others before. None: one input after the other.
_SET_KINDS = {
    1: ("except", "union"),
    2: ("except", "intersect"),
    3: ("intersect", "union"),
    4: ("intersect", None),
    7: ("except_all", "union"),
    8: ("intersect_all", None),
}


class RelationReader:
    """Reads the relations of one plan. `functions` are names by anchor, `schemas` the known tables. DataFusion gives
    the output of grouping sets another form than the standard.
    """

    def __init__(
        self, functions: Mapping[int, str], schemas: Mapping[str, pa.Schema] | None, by_datafusion: bool = False
    ) -> None:
        self.ids, self.names = NodeIds(), ColumnNames()
        self.schemas = schemas
        self.files: dict[str, list[str]] = {}
        self.by_datafusion = by_datafusion
        self._subqueries = SubqueryReader(self.ids, self.names, self.read, self.exact)
        self.expressions = ExpressionReader(functions, self._subquery, not by_datafusion, self.ids, self.names)
        joins = JoinReader(self.ids, self.names, self.expressions, self.read)
        self._readers: dict[str, Callable[[Any], ReadRelation]] = {
            "read": self._read,
            "project": self._project,
            "filter": self._filter,
            "join": joins.join,
            "cross": joins.cross,
            "aggregate": self._aggregate,
            "sort": self._sort,
            "fetch": self._fetch,
            "set": self._set,
            "hash_join": joins.physical_join,
            "merge_join": joins.physical_join,
            "nested_loop_join": joins.nested_loop_join,
            "exchange": self._exchange,
            "window": self._window,
            "top_n": self._top_n,
            "reference": self._reference,
        }
        self._path: list[str] = []
        # Relations to which others refer by position.
        self.subtrees: Sequence[Any] = ()
        self._references: dict[int, Shared] = {}

    def read(self, message: Any) -> ReadRelation:
        """The relation of a Rel message. A PlanError names the position in the plan."""
        check_planning()
        kind = message.WhichOneof("rel_type") or "relation without a kind"
        self._path.append(kind)
        try:
            return self._read_rel(message, kind)
        except PlanError as error:
            if " (at " in str(error):
                raise
            raise PlanError(f"{error} (at {' > '.join(self._path)})") from None
        finally:
            self._path.pop()

    def _read_rel(self, message: Any, kind: str) -> ReadRelation:
        reader = self._readers.get(kind)
        if reader is None:
            raise PlanError(f"the Substrait relation {kind} is not supported yet")
        body = getattr(message, kind)
        relation = reader(body)
        if kind not in ("project", "reference") and body.common.HasField("emit"):
            mapping = body.common.emit.output_mapping
            if any(not 0 <= position < len(relation.columns) for position in mapping):
                raise PlanError(f"columns {list(mapping)} are emitted of {len(relation.columns)}")
            return ReadRelation(relation.node, [relation.columns[position] for position in mapping])
        return relation

    def exact(self, relation: ReadRelation) -> PlanNode:
        """A node with exactly the relation's columns. A repeated column gets a new name."""
        return exact_columns(self.ids, self.names, relation.node, relation.columns)

    # --- relations ---

    def _read(self, message: Any) -> ReadRelation:
        table = read_table(message, self.schemas, self.ids, self.names, self.files, self.expressions.read)
        node = table.node
        # A best-effort filter needs no node: the plan filters again above.
        if message.HasField("filter"):
            scope = FieldScope(node, table.all_columns)
            predicate = self.expressions.read(message.filter, scope)
            node = filter_rows(self.ids, scope.node, predicate)
        return ReadRelation(node, table.columns)

    def _project(self, message: Any) -> ReadRelation:
        child = self.read(message.input)
        scope = child.scope()
        wanted = (
            list(message.common.emit.output_mapping)
            if message.common.HasField("emit")
            else list(range(len(child.columns) + len(message.expressions)))
        )
        n_inputs = len(child.columns)
        n_columns = n_inputs + len(message.expressions)
        if any(not 0 <= position < n_columns for position in wanted):
            raise PlanError(f"the projection emits columns {wanted}, but has {n_columns}")
        computed: dict[int, tuple[str, Expr]] = {}
        windows = WindowReader(self.expressions, self.names, scope)
        before, self.expressions.windows = self.expressions.windows, windows
        try:
            for position in sorted({position for position in wanted if position >= n_inputs}):
                expr = self.expressions.read(message.expressions[position - n_inputs], scope).expr
                name = expr.name if isinstance(expr, Column) else self.names.new(readable_name(expr))
                computed[position] = (name, expr)
        finally:
            self.expressions.windows = before
        node = windows.node()
        columns = [computed[i][0] if i >= n_inputs else child.columns[i] for i in wanted]
        if all(isinstance(expr, Column) for _, expr in computed.values()):
            return ReadRelation(node, columns)
        expressions: dict[str, Expr] = {child.columns[i]: col(child.columns[i]) for i in wanted if i < n_inputs}
        expressions.update(computed[i] for i in wanted if i >= n_inputs)
        made = project(self.ids.new(), node, list(expressions), list(expressions.values()))
        return ReadRelation(made, columns)

    def _filter(self, message: Any) -> ReadRelation:
        child = self.read(message.input)
        scope = child.scope()
        predicate = self.expressions.read(message.condition, scope)
        return ReadRelation(filter_rows(self.ids, scope.node, predicate), child.columns)

    def _aggregate(self, message: Any) -> ReadRelation:
        child = self.read(message.input)
        scope = child.scope()
        written, sets = self._groupings(message)
        has_sets = len(sets) > 1
        keys_read = [self.expressions.read(part, scope) for part in written]
        if has_sets and self.by_datafusion:
            first_positions = _match_keys(written, sets)
        else:
            # An expression in several sets is listed several times.
            first_positions = [next(i for i, b in enumerate(keys_read) if same(a.expr, b.expr)) for a in keys_read]
        keys: list[tuple[str, Bound]] = []
        numbers: dict[int, int] = {}
        for first, value in enumerate(keys_read):
            if first_positions[first] == first:
                numbers[first] = len(keys)
                name, is_column = readable_name(value.expr), isinstance(value.expr, Column)
                is_free = is_column and all(name != known for known, _ in keys)
                keys.append((name if is_free else self.names.new(name), value))
        first_positions = [numbers[first] for first in first_positions]
        calls = _Calls(self.names)
        values = [self._measure(measure, scope, calls) for measure in message.measures]
        key_names = [name for name, _ in keys]
        columns = [key_names[i] for i in first_positions]
        grouping_sets, grouping_id, set_ids = None, None, None
        if has_sets:
            grouping_sets = tuple(tuple(dict.fromkeys(first_positions[i] for i in part)) for part in sets)
            if self.by_datafusion:
                # DataFusion outputs the distinct keys, then an internal grouping id, which only GROUPING() reads.
                grouping_id = self.names.new(_GROUPING_ID)
                columns = [*key_names, grouping_id]
            else:
                # By the standard the last column is the number of the row's set.
                grouping_id, set_ids = self.names.new(_GROUPING_ID), self.names.new("grouping_set")
        fields = [pa.field(name, value.type) for name, value in keys]
        fields += [] if grouping_id is None else [pa.field(grouping_id, pa.int64())]
        schema = pa.schema([*fields, *calls.fields])
        groups = tuple((name, value.expr) for name, value in keys)
        node: PlanNode = Aggregate(
            self.ids.new(), schema, scope.node, groups, tuple(calls.calls), grouping_sets, grouping_id
        )
        computed: dict[str, Expr] = {}
        for value in values:
            if isinstance(value.expr, Column):
                columns.append(value.expr.name)
            else:
                columns.append(self.names.new(readable_name(value.expr)))
                computed[columns[-1]] = value.expr
        if set_ids is not None:
            # The set's number is in the bits above those of the keys.
            unit, id_ = 1 << len(keys), col(grouping_id or "")
            computed[set_ids] = Cast(Call("divide", (id_ - id_ % unit, lit(unit))), pa.int32())
            columns.append(set_ids)
        return ReadRelation(add_columns(self.ids.new(), node, computed) if computed else node, columns)

    def _groupings(self, message: Any) -> tuple[list[Any], list[list[int]]]:
        """Messages of key expressions, and for each set the positions of its keys among them."""
        from substrait.algebra_pb2 import Expression

        written = list(message.grouping_expressions)
        sets = [list(grouping.expression_references) for grouping in message.groupings]
        for i, grouping in enumerate(message.groupings):
            # DataFusion writes both forms.
            for dropped in [] if sets[i] else dropped_fields(grouping, GROUPING_EXPRESSIONS):
                sets[i].append(len(written))
                written.append(as_message(dropped, Expression))
        return written, sets

    def _measure(self, message: Any, scope: FieldScope, calls: _Calls) -> Bound:
        function = message.measure
        if function.phase not in (0, 3):
            raise PlanError("aggregates in partial phases cannot be read; give the plan before it is made distributed")
        name, arguments = self.expressions.aggregate(function, scope)
        where = self.expressions.read(message.filter, scope) if message.HasField("filter") else None
        is_distinct = function.invocation == DISTINCT
        order = read_order(function.sorts, scope, self.expressions)
        return bind_aggregate(name, arguments, distinct=is_distinct, filter=where, order=order, add=calls.add)

    def _sort(self, message: Any) -> ReadRelation:
        child = self.read(message.input)
        scope = child.scope()
        keys: list[SortKey] = []
        computed: dict[str, Expr] = {}
        for value, descending, nulls_first in read_order(message.sorts, scope, self.expressions):
            expr = value.expr
            if isinstance(expr, Column):
                name = expr.name
            else:
                name = self.names.new("order")
                computed[name] = expr
            if all(key.column != name for key in keys):
                keys.append(SortKey(name, descending, nulls_first))
        node = scope.node
        if computed:
            node = add_columns(self.ids.new(), node, computed)
        return ReadRelation(OrderBy(self.ids.new(), node.schema, node, tuple(keys)), child.columns)

    def _fetch(self, message: Any) -> ReadRelation:
        child = self.read(message.input)
        scope = child.scope()
        limits: dict[str, int | None] = {"offset_expr": 0, "count_expr": None}
        for name in limits:
            if message.HasField(name):
                limits[name] = self._limit(getattr(message, name), scope)
        for name, number in (("offset_expr", FETCH_OFFSET), ("count_expr", FETCH_COUNT)):
            for dropped in [] if message.HasField(name) else dropped_fields(message, number):
                # -1 means all rows. It is a large number if the field is unknown.
                limits[name] = dropped if 0 <= dropped < 1 << 63 else None
        node = Limit(self.ids.new(), child.node.schema, child.node, limits["count_expr"], limits["offset_expr"] or 0)
        return ReadRelation(node, child.columns)

    def _limit(self, message: Any, scope: FieldScope) -> int | None:
        """A number of rows; None is all. A negative number means all rows: -1, or a number that overflowed."""
        value = self.expressions.read(message, scope).expr
        if not isinstance(value, Literal) or not (value.value is None or type(value.value) is int):
            raise PlanError("LIMIT and OFFSET take constants only")
        return value.value if value.value is None or value.value >= 0 else None

    def _set(self, message: Any) -> ReadRelation:
        inputs = [self.exact(self.read(part)) for part in message.inputs]
        if len(inputs) < 2:
            raise PlanError(f"a set operation needs two inputs or more, not {len(inputs)}")
        only_counted = all(len(node.schema) == 0 for node in inputs)
        if only_counted:
            row, true = self.names.new("row"), Literal(True, pa.bool_())
            inputs = [project(self.ids.new(), node, [row], [true]) for node in inputs]
        node = self._set_operation(message.op, inputs)
        return ReadRelation(node, [] if only_counted else list(node.schema.names))

    def _set_operation(self, op: int, inputs: list[PlanNode]) -> PlanNode:
        if op in (_UNION_DISTINCT, _UNION_ALL):
            union = union_all(self.ids, cast_to_common_types(self.ids, "UNION", inputs))
            return union if op == _UNION_ALL else distinct(self.ids, union)
        if op not in _SET_KINDS:
            raise PlanError(f"a set operation of the unknown kind {op} cannot be run")
        kind, together = _SET_KINDS[op]
        first, *others = inputs
        if together == "union":
            others = [union_all(self.ids, cast_to_common_types(self.ids, "a set operation", others))]
        if together == "intersect":
            others = [self._combine("intersect", others)]
        return self._combine(kind, [first, *others])

    def _combine(self, kind: str, inputs: list[PlanNode]) -> PlanNode:
        first, *others = inputs
        for other in others:
            first = make_set_operation(self.ids, self.names, kind, first, other)
        return first

    def _exchange(self, message: Any) -> ReadRelation:
        """An exchange among the drivers of this process. Distribution to other processes is ignored."""
        child = self.read(message.input)
        kind = message.WhichOneof("exchange_kind")
        if kind == "scatter_by_fields":
            scope = child.scope()
            keys = [self.expressions.field(field, scope).expr for field in message.scatter_by_fields.fields]
            names = tuple(dict.fromkeys(key.name for key in keys if isinstance(key, Column)))
            if names:
                node = LocalPartition(self.ids.new(), child.node.schema, child.node, "hash", names)
                return ReadRelation(node, child.columns)
        if kind == "round_robin":
            return ReadRelation(
                LocalPartition(self.ids.new(), child.node.schema, child.node, "round_robin"), child.columns
            )
        if kind == "broadcast":
            raise PlanError("a broadcast exchange is not supported: this process would get every row once per target")
        return child

    def _window(self, message: Any) -> ReadRelation:
        child = self.read(message.input)
        windows = WindowReader(self.expressions, self.names, child.scope())
        added = [
            windows.read(function, message.partition_expressions, message.sorts).expr
            for function in message.window_functions
        ]
        node = windows.node()
        names = [expr.name if isinstance(expr, Column) else self.names.new(readable_name(expr)) for expr in added]
        if not all(isinstance(expr, Column) for expr in added):
            kept = child.columns
            node = project(self.ids.new(), node, [*kept, *names], [*map(col, kept), *added])
        return ReadRelation(node, [*child.columns, *names])

    def _top_n(self, message: Any) -> ReadRelation:
        if message.mode not in (0, 1):
            raise PlanError("a top-n with ties is not supported yet")
        ordered = self._sort(message)
        limits = [
            self._limit(getattr(message, name), ordered.scope()) if message.HasField(name) else None
            for name in ("offset", "count")
        ]
        node = Limit(self.ids.new(), ordered.node.schema, ordered.node, limits[1], limits[0] or 0)
        return ReadRelation(node, ordered.columns)

    def _reference(self, message: Any) -> ReadRelation:
        """A relation that is written once and used several times. Each use has its own columns."""
        ordinal = message.subtree_ordinal
        if not 0 <= ordinal < len(self.subtrees) or self.subtrees[ordinal] is None:
            raise PlanError(f"relation {ordinal} is referred to, but the plan has {len(self.subtrees)}")
        name = f"reference {ordinal}"
        if name in self._path:
            raise PlanError(f"relation {ordinal} refers to itself")
        shared = self._references.get(ordinal)
        if shared is not None:
            schema = pa.schema([field.with_name(self.names.new(field.name)) for field in shared.schema])
            node: PlanNode = SharedRead(self.ids.new(), schema, shared.id, tuple(shared.schema.names), shared)
            return ReadRelation(node, schema.names)
        self._path.append(name)
        try:
            part = self.exact(self.read(self.subtrees[ordinal]))
        finally:
            self._path.pop()
        self._references[ordinal] = shared = Shared(self.ids.number_word("part"), part.schema, part)
        return ReadRelation(shared, shared.schema.names)

    def _subquery(self, message: Any, scope: FieldScope) -> Bound:
        return self._subqueries.read(message, scope, self.expressions)


class _Calls:
    """The calls of the engine's aggregates in one aggregation, with the fields of their values."""

    def __init__(self, names: ColumnNames) -> None:
        self.calls: list[AggregateCall] = []
        self.fields: list[pa.Field] = []
        self._names = names

    def add(
        self,
        function: str,
        arguments: Sequence[Bound],
        distinct: bool,
        filter: Bound | None,
        order: Sequence[tuple[Bound, bool, bool]],
    ) -> Bound:
        """The column of a call."""
        type_ = aggregate_type(function, [argument.type for argument in arguments])
        name = self._names.new(f"{function}_{readable_name(arguments[0].expr) if arguments else 'rows'}")
        values = tuple(value.expr for value in (*arguments, *(key for key, _, _ in order)))
        directions = tuple((descending, nulls_first) for _, descending, nulls_first in order)
        where = None if filter is None else filter.expr
        self.calls.append(AggregateCall(name, function, values, distinct, where, directions))
        self.fields.append(pa.field(name, type_))
        return Bound(Column(name), type_)


def _match_keys(written: Sequence[Any], sets: Sequence[Sequence[int]]) -> list[int]:
    """For each key of DataFusion's grouping sets, the position of the first equal one.

    DataFusion distinguishes two columns of one origin, and two expressions that it has simplified to the same one. A
    set then lists the same key twice.
    """
    first_positions = list(range(len(written)))
    for part in sets:
        taken: set[int] = set()
        for position in part:
            equal = [i for i in range(position) if first_positions[i] == i and written[i] == written[position]]
            free = [i for i in equal if i not in taken]
            if len(equal) > 1 or (equal and not free and len(sets) > 1):
                raise PlanError("grouping sets of two keys that are the same expression are not supported yet")
            first_positions[position] = free[0] if free else position
            taken.add(first_positions[position])
    return first_positions
