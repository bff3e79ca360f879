from typing_extensions import disjoint_base

from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account

@disjoint_base
class Widener:
    def __init__(self, account: Account) -> None: ...
    def widen(self, batch: PyBatch, target: Schema) -> PyBatch: ...
