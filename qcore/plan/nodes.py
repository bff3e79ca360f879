"""Plan nodes: a frozen tree that describes a result, not how it is computed.

Column names are unique within a node's schema; expressions refer to the schema of the node's child. `schema` is known
for every node before anything runs.
"""

from __future__ import annotations

from dataclasses import field
from operator import attrgetter
from typing import Any, Self, TypeAlias

import pyarrow as pa

from qcore.expression.tree import Expr
from qcore.record import record


@record(frozen=True, eq=False)
class PlanNode:
    """One step of a plan. `id` is unique within the plan; `schema` describes the output."""

    id: str
    schema: pa.Schema

    @property
    def children(self) -> tuple[PlanNode, ...]:
        """Inputs, left (probe) first."""
        return ()

    def with_fields(self, **changes: Any) -> Self:
        """The same as dataclasses.replace, in a tenth of the time."""
        node = object.__new__(self.__class__)
        values = node.__dict__
        values.update(self.__dict__)
        n_fields = len(values)
        values.update(changes)
        assert len(values) == n_fields, f"{type(self).__name__} has no field of {list(changes)}"
        return node

    def with_children(self, *children: PlanNode) -> PlanNode:
        """The same node over other inputs, which must have the same schemas."""
        names = [name for name in ("child", "left", "right") if hasattr(self, name)]
        changes: dict[str, Any] = {"inputs": children} if hasattr(self, "inputs") else {}
        return self.with_fields(**changes or dict(zip(names, children, strict=True)))

    def walk(self) -> list[PlanNode]:
        """This node and all nodes below it, parents first."""
        found: list[PlanNode] = []
        waiting: list[PlanNode] = [self]
        while waiting:
            node = waiting.pop()
            found.append(node)
            while isinstance(node, Unary):
                node = node.child
                found.append(node)
            waiting += node.children[::-1]
        return found


@record(frozen=True, eq=False)
class Unary(PlanNode):
    """A node with one input."""

    child: PlanNode

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    def with_children(self, *children: PlanNode) -> PlanNode:
        (child,) = children
        return self.with_fields(child=child)


@record(frozen=True, eq=False)
class Binary(PlanNode):
    """A node with two inputs."""

    left: PlanNode
    right: PlanNode

    # Rules ask nodes for their inputs thousands of times, and an attrgetter takes no call of a Python function.
    children = property(attrgetter("left", "right"))

    def with_children(self, *children: PlanNode) -> PlanNode:
        left, right = children
        return self.with_fields(left=left, right=right)


@record(frozen=True, eq=False)
class Scan(PlanNode):
    """Read a table, split by split.

    `source` is a connector's table (qcore.connectors.base.Table), or None if the application adds all splits. `columns`
    are the source's names of the output columns, in order. The connector may use `filter`, over the output's names, to
    skip rows; it may also return rows that fail, so the plan has a Filter node above. `on_schema_change` is "error",
    "evolve" or None, the source's default.
    """

    table: str
    source: Any = None
    columns: tuple[str, ...] = ()
    filter: Expr | None = None
    on_schema_change: str | None = None


@record(frozen=True, eq=False)
class Values(PlanNode):
    """Rows held in memory: a pyarrow Table or RecordBatch of the node's schema."""

    data: Any = None


@record(frozen=True, eq=False)
class Filter(Unary):
    """Rows for which `predicate` is true."""

    predicate: Expr


@record(frozen=True, eq=False)
class Project(Unary):
    """One output column for each expression. Names are those of the schema."""

    expressions: tuple[Expr, ...]


@record(frozen=True, eq=False)
class AggregateCall:
    """One aggregate: count (without arguments it counts rows), sum, avg, min, max …

    The last len(order) arguments are keys that order its rows. `order` has (descending, nulls first) for each.
    """

    name: str
    function: str
    arguments: tuple[Expr, ...] = ()
    distinct: bool = False
    filter: Expr | None = None
    order: tuple[tuple[bool, bool], ...] = ()

    @property
    def values(self) -> tuple[Expr, ...]:
        """The function's own arguments."""
        return self.arguments[: len(self.arguments) - len(self.order)]

    @property
    def order_keys(self) -> tuple[Expr, ...]:
        """The keys that order its rows."""
        return self.arguments[len(self.arguments) - len(self.order) :]


