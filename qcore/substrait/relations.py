"""Substrait relations → plan nodes.

Substrait numbers columns, plans name them. Every column that is added here gets a name that is unique in the plan, so
that the inputs of a join have different names. A projection that only selects columns becomes a list of names, no node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Cast, Column, Expr, Literal, col, lit, same
from qcore.functions.catalogue import expr_type
from qcore.functions.dialect import QCORE, Dialect
from qcore.plan.joins import make_join
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    EnforceSingleRow,
    Limit,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    SortKey,
    TopN,
)
from qcore.plan.planning_time import check_planning
from qcore.plan.projections import add_columns, project
from qcore.plan.schema import aggregate_schema, join_schema
from qcore.plan.set_operations import cast_to_common_types, distinct, make_set_operation, union_all
from qcore.plan.single_rows import gives_one_row
from qcore.substrait.cut_limits import apply_computed_limit
from qcore.substrait.cut_subqueries import CutSubqueries
from qcore.substrait.dropped import (
    FETCH_COUNT,
    FETCH_OFFSET,
    GROUPING_EXPRESSIONS,
    as_message,
    dropped_fields,
)
from qcore.substrait.expressions import ExpressionReader, window_key
from qcore.substrait.functions import GROUPING_ID, aggregate_name, stands_for
from qcore.substrait.join_relations import JoinReader
from qcore.substrait.lambdas import Scope
from qcore.substrait.reads import TableRead, read_positions, read_table
from qcore.substrait.relation import Relation, filter_rows
from qcore.substrait.shared_parts import COPIES_MAX, SharedPart
from qcore.substrait.windows import DIRECTIONS, WindowReader, window_functions

# The hint that sql.py gives an aggregate with one grouping set. Substrait does not distinguish it from GROUP BY.
GROUPING_SET = "grouping_set"

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
_DISTINCT = 2
_EXISTS = 1


# Functions that make the plans of tables, by the table's name. Each read makes a new one, with its own names and ids.
Parts = Mapping[str, Callable[[NodeIds, ColumnNames], PlanNode]]


class RelationReader:
    """Reads the relations of one plan.

    `functions` are names by anchor, `schemas` the known tables, `parts` the plans of some of them. Parts of one plan
    share their `naming`. `dialect` and `asked` are those of ExpressionReader. `cut` has the subqueries for which calls
    stand.
    """

    def __init__(
        self,
        functions: Mapping[int, str],
        schemas: Mapping[str, pa.Schema] | None,
        by_datafusion: bool = False,
        parts: Parts | None = None,
        naming: tuple[NodeIds, ColumnNames] | None = None,
        dialect: Dialect = QCORE,
        asked: Collection[pa.DataType] | None = None,
        cut: CutSubqueries | None = None,
    ) -> None:
        self.ids, self.names = naming or (NodeIds(), ColumnNames())
        self.schemas = schemas
        self.parts: Parts = parts or {}
        self.files: dict[str, list[str]] = {}
        self.by_datafusion = by_datafusion
        self.expressions = ExpressionReader(
            functions, self._subquery, dialect, asked, not by_datafusion, self.ids, self._frontend_call
        )
        self.cut = cut or CutSubqueries()
        joins = JoinReader(self.ids, self.names, self.expressions, self.read)
        self._readers: dict[str, Callable[[Any], Relation]] = {
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
        self._references: dict[int, SharedPart] = {}

    def read(self, message: Any) -> Relation:
        """The relation of a Rel message. A PlanError names the position in the plan."""
        check_planning()
        kind = message.WhichOneof("rel_type") or "relation without a kind"
        self._path.append(kind)
        try:
            return self._read_rel(message, kind)
        except PlanError as error:
            # The author of a query does not know the plan that DataFusion made.
            if self.by_datafusion or " (at " in str(error):
                raise
            raise PlanError(f"{error} (at {' > '.join(self._path)})") from None
        finally:
            self._path.pop()

    def _read_rel(self, message: Any, kind: str) -> Relation:
        reader = self._readers.get(kind)
        if reader is None:
            raise PlanError(f"the Substrait relation {kind} is not supported yet")
        body = getattr(message, kind)
        relation = reader(body)
        if kind not in ("project", "reference") and body.common.HasField("emit"):
            mapping = body.common.emit.output_mapping
            if any(not 0 <= position < len(relation.columns) for position in mapping):
                raise PlanError(f"columns {list(mapping)} are emitted of {len(relation.columns)}")
            return Relation(relation.node, [relation.columns[position] for position in mapping])
        return relation

    def exact(self, relation: Relation) -> PlanNode:
        """A node with exactly the relation's columns. A repeated column gets a new name."""
        node, columns = relation.node, relation.columns
        if node.schema.names == columns:
            return node
        seen: set[str] = set()
        names = []
        for name in columns:
            names.append(self.names.new(name) if name in seen else name)
            seen.add(name)
        return project(self.ids.new(), node, names, [col(name) for name in columns])

    def rename(self, node: PlanNode, names: Sequence[str]) -> PlanNode:
        """The node with the query's column names if these are unique. A sort stays on top."""
        if len(set(names)) != len(names) or len(names) != len(node.schema) or list(names) == node.schema.names:
            return node
        schema = pa.schema([field.with_name(name) for field, name in zip(node.schema, names, strict=True)])
        if isinstance(node, Project):
            return replace(node, schema=schema)
        if isinstance(node, Limit):
            return replace(node, schema=schema, child=self.rename(node.child, names))
        if isinstance(node, (OrderBy, TopN)):
            new = dict(zip(node.schema.names, names, strict=True))
            keys = tuple(replace(key, column=new[key.column]) for key in node.keys)
            return replace(node, schema=schema, child=self.rename(node.child, names), keys=keys)
        return Project(self.ids.new(), schema, node, tuple(col(name) for name in node.schema.names))

    # --- relations ---

    def _read(self, message: Any) -> Relation:
        asked, read = self.expressions.asked, self.expressions.read
        table = self._part(message) or read_table(message, self.schemas, self.ids, self.names, self.files, asked, read)
        node = table.node
        # A best-effort filter needs no node: the plan filters again above.
        if message.HasField("filter"):
            scope = Scope(node, table.all_columns)
            predicate = self.expressions.read(message.filter, scope)
            node = filter_rows(self.ids, scope.node, predicate)
        return Relation(node, table.columns)

    def _part(self, message: Any) -> TableRead | None:
        """The plan of a named table that is one of `parts`."""
        make = self.parts.get(".".join(message.named_table.names))
        if make is None:
            return None
        node = make(self.ids, self.names)
        columns = list(node.schema.names)
        return TableRead(node, columns, [columns[i] for i in read_positions(message, len(columns))])

    def _project(self, message: Any) -> Relation:
        child = self.read(message.input)
        scope = child.scope()
        wanted = (
            list(message.common.emit.output_mapping)
            if message.common.HasField("emit")
            else list(range(len(child.columns) + len(message.expressions)))
        )
        n_inputs = len(child.columns)
        computed: dict[int, tuple[str, Expr]] = {}
        windows = self._windows(message.expressions, n_inputs, set(wanted), scope)
        for position in sorted(set(wanted)):
            if position < n_inputs:
                continue
            n_columns = n_inputs + len(message.expressions)
            if position >= n_columns:
                raise PlanError(f"the projection emits column {position}, but has {n_columns}")
            self.expressions.windows = windows.values
            expr = self.expressions.read(message.expressions[position - n_inputs], scope)
            name = expr.name if isinstance(expr, Column) else self.names.new(_name_of(expr))
            computed[position] = (name, expr)
        columns = [computed[i][0] if i >= n_inputs else child.columns[i] for i in wanted]
        if all(isinstance(expr, Column) for _, expr in computed.values()):
            return Relation(scope.node, columns)
        expressions: dict[str, Expr] = {child.columns[i]: col(child.columns[i]) for i in wanted if i < n_inputs}
        expressions.update(computed[i] for i in wanted if i >= n_inputs)
        node = project(self.ids.new(), scope.node, list(expressions), list(expressions.values()))
        return Relation(node, columns)

    def _windows(self, expressions: Sequence[Any], n_inputs: int, wanted: set[int], scope: Scope) -> WindowReader:
        """Compute the window functions among a projection's expressions below it."""
        windows = WindowReader(self.expressions, self.ids, self.names, scope)
        for position, expression in enumerate(expressions, n_inputs):
            for function in window_functions(expression, self.by_datafusion) if position in wanted else ():
                windows.read(function, function.partitions, function.sorts)
        scope.node = windows.node()
        return windows

    def _filter(self, message: Any) -> Relation:
        child = self.read(message.input)
        scope = child.scope()
        predicate = self.expressions.read(message.condition, scope)
        return Relation(filter_rows(self.ids, scope.node, predicate), child.columns)

    def _aggregate(self, message: Any) -> Relation:
        child = self.read(message.input)
        scope = child.scope()
        written, sets = self._groupings(message)
        has_sets = len(sets) > 1 or message.common.hint.alias == GROUPING_SET
        expressions = [self.expressions.read(part, scope) for part in written]
        if has_sets and self.by_datafusion:
            first_positions = _match_keys(written, sets)
        else:
            # An expression in several sets is listed several times.
            first_positions = [next(i for i, b in enumerate(expressions) if same(a, b)) for a in expressions]
        keys: list[tuple[str, Expr]] = []
        numbers: dict[int, int] = {}
        for first, expr in enumerate(expressions):
            if first_positions[first] == first:
                numbers[first] = len(keys)
                is_free = isinstance(expr, Column) and all(expr.name != name for name, _ in keys)
                keys.append((_name_of(expr) if is_free else self.names.new(_name_of(expr)), expr))
        first_positions = [numbers[first] for first in first_positions]
        calls = [self._measure(measure, scope) for measure in message.measures]
        key_names = [name for name, _ in keys]
        columns = [key_names[i] for i in first_positions]
        grouping_sets, grouping_id, set_ids = None, None, None
        if has_sets:
            grouping_sets = tuple(tuple(dict.fromkeys(first_positions[i] for i in part)) for part in sets)
            if self.by_datafusion:
                # DataFusion outputs the distinct keys, then an internal grouping id, which only GROUPING() reads.
                grouping_id = self.names.new(GROUPING_ID)
                columns = [*key_names, grouping_id]
            elif len(sets) > 1:
                # By the standard the last column is the number of the row's set.
                grouping_id, set_ids = self.names.new(GROUPING_ID), self.names.new("grouping_set")
        schema = aggregate_schema(keys, calls, scope.schema)
        if grouping_id is not None:
            schema = schema.insert(len(keys), pa.field(grouping_id, pa.int64()))
        node = Aggregate(self.ids.new(), schema, scope.node, tuple(keys), tuple(calls), grouping_sets, grouping_id)
        columns += [call.name for call in calls]
        if set_ids is None:
            return Relation(node, columns)
        # The set's number is in the bits above those of the keys.
        unit, id_ = 1 << len(keys), col(grouping_id or "")
        position = Cast(Call("divide", (id_ - id_ % unit, lit(unit))), pa.int32())
        return Relation(add_columns(self.ids.new(), node, {set_ids: position}), [*columns, set_ids])

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

    def _measure(self, message: Any, scope: Scope) -> AggregateCall:
        function = message.measure
        written, arguments = self.expressions.aggregate(function, scope)
        # The exact result is a valid approximate one.
        is_count = written == "approx_distinct"
        name = "count" if is_count else written if written == "nth_value" else aggregate_name(written)
        if function.phase not in (0, 3):
            raise PlanError("aggregates in partial phases cannot be read; give the plan before it is made distributed")
        if name == "nth_value":
            name, arguments = _end_of_list(arguments)
        distinct = is_count or function.invocation == _DISTINCT
        if name == "count" and not distinct:
            arguments = tuple(a for a in arguments if not (isinstance(a, Literal) and a.value is not None))
        if name in ("sum", "avg"):
            arguments = tuple(_drop_widening(a, scope.schema, name == "avg") for a in arguments)
        where = self.expressions.read(message.filter, scope) if message.HasField("filter") else None
        wish = _name_of(arguments[0]) if arguments else "rows"
        keys, order = self._order(function.sorts, scope)
        words = stands_for(keys)
        if words:
            name, keys, order = words[0], keys[1:], order[1:]
            distinct = distinct or "distinct" in words
            arguments += tuple(Literal(float(word), pa.float64()) for word in words[1:] if word != "distinct")
        return AggregateCall(self.names.new(f"{name}_{wish}"), name, (*arguments, *keys), distinct, where, order)

    def _order(self, sorts: Any, scope: Scope) -> tuple[tuple[Expr, ...], tuple[tuple[bool, bool], ...]]:
        """Expressions to order by, and for each (descending, nulls first)."""
        for sort in sorts:
            if sort.direction not in DIRECTIONS:
                raise PlanError("clustered or custom sort orders are not supported")
        keys = tuple(self.expressions.read(sort.expr, scope) for sort in sorts)
        return keys, tuple(DIRECTIONS[sort.direction] for sort in sorts)

    def _sort(self, message: Any) -> Relation:
        child = self.read(message.input)
        scope = child.scope()
        keys: list[SortKey] = []
        computed: dict[str, Expr] = {}
        for expr, (descending, nulls_first) in zip(*self._order(message.sorts, scope), strict=True):
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
        return Relation(OrderBy(self.ids.new(), node.schema, node, tuple(keys)), child.columns)

    def _fetch(self, message: Any) -> Relation:
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
        computed = apply_computed_limit(self.ids, self.names, child.node, self.parts, limits["count_expr"])
        if computed is not None:
            return Relation(computed, child.columns)
        node = Limit(self.ids.new(), child.node.schema, child.node, limits["count_expr"], limits["offset_expr"] or 0)
        return Relation(node, child.columns)

    def _limit(self, message: Any, scope: Scope) -> int | None:
        """A number of rows; None is all. A negative number means all rows: -1, or a number that overflowed."""
        value = self.expressions.read(message, scope)
        if not isinstance(value, Literal) or not (value.value is None or type(value.value) is int):
            raise PlanError("LIMIT and OFFSET take constants only")
        return value.value if value.value is None or value.value >= 0 else None

    def _set(self, message: Any) -> Relation:
        inputs = [self.exact(self.read(part)) for part in message.inputs]
        if len(inputs) < 2:
            raise PlanError(f"a set operation needs two inputs or more, not {len(inputs)}")
        only_counted = all(len(node.schema) == 0 for node in inputs)
        if only_counted:
            row, true = self.names.new("row"), Literal(True, pa.bool_())
            inputs = [project(self.ids.new(), node, [row], [true]) for node in inputs]
        node = self._set_operation(message.op, inputs)
        return Relation(node, [] if only_counted else list(node.schema.names))

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

    def _exchange(self, message: Any) -> Relation:
        """An exchange among the drivers of this process. Distribution to other processes is ignored."""
        child = self.read(message.input)
        kind = message.WhichOneof("exchange_kind")
        if kind == "scatter_by_fields":
            scope = child.scope()
            keys = [self.expressions.field(field, scope) for field in message.scatter_by_fields.fields]
            names = tuple(dict.fromkeys(key.name for key in keys if isinstance(key, Column)))
            if names:
                node = LocalPartition(self.ids.new(), child.node.schema, child.node, "hash", names)
                return Relation(node, child.columns)
        if kind == "round_robin":
            return Relation(LocalPartition(self.ids.new(), child.node.schema, child.node, "round_robin"), child.columns)
        if kind == "broadcast":
            raise PlanError("a broadcast exchange is not supported: this process would get every row once a target")
        return child

    def _window(self, message: Any) -> Relation:
        child = self.read(message.input)
        windows = WindowReader(self.expressions, self.ids, self.names, child.scope())
        for function in message.window_functions:
            windows.read(function, message.partition_expressions, message.sorts)
        node = windows.node()
        added = [windows.values[window_key(function)] for function in message.window_functions]
        names = [expr.name if isinstance(expr, Column) else self.names.new(_name_of(expr)) for expr in added]
        if not all(isinstance(expr, Column) for expr in added):
            kept = child.columns
            node = project(self.ids.new(), node, [*kept, *names], [*map(col, kept), *added])
        return Relation(node, [*child.columns, *names])

    def _top_n(self, message: Any) -> Relation:
        if message.mode not in (0, 1):
            raise PlanError("a top-n with ties is not supported yet")
        ordered = self._sort(message)
        limits = [
            self._limit(getattr(message, name), ordered.scope()) if message.HasField(name) else None
            for name in ("offset", "count")
        ]
        node = Limit(self.ids.new(), ordered.node.schema, ordered.node, limits[1], limits[0] or 0)
        return Relation(node, ordered.columns)

    def _reference(self, message: Any) -> Relation:
        """A relation that is written once and used in several places. Each use has its own columns."""
        ordinal = message.subtree_ordinal
        if not 0 <= ordinal < len(self.subtrees) or self.subtrees[ordinal] is None:
            raise PlanError(f"relation {ordinal} is referred to, but the plan has {len(self.subtrees)}")
        name = f"reference {ordinal}"
        if name in self._path:
            raise PlanError(f"relation {ordinal} refers to itself")
        self._path.append(name)
        try:
            part = SharedPart(lambda ids, names: self.exact(self.read(self.subtrees[ordinal])), COPIES_MAX)
            node = self._references.setdefault(ordinal, part)(self.ids, self.names)
            return Relation(node, node.schema.names)
        finally:
            self._path.pop()

    # --- parts ---

    def _subquery(self, message: Any, scope: Scope) -> Expr:
        kind = message.WhichOneof("subquery_type")
        if kind == "scalar":
            return self._scalar_subquery(message.scalar, scope)
        if kind == "in_predicate":
            return self._in_subquery(message.in_predicate, scope)
        if kind == "set_predicate":
            return self._set_predicate(message.set_predicate, scope)
        raise PlanError("a comparison with ANY or ALL of a subquery is not supported yet; use min, max or EXISTS")

    def _frontend_call(self, name: str, arguments: tuple[Expr, ...], scope: Scope) -> Expr:
        """A call that the frontend wrote in first_positions of a subquery, or of an outer column in one."""
        scope.node, value = self.cut.value(name, arguments, scope.node, self.ids, self.names)
        return value

    def _scalar_subquery(self, message: Any, scope: Scope) -> Expr:
        value = self.read(message.input)
        if len(value.columns) != 1:
            raise PlanError(f"a scalar subquery must give one column, not {len(value.columns)}")
        node = self.exact(value)
        if not gives_one_row(node):
            node = EnforceSingleRow(self.ids.new(), node.schema, node)
        return self._join_value(node, scope)

    def _join_value(self, node: PlanNode, scope: Scope) -> Expr:
        """The value of a node of one row and one column, joined to every row of the scope."""
        scope.node = NestedLoopJoin(
            self.ids.new(), join_schema("inner", scope.node.schema, node.schema), scope.node, node, "inner"
        )
        return Column(node.schema.names[0])

    def _in_subquery(self, message: Any, scope: Scope) -> Expr:
        """IN as a value: true, false, or unknown among nulls."""
        if len(message.needles) != 1:
            raise PlanError(f"({len(message.needles)} columns) IN (subquery) is not supported yet; use EXISTS")
        values = self.read(message.haystack)
        if len(values.columns) != 1:
            raise PlanError(f"the subquery of IN must give one column, not {len(values.columns)}")
        node = self.exact(values)
        needle = self.expressions.read(message.needles[0], scope)
        if not isinstance(needle, Column):
            name = self.names.new("needle")
            scope.node = add_columns(self.ids.new(), scope.node, {name: needle})
            needle = Column(name)
        mark = self.names.new("mark")
        found = Call("equal", (needle, col(node.schema.names[0])))
        scope.node = make_join(self.ids, "null_aware_mark", scope.node, node, [found], mark)
        return Column(mark)

    def _set_predicate(self, message: Any, scope: Scope) -> Expr:
        """EXISTS and UNIQUE as values."""
        node = self.exact(self.read(message.tuples))
        if message.predicate_op != _EXISTS:
            raise PlanError("UNIQUE (subquery) is not supported yet; compare count(*) with count(distinct …)")
        first = Limit(self.ids.new(), node.schema, node, 1)
        name = self.names.new("count")
        count_call = AggregateCall(name, "count")
        schema = aggregate_schema((), (count_call,), first.schema)
        count = Aggregate(self.ids.new(), schema, first, (), (count_call,))
        return Call("greater", (self._join_value(count, scope), Literal(0, pa.int64())))


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


def _name_of(expr: Expr) -> str:
    """A readable name for a computed column."""
    while isinstance(expr, Cast):
        expr = expr.argument
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Call):
        return expr.function
    return type(expr).__name__.lower()


def _end_of_list(arguments: tuple[Expr, ...]) -> tuple[str, tuple[Expr, ...]]:
    """The aggregate for array_agg(x)[n], which the planner writes as nth_value(x, n)."""
    ends = {1: "first", -1: "last"}
    number = arguments[1].value if isinstance(arguments[1], Literal) else None
    if number not in ends:
        raise PlanError("only the first and the last element, [-1], of array_agg(…)[n] are supported; use a subquery")
    return ends[number], arguments[:1]


def _drop_widening(argument: Expr, schema: pa.Schema, exact: bool) -> Expr:
    """The argument of sum or avg without a widening cast of integers: both functions widen integers themselves."""
    if isinstance(argument, Cast) and (pa.types.is_integer(argument.to) or exact):
        from_type = expr_type(argument.argument, schema)
        if exact and pa.types.is_integer(from_type) and argument.to == pa.float64():
            return argument.argument
        if pa.types.is_signed_integer(from_type) and argument.to == pa.int64():
            return argument.argument
    return argument
