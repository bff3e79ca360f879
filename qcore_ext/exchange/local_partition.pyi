from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class LocalPartition(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        queues: list[Any],
        kind: str = "gather",
        key_names: list[Any] | None = None,
        schema: Schema | None = None,
        by_part: bool = False,
        paged_rows_min: int = 131072,
        page_rows: int = 16256,
    ) -> None: ...
