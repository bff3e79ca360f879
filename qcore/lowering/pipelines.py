"""Lowers a plan to pipelines of operators. Only this module builds operators.

A node with several inputs continues the pipeline of one of them. Each other input ends its own pipeline, and so does
each LocalPartition. A pipeline is a list of steps. Each step makes one operator for one driver of a run, so that
drivers do not share operators. The state that drivers share (split queues, join bridges, exchange queues, limits) is a
part of the run. It is made once for each run and passed to the constructors of operators. A lowered plan has no state
of a run and may be run any number of times. Operators that few plans have are imported where they are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from qcore.connectors.base import StoredTable, table_row_order
from qcore.connectors.streams import stream_of_values
from qcore.errors import PlanError
from qcore.expression.tree import Expr, col, column_names
from qcore.lowering.aggregate_retyping import compile_inputs, compile_post
from qcore.lowering.compile import compile_predicate, compile_projection, compile_unnest
from qcore.lowering.grouping_sets import GroupingSets, expand_grouping_sets
from qcore.lowering.lowered import RESULT_BYTES_MAX, LoweredPlan, MakePart, Pipeline, Run
from qcore.lowering.nested_keys import may_widen, replace_nested_keys
from qcore.lowering.nested_values import DecodedValues, EncodedValues, HeldTypes, ValueDecoder, ValueEncoder
from qcore.lowering.recursion import OrderedUnion
from qcore.lowering.retyping import Programs
from qcore.lowering.runtime_filters import (
    KeyBound,
    KeyFilters,
    RowFilters,
    key_bounds,
    scan_conditions,
    scan_keys,
)
from qcore.plan import nodes as p
from qcore.plan.aggregate_calls import AggregateSteps, aggregate_steps
from qcore.plan.planning_time import check_planning
from qcore.plan.window_calls import operator_call
from qcore.protocol_bridges import operator_maker, operator_name
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.aggregate.calls import AggregateCalls
from qcore_ext.basic.filter import Filter
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.basic.project import Project
from qcore_ext.basic.result_sink import ResultSink
from qcore_ext.basic.scan import TableScan
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.drift import Drift
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account

# A top-n of more rows sorts the whole input.
TOP_N_ROWS_MAX = 1 << 31

# With more drivers than this some have over a tenth more of the 256 radix parts than the mean.
BY_PART_DRIVERS_MAX = 32

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


def join_output(
    node: p.HashJoin | p.NestedLoopJoin, probe: pa.Schema, build: pa.Schema, pairs: Iterable[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """(side, column of that side, name in the output) for each output column of a join. `pairs` are the probe side's
    keys and the build side's.
    """
    sides = {name: ("probe", name) for name in probe.names} | {name: ("build", name) for name in build.names}
    if node.kind == "inner":
        # The build side's key is the probe row's own, so that the index need not have it.
        for probe_key, build_key in pairs:
            if _are_same_if_equal(probe.field(probe_key), build.field(build_key)):
                sides[build_key] = "probe", probe_key
    return [(*sides.get(name, ("mark", name)), name) for name in node.schema.names]


def _are_same_if_equal(field: pa.Field, other: pa.Field) -> bool:
    """Whether equal values of the two fields are the same value. Zeros and NaNs of floats are not."""
    type_ = field.type
    are_told_apart = pa.types.is_floating(type_) or pa.types.is_nested(type_) or pa.types.is_interval(type_)
    return type_ == other.type and field.nullable == other.nullable and not are_told_apart


def predicate_programs(predicate: Expr, declared: pa.Schema) -> Programs:
    return Programs(lambda schema: compile_predicate(predicate, schema), [predicate], declared)


def order_arguments(node: p.Aggregate) -> MakePart | None:
    """What makes HashAggregation's arguments for rows in order. A run asks the table, as files may have changed since
    the plan was made.
    """
    scan, column = node.child, node.ordered_by
    while isinstance(scan, (p.Filter, p.Project)):
        scan = scan.child
    if column is None or not isinstance(scan, p.Scan):
        return None
    source = scan.source

    def make(run: Run) -> dict[str, Any]:
        order = table_row_order(source, column)
        return {} if order is None else {"ordered": True, "fences": order.fences}

    return make


class Lowering:
    """Lowers one plan for runs with `threads` drivers in each pipeline that can be split."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.closed: list[Pipeline] = []
        self._parts: list[MakePart] = []
        self._scans: dict[str, p.Scan] = {}
        self._key_bounds: dict[str, list[KeyBound]] = {}
        self._row_filters: dict[str, RowFilters] = {}
        self._key_filters = KeyFilters()
        self._shared: dict[str, p.Shared] = {}
        self._n_reads: Counter[str] = Counter()
        self._spools: dict[str, tuple[int, Iterator[int]]] = {}
        self._output: int | None = None
        self._held_types: dict[object, int] = {}
        self._widens = False

    def _part(self, make: MakePart) -> int:
        """Add a part to each run. Returns its number. Its maker may read parts of smaller numbers."""
        self._parts.append(make)
        return len(self._parts) - 1

    def _programs(self, compile: Callable[[pa.Schema], Any], expressions: Sequence[Expr], declared: pa.Schema) -> int:
        """The part that gives the Program of these expressions for a schema; see Programs."""
        return self._part_of(Programs(compile, expressions, declared))

    def _part_of(self, programs: Programs) -> int:
        return self._part(lambda run: programs.of_run())

    def lower(self, node: p.PlanNode) -> Pipeline:
        """The open pipeline whose last step is the node."""
        check_planning()
        node = replace_nested_keys(node, self._widens) or node
        method = _METHODS.get(type(node))
        if method is None:
            raise PlanError(f"the engine cannot run a {type(node).__name__} node (node {node.id})")
        return method(self, node)

    def finish(self, root: p.PlanNode) -> LoweredPlan:
        """Lower the whole plan. Its rows go to the queue `results`, unless the plan ends in a sink."""
        self._note_shared(root)
        self._widens = may_widen(root)
        pipeline = self.lower(root)
        results = None
        if not isinstance(root, p.Sink):
            n_producers = pipeline.drivers
            results = self._part(lambda run: run.queues(n_producers, 1, RESULT_BYTES_MAX))
            pipeline.add(
                "result",
                lambda driver, run: ResultSink("result", run.memory, run.parts[results][0], run.settings.batch_rows),
            )
        self.closed.append(pipeline)
        return LoweredPlan(
            root,
            pa.schema(Schema(root.schema)),
            self.threads,
            self.closed,
            self._scans,
            self._parts,
            self._key_bounds,
            results,
            self._output,
        )

    # --- sources ---

    def scan(self, node: p.Scan) -> Pipeline:
        if node.id in self._scans:
            raise PlanError(f"two scan nodes have the id {node.id!r}; give one of them another id")
        self._scans[node.id] = node
        is_renamed = tuple(node.schema.names) != node.columns
        held = node.schema
        if is_renamed:
            held = pa.schema([field.with_name(name) for field, name in zip(held, node.columns, strict=True)])
        schema = Schema(held)
        drift = Drift.DRIFT_WITHIN if node.on_schema_change == "evolve" else Drift.DRIFT_NONE
        table = node.source if isinstance(node.source, StoredTable) else None
        filters = None
        if table is None:
            conditions = [(columns, predicate_programs(expr, held)) for columns, expr in scan_conditions(node)]
            filters = RowFilters(node, [(columns, self._part_of(programs)) for columns, programs in conditions])
            self._row_filters[node.id] = filters

        def make(driver: int, run: Run) -> TableScan:
            open_split, bounds = run.open_split, run.filters
            return TableScan(
                node.id,
                run.memory,
                run.split_queues[node.id],
                schema,
                lambda split: open_split(bounds.apply(node), split),
                run.settings.batch_rows,
                drift,
                () if filters is None else filters.of_driver(run),
                None if table is None else table.stored_rows(node.columns),
            )

        pipeline = Pipeline(self.threads)
        pipeline.add(node.id, make)
        if is_renamed:
            columns = [(name, col(held)) for name, held in zip(node.schema.names, node.columns, strict=True)]
            self._project(pipeline, node.id, columns, node.schema)
        return pipeline

    def values(self, node: p.Values) -> Pipeline:
        return self._one_split(node, lambda run: lambda _: stream_of_values(node.data))

    def ordered_rows(self, node: p.RecursiveUnion | OrderedUnion) -> Pipeline:
        def opener(run: Run) -> Callable[[Any], Any]:
            open, memory = run.open_recursion, run.memory
            assert open is not None
            return lambda _: open(node, memory)

        return self._one_split(node, opener)

    def _one_split(self, node: p.PlanNode, opener: Callable[[Run], Callable[[Any], Any]]) -> Pipeline:
        """A source of one split. `opener` takes a run and returns the function that opens the split."""

        def make_queue(run: Run) -> SplitQueue:
            queue = SplitQueue(node.id)
            # Errors show the split, so it is a number and not the data.
            queue.add(1)
            queue.no_more()
            return queue

        part = self._part(make_queue)
        schema = Schema(node.schema)
        pipeline = Pipeline(1)
        pipeline.add(
            node.id,
            lambda driver, run: TableScan(
                node.id, run.memory, run.parts[part], schema, opener(run), run.settings.batch_rows, Drift.DRIFT_WIDENS
            ),
        )
        return pipeline

    # --- one input, no state shared ---

    def filter(self, node: p.Filter) -> Pipeline:
        pipeline = self.lower(node.child)
        programs = self._part_of(predicate_programs(node.predicate, node.child.schema))
        pipeline.add(node.id, lambda driver, run: Filter(node.id, run.memory, run.parts[programs]))
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
        programs = self._programs(
            lambda schema: compile_projection(expressions, schema), [expr for _, expr in expressions], declared
        )
        pipeline.add(node_id, lambda driver, run: Project(node_id, run.memory, run.parts[programs]))

    # --- exchanges ---

    def exchange(
        self,
        pipeline: Pipeline,
        node_id: str,
        kind: str,
        keys: Sequence[str],
        drivers: int,
        schema: pa.Schema,
        *,
        by_part: bool = False,
    ) -> Pipeline:
        """Close `pipeline` with a LocalPartition and open the one that reads it, with `drivers` drivers."""
        n_producers = pipeline.drivers
        queues = self._part(lambda run: run.queues(n_producers, drivers))
        names, rows = list(keys), Schema(schema)
        pipeline.add(
            node_id,
            lambda driver, run: LocalPartition(node_id, run.memory, run.parts[queues], kind, names, rows, by_part),
        )
        self.closed.append(pipeline)
        above = Pipeline(drivers)
        above.add(node_id, lambda driver, run: LocalExchange(node_id, run.memory, run.parts[queues][driver], rows))
        return above

    def gather(self, pipeline: Pipeline, node: p.PlanNode, schema: pa.Schema) -> Pipeline:
        """The pipeline itself if it has one driver, else a pipeline of one driver that reads from all of them."""
        if pipeline.drivers == 1:
            return pipeline
        return self.exchange(pipeline, node.id, "gather", (), 1, schema)

    def local_partition(self, node: p.LocalPartition) -> Pipeline:
        drivers = 1 if node.kind == "gather" else node.drivers or self.threads
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
        n_producers = sum(pipeline.drivers for pipeline in inputs)
        queues = self._part(lambda run: run.queues(n_producers, drivers))
        for pipeline in inputs:
            pipeline.add(
                node.id, lambda driver, run: LocalPartition(node.id, run.memory, run.parts[queues], "round_robin", [])
            )
            self.closed.append(pipeline)
        rows = Schema(node.schema)
        above = Pipeline(drivers)
        above.add(node.id, lambda driver, run: LocalExchange(node.id, run.memory, run.parts[queues][driver], rows))
        return above

    # --- subplans computed once ---

    def _note_shared(self, root: p.PlanNode) -> None:
        """Count the readers of each shared subplan."""
        for node in root.walk():
            if isinstance(node, p.Shared):
                self._shared[node.id] = node
                self._n_reads[node.id] += 1
            elif isinstance(node, p.SharedRead):
                self._n_reads[node.of] += 1

    def lower_shared(self, node: p.Shared | p.SharedRead) -> Pipeline:
        """A pipeline that reads a spool. The first reader also lowers the pipeline that fills it."""
        from qcore_ext.basic.spool_read import SpoolRead
        from qcore_ext.basic.spool_write import SpoolWrite
        from qcore_ext.flow.batch_spool import BatchSpool

        name, columns = (node.id, tuple(node.schema.names)) if isinstance(node, p.Shared) else (node.of, node.columns)
        if name not in self._shared:
            raise PlanError(f"node {node.id} reads the shared subplan {name!r}, which the plan does not have")
        child = self._shared[name].child
        if name not in self._spools:
            below = self.lower(child)
            n_writers, n_readers = below.drivers, [self.threads] * self._n_reads[name]
            new = self._part(lambda run: BatchSpool(n_writers, n_readers))
            below.add(name, lambda driver, run: SpoolWrite(name, run.memory, run.parts[new]))
            self.closed.append(below)
            self._spools[name] = new, iter(range(self._n_reads[name]))
        spool, readers = self._spools[name]
        reader, schema = next(readers), Schema(child.schema)
        pipeline = Pipeline(self.threads)
        pipeline.add(node.id, lambda driver, run: SpoolRead(node.id, run.memory, run.parts[spool], reader, schema))
        if [*columns] != child.schema.names or [*columns] != node.schema.names:
            pairs = zip(node.schema.names, columns, strict=True)
            self._project(pipeline, node.id, [(new, col(held)) for new, held in pairs], child.schema)
        return pipeline

    # --- aggregation ---

    def grouping_sets(self, node: GroupingSets) -> Pipeline:
        from qcore_ext.aggregate.grouping_sets import GroupingSets as RepeatBySets

        assert isinstance(node.child, p.Project)
        pipeline = self.lower(node.child.child)
        named = list(zip(node.child.schema.names, node.child.expressions, strict=True))
        self._project(pipeline, node.child.id, named, node.child.child.schema)
        sets, numbers, schema = list(map(list, node.sets)), list(node.numbers), Schema(node.schema)
        pipeline.add(
            node.id,
            lambda driver, run: RepeatBySets(node.id, run.memory, sets, numbers, node.n_keys, schema),
        )
        return pipeline

    def aggregate(self, node: p.Aggregate) -> Pipeline:
        if node.grouping_sets is not None:
            return self.lower(expand_grouping_sets(node))
        pipeline = self.lower(node.child)
        steps = aggregate_steps(node)
        drivers = self.threads if steps.key_names else 1
        kind = "hash" if steps.key_names else "gather"
        make_order = None if steps.needs_all_rows else order_arguments(node)
        order = None if make_order is None else self._part(make_order)
        if pipeline.drivers == 1 and order is None:
            self._aggregation(pipeline, node, steps, "single", compile_inputs(steps, node.child.schema))
        elif steps.needs_all_rows or node.partition_keys:
            # Distinct and holistic aggregates need all rows of a group in one driver.
            inputs = self._part_of(compile_inputs(steps, node.child.schema))
            pipeline.add(node.id, lambda driver, run: Project(node.id, run.memory, run.parts[inputs]))
            # Parts are of use to a table of groups that is partitioned itself, and spread evenly over a few drivers.
            names = [steps.key_names[at] for at in node.partition_keys] or steps.key_names
            by_part = not steps.needs_all_rows and names == steps.key_names and drivers <= BY_PART_DRIVERS_MAX
            pipeline = self.exchange(pipeline, node.id, kind, names, drivers, steps.input_schema, by_part=by_part)
            self._aggregation(pipeline, node, steps, "single", None)
        else:
            programs = compile_inputs(steps, node.child.schema)
            self._aggregation(pipeline, node, steps, "partial", programs, order)
            pipeline = self.exchange(pipeline, node.id, kind, steps.key_names, drivers, steps.partial_schema)
            self._aggregation(pipeline, node, steps, "final", None)
        self._post(pipeline, node, steps)
        return pipeline

    def _post(self, pipeline: Pipeline, node: p.PlanNode, steps: AggregateSteps) -> None:
        """Append the projection from the last aggregation's output to the node's, if they differ."""
        if not steps.is_final:
            post = self._part_of(compile_post(steps))
            pipeline.add(node.id, lambda driver, run: Project(node.id, run.memory, run.parts[post]))

    def _aggregation(
        self,
        pipeline: Pipeline,
        node: p.Aggregate | p.AggregateStep,
        steps: AggregateSteps,
        step: str,
        programs: Programs | None,
        order: int | None = None,
    ) -> None:
        """Append one step of an aggregation. It reads the outputs of `programs`; without them, the input."""
        schema = Schema(steps.partial_schema if step == "partial" else steps.final_schema)
        inputs = Schema(steps.partial_schema if step == "final" else steps.input_schema)
        part = None if programs is None else self._part_of(programs)
        calls = AggregateCalls(steps.calls)
        pipeline.add(
            node.id,
            lambda driver, run: HashAggregation(
                node.id,
                run.memory,
                None if part is None else run.parts[part],
                len(steps.key_names),
                calls,
                step,
                schema,
                input_schema=inputs,
                **({} if order is None else run.parts[order]),
            ),
        )

    def aggregate_step(self, node: p.AggregateStep) -> Pipeline:
        pipeline = self.lower(node.child)
        steps = aggregate_steps(node.aggregate)
        if steps.needs_all_rows:
            raise PlanError(f"node {node.id}: one of its aggregates has no partial state; use the whole Aggregate")
        if node.step == "partial":
            self._aggregation(pipeline, node, steps, "partial", compile_inputs(steps, node.child.schema))
            return pipeline
        if pipeline.drivers > 1:
            kind, drivers = ("hash", self.threads) if steps.key_names else ("gather", 1)
            pipeline = self.exchange(pipeline, node.id, kind, steps.key_names, drivers, steps.partial_schema)
        self._aggregation(pipeline, node, steps, "final", None)
        self._post(pipeline, node, steps)
        return pipeline

    def window(self, node: p.Window) -> Pipeline:
        from qcore_ext.window.window import Window

        pipeline = self.lower(node.child)
        keys = list(node.partition_by)
        if pipeline.drivers > 1:
            kind, drivers = ("hash", self.threads) if keys else ("gather", 1)
            pipeline = self.exchange(pipeline, node.id, kind, keys, drivers, node.child.schema)
        calls = [operator_call(call) for call in node.calls]
        order, schema = sort_keys(node.order_by), Schema(node.schema)
        pipeline.add(node.id, lambda driver, run: Window(node.id, run.memory, keys, order, calls, schema))
        return pipeline

    # --- joins ---

    def hash_join(self, node: p.HashJoin) -> Pipeline:
        return self._join(node, node.left_keys, node.right_keys)

    def nested_loop_join(self, node: p.NestedLoopJoin) -> Pipeline:
        return self._join(node, None, None)

    def _join(
        self, node: p.HashJoin | p.NestedLoopJoin, left_keys: Sequence[str] | None, right_keys: Sequence[str] | None
    ) -> Pipeline:
        """The pipeline of the build side ends in HashBuild. That of the probe side continues."""
        from qcore_ext.join.bridge import JoinBridge
        from qcore_ext.join.hash_join_probe import HashProbe

        kind, probe, build, probe_keys, build_keys = node.kind, node.left, node.right, left_keys, right_keys
        if node.build == "left":
            if kind not in FLIPPED:
                raise PlanError(f"a {kind} join cannot build on its left side (node {node.id}); use build='right'")
            kind, probe, build, probe_keys, build_keys = FLIPPED[kind], build, probe, build_keys, probe_keys
        has_condition = node.condition is not None
        build_rows, probe_rows = Schema(build.schema), Schema(probe.schema)
        bridge = self._part(lambda run: JoinBridge(kind, n_builders, n_probers, has_condition, build_rows, probe_rows))
        filters = self._key_filters
        filters.choose(kind, probe, probe_keys or (), bridge, node.id)
        build_pipeline = filters.add_to(self.lower(build), node.id, "build", build.schema)
        pipeline = filters.add_to(self.lower(probe), node.id, "probe", probe.schema)
        n_builders, n_probers = build_pipeline.drivers, pipeline.drivers + filters.n_drivers[bridge]
        for scan, bound in key_bounds(kind, probe, probe_keys or (), bridge):
            self._key_bounds.setdefault(scan, []).append(bound)
        all_keys = scan_keys(kind, probe, probe_keys or (), bridge)
        if all_keys is not None and all_keys[0] in self._row_filters:
            self._row_filters[all_keys[0]].keys.append(all_keys[1])
        key_pairs = list(zip(probe_keys or (), build_keys or (), strict=True))
        output = join_output(node, probe.schema, build.schema, key_pairs)
        stored = [name for side, name, _ in output if side == "build"]
        condition = None
        if node.condition is not None:
            predicate = node.condition
            stored += [name for name in sorted(column_names(predicate)) if name in build.schema.names]
            pairs = pa.schema([*probe.schema, *build.schema])
            condition = self._part_of(predicate_programs(predicate, pairs))
        self._close_build(build_pipeline, node.id, bridge, list(build_keys or ()), list(dict.fromkeys(stored)))
        # A join without keys is a nested-loop join: every build row is a candidate for every probe row.
        keys = list(probe_keys or ())
        pipeline.add(
            node.id,
            lambda driver, run: HashProbe(
                node.id,
                run.memory,
                run.parts[bridge],
                keys,
                output,
                None if condition is None else run.parts[condition],
            ),
        )
        return pipeline

    def _close_build(self, pipeline: Pipeline, node_id: str, bridge: int, keys: list[str], stored: list[str]) -> None:
        from qcore_ext.join.hash_join_build import HashBuild

        pipeline.add(node_id, lambda driver, run: HashBuild(node_id, run.memory, run.parts[bridge], keys, stored))
        self.closed.append(pipeline)

    # --- nested values as bytes ---

    def encoded_values(self, node: EncodedValues) -> Pipeline:
        return self._value_step(node, Drift.DRIFT_WITHIN, lambda types, memory: ValueEncoder(node, types))

    def decoded_values(self, node: DecodedValues) -> Pipeline:
        # Another driver's encoder may have met wider types since this driver's input was bound.
        return self._value_step(node, Drift.DRIFT_WIDENS, lambda types, memory: ValueDecoder(node, types, memory))

    def _value_step(
        self,
        node: EncodedValues | DecodedValues,
        drift: int,
        make: Callable[[HeldTypes, Account], ValueEncoder | ValueDecoder],
    ) -> Pipeline:
        from qcore_ext.basic.python_operator import PythonOperator

        pipeline = self.lower(node.child)
        types, schema = self._types_of(node.token), Schema(node.schema)
        name = (ValueEncoder if isinstance(node, EncodedValues) else ValueDecoder).operator_name

        def make_operator(driver: int, run: Run) -> PythonOperator:
            maker = partial(make, run.parts[types], run.memory)
            return PythonOperator(name, node.id, run.memory, maker, "operator", schema, drift)

        pipeline.add(node.id, make_operator)
        return pipeline

    def _types_of(self, token: object) -> int:
        """The part with the types that the encoders of one operator have met."""
        if token not in self._held_types:
            self._held_types[token] = self._part(lambda run: HeldTypes())
        return self._held_types[token]

    # --- order ---

    def order_by(self, node: p.OrderBy) -> Pipeline:
        from qcore_ext.sort.order_by import OrderBy
        from qcore_ext.sort.shared_sort import SortState

        pipeline = self.lower(node.child)
        keys = sort_keys(node.keys)
        drivers = pipeline.drivers
        state = self._part(lambda run: SortState(drivers))
        pipeline.add(node.id, lambda driver, run: OrderBy(node.id, run.memory, keys, run.parts[state]))
        return pipeline

    def top_n(self, node: p.TopN) -> Pipeline:
        from qcore_ext.sort.top_n import TopN

        # TopN copies single rows, which is not possible for lists, structs and maps.
        if node.count + node.offset > TOP_N_ROWS_MAX or any(map(pa.types.is_nested, node.schema.types)):
            ordered = p.OrderBy(node.id, node.schema, node.child, node.keys)
            return self.limit(p.Limit(node.id, node.schema, ordered, node.count, node.offset))
        pipeline = self.lower(node.child)
        keys = sort_keys(node.keys)
        if pipeline.drivers > 1:
            pipeline.add(node.id, lambda driver, run: TopN(node.id, run.memory, keys, node.count + node.offset))
            pipeline = self.gather(pipeline, node, node.schema)
        pipeline.add(node.id, lambda driver, run: TopN(node.id, run.memory, keys, node.count, node.offset))
        return pipeline

    def limit(self, node: p.Limit) -> Pipeline:
        pipeline = self.lower(node.child)
        state = self._part(lambda run: LimitState(node.count, node.offset))
        pipeline.add(node.id, lambda driver, run: Limit(node.id, run.memory, run.parts[state]))
        return pipeline

    def enforce_single_row(self, node: p.EnforceSingleRow) -> Pipeline:
        from qcore_ext.basic.enforce_single_row import EnforceSingleRow

        pipeline = self.gather(self.lower(node.child), node, node.schema)
        schema = Schema(node.schema)
        pipeline.add(node.id, lambda driver, run: EnforceSingleRow(node.id, run.memory, schema))
        return pipeline

    def unnest(self, node: p.Unnest) -> Pipeline:
        from qcore_ext.basic.unnest import Unnest

        pipeline = self.lower(node.child)
        programs = self._programs(lambda schema: compile_unnest(node, schema), [], node.child.schema)
        pipeline.add(node.id, lambda driver, run: Unnest(node.id, run.memory, run.parts[programs], node.outer))
        return pipeline

    def table_write(self, node: p.TableWrite) -> Pipeline:
        from qcore.writing.file_sets import check_absent
        from qcore.writing.table_write import NAMES, TableCommit, TableWrite, TableWriteState
        from qcore_ext.basic.python_operator import PythonOperator

        pipeline = self.lower(node.child)
        if node.single:
            pipeline = self.gather(pipeline, node, node.child.schema)
        rows = pa.schema(Schema(node.child.schema))
        names, schema = Schema(NAMES), Schema(node.schema)

        def make_state(run: Run) -> TableWriteState:
            run.settings.file_access.check_path(node.path)
            if not node.single:
                check_absent(node.path, f"write_parquet (node {node.id})")
            return TableWriteState(node.path, rows, node.single, node.compression, node.row_group_rows, run.memory)

        part = self._part(make_state)

        def make_write(driver: int, run: Run) -> PythonOperator:
            state = run.parts[part]
            return PythonOperator(
                "TableWrite", node.id, run.memory, lambda: TableWrite(state, driver), "operator", names
            )

        def make_commit(driver: int, run: Run) -> PythonOperator:
            state = run.parts[part]
            return PythonOperator("TableCommit", node.id, run.memory, lambda: TableCommit(state), "operator", schema)

        pipeline.add(node.id, make_write)
        pipeline = self.gather(pipeline, node, NAMES)
        pipeline.add(node.id, make_commit)
        return pipeline

    def callback_sink(self, node: p.CallbackSink) -> Pipeline:
        from qcore_ext.basic.callback_sink import CallbackSink

        pipeline = self.lower(node.child)
        pipeline.add(node.id, lambda driver, run: CallbackSink(node.id, run.memory, node.callback))
        return pipeline

    def partitioned_output(self, node: p.PartitionedOutput) -> Pipeline:
        from qcore.writing.file_sets import check_absent
        from qcore.writing.page_file import HELD_BYTES_MAX, PageFileWriter
        from qcore.writing.partition_files import PartitionFiles
        from qcore_ext.exchange.output_buffer import OutputBuffer
        from qcore_ext.exchange.partitioned_output import PartitionedOutput

        pipeline = self.lower(node.child)
        keys = list(node.keys)
        drivers, schema, rows = pipeline.drivers, pa.schema(Schema(node.schema)), Schema(node.schema)

        def make_target(run: Run) -> OutputBuffer | PartitionFiles | PageFileWriter:
            if node.path is None:
                return OutputBuffer(node.kind, node.partitions, drivers, node.buffer_bytes)
            run.settings.file_access.check_path(node.path)
            check_absent(node.path, f"partitioned_output (node {node.id})")
            if node.single_file:
                held = min(HELD_BYTES_MAX, (run.settings.memory_limit or 8 * HELD_BYTES_MAX) // 8)
                return PageFileWriter(node.path, schema, drivers, run.memory, node.byte_nanos, held, node.hashes_max)
            return PartitionFiles(node.path, schema, node.keys, node.partitions, drivers, run.memory)

        target = self._part(make_target)
        if node.path is None or node.single_file:
            self._output = target
        key_filter = node.key_filter
        filter_part = None if key_filter is None else self._part(lambda run: key_filter.read())

        def make_output(driver: int, run: Run) -> PartitionedOutput:
            to = run.parts[target]
            hashes = to.hashes_of(run.memory) if node.single_file else None
            filter = None if filter_part is None else run.parts[filter_part]
            return PartitionedOutput(
                node.id, run.memory, to, node.partitions, keys, schema=rows, hashes=hashes, filter=filter
            )

        pipeline.add(node.id, make_output)
        return pipeline

    # --- written in Python ---

    def user_source(self, node: p.UserSource) -> Pipeline:
        return self._user_step(Pipeline(node.partitions or self.threads), node, "source")

    def user_operator(self, node: p.UserOperator) -> Pipeline:
        return self._user_step(self.lower(node.child), node, "operator")

    def user_sink(self, node: p.UserSink) -> Pipeline:
        return self._user_step(self.lower(node.child), node, "sink")

    def _user_step(self, pipeline: Pipeline, node: p.UserSource | p.UserOperator | p.UserSink, role: str) -> Pipeline:
        from qcore_ext.basic.python_operator import PythonOperator

        schema = Schema(node.schema)
        name = operator_name(node.factory)
        drivers, has_input = pipeline.drivers, role != "source"
        part = self._part(lambda run: operator_maker(node.factory, run.settings, drivers, has_input))
        evolves = isinstance(node, p.UserSource) and node.on_schema_change == "evolve"
        drift = Drift.DRIFT_WIDENS if evolves else Drift.DRIFT_NONE

        def make(driver: int, run: Run) -> PythonOperator:
            of_driver = run.parts[part]
            return PythonOperator(name, node.id, run.memory, lambda: of_driver(driver), role, schema, drift)

        pipeline.add(node.id, make)
        return pipeline


_METHODS: dict[type[p.PlanNode], Callable[[Lowering, Any], Pipeline]] = {
    p.Scan: Lowering.scan,
    p.Values: Lowering.values,
    p.Filter: Lowering.filter,
    p.Project: Lowering.project,
    p.Aggregate: Lowering.aggregate,
    p.AggregateStep: Lowering.aggregate_step,
    GroupingSets: Lowering.grouping_sets,
    EncodedValues: Lowering.encoded_values,
    DecodedValues: Lowering.decoded_values,
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
    OrderedUnion: Lowering.ordered_rows,
    p.RecursiveUnion: Lowering.ordered_rows,
    p.LocalPartition: Lowering.local_partition,
    p.Shared: Lowering.lower_shared,
    p.SharedRead: Lowering.lower_shared,
    p.CallbackSink: Lowering.callback_sink,
    p.PartitionedOutput: Lowering.partitioned_output,
    p.UserSource: Lowering.user_source,
    p.UserOperator: Lowering.user_operator,
    p.UserSink: Lowering.user_sink,
}


def sort_keys(keys: Sequence[p.SortKey]) -> list[tuple[str, bool, bool]]:
    """(column, descending, nulls first) as the sorting operators take them."""
    return [(key.column, key.descending, key.nulls_first) for key in keys]
