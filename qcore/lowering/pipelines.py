"""Plan → pipelines of operators; the only place that builds operators.

The tree is cut at every input of a node but one (SPEC V1) and at LocalPartition (V2). A pipeline is a list of steps;
each step makes one operator for one driver, so that every driver gets instances of its own (V4). What drivers share
(split queues, join bridges, exchange queues, limits) is made once, here, and handed to the operators' constructors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.connectors.streams import stream_of_values
from qcore.errors import PlanError
from qcore.expression.tree import Expr, col, column_names
from qcore.lowering.aggregate_retyping import compile_inputs, compile_post
from qcore.lowering.compile import compile_predicate, compile_projection, compile_unnest
from qcore.lowering.grouping_sets import GroupingSets, expand_grouping_sets
from qcore.lowering.nested_keys import replace_nested_keys
from qcore.lowering.retyping import once_per_schema
from qcore.lowering.runtime_filters import RuntimeFilters
from qcore.plan import nodes as p
from qcore.plan.aggregate_calls import AggregateSteps, aggregate_steps
from qcore.plan.planning_time import check_planning
from qcore.plan.window_calls import operator_call
from qcore.protocol_bridges import operator_maker, operator_name
from qcore.writing.file_sets import check_absent
from qcore.writing.partition_files import PartitionFiles
from qcore.writing.table_write import TableCommit, TableWrite, TableWriteState
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.aggregate.grouping_sets import GroupingSets as RepeatBySets
from qcore_ext.basic.callback_sink import CallbackSink
from qcore_ext.basic.enforce_single_row import EnforceSingleRow
from qcore_ext.basic.filter import Filter
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.basic.project import Project
from qcore_ext.basic.python_operator import PythonOperator
from qcore_ext.basic.result_sink import ResultSink
from qcore_ext.basic.scan import TableScan
from qcore_ext.basic.spool_read import SpoolRead
from qcore_ext.basic.spool_write import SpoolWrite
from qcore_ext.basic.unnest import Unnest
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.flow.batch_spool import BatchSpool
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_ext.sort.merge import SortState
from qcore_ext.sort.order_by import OrderBy
from qcore_ext.sort.top_n import TopN
from qcore_ext.window.window import Window

# (driver, the query's account) → the driver's operator. The function must not refer to the Lowering: the Lowering holds
# the pipelines, and a cycle would keep both alive.
MakeOperator = Callable[[int, Account], Any]
OpenSplit = Callable[[p.Scan, Any], Any]


@dataclass
class Pipeline:
    """A chain of steps, source first, run by `drivers` drivers."""

    drivers: int
    steps: list[MakeOperator] = field(default_factory=list)
    node_ids: list[str] = field(default_factory=list)

    def add(self, node_id: str, make: MakeOperator) -> None:
        self.steps.append(make)
        self.node_ids.append(node_id)

    def chains(self, memory: Account) -> list[list[Any]]:
        """The operators of every driver. Their accounts are below the query's account `memory`."""
        return [[make(driver, memory) for make in self.steps] for driver in range(self.drivers)]


@dataclass
class Lowered:
    """A lowered plan: pipelines in the order in which they were closed. The last one gives the result."""

    pipelines: list[Pipeline]
    split_queues: dict[str, SplitQueue]
    memory: Account
    results: BatchQueue | None
    output: OutputBuffer | None = None


# A top-n of more rows sorts the whole input.
TOP_N_ROWS_MAX = 1 << 31
# Bytes in a queue. With a memory limit, all queues of one exchange together take an eighth of it.
QUEUE_BYTES_MIN, QUEUE_BYTES_MAX, QUEUES_SHARE = 1 << 20, 1 << 25, 8

# Kinds of joins after their sides are exchanged.
FLIPPED = {
    "inner": "inner",
    "full": "full",
    "left": "right",
    "right": "left",
    "left_semi": "right_semi",
    "right_semi": "left_semi",
    "left_anti": "right_anti",
    "right_anti": "left_anti",
}


def join_output(node: p.HashJoin | p.NestedLoopJoin, probe: pa.Schema, build: pa.Schema) -> list[tuple[str, str, str]]:
    """(side, column of that side, name in the output) for each output column of a join."""
    sides = dict.fromkeys(probe.names, "probe") | dict.fromkeys(build.names, "build")
    return [(sides.get(name, "mark"), name, name) for name in node.schema.names]


