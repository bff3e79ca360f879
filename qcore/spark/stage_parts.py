"""Cutting a plan into stages: the rows that each node needs in one task, and the tasks that have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.connectors.arrow import ArrowTable, StreamTable
from qcore.connectors.zoned import ZonedTable
from qcore.errors import PlanError
from qcore.expression.tree import Column, Expr, col, column_names
from qcore.expression.types import compares_by_bytes
from qcore.lowering.grouping_sets import GroupingSets
from qcore.lowering.nested_keys import replace_nested_keys
from qcore.lowering.pipelines import FLIPPED
from qcore.optimizer import Estimator
from qcore.plan import nodes as p
from qcore.plan.aggregate_halves import final_step, has_partial_states, partial_step
from qcore.plan.projections import project, select_columns
from qcore.record import record
from qcore.spark.page_files import PagesTable
from qcore.spark.plan_bytes import STAYS, refuse
from qcore.writing.key_filter_file import KeyFilterFile
from qcore.writing.page_layout import BYTE_NANOS

# How a task gets the splits of a scan: its share of them, all of them, or those of its partition.
SHARE, ALL, PARTITION = "share", "all", "partition"

# Where the rows of a part are: spread over any tasks, partitioned by a hash, or all in one task. Rows that only this
# process has must be written before tasks can read them.
SPREAD, HASHED, SINGLE, LOCAL = "spread", "hashed", "single", "local"

# Kinds of joins, with the build side on the right, whose rows each come from one probe row: all tasks may have all
# build rows. The others must see every probe row of a build row.
OF_PROBE_ROWS = frozenset({"inner", "left", "left_semi", "left_anti", "mark", "null_aware_anti", "null_aware_mark"})
# Kinds that look at all build rows for each probe row, also at those with other keys.
NULL_AWARE = frozenset({"null_aware_anti", "null_aware_mark"})

# Kinds that return no probe row without a match.
DROPS_UNMATCHED = frozenset({"inner", "left_semi", "right", "right_semi", "right_anti"})

# The most hashes of keys that a task writes for a filter, and the bytes of a hash.
HASHES_MAX, HASH_BYTES = 8 << 20, 8
# If a larger part of the probe rows seems to have a match, there is no filter. Tasks stop asking one from there on.
FOUND_MAX = 0.75

# Rows that every task keeps may have so many times the bytes in memory that their pages may have.
MEMORY_SHARE = 2

# Bytes of a string, for estimates.
STRING_BYTES = 24

# Nodes that a query on Spark may not have. The plan of a stage ends in a sink.
REFUSED: dict[type[p.PlanNode], str] = {
    **STAYS,
    p.Sink: "its rows go to this process only",
    p.DependentJoin: "it stands for other joins",
}


@record(frozen=True)
class Limits:
    """Sizes that decide how a plan is cut.

    Attributes
    ----------
    n_tasks : int
        Number of tasks that can run at once. A stage has at least as many partitions.
    broadcast_bytes : int
        A build side of at most as many bytes in pages, and twice as many in memory, is read by every task. That of a
        join that cannot be partitioned always is.
    driver_bytes : int
        A part that reads at most as many bytes of earlier stages runs in the driver process.
    partition_bytes : int
        The wanted bytes of a partition, by estimates.
    partitions_max : int
        The largest number of partitions of a stage.
    byte_nanos : float
        The time in ns to write a byte in one task and read it in another. It decides whether pages are compressed.
    """

    n_tasks: int = 2
    broadcast_bytes: int = 64 << 20
    driver_bytes: int = 32 << 20
    partition_bytes: int = 64 << 20
    partitions_max: int = 1024
    byte_nanos: float = BYTE_NANOS


@record(frozen=True)
class Stage:
    """A part of a plan that tasks can run now, each over its splits.

    Attributes
    ----------
    number : int
        Its number within the query, for messages.
    plan : PartitionedOutput
        The plan of each task, without a path. Tables that stages wrote have no list of files in it.
    n_partitions : int
        Number of partitions that each task writes.
    keys : tuple of str
        Columns whose hash is a row's partition; empty: one partition.
    reads : dict of str to str
        By the id of a scan: "share", its splits are divided among the tasks; "all", each task gets all of them;
        "partition", each task gets those of some partitions, the same ones of all these scans.
    scans : dict of str to Scan
        The same scans, with their whole tables, which list the splits.
    n_tasks : int or None
        Number of tasks, if the stage reads partitions their number: small ones may share a task. None: as many as the
        splits need, but at least one.
    on_driver : bool
        Whether the driver process runs the only task itself, because it holds the rows or because they are few.
    replaces : str
        The id of the node that is replaced when the stage is done.
    above : PlanNode
        The node that replaces it. Its scan with the id `scan` reads the rows of the stage.
    scan : str
        The id of that scan.
    filtered_by : PagesTable or None
        The build side of a join whose probe side the stage writes: rows without its keys need not be written.
    """

    number: int
    plan: p.PartitionedOutput
    n_partitions: int
    keys: tuple[str, ...]
    reads: dict[str, str]
    scans: dict[str, p.Scan]
    n_tasks: int | None
    on_driver: bool
    replaces: str
    above: p.PlanNode
    scan: str
    filtered_by: PagesTable | None = None

    def partition_bytes(self) -> list[int]:
        """The bytes that the stage reads of each partition; empty if it reads none by partition."""
        tables = [self.scans[scan].source for scan, how in self.reads.items() if how == PARTITION]
        return list(map(sum, zip(*(table.partition_bytes() for table in tables), strict=True)))

    def with_key_filter(self, key_filter: KeyFilterFile | None) -> Stage:
        """The stage with the filter of the keys of `filtered_by`; None: there is none."""
        return self if key_filter is None else replace(self, plan=self.plan.with_fields(key_filter=key_filter))

    def without_key_filter(self) -> Stage:
        """The stage without hashes of keys, and with all rows of its output."""
        return replace(self, plan=self.plan.with_fields(hashes_max=0), filtered_by=None)


@record(frozen=True)
class Part:
    """A plan that tasks can run without another stage.

    Attributes
    ----------
    plan : PlanNode
    reads : mapping of str to str
        As in Stage.
    distribution : str
        How its rows are divided among tasks: SPREAD, HASHED, SINGLE or LOCAL.
    n_tasks : int
        Number of partitions of a HASHED part.
    keys : tuple of tuples of str
        Lists of columns of a HASHED part. Rows with equal values of any one of the lists are in one task, which is that
        of the values' hash.
    """

    plan: p.PlanNode
    reads: Mapping[str, str]
    distribution: str
    n_tasks: int = 0
    keys: tuple[tuple[str, ...], ...] = ()

    def over(self, plan: p.PlanNode, names: Mapping[str, Sequence[str]] | None = None) -> Part:
        """The part with another plan on top of it. `names` gives the new names of columns; None: they stay."""
        return replace(self, plan=plan, keys=self.keys if names is None else rename_keys(self.keys, names))


def rename_keys(keys: Sequence[tuple[str, ...]], names: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Lists of columns under new names; those with a column that has none are left out."""
    return tuple(tuple(names[name][0] for name in one) for one in keys if all(names.get(name) for name in one))


