from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class GroupingSets(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        sets: list[list[int]],
        numbers: list[int],
        n_keys: int,
        schema: Schema,
    ) -> None: ...
