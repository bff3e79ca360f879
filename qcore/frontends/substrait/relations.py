"""Substrait relations → plan nodes. Floor P2.

Substrait counts columns, plans name them. Every column made here gets a name no other column of the plan has, so that
joins never clash; a projection that only picks and reorders columns becomes no node, only another list of names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from qcore.expression import Call, Case, Cast, Column, Expr, Literal, col, column_names, conjuncts, same, substitute
from qcore.frontends.substrait.dropped import (
    FETCH_COUNT,
    FETCH_OFFSET,
    GROUPING_EXPRESSIONS,
    as_message,
    dropped_fields,
)
from qcore.frontends.substrait.expressions import ExpressionReader, Scope
from qcore.frontends.substrait.functions import GROUPING_ID, aggregate_name
from qcore.frontends.substrait.reads import TableRead, read_positions, read_table
from qcore.frontends.substrait.windows import DIRECTIONS, WindowReader
from qcore.functions import expr_type
from qcore.joins import conjunction, make_join
from qcore.naming import ColumnNames, NodeIds
from qcore.plan import (
    Aggregate,
    AggregateCall,
    EnforceSingleRow,
    Filter,
    Limit,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    SortKey,
    TopN,
)
from qcore.schema import aggregate_schema, join_schema, project_schema
from qcore.set_operations import distinct, make_set_operation, union_all, with_common_types
from qcore_ext.ground.status import PlanError

# What sql.py writes into the hint of an anti join that Substrait cannot tell from NOT EXISTS.
NULL_AWARE = "null_aware"
# … and of an aggregate whose one grouping set Substrait cannot tell from a plain GROUP BY.
GROUPING_SET = "grouping_set"

_JOIN_KINDS = {
    1: "inner",
    2: "full",
    3: "left",
    4: "right",
    5: "left_semi",
    6: "left_anti",
    8: "right_semi",
    9: "right_anti",
    11: "mark",
}
_JOIN_NAMES = {7: "left single", 10: "right single", 12: "right mark"}
_UNION_DISTINCT, _UNION_ALL = 5, 6
# What is done with the first input, and how the further ones come together before that; None: one after the other.
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


@dataclass
class Relation:
    """A relation as read: `columns` name its columns, in order, within `node`'s schema; the node may have more."""

    node: PlanNode
    columns: list[str]

    def scope(self) -> Scope:
        """For the expressions over this relation."""
        return Scope(self.node, self.columns)


# Plans that stand for tables, by name: made anew wherever one is read, with names and ids of its own.
Parts = Mapping[str, Callable[[NodeIds, ColumnNames], PlanNode]]