@record(frozen=True, eq=False)
class Aggregate(Unary):
    """One row for each group; without keys, one row. Output: keys, then aggregates.

    `keys` are (name, expression) pairs over the child's schema. `grouping_sets` are tuples of key positions, or None
    for one set of all keys. `grouping_id` names an int64 column between keys and aggregates. Its low bits tell which
    keys the row's set lacks, the first key in the highest of these bits. `partition_keys`: the positions of the keys by
    which rows are partitioned over the drivers before they are grouped. If there are none, the drivers group their rows
    and partition the groups. `ordered_by`: the column that is the only key, of the table below
    Filters and Projects, if the table has its rows in the order of the column. The run asks the table again.
    """

    keys: tuple[tuple[str, Expr], ...]
    aggregates: tuple[AggregateCall, ...]
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    grouping_id: str | None = None
    partition_keys: tuple[int, ...] = ()
    ordered_by: str | None = None

    def set_number(self, position: int) -> int:
        """The grouping id of a set: a bit for each missing key, and the set's position in the bits above. The position
        keeps the groups of equal sets separate.
        """
        assert self.grouping_sets is not None
        n_keys = len(self.keys)
        missing = sum(1 << (n_keys - 1 - key) for key in range(n_keys) if key not in self.grouping_sets[position])
        return missing | position << n_keys


@record(frozen=True, eq=False)
class AggregateStep(Unary):
    """One of the two steps of an Aggregate whose input rows are in several tasks.

    `step` "partial" reads rows and returns keys and partial states, at least one row for each group. "final" reads the
    rows of all partial steps and returns the output of `aggregate`. The child of `aggregate` is a Scan without a
    source, a placeholder for the rows of the partial step. qcore.plan.aggregate_halves makes both.
    """

    step: str
    aggregate: Aggregate


@record(frozen=True, eq=False)
class SortKey:
    """A column to order by. Nulls come last, in ascending and descending order, unless `nulls_first`."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@record(frozen=True, eq=False)
class ColumnDistance:
    """A distance that depends on the row: the value of an int64 column, which is neither negative nor null."""

    column: str
    is_preceding: bool


WindowDistance: TypeAlias = int | float | pa.MonthDayNano | ColumnDistance | None


@record(frozen=True, eq=False)
class WindowFrame:
    """The rows that a window function reads: from `start` to `end`, counted from the current row; None is the
    partition's end.

    The unit is rows, groups of peers or, in mode 'range', a distance in the one ordering column: in the column's
    smallest unit, a float for floats, an interval for dates and timestamps if it has months. Rows and groups may be
    counted by a column. `exclude` leaves out rows of the frame: the 'current row', the 'group' of the row and its
    peers, or 'ties', only the peers.
    """

    mode: str = "range"
    start: WindowDistance = None
    end: WindowDistance = 0
    exclude: str = "no others"


@record(frozen=True, eq=False)
class WindowCall:
    """One window function over the partitions and order of its node.

    `function` is an aggregate, or row_number, rank, dense_rank, percent_rank, cume_dist, ntile, partition_rows (the
    number of rows of the partition), lag, lead, first_value, last_value or nth_value. `number` is the distance of lag
    and lead, the position of nth_value and the number of buckets of ntile, or the int64 column that has it for each
    row: the result is null where it is null. `second` is an aggregate's second argument; with `distinct` equal values
    of a frame count once. `ignore_nulls` makes functions of another row's value skip nulls. `filter` is a boolean
    column. `order_by` orders the rows of an aggregate, first_value or last_value instead of the node's order.
    `parameter` is a separator or a fraction. The argument of median and quantile_cont is float64, that of string_agg
    text.
    """

    name: str
    function: str
    argument: str | None = None
    number: int | str = 1
    frame: WindowFrame = WindowFrame()
    second: str | None = None
    distinct: bool = False
    ignore_nulls: bool = False
    filter: str | None = None
    order_by: tuple[SortKey, ...] = ()
    parameter: str | float | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the call reads."""
        number = self.number if isinstance(self.number, str) else None
        distances = [end.column for end in (self.frame.start, self.frame.end) if isinstance(end, ColumnDistance)]
        order = [key.column for key in self.order_by]
        parts = (self.argument, self.second, self.filter, number, *order, *distances)
        return tuple(name for name in parts if name is not None)