def is_gathered(node: p.PlanNode) -> bool:
    """Whether a node reads rows that a stage wrote as one partition."""
    return isinstance(node, p.Scan) and isinstance(node.source, PagesTable) and not node.source.keys


def bytes_of_rows(n_rows: float, schema: pa.Schema) -> int:
    """An estimate of the bytes of rows."""
    width = 0
    for type_ in schema.types:
        try:
            width += max(1, type_.bit_width // 8)
        except ValueError:
            width += STRING_BYTES
    return int(n_rows * width)


def is_chain(node: p.PlanNode) -> bool:
    """Whether a node is a scan with filters and projections, which every task may repeat."""
    while isinstance(node, (p.Filter, p.Project)):
        node = node.child
    return isinstance(node, p.Scan)


def leaf_of(node: p.PlanNode) -> p.Scan:
    """The scan of a chain."""
    while not isinstance(node, p.Scan):
        (node,) = node.children
    return node


def table_of_keys(node: p.PlanNode, names: Sequence[str]) -> PagesTable | None:
    """The table of a stage that is partitioned by columns of a node: it has all their values but null.

    Below a chain of filters and projections, and below joins: a row of a join has the values of a row of its input.
    """
    if isinstance(node, p.Scan):
        source, held = node.source, dict(zip(node.schema.names, node.columns, strict=True))
        return source if isinstance(source, PagesTable) and [held[name] for name in names] == [*source.keys] else None
    if isinstance(node, p.Project):
        exprs = [node.expressions[node.schema.names.index(name)] for name in names]
        columns = [expr.name for expr in exprs if isinstance(expr, Column)]
        return table_of_keys(node.child, columns) if len(columns) == len(names) else None
    if isinstance(node, p.Filter):
        return table_of_keys(node.child, names)
    if isinstance(node, (p.HashJoin, p.NestedLoopJoin)):
        # Of an input whose columns are not returned, columns may have the same names.
        inputs = (node.right, node.left) if node.kind in ("right_semi", "right_anti") else (node.left, node.right)
        for child in inputs:
            if set(names) <= set(child.schema.names):
                return table_of_keys(child, names)
    return None


def is_local(scan: p.Scan) -> bool:
    """Whether only this process can read a table."""
    source: Any = scan.source
    while isinstance(source, ZonedTable):
        source = source.table
    return isinstance(source, (ArrowTable, StreamTable)) or bool(getattr(source, "splits_wait", False))


def can_hash(schema: pa.Schema, names: Sequence[str]) -> bool:
    """Whether rows can be partitioned by columns: there is one, and the engine compares none by its bytes."""
    return bool(names) and not any(compares_by_bytes(schema.field(name).type) for name in names)


def as_single(part: Part) -> Part:
    """The part in one task, which reads everything."""
    return Part(part.plan, dict.fromkeys(part.reads, ALL), SINGLE)


class Cutter:
    """Cuts one plan. If the inputs of a part are not computed yet, stages are added to `stages`, and the part is None.

    A part that a running stage computes is None too; `under_way` has the ids of these nodes.
    """

    def __init__(
        self, limits: Limits, estimator: Estimator, first_number: int, under_way: Collection[str] = ()
    ) -> None:
        self.stages: list[Stage] = []
        self._limits = limits
        self._estimator = estimator
        self._number = first_number
        self._under_way = under_way
        self._known: dict[int, tuple[p.PlanNode, Part | None]] = {}

    def check(self, plan: p.PlanNode) -> None:
        """Raise PlanError if a node can run in this process only."""
        for node in plan.walk():
            refuse(node, REFUSED)

    # --- stages ---

    def write(
        self,
        node: p.PlanNode,
        part: Part,
        keys: Sequence[str] = (),
        n_partitions: int = 1,
        scan: p.Scan | None = None,
        above: p.PlanNode | None = None,
        hashes_max: int = 0,
        filtered_by: PagesTable | None = None,
    ) -> None:
        """Add the stage that writes a part's rows, partitioned by `keys`. `scan` reads them and replaces `node`, or
        `above` does, which has the scan in it. `hashes_max` is that of the plan's PartitionedOutput.
        """
        schema = part.plan.schema
        scan = scan or p.Scan(node.id, schema, f"stage {self._number}", None, tuple(schema.names))
        scans = {leaf.id: leaf for leaf in part.plan.walk() if isinstance(leaf, p.Scan)}
        output = p.PartitionedOutput(
            f"{node.id}.pages",
            schema,
            _without_files(part.plan),
            "partitioned",
            tuple(keys),
            n_partitions,
            0,
            byte_nanos=self._limits.byte_nanos,
            hashes_max=hashes_max,
        )
        n_tasks = {SPREAD: None, HASHED: part.n_tasks, SINGLE: 1, LOCAL: 1}[part.distribution]
        on_driver = part.distribution == LOCAL or self._is_small(part)
        reads = dict.fromkeys(part.reads, ALL) if on_driver else dict(part.reads)
        self.stages.append(
            Stage(
                self._number,
                output,
                n_partitions,
                tuple(keys),
                reads,
                scans,
                1 if on_driver else n_tasks,
                on_driver,
                node.id,
                above or scan,
                scan.id,
                filtered_by,
            )
        )
        self._number += 1

    def write_narrow(
        self,
        node: p.PlanNode,
        part: Part,
        needed: set[str],
        keys: Sequence[str] = (),
        n_partitions: int = 1,
        hashes_max: int = 0,
        filtered_by: PagesTable | None = None,
    ) -> None:
        """Add the stage that writes those columns of a part that the node above needs."""
        names = [name for name in part.plan.schema.names if name in needed]
        if names != part.plan.schema.names:
            part = part.over(select_columns(f"{node.id}.columns", part.plan, names))
        self.write(node, part, keys, n_partitions, hashes_max=hashes_max, filtered_by=filtered_by)

    def _is_small(self, part: Part) -> bool:
        """Whether a part reads few bytes, all written by stages."""
        n_bytes = 0
        for leaf in part.plan.walk():
            if isinstance(leaf, p.Scan):
                if not isinstance(leaf.source, PagesTable):
                    return False
                n_bytes += leaf.source.n_bytes
        return n_bytes <= self._limits.driver_bytes

    def n_partitions(self, *nodes: p.PlanNode) -> int:
        """How many partitions the largest of these nodes' rows need."""
        n_bytes = max(self._estimated_bytes(node) for node in nodes)
        wanted = max(self._limits.n_tasks, -(-n_bytes // self._limits.partition_bytes))
        return max(1, min(wanted, self._limits.partitions_max))

    def _estimated_bytes(self, node: p.PlanNode) -> int:
        return bytes_of_rows(self._estimator.rows(node), node.schema)

    # --- parts ---

    def ready(self, node: p.PlanNode) -> Part | None:
        """The node as a part that tasks can run. None: stages must run first."""
        part = self.part(node)
        if part is not None and part.distribution == LOCAL:
            self.write(node, part)
            return None
        return part

    def part(self, node: p.PlanNode) -> Part | None:
        """The node as a part that tasks can run, or as a LOCAL part. None: stages must run first."""
        known = self._known.get(id(node))
        if known is None:
            part = None if node.id in self._under_way else _PARTS[type(node)](self, node)
            known = self._known[id(node)] = node, part
        return known[1]

    def gather_rows(self, node: p.PlanNode, needed: set[str] | None = None) -> Part | None:
        """The node's rows in one task."""
        part = self.ready(node)
        if part is None or part.distribution == SINGLE:
            return part
        if is_chain(part.plan) and is_gathered(leaf_of(part.plan)):
            return as_single(part)
        self.write_narrow(node, part, set(node.schema.names) if needed is None else needed)
        return None

    def scan(self, node: p.Scan) -> Part:
        source = node.source
        if source is None:
            raise PlanError(f"the scan {node.id!r} of {node.table} has no table; register it")
        if not isinstance(source, PagesTable):
            return Part(node, {node.id: SHARE}, LOCAL if is_local(node) else SPREAD)
        if not source.keys:
            return Part(node, {node.id: SHARE}, SPREAD)
        names: dict[str, list[str]] = {}
        for name, held in zip(node.schema.names, node.columns, strict=True):
            names.setdefault(held, []).append(name)
        return Part(node, {node.id: PARTITION}, HASHED, source.n_partitions, rename_keys([source.keys], names))

    def values(self, node: p.Values) -> Part:
        return Part(node, {}, LOCAL)

    def row_by_row(self, node: p.PlanNode) -> Part | None:
        (child,) = node.children
        part = self.part(child) if isinstance(node, (p.Filter, p.Project)) else self.ready(child)
        if part is None:
            return None
        names: dict[str, list[str]] = {}
        if isinstance(node, p.Project):
            for name, expr in zip(node.schema.names, node.expressions, strict=True):
                if isinstance(expr, Column):
                    names.setdefault(expr.name, []).append(name)
        else:
            names = {name: [name] for name in node.schema.names}
            if isinstance(node, GroupingSets):
                names = {name: held for name, held in names.items() if name not in node.schema.names[: node.n_keys]}
            elif isinstance(node, p.Unnest):
                names = {name: held for name, held in names.items() if name not in dict(node.lists).values()}
        return part.over(node.with_children(part.plan), names)

    # --- aggregates ---

    def aggregate(self, node: p.Aggregate) -> Part | None:
        part = self.ready(node.child)
        if part is None:
            return None
        plain = {expr.name: [name] for name, expr in reversed(node.keys) if isinstance(expr, Column)}
        if part.distribution == SINGLE:
            return part.over(node.with_fields(child=part.plan))
        if node.keys and rename_keys(part.keys, plain):
            return part.over(node.with_fields(child=part.plan), plain)
        keys = [name for name, _ in node.keys]
        hashable = can_hash(node.schema, keys)
        if replace_nested_keys(node) is not None or not has_partial_states(node):
            return self._whole_groups(node, part, keys if hashable else [])
        step = partial_step(node.with_fields(child=part.plan), f"{node.id}.partial")
        states = p.Scan(f"{node.id}.states", step.schema, f"stage {self._number}", None, tuple(step.schema.names))
        n_partitions = self.n_partitions(node) if keys else 1
        self.write(node, part.over(step), keys, n_partitions, states, final_step(node, node.id, states))
        return None

    def _whole_groups(self, node: p.Aggregate, part: Part, keys: Sequence[str]) -> Part | None:
        """For calls without partial states: the rows are partitioned, so that all rows of a group are in one task."""
        if not keys and is_chain(part.plan) and is_gathered(leaf_of(part.plan)):
            single = as_single(part)
            return single.over(node.with_fields(child=single.plan))
        used: set[str] = set()
        for call in node.aggregates:
            for expr in (*call.arguments, *([] if call.filter is None else [call.filter])):
                used |= column_names(expr)
        columns: dict[str, Expr] = {name: col(name) for name in part.plan.schema.names if name in used}
        named: list[tuple[str, Expr]] = []
        for number, (name, expr) in enumerate(node.keys):
            held = expr.name if isinstance(expr, Column) else f"$key{number}"
            columns[held] = expr
            named.append((name, col(held)))
        below = project(f"{node.id}.columns", part.plan, list(columns), list(columns.values()))
        rows = p.Scan(f"{node.id}.rows", below.schema, f"stage {self._number}", None, tuple(below.schema.names))
        above = node.with_fields(child=rows, keys=tuple(named))
        by = [expr.name for (name, expr) in named if isinstance(expr, Column)] if keys else []
        self.write(node, part.over(below), by, self.n_partitions(below) if by else 1, rows, above)
        return None

    def aggregate_step(self, node: p.AggregateStep) -> Part | None:
        if node.step == "partial":
            part = self.ready(node.child)
            return None if part is None else part.over(node.with_fields(child=part.plan), {})
        keys = [name for name, _ in node.aggregate.keys]
        part = self.ready(node.child)
        if part is None:
            return None
        if part.distribution != SINGLE and not any(set(held) <= set(keys) for held in part.keys):
            part = self.gather_rows(node.child)
            if part is None:
                return None
        return part.over(node.with_fields(child=part.plan), {name: [name] for name in keys})

    def window(self, node: p.Window) -> Part | None:
        part = self.ready(node.child)
        if part is None:
            return None
        by = list(node.partition_by)
        if part.distribution != SINGLE and not any(set(held) <= set(by) for held in part.keys):
            if can_hash(node.child.schema, by):
                self.write(node.child, part, by, self.n_partitions(node.child))
                return None
            part = self.gather_rows(node.child)
            if part is None:
                return None
        return part.over(node.with_fields(child=part.plan))

    # --- order ---

    def limit_rows(self, node: p.TopN | p.Limit) -> Part | None:
        """The first rows of each task, and then the first of these rows."""
        part = self.ready(node.child)
        if part is None:
            return None
        if part.distribution != SINGLE and is_gathered(node.child):
            part = as_single(part)
        if part.distribution == SINGLE:
            return part.over(node.with_fields(child=part.plan))
        count = None if node.count is None else node.count + node.offset
        below = node.with_fields(id=f"{node.id}.first", child=part.plan, count=count, offset=0)
        rows = p.Scan(f"{node.id}.rows", node.schema, f"stage {self._number}", None, tuple(node.schema.names))
        self.write(node, part.over(below), scan=rows, above=node.with_fields(child=rows))
        return None

    def alone(self, node: p.PlanNode) -> Part | None:
        """A node that must see all rows."""
        (child,) = node.children
        part = self.gather_rows(child)
        return None if part is None else part.over(node.with_children(part.plan))

    # --- several inputs ---

    def union(self, node: p.UnionAll) -> Part | None:
        found = [self.ready(child) for child in node.inputs]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        reads = {scan: how for part in parts for scan, how in part.reads.items()}
        plan = node.with_fields(inputs=tuple(part.plan for part in parts))
        if all(part.distribution == SINGLE for part in parts):
            return Part(plan, reads, SINGLE)
        n_tasks = {part.n_tasks for part in parts if part.distribution == HASHED}
        fits = {part.distribution for part in parts} <= {SPREAD, HASHED} and len(n_tasks) <= 1
        if fits:
            return Part(plan, reads, HASHED if n_tasks else SPREAD, max(n_tasks, default=0))
        for child, part in zip(node.inputs, parts, strict=True):
            if part.distribution != SPREAD:
                self.write(child, part)
        return None

    def plan_shared(self, node: p.Shared) -> Part | None:
        part = self.ready(node.child)
        if part is not None:
            names = tuple(node.schema.names)
            scan = p.Scan(node.id, node.schema, f"stage {self._number}", None, names)
            self.write(node, part, scan=scan)
        return None

    def shared_read(self, node: p.SharedRead) -> None:
        return None

    def recursive_union(self, node: p.RecursiveUnion) -> Part | None:
        """One task, which reads the tables again in each round."""
        below = [inner for child in node.inputs for inner in child.walk()]
        own = {inner.id for inner in below if isinstance(inner, p.Shared)}
        outside = any(isinstance(inner, p.SharedRead) and inner.of not in own for inner in below)
        written = [self.ready(inner) for inner in below if isinstance(inner, p.Scan) and is_local(inner)]
        if outside or None in written:
            return None
        return Part(node, {inner.id: ALL for inner in below if isinstance(inner, p.Scan)}, SINGLE)

    # --- joins ---

    def hash_join(self, node: p.HashJoin) -> Part | None:
        hashable = can_hash(node.left.schema, node.left_keys) and can_hash(node.right.schema, node.right_keys)
        pairs = list(zip(node.left_keys, node.right_keys, strict=True))
        return self._join(node, pairs if hashable and node.kind not in NULL_AWARE else [])

    def nested_loop_join(self, node: p.NestedLoopJoin) -> Part | None:
        return self._join(node, [])

    def _join(self, node: p.HashJoin | p.NestedLoopJoin, pairs: list[tuple[str, str]]) -> Part | None:
        """A join by keys, `pairs` of left and right columns, or without keys by which rows can be partitioned."""
        kind = FLIPPED.get(node.kind, node.kind) if node.build == "left" else node.kind
        if not pairs and kind not in OF_PROBE_ROWS and FLIPPED.get(kind) in OF_PROBE_ROWS:
            kind = FLIPPED[kind]
            node = node.with_fields(build="right" if node.build == "left" else "left")
        sides = _Sides(node, kind, pairs)
        build, probe = self.part(sides.build), self.part(sides.probe)
        if kind in OF_PROBE_ROWS:
            copied = self._copy_build(sides, build)
            if copied is not None:
                if probe is not None:
                    probe = self.ready(sides.probe)
                return None if probe is None else sides.join_parts(probe, copied)
        if build is None:
            return None
        if pairs:
            return self._partition_sides(sides, build)
        if kind in OF_PROBE_ROWS:
            self.write_narrow(sides.build, build, sides.find_needed(sides.build))
            return None
        one, other = self.gather_rows(sides.build), self.gather_rows(sides.probe)
        return None if one is None or other is None else sides.join_parts(other, one)

    def _copy_build(self, sides: _Sides, build: Part | None) -> Part | None:
        """The whole build side as a part for every task, if it is small or the join cannot be partitioned."""
        if build is None or build.distribution == LOCAL or not is_chain(build.plan):
            return None
        leaf = leaf_of(build.plan)
        if isinstance(leaf.source, PagesTable):
            fits = not sides.pairs or self._may_copy(leaf.source)
        else:
            known = leaf.source.statistics().row_count
            fits = known is not None and bytes_of_rows(known, leaf.schema) <= self._limits.broadcast_bytes
        return Part(build.plan, {leaf.id: ALL}, SINGLE) if fits else None

    def _may_copy(self, table: PagesTable) -> bool:
        """Whether every task may read and keep the rows of a table. They take more bytes in memory than in pages."""
        in_memory = bytes_of_rows(table.n_rows, table.schema)
        return max(table.n_bytes, in_memory // MEMORY_SHARE) <= self._limits.broadcast_bytes

    def _partition_sides(self, sides: _Sides, build: Part) -> Part | None:
        """A join whose tasks join the same partitions of both sides."""
        own, match = sides.match(build, sides.build)
        may_copy = sides.kind in OF_PROBE_ROWS and not is_chain(build.plan)
        if not own or (may_copy and self._estimated_bytes(sides.build) <= self._limits.broadcast_bytes):
            n_partitions = self.n_partitions(sides.build, sides.probe)
            keys = sides.keys_of(sides.build)
            hashes_max = HASHES_MAX if sides.kind in DROPS_UNMATCHED and self._pays_to_filter(sides) else 0
            self.write_narrow(sides.build, build, sides.find_needed(sides.build), keys, n_partitions, hashes_max)
            return None
        probe = self.part(sides.probe)
        if probe is None:
            return None
        if probe.distribution == HASHED and probe.n_tasks == build.n_tasks and match in probe.keys:
            return sides.join_parts(probe, build)
        filtered_by = table_of_keys(build.plan, own) if sides.kind in DROPS_UNMATCHED else None
        self.write_narrow(
            sides.probe, probe, sides.find_needed(sides.probe), match, build.n_tasks, filtered_by=filtered_by
        )
        return None

    def _pays_to_filter(self, sides: _Sides) -> bool:
        """Whether the hashes of the build keys have fewer bytes than the rows that they are likely to save."""
        if self._estimated_bytes(sides.probe) < 2 * HASH_BYTES * self._estimator.rows(sides.build):
            return False
        assert isinstance(sides.node, p.HashJoin)
        pairs = list(zip(sides.keys_of(sides.probe), sides.keys_of(sides.build), strict=True))
        return self._estimator.match_fraction(sides.node, sides.probe, sides.build, pairs) <= FOUND_MAX


class _Sides:
    """The sides of a join. `kind` is its kind with the build side on the right; `pairs` are left and right keys."""

    def __init__(self, node: p.HashJoin | p.NestedLoopJoin, kind: str, pairs: list[tuple[str, str]]) -> None:
        self.node = node
        self.kind = kind
        self.pairs = pairs
        self.build, self.probe = (node.left, node.right) if node.build == "left" else (node.right, node.left)

    def keys_of(self, side: p.PlanNode) -> tuple[str, ...]:
        """The keys of one side."""
        return tuple(pair[0 if side is self.node.left else 1] for pair in self.pairs)

    def find_needed(self, side: p.PlanNode) -> set[str]:
        """The columns of one side that the join reads or returns."""
        used = set(self.node.schema.names)
        if isinstance(self.node, p.HashJoin):
            used |= set(self.node.left_keys if side is self.node.left else self.node.right_keys)
        if self.node.condition is not None:
            used |= column_names(self.node.condition)
        return used & set(side.schema.names)

    def match(self, part: Part, side: p.PlanNode) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys of the join by which this side's part is partitioned, and those of the other side. Empty: none."""
        other = self.probe if side is self.build else self.build
        to_other = dict(zip(self.keys_of(side), self.keys_of(other), strict=True))
        if part.distribution == HASHED:
            for keys in part.keys:
                if all(name in to_other for name in keys):
                    return keys, tuple(to_other[name] for name in keys)
        return (), ()

    def join_parts(self, probe: Part, build: Part) -> Part:
        """The join of two parts whose tasks have the rows that match."""
        left, right = (build, probe) if self.build is self.node.left else (probe, build)
        plan = self.node.with_fields(left=left.plan, right=right.plan)
        names = {name: [name] for name in self.node.schema.names}
        keys = probe.keys if self.kind in OF_PROBE_ROWS else ()
        if build.distribution == HASHED and self.kind in ("inner", "right", "right_semi", "right_anti"):
            keys = (*keys, *build.keys)
        held = tuple(dict.fromkeys(rename_keys(keys, names)))
        return Part(plan, {**probe.reads, **build.reads}, probe.distribution, probe.n_tasks, held)


def _without_files(node: p.PlanNode) -> p.PlanNode:
    """The plan whose tables of stages have no list of files, because tasks get their splits."""
    if isinstance(node, p.Scan):
        source = node.source
        return node.with_fields(source=source.without_files()) if isinstance(source, PagesTable) else node
    if not node.children:
        return node
    return node.with_children(*map(_without_files, node.children))


_PARTS: dict[type[p.PlanNode], Callable[[Cutter, Any], Part | None]] = {
    p.Scan: Cutter.scan,
    p.Values: Cutter.values,
    p.Filter: Cutter.row_by_row,
    p.Project: Cutter.row_by_row,
    p.Unnest: Cutter.row_by_row,
    p.LocalPartition: Cutter.row_by_row,
    GroupingSets: Cutter.row_by_row,
    p.Aggregate: Cutter.aggregate,
    p.AggregateStep: Cutter.aggregate_step,
    p.Window: Cutter.window,
    p.TopN: Cutter.limit_rows,
    p.Limit: Cutter.limit_rows,
    p.OrderBy: Cutter.alone,
    p.EnforceSingleRow: Cutter.alone,
    p.UnionAll: Cutter.union,
    p.Shared: Cutter.plan_shared,
    p.SharedRead: Cutter.shared_read,
    p.RecursiveUnion: Cutter.recursive_union,
    p.HashJoin: Cutter.hash_join,
    p.NestedLoopJoin: Cutter.nested_loop_join,
}
