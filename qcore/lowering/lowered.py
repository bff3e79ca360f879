"""Lowered plans, which any number of runs use, and the state of a run.

Lowering a plan takes longer than starting a run of it, so a plan that is run again is lowered once. A lowered plan has
the shape of the pipelines, schemas, sort keys, calls and compiled programs. Operators, and the state that the drivers
of a pipeline share (split queues, join bridges, exchange queues, limits, output files), are made for each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from qcore.config import Settings
from qcore.expression.tree import Expr
from qcore.lowering.recursion import OrderedUnion
from qcore.lowering.runtime_filters import KeyBound, RuntimeFilters, source_filter
from qcore.plan import nodes as p
from qcore.record import record
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account

if TYPE_CHECKING:
    from qcore.writing.page_file import PageFileWriter
    from qcore_ext.exchange.output_buffer import OutputBuffer

OpenSplit = Callable[[p.Scan, Any], Any]
OpenRecursion = Callable[[p.RecursiveUnion | OrderedUnion, Account], Any]

# Bytes in a queue. With a memory limit, all queues of one exchange together take an eighth of it. A queue of the result
# has more, because a batch for the reader has at most half of them.
QUEUE_BYTES_MIN, QUEUE_BYTES_MAX, QUEUES_SHARE = 1 << 20, 1 << 23, 8
RESULT_BYTES_MAX = 1 << 25


class Run:
    """The state of one run of a lowered plan.

    Parameters
    ----------
    plan : LoweredPlan
    settings : Settings
        The settings of the run. `threads` is the number that the plan was lowered for.
    open_split : callable
        (scan, split): opens a split of a scan node as an Arrow stream.
    open_recursion : callable, optional
        (node, memory): opens the rows of a RecursiveUnion; `memory` is the account of the query that reads them.
    reader : Account, optional
        The account of another query. The run is part of that query: stopping that query stops this run.

    Attributes
    ----------
    memory : Account
        The account of the query.
    parts : list
        The objects that the drivers of one or more pipelines share.
    split_queues : dict of str to SplitQueue
        The queue of each scan node by its id.
    results : BatchQueue or None
        The queue of the result; None if the plan ends in a sink.
    output : OutputBuffer, PageFileWriter or None
        The pages of a plan that ends in partitioned_output(), in memory or in one file.
    """

    def __init__(
        self,
        plan: LoweredPlan,
        settings: Settings,
        open_split: OpenSplit,
        open_recursion: OpenRecursion | None = None,
        reader: Account | None = None,
    ) -> None:
        assert settings.threads == plan.threads, "the plan is lowered for another number of threads"
        self.plan = plan
        self.settings = settings
        self.open_split = open_split
        self.open_recursion = open_recursion
        limit, pool = settings.memory_limit or 0, settings.memory_pool
        self.memory = Account(None, limit) if pool is None else pool.account(limit)
        if reader is not None:
            self.memory.read_by(reader)
        self.split_queues = {scan: SplitQueue(scan) for scan in plan.scans}
        self.parts: list[Any] = []
        for part in plan.parts:
            self.parts.append(part(self))
        bounds = {scan: [(bound, self.parts[bound.bridge]) for bound in of] for scan, of in plan.key_bounds.items()}
        self.filters = RuntimeFilters(bounds)
        self.results: BatchQueue | None = None if plan.results is None else self.parts[plan.results][0]
        self.output: OutputBuffer | PageFileWriter | None = None if plan.output is None else self.parts[plan.output]

    def queues(self, n_producers: int, n_queues: int, bytes_max: int = QUEUE_BYTES_MAX) -> list[BatchQueue]:
        """Make the queues of one exchange, or that of the result."""
        limit = self.settings.memory_limit or QUEUES_SHARE * n_queues * bytes_max
        share = max(QUEUE_BYTES_MIN, limit // QUEUES_SHARE // n_queues)
        return [BatchQueue(n_producers, bytes_max=min(share, bytes_max)) for _ in range(n_queues)]

    def chains(self, pipeline: Pipeline) -> list[list[Any]]:
        """Make the operators of every driver of a pipeline."""
        return [[make(driver, self) for make in pipeline.steps] for driver in range(pipeline.drivers)]


# (driver, run) → the driver's operator in this run.
MakeOperator = Callable[[int, Run], Any]
# Makes an element of `run.parts`, an object that drivers share, from a run.
MakePart = Callable[[Run], Any]


@record
class Pipeline:
    """A chain of steps, source first, run by `drivers` drivers."""

    drivers: int
    steps: list[MakeOperator] = field(default_factory=list)
    node_ids: list[str] = field(default_factory=list)

    def add(self, node_id: str, make: MakeOperator) -> None:
        """Append a step."""
        self.steps.append(make)
        self.node_ids.append(node_id)


@record(frozen=True)
class LoweredPlan:
    """A plan as pipelines, in the order in which they were closed. The last one returns the result.

    It has no state of a run. Any number of runs may use it, also at the same time.

    Attributes
    ----------
    plan : PlanNode
        The plan, views expanded.
    schema : pyarrow.Schema
        Schema of the result as the engine's batches have it.
    threads : int
        The number of drivers of a pipeline that can be split.
    scans : mapping of str to Scan
        The scan nodes whose splits come from the task, by id.
    scan_filters : mapping of str to (Scan, Expr or None)
        Each of them with its filter over the source's own column names.
    parts : sequence of callables
        Functions that make the objects that the drivers of a run share.
    key_bounds : mapping of str to sequence of KeyBound
        The runtime filters of scans.
    results, output : int or None
        Parts: the queue of the result in a list, and where the pages go.
    """

    plan: p.PlanNode
    schema: pa.Schema
    threads: int
    pipelines: list[Pipeline]
    scans: Mapping[str, p.Scan]
    parts: Sequence[MakePart]
    key_bounds: Mapping[str, Sequence[KeyBound]]
    results: int | None
    output: int | None

    scan_filters: Mapping[str, tuple[p.Scan, Expr | None]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        found = {id: (scan, source_filter(scan)) for id, scan in self.scans.items()}
        object.__setattr__(self, "scan_filters", found)