@record(frozen=True, eq=False)
class Window(Unary):
    """The child's columns, then one for each call."""

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]


@record(frozen=True, eq=False)
class HashJoin(Binary):
    """Equi-join. Left is the probe side, right the build side, unless `build` is 'left'.

    `kind`: inner, left, right, full, left_semi, right_semi, left_anti, right_anti, null_aware_anti, mark,
    null_aware_mark. Output: the left columns, then the right ones. Semi and anti joins output only their side's
    columns; mark joins output the left ones and a boolean. The keys of a pair have equal types. `condition` is a
    further predicate over both sides.
    """

    kind: str
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    condition: Expr | None = None
    build: str = "right"


@record(frozen=True, eq=False)
class NestedLoopJoin(Binary):
    """Join on any condition; None is the cross join. Kinds and output are those of HashJoin."""

    kind: str
    condition: Expr | None = None
    build: str = "right"


@record(frozen=True, eq=False)
class DependentJoin(Binary):
    """Join of each row of the left input with the result of `right` for that row. `arguments` has (name, column) pairs:
    the OuterColumn of that name in `right` is that column of `left`. Names are unique among all dependent joins of a
    plan. A join inside `right` may also read the outer columns of enclosing joins. Without arguments `right` has the
    same rows for all rows of `left`.

    `conditions` are expressions over the columns of both sides, all true for a match. `kind` is one of:

    - scalar: the left columns, and the one column of `right`, without conditions. Its value is null if there is no row,
      and there is an ExecutionError if there is more than one.
    - inner, left: the left columns and the right ones, as in these joins (LATERAL).
    - left_semi, left_anti: the left rows that have a match, or have none (EXISTS, NOT EXISTS; IN as a filter).
    - mark: the left columns, and a boolean: whether there is a match (EXISTS as a value).
    - null_aware_mark: the left columns, and the boolean of IN and of comparisons with ANY: true if the conditions are
      true for a row of `right`; else null if they are null for one; else false.
    - null_aware_anti: the left rows for which that boolean is false (NOT IN as a filter).

    Frontends replace this node by other joins (qcore.plan.dependent_joins). No plan that runs has one.
    """

    arguments: tuple[tuple[str, str], ...]
    kind: str = "scalar"
    conditions: tuple[Expr, ...] = ()


@record(frozen=True, eq=False)
class OrderBy(Unary):
    """All rows in order."""

    keys: tuple[SortKey, ...]


@record(frozen=True, eq=False)
class TopN(Unary):
    """The rows `offset`..`offset + count` of the order."""

    keys: tuple[SortKey, ...]
    count: int
    offset: int = 0


@record(frozen=True, eq=False)
class Limit(Unary):
    """At most `count` rows (None: all) after skipping `offset`."""

    count: int | None
    offset: int = 0


@record(frozen=True, eq=False)
class EnforceSingleRow(Unary):
    """The child's only row; a row of nulls if it has none; an ExecutionError if it has more. For scalar subqueries."""


@record(frozen=True, eq=False)
class UnionAll(PlanNode):
    """All rows of all inputs. Types are equal by position; names are those of the first input."""

    inputs: tuple[PlanNode, ...] = ()

    children = property(attrgetter("inputs"))


@record(frozen=True, eq=False)
class WorkingTable(PlanNode):
    """The rows of the previous round, inside the second input of the RecursiveUnion of this `key`. Columns match by
    position.
    """

    key: str


