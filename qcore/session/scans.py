"""The scans of a running plan: their tables, their splits, and the streams that splits are opened as."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.connectors.base import Table
from qcore.connectors.files import SplitTable
from qcore.connectors.view import expand_view
from qcore.errors import PlanError
from qcore.expression.tree import Expr
from qcore.lowering.lowered import LoweredPlan
from qcore.lowering.runtime_filters import source_filter
from qcore.plan import nodes as p
from qcore_ext.execution.task import Task as EngineTask
from qcore_ext.ground.error_text import is_interrupt
from qcore_ext.ground.process import check_not_leaving, is_leaving

# Splits asked of a source for each driver: enough that all drivers end at about the same time.
SPLITS_PER_DRIVER = 8


class Scans:
    """The scan nodes of one lowered plan, by id."""

    def __init__(self, lowered: LoweredPlan, settings: Settings) -> None:
        self._settings = settings
        self.nodes = lowered.scans
        self._tables: dict[str, Table] = {
            scan.id: scan.source if scan.source is not None else SplitTable(source_schema(scan), scan.on_schema_change)
            for scan in self.nodes.values()
        }
        #: The scan that was last opened at each node, and its filter over the source's names.
        self._filters: dict[str, tuple[p.Scan, Expr | None]] = dict(lowered.scan_filters)

    def open(self, scan: p.Scan, split: Any) -> Any:
        """Open a split as an Arrow stream."""
        return self._tables[scan.id].open(split, scan.columns, self._filter(scan), self._settings.batch_rows)

    def check_takes(self, node_id: str) -> None:
        """Raise PlanError if the node is a scan whose source lists its splits: other splits would repeat rows."""
        scan = self.nodes.get(node_id)
        if scan is not None and scan.source is not None:
            raise PlanError(
                f"node {node_id!r} reads a table that lists its own splits; add splits to a scan without a source, "
                "made with scan(name, schema=...)"
            )

    def splits(self, scan: p.Scan) -> Iterable[Any]:
        """Ask the source of a scan for its splits."""
        target = self._settings.threads * SPLITS_PER_DRIVER
        splits: Iterable[Any] = scan.source.splits(scan.columns, self._filter(scan), target)
        return splits

    def _filter(self, scan: p.Scan) -> Expr | None:
        """The scan's filter for its source: one object for all splits, so that a source may cache results by it."""
        held, filter = self._filters.get(scan.id, (None, None))
        if held is not scan:
            filter = source_filter(scan)
            self._filters[scan.id] = (scan, filter)
        return filter


class SplitFeed:
    """Adds the splits of sources to the scans of a task.

    It holds no reference to a handle on the task, because its threads may outlive all handles.
    """

    def __init__(self, scans: Scans, engine: EngineTask) -> None:
        self._scans = scans
        self._engine = engine
        self._feeders: list[threading.Thread] = []
        self._waiting_splits: list[Any] = []

    def begin(self) -> None:
        """Add splits to the scans that have a source. A source whose splits may wait gets a separate thread."""
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
        """Add a source's splits to its scan. Any error ends the query, because the scan would wait for ever."""
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

    def stop(self) -> None:
        """Close the split iterators that may still wait: their splits are no longer wanted."""
        while self._waiting_splits:
            self._waiting_splits.pop().close()

    def stop_soon(self) -> None:
        """Do the same in another thread, because closing such an iterator may take long."""
        if self._waiting_splits and not is_leaving():
            threading.Thread(target=self.stop, daemon=True).start()

    def end(self) -> None:
        """Stop, and wait for the threads."""
        self.stop()
        for feeder in self._feeders:
            if feeder is not threading.current_thread():
                # While the interpreter shuts down, a thread that still runs never ends.
                feeder.join(0.0 if is_leaving() else None)


def expand_views(plan: p.PlanNode) -> p.PlanNode:
    """Return the plan with scans of views replaced by the views' plans."""
    if isinstance(plan, p.Scan):
        return expand_view(plan)
    old = plan.children
    children = [expand_views(child) for child in old]
    return plan if all(map(operator.is_, children, old)) else plan.with_children(*children)


def source_schema(scan: p.Scan) -> pa.Schema:
    """The scan's output schema with the source's own column names."""
    pairs = zip(scan.schema, scan.columns, strict=True)
    return pa.schema([field.with_name(name) for field, name in pairs])
