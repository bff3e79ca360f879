"""The scans of a plan as what runs it sees them: their tables, their splits, their streams. SPEC V3."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.connectors.base import Table
from qcore.connectors.files import SplitTable
from qcore.connectors.view import expand_view
from qcore.expression.tree import Expr, col, substitute
from qcore.plan import nodes as p
from qcore_ext.execution.task import Task as EngineTask
from qcore_ext.ground.error_text import is_interrupt
from qcore_ext.ground.process import check_not_leaving, is_leaving

# Splits asked of a source for each driver: enough that the last ones even out.
SPLITS_PER_DRIVER = 8


class Scans:
    """The scan nodes of one plan, by id."""

    def __init__(self, plan: p.PlanNode, settings: Settings) -> None:
        self._settings = settings
        self.nodes = {node.id: node for node in own_nodes(plan) if isinstance(node, p.Scan)}
        self._tables: dict[str, Table] = {
            scan.id: scan.source if scan.source is not None else SplitTable(source_schema(scan), scan.on_schema_change)
            for scan in self.nodes.values()
        }
        #: The scan that was last asked for at each node, and its filter over the source's names.
        self._filters: dict[str, tuple[p.Scan, Expr | None]] = {}

    def open(self, scan: p.Scan, split: Any) -> Any:
        """A split as an Arrow stream."""
        return self._tables[scan.id].open(split, scan.columns, self._filter(scan), self._settings.batch_rows)

    def splits(self, scan: p.Scan) -> Iterable[Any]:
        """The splits of a scan that has a source."""
        target = self._settings.threads * SPLITS_PER_DRIVER
        splits: Iterable[Any] = scan.source.splits(scan.columns, self._filter(scan), target)
        return splits

    def _filter(self, scan: p.Scan) -> Expr | None:
        """One object for all splits, so that a source may keep what it found of it."""
        held, filter = self._filters.get(scan.id, (None, None))
        if held is not scan:
            filter = source_filter(scan)
            self._filters[scan.id] = (scan, filter)
        return filter


class SplitFeed:
    """Gives the scans of a task the splits of their sources.

    It refers to no handle on the task, since its threads may outlive all of them.
    """

    def __init__(self, scans: Scans, engine: EngineTask) -> None:
        self._scans = scans
        self._engine = engine
        self._feeders: list[threading.Thread] = []
        self._waiting_splits: list[Any] = []

    def begin(self) -> None:
        """Feed the scans that have a source; those whose splits wait for something, from threads of their own."""
        check_not_leaving()
        for scan in self._scans.nodes.values():
            if scan.source is None:
                continue
            if getattr(scan.source, "splits_wait", False):
                feeder = threading.Thread(target=self._feed_scan, args=(scan,), daemon=True)
                self._feeders.append(feeder)
                feeder.start()
            else:
                self._feed_scan(scan)

    def _feed_scan(self, scan: p.Scan) -> None:
        """Give a scan its source's splits. Whatever the source raises ends the query; its scan would wait for ever."""
        try:
            splits = self._scans.splits(scan)
            if getattr(scan.source, "splits_wait", False):
                self._waiting_splits.append(splits)
            for split in splits:
                if self._engine.state not in ("created", "running"):
                    break
                self._engine.add_split(scan.id, split)
            close = getattr(splits, "close", None)
            if close is not None:
                close()
            self._engine.no_more_splits(scan.id)
        except BaseException as error:
            if is_interrupt(error):
                self._engine.cancel("Ctrl-C")
                raise
            if self._engine.state in ("created", "running"):
                self._engine.fail_as(error, "TableScan", scan.id, "listing its splits")
                if threading.current_thread() not in self._feeders:
                    self._engine.wait()

    def leave(self) -> None:
        """End the sources that still wait for splits nobody wants any more."""
        while self._waiting_splits:
            self._waiting_splits.pop().close()

    def leave_soon(self) -> None:
        """The same, without waiting for what such a source has to end."""
        if self._waiting_splits and not is_leaving():
            threading.Thread(target=self.leave, daemon=True).start()

    def end(self) -> None:
        """As `leave`, and wait for the threads."""
        self.leave()
        for feeder in self._feeders:
            if feeder is not threading.current_thread():
                # Once the interpreter is leaving, a thread that still runs never ends.
                feeder.join(0.0 if is_leaving() else None)


def own_nodes(plan: p.PlanNode) -> Iterator[p.PlanNode]:
    """The nodes that the plan's task runs itself: what is below a RecursiveUnion runs in tasks of its own."""
    yield plan
    for child in () if isinstance(plan, p.RecursiveUnion) else plan.children:
        yield from own_nodes(child)


def expand_views(plan: p.PlanNode) -> p.PlanNode:
    """The plan with views replaced by what they stand for."""
    if isinstance(plan, p.Scan):
        return expand_view(plan)
    children = tuple(expand_views(child) for child in plan.children)
    if all(new is old for new, old in zip(children, plan.children, strict=True)):
        return plan
    return plan.with_children(*children)


def source_schema(scan: p.Scan) -> pa.Schema:
    """The scan's output schema under the source's own column names."""
    pairs = zip(scan.schema, scan.columns, strict=True)
    return pa.schema([field.with_name(name) for field, name in pairs])


def source_filter(scan: p.Scan) -> Expr | None:
    """The scan's pruning filter over the source's own column names."""
    if scan.filter is None:
        return None
    pairs = zip(scan.schema.names, scan.columns, strict=True)
    return substitute(scan.filter, {name: col(held) for name, held in pairs})
