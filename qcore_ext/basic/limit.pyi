from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class LimitState:
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    def __init__(self, count: Any, offset: Any = 0) -> None: ...

@disjoint_base
class Limit(Operator):
    def __init__(self, node_id: str, query_memory: Account, state: LimitState) -> None: ...
