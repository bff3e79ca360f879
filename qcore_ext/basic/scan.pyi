from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.row_filter import RowFilter
from qcore_ext.data.schema import Schema
from qcore_ext.data.stored_rows import StoredRows
from qcore_ext.flow.operator import Operator
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account

@disjoint_base
class TableScan(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        split_queue: SplitQueue,
        schema: Schema,
        open_split: Callable[[Any], Any],
        batch_rows: int = 65536,
        drift: int = ...,
        row_filters: Sequence[RowFilter] = (),
        stored: StoredRows | None = None,
    ) -> None: ...
    @property
    def doing(self) -> str | None: ...
