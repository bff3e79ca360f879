"""PlanBuilder: plans built step by step in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from qcore.builder.aggregate_steps import Agg, aggregate_node
from qcore.builder.arguments import (
    Expression,
    SortKeys,
    in_step,
    read_condition,
    read_expression,
    read_named,
    read_sort_keys,
)
from qcore.builder.join_steps import JoinStep, join_node
from qcore.builder.sink_steps import BUFFER_BYTES, STEP_OF, callback_node, partitioned_output_node, table_write_node
from qcore.builder.source_steps import scan_node, values_node
from qcore.builder.user_steps import user_operator_node, user_sink_node, user_source_node
from qcore.builder.window_steps import WindowSpec, window_nodes
from qcore.errors import PlanError
from qcore.expression.tree import Expr, col
from qcore.plan.naming import ColumnNames, NodeIds, fresh_ids, replace_ids
from qcore.plan.nodes import (
    Aggregate,
    EnforceSingleRow,
    Filter,
    Limit,
    LocalPartition,
    OrderBy,
    PlanNode,
    Project,
    Sink,
    TopN,
    UnionAll,
    Unnest,
)
from qcore.plan.schema import check_column, check_unique, project_schema, same_type, unknown, unnest_schema
from qcore.plan.set_operations import make_set_operation
from qcore.writing.table_write import ROW_GROUP_ROWS

# Lists that one unnest() takes.
UNNESTED_MAX = 16


class PlanBuilder:
    """Builds a plan. Every step returns a new builder, so that one builder can be continued in several ways.

    Expressions are col() and lit() combined with operators, column names, or SQL text (which needs the `sql` extra).
    Node ids are "0", "1", …; a scan's id is its table's name unless `id` gives another.

    Parameters
    ----------
    tables : mapping of str to source or pyarrow.Schema, optional
        Tables that scan() finds by name.

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
        # Ids of scans without an explicit id. Joining two plans may change them, like the numbers of other nodes.
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
            Its name. Without `source` it is a table of the session that runs the plan.
        columns : list of str, optional
            The columns to read, in this order. By default all.
        schema : pyarrow.Schema, optional
            The table's columns. Not needed with `source`, or when the builder knows the table.
        source : path, Arrow data, frame or Table, optional
            The table's data. Without it, the application adds the splits to the Task.
        id : str, optional
            The node's id, for Task.add_split. By default the table's name.
        on_schema_change : {'evolve', 'error'}, optional
            What happens when files, or splits, have different schemas. 'evolve': columns are matched by name, narrower
            types are widened (qcore_ext.data.widening has the rules), a missing column is null, an undeclared column
            is left out. 'error': any difference is a SchemaChangeError. By default a table's files evolve; a file
            added by the application must have every declared column, and its columns are cast.
        """
        self._expect_no_input("scan")
        node_id = table if id is None else id
        node = scan_node(node_id, table, columns, schema, source, on_schema_change, self._tables)
        return self._with(node, frozenset({node_id}) if id is None else frozenset())

    def values(self, data: Any, id: str | None = None, trusted: bool = False) -> PlanBuilder:
        """Rows held in memory: a pyarrow Table or RecordBatch, or anything with `__arrow_c_stream__`.

        One driver reads them, in their order. To read a large table with all drivers, use scan(name, source=table).

        The data is validated, so that for example a wrong offset is an ExecutionError. `trusted=True` skips that.
        """
        self._expect_no_input("values")
        return self._append(values_node(id or self._new_id(), data, trusted))

    def source(
        self,
        factory: Any,
        schema: pa.Schema | None = None,
        partitions: int | None = None,
        id: str | None = None,
        on_schema_change: str = "error",
    ) -> PlanBuilder:
        """Rows of an operator written in Python.

        Parameters
        ----------
        factory : SourceOperator, or callable
            A polled source; or a class or function that makes an Operator or a BatchIterator for each driver.
        schema : pyarrow.Schema, optional
            The schema of the rows. By default the result of the operator's output_schema(None).
        partitions : int, optional
            The number of drivers. By default the SourceOperator's `partitions` (None: one for each thread), else 1.
        on_schema_change : {'error', 'evolve'}
            What happens when a batch has another schema than the declared one. 'error': a SchemaChangeError. 'evolve':
            by name, narrower types are widened and missing columns are null; wider types and new columns are passed
            on. Types in conflict raise a SchemaChangeError, and so does an expression of which rows computed before
            have another result, and a file that was begun with narrower columns. A Result has the declared schema;
            Task.iterator() reports new ones.
        """
        self._expect_no_input("source")
        return self._append(user_source_node(id or self._new_id(), factory, schema, partitions, on_schema_change))

    # --- one input ---

    def filter(self, predicate: Expression, id: str | None = None) -> PlanBuilder:
        """Rows for which `predicate` is true."""
        node = self._input("filter")
        return self._append(
            Filter(id or self._new_id(), node.schema, node, read_condition(predicate, node.schema, "filter()"))
        )

    def project(
        self,
        columns: Mapping[str, Expression] | Sequence[Expression] | Expression,
        *more: Expression,
        id: str | None = None,
    ) -> PlanBuilder:
        """Columns: {"x": col("a") * 2}, or ["a", col("b").alias("c"), "a * 2 as x"], or such a list as arguments."""
        node = self._input("project")
        named: list[tuple[str, Expr]] = []
        if isinstance(columns, Mapping):
            if more:
                raise PlanError("project() takes one mapping, or a list, or columns one by one")
            for name, value in columns.items():
                named.append((name, read_expression(value, node.schema, f"project(), column {name!r}")))
        else:
            first = [columns] if isinstance(columns, (Expr, str)) else list(columns)
            for i, value in enumerate([*first, *more]):
                named.append(read_named(value, node.schema, f"project(), column {i + 1}"))
        names = [name for name, _ in named]
        check_unique(names, "project()")
        expressions = tuple(expr for _, expr in named)
        schema = in_step("project()", lambda: project_schema(names, expressions, node.schema))
        return self._append(Project(id or self._new_id(), schema, node, expressions))

    def aggregate(
        self,
        keys: Sequence[Expression] = (),
        aggs: Mapping[str, Agg | str | tuple[Any, ...]] | None = None,
        id: str | None = None,
        grouping_sets: Sequence[Sequence[str] | str] | str | None = None,
    ) -> PlanBuilder:
        """One row for each group; without keys, one row for the whole input.

        Parameters
        ----------
        keys : list of Expr or str
            The grouping keys: columns, aliased expressions, or text such as "year(d) as y".
        aggs : dict
            Output name → ("sum", "x"), ("count",), agg(…), or text such as "sum(x * 2)".
        grouping_sets : "rollup", "cube" or list of lists of key names, optional
            Group once for each set. The keys that a set lacks are null in its rows.
        """
        node = self._input("aggregate")
        return self._append(aggregate_node(id or self._new_id(), node, keys, aggs, grouping_sets))

    def distinct(self, id: str | None = None) -> PlanBuilder:
        """Each distinct row once; nulls are equal."""
        node = self._input("distinct")
        keys = tuple((name, col(name)) for name in node.schema.names)
        return self._append(Aggregate(id or self._new_id(), node.schema, node, keys, ()))

    def window(
        self,
        calls: Mapping[str, WindowSpec | str | tuple[Any, ...]],
        partition_by: Sequence[str] | str = (),
        order_by: SortKeys = (),
        id: str | None = None,
    ) -> PlanBuilder:
        """Add columns that functions compute over the rows around each row.

        Parameters
        ----------
        calls : dict
            Output name → "row_number", ("sum", "x"), ("lag", "x", 2), or window(…).
        partition_by : list of str
            Columns. A function sees only rows whose values in them are equal to those of the current row.
        order_by : list of str
            Order within a partition: ["day", "x desc nulls first"].

        Examples
        --------
        >>> import pyarrow as pa, qcore
        >>> rows = pa.table({"k": ["a", "a", "b"], "x": [1, 2, 3]})
        >>> ranked = qcore.PlanBuilder().values(rows).window({"n": "row_number"}, partition_by="k", order_by="x desc")
        >>> sorted(qcore.Session(threads=1).execute(ranked.build()).to_arrow().to_pydict()["n"])
        [1, 1, 2]
        """
        node = self._input("window")
        return self._append(window_nodes(NodeIds.of_plan(node), id, node, calls, partition_by, order_by))

    def enforce_single_row(self, id: str | None = None) -> PlanBuilder:
        """Exactly one row, like a scalar subquery: nulls if the input is empty, an error if it has several rows."""
        node = self._input("enforce_single_row")
        return self._append(EnforceSingleRow(id or self._new_id(), node.schema, node))

    def unnest(
        self,
        lists: Mapping[str, str] | Sequence[str] | str,
        outer: bool = False,
        ordinality: str | None = None,
        id: str | None = None,
    ) -> PlanBuilder:
        """One row for each element of a list or entry of a map. The values of the other columns are repeated.

        Parameters
        ----------
        lists : str, list of str, or dict of str to str
            List columns. Each is replaced by a column of its elements, to which a dict gives a name. Several lists are
            unnested in parallel; shorter ones are filled up with nulls. Entries of a map are structs of key and value.
        outer : bool
            Keep a row whose lists are all empty or null as one row of nulls. By default it gives no row.
        ordinality : str, optional
            Name of an additional last column: the element's number in its list, from 1.
        """
        node = self._input("unnest")
        where = "unnest()"
        columns = [lists] if isinstance(lists, str) else list(lists)
        pairs = tuple((name, lists[name] if isinstance(lists, Mapping) else name) for name in columns)
        if not 1 <= len(pairs) <= UNNESTED_MAX:
            raise PlanError(f"{where} takes 1 to {UNNESTED_MAX} lists, not {len(pairs)}")
        for name in columns:
            check_column(name, node.schema, where)
        check_unique(columns, where)
        schema = in_step(where, lambda: unnest_schema(node.schema, pairs, ordinality))
        check_unique(schema.names, where)
        return self._append(Unnest(id or self._new_id(), schema, node, pairs, outer, ordinality))

    def order_by(self, keys: SortKeys, id: str | None = None) -> PlanBuilder:
        """All rows in order: ["s desc", "t asc nulls first"]. Nulls come last by default."""
        node = self._input("order_by")
        sort_keys = read_sort_keys(keys, node.schema, "order_by()")
        return self._append(OrderBy(id or self._new_id(), node.schema, node, sort_keys))

    def top_n(self, keys: SortKeys, count: int, offset: int = 0, id: str | None = None) -> PlanBuilder:
        """The first `count` rows of the order, after skipping `offset`."""
        node = self._input("top_n")
        _check_count("top_n()", count, offset)
        sort_keys = read_sort_keys(keys, node.schema, "top_n()")
        return self._append(TopN(id or self._new_id(), node.schema, node, sort_keys, count, offset))

    def limit(self, count: int | None, offset: int = 0, id: str | None = None) -> PlanBuilder:
        """At most `count` rows (None: all) after skipping `offset`."""
        node = self._input("limit")
        _check_count("limit()", count, offset)
        return self._append(Limit(id or self._new_id(), node.schema, node, count, offset))

    def local_partition(
        self, keys: Sequence[str] = (), kind: str | None = None, drivers: int | None = None, id: str | None = None
    ) -> PlanBuilder:
        """Redistribute rows among drivers: by the hash of `keys`; without keys in turn, or to one driver ("gather")."""
        node = self._input("local_partition")
        keys = [keys] if isinstance(keys, str) else list(keys)
        kind = kind or ("hash" if keys else "round_robin")
        if kind not in ("hash", "round_robin", "gather"):
            raise unknown("kind", kind, ("hash", "round_robin", "gather"), "local_partition()")
        if (kind == "hash") != bool(keys):
            raise PlanError(f"local_partition() of kind {kind} takes {'keys' if kind == 'hash' else 'no keys'}")
        for key in keys:
            check_column(key, node.schema, "local_partition()")
        return self._append(LocalPartition(id or self._new_id(), node.schema, node, kind, tuple(keys), drivers))

    def operator(self, factory: Any, id: str | None = None) -> PlanBuilder:
        """An operator written in Python: a StatelessOperator, or a class or function that makes an Operator or a
        BatchIterator for each driver. This method may make one more to ask for its output_schema; that one never runs.
        """
        node = self._input("operator")
        return self._append(user_operator_node(id or self._new_id(), node, factory))

    # --- several inputs ---

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
            Keys, in pairs. Keys of different types are converted to their common type. By default `right_on` is
            `left_on`.
        how : str
            inner, left, right, full, left_semi (semi), right_semi, left_anti (anti), right_anti, null_aware_anti,
            mark or null_aware_mark.
        condition : Expr or str, optional
            A further condition for a match, over the columns of both sides.
        suffix : str, optional
            Added to the names of right columns that the left has too. Without it such names are an error.
        """
        return self._join("hash_join", other, JoinStep("hash_join()", how, (left_on, right_on), condition, suffix, id))

    def nested_loop_join(
        self,
        other: PlanBuilder | PlanNode,
        condition: Expression | None = None,
        how: str = "inner",
        suffix: str | None = None,
        id: str | None = None,
    ) -> PlanBuilder:
        """Join on any condition; without one, the cross product. `how` and `suffix` are those of hash_join()."""
        step = JoinStep("nested_loop_join()", how, None, condition, suffix, id)
        return self._join("nested_loop_join", other, step)

    def union_all(self, *others: PlanBuilder | PlanNode, id: str | None = None) -> PlanBuilder:
        """All rows of this and the other inputs. Columns match by position; names are those of this input."""
        first = self._input("union_all")
        nodes, builder = [first], self
        for position, other in enumerate(others, 2):
            left, right, free = builder._both("union_all", other, nodes)
            _check_union(left, right, f"union_all(), input {position}")
            nodes.append(right)
            builder = builder._with(left, free)
        return builder._append(UnionAll(id or builder._new_id(nodes), first.schema, tuple(nodes)))

    def intersect(self, other: PlanBuilder | PlanNode, all: bool = False) -> PlanBuilder:
        """Rows that are in both inputs, each once. With `all`, a row that occurs m and n times occurs min(m, n) times.
        Columns match by position, nulls are equal, names are those of this input.
        """
        return self._set_operation("intersect", "intersect", other, all)

    def except_(self, other: PlanBuilder | PlanNode, all: bool = False) -> PlanBuilder:
        """Rows of this input that are not in the other, each once. With `all`, a row that occurs m times here and n
        times there occurs max(m - n, 0) times. Columns match by position, nulls are equal, names are those of this
        input.
        """
        return self._set_operation("except_", "except", other, all)

    # --- sinks ---

    def callback(self, function: Callable[[pa.RecordBatch], Any], id: str | None = None) -> PlanBuilder:
        """End the plan in a function that is called with each batch. It may return qcore.Blocked(reason, future)."""
        node = self._input("callback")
        return self._append(callback_node(id or self._new_id(), node, function))

    def sink(self, factory: Any, id: str | None = None) -> PlanBuilder:
        """End the plan in an operator written in Python: a SinkOperator, or a class or function that makes an Operator
        for each driver.
        """
        node = self._input("sink")
        return self._append(user_sink_node(id or self._new_id(), node, factory))

    def write_parquet(
        self,
        path: Any,
        single: bool | None = None,
        compression: str = "snappy",
        row_group_rows: int = ROW_GROUP_ROWS,
        id: str | None = None,
    ) -> PlanBuilder:
        """Write the rows to Parquet. The plan's result then lists the files: path, rows, bytes.

        The files appear under `path` when all rows are written. If the query fails, nothing appears. If a source
        changes its schema (on_schema_change='evolve'), all files get the last and widest schema: files that were begun
        with an earlier one are written anew from their rows when all rows have come.

        Parameters
        ----------
        path : str or Path
            A file. An existing file is replaced and keeps its mode; a symbolic link stays, and its target is replaced.
            A FIFO, a device or a socket is an error. To write one file per driver, give a folder that does not exist.
        single : bool, optional
            Write one file, in the order of the rows. By default when `path` ends in .parquet.
        compression : str
            none, snappy, gzip, brotli, lz4 or zstd.
        row_group_rows : int
            Rows in a row group.
        """
        node = self._input("write_parquet")
        return self._append(table_write_node(id or self._new_id(), node, path, single, compression, row_group_rows))

    def partitioned_output(
        self,
        keys: Sequence[str] | str = (),
        partitions: int = 1,
        kind: str = "partitioned",
        path: Any = None,
        buffer_bytes: int = BUFFER_BYTES,
        id: str | None = None,
    ) -> PlanBuilder:
        """End the plan in pages for other tasks.

        A qcore.Task runs the plan, and task.output_buffers() gives the pages to their consumers. With `path` they are
        written to files, which qcore.PartitionManifest finds. The partition of a row depends only on the values of its
        keys. It is the same in every process, on every machine and in every run. Integers of all widths are equal by
        value, and so are floats of both widths, strings of all layouts, and decimals of one scale. -0.0 equals 0.0,
        all NaNs are equal, and all nulls are equal.

        Parameters
        ----------
        keys : list of str
            Columns to hash, for kind "partitioned" with more than one partition.
        partitions : int
            1 to 4,096, one for each consumer.
        kind : str
            "partitioned"; "broadcast": every consumer gets all rows; "arbitrary": a page goes to the consumer that asks
            first.
        path : str or Path, optional
            A folder that does not exist yet. It appears when all is written, with an Arrow IPC file for each partition
            and a manifest. If a source changes its schema, all files get the last and widest schema.
        buffer_bytes : int
            The task waits while pages of this size in total are not acknowledged.
        """
        node = self._input("partitioned_output")
        node_id = id or self._new_id()
        return self._append(partitioned_output_node(node_id, node, keys, partitions, kind, path, buffer_bytes))

    def build(self) -> PlanNode:
        """The plan."""
        return self._input("build")

    # --- the builder's state ---

    def _with(self, node: PlanNode, free_ids: frozenset[str]) -> PlanBuilder:
        builder = PlanBuilder(self._tables)
        builder._node = node
        builder._free_ids = free_ids
        return builder

    def _append(self, node: PlanNode) -> PlanBuilder:
        """A builder whose plan is `node`. PlanError if another node has its id."""
        if sum(below.id == node.id for below in node.walk()) > 1:
            raise PlanError(f"two nodes of the plan have the id {node.id!r}; give one another id")
        return self._with(node, self._free_ids)

    def _new_id(self, nodes: Sequence[PlanNode] = ()) -> str:
        """An id that no node of this plan and of `nodes` has."""
        roots = [*nodes, *([] if self._node is None else [self._node])]
        return NodeIds(below.id for root in roots for below in root.walk()).new()

    def _input(self, step: str) -> PlanNode:
        """The plan so far, as the input of `step`. PlanError if there is none, or if it ends in a sink."""
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
        """This plan, the other with ids that neither this plan nor `nodes` have, and the free ids of both."""
        left = self._input(step)
        if isinstance(other, PlanBuilder):
            right, free = other._input(step), other._free_ids
        elif isinstance(other, PlanNode):
            right, free = other, frozenset()
        else:
            raise PlanError(f"{step}() takes a PlanBuilder or a plan, not a {type(other).__name__}")
        taken = {node.id for root in (left, *nodes) for node in root.walk()}
        fresh = fresh_ids(right, free, taken)
        return left, replace_ids(right, fresh), self._free_ids | frozenset(fresh.get(id, id) for id in free)

    def _join(self, name: str, other: PlanBuilder | PlanNode, step: JoinStep) -> PlanBuilder:
        left, right, free = self._both(name, other)
        return self._with(join_node(step, left, right), free)

    def _set_operation(self, name: str, kind: str, other: PlanBuilder | PlanNode, all: bool) -> PlanBuilder:
        left, right, free = self._both(name, other)
        ids = NodeIds(node.id for root in (left, right) for node in root.walk())
        names = ColumnNames([*left.schema.names, *right.schema.names])
        return self._with(make_set_operation(ids, names, f"{kind}_all" if all else kind, left, right), free)


def _check_union(first: PlanNode, other: PlanNode, where: str) -> None:
    if len(first.schema) != len(other.schema):
        raise PlanError(f"{where} has {len(other.schema)} columns, the first input {len(first.schema)}")
    for a, b in zip(first.schema, other.schema, strict=True):
        if not same_type(a.type, b.type):
            raise PlanError(f"{where}: column {b.name!r} is {b.type}, the first's {a.name!r} is {a.type}; cast one")


def _check_count(where: str, count: int | None, offset: int) -> None:
    for name, value in (("count", count), ("offset", offset)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise PlanError(f"{where}: {name} must be a whole number of 0 or more, not {value!r}")
