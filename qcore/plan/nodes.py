"""Plan nodes: a frozen tree that says what to compute, not how.

Column names are unique within a node's schema; expressions refer to the schema of the node's child. `schema` is known
for every node before anything runs (SPEC D4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import pyarrow as pa

from qcore.expression.tree import Expr


@dataclass(frozen=True, eq=False)
class PlanNode:
    """One step of a plan. `id` is unique within the plan; `schema` describes the output."""

    id: str
    schema: pa.Schema

    @property
    def children(self) -> tuple[PlanNode, ...]:
        """Inputs, left (probe) first."""
        return ()

    def with_fields(self, **changes: Any) -> Self:
        """The same node with other values of some fields; what dataclasses.replace gives, in a tenth of the time."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        assert changes.keys() <= made.__dict__.keys(), f"{type(self).__name__} has no field of {list(changes)}"
        made.__dict__.update(changes)
        return made

    def with_children(self, *children: PlanNode) -> PlanNode:
        """The same node over other inputs of the same schemas."""
        names = [name for name in ("child", "left", "right") if hasattr(self, name)]
        changes: dict[str, Any] = {"inputs": children} if hasattr(self, "inputs") else {}
        return self.with_fields(**changes or dict(zip(names, children, strict=True)))

    def walk(self) -> Iterator[PlanNode]:
        """This node and all below it, parents first."""
        waiting: list[PlanNode] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


@dataclass(frozen=True, eq=False)
class Unary(PlanNode):
    """A node with one input."""

    child: PlanNode

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)


@dataclass(frozen=True, eq=False)
class Binary(PlanNode):
    """A node with two inputs."""

    left: PlanNode
    right: PlanNode

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Scan(PlanNode):
    """Read a table, split by split.

    `source` is a connector's table handle (qcore.connectors.base.Table), or None when the application adds every split
    itself. `columns` are the source's names of the output columns, in order; `filter` (over the output's names) is what
    the connector may use to prune: the rows it gives may still include some that fail, so a Filter node above keeps the
    truth. `on_schema_change` is "error", "evolve" or None: as the source does by itself.
    """

    table: str
    source: Any = None
    columns: tuple[str, ...] = ()
    filter: Expr | None = None
    on_schema_change: str | None = None


@dataclass(frozen=True, eq=False)
class Values(PlanNode):
    """Rows held in memory: a pyarrow Table or RecordBatch of the node's schema."""

    data: Any = None