@record(frozen=True, eq=False)
class RecursiveUnion(PlanNode):
    """WITH RECURSIVE: the rows of the first input, then in rounds those of the second input over the rows of the
    previous round, until a round returns none.

    With `distinct`, rows that are already in the output are dropped. Types are equal by position; names are those of
    the first input. More than `rounds_max` rounds are an ExecutionError.
    """

    key: str
    inputs: tuple[PlanNode, PlanNode]
    distinct: bool = False
    rounds_max: int = 1_000_000

    children = property(attrgetter("inputs"))


@record(frozen=True, eq=False)
class Shared(Unary):
    """A subplan that is computed once, for this node and for every SharedRead of it. Its id is its name. `schema` has
    the child's columns that are needed here.
    """


@record(frozen=True, eq=False)
class SharedRead(PlanNode):
    """The rows of the Shared node with the id `of`, under this node's column names. `columns` are the names in the
    subplan. `like` is a node with as many rows, for estimates.
    """

    of: str
    columns: tuple[str, ...]
    like: PlanNode


@record(frozen=True, eq=False)
class LocalPartition(Unary):
    """Redistribute rows among drivers. `kind` is hash (by `keys`), round_robin or gather. `drivers` is the number of
    drivers above; None is the default.
    """

    kind: str
    keys: tuple[str, ...] = ()
    drivers: int | None = None


@record(frozen=True, eq=False)
class UserSource(PlanNode):
    """Rows of an operator written in Python (qcore.protocols): a SourceOperator, or a callable that makes an Operator
    or a BatchIterator. `partitions` is the number of drivers; None is one for each thread. `on_schema_change` is
    "error" or "evolve".
    """

    factory: Any
    partitions: int | None = None
    on_schema_change: str = "error"


@record(frozen=True, eq=False)
class Unnest(Unary):
    """One row for each element of lists, which are unnested in parallel. Values of other columns are repeated.

    `lists` are (column, name of its elements) pairs; the elements replace the list column. With `outer`, a row without
    elements becomes one row of nulls. `ordinality` names an additional last column, int64: the element's number in its
    list, from 1.
    """

    lists: tuple[tuple[str, str], ...]
    outer: bool = False
    ordinality: str | None = None


@record(frozen=True, eq=False)
class UserOperator(Unary):
    """An operator written in Python: a StatelessOperator, or a callable that makes an Operator or a BatchIterator."""

    factory: Any


@record(frozen=True, eq=False)
class TableWrite(Unary):
    """Write the rows to Parquet: if `single` to the file `path`, else to one file for each driver in the folder `path`.

    Output: one row for each file, with its path, rows and bytes.
    """

    path: str
    single: bool
    compression: str
    row_group_rows: int


@record(frozen=True, eq=False)
class Sink(Unary):
    """Ends a plan. A sink has no output."""


@record(frozen=True, eq=False)
class UserSink(Sink):
    """A sink written in Python: a SinkOperator, or a callable that makes an Operator."""

    factory: Any


@record(frozen=True, eq=False)
class CallbackSink(Sink):
    """Call `callback` with each batch, a pyarrow.RecordBatch. It may return qcore.Blocked(reason, future)."""

    callback: Any = field(default=None)


@record(frozen=True, eq=False)
class PartitionedOutput(Sink):
    """Output the rows as pages for `partitions` consumers in other tasks.

    `kind` is partitioned (by the hash of `keys`), broadcast (each consumer gets all rows) or arbitrary (a page goes to
    the consumer that asks first). Pages wait in buffers of `buffer_bytes`, or are written to Arrow files in the folder
    `path`. With `single_file` all pages are in the file `path` (qcore.writing.page_file). Pages are then made smaller
    if that takes less time than `byte_nanos` ns for each byte saved, the time to write and read a byte. That file also
    gets the hashes of the keys of at most `hashes_max` rows. Rows whose keys are not in `key_filter`
    (qcore.writing.key_filter_file) are dropped.
    """

    kind: str
    keys: tuple[str, ...]
    partitions: int
    buffer_bytes: int
    path: str | None = None
    single_file: bool = False
    byte_nanos: float = 2.0
    hashes_max: int = 0
    key_filter: Any = None
