from collections.abc import Callable

from typing_extensions import disjoint_base

from qcore_ext.compute.program import Program
from qcore_ext.data.schema import Schema
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

@disjoint_base
class ProgramOperator(Operator):
    def __init__(
        self, name: str, node_id: str, query_memory: Account, compile: Callable[[Schema], Program]
    ) -> None: ...
