"""PlanBuilder: plans written step by step in Python. SPEC Q1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from qcore.builder.aggregate_steps import AggregateSteps
from qcore.builder.plan_steps import Expression, check_boolean, in_step, listed
from qcore.builder.set_steps import SetSteps
from qcore.builder.sink_steps import STEP_OF, SinkSteps
from qcore.builder.user_steps import UserSteps
from qcore.builder.window_steps import WindowSteps
from qcore.connectors.base import check_policy
from qcore.errors import PlanError
from qcore.expression.tree import Expr, col, conjuncts, substitute
from qcore.plan.joins import join_on_keys
from qcore.plan.naming import ColumnNames, NodeIds, fresh_ids, with_ids
from qcore.plan.nodes import (
    EnforceSingleRow,
    Filter,
    Limit,
    LocalPartition,
    OrderBy,
    PlanNode,
    Project,
    Scan,
    Sink,
    SortKey,
    TopN,
    Unnest,
    Values,
)
from qcore.plan.schema import (
    JOIN_KINDS,
    LEFT_ONLY,
    MARK,
    MARK_KINDS,
    check_column,
    check_unique,
    join_schema,
    project_schema,
    unknown,
    unnest_schema,
    without_metadata,
)

# Lists unnested side by side.
UNNESTED_MAX = 16
_HOW = {"semi": "left_semi", "anti": "left_anti", "outer": "full", "cross": "inner"}


class PlanBuilder(AggregateSteps, WindowSteps, SetSteps, UserSteps, SinkSteps):
    """Builds a plan; every step gives a new builder, so that one may be continued in several ways.

    Expressions are col() and lit() combined with operators, a column's name, or SQL text (which needs the `sql` extra).
    Nodes are numbered "0", "1", …; a scan's id is its table's name unless `id` says otherwise.

    Parameters
    ----------
    tables : mapping of str to source or pyarrow.Schema, optional
        What scan() may name without giving a schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> plan = (
    ...     PlanBuilder()
    ...     .values(pa.table({"k": ["a", "b", "a"], "x": [1, 2, 3]}))
    ...     .filter(col("x") > 0)
    ...     .aggregate(keys=["k"], aggs={"s": ("sum", "x"), "n": ("count",)})
    ...     .order_by(["s desc"])
    ...     .build()
    ... )
    >>> plan.schema.names
    ['k', 's', 'n']
    """

    def __init__(self, tables: Mapping[str, Any] | None = None) -> None:
        self._tables: Mapping[str, Any] = {} if tables is None else tables
        self._node: PlanNode | None = None
        # Scans whose ids nobody chose; like numbers, they may be changed when plans are joined.
        self._free_ids: frozenset[str] = frozenset()

    # --- sources ---

    def scan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        source: Any = None,
        id: str | None = None,
        on_schema_change: str | None = None,
    ) -> PlanBuilder:
        """Read a table.

        Parameters
        ----------
        table : str
            Its name: a table of the session that runs the plan, unless `source` is given.
        columns : list of str, optional
            Only these, in this order; by default all.
        schema : pyarrow.Schema, optional
            The table's columns. Not needed with `source`, or when the builder knows the table.
        source : path, Arrow data, frame or Table, optional
            Where the rows are. Without it a Task's user adds every split by hand.
        id : str, optional
            The node's id, for Task.add_split; by default the table's name.
        on_schema_change : {'evolve', 'error'}, optional
            When files, or splits, have different schemas. 'evolve': columns are matched by name, narrower types are
            widened (qcore_ext.data.widening has the rules), a missing column is null, one that is not declared is left
            out. 'error': any difference is a SchemaChangeError. By default a table's files evolve; of a file added by
            hand every declared column must be there, and is cast.
        """
        self._expect_no_input("scan")
        check_policy(on_schema_change)
        where = f"scan of {table!r}"
        if source is None and schema is None:
            known = self._tables.get(table)
            if isinstance(known, pa.Schema):
                schema = known
            elif known is not None:
                source = known
            elif self._tables:
                raise unknown("table", table, self._tables, "scan()")
            else:
                raise PlanError(f"{where} needs schema=… or source=…: columns are known before anything runs")
        if source is not None:
            from qcore.connectors.sources import table_from

            source = table_from(source, on_schema_change)
            schema = source.schema if schema is None else schema
        assert schema is not None
        names = list(schema.names) if columns is None else list(columns)
        for name in names:
            check_column(name, schema, where)
        check_unique(names, where)
        own = without_metadata(pa.schema([schema.field(name) for name in names]))
        node_id = table if id is None else id
        free = frozenset({node_id}) if id is None else frozenset()
        scan = Scan(node_id, own, table, source, tuple(names), on_schema_change=on_schema_change)
        return self._with(scan, free)

    def values(self, data: Any, id: str | None = None, trusted: bool = False) -> PlanBuilder:
        """Rows held in memory: a pyarrow Table or RecordBatch, or anything with `__arrow_c_stream__`.

        They are checked, so that a wrong offset in them is an ExecutionError; `trusted=True` leaves that out.
        """
        from qcore.connectors.soundness import SoundColumns
        from qcore.connectors.sources import table_of_stream

        self._expect_no_input("values")
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        elif not isinstance(data, pa.Table):
            if not hasattr(data, "__arrow_c_stream__"):
                raise PlanError(f"values() takes Arrow data, not a {type(data).__name__}")
            data = table_of_stream(data, trusted)
        check_unique(data.column_names, "values()")
        if not trusted:
            SoundColumns.of(data).require(data, data.column_names, 0, data.num_rows)
        schema = without_metadata(data.schema)
        if not data.schema.equals(schema, check_metadata=True):
            data = data.cast(schema)
        return self._continued(Values(id or self._new_id(), schema, data))

    # --- one input ---

    def filter(self, predicate: Expression, id: str | None = None) -> PlanBuilder:
        """Rows where `predicate` is true."""
        node = self._input("filter")
        where = "filter()"
        expr = self._expression(predicate, node.schema, where)
        check_boolean(expr, node.schema, where)
        return self._continued(Filter(id or self._new_id(), node.schema, node, expr))

    def project(
        self,
        columns: Mapping[str, Expression] | Sequence[Expression] | Expression,
        *more: Expression,
        id: str | None = None,
    ) -> PlanBuilder:
        """Columns: {"x": col("a") * 2}, or ["a", col("b").alias("c"), "a * 2 as x"], or the latter as arguments."""
        node = self._input("project")
        named: list[tuple[str, Expr]] = []
        if isinstance(columns, Mapping):
            if more:
                raise PlanError("project() takes one mapping, or a list, or columns one by one")
            for name, value in columns.items():
                named.append((name, self._expression(value, node.schema, f"project(), column {name!r}")))
        else:
            listed = [columns] if isinstance(columns, (Expr, str)) else list(columns)
            for i, value in enumerate([*listed, *more]):
                named.append(self._named(value, node.schema, f"project(), column {i + 1}"))
        names = [name for name, _ in named]
        check_unique(names, "project()")
        expressions = tuple(expr for _, expr in named)
        schema = in_step("project()", lambda: project_schema(names, expressions, node.schema))
        return self._continued(Project(id or self._new_id(), schema, node, expressions))

    def enforce_single_row(self, id: str | None = None) -> PlanBuilder:
        """What a scalar subquery gives: the one row, nulls when there is none, an error when there are more."""
        node = self._input("enforce_single_row")
        return self._continued(EnforceSingleRow(id or self._new_id(), node.schema, node))

    def unnest(
        self,
        lists: Mapping[str, str] | Sequence[str] | str,
        outer: bool = False,
        ordinality: str | None = None,
        id: str | None = None,
    ) -> PlanBuilder:
        """A row for each element of a list or entry of a map; the columns beside it are repeated.

        Parameters
        ----------
        lists : str, list of str, or dict of str to str
            List columns, each replaced in its place by its elements; a dict names those. Several are unnested side by
            side, the shorter ones filled up with nulls. Entries of a map are structs of key and value.
        outer : bool
            Keep rows whose lists are all empty or null, with nulls; by default they give no row.
        ordinality : str, optional
            Name of one more column, the last: each element's number in its list, from 1.
        """
        node = self._input("unnest")
        where = "unnest()"
        listed = [lists] if isinstance(lists, str) else list(lists)
        pairs = tuple((name, lists[name] if isinstance(lists, Mapping) else name) for name in listed)
        if not 1 <= len(pairs) <= UNNESTED_MAX:
            raise PlanError(f"{where} takes 1 to {UNNESTED_MAX} lists, not {len(pairs)}")
        for name in listed:
            check_column(name, node.schema, where)
        check_unique(listed, where)
        schema = in_step(where, lambda: unnest_schema(node.schema, pairs, ordinality))
        check_unique(schema.names, where)
        return self._continued(Unnest(id or self._new_id(), schema, node, pairs, outer, ordinality))

    def order_by(self, keys: Sequence[str | SortKey] | str | SortKey, id: str | None = None) -> PlanBuilder:
        """All rows in order: ["s desc", "t asc nulls first"]. Nulls come last unless said otherwise."""
        node = self._input("order_by")
        sort = self._sort_keys(keys, node.schema, "order_by()")
        return self._continued(OrderBy(id or self._new_id(), node.schema, node, sort))

    def top_n(
        self, keys: Sequence[str | SortKey] | str | SortKey, count: int, offset: int = 0, id: str | None = None
    ) -> PlanBuilder:
        """The first `count` rows of the order, after skipping `offset`."""
        node = self._input("top_n")
        _check_count("top_n()", count, offset)
        sort = self._sort_keys(keys, node.schema, "top_n()")
        return self._continued(TopN(id or self._new_id(), node.schema, node, sort, count, offset))

    def limit(self, count: int | None, offset: int = 0, id: str | None = None) -> PlanBuilder:
        """At most `count` rows (None: all) after skipping `offset`."""
        node = self._input("limit")
        _check_count("limit()", count, offset)
        return self._continued(Limit(id or self._new_id(), node.schema, node, count, offset))

    def local_partition(
        self, keys: Sequence[str] = (), kind: str | None = None, drivers: int | None = None, id: str | None = None
    ) -> PlanBuilder:
        """Redistribute rows among drivers (SPEC V2): by the hash of `keys`; else in turn, or all to one ("gather")."""
        node = self._input("local_partition")
        keys = [keys] if isinstance(keys, str) else list(keys)
        kind = kind or ("hash" if keys else "round_robin")
        if kind not in ("hash", "round_robin", "gather"):
            raise unknown("kind", kind, ("hash", "round_robin", "gather"), "local_partition()")
        if (kind == "hash") != bool(keys):
            raise PlanError(f"local_partition() of kind {kind} takes {'keys' if kind == 'hash' else 'no keys'}")
        for key in keys:
            check_column(key, node.schema, "local_partition()")
        made = LocalPartition(id or self._new_id(), node.schema, node, kind, tuple(keys), drivers)
        return self._continued(made)

    # --- two inputs ---

    def hash_join(
        self,
        other: PlanBuilder | PlanNode,
        left_on: Sequence[Expression] | Expression,
        right_on: Sequence[Expression] | Expression | None = None,
        how: str = "inner",
        condition: Expression | None = None,
        suffix: str | None = None,
        id: str | None = None,
    ) -> PlanBuilder:
        """Join on equal keys; `other` is the build side.

        Parameters
        ----------
        other : PlanBuilder or PlanNode
            The right input.
        left_on, right_on : column names or expressions
            Keys, pairwise; keys of different types are converted to their common type. `right_on` is by default as
            `left_on`.
        how : str
            inner, left, right, full, left_semi (semi), right_semi, left_anti (anti), right_anti, null_aware_anti,
            mark or null_aware_mark.
        condition : Expr or str, optional
            What must hold beside equal keys, over the columns of both sides.
        suffix : str, optional
            Added to the right columns whose names the left has too; without it such names are an error.
        """
        left, right, free = self._both("hash_join", other)
        kind = _kind(how, "hash_join()")
        left_keys = listed(left_on)
        right_keys = left_keys if right_on is None else listed(right_on)
        if len(left_keys) != len(right_keys):
            raise PlanError(f"hash_join() has {len(left_keys)} left keys and {len(right_keys)} right keys")
        if not left_keys:
            raise PlanError("hash_join() needs a key; nested_loop_join() takes any condition")
        a = [self._expression(key, left.schema, "hash_join(), left_on") for key in left_keys]
        b = [self._expression(key, right.schema, "hash_join(), right_on") for key in right_keys]
        right, renamed = _told_apart(left, right, kind, suffix, condition is not None, "hash_join()")
        b = [_renamed_columns(key, renamed) for key in b]
        rest = self._join_condition(condition, left, right, "hash_join()")
        return self._joined(kind, left, right, list(zip(a, b, strict=True)), rest, id, free)

    def nested_loop_join(
        self,
        other: PlanBuilder | PlanNode,
        condition: Expression | None = None,
        how: str = "inner",
        suffix: str | None = None,
        id: str | None = None,
    ) -> PlanBuilder:
        """Join on any condition; without one, the cross product. Kinds and suffix as hash_join()'s."""
        left, right, free = self._both("nested_loop_join", other)
        kind = _kind(how, "nested_loop_join()")
        right, _ = _told_apart(left, right, kind, suffix, condition is not None, "nested_loop_join()")
        rest = self._join_condition(condition, left, right, "nested_loop_join()")
        return self._joined(kind, left, right, [], rest, id, free)

    def build(self) -> PlanNode:
        """The plan."""
        return self._input("build")

    # --- parts ---

    def _with(self, node: PlanNode, free_ids: frozenset[str]) -> PlanBuilder:
        made = PlanBuilder(self._tables)
        made._node = node
        made._free_ids = free_ids
        return made

    def _continued(self, node: PlanNode) -> PlanBuilder:
        ids = [below.id for below in node.walk()]
        if ids.count(node.id) > 1:
            raise PlanError(f"two nodes of the plan have the id {node.id!r}; give one another id")
        return self._with(node, self._free_ids)

    def _new_id(self, nodes: Sequence[PlanNode] = ()) -> str:
        roots = [*nodes, *([] if self._node is None else [self._node])]
        return NodeIds(below.id for root in roots for below in root.walk()).new()

    def _input(self, step: str) -> PlanNode:
        if self._node is None:
            raise PlanError(f"{step}() needs an input: start with scan() or values()")
        if isinstance(self._node, Sink) and step != "build":
            raise PlanError(f"{step}() after {STEP_OF[type(self._node)]}(): a sink ends the plan")
        return self._node

    def _expect_no_input(self, step: str) -> None:
        if self._node is not None:
            raise PlanError(f"{step}() starts a plan; combine plans with hash_join() or union_all()")

    def _both(
        self, step: str, other: PlanBuilder | PlanNode, nodes: Sequence[PlanNode] = ()
    ) -> tuple[PlanNode, PlanNode, frozenset[str]]:
        """This plan and the other with no id in common, and the ids nobody chose."""
        left = self._input(step)
        if isinstance(other, PlanBuilder):
            right, free = other._input(step), other._free_ids
        elif isinstance(other, PlanNode):
            right, free = other, frozenset()
        else:
            raise PlanError(f"{step}() takes a PlanBuilder or a plan, not a {type(other).__name__}")
        taken = {node.id for root in (left, *nodes) for node in root.walk()}
        fresh = fresh_ids(right, free, taken)
        return left, with_ids(right, fresh), self._free_ids | frozenset(fresh.get(id, id) for id in free)

    def _joined(
        self,
        kind: str,
        left: PlanNode,
        right: PlanNode,
        pairs: list[tuple[Expr, Expr]],
        rest: list[Expr],
        id: str | None,
        free: frozenset[str],
    ) -> PlanBuilder:
        mark = MARK
        while mark in left.schema.names:
            mark += "_1"
        ids = NodeIds(node.id for root in (left, right) for node in root.walk())
        if id is not None and not ids.take(id):
            raise PlanError(f"two nodes of the plan have the id {id!r}; give one another id")
        wanted = join_schema(kind, left.schema, right.schema, mark)
        node: PlanNode = in_step("join()", lambda: join_on_keys(ids, kind, left, right, pairs, rest, mark, id))
        if node.schema.names != wanted.names:
            # Converted keys were added below.
            picked = tuple(col(name) for name in wanted.names)
            node = Project(ids.new(), wanted, node, picked)
        return self._with(node, free)

    def _join_condition(self, condition: Expression | None, left: PlanNode, right: PlanNode, where: str) -> list[Expr]:
        if condition is None:
            return []
        both = join_schema("inner", left.schema, right.schema)
        expr = self._expression(condition, both, f"{where}, condition")
        check_boolean(expr, both, f"{where}, condition")
        return conjuncts(expr)