@dataclass(frozen=True, eq=False)
class Filter(Unary):
    """Rows where `predicate` is true."""

    predicate: Expr


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """One output column an expression; names in the schema's order."""

    expressions: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class AggregateCall:
    """One aggregate: count (no argument: rows), sum, avg, min, max …

    The last len(order) arguments are what its rows are ordered by, each as (descending, nulls first).
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
        """What rows are ordered by."""
        return self.arguments[len(self.arguments) - len(self.order) :]


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """One row a group; without keys, one row. Output: keys, then aggregates.

    `keys` are (name, expression) pairs over the child's schema. `grouping_sets` are tuples of key positions, or None
    for one set of all keys. `grouping_id` names an int64 column, between keys and aggregates, whose low bits say which
    keys a row's set lacks, the first key highest.
    """

    keys: tuple[tuple[str, Expr], ...]
    aggregates: tuple[AggregateCall, ...]
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    grouping_id: str | None = None

    def set_number(self, position: int) -> int:
        """The grouping id of a set: bits of its missing keys, and above them its position, since equal sets are groups
        of their own.
        """
        assert self.grouping_sets is not None
        n_keys = len(self.keys)
        missing = sum(1 << (n_keys - 1 - key) for key in range(n_keys) if key not in self.grouping_sets[position])
        return missing | position << n_keys


@dataclass(frozen=True, eq=False)
class SortKey:
    """A column to order by. Nulls come last when ascending and descending alike, unless `nulls_first`."""

    column: str
    descending: bool = False
    nulls_first: bool = False


WindowDistance: TypeAlias = int | float | pa.MonthDayNano | None


@dataclass(frozen=True, eq=False)
class WindowFrame:
    """The rows a window function looks at, from `start` to `end` counted from the current row on: rows, groups of
    peers, or ('range') distance in the one ordering column: in its smallest unit, of floats a float, of dates and
    timestamps an interval if it has months. None: up to the partition's end. `exclude` takes rows out again: the
    'current row', its 'group' of peers, or the 'ties' beside it.
    """

    mode: str = "range"
    start: WindowDistance = None
    end: WindowDistance = 0
    exclude: str = "no others"


@dataclass(frozen=True, eq=False)
class WindowCall:
    """One window function over the partitions and order of its node.

    `function` is an aggregate, or row_number, rank, dense_rank, percent_rank, cume_dist, ntile, partition_rows (how
    many rows the partition has), lag, lead, first_value, last_value or nth_value; `number` says how far, which or how
    many. Of an aggregate, `second` is its second argument and `distinct` takes each value once a frame; `ignore_nulls`
    lets functions of another row's value pass over nulls. `filter` is a column of conditions, `order_by` what an
    aggregate's or first_value's rows are ordered by instead, `parameter` a separator or a fraction. Of median and
    quantile_cont the argument is float64, of string_agg text.
    """

    name: str
    function: str
    argument: str | None = None
    number: int = 1
    frame: WindowFrame = WindowFrame()
    second: str | None = None
    distinct: bool = False
    ignore_nulls: bool = False
    filter: str | None = None
    order_by: tuple[SortKey, ...] = ()
    parameter: str | float | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, beside those of its node."""
        return tuple(
            name
            for name in (self.argument, self.second, self.filter, *(key.column for key in self.order_by))
            if name is not None
        )


@dataclass(frozen=True, eq=False)
class Window(Unary):
    """The child's columns, and one for each call."""

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, eq=False)
class HashJoin(Binary):
    """Equi-join. Left is the probe side, right the build side, unless `build` is 'left'.

    `kind`: inner, left, right, full, left_semi, right_semi, left_anti, right_anti, null_aware_anti, mark. Output: the
    left columns, then the right ones (semi and anti: only that side's; mark: the left's and a boolean). Key pairs have
    equal types. `condition` is an extra predicate over the left and right columns together.
    """

    kind: str
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    condition: Expr | None = None
    build: str = "right"


@dataclass(frozen=True, eq=False)
class NestedLoopJoin(Binary):
    """Join on any condition; None is the cross join. Kinds and output as HashJoin's."""

    kind: str
    condition: Expr | None = None
    build: str = "right"


@dataclass(frozen=True, eq=False)
class DependentJoin(Binary):
    """The left input's rows, each beside those that `right` gives for it: the OuterColumns of `right` that `arguments`
    names are columns of `left`, as (name, column).

    `is_scalar`: beside the one column of at most one row, or null where there is none. Frontends make other joins of it
    (qcore.plan.dependent_joins); no plan that runs has one.
    """

    arguments: tuple[tuple[str, str], ...]
    is_scalar: bool = True


@dataclass(frozen=True, eq=False)
class OrderBy(Unary):
    """All rows in order."""

    keys: tuple[SortKey, ...]


@dataclass(frozen=True, eq=False)
class TopN(Unary):
    """The rows `offset`..`offset + count` of the order."""

    keys: tuple[SortKey, ...]
    count: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Limit(Unary):
    """At most `count` rows (None: all) after skipping `offset`."""

    count: int | None
    offset: int = 0


@dataclass(frozen=True, eq=False)
class EnforceSingleRow(Unary):
    """The child's one row; a row of nulls when it has none, an ExecutionError when it has more. For scalar
    subqueries.
    """


@dataclass(frozen=True, eq=False)
class UnionAll(PlanNode):
    """All rows of all inputs; equal types by position, names of the first."""

    inputs: tuple[PlanNode, ...] = ()

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return self.inputs