class RelationReader:
    """Reads the relations of one plan.

    `functions` are names by anchor, `schemas` the tables there are, `parts` plans that stand for some of them. Plans
    that become one share their `naming`.
    """

    def __init__(
        self,
        functions: Mapping[int, str],
        schemas: Mapping[str, pa.Schema] | None,
        by_datafusion: bool = False,
        parts: Parts | None = None,
        naming: tuple[NodeIds, ColumnNames] | None = None,
    ) -> None:
        self.ids, self.names = naming or (NodeIds(), ColumnNames())
        self.schemas = schemas
        self.parts: Parts = parts or {}
        self.files: dict[str, list[str]] = {}
        self.by_datafusion = by_datafusion
        self.expressions = ExpressionReader(functions, self._subquery)
        self._readers: dict[str, Callable[[Any], Relation]] = {
            "read": self._read,
            "project": self._project,
            "filter": self._filter,
            "join": self._join,
            "cross": self._cross,
            "aggregate": self._aggregate,
            "sort": self._sort,
            "fetch": self._fetch,
            "set": self._set,
        }

    def read(self, message: Any) -> Relation:
        """The relation of a Rel message."""
        kind = message.WhichOneof("rel_type")
        reader = self._readers.get(kind)
        if reader is None:
            raise PlanError(f"the Substrait relation {kind or 'without a kind'} is not supported yet")
        body = getattr(message, kind)
        relation = reader(body)
        if kind != "project" and body.common.HasField("emit"):
            mapping = body.common.emit.output_mapping
            return Relation(relation.node, [relation.columns[position] for position in mapping])
        return relation

    def exact(self, relation: Relation) -> PlanNode:
        """A node that has the relation's columns and no others, a repeated one under a new name."""
        node, columns = relation.node, relation.columns
        if node.schema.names == columns:
            return node
        seen: set[str] = set()
        names = []
        for name in columns:
            names.append(self.names.new(name) if name in seen else name)
            seen.add(name)
        return self._project_node(node, names, [col(name) for name in columns])

    def renamed(self, node: PlanNode, names: Sequence[str]) -> PlanNode:
        """`node` with the query's own column names, where those are unique; sorting stays on top."""
        if len(set(names)) != len(names) or len(names) != len(node.schema) or list(names) == node.schema.names:
            return node
        schema = pa.schema([field.with_name(name) for field, name in zip(node.schema, names, strict=True)])
        if isinstance(node, Project):
            return replace(node, schema=schema)
        if isinstance(node, Limit):
            return replace(node, schema=schema, child=self.renamed(node.child, names))
        if isinstance(node, (OrderBy, TopN)):
            new = dict(zip(node.schema.names, names, strict=True))
            keys = tuple(replace(key, column=new[key.column]) for key in node.keys)
            return replace(node, schema=schema, child=self.renamed(node.child, names), keys=keys)
        return Project(self.ids.new(), schema, node, tuple(col(name) for name in node.schema.names))

    # --- relations ---

    def _read(self, message: Any) -> Relation:
        table = self._part(message) or read_table(message, self.schemas, self.ids, self.names, self.files)
        node, columns = table.node, table.columns
        for name in ("filter", "best_effort_filter"):
            # A best-effort filter only prunes; the plan filters again above.
            if name == "filter" and message.HasField(name):
                scope = Scope(node, table.all_columns)
                predicate = self.expressions.read(message.filter, scope)
                node = self._filter_node(scope.node, predicate)
        return Relation(node, columns)

    def _part(self, message: Any) -> TableRead | None:
        """The plan that stands for the named table, if one does."""
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
            expr = windows.values.get(position)
            if expr is None:
                expr = self.expressions.read(message.expressions[position - n_inputs], scope)
            name = expr.name if isinstance(expr, Column) else self.names.new(_name_of(expr))
            computed[position] = (name, expr)
        columns = [computed[i][0] if i >= n_inputs else child.columns[i] for i in wanted]
        if all(isinstance(expr, Column) for _, expr in computed.values()):
            return Relation(scope.node, columns)
        expressions: dict[str, Expr] = {child.columns[i]: col(child.columns[i]) for i in wanted if i < n_inputs}
        expressions.update(computed[i] for i in wanted if i >= n_inputs)
        node = self._project_node(scope.node, list(expressions), list(expressions.values()))
        return Relation(node, columns)

    def _windows(self, expressions: Sequence[Any], n_inputs: int, wanted: set[int], scope: Scope) -> WindowReader:
        """Put the window functions among a projection's expressions below it."""
        windows = WindowReader(self.expressions, self.ids, self.names, scope)
        for position, expression in enumerate(expressions, n_inputs):
            if position in wanted and expression.WhichOneof("rex_type") == "window_function":
                windows.read(position, expression.window_function)
        scope.node = windows.node()
        return windows

    def _filter(self, message: Any) -> Relation:
        child = self.read(message.input)
        scope = child.scope()
        predicate = self.expressions.read(message.condition, scope)
        return Relation(self._filter_node(scope.node, predicate), child.columns)

    def _join(self, message: Any) -> Relation:
        left, right = self.read(message.left), self.read(message.right)
        kind = _JOIN_KINDS.get(message.type)
        if kind is None:
            raise PlanError(f"{_JOIN_NAMES.get(message.type, f'type {message.type}')} joins are not supported yet")
        both = Scope(self._cross_scope(left, right), left.columns + right.columns)
        scope_node = both.node
        conditions: list[Expr] = []
        for name in ("expression", "post_join_filter"):
            if message.HasField(name):
                if name == "post_join_filter" and kind != "inner":
                    raise PlanError("a filter after an outer or semi join, inside the join, is not supported yet")
                conditions += conjuncts(self.expressions.read(getattr(message, name), both))
        left_node = left.node
        if both.node is not scope_node:
            left_node = self._with_values(left.node, both.node, scope_node)
        conditions = [part for part in conditions if not _is_true(part)]
        if message.common.hint.alias == NULL_AWARE:
            return self._null_aware(message, kind, Relation(left_node, left.columns), right, conditions)
        mark = self.names.new("mark") if kind == "mark" else ""
        node = make_join(self.ids, kind, left_node, right.node, conditions, mark)
        if kind in ("left_semi", "left_anti"):
            return Relation(node, left.columns)
        if kind in ("right_semi", "right_anti"):
            return Relation(node, right.columns)
        return Relation(node, left.columns + ([mark] if kind == "mark" else right.columns))

    def _null_aware(
        self, message: Any, kind: str, left: Relation, right: Relation, conditions: Sequence[Expr]
    ) -> Relation:
        """An anti or mark join made of NOT IN or IN: its first condition is that of IN, whose unknown counts; others
        tell which rows of the right input a row of the left is compared with.
        """
        found, *others = conditions or [Literal(True, pa.bool_())]
        is_in = isinstance(found, Call) and found.function == "equal" and right.columns[0] in column_names(found)
        if not is_in or right.columns[0] in set().union(*map(column_names, others)):
            raise PlanError("IN (subquery) over nullable columns cannot be planned here; use EXISTS")
        assert isinstance(found, Call)
        unknown = Call("or", tuple(Call("is_null", (side,)) for side in found.arguments))
        mark = self.names.new("mark")
        if kind == "left_anti" and not others:
            return Relation(make_join(self.ids, "null_aware_anti", left.node, right.node, [found]), left.columns)
        if kind == "left_anti":
            either = [*others, Call("or", (found, *unknown.arguments))]
            return Relation(make_join(self.ids, kind, left.node, right.node, either), left.columns)
        if not others:
            node = make_join(self.ids, "null_aware_mark", left.node, right.node, [found], mark)
            return Relation(node, [*left.columns, mark])
        node = make_join(self.ids, "mark", left.node, right.node, conditions, mark)
        # The second mark has the right input anew, under names of its own.
        again = self.read(message.right)
        names: dict[str, Expr] = {a: col(b) for a, b in zip(right.columns, again.columns, strict=True)}
        unknown_mark, value = self.names.new("mark"), self.names.new("mark")
        compared = [substitute(part, names) for part in (*others, unknown)]
        node = make_join(self.ids, "mark", node, again.node, compared, unknown_mark)
        truth = Case(
            ((col(mark), Literal(True, pa.bool_())), (col(unknown_mark), Literal(None, pa.bool_()))),
            Literal(False, pa.bool_()),
        )
        kept = left.node.schema.names
        return Relation(self._project_node(node, [*kept, value], [*map(col, kept), truth]), [*left.columns, value])

    def _with_values(self, left: PlanNode, above: PlanNode, joined: PlanNode) -> PlanNode:
        """The left input with the values of a join condition's subqueries beside each row, `above` being what reading
        them made of the `joined` inputs.
        """
        if above is joined:
            return left
        if not isinstance(above, NestedLoopJoin):
            raise PlanError("IN (subquery) inside a join condition is not supported yet; put it into WHERE")
        left = self._with_values(left, above.left, joined)
        schema = join_schema("inner", left.schema, above.right.schema)
        return replace(above, left=left, schema=schema)

    def _cross(self, message: Any) -> Relation:
        left, right = self.read(message.left), self.read(message.right)
        return Relation(self._cross_scope(left, right), left.columns + right.columns)

    def _aggregate(self, message: Any) -> Relation:
        child = self.read(message.input)
        scope = child.scope()
        written, sets = self._groupings(message)
        has_sets = len(sets) > 1 or message.common.hint.alias == GROUPING_SET
        expressions = [self.expressions.read(part, scope) for part in written]
        if has_sets and self.by_datafusion:
            place = _places_by_message(written, sets)
        else:
            # One expression may stand in several sets, each time listed anew.
            place = [next(i for i, b in enumerate(expressions) if same(a, b)) for a in expressions]
        keys: list[tuple[str, Expr]] = []
        numbers: dict[int, int] = {}
        for first, expr in enumerate(expressions):
            if place[first] == first:
                numbers[first] = len(keys)
                is_free = isinstance(expr, Column) and all(expr.name != name for name, _ in keys)
                keys.append((_name_of(expr) if is_free else self.names.new(_name_of(expr)), expr))
        place = [numbers[first] for first in place]
        calls = [self._measure(measure, scope) for measure in message.measures]
        key_names = [name for name, _ in keys]
        columns = [key_names[i] for i in place]
        grouping_sets, grouping_id = None, None
        if has_sets:
            grouping_sets = tuple(tuple(dict.fromkeys(place[i] for i in part)) for part in sets)
            if self.by_datafusion:
                # Its columns are the distinct keys, then an internal grouping id, which nothing but GROUPING() reads.
                grouping_id = self.names.new(GROUPING_ID)
                columns = [*key_names, grouping_id]
        schema = aggregate_schema(keys, calls, scope.schema)
        if grouping_id is not None:
            schema = schema.insert(len(keys), pa.field(grouping_id, pa.int64()))
        node = Aggregate(self.ids.new(), schema, scope.node, tuple(keys), tuple(calls), grouping_sets, grouping_id)
        return Relation(node, columns + [call.name for call in calls])

    def _groupings(self, message: Any) -> tuple[list[Any], list[list[int]]]:
        """Messages of key expressions, and the positions of each set's keys among them."""
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
        written = self.expressions.function_name(function.function_reference)
        # An exact answer is as good as the best approximate one.
        is_count = written == "approx_distinct"
        name = "count" if is_count else aggregate_name(written)
        if function.phase not in (0, 3):
            raise PlanError("aggregates in partial phases cannot be read; give the plan before it is made distributed")
        arguments = self.expressions.arguments(function.arguments, scope)
        distinct = is_count or function.invocation == _DISTINCT
        if name == "count" and not distinct:
            arguments = tuple(a for a in arguments if not (isinstance(a, Literal) and a.value is not None))
        if name in ("sum", "avg"):
            arguments = tuple(_unwidened(a, scope.schema) for a in arguments)
        where = self.expressions.read(message.filter, scope) if message.HasField("filter") else None
        wish = _name_of(arguments[0]) if arguments else "rows"
        keys, order = self._order(function.sorts, scope)
        return AggregateCall(self.names.new(f"{name}_{wish}"), name, (*arguments, *keys), distinct, where, order)

    def _order(self, sorts: Any, scope: Scope) -> tuple[tuple[Expr, ...], tuple[tuple[bool, bool], ...]]:
        """Expressions to order by, and (descending, nulls first) of each."""
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
            kept = node.schema.names
            node = self._project_node(node, [*kept, *computed], [*map(col, kept), *computed.values()])
        return Relation(OrderBy(self.ids.new(), node.schema, node, tuple(keys)), child.columns)

    def _fetch(self, message: Any) -> Relation:
        child = self.read(message.input)
        scope = child.scope()
        limits: dict[str, int | None] = {"offset_expr": 0, "count_expr": None}
        for name in limits:
            if message.HasField(name):
                value = self.expressions.read(getattr(message, name), scope)
                if not isinstance(value, Literal):
                    raise PlanError("LIMIT and OFFSET take constants only")
                # -1 means all rows; and offset and count together may have been more than an integer holds.
                limits[name] = value.value if value.value is None or value.value >= 0 else None
        for name, number in (("offset_expr", FETCH_OFFSET), ("count_expr", FETCH_COUNT)):
            for dropped in [] if message.HasField(name) else dropped_fields(message, number):
                # -1, all rows, is a large number where the field is unknown.
                limits[name] = dropped if 0 <= dropped < 1 << 63 else None
        node = Limit(self.ids.new(), child.node.schema, child.node, limits["count_expr"], limits["offset_expr"] or 0)
        return Relation(node, child.columns)

    def _set(self, message: Any) -> Relation:
        inputs = [self.exact(self.read(part)) for part in message.inputs]
        if len(inputs) < 2:
            raise PlanError(f"a set operation needs two inputs or more, not {len(inputs)}")
        only_counted = all(len(node.schema) == 0 for node in inputs)
        if only_counted:
            row, true = self.names.new("row"), Literal(True, pa.bool_())
            inputs = [self._project_node(node, [row], [true]) for node in inputs]
        node = self._set_operation(message.op, inputs)
        return Relation(node, [] if only_counted else list(node.schema.names))

    def _set_operation(self, op: int, inputs: list[PlanNode]) -> PlanNode:
        if op in (_UNION_DISTINCT, _UNION_ALL):
            made = union_all(self.ids, with_common_types(self.ids, "UNION", inputs))
            return made if op == _UNION_ALL else distinct(self.ids, made)
        if op not in _SET_KINDS:
            raise PlanError(f"a set operation of the unknown kind {op} cannot be run")
        kind, together = _SET_KINDS[op]
        first, *others = inputs
        if together == "union":
            others = [union_all(self.ids, with_common_types(self.ids, "a set operation", others))]
        if together == "intersect":
            others = [self._folded("intersect", others)]
        return self._folded(kind, [first, *others])

    def _folded(self, kind: str, inputs: list[PlanNode]) -> PlanNode:
        first, *others = inputs
        for other in others:
            first = make_set_operation(self.ids, self.names, kind, first, other)
        return first

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

    def _scalar_subquery(self, message: Any, scope: Scope) -> Expr:
        value = self.read(message.input)
        if len(value.columns) != 1:
            raise PlanError(f"a scalar subquery must give one column, not {len(value.columns)}")
        node = self.exact(value)
        if not _gives_one_row(node):
            node = EnforceSingleRow(self.ids.new(), node.schema, node)
        return self._beside(node, scope)

    def _beside(self, node: PlanNode, scope: Scope) -> Expr:
        """The one column of the one row of a node, put beside every row."""
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
            name, kept = self.names.new("needle"), scope.node.schema.names
            scope.node = self._project_node(scope.node, [*kept, name], [*map(col, kept), needle])
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
        counted = AggregateCall(name, "count")
        schema = aggregate_schema((), (counted,), first.schema)
        count = Aggregate(self.ids.new(), schema, first, (), (counted,))
        return Call("greater", (self._beside(count, scope), Literal(0, pa.int64())))

    def _cross_scope(self, left: Relation, right: Relation) -> PlanNode:
        schema = join_schema("inner", left.node.schema, right.node.schema)
        return NestedLoopJoin(self.ids.new(), schema, left.node, right.node, "inner")

    def _filter_node(self, node: PlanNode, predicate: Expr) -> PlanNode:
        kept = conjunction([part for part in conjuncts(predicate) if not _is_true(part)])
        if kept is None:
            return node
        type_ = expr_type(kept, node.schema)
        if not pa.types.is_boolean(type_) and not pa.types.is_null(type_):
            raise PlanError(f"the condition {kept!r} is of type {type_}, not boolean")
        return Filter(self.ids.new(), node.schema, node, kept)

    def _project_node(self, node: PlanNode, names: Sequence[str], expressions: Sequence[Expr]) -> PlanNode:
        return Project(self.ids.new(), project_schema(names, expressions, node.schema), node, tuple(expressions))