def _kind(how: str, where: str) -> str:
    kind = _HOW.get(how, how)
    if kind not in JOIN_KINDS:
        raise unknown("kind of join", how, (*JOIN_KINDS, *_HOW), where)
    return kind


def _check_count(where: str, count: int | None, offset: int) -> None:
    for name, value in (("count", count), ("offset", offset)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise PlanError(f"{where}: {name} must be a whole number of 0 or more, not {value!r}")


def _renamed_columns(expr: Expr, names: Mapping[str, str]) -> Expr:
    return substitute(expr, {old: col(new) for old, new in names.items()}) if names else expr


def _told_apart(
    left: PlanNode, right: PlanNode, kind: str, suffix: str | None, has_condition: bool, where: str
) -> tuple[PlanNode, dict[str, str]]:
    """The right input with other names for columns the left has too, and what was renamed."""
    shared = [name for name in right.schema.names if name in left.schema.names]
    if not shared:
        return right, {}
    hidden = kind in LEFT_ONLY or kind in MARK_KINDS
    if suffix is None and (has_condition or not hidden):
        raise PlanError(
            f"{where}: both inputs have a column {shared[0]!r}; give suffix=…, or rename one with project()"
        )
    new_names = ColumnNames([*left.schema.names, *right.schema.names])
    names = {name: name + suffix if suffix is not None else new_names.new(name) for name in shared}
    new = [names.get(name, name) for name in right.schema.names]
    check_unique([*left.schema.names, *new], where)
    schema = pa.schema([field.with_name(name) for field, name in zip(right.schema, new, strict=True)])
    ids = NodeIds(node.id for root in (left, right) for node in root.walk())
    return Project(ids.new(), schema, right, tuple(map(col, right.schema.names))), names