class Lowering:
    """Lowers one plan.

    `open_split(scan, split)` opens a split of a scan node as an Arrow stream. `open_recursion(node, memory)` opens the
    rows of a RecursiveUnion; `memory` is the account of the query that reads them. With `reader`, the account of
    another query, the plan is part of that query: stopping that query stops this plan.
    """

    def __init__(
        self,
        settings: Settings,
        open_split: OpenSplit,
        open_recursion: Callable[[p.RecursiveUnion, Account], Any] | None = None,
        reader: Account | None = None,
    ) -> None:
        self.settings = settings
        self.open_split = open_split
        self.open_recursion = open_recursion
        limit, pool = settings.memory_limit or 0, settings.memory_pool
        self.memory = Account(None, limit) if pool is None else pool.account(limit)
        if reader is not None:
            self.memory.read_by(reader)
        self.closed: list[Pipeline] = []
        self.split_queues: dict[str, SplitQueue] = {}
        self._runtime_filters = RuntimeFilters()
        self._shared: dict[str, p.Shared] = {}
        self._n_reads: Counter[str] = Counter()
        self._spools: dict[str, tuple[BatchSpool, Iterator[int]]] = {}
        self.output: OutputBuffer | None = None

    def _queues(self, n_producers: int, n_queues: int) -> list[BatchQueue]:
        """The queues of one exchange."""
        limit = self.settings.memory_limit or QUEUES_SHARE * n_queues * QUEUE_BYTES_MAX
        share = max(QUEUE_BYTES_MIN, limit // QUEUES_SHARE // n_queues)
        return [BatchQueue(n_producers, bytes_max=min(share, QUEUE_BYTES_MAX)) for _ in range(n_queues)]

    def lower(self, node: p.PlanNode) -> Pipeline:
        """The open pipeline whose last step is the node."""
        check_planning()
        node = replace_nested_keys(node) or node
        method = _METHODS.get(type(node))
        if method is None:
            raise PlanError(f"the engine cannot run a {type(node).__name__} node (node {node.id})")
        return method(self, node)

    def finish(self, root: p.PlanNode) -> Lowered:
        """Lower the whole plan. Its rows go to the queue `results`, unless the plan ends in a sink."""
        self._note_shared(root)
        pipeline = self.lower(root)
        results = None
        if not isinstance(root, p.Sink):
            (results,) = self._queues(pipeline.drivers, 1)
            pipeline.add("result", lambda driver, memory: ResultSink("result", memory, results))
        self.closed.append(pipeline)
        return Lowered(self.closed, self.split_queues, self.memory, results, self.output)

    # --- sources ---

    def scan(self, node: p.Scan) -> Pipeline:
        if node.id in self.split_queues:
            raise PlanError(f"two scan nodes have the id {node.id!r}; give one another id")
        queue = self.split_queues[node.id] = SplitQueue(node.id)
        pairs = list(zip(node.schema, node.columns, strict=True))
        schema = Schema(pa.schema([field.with_name(held) for field, held in pairs]))
        open_split, filters, batch_rows = self.open_split, self._runtime_filters, self.settings.batch_rows
        pipeline = Pipeline(self.settings.threads)
        pipeline.add(
            node.id,
            lambda driver, memory: TableScan(
                node.id,
                memory,
                queue,
                schema,
                lambda split: open_split(filters.apply(node), split),
                batch_rows,
                node.on_schema_change == "evolve",
            ),
        )
        if tuple(node.schema.names) != node.columns:
            columns = [(field.name, col(held)) for field, held in pairs]
            self._project(pipeline, node.id, columns, node.schema)
        return pipeline

    def values(self, node: p.Values) -> Pipeline:
        return self._one_split(node, node.data, stream_of_values)

    def recursive_union(self, node: p.RecursiveUnion) -> Pipeline:
        assert self.open_recursion is not None
        open, memory = self.open_recursion, self.memory
        return self._one_split(node, node, lambda union: open(union, memory))

    def _one_split(self, node: p.PlanNode, split: Any, open: Callable[[Any], Any]) -> Pipeline:
        queue = SplitQueue(node.id)
        # Errors show the split, so it is a number and not the data.
        queue.add(1)
        queue.no_more()
        schema = Schema(node.schema)
        batch_rows = self.settings.batch_rows
        pipeline = Pipeline(1)
        pipeline.add(
            node.id,
            lambda driver, memory: TableScan(
                node.id, memory, queue, schema, lambda _: open(split), batch_rows, widens=True
            ),
        )
        return pipeline

    # --- one input, no state shared ---

    def filter(self, node: p.Filter) -> Pipeline:
        pipeline = self.lower(node.child)
        compile = once_per_schema(
            lambda schema: compile_predicate(node.predicate, schema), [node.predicate], node.child.schema
        )
        pipeline.add(node.id, lambda driver, memory: Filter(node.id, memory, compile))
        return pipeline

    def project(self, node: p.Project) -> Pipeline:
        pipeline = self.lower(node.child)
        named = list(zip(node.schema.names, node.expressions, strict=True))
        self._project(pipeline, node.id, named, node.child.schema)
        return pipeline

    def _project(
        self,
        pipeline: Pipeline,
        node_id: str,
        expressions: Sequence[tuple[str, Expr]],
        declared: pa.Schema,
    ) -> None:
        """Append a projection. `declared` is the schema of its input in the plan."""
        compile = _projection(expressions, declared)
        pipeline.add(node_id, lambda driver, memory: Project(node_id, memory, compile))

    # --- exchanges ---

    def exchange(
        self, pipeline: Pipeline, node_id: str, kind: str, keys: Sequence[str], drivers: int, schema: pa.Schema
    ) -> Pipeline:
        """Close `pipeline` with a LocalPartition and open the one that reads it, with `drivers` drivers."""
        queues = self._queues(pipeline.drivers, drivers)
        names, rows = list(keys), Schema(schema)
        pipeline.add(node_id, lambda driver, memory: LocalPartition(node_id, memory, queues, kind, names, rows))
        self.closed.append(pipeline)
        above = Pipeline(drivers)
        above.add(node_id, lambda driver, memory: LocalExchange(node_id, memory, queues[driver], rows))
        return above

    def gather(self, pipeline: Pipeline, node: p.PlanNode, schema: pa.Schema) -> Pipeline:
        """The pipeline itself if it has one driver, else a pipeline of one driver that reads from all of them."""
        if pipeline.drivers == 1:
            return pipeline
        return self.exchange(pipeline, node.id, "gather", (), 1, schema)

    def local_partition(self, node: p.LocalPartition) -> Pipeline:
        drivers = 1 if node.kind == "gather" else node.drivers or self.settings.threads
        return self.exchange(self.lower(node.child), node.id, node.kind, node.keys, drivers, node.schema)

    def union_all(self, node: p.UnionAll) -> Pipeline:
        inputs = []
        for child in node.inputs:
            pipeline = self.lower(child)
            if child.schema.names != node.schema.names:
                pairs = zip(node.schema.names, child.schema.names, strict=True)
                self._project(pipeline, node.id, [(name, col(of)) for name, of in pairs], child.schema)
            inputs.append(pipeline)
        drivers = max(pipeline.drivers for pipeline in inputs)
        queues = self._queues(sum(pipeline.drivers for pipeline in inputs), drivers)
        for pipeline in inputs:
            pipeline.add(node.id, lambda driver, memory: LocalPartition(node.id, memory, queues, "round_robin", []))
            self.closed.append(pipeline)
        engine_schema = Schema(node.schema)
        above = Pipeline(drivers)
        above.add(node.id, lambda driver, memory: LocalExchange(node.id, memory, queues[driver], engine_schema))
        return above

    # --- subplans computed once ---

    def _note_shared(self, root: p.PlanNode) -> None:
        """Note the shared subplans and how many places read each."""
        for node in root.walk():
            if isinstance(node, p.Shared):
                self._shared[node.id] = node
                self._n_reads[node.id] += 1
            elif isinstance(node, p.SharedRead):
                self._n_reads[node.of] += 1

    def shared(self, node: p.Shared | p.SharedRead) -> Pipeline:
        """A pipeline that reads a spool. The first reader also lowers the pipeline that fills it."""
        name, columns = (node.id, tuple(node.schema.names)) if isinstance(node, p.Shared) else (node.of, node.columns)
        if name not in self._shared:
            raise PlanError(f"node {node.id} reads the shared subplan {name!r}, which the plan does not have")
        child = self._shared[name].child
        if name not in self._spools:
            below = self.lower(child)
            new = BatchSpool(below.drivers, [self.settings.threads] * self._n_reads[name])
            below.add(name, lambda driver, memory: SpoolWrite(name, memory, new))
            self.closed.append(below)
            self._spools[name] = new, iter(range(self._n_reads[name]))
        spool, readers = self._spools[name]
        reader, schema = next(readers), Schema(child.schema)
        pipeline = Pipeline(self.settings.threads)
        pipeline.add(node.id, lambda driver, memory: SpoolRead(node.id, memory, spool, reader, schema))
        if [*columns] != child.schema.names or [*columns] != node.schema.names:
            pairs = zip(node.schema.names, columns, strict=True)
            self._project(pipeline, node.id, [(new, col(held)) for new, held in pairs], child.schema)
        return pipeline

    # --- aggregation ---

    def grouping_sets(self, node: GroupingSets) -> Pipeline:
        assert isinstance(node.child, p.Project)
        pipeline = self.lower(node.child.child)
        named = list(zip(node.child.schema.names, node.child.expressions, strict=True))
        self._project(pipeline, node.child.id, named, node.child.child.schema)
        sets, numbers, schema = list(map(list, node.sets)), list(node.numbers), Schema(node.schema)
        pipeline.add(
            node.id,
            lambda driver, memory: RepeatBySets(node.id, memory, sets, numbers, node.n_keys, schema),
        )
        return pipeline

    def aggregate(self, node: p.Aggregate) -> Pipeline:
        if node.grouping_sets is not None:
            return self.lower(expand_grouping_sets(node))
        pipeline = self.lower(node.child)
        steps = aggregate_steps(node)
        drivers = self.settings.threads if steps.key_names else 1
        kind = "hash" if steps.key_names else "gather"
        if pipeline.drivers == 1:
            self._aggregation(pipeline, node, steps, "single", compile_inputs(steps, node.child.schema))
        elif steps.needs_all_rows:
            # Distinct and holistic aggregates need all rows of a group in one driver.
            inputs = compile_inputs(steps, node.child.schema)
            pipeline.add(node.id, lambda driver, memory: Project(node.id, memory, inputs))
            pipeline = self.exchange(pipeline, node.id, kind, steps.key_names, drivers, steps.input_schema)
            self._aggregation(pipeline, node, steps, "single", None)
        else:
            self._aggregation(pipeline, node, steps, "partial", compile_inputs(steps, node.child.schema))
            pipeline = self.exchange(pipeline, node.id, kind, steps.key_names, drivers, steps.partial_schema)
            self._aggregation(pipeline, node, steps, "final", None)
        if not steps.is_final:
            post = compile_post(steps)
            pipeline.add(node.id, lambda driver, memory: Project(node.id, memory, post))
        return pipeline

    def _aggregation(
        self,
        pipeline: Pipeline,
        node: p.Aggregate,
        steps: AggregateSteps,
        step: str,
        compile: Callable[[Any], Any] | None,
    ) -> None:
        """Append one step of an aggregation. It reads the outputs of `compile`'s program; without one, the input."""
        schema = Schema(steps.partial_schema if step == "partial" else steps.final_schema)
        inputs = Schema(steps.partial_schema if step == "final" else steps.input_schema)
        pipeline.add(
            node.id,
            lambda driver, memory: HashAggregation(
                node.id, memory, compile, len(steps.key_names), steps.calls, step, schema, input_schema=inputs
            ),
        )

    def window(self, node: p.Window) -> Pipeline:
        pipeline = self.lower(node.child)
        keys = list(node.partition_by)
        if pipeline.drivers > 1:
            kind, drivers = ("hash", self.settings.threads) if keys else ("gather", 1)
            pipeline = self.exchange(pipeline, node.id, kind, keys, drivers, node.child.schema)
        calls = [operator_call(call) for call in node.calls]
        schema = Schema(node.schema)
        pipeline.add(
            node.id, lambda driver, memory: Window(node.id, memory, keys, sort_keys(node.order_by), calls, schema)
        )
        return pipeline

    # --- joins ---

    def hash_join(self, node: p.HashJoin) -> Pipeline:
        return self._join(node, node.left_keys, node.right_keys)

    def nested_loop_join(self, node: p.NestedLoopJoin) -> Pipeline:
        return self._join(node, None, None)

    def _join(
        self, node: p.HashJoin | p.NestedLoopJoin, left_keys: Sequence[str] | None, right_keys: Sequence[str] | None
    ) -> Pipeline:
        """The pipeline of the build side ends in HashBuild. That of the probe side continues (SPEC V15)."""
        kind, probe, build, probe_keys, build_keys = node.kind, node.left, node.right, left_keys, right_keys
        if node.build == "left":
            if kind not in FLIPPED:
                raise PlanError(f"a {kind} join cannot build on its left side (node {node.id}); use build='right'")
            kind, probe, build, probe_keys, build_keys = FLIPPED[kind], build, probe, build_keys, probe_keys
        build_pipeline = self.lower(build)
        pipeline = self.lower(probe)
        bridge = JoinBridge(
            kind, build_pipeline.drivers, pipeline.drivers, node.condition is not None, build.schema, probe.schema
        )
        self._runtime_filters.note(kind, probe, probe_keys or (), bridge)
        output = join_output(node, probe.schema, build.schema)
        stored = [name for side, name, _ in output if side == "build"]
        if node.condition is not None:
            stored += [name for name in sorted(column_names(node.condition)) if name in build.schema.names]
        condition = None
        if node.condition is not None:
            predicate = node.condition
            pairs = pa.schema([*probe.schema, *build.schema])
            condition = once_per_schema(lambda schema: compile_predicate(predicate, schema), [predicate], pairs)
        self._close_build(build_pipeline, node.id, bridge, list(build_keys or ()), list(dict.fromkeys(stored)))
        # A join without keys is a nested-loop join: every build row is a candidate for every probe row.
        keys = list(probe_keys or ())
        pipeline.add(node.id, lambda driver, memory: HashProbe(node.id, memory, bridge, keys, output, condition))
        return pipeline

    def _close_build(
        self, pipeline: Pipeline, node_id: str, bridge: JoinBridge, keys: list[str], stored: list[str]
    ) -> None:
        pipeline.add(node_id, lambda driver, memory: HashBuild(node_id, memory, bridge, keys, stored))
        self.closed.append(pipeline)

    # --- order ---

    def order_by(self, node: p.OrderBy) -> Pipeline:
        pipeline = self.lower(node.child)
        keys = sort_keys(node.keys)
        state = SortState(pipeline.drivers)
        pipeline.add(node.id, lambda driver, memory: OrderBy(node.id, memory, keys, state))
        return pipeline

    def top_n(self, node: p.TopN) -> Pipeline:
        # TopN copies single rows, which is not possible for lists, structs and maps.
        if node.count + node.offset > TOP_N_ROWS_MAX or any(map(pa.types.is_nested, node.schema.types)):
            ordered = p.OrderBy(node.id, node.schema, node.child, node.keys)
            return self.limit(p.Limit(node.id, node.schema, ordered, node.count, node.offset))
        pipeline = self.lower(node.child)
        keys = sort_keys(node.keys)
        if pipeline.drivers > 1:
            pipeline.add(node.id, lambda driver, memory: TopN(node.id, memory, keys, node.count + node.offset))
            pipeline = self.gather(pipeline, node, node.schema)
        pipeline.add(node.id, lambda driver, memory: TopN(node.id, memory, keys, node.count, node.offset))
        return pipeline

    def limit(self, node: p.Limit) -> Pipeline:
        pipeline = self.lower(node.child)
        state = LimitState(node.count, node.offset)
        pipeline.add(node.id, lambda driver, memory: Limit(node.id, memory, state))
        return pipeline

    def enforce_single_row(self, node: p.EnforceSingleRow) -> Pipeline:
        pipeline = self.gather(self.lower(node.child), node, node.schema)
        schema = Schema(node.schema)
        pipeline.add(node.id, lambda driver, memory: EnforceSingleRow(node.id, memory, schema))
        return pipeline

    def unnest(self, node: p.Unnest) -> Pipeline:
        pipeline = self.lower(node.child)
        compile = once_per_schema(lambda schema: compile_unnest(node, schema), [], node.child.schema)
        pipeline.add(node.id, lambda driver, memory: Unnest(node.id, memory, compile, node.outer))
        return pipeline

    def table_write(self, node: p.TableWrite) -> Pipeline:
        self.settings.file_access.check_path(node.path)
        if not node.single:
            check_absent(node.path, f"write_parquet (node {node.id})")
        pipeline = self.lower(node.child)
        if node.single:
            pipeline = self.gather(pipeline, node, node.child.schema)
        rows = pa.schema(Schema(node.child.schema))
        state = TableWriteState(node.path, rows, node.single, node.compression, node.row_group_rows)
        schema = Schema(node.schema)
        pipeline.add(
            node.id,
            lambda driver, memory: PythonOperator(
                "TableWrite", node.id, memory, lambda: TableWrite(state, driver), "operator", schema
            ),
        )
        pipeline = self.gather(pipeline, node, node.schema)
        pipeline.add(
            node.id,
            lambda driver, memory: PythonOperator(
                "TableCommit", node.id, memory, lambda: TableCommit(state), "operator", schema
            ),
        )
        return pipeline

    def callback_sink(self, node: p.CallbackSink) -> Pipeline:
        pipeline = self.lower(node.child)
        pipeline.add(node.id, lambda driver, memory: CallbackSink(node.id, memory, node.callback))
        return pipeline

    def partitioned_output(self, node: p.PartitionedOutput) -> Pipeline:
        pipeline = self.lower(node.child)
        keys = list(node.keys)
        target: OutputBuffer | PartitionFiles
        if node.path is None:
            target = self.output = OutputBuffer(node.kind, node.partitions, pipeline.drivers, node.buffer_bytes)
        else:
            self.settings.file_access.check_path(node.path)
            check_absent(node.path, f"partitioned_output (node {node.id})")
            schema = pa.schema(Schema(node.schema))
            target = PartitionFiles(node.path, schema, node.keys, node.partitions, pipeline.drivers)
        rows = Schema(node.schema)
        pipeline.add(
            node.id,
            lambda driver, memory: PartitionedOutput(node.id, memory, target, node.partitions, keys, schema=rows),
        )
        return pipeline

    # --- written in Python ---

    def user_source(self, node: p.UserSource) -> Pipeline:
        return self._user_step(Pipeline(node.partitions or self.settings.threads), node, "source")

    def user_operator(self, node: p.UserOperator) -> Pipeline:
        return self._user_step(self.lower(node.child), node, "operator")

    def user_sink(self, node: p.UserSink) -> Pipeline:
        return self._user_step(self.lower(node.child), node, "sink")

    def _user_step(self, pipeline: Pipeline, node: p.UserSource | p.UserOperator | p.UserSink, role: str) -> Pipeline:
        schema = Schema(node.schema)
        name = operator_name(node.factory)
        make = operator_maker(node.factory, self.settings, pipeline.drivers, role != "source")
        evolve = isinstance(node, p.UserSource) and node.on_schema_change == "evolve"
        pipeline.add(
            node.id,
            lambda driver, memory: PythonOperator(name, node.id, memory, lambda: make(driver), role, schema, evolve),
        )
        return pipeline


_METHODS: dict[type[p.PlanNode], Callable[[Lowering, Any], Pipeline]] = {
    p.Scan: Lowering.scan,
    p.Values: Lowering.values,
    p.Filter: Lowering.filter,
    p.Project: Lowering.project,
    p.Aggregate: Lowering.aggregate,
    GroupingSets: Lowering.grouping_sets,
    p.Window: Lowering.window,
    p.HashJoin: Lowering.hash_join,
    p.NestedLoopJoin: Lowering.nested_loop_join,
    p.OrderBy: Lowering.order_by,
    p.TopN: Lowering.top_n,
    p.Limit: Lowering.limit,
    p.EnforceSingleRow: Lowering.enforce_single_row,
    p.Unnest: Lowering.unnest,
    p.TableWrite: Lowering.table_write,
    p.UnionAll: Lowering.union_all,
    p.RecursiveUnion: Lowering.recursive_union,
    p.LocalPartition: Lowering.local_partition,
    p.Shared: Lowering.shared,
    p.SharedRead: Lowering.shared,
    p.CallbackSink: Lowering.callback_sink,
    p.PartitionedOutput: Lowering.partitioned_output,
    p.UserSource: Lowering.user_source,
    p.UserOperator: Lowering.user_operator,
    p.UserSink: Lowering.user_sink,
}


def _projection(expressions: Sequence[tuple[str, Expr]], declared: pa.Schema) -> Callable[[Any], Any]:
    return once_per_schema(
        lambda schema: compile_projection(expressions, schema), [expr for _, expr in expressions], declared
    )


def sort_keys(keys: Sequence[p.SortKey]) -> list[tuple[str, bool, bool]]:
    """(column, descending, nulls first) as the sorting operators take them."""
    return [(key.column, key.descending, key.nulls_first) for key in keys]
