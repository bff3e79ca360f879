"""Parts of a plan that many places of it read: computed once from some number of copies on."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import pyarrow as pa

from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Shared, SharedRead

# Copies of a part that a plan has in their own places, each with its own conditions and columns.
COPIES_MAX = 16

MakePart = Callable[[NodeIds, ColumnNames], PlanNode]


class SharedPart:
    """Makes the plan of a part wherever one reads it: `copies` times anew, the last of which the others read.

    Without the limit parts that read one another several times would multiply. Plans are told apart by their NodeIds.
    """

    def __init__(self, make: MakePart, copies: int) -> None:
        self._make = make
        self._copies = copies
        self._made: WeakKeyDictionary[NodeIds, int] = WeakKeyDictionary()
        self._shared: WeakKeyDictionary[NodeIds, Shared] = WeakKeyDictionary()

    def __call__(self, ids: NodeIds, names: ColumnNames) -> PlanNode:
        shared = self._shared.get(ids)
        if shared is not None:
            held = shared.schema
            schema = pa.schema([field.with_name(names.new(field.name)) for field in held])
            return SharedRead(ids.new(), schema, shared.id, tuple(held.names), shared)
        made = self._make(ids, names)
        self._made[ids] = self._made.get(ids, 0) + 1
        if self._made[ids] < self._copies:
            return made
        self._shared[ids] = Shared(ids.numbered("part"), made.schema, made)
        return self._shared[ids]
