"""Parts of a plan that are read in many places. They are computed once if there are too many copies."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import pyarrow as pa

from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Shared, SharedRead

# Up to this number of reads, each has its own copy of the part, with its own conditions and columns.
COPIES_MAX = 16

MakePart = Callable[[NodeIds, ColumnNames], PlanNode]


class SharedPart:
    """Gives the plan of a part for each read: `copies` times a new one. Further reads share the last of these.

    Without the limit the copies of parts that read each other several times would multiply. A plan is identified by its
    NodeIds.
    """

    def __init__(self, make: MakePart, copies: int) -> None:
        self._make = make
        self._copies = copies
        self._n_copies: WeakKeyDictionary[NodeIds, int] = WeakKeyDictionary()
        self._shared: WeakKeyDictionary[NodeIds, Shared] = WeakKeyDictionary()

    def __call__(self, ids: NodeIds, names: ColumnNames) -> PlanNode:
        shared = self._shared.get(ids)
        if shared is not None:
            held = shared.schema
            schema = pa.schema([field.with_name(names.new(field.name)) for field in held])
            return SharedRead(ids.new(), schema, shared.id, tuple(held.names), shared)
        plan = self._make(ids, names)
        self._n_copies[ids] = self._n_copies.get(ids, 0) + 1
        if self._n_copies[ids] < self._copies:
            return plan
        self._shared[ids] = Shared(ids.numbered("part"), plan.schema, plan)
        return self._shared[ids]
