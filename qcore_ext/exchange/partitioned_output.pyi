from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema
from qcore_ext.exchange.key_filter import KeyFilter, KeyHashes
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class PartitionedOutput(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        target: Any,
        n_partitions: int,
        key_names: list[str],
        page_bytes: int = 1 << 20,
        schema: Schema | None = None,
        hashes: KeyHashes | None = None,
        filter: KeyFilter | None = None,
    ) -> None: ...
