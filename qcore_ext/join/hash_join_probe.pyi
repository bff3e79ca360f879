from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge

@disjoint_base
class HashProbe(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        bridge: JoinBridge,
        key_names: Any,
        output: Any,
        condition_compile: Any = None,
        filtered: Schema | None = None,
    ) -> None: ...