@dataclass(frozen=True, eq=False)
class WorkingTable(PlanNode):
    """Inside the second input of the RecursiveUnion of this `key`: the rows its last round gave, columns by
    position.
    """

    key: str


@dataclass(frozen=True, eq=False)
class RecursiveUnion(PlanNode):
    """WITH RECURSIVE: the rows of the first input, then again and again those the second makes of the rows that came
    last, until there are none. `distinct`: rows met before count for nothing. Equal types by position, names of the
    first. More than `rounds_max` rounds are an ExecutionError.
    """

    key: str
    inputs: tuple[PlanNode, PlanNode]
    distinct: bool = False
    rounds_max: int = 1_000_000

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return self.inputs


@dataclass(frozen=True, eq=False)
class Shared(Unary):
    """A subplan computed once, for this place and for every SharedRead of it; its id is its name. `schema` has those of
    the child's columns that are wanted here.
    """


@dataclass(frozen=True, eq=False)
class SharedRead(PlanNode):
    """The rows of the Shared node with the id `of`, under names of its own: `columns` are those of the subplan's
    columns. `like` is a node that gives as many rows, for estimates.
    """

    of: str
    columns: tuple[str, ...]
    like: PlanNode


@dataclass(frozen=True, eq=False)
class LocalPartition(Unary):
    """Redistribute rows among drivers: `kind` hash (by `keys`), round_robin or gather. `drivers` above it, None:
    default.
    """

    kind: str
    keys: tuple[str, ...] = ()
    drivers: int | None = None


@dataclass(frozen=True, eq=False)
class UserSource(PlanNode):
    """Rows of an operator written in Python (qcore.protocols): a SourceOperator, or what makes an Operator or a
    BatchIterator. `partitions` of them, None: one a thread. `on_schema_change` is "error" or "evolve".
    """

    factory: Any
    partitions: int | None = None
    on_schema_change: str = "error"


@dataclass(frozen=True, eq=False)
class Unnest(Unary):
    """A row for each element of lists, side by side; other columns are repeated.

    `lists` are (column, name of its elements) pairs; each list column is replaced by its elements, in its place.
    `outer`: a row without any element gives one row with null. `ordinality` names an int64 column, the last: the
    element's number in its list, from 1.
    """

    lists: tuple[tuple[str, str], ...]
    outer: bool = False
    ordinality: str | None = None


@dataclass(frozen=True, eq=False)
class UserOperator(Unary):
    """An operator written in Python: a StatelessOperator, or what makes an Operator or a BatchIterator."""

    factory: Any


@dataclass(frozen=True, eq=False)
class TableWrite(Unary):
    """Write the rows to Parquet: to the file `path`, or, unless `single`, to a file a driver in the folder `path`.

    Output: a row a file, of its path, rows and bytes.
    """

    path: str
    single: bool
    compression: str
    row_group_rows: int


@dataclass(frozen=True, eq=False)
class Sink(Unary):
    """Ends a plan: takes its rows, gives none."""


@dataclass(frozen=True, eq=False)
class UserSink(Sink):
    """A sink written in Python: a SinkOperator, or what makes an Operator."""

    factory: Any


@dataclass(frozen=True, eq=False)
class CallbackSink(Sink):
    """Give each batch (a pyarrow.RecordBatch) to `callback`; it may return qcore.Blocked(reason, future)."""

    callback: Any = field(default=None)


@dataclass(frozen=True, eq=False)
class PartitionedOutput(Sink):
    """Give the rows to other tasks, as pages for `partitions` consumers.

    `kind`: partitioned (by the hash of `keys`), broadcast (each gets all) or arbitrary (whoever asks first). Pages wait
    in buffers of `buffer_bytes` for who fetches them, or are written to Arrow files in the folder `path`.
    """

    kind: str
    keys: tuple[str, ...]
    partitions: int
    buffer_bytes: int
    path: str | None = None