def _is_true(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is True


def _places_by_message(written: Sequence[Any], sets: Sequence[Sequence[int]]) -> list[int]:
    """For each key of DataFusion's grouping sets, the first of those that are the same key.

    Two columns of one origin are two keys to it, and so are two expressions that it has simplified to one, which a set
    then lists twice.
    """
    place = list(range(len(written)))
    for part in sets:
        taken: set[int] = set()
        for position in part:
            equal = [i for i in range(position) if place[i] == i and written[i] == written[position]]
            free = [i for i in equal if i not in taken]
            if len(equal) > 1 or (equal and not free and len(sets) > 1):
                raise PlanError("grouping sets of two keys that are the same expression are not supported yet")
            place[position] = free[0] if free else position
            taken.add(place[position])
    return place


def _name_of(expr: Expr) -> str:
    """A readable name for a computed column."""
    while isinstance(expr, Cast):
        expr = expr.argument
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Call):
        return expr.function
    return type(expr).__name__.lower()


def _unwidened(argument: Expr, schema: pa.Schema) -> Expr:
    """What a cast between integers casts: sums widen by themselves."""
    if isinstance(argument, Cast) and pa.types.is_integer(argument.to):
        from_type = expr_type(argument.argument, schema)
        if pa.types.is_signed_integer(from_type) and argument.to == pa.int64():
            return argument.argument
    return argument


def _gives_one_row(node: PlanNode) -> bool:
    """Whether the node is sure to give exactly one row."""
    if isinstance(node, Aggregate):
        return not node.keys and node.grouping_sets is None
    return isinstance(node, Project) and _gives_one_row(node.child)
