"""Optimized plans of texts that a session has seen, so that a text seen before is not planned again."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field

from qcore.connectors.base import Table, table_version
from qcore.connectors.files import FileTable
from qcore.plan.nodes import PlanNode, Scan, TableWrite
from qcore.record import record
from qcore.session.task import LoweredPlans
from qcore_ext.ground.process import ProcessLock

PLANS_MAX = 256
# Longer texts usually contain data, such as thousands of constants, and are seldom repeated.
TEXT_LENGTH_MAX = 100_000


@record(frozen=True)
class PlannedQuery:
    """An optimized plan with the names of the result's columns and an estimate of each node's rows. After the first run
    it also keeps the lowered plan, with the programs of its expressions.
    """

    plan: PlanNode
    output_names: list[str] | None
    estimates: Callable[[PlanNode], float]

    #: The plan as it is run. Not a cached_property: before Python 3.12 its lock may be locked in a forked child.
    lowered: LoweredPlans = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lowered", LoweredPlans(self.plan, self.output_names))


@record(frozen=True)
class CacheAnswer:
    """Whether the plan of a query was in the plan cache, and the cache's counts with this query."""

    is_hit: bool
    hits: int
    misses: int

    def text(self) -> str:
        """The text that EXPLAIN ANALYZE shows."""
        return f"plan cache: {'hit' if self.is_hit else 'miss'} (hits: {self.hits:,}, misses: {self.misses:,})"


@record(frozen=True)
class _CachedPlan:
    """A plan, and the inputs that it was made from.

    `texts` are the query and the queries of the views that it may read, in lower case. `versions` are the versions of
    the tables that it reads. `listed` are tables of files that the query itself names; planning would list their files
    again.
    """

    query: PlannedQuery
    texts: tuple[str, ...]
    versions: tuple[tuple[Table, Hashable], ...]
    listed: tuple[FileTable, ...]

    def names(self, name: str) -> bool:
        """Whether the query may read a table of that name, in any case, with or without quotes."""
        word = re.compile(rf"(?<!\w){re.escape(name.lower())}(?!\w)")
        return any(word.search(text) for text in self.texts)

    def is_current(self) -> bool:
        """Whether the files of its tables are unchanged."""
        return all(table_version(table) == version for table, version in self.versions) and all(
            table.is_listed() for table in self.listed
        )


class PlanCache:
    """The plans of the last PLANS_MAX texts that can be planned once. Any thread may use it.

    A plan is dropped if a table or view that its text names is registered, changed or dropped. It is not reused if a
    file of its tables has another size or time of change. Plans that hold the current time, that write, that depend on
    rows read during planning (PIVOT without a list), or that read tables without a version are not kept.

    Attributes
    ----------
    hits, misses : int
        How many queries used a kept plan, and how many were planned.
    """

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[Hashable, _CachedPlan] = OrderedDict()
        #: Counts changes of tables and views. A plan is not kept if one of them changed during planning.
        self._changes = 0
        self._lock = ProcessLock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def state(self) -> int:
        """A number that changes when tables or views change. Read it before planning and pass it to `keep`."""
        return self._changes

    def answer(self, is_hit: bool) -> CacheAnswer:
        """Return the result of a lookup with the cache's counts."""
        return CacheAnswer(is_hit, self.hits, self.misses)

    def get(self, key: Hashable) -> PlannedQuery | None:
        """Return the plan of a text, or None: it must be planned."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
        is_current = entry is not None and entry.is_current()
        with self._lock:
            if entry is not None and is_current:
                self.hits += 1
                return entry.query
            self.misses += 1
            if entry is not None and self._entries.get(key) is entry:
                del self._entries[key]
        return None

    def keep(
        self,
        key: Hashable,
        query: PlannedQuery,
        read: PlanNode,
        texts: Sequence[str],
        listed: Iterable[FileTable],
        state: int,
    ) -> None:
        """Keep a plan, if it may be used again.

        Parameters
        ----------
        key : hashable
            The text and the settings that the plan depends on.
        query : PlannedQuery
            The plan.
        read : PlanNode
            The plan before it was optimized, whose scans have all tables that it was made of.
        texts : sequence of str
            The text, and those of the views that it may read.
        listed : iterable of FileTable
            Tables that the text itself names.
        state : int
            The cache's state before planning.
        """
        nodes = read.walk()
        if sum(map(len, texts)) > TEXT_LENGTH_MAX or any(isinstance(node, TableWrite) for node in nodes):
            return
        tables = {id(node.source): node.source for node in nodes if isinstance(node, Scan)}
        versions = [(table, table_version(table)) for table in tables.values()]
        if any(version is None for _, version in versions):
            return
        entry = _CachedPlan(query, tuple(text.lower() for text in texts), tuple(versions), tuple(listed))
        with self._lock:
            if state != self._changes:
                return
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > PLANS_MAX:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drop all plans."""
        with self._lock:
            self._entries.clear()

    def forget(self, name: str) -> None:
        """Drop the plans that may depend on the table or view of this name, which changes."""
        with self._lock:
            self._changes += 1
            # A quoted name doubles its quotes.
            doubtful = any(quote in name for quote in "\"`'")
            for key in [key for key, entry in self._entries.items() if doubtful or entry.names(name)]:
                del self._entries[key]
