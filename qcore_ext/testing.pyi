from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_ext.operators.operator import Operator

@disjoint_base
class BatchSource(Operator):
    def __init__(self, batches: list[Any], memory: Account, schema: Schema | None = None) -> None: ...

@disjoint_base
class Collector(Operator):
    def __init__(self, memory: Account) -> None: ...
    def take(self) -> Any: ...
