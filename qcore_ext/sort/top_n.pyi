from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class TopN(Operator):
    def __init__(self, node_id: str, query_memory: Account, keys: list[Any], count: int, offset: int = 0) -> None: ...
